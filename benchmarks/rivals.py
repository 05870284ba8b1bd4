"""What the rivals of sharpness-aware learning cost: time of a step over that of a plain one, one thread, batches of 200 rows.

Times are those of the processor, so that other work on the machine doesn't count.

python -m benchmarks rivals
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.learning import Dropout, Entropy, HyperWeights, Laplace, Softening
from flatpc.learning.regularizers.sam import SAM
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.distributed import Workers
from flatpc.learning.steps.rows import TrainingRows

BATCH = 200
VARIABLES, LATENTS, ROWS = 60, 32, 2000


def rows() -> NDArray[np.float64]:
    """Binary rows with dependence between neighbours."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, VARIABLES)) < 0.3
    for v in range(1, VARIABLES):
        X[:, v] = np.where(rng.random(ROWS) < 0.7, X[:, v - 1], X[:, v])
    return X.astype(float)


def learners(circuit: fp.Circuit, X: Any) -> dict[str, dict[str, Any]]:
    """Method -> name -> learner, the plain one first."""

    def learner(method: Any, *parts: Any) -> Any:
        regularizers = Regularizers.read(parts, method)
        return method.learner(Evaluator(circuit, "float64", n_threads=1), TrainingRows(X), regularizers, Workers(), 0)

    em, adam = fp.EM(0.1), fp.Adam(1e-3)
    return {
        "EM": {
            "plain": learner(em),
            "Sharpness()": learner(em, fp.Sharpness()),
            "Laplace()": learner(em, Laplace()),
            "Softening()": learner(em, Softening()),
            "Entropy()": learner(em, Entropy()),
            "Entropy(children=True)": learner(em, Entropy(children=True)),
            "Dropout(0.1)": learner(em, Dropout(0.1)),
            "Dropout(0.1, 0.1)": learner(em, Dropout(0.1, 0.1)),
            "Dropout(0.0, 0.1, rows_per_mask=1)": learner(em, Dropout(0.0, 0.1, 1)),
            "momentum=0.9": learner(fp.EM(0.1, momentum=0.9)),
            "momentum=0.9, anemone=True": learner(fp.EM(0.1, momentum=0.9, anemone=True)),
        },
        "Adam": {
            "plain": learner(adam),
            "Sharpness()": learner(adam, fp.Sharpness()),
            "SAM()": learner(adam, SAM()),
            "HyperWeights()": learner(adam, HyperWeights()),
        },
    }


def steps(repeats: int = 7) -> dict[str, dict[str, dict[str, float]]]:
    """Print a line per regulariser."""
    found: dict[str, dict[str, float]] = {}
    X = rows()
    circuit = fp.structures.hclt(X, LATENTS)
    print(f"Steps of {BATCH} rows, hidden Chow-Liu tree, {VARIABLES} variables, {LATENTS} latents, one thread:")
    for method, made in learners(circuit, X).items():
        taken: dict[str, list[float]] = {name: [] for name in made}
        evidence = {name: Evidence(learner.evaluator.program, X) for name, learner in made.items()}
        for turn in range(repeats + 1):
            batch = np.random.default_rng(turn).permutation(ROWS)[:BATCH]
            for name, learner in made.items():
                start = time.process_time()
                learner.step(evidence[name], batch, 0.0)
                if turn:  # the first one warms up
                    taken[name].append(time.process_time() - start)
        plain = min(taken["plain"])
        found[method] = {name: min(seconds) / plain for name, seconds in taken.items()}
        for name, seconds in taken.items():
            print(f"  {method:<5} {name:<36} {1e3 * min(seconds):8.2f} ms   {min(seconds) / plain:7.2f}x")
    _uncertainty(circuit, X[:BATCH])
    return {"times a plain step": found}


def _uncertainty(circuit: fp.Circuit, X: Any) -> None:
    for name, ask in (("log_prob", circuit.log_prob), ("dropout_uncertainty", partial(fp.queries.dropout_uncertainty, circuit))):
        ask(X[:2])
        start = time.process_time()
        ask(X)
        print(f"  {BATCH} rows: {name:<30} {1e3 * (time.process_time() - start):9.2f} ms")


PIECES = {"steps": steps}
