"""`fp.EM`: the options of expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flatpc._options import flag, number, put
from flatpc.learning.run.schedules import Schedule, as_schedule, check_range
from flatpc.learning.steps.method import Method

if TYPE_CHECKING:
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.regularizers.together import Regularizers
    from flatpc.learning.run.distributed import Workers
    from flatpc.learning.steps.em_learner import EMLearner
    from flatpc.learning.steps.rows import TrainingRows

_MOMENTUM = "it is the share of the past in the averaged flows, from 0 to less than 1"


@dataclass(frozen=True)
class EM(Method):
    """Learn by expectation maximisation: θ ← (1-α)θ + αθ̃, where θ̃ maximises the expected log-likelihood of a batch.

    Parameters
    ----------
    step_size
        The α of a step, greater than 0 and at most 1: a number or a schedule, such as `fp.learning.linear(0.5, 0.05)`.
    momentum
        Take the M-step from flows averaged over about 1 / (1 - momentum) batches; from 0 to less than 1.
    anemone
        Scale the step of every unit by the flow that the batch brings it, relative to what the model expects
        (Liu, Shao and Van den Broeck, 2025).

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> method = fp.EM(step_size=fp.learning.linear(0.5, 0.05), momentum=0.9)
    >>> fp.fit(fp.structures.hclt(X, n_latents=3), X, method=method, epochs=5, progress=False).stopped
    'epochs'
    """

    name: ClassVar[str] = "em"
    kind: ClassVar[str] = "em"
    step_size: float | Schedule = 0.1
    momentum: float = 0.0
    anemone: bool = False

    def __post_init__(self) -> None:
        remedy = "EM averages old and new parameters."
        check_range("EM: step_size", as_schedule("EM: step_size", self.step_size), 0.0, 1.0, open_low=True, remedy=remedy)
        put(
            self,
            momentum=number("EM: momentum", self.momentum, 0.0, 1.0, below=True, what=_MOMENTUM),
            anemone=flag("EM: anemone", self.anemone),
        )

    def learner(
        self, evaluator: Evaluator, rows: TrainingRows, regularizers: Regularizers, workers: Workers, seed: int
    ) -> EMLearner:
        """What makes the steps."""
        from flatpc.learning.steps.em_learner import EMLearner

        collect = regularizers.collect(evaluator, rows, seed, workers.rank)
        return EMLearner(evaluator, rows.weight, self, regularizers, workers, collect)
