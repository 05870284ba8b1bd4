"""Work that versions of flatpc are compared by, in the words of 0.1.0 and of today: what `benchmarks.against` asks each of.

    python -m benchmarks.cases

reads names of cases, a line each, and answers with the least seconds that the work took, of the thread's own time. The source
folder that PYTHONPATH names is the version that is measured.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import flatpc as fp
from benchmarks.binary_data import folder, train_rows
from benchmarks.random_circuits import random_dag, sharpened

SECONDS, FEWEST = 0.4, 3
Work = Callable[[], Any]


def _either(*places: str) -> Any:
    """A name from the first module that is there; versions have moved it."""
    for place in places:
        module, _, name = place.rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"none of {', '.join(places)}")


Evaluator = _either("flatpc.engine.numba.evaluator.Evaluator", "flatpc.engine.evaluator.Evaluator")
Evidence = _either("flatpc.engine.numba.evidence.Evidence", "flatpc.engine.evidence.Evidence")
Rule = _either("flatpc.engine.numba._kernels.columns.Rule", "flatpc.engine._kernels.update.Rule")
QUADRATIC = _either("flatpc.engine.numba._kernels.update.QUADRATIC", "flatpc.engine._kernels.update.QUADRATIC")
PLAIN = _either("flatpc.engine.numba._kernels.update.PLAIN", "flatpc.engine._kernels.update.PLAIN")
Passes = _either("flatpc.curvature.passes.Passes", "flatpc.curvature.Passes")
penalty_of_rows = _either("flatpc.curvature.penalties.penalty_of_rows", "flatpc.curvature.penalty_of_rows")


@cache
def _rows(name: str) -> Any:
    if name == "normal":
        return np.random.default_rng(0).standard_normal((500, 16))
    if name == "bits":
        return (np.random.default_rng(1).random((500, 16)) < 0.3).astype(float)
    return train_rows(name)


@cache
def _circuit(kind: str, data: str) -> Any:
    X = _rows(data)
    kind, _, size = kind.partition(" ")
    if kind == "hclt":
        return fp.structures.hclt(X, int(size))
    if kind == "chow-liu":
        return fp.structures.chow_liu(X)
    if kind == "rat-spn":
        return fp.structures.rat_spn(X.shape[1], 4, 10, int(size), int(size))
    return random_dag(int(size), X.shape[1])


def _prepared(kind: str, data: str, dtype: str, share: bool = True) -> tuple[Any, Any]:
    evaluator = Evaluator(_circuit(kind, data), dtype, n_threads=1)
    return evaluator, Evidence(evaluator.program, _rows(data), share=share)


def em_step(kind: str, data: str, dtype: str) -> Work:
    evaluator, evidence = _prepared(kind, data, dtype)
    rule = Rule(QUADRATIC, np.full(evaluator.program.n_steps, 0.1), 0.0, 0.1, np.empty(0, np.uint8))
    return lambda: evaluator.em_step(evidence, np.arange(200), rule)


def statistics(kind: str, data: str, dtype: str) -> Work:
    evaluator, evidence = _prepared(kind, data, dtype)
    rows = np.arange(min(2000, len(_rows(data))))
    return lambda: evaluator.statistics(evidence, rows)


def log_prob(kind: str, data: str, dtype: str) -> Work:
    evaluator, evidence = _prepared(kind, data, dtype)
    return lambda: evaluator.log_prob(evidence)


def public_log_prob(kind: str, data: str, dtype: str) -> Work:
    circuit, X = _circuit(kind, data), _rows(data)
    return lambda: circuit.log_prob(X, dtype=dtype)


def fit(kind: str, data: str, dtype: str) -> Work:
    """Three epochs, as a user asks for them."""
    circuit, X = _circuit(kind, data), _rows(data)[:2000]
    method = {"method": fp.EM(step_size=0.1)} if hasattr(fp, "EM") else {"step_size": 0.1}
    return lambda: fp.fit(circuit, X, epochs=3, batch_size=200, progress=False, dtype=dtype, n_threads=1, **method)


def _unsettled(dtype: str, n_latents: int) -> tuple[Any, Any]:
    """Rows whose evidence contradicts itself."""
    X = np.random.default_rng(0).integers(0, 2, (200, 100)).astype(np.float64)
    start = fp.structures.hclt(X, n_latents)
    circuit = start.with_parameters({i: sharpened(value) for i, value in start.parameters.items()})
    evaluator = Evaluator(circuit, dtype, n_threads=1)
    return evaluator, Evidence(evaluator.program, X)


def unsettled(dtype: str) -> Work:
    evaluator, evidence = _unsettled(dtype, 32)
    return lambda: evaluator.statistics(evidence, np.arange(200))


def em_step_of_unsettled(dtype: str) -> Work:
    """With as many weights as the paper's trees have, always from the same ones."""
    evaluator, evidence = _unsettled(dtype, 100)
    rule = Rule(PLAIN, np.zeros(evaluator.program.n_steps), 0.0, 0.1, np.empty(0, np.uint8))
    start = evaluator.weights.copy()

    def step() -> None:
        evaluator.weights[:] = start
        evaluator.em_step(evidence, np.arange(10), rule)

    return step


