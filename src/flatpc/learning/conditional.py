"""Learning what one variable is given the others: gradient descent on the mean of -log p(x_j | the rest).

That is log p(x) - log p(the rest), so its gradient is that of whole rows, less that of rows without the variable. A circuit tuned
like this predicts the variable better, and describes rows as a whole worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import instance, seed_number, thread_count, whole_number, wrong
from flatpc._typing import Array, Ints
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.engine.contract import get_evaluator
from flatpc.errors import DataError
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps import model
from flatpc.learning.steps.adam import Adam
from flatpc.learning.steps.descent import Descent
from flatpc.learning.steps.gradient import Gradient

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class ConditionalFit:
    """What `fit_conditional` returns."""

    circuit: Circuit
    """The best one by validation rows, if there are any; otherwise the last."""
    train_nll: tuple[float, ...]
    """Mean of -log p(x_j | the rest) over training rows, before learning and after every epoch."""
    valid_nll: tuple[float, ...]
    """The same of validation rows; empty without them."""
    best_epoch: int
    """Which one `circuit` is of; 0 is the circuit given."""


def fit_conditional(
    circuit: Circuit,
    X: Any,
    *,
    variable: int,
    valid: Any = None,
    method: Descent | None = None,
    sharpness: Sharpness | None = None,
    epochs: int = 50,
    batch_size: int | None = 200,
    patience: int = 5,
    missing: str = "raise",
    seed: int = 0,
    n_threads: int | None = None,
) -> ConditionalFit:
    """Tune a circuit to predict one variable from the others.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(200, 3))
    >>> X[:, 2] = X[:, 0] ^ X[:, 1]
    >>> start = fp.structures.hclt(X, n_latents=4, seed=1)
    >>> tuned = fp.learning.fit_conditional(start, X, variable=2, epochs=5)
    >>> tuned.train_nll[-1] < tuned.train_nll[0]
    True

    Parameters
    ----------
    circuit
        Where to start; preferably a circuit that was fitted to the rows.
    X
        Rows; where the variable is missing they are left out.
    variable
        Its number.
    valid
        Rows by which the best epoch is chosen, and learning ends early.
    method
        `fp.Adam` or `fp.SGD`; by default Adam with steps of 0.02.
    sharpness
        The penalty on curvature of whole rows, `fp.Sharpness(mu=…)`, with a number or a schedule for mu.
    epochs
        At the most.
    batch_size
        Rows of a step; None takes all.
    patience
        Epochs without a lower validation NLL after which learning ends.
    missing, seed, n_threads
        As for `fp.fit`.

    Returns
    -------
    ConditionalFit
        With the circuit, and how the NLL fell.

    Raises
    ------
    OptionError
        For an option out of its range, or a variable that is not there.
    DataError
        For rows that the circuit doesn't take, or of which none has the variable.
    """
    j = whole_number("variable", variable, 0, check_circuit(circuit).n_variables - 1)
    how = Adam(0.02) if method is None else instance("method", method, Descent, "fp.Adam() or fp.SGD()")
    if sharpness is not None and isinstance(instance("sharpness", sharpness, Sharpness, "fp.Sharpness()").mu, str):
        raise wrong("sharpness", sharpness, "give a number or a schedule for its mu.")
    whole_number("epochs", epochs, 0)
    whole_number("patience", patience, 1)
    rows = _known(read_rows(circuit, X, missing), j)
    judges = None if valid is None else _known(read_rows(circuit, valid, missing), j)
    size = len(rows) if batch_size is None else min(whole_number("batch_size", batch_size, 1), len(rows))
    evaluator = get_evaluator(circuit, dtype="float64", n_threads=thread_count(n_threads))
    learner = _Conditional(evaluator, how, Regularizers(() if sharpness is None else (sharpness,)), j)
    rng = np.random.default_rng(seed_number(seed))
    whole = learner.prepared(rows)
    judging = None if judges is None else learner.prepared(judges)
    train, valid_nll = [learner.nll(whole)], [] if judging is None else [learner.nll(judging)]
    best, best_epoch = model.to_circuit(evaluator), 0
    for epoch in range(1, epochs + 1):
        order = rng.permutation(len(rows))
        for start in range(0, len(order), size):
            learner.conditional_step(whole, order[start : start + size], (epoch - 1 + start / len(order)) / epochs)
        train.append(learner.nll(whole))
        if judging is None:
            best, best_epoch = model.to_circuit(evaluator), epoch
            continue
        valid_nll.append(learner.nll(judging))
        if valid_nll[-1] < valid_nll[best_epoch]:
            best, best_epoch = model.to_circuit(evaluator), epoch
        elif epoch - best_epoch >= patience:
            break
    return ConditionalFit(best, tuple(train), tuple(valid_nll), best_epoch)


class _Conditional(Gradient):
    """Descends the conditional NLL of a variable; the penalty is that of whole rows."""

    def __init__(self, evaluator: Any, method: Descent, regularizers: Regularizers, variable: int) -> None:
        super().__init__(evaluator, method, regularizers)
        self.variable = variable

    def prepared(self, rows: Array) -> tuple[Any, Any]:
        """Evidence of rows, and of rows without the variable."""
        rest = rows.copy()
        rest[:, self.variable] = np.nan
        return self.evaluator.evidence(rows), self.evaluator.evidence(rest)

    def nll(self, both: tuple[Any, Any]) -> float:
        """Mean of -log p(x_j | the rest)."""
        return float(np.mean(self.evaluator.log_prob(both[1]) - self.evaluator.log_prob(both[0])))

    def conditional_gradient(self, both: tuple[Any, Any], rows: Ints) -> tuple[Array, Array]:
        """Gradients in z of the mean conditional NLL, and of the mean penalty."""
        _, joint, penalty = self.gradients(both[0], rows)
        kept, self._penalised = self._penalised, None
        try:
            _, rest, _ = self.gradients(both[1], rows)
        finally:
            self._penalised = kept
        return joint - rest, penalty

    def conditional_step(self, both: tuple[Any, Any], rows: Ints, progress: float) -> None:
        """One step of the method."""
        gradient, penalty = self.conditional_gradient(both, rows)
        if self.sharpness is not None:
            gradient = gradient + self.sharpness.schedule(progress) * penalty
        norm = float(np.linalg.norm(gradient))
        if self.method.clip is not None and norm > self.method.clip:
            gradient *= self.method.clip / norm
        self.method.move(self.z, gradient, self.step_size(progress), self._memory)
        self.unconstrained.write(self.z)


def _known(rows: Array, j: int) -> Array:
    found = rows[~np.isnan(rows[:, j])]
    if len(found) == 0:
        raise DataError(f"No row has a value of variable {j}, so nothing can be learnt about it.")
    return found
