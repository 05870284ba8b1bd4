"""`fp.Newton` and `fp.NaturalGradient`: the options of steps that take curvature into account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flatpc._options import number, put, whole_number
from flatpc.errors import OptionError
from flatpc.learning.run.schedules import Schedule, as_schedule, check_range
from flatpc.learning.steps.method import Method

if TYPE_CHECKING:
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.regularizers.together import Regularizers
    from flatpc.learning.run.distributed import Workers
    from flatpc.learning.steps.newton_learner import NewtonLearner
    from flatpc.learning.steps.rows import TrainingRows


@dataclass(frozen=True)
class Newton(Method):
    """Learn by truncated Newton steps: few, expensive ones, to polish a fit that EM improves only slowly.

    Each step takes all rows. It solves for a direction by conjugate gradients, with exact Hessian-vector products in logits and
    EM's complete-data information as preconditioner, and goes along it as far as the likelihood rises; where that is nowhere, it
    is a step of EM. So no step makes the likelihood of the rows worse. Inputs other than Bernoulli and Categorical ones move by
    EM.

    Parameters
    ----------
    step_size
        The length that the line search begins with, from 0 to 1: a number or a schedule.
    n_products
        The most Hessian-vector products of a step; each is about two passes over the rows.
    damping
        How much of the complete-data information is added to the Hessian at first; it grows where steps fail and shrinks where
        they don't. 0 is Newton's own step, 1 half a step of EM or more.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=3)
    >>> result = fp.fit(circuit, X, method=fp.Newton(n_products=10), epochs=5, progress=False)
    >>> bool((np.diff(result.history["train_nll"]) <= 0).all())
    True
    """

    name: ClassVar[str] = "newton"
    kind: ClassVar[str] = "newton"
    exact: ClassVar[bool] = True
    information: ClassVar[str] = "hessian"
    step_size: float | Schedule = 1.0
    n_products: int = 20
    damping: float = 0.1

    def __post_init__(self) -> None:
        kind = type(self).__name__
        check_range(f"{kind}: step_size", as_schedule(f"{kind}: step_size", self.step_size), 0.0, 1.0, open_low=True)
        put(
            self,
            n_products=whole_number(f"{kind}: n_products", self.n_products, 1),
            damping=number(f"{kind}: damping", self.damping, 0.0),
        )

    def learner(
        self, evaluator: Evaluator, rows: TrainingRows, regularizers: Regularizers, workers: Workers, seed: int
    ) -> NewtonLearner:
        """What makes the steps."""
        from flatpc.learning.steps.newton_learner import NewtonLearner

        if workers.n > 1:
            raise OptionError(f"method={self.name!r} learns in one process; choose 'em', 'adam' or 'sgd' for several.")
        if evaluator.engine != "numba":  # as the Hessian is
            raise OptionError(f"method={self.name!r} learns on the numba engine; leave engine and device out.")
        return NewtonLearner(evaluator, self, regularizers)


@dataclass(frozen=True)
class NaturalGradient(Newton):
    """Learn by natural gradients: Newton's steps with the Fisher information of the rows in place of the Hessian.

    The empirical Fisher information Σ g gᵀ, g being a row's gradient in logits, is never negative, so that no direction has to be
    given up; around a good fit it is near the Hessian. It needs the gradient of every row, and so suits circuits of some thousand
    weights. (With the complete-data information instead, a natural gradient step is one of EM.)

    Parameters
    ----------
    step_size
        The length that the line search begins with, from 0 to 1: a number or a schedule.
    n_products
        The most products with the information of a step.
    damping
        How much of the complete-data information is added at first.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=3)
    >>> result = fp.fit(circuit, X, method=fp.NaturalGradient(), epochs=5, progress=False)
    >>> bool((np.diff(result.history["train_nll"]) <= 0).all())
    True
    """

    name: ClassVar[str] = "natural-gradient"
    information: ClassVar[str] = "fisher"
