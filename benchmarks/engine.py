"""The CPU engine: evidence sharing and fused EM, against dense PyTorch, peers, the machine's own limit and plain NumPy.

HCLTs have 100 latents; arithmetic is float32; one thread on either side unless stated. With one thread the time is that thread's
own, so that other work on the machine disturbs little; with two it is the clock on the wall.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import flatpc as fp
from benchmarks.binary_data import NAMES, folder, train_rows
from benchmarks.clock import best, geometric_mean, sgemm_rate, two_copies, two_sgemms
from benchmarks.dense_step import DenseTree
from benchmarks.random_circuits import random_dag, sharpened
from flatpc.circuit.circuit import Circuit
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.update import QUADRATIC
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.torch.evaluator import TorchEvaluator

console = Console(width=130, highlight=False)
LATENTS, BATCH, MU, ALPHA = 100, 200, 0.1, 0.1
Rows = NDArray[np.float64]
Numbers = dict[str, Any]
"""What a piece found, for `benchmarks.record`."""


def quadratic(evaluator: Evaluator) -> Rule:
    return Rule(QUADRATIC, np.full(evaluator.program.n_steps, MU), 0.0, ALPHA, np.empty(0, np.uint8))


def prepare(circuit: Circuit, X: Rows, n_threads: int = 1) -> tuple[Evaluator, Evidence]:
    evaluator = Evaluator(circuit, "float32", n_threads)
    return evaluator, Evidence(evaluator.program, X)


def _prototype() -> ModuleType | None:
    """Another implementation to compare with: a Python file named by FLATPC_PROTOTYPE with Tree, dense_step, shared_step."""
    path = os.environ.get("FLATPC_PROTOTYPE")
    if not path:
        return None
    spec = importlib.util.spec_from_file_location("prototype", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prototype"] = module  # numba finds the kernels of a later run by this name
    spec.loader.exec_module(module)
    return module


def _prototype_steps(module: ModuleType, X: Rows) -> tuple[Any, Any]:
    tree = module.Tree(X.astype(np.uint8), LATENTS)
    ordered = X.astype(np.uint8)[:, tree.order]
    ids = module.sub_row_ids(ordered, tree)[:BATCH]
    x = torch.from_numpy(ordered[:BATCH].astype(np.int64))
    torch.manual_seed(0)
    w = torch.rand(tree.n, LATENTS, LATENTS) + 0.1
    w /= w.sum(-1, keepdim=True)
    leaf = torch.rand(tree.n, 2, LATENTS) * 0.8 + 0.1
    leaf /= leaf.sum(1, keepdim=True)
    scratch = w.clone().numpy()
    return (
        lambda: module.dense_step(tree, x, w, leaf, MU, ALPHA),
        lambda: module.shared_step(tree, x, ids, scratch, leaf.numpy(), MU, ALPHA),
    )


def torch_step(circuit: Circuit, X: Rows, rule: Rule) -> Any:
    """One EM step on the torch engine, as `fp.fit(engine="torch")` makes it."""
    evaluator = TorchEvaluator(circuit, "float32")
    evidence, rows = evaluator.evidence(X), np.arange(len(X))
    return lambda: evaluator.em_step(evidence, rows, rule)


def steps(names: tuple[str, ...] = NAMES) -> Numbers | None:
    """One EM step (E and M) at batch 200: times as fast as a dense one, by data set."""
    if not has_data():
        return None
    prototype = _prototype()
    table = Table(title=f"One EM step, batch {BATCH}, one thread: times as fast as ...", title_justify="left")
    columns = ["data", "ms", "dense step", "torch engine", "torch engine / dense step"]
    columns += ["other dense", "other shared"] if prototype else []
    for column in columns:
        table.add_column(column, justify="right")
    ratios: dict[str, list[float]] = {column: [] for column in columns[2:]}
    took = {}
    for name in names:
        X = train_rows(name)
        circuit = fp.structures.hclt(X, LATENTS)
        evaluator, evidence = prepare(circuit, X)
        rule, rows, dense = quadratic(evaluator), np.arange(BATCH), DenseTree(circuit)
        functions = [
            lambda e=evaluator, v=evidence, r=rule, b=rows: e.em_step(v, b, r),
            lambda d=dense, x=X: d.step(x[:BATCH], MU, ALPHA),
            torch_step(circuit, X[:BATCH], rule),
        ]
        functions += _prototype_steps(prototype, X) if prototype else ()
        ours, dense_time, torch_time, *others = best(*functions, clock=time.thread_time)
        row = [dense_time / ours, torch_time / ours, dense_time / torch_time, *(other / ours for other in others)]
        for column, ratio in zip(ratios, row, strict=True):
            ratios[column].append(ratio)
        took[name] = ours * 1e3
        table.add_row(name, f"{ours * 1e3:.2f}", *(f"{ratio:.1f}" for ratio in row))
    table.add_section()
    table.add_row("geometric mean", "", *(f"{geometric_mean(r):.1f}" for r in ratios.values()))
    table.add_row("smallest", "", *(f"{min(r):.1f}" for r in ratios.values()))
    console.print(table)
    found: Numbers = {"times as fast": dict(zip(names, ratios["dense step"], strict=True)), "ms": took}
    found["torch engine"] = dict(zip(names, ratios["torch engine / dense step"], strict=True))
    if prototype:
        other = np.divide(ratios["other dense"], ratios["torch engine"])
        found["torch engine, other dense"] = dict(zip(names, other.tolist(), strict=True))
    return found


def full_e_step(names: tuple[str, ...] = NAMES) -> Numbers | None:
    """Flows over all rows of a data set; the dense side, whose batches all cost the same, is timed on two of them."""
    if not has_data():
        return None
    table = Table(title="E-step over all rows, one thread", title_justify="left")
    for column in ("data", "rows", "seconds", "times as fast as the dense step", "peak memory, GiB"):
        table.add_column(column, justify="right")
    ratios = []
    for name in names:
        X = train_rows(name)
        circuit = fp.structures.hclt(X, LATENTS)
        evaluator, evidence = prepare(circuit, X)
        dense, rows = DenseTree(circuit), np.arange(len(X))
        starts = (0, BATCH)
        ours, dense_time = best(
            lambda e=evaluator, v=evidence, r=rows: e.statistics(v, r),
            lambda d=dense, x=X, s=starts: [d.step(x[i : i + BATCH], MU, ALPHA) for i in s],
            turns=2,
            fewest=1,
            clock=time.thread_time,
        )
        ratios.append(dense_time * len(X) / (BATCH * len(starts)) / ours)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        table.add_row(name, f"{len(X):,}", f"{ours:.3f}", f"{ratios[-1]:.1f}", f"{peak:.2f}")
    table.add_section()
    table.add_row("geometric mean", "", "", f"{geometric_mean(ratios):.1f}")
    console.print(table)
    return {"times as fast": dict(zip(names, ratios, strict=True))}


def threads(names: tuple[str, ...] = NAMES) -> Numbers | None:
    """Two threads against one, on data sets of 100 variables and more."""
    if not has_data():
        return None
    found = {}
    table = Table(title=f"One EM step, batch {BATCH}: two threads against one", title_justify="left")
    for column in ("data", "variables", "times as fast"):
        table.add_column(column, justify="right")
    for name in names:
        X = train_rows(name)
        if X.shape[1] < 100:
            continue
        circuit = fp.structures.hclt(X, LATENTS)
        pair = [prepare(circuit, X, n_threads) for n_threads in (1, 2)]
        one, two = best(*(lambda e=e, v=v: e.em_step(v, np.arange(BATCH), quadratic(e)) for e, v in pair))
        found[name] = one / two
        table.add_row(name, str(X.shape[1]), f"{found[name]:.2f}")
    products, copies = two_sgemms(), two_copies()
    table.add_section()
    table.add_row("two sgemms at once", "", f"{products:.2f}")
    table.add_row("two copies at once", "", f"{copies:.2f}")
    console.print(table)
    return {"times as fast": found, "two products": products, "two copies": copies}


def dense_work() -> Numbers:
    """Next to nothing to share: how much of the machine's own matrix rate is left."""
    rng = np.random.default_rng(0)
    rate = sgemm_rate()
    table = Table(title="E-step with next to nothing to share: arithmetic done, one thread", title_justify="left")
    for column in ("circuit", "sub-rows / rows", "gigaflops", "of sgemm"):
        table.add_column(column, justify="right")
    bits = (rng.random((400, 100)) < 0.5).astype(float)
    gaussian = rng.standard_normal((400, 16))
    cases = {
        "HCLT, 100 random bits, K=100": (fp.structures.hclt(bits, 100), bits),
        "RAT-SPN, 16 Gaussians, depth 4, K=32": (fp.structures.rat_spn(16, 4, 4, 32, 32), gaussian),
    }
    found = {}
    for label, (circuit, X) in cases.items():
        evaluator, evidence = prepare(circuit, X)
        (seconds,) = best(lambda e=evaluator, v=evidence: e.statistics(v, np.arange(len(v))), seconds=3.0, clock=time.thread_time)
        rows_of = evidence.plan(np.arange(len(X))).batch.at[:, columns.ROWS]
        program = evaluator.program
        weights = {int(program.step_of[i]): np.asarray(circuit.parameters[i]).size for i in program.weight_blocks}
        flops = sum(6.0 * size * rows_of[s] for s, size in weights.items())
        shared = np.mean([rows_of[s] for s in weights]) / len(X)
        found[label] = flops / seconds / rate
        table.add_row(label, f"{shared:.2f}", f"{flops / seconds / 1e9:.1f}", f"{found[label]:.0%}")
    table.add_row("sgemm, 1000 × 1000", "", f"{rate / 1e9:.1f}", "100%")
    console.print(table)
    return {"of sgemm": found, "gigaflops": rate / 1e9}


