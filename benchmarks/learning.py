"""What regularisation costs: time of a regularised Adam step over that of a plain one, one thread, batches of 200 rows.

python -m benchmarks.learning
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import flatpc as fp
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


PIECES = {"regularised_steps": regularised_steps}