def trace(kind: str, data: str) -> Work:
    circuit, X = _circuit(kind, data), _rows(data)[:300]
    return lambda: fp.curvature.trace(circuit, X)


def product(kind: str, data: str) -> Work:
    operator = fp.curvature.operator(_circuit(kind, data), _rows(data)[:300])
    v = np.random.default_rng(0).standard_normal(operator.shape[0])
    return lambda: operator @ v


def penalty(kind: str, data: str, share: bool) -> Work:
    evaluator, evidence = _prepared(kind, data, "float64", share)
    passes = Passes(evaluator, leaves=False)
    return lambda: penalty_of_rows(passes, evidence, np.arange(200))


BOTH = ("float32", "float64")
ASKED: dict[str, tuple[Callable[..., Work], tuple[Any, ...]]] = {
    "EM step, Gaussian RAT-SPN, float32": (em_step, ("rat-spn 10", "normal", "float32")),
    "statistics, Gaussian RAT-SPN, float64": (statistics, ("rat-spn 10", "normal", "float64")),
    "log_prob, Gaussian RAT-SPN, float64": (log_prob, ("rat-spn 10", "normal", "float64")),
    "log_prob, scalar DAG, float64": (log_prob, ("dag 20000", "bits", "float64")),
    "statistics, scalar DAG, float64": (statistics, ("dag 20000", "bits", "float64")),
    **{f"statistics, unsettled rows, {dtype}": (unsettled, (dtype,)) for dtype in BOTH},
    "EM step, unsettled rows, float32": (em_step_of_unsettled, ("float32",)),
    "trace, Gaussian RAT-SPN": (trace, ("rat-spn 10", "normal")),
    "H·v, Gaussian RAT-SPN": (product, ("rat-spn 10", "normal")),
    "gradient of the penalty, Gaussian RAT-SPN": (penalty, ("rat-spn 10", "normal", False)),
}
"""What is measured, and how it is prepared."""
if folder() is not None:
    for data in ("nltcs", "plants", "dna"):
        ASKED[f"EM step, hclt 100, {data}, float32"] = em_step, ("hclt 100", data, "float32")
    for dtype in BOTH:
        ASKED[f"statistics, hclt 32, plants, {dtype}"] = statistics, ("hclt 32", "plants", dtype)
        ASKED[f"log_prob, hclt 32, plants, {dtype}"] = log_prob, ("hclt 32", "plants", dtype)
        ASKED[f"log_prob, Chow-Liu tree, plants, {dtype}"] = log_prob, ("chow-liu", "plants", dtype)
        ASKED[f"circuit.log_prob, hclt 8, nltcs, {dtype}"] = public_log_prob, ("hclt 8", "nltcs", dtype)
        ASKED[f"fit, hclt 16, plants, {dtype}"] = fit, ("hclt 16", "plants", dtype)
    ASKED["trace, hclt 32, plants"] = trace, ("hclt 32", "plants")
    ASKED["H·v, hclt 32, plants"] = product, ("hclt 32", "plants")
    ASKED["gradient of the penalty, hclt 32, plants"] = penalty, ("hclt 32", "plants", True)


def least_seconds(work: Work) -> float:
    """The quickest of several calls."""
    began, calls, found = time.perf_counter(), 0, np.inf
    while calls < FEWEST or (time.perf_counter() - began < SECONDS and calls < 200):
        before = time.thread_time()
        work()
        found = min(found, time.thread_time() - before)
        calls += 1
    return float(found)


def main() -> None:
    built: dict[str, Work] = {}
    for name in map(str.strip, sys.stdin):
        if name not in built:
            prepare, options = ASKED[name]
            built[name] = prepare(*options)
        built[name]()
        work = built[name]
        print(least_seconds(work), flush=True)


if __name__ == "__main__":
    main()
