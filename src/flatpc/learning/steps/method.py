"""`method=` of `fit`: how parameters change from step to step. A method is a frozen dataclass with the options of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.loop import Learner
    from flatpc.learning.regularizers.together import Regularizers
    from flatpc.learning.run.distributed import Workers
    from flatpc.learning.run.schedules import Schedule
    from flatpc.learning.steps.rows import TrainingRows


@dataclass(frozen=True)
class Method:
    """What `fp.EM`, `fp.Adam`, `fp.SGD`, `fp.Newton` and `fp.NaturalGradient` have in common."""

    name: ClassVar[str]
    """Its short name: `method="em"` means `fp.EM()`."""
    kind: ClassVar[str]
    """`"em"`, `"gradient"` or `"newton"`: which hooks of a regulariser it uses."""
    exact: ClassVar[bool] = False
    """Whether each of its steps takes all rows, in float64."""
    step_size: float | Schedule = 0.1

    def learner(
        self, evaluator: Evaluator, rows: TrainingRows, regularizers: Regularizers, workers: Workers, seed: int
    ) -> Learner:
        """What makes the steps."""
        raise NotImplementedError


def read_method(given: Any) -> Method:
    """What a user gave: a name, or a method with its options."""
    from flatpc._options import choice, wrong
    from flatpc.learning.steps.adam import Adam
    from flatpc.learning.steps.em import EM
    from flatpc.learning.steps.newton import NaturalGradient, Newton
    from flatpc.learning.steps.sgd import SGD

    known = {kind.name: kind for kind in (EM, Adam, SGD, Newton, NaturalGradient)}
    if isinstance(given, Method):
        return given
    if isinstance(given, type) and issubclass(given, Method):
        raise wrong("method", given, f"give an instance, such as fp.{given.__name__}().")
    made: Method = known[choice("method", given, tuple(known), also="fp.EM(...), fp.Adam(...), fp.SGD(...) or fp.Newton(...)")]()
    return made
