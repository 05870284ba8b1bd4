"""Rows from files beside rows in memory, a fit that is killed, Dask workers, and a model from which larger ones are extrapolated.

python -m benchmarks scaling

`FLATPC_SCALE=1` measures at full size: 20 million rows x 50 columns from files, 5 million x 100 with 100 latents on workers. The
default, 0.02, takes minutes. `python -m benchmarks scaling.killed` measures one piece. Rows are written to the folder of
temporary files (`TMPDIR`), about one bit per value, and removed at the end of a piece: 140 MB at full size.

Fits from files are whole ones of three epochs, with one thread that learns and one that reads; processor time counts both. A tree
of 3,072 variables of 256 values, and steps by torch beside dense ones, have one size.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record

SCALE = record.SCALE
TURNS = 2 if SCALE < 1 else 1
"""Of measurements, of which the fastest counts; a long one needs no second."""
EPOCHS, BATCH = 3, 5000
IN_MEMORY = 1_300_000
"""Rows in memory, at most: of so many it is worked out once which sub-rows are alike; of more, anew for every batch."""

FIT = """
import json, sys, time
import numpy as np
import flatpc as fp
from flatpc.engine.numba import evidence
from flatpc.queries.streaming import Asked, totals_of

folder, start, how, rows, epochs, batch = *sys.argv[1:4], *map(int, sys.argv[4:])
source = fp.tables.scan(folder)
if how == "files":  # its memory counts; the others take the tree that it has found
    fp.structures.hclt(source, 16).save(start)
circuit = fp.load(start)
fp.fit(circuit, source.sample(2000).to_numpy().astype(float), epochs=1, progress=False)  # kernels are there
X = source
if how != "files":
    X, n = np.empty((min(rows, source.n_rows), 50)), 0
    for block in source.blocks():
        X[n : n + len(block)] = block.to_numpy()[: len(X) - n]
        n += len(block)
        if n >= len(X):
            break
if how == "by batch":
    evidence.MAX_TABLE_BYTES = 0
marks = []
mark = lambda *_: marks.append((time.perf_counter(), time.process_time()))
mark()
learnt = fp.fit(circuit, X, epochs=epochs, batch_size=batch, n_threads=1, progress=False, run=fp.learning.Run(callbacks=[mark]))
if how == "files":
    totals_of(Asked(learnt.circuit), source)
    learnt.circuit.sample(1000)
n = source.n_rows if how == "files" else len(X)
rate = {"whole": epochs * n / (np.array(marks[-1]) - marks[0]), "further": (epochs - 1) * n / (np.array(marks[-1]) - marks[1])}
peak = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 2**10
print(json.dumps({"rows": n, "peak MiB": peak, **{name: dict(zip(("clock", "processor"), of)) for name, of in rate.items()}}))
"""

RESUMED = """
import hashlib, json, sys
import numpy as np
import flatpc as fp
from flatpc.learning.run import checkpoint

folder, start, path, epochs, batch, seconds = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
began, read = [0, 0], checkpoint.read
def reading(*given):
    found = read(*given)
    began[:] = (found.epoch, found.batches) if found else (0, 0)
    return found
checkpoint.read = reading
run = fp.learning.Run(checkpoint=path or None, checkpoint_seconds=seconds, callbacks=[lambda *_: print("epoch", flush=True)])
learnt = fp.fit(fp.load(start), fp.tables.scan(folder), epochs=epochs, batch_size=batch, n_threads=1, progress=False, run=run)
bits = hashlib.sha256()
for i, value in learnt.circuit.parameters.items():
    for array in value.values() if isinstance(value, dict) else (value,):
        bits.update(np.ascontiguousarray(array).tobytes())
print(json.dumps({"bits": bits.hexdigest(), "began": began}))
"""

TREE_OF_IMAGES = """
import json, time
import numpy as np
import flatpc as fp