def numpy_interpreter(circuit: Circuit, X: Rows) -> Rows:
    """The obvious way: node by node, one NumPy operation per edge over all rows."""
    values: list[Any] = []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            p = circuit.parameters[i]["p"][0]  # type: ignore[call-overload, index]
            values.append(np.where(X[:, node.variable] == 1, p, 1 - p))
        elif isinstance(node, fp.Product):
            value = values[node.children[0]]
            for c in node.children[1:]:
                value = value * values[c]
            values.append(value)
        else:
            weights = np.asarray(circuit.parameters[i])[0]
            value = weights[0] * values[node.children[0]]
            for weight, c in zip(weights[1:], node.children[1:], strict=True):
                value = value + weight * values[c]
            values.append(value)
    return np.log(values[-1])


def irregular() -> Numbers:
    """A scalar DAG of 100,000 nodes."""
    circuit = random_dag(100_000, 16)
    evaluator = Evaluator(circuit, "float64", 1)
    console.print(f"Irregular scalar DAG over 16 variables, {len(circuit.nodes):,} nodes, {circuit.n_edges:,} edges, float64:")
    found = {}
    for n_rows in (1, 16, 200):
        X = (np.random.default_rng(1).random((n_rows, 16)) < 0.3).astype(float)
        evidence, dense = Evidence(evaluator.program, X), Evidence(evaluator.program, X, share=False)
        np.testing.assert_allclose(evaluator.log_prob(evidence), numpy_interpreter(circuit, X), rtol=1e-9)
        shared, unshared, plain = best(
            lambda v=evidence: evaluator.log_prob(v),
            lambda v=dense: evaluator.log_prob(v),
            lambda x=X: numpy_interpreter(circuit, x),
            fewest=1,
            clock=time.thread_time,
        )
        found[n_rows] = plain / shared
        console.print(
            f"  {n_rows} rows: {shared / circuit.n_edges / n_rows * 1e9:.2f} ns per edge and row, "
            f"{plain / shared:.0f} times as fast as a NumPy interpreter ({plain / unshared:.0f} without sharing)"
        )
    console.print()
    return {"nodes": len(circuit.nodes), "times as fast": found}


