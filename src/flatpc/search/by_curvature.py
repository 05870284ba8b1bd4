"""Judges that put no rows aside: what a model would say of its own training rows had it not learnt from them.

| judge | judges a model by |
|---|---|
| `"loo"` | leaving each row out: one step of EM without it, and for a model with latents the information that is missing |
| `"evidence"` | the probability of the rows, weights integrated out, by EM's complete-data information |

One step of EM is all there is to a model that is counted. For one with latents it is too hopeful. By how much is asked of the
Hessian: Takeuchi's optimism, from a few steps of conjugate gradients, over the same by the complete-data information. What
leaving a row out costs is multiplied by that, by 1 to 4.

Both learn every model once, from all rows, so that nothing has to be learnt again. What neither sees is that a tree's edges were
learnt from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array
from flatpc.curvature.influences import leave_one_out
from flatpc.curvature.optimism import evidence, takeuchi, weighted_trace
from flatpc.learning.fitting import Fit
from flatpc.search import work
from flatpc.search.judging import BY_CURVATURE

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

PRIOR = {"loo": 0.05, "evidence": 0.5}
"""α of every weight: what the inputs of a search's models are smoothed with, and the least that Laplace's approximation bears."""
DRAWS, PRODUCTS = 2, 4
"""Of Takeuchi's optimism: random signs, and Hessian-vector products for each."""
MOST_MISSING = 4.0
"""Times what one step of EM says: beyond, the fit is so far from an optimum that the Hessian tells nothing about it."""
PASSES = {"loo": 6 + 3 * DRAWS * PRODUCTS, "evidence": 2}
"""Over all rows, that judging one model takes."""
GROWTH = 1.5
"""From one epoch of a round after which a model is judged to the next."""
WORSE = 2
"""Times in a row that a model is judged to be no better before its round ends."""
NAMES = {"loo": "rows left out by curvature", "evidence": "rows with weights integrated out"}
assert set(NAMES) == set(BY_CURVATURE)


@dataclass(frozen=True)
class CurvatureJudge:
    """One of them."""

    name: str
    missing: str

    def log_prob(self, circuit: Circuit, rows: Array, *, counted: bool) -> Array:
        """`[N]`: log-likelihoods of rows that the circuit was learnt from, as if it hadn't been."""
        if self.name == "evidence":
            plain = np.asarray(circuit.log_prob(rows, missing=self.missing))
            total = evidence(circuit, rows, prior=PRIOR["evidence"], structure="complete", missing=self.missing)
            return np.asarray(plain - plain.mean() + total / len(rows))
        options: Any = {"prior": PRIOR["loo"], "missing": self.missing}
        found = leave_one_out(circuit, rows, structure="complete", **options)
        if counted:
            return found
        one_step = weighted_trace(circuit, rows, reduction="mean", **options)
        optimism = takeuchi(circuit, rows, n_draws=DRAWS, n_steps=PRODUCTS, **options).value
        plain = np.asarray(circuit.log_prob(rows, missing=self.missing))
        factor = np.clip(optimism / one_step, 1.0, MOST_MISSING) if one_step > 0 else 1.0
        return np.asarray(plain - factor * (plain - found))

    def work(self, circuit: Circuit, n_rows: int) -> float:
        """Of judging once."""
        return work.of_rows(PASSES[self.name], n_rows, circuit.n_edges, len(circuit.nodes))


class Round:
    """A callback of `fit` that judges the circuit after ever more epochs, and ends the run when it gets no better."""

    def __init__(self, judge: CurvatureJudge, rows: Array, last: int) -> None:
        self.judge, self.rows, self.last = judge, rows, last
        self.next, self.worse, self.work = 1, 0, 0.0
        self.best: tuple[float, int, Circuit] | None = None

    def __call__(self, row: Any, circuit: Callable[[], Circuit]) -> bool:
        """Whether to end."""
        if row["epoch"] < min(self.next, self.last):
            return False
        self.next = max(row["epoch"] + 1, int(GROWTH * row["epoch"]))
        found = circuit()
        nll = -float(self.judge.log_prob(found, self.rows, counted=False).mean())
        self.work += self.judge.work(found, len(self.rows))
        if self.best is None or nll < self.best[0]:
            self.best, self.worse = (nll, row["epoch"], found), 0
        else:
            self.worse += 1
        return self.worse >= WORSE

    def of(self, result: Fit) -> Fit:
        """The run's result, with the best circuit by this judge."""
        if self.best is None:
            return result
        nll, epoch, circuit = self.best
        return replace(result, best_nll=nll, best_epoch=epoch, best_circuit=circuit)
