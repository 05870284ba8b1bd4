"""What regularisation costs, and what EM, Adam, Newton and natural gradients give in the same time.

python -m benchmarks.learning
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import flatpc as fp
from benchmarks import binary_data
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps.gradient import Gradient

BATCH = 200
LIMIT = 3.0
MODELS: dict[str, Callable[[], fp.Circuit]] = {
    "Einsum Network of the paper (2 variables, depth 1, K=10)": lambda: fp.structures.rat_spn(2, 1, 10, 10, 10),
    "RAT-SPN, 16 variables, depth 4, K=10": lambda: fp.structures.rat_spn(16, 4, 10, 10, 10),
    "RAT-SPN, 16 variables, depth 4, K=32": lambda: fp.structures.rat_spn(16, 4, 10, 32, 32),
}


def step_times(circuit: fp.Circuit, repeats: int) -> tuple[float, float]:
    """Least seconds of a plain and of a regularised step, taken in turns."""
    X = np.random.default_rng(0).standard_normal((BATCH, circuit.n_variables))
    learners = []
    for sharpness in (None, fp.Sharpness(mu=0.1)):
        evaluator = Evaluator(circuit, "float64", n_threads=1)
        method = fp.Adam(1e-3)
        learners.append((Gradient(evaluator, method, Regularizers.read(sharpness, method)), Evidence(evaluator.program, X)))
    rows = np.arange(BATCH)
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for (learner, evidence), taken in zip(learners, times, strict=True):
            start = time.perf_counter()
            learner.step(evidence, rows, 0.0)
            if turn:  # the first one warms up
                taken.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def regularised_steps() -> dict[str, dict[str, float]]:
    """Print a line per model."""
    found = {}
    print(f"A regularised Adam step over a plain one (at most {LIMIT:g}):")
    for name, build in MODELS.items():
        circuit = build()
        # The quicker a step, the more of them it takes for one that nothing disturbs.
        plain, regularised = step_times(
            circuit, 500 if circuit.n_parameters < 10**4 else 30 if circuit.n_parameters < 10**6 else 7
        )
        found[name] = regularised / plain
        print(f"  {name:<58} {1e3 * plain:8.2f} ms  {1e3 * regularised:8.2f} ms   {found[name]:5.2f}x")
    return {"times a plain step": found}


SECONDS = (2.0, 5.0, 10.0)
METHODS: dict[str, tuple[tuple[object, int | None], ...]] = {
    "EM": ((fp.EM(1.0), None),),
    "EM, batches": ((fp.EM(0.3), 200),),
    "Adam": ((fp.Adam(0.1), 200),),
    "Newton": ((fp.Newton(), None),),
    "natural gradient": ((fp.NaturalGradient(), None),),
    "EM, then Newton": ((fp.EM(1.0), None), (fp.Newton(), None)),
}
"""One stage after the other, with its batch size; the first of two has a quarter of the time."""


def per_second(names: tuple[str, ...] = ("ad",)) -> dict[str, dict[str, dict[str, float]]] | None:
    """Train NLL of a hidden Chow-Liu tree after so many seconds of the processor, by each method, from one start."""
    print("Train NLL of a hidden Chow-Liu tree of 8 latents, all rows, after seconds of the processor (one thread)")
    if binary_data.folder() is None:
        print("(left out: FLATPC_DATA names no folder with the binary data sets)\n")
        return None
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        X = binary_data.train_rows(name).astype(np.float64)
        start = fp.structures.hclt(X, 8, seed=0)
        print(f"{name:<20}" + "".join(f"{seconds:>10g}" for seconds in SECONDS))
        found[name] = {method: _after(start, X, stages) for method, stages in METHODS.items()}
        for method, reached in found[name].items():
            print(f"  {method:<18}" + "".join(f"{value:>10.4f}" for value in reached.values()), flush=True)
    print()
    return found


def _after(start: fp.Circuit, X: np.ndarray, stages: tuple[tuple[object, int | None], ...]) -> dict[str, float]:
    """By seconds, of the first epoch that ended after them; measuring is not timed."""
    fp.fit(start, X[:20], method=stages[-1][0], epochs=1, batch_size=stages[-1][1], progress=False, n_threads=1)  # compiles
    taken, circuit, reached = 0.0, start, {}
    for number, (method, batch_size) in enumerate(stages):
        end = SECONDS[-1] if number == len(stages) - 1 else SECONDS[-1] / 4
        resumed = time.process_time()

        def watch(row: object, now: Callable[[], fp.Circuit], end: float = end) -> bool:
            nonlocal taken, resumed, circuit
            taken += time.process_time() - resumed
            passed = [f"{seconds:g}" for seconds in SECONDS if taken >= seconds and f"{seconds:g}" not in reached]
            if passed or taken >= end:
                circuit = now()
                reached.update(dict.fromkeys(passed, -float(circuit.log_prob(X).mean())))
            resumed = time.process_time()
            return taken >= end

        options = {"epochs": 100_000, "batch_size": batch_size, "progress": False, "n_threads": 1}
        fp.fit(circuit, X, method=method, run=fp.learning.Run(callbacks=(watch,)), **options)
    return reached


PIECES = {"regularised_steps": regularised_steps, "per_second": per_second}