def unsettled() -> Numbers:
    """Rows whose evidence contradicts itself, which plain EM makes with its sharp weights."""
    X = np.random.default_rng(0).integers(0, 2, (BATCH, 100)).astype(np.float64)
    start = fp.structures.hclt(X, LATENTS)
    circuit = start.with_parameters({i: sharpened(value) for i, value in start.parameters.items()})
    (single, evidence), double = prepare(circuit, X), Evaluator(circuit, "float64", 1)
    rows, weights = np.arange(BATCH), np.ones(BATCH)
    counts = {}
    for evaluator in (single, double):
        plan = evidence.plan(rows)
        evaluator.up(plan)
        counts[evaluator.dtype] = int(evaluator.root(plan)[1].sum())

    def ask(evaluator: Evaluator) -> Any:
        gradient = np.zeros(evaluator.program.n_weights, evaluator.dtype)
        return evaluator._add_unsettled(evidence, rows, weights, gradient, np.zeros(evaluator.program.n_inputs), None)

    np.testing.assert_allclose(ask(single), ask(double), rtol=1e-5)
    again, by_row = best(lambda: ask(single), lambda: ask(double), fewest=1, clock=time.thread_time)
    console.print(
        f"of {BATCH} rows float32 can't settle {counts['float32']}, float64 {counts['float64']}: "
        f"again in float64 {by_row / again:.0f} times as fast as row by row in the log domain\n"
    )
    return {"times as fast": by_row / again}


def start_up() -> Numbers:
    """Importing the package, in a new process."""
    command = "import time; t = time.perf_counter(); import flatpc; print(time.perf_counter() - t)"
    seconds = min(
        float(subprocess.run([sys.executable, "-c", command], capture_output=True, check=True).stdout) for _ in range(3)
    )
    console.print(f"import flatpc: {seconds:.2f} s\n")
    return {"seconds": seconds}


def has_data() -> bool:
    """Whether the binary data sets are there; says so if not."""
    if folder() is None:
        console.print("Left out: it needs the binary data sets; set FLATPC_DATA to a folder that has debd/*.npz.\n")
    return folder() is not None


def prepare_machine() -> None:
    torch.set_num_threads(1)


PIECES: dict[str, Callable[..., Numbers | None]] = {
    "start_up": start_up,
    "irregular": irregular,
    "dense_work": dense_work,
    "unsettled": unsettled,
    "steps": steps,
    "full_e_step": full_e_step,
    "threads": threads,
}
BY_DATA = ("steps", "full_e_step", "threads")
"""Pieces that take names of data sets."""
