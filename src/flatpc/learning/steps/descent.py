"""Methods that follow a gradient: what `fp.Adam` and `fp.SGD` share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.learning.run.schedules import as_schedule, check_range
from flatpc.learning.steps.method import Method

if TYPE_CHECKING:
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.regularizers.together import Regularizers
    from flatpc.learning.run.distributed import Workers
    from flatpc.learning.steps.gradient import Gradient
    from flatpc.learning.steps.rows import TrainingRows


_CLIP = "it is the largest norm of a gradient, a positive number, or None"


class Descent(Method):
    """A step against a gradient, on one flat vector z of unconstrained parameters."""

    kind: ClassVar[str] = "gradient"
    clip: float | None

    def move(self, z: Array, gradient: Array, rate: float, state: dict[str, Array]) -> None:
        """Change z in place. `state` is empty at first, and holds all that steps remember."""
        raise NotImplementedError

    def learner(
        self, evaluator: Evaluator, rows: TrainingRows, regularizers: Regularizers, workers: Workers, seed: int
    ) -> Gradient:
        """What makes the steps."""
        from flatpc.learning.steps.gradient import Gradient

        collect = regularizers.collect(evaluator, rows, seed, workers.rank)
        return Gradient(evaluator, self, regularizers, workers, collect, seed)


def check_descent(method: Descent) -> None:
    """Check the options that all of them have."""
    name = type(method).__name__
    check_range(f"{name}: step_size", as_schedule(f"{name}: step_size", method.step_size), 0.0, math.inf, open_low=True)
    if method.clip is not None:
        put(method, clip=number(f"{name}: clip", method.clip, 0.0, above=True, what=_CLIP))
