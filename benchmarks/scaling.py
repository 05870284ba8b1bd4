"""Rows from files beside rows in memory, Dask workers, and a model of both from which larger ones are extrapolated.

python -m benchmarks scaling

`FLATPC_SCALE=1` measures at full size: 20 million rows x 50 columns from files, 5 million x 100 with 100 latents on workers. The
default, 0.02, takes minutes. Rates count the processor time of one thread and the threads that read for it. A tree of 3,072
variables of 256 values, and steps by torch beside dense ones, have one size.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import record

SCALE = float(os.environ.get("FLATPC_SCALE", "0.02"))
TURNS = 2 if SCALE < 1 else 1
"""Of epochs, of which the faster counts; a long one needs no second."""
EPOCH = """
import json, sys, time
import numpy as np
import flatpc as fp
from flatpc.queries.streaming import Asked, totals_of

folder, how, batch, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
source = fp.tables.scan(folder)
circuit = fp.structures.hclt(source, 16)
fp.fit(circuit, source.sample(2000).to_numpy().astype(float), epochs=1, progress=False)  # kernels are there
X = source
if how == "memory":
    X = np.concatenate([block.to_numpy() for block in source.blocks()])[:rows].astype(float)
start, used = time.perf_counter(), time.process_time()
learnt = fp.fit(circuit, X, epochs=1, batch_size=batch, n_threads=1, progress=False)
seconds, cpu = time.perf_counter() - start, time.process_time() - used
if how == "files":
    totals_of(Asked(learnt.circuit), source)
    learnt.circuit.sample(1000)