n_pixels, n_rows = 3072, 5000
rng = np.random.default_rng(0)
X = rng.integers(0, 256, (n_rows, n_pixels // 16)).repeat(16, axis=1) + rng.integers(-20, 20, (n_rows, n_pixels))
X = np.clip(X, 0, 255)
learn = lambda X: fp.structures.hclt(X, 8, family=fp.Categorical(256), bins=32)
learn(X[:, :200])  # kernels are there
start, used = time.perf_counter(), time.process_time()
learn(X)
clock, cpu = time.perf_counter() - start, time.process_time() - used
peak = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 2**20
print(json.dumps({"variables": n_pixels, "rows": n_rows, "seconds": cpu, "by the clock": clock, "peak GiB": peak}))
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


def files() -> dict[str, Any]:
    """Whole fits from files and from memory, and the peak of memory of fitting, scoring and sampling from files."""
    n = int(20e6 * SCALE)
    with tempfile.TemporaryDirectory() as place:
        folder, start = Path(place) / "rows", Path(place) / "start"
        make_rows(folder, n, 50)
        turns: dict[str, list[dict[str, Any]]] = {"files": [], "memory": [], "by batch": []}
        for _ in range(TURNS):
            for how, found in turns.items():
                command = [sys.executable, "-c", FIT, str(folder), str(start), how, str(IN_MEMORY), str(EPOCHS), str(BATCH)]
                found.append(json.loads(_output(command)))
    rate = {
        how: {
            part: {clock: max(turn[part][clock] for turn in found) for clock in found[0][part]} for part in ("whole", "further")
        }
        for how, found in turns.items()
    }
    out: dict[str, Any] = {
        "rows": n, "rows in memory": turns["memory"][0]["rows"], "epochs": EPOCHS,
        "rows per second": rate["files"]["whole"]["clock"], "peak MiB": max(turn["peak MiB"] for turn in turns["files"]),
    }  # fmt: skip
    for how in ("memory", "by batch"):
        out[f"of {how}"] = {
            part: {clock: of / rate[how][part][clock] for clock, of in clocks.items()} for part, clocks in rate["files"].items()
        }
    print(f"{n:,} rows x 50 from files, 16 latents, {EPOCHS} epochs: {out['rows per second']:,.0f} rows/s; peak "
          f"{out['peak MiB']:,.0f} MiB (less than 1,024).\n"
          f"Of the rate of {out['rows in memory']:,} rows in memory (at least 0.8):")  # fmt: skip
    for how, what in (("memory", "numbered once"), ("by batch", "numbered by batch, as more than that would be")):
        for part in ("whole", "further"):
            ratio = out[f"of {how}"][part]
            print(f"  {what}, {'the whole fit' if part == 'whole' else 'each further epoch'}: {ratio['clock']:.2f} by the clock, "
                  f"{ratio['processor']:.2f} by processor time")  # fmt: skip
    return out


def killed() -> dict[str, Any]:
    """A fit from files that is killed in the middle of its second epoch and resumed, beside one that is left alone."""
    import flatpc as fp

    n, seconds = int(20e6 * SCALE), max(5.0 * SCALE, 0.1)
    with tempfile.TemporaryDirectory() as place:
        rows, start, path = (os.path.join(place, name) for name in ("rows", "start", "run.ckpt"))
        make_rows(Path(rows), n, 50)
        fp.structures.hclt(fp.tables.scan(rows), 16).save(start)
        command = [sys.executable, "-c", RESUMED, rows, start]
        options = ["2", str(BATCH), str(seconds)]  # epochs: one that is whole, and one to be killed in
        run = subprocess.Popen([*command, path, *options], stdout=subprocess.PIPE, text=True)
        assert run.stdout is not None
        run.stdout.readline()  # the first epoch is done
        seen: set[int] = set()
        while len(seen) < 4 and run.poll() is None:  # written after the epoch, and then in the midst of the next one
            seen.add(os.stat(path).st_mtime_ns)
            time.sleep(0.002)
        run.kill()
        run.wait()
        resumed = json.loads(_output([*command, path, *options]).splitlines()[-1])
        alone = json.loads(_output([*command, "", *options]).splitlines()[-1])
    epoch, batches = resumed["began"]
    if not batches:
        raise SystemExit("The fit was not killed in the middle of an epoch; measure again.")
    same = resumed["bits"] == alone["bits"]
    print(f"{n:,} rows x 50 from files, two epochs: killed after {batches} of {-(-n // BATCH)} batches of epoch {epoch + 1} "
          f"and resumed from its checkpoint, all parameters have {'the same' if same else 'OTHER'} bits as without.")  # fmt: skip
    return {"rows": n, "epoch": epoch + 1, "batches": batches, "of": -(-n // BATCH), "same bits": same}


def _output(command: list[str]) -> str:
    """Of a process; what it says of an error is shown."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def images() -> dict[str, float]:
    """The hidden Chow-Liu tree of images of 32 x 32 pixels in three colours, none of which is background."""
    out: dict[str, float] = json.loads(_output([sys.executable, "-c", TREE_OF_IMAGES]))
    print(f"A tree of {out['variables']:,} variables of 256 values, {out['rows']:,} rows, 32 bins: "
          f"{out['seconds']:.0f} s of processor time (less than 60), {out['by the clock']:.0f} s by the clock; "
          f"peak {out['peak GiB']:.2f} GiB (less than 2).")  # fmt: skip
    return out


def torch_steps() -> dict[str, object] | None:
    """Steps of EM by torch on one thread: times as fast as dense ones in plain PyTorch, also those of FLATPC_PROTOTYPE."""
    from benchmarks import engine

    engine.prepare_machine()
    found = engine.steps(("nltcs", "plants", "jester", "dna", "kosarek"))
    return found and {name: ratios for name, ratios in found.items() if name.startswith("torch")}


def workers() -> dict[str, object]:
    """A step of EM over all rows on one and on two Dask workers, by the clock and by the processor time of the busiest one."""
    import flatpc as fp
    from flatpc.learning.steps.em import EM

    n, latents = int(5e6 * SCALE), 100
    seconds, clock, handing_out = {1: math.inf, 2: math.inf}, {1: math.inf, 2: math.inf}, math.inf
    with tempfile.TemporaryDirectory() as place:
        make_rows(Path(place) / "all", n, 100)
        make_rows(Path(place) / "few", 4096, 100)
        rows = fp.tables.scan(Path(place) / "all", block_rows=max(min(BLOCK, n // 16), 256))
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
        per_task = _seconds_per_task(there.cluster.client)
    by_clock = clock[1] / clock[2]
    model = Machine.measured(n, circuit.n_edges, seconds[1] - handing_out, handing_out, per_task)
    predicted = {count: model.step(n, circuit.n_edges, count) for count in (1, 2)}
    print(f"{n:,} rows x 100, {latents} latents, {circuit.n_edges:,} edges: two workers are {by_clock:.2f} times as fast as one "
          f"by the clock (at least 1.7 on two free cores). By processor time of the busiest worker, of which two have half the "
          f"work each by construction: {seconds[1] / seconds[2]:.2f}; the model says {predicted[1] / predicted[2]:.2f}. "
          f"A task takes the scheduler {1e3 * per_task:.2f} ms.")  # fmt: skip
    busy = max(os.getloadavg()[0] - 2, 0.0)
    return {"rows": n, "edges": circuit.n_edges, "clock": clock, "by the clock": by_clock, "seconds": seconds,
            "gain": seconds[1] / seconds[2], "handing out": handing_out, "seconds per task": per_task, "predicted": predicted,
            "busy": busy, "machine": f"{record.processor()}, {os.cpu_count()} cores"}  # fmt: skip


def _seconds_per_task(client: Any, n: int = 1000) -> float:
    """Of a scheduler that hands out tasks which do nothing, one after the other as fast as it can."""
    started = time.perf_counter()
    client.gather(client.map(_nothing, range(n), pure=False))
    return (time.perf_counter() - started) / n


def _nothing(number: int) -> int:
    return number


# ---- the model ------------------------------------------------------------------------------------------------------------

BLOCK = 16_384
"""Rows of a task."""


@dataclass(frozen=True)
class Machine:
    """What a worker can do, and what is between workers."""

    seconds_per_edge: float
    """Of an E-step, per edge and row that is worked on: a forward and a backward pass, 6 operations."""
    disk: float = 1e9
    """Bytes per second of a worker; assumed."""
    network: float = 1e9 / 8
    """Bytes per second from one worker to another; assumed: between processes of one machine nothing is known of networks."""
    seconds_per_task: float = 5e-3
    """Of the one scheduler, whatever the number of workers."""
    handing_out: float = 0.0
    """Seconds of a step in the process that hands out the work: the M-step, packing, reading a sample."""
    sharing: float = 1.0
    """Edges that are worked on, of all."""

    @classmethod
    def measured(cls, n_rows: int, n_edges: int, worker: float, client: float, per_task: float) -> Machine:
        """One worker of this machine, from the seconds of a step that it made, and of what handed it out."""
        return cls(worker / (n_rows * n_edges), network=1e9, handing_out=client, seconds_per_task=per_task)

    def parts(self, n_rows: float, n_edges: float, n_workers: int, n_columns: int = 100) -> dict[str, float]:
        """Seconds of a step by what takes them: passes, reading, tasks, and parameters there and back.

        Parameters go to every worker along a tree, and sums come back along one, each of the size of all weights in float32. Each
        block of rows is a task, and adding up along a tree is about as many; one scheduler hands out all of them.
        """
        levels = math.ceil(math.log2(n_workers)) if n_workers > 1 else 0
        return {
            "passes": n_rows * n_edges * self.sharing * self.seconds_per_edge / n_workers,
            "reading": n_rows * n_columns / self.disk / n_workers,
            "tasks": 2 * math.ceil(n_rows / BLOCK) * self.seconds_per_task,
            "network": (2 * levels + 1) * 4 * n_edges / self.network,
        }

    def step(self, n_rows: float, n_edges: float, n_workers: int) -> float:
        """Seconds; reading and handing out tasks go on beside the passes."""
        parts = self.parts(n_rows, n_edges, n_workers)
        return max(parts["passes"], parts["reading"], parts["tasks"]) + parts["network"] + self.handing_out

    def saturation(self, n_rows: float, n_edges: float) -> tuple[int, str]:
        """The most workers with which passes take longest of all parts, 0 if none, and what takes longer with one more."""

        def longest(n_workers: int) -> str:
            parts = self.parts(n_rows, n_edges, n_workers)
            return max(parts, key=lambda part: parts[part])

        low, high = 0, 1
        while longest(high) == "passes":
            low, high = high, 2 * high
            if high > 1 << 60:
                raise ValueError("Nothing but the passes takes time.")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if longest(middle) == "passes" else (low, middle)
        return low, longest(high)


CLUSTERS = {
    "this machine, 2 cores": (2, Machine(2e-10)),
    "16 machines x 64 cores, 10 Gbit/s": (1024, Machine(2e-10, network=10e9 / 8 / 64)),
    "128 machines x 96 cores, 100 Gbit/s": (12_288, Machine(2e-10, network=100e9 / 8 / 96)),
    "64 GPUs of 80 GB, 400 Gbit/s": (64, Machine(6 / 50e12, disk=5e9, network=400e9 / 8)),
}
"""Name -> workers, each a core or a GPU, and what each can do. Cores: 30 Gflop/s in float32, without sharing.
GPUs: 50 Tflop/s, about a third of what the data sheet says of float32 in tensor cores."""


def simulated(n_rows: float = 1e9, n_edges: float = 1e8) -> dict[str, dict[str, object]]:
    """Step of EM over all rows on named clusters, what takes longest there, and what would with more workers."""
    out: dict[str, dict[str, object]] = {}
    print(f"A step of EM over {n_rows:.0e} rows with {n_edges:.0e} weights:")
    for name, (n_workers, machine) in CLUSTERS.items():
        parts = machine.parts(n_rows, n_edges, n_workers)
        longest = max(parts, key=lambda part: parts[part])
        most, then = machine.saturation(n_rows, n_edges)
        out[name] = {"hours": machine.step(n_rows, n_edges, n_workers) / 3600, "longest": longest, "useful workers": most,
                     "saturates": then, **{part: value / 3600 for part, value in parts.items()}}  # fmt: skip
        print(f"  {name:<40} {out[name]['hours']:12,.2f} hours, most of it {longest}; with more than {most:,} workers "
              f"{then} saturates first")  # fmt: skip
    return out


PIECES = {
    "files": files,
    "killed": killed,
    "images": images,
    "torch_steps": torch_steps,
    "workers": workers,
    "simulated": simulated,
}