n = len(X) if how == "memory" else source.n_rows
peak = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 2**10
print(json.dumps({"rate": n / seconds, "cpu_rate": n / cpu, "peak MiB": peak, "rows": n}))
"""


def make_rows(folder: Path, n_rows: int, n_columns: int, per_file: int = 1_000_000) -> None:
    """Parquet files of binary rows with some structure: each column often repeats the one before."""
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, n_rows, per_file)):
        n = min(per_file, n_rows - start)
        X = rng.integers(0, 2, size=(n, n_columns), dtype=np.uint8)
        for v in range(1, n_columns):
            X[:, v] = np.where(rng.random(n, dtype=np.float32) < 0.7, X[:, v - 1], X[:, v])
        pl.DataFrame(X, schema=[f"x{v}" for v in range(n_columns)]).write_parquet(folder / f"{number:04}.parquet")


def files() -> dict[str, float]:
    """One epoch of EM from files beside one from memory, and the peak of memory of fitting, scoring and sampling."""
    n, batch = int(20e6 * SCALE), 5000
    with tempfile.TemporaryDirectory() as place:
        make_rows(Path(place), n, 50)
        found = {}
        for how in ("files", "memory"):
            command = [sys.executable, "-c", EPOCH, place, how, str(batch), str(min(n, 2_000_000))]
            turns = [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(TURNS)]
            found[how] = max(turns, key=lambda turn: turn["cpu_rate"])
    ratio = found["files"]["cpu_rate"] / found["memory"]["cpu_rate"]
    print(f"{n:,} rows x 50 from files, 16 latents: {found['files']['rate']:,.0f} rows/s, {ratio:.2f} of those in memory (at "
          f"least 0.8, by processor time); peak {found['files']['peak MiB']:,.0f} MiB (less than 1,024).")  # fmt: skip
    return {"rows": n, "of the rate in memory": ratio, "rows per second": found["files"]["rate"],
            "peak MiB": found["files"]["peak MiB"]}  # fmt: skip


def images() -> dict[str, float]:
    """The hidden Chow-Liu tree of images of 32 x 32 pixels in three colours, none of which is background."""
    import flatpc as fp

    n_pixels, n_rows = 3_072, 5_000
    rng = np.random.default_rng(0)
    X = np.clip(
        rng.integers(0, 256, (n_rows, n_pixels // 16)).repeat(16, axis=1) + rng.integers(-20, 20, (n_rows, n_pixels)), 0, 255
    )
    small = X[:, :200]
    fp.structures.hclt(small, 8, family=fp.Categorical(256), bins=32)  # kernels are there
    start, used = time.perf_counter(), time.process_time()
    fp.structures.hclt(X, 8, family=fp.Categorical(256), bins=32)
    clock, cpu = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"A tree of {n_pixels:,} variables of 256 values, {n_rows:,} rows, 32 bins: {cpu:.0f} s of processor time (less than "
          f"60), {clock:.0f} s by the clock; peak {peak:.2f} GiB (less than 2).")  # fmt: skip
    return {"variables": n_pixels, "rows": n_rows, "seconds": cpu, "by the clock": clock, "peak GiB": peak}


def torch_steps() -> dict[str, object] | None:
    """Steps of EM by torch on one thread: times as fast as dense ones in plain PyTorch, also those of FLATPC_PROTOTYPE."""
    from benchmarks import engine

    engine.prepare_machine()
    found = engine.steps(("nltcs", "plants", "jester", "dna", "kosarek"))
    return found and {name: ratios for name, ratios in found.items() if name.startswith("torch")}


def workers() -> dict[str, object]:
    """A step of EM over all rows on one and on two Dask workers: seconds of the busiest one, and of what hands out the work."""
    import flatpc as fp
    from flatpc.learning.steps.em import EM

    n, latents = int(5e6 * SCALE), 100
    seconds, clock, handing_out = {1: math.inf, 2: math.inf}, {1: math.inf, 2: math.inf}, math.inf
    with tempfile.TemporaryDirectory() as place:
        make_rows(Path(place) / "all", n, 100)
        make_rows(Path(place) / "few", 4096, 100)
        rows = fp.tables.scan(Path(place) / "all", block_rows=max(min(16_384, n // 16), 256))
        few = fp.tables.scan(Path(place) / "few", block_rows=1024)
        circuit = fp.structures.hclt(rows, latents)
        for _ in range(TURNS):
            for count in (1, 2):
                step = {"epochs": 1, "batch_size": None, "method": EM(1.0), "progress": False}
                fp.fit(circuit, few.on("dask", n_workers=count), **step)  # every worker has its kernels
                there = rows.on("dask", n_workers=count)
                before, used = there.cluster.client.run(time.process_time), time.process_time()
                start = time.perf_counter()
                fp.fit(circuit, there, **step)
                clock[count] = min(clock[count], time.perf_counter() - start)
                after = there.cluster.client.run(time.process_time)
                busiest = max(after[worker] - before[worker] for worker in after)
                client = time.process_time() - used
                seconds[count], handing_out = min(seconds[count], busiest + client), min(handing_out, client)
    gain = seconds[1] / seconds[2]
    model = Machine.measured(n, circuit.n_edges, seconds[1] - handing_out, handing_out)
    predicted = {count: model.step(n, circuit.n_edges, count) for count in (1, 2)}
    print(f"{n:,} rows x 100, {latents} latents, {circuit.n_edges:,} edges: two workers are {gain:.2f} times as fast as one by "
          f"processor time, {clock[1] / clock[2]:.2f} times by the clock (at least 1.7 on two free cores); the model says "
          f"{predicted[1] / predicted[2]:.2f}.")  # fmt: skip
    busy = max(os.getloadavg()[0] - 2, 0.0)
    return {"rows": n, "edges": circuit.n_edges, "seconds": seconds, "gain": gain,
            "by the clock": clock[1] / clock[2], "predicted": predicted, "busy": busy,
            "machine": f"{record.processor()}, {os.cpu_count()} cores"}  # fmt: skip


# ---- the model ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """What a worker can do, and what is between workers."""

    seconds_per_edge: float
    """Of an E-step, per edge and row that is worked on: a forward and a backward pass, 6 operations."""
    disk: float = 1e9
    """Bytes per second."""
    network: float = 1e9 / 8
    """Bytes per second from one worker to another."""
    latency: float = 5e-3
    """Seconds per task."""
    handing_out: float = 0.0
    """Seconds of a step in the process that hands out the work: the M-step, packing, reading a sample."""
    sharing: float = 1.0
    """Edges that are worked on, of all."""

    @classmethod
    def measured(cls, n_rows: int, n_edges: int, worker: float, client: float) -> Machine:
        """One worker of this machine, from the seconds of a step that it made, and of what handed it out."""
        return cls(worker / (n_rows * n_edges), network=1e9, handing_out=client)

    def parts(self, n_rows: float, n_edges: float, n_workers: int, n_columns: int = 100) -> dict[str, float]:
        """Seconds of a step by what takes them: passes, reading, and parameters there and back.

        Parameters go to every worker along a tree, and sums come back along one, each of the size of all weights in float32.
        """
        levels = math.ceil(math.log2(n_workers)) if n_workers > 1 else 0
        tasks = max(n_rows / 16_384 / n_workers, 1)
        return {
            "passes": n_rows * n_edges * self.sharing * self.seconds_per_edge / n_workers,
            "reading": n_rows * n_columns / self.disk / n_workers,
            "network": (2 * levels + 1) * 4 * n_edges / self.network,
            "tasks": tasks * self.latency + self.handing_out,
        }

    def step(self, n_rows: float, n_edges: float, n_workers: int) -> float:
        """Seconds; reading goes on beside the passes."""
        parts = self.parts(n_rows, n_edges, n_workers)
        return max(parts["passes"], parts["reading"]) + parts["network"] + parts["tasks"]


CLUSTERS = {
    "this machine, 2 cores": (2, Machine(2e-10)),
    "16 machines x 64 cores, 10 Gbit/s": (1024, Machine(2e-10, network=10e9 / 8 / 64)),
    "128 machines x 96 cores, 100 Gbit/s": (12_288, Machine(2e-10, network=100e9 / 8 / 96)),
    "64 GPUs of 80 GB, 400 Gbit/s": (64, Machine(6 / 50e12, disk=5e9, network=400e9 / 8)),
}
"""Name -> workers, each a core or a GPU, and what each can do. Cores: 30 Gflop/s in float32, without sharing.
GPUs: 50 Tflop/s, about a third of what the data sheet says of float32 in tensor cores."""


def simulated(n_rows: float = 1e9, n_edges: float = 1e8) -> dict[str, dict[str, object]]:
    """Step of EM over all rows on named clusters, and what saturates first."""
    out: dict[str, dict[str, object]] = {}
    print(f"A step of EM over {n_rows:.0e} rows with {n_edges:.0e} weights:")
    for name, (n_workers, machine) in CLUSTERS.items():
        parts = machine.parts(n_rows, n_edges, n_workers)
        first = max(parts, key=lambda part: parts[part])
        # Halving the passes of a worker is worth it until the network takes as long.
        most = int(n_rows * n_edges * machine.seconds_per_edge / max(parts["network"], 1e-9))
        out[name] = {"hours": machine.step(n_rows, n_edges, n_workers) / 3600, "first": first, "useful workers": most,
                     **{part: value / 3600 for part, value in parts.items()}}  # fmt: skip
        print(f"  {name:<40} {out[name]['hours']:12,.2f} hours, most of it {first}; passes last longer than the network up to "
              f"{most:,} workers")  # fmt: skip
    return out


PIECES = {"files": files, "images": images, "torch_steps": torch_steps, "workers": workers, "simulated": simulated}
