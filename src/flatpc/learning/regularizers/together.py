"""`regularizer=`: several regularisers of one run, checked against each other, the method and the rest of the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.learning.regularizers.base import ALONE, HOOKS, Regularizer, check_kind
from flatpc.learning.regularizers.registry import read_one

if TYPE_CHECKING:
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.regularizers.sharpness import Sharpness
    from flatpc.learning.steps.collect import Collect
    from flatpc.learning.steps.inputs import Group
    from flatpc.learning.steps.m_step import MStep
    from flatpc.learning.steps.method import Method
    from flatpc.learning.steps.rows import TrainingRows
    from flatpc.learning.steps.unconstrained import Unconstrained


@dataclass(frozen=True)
class Regularizers:
    """Regularisers that go together."""

    parts: tuple[Regularizer, ...] = ()

    @classmethod
    def read(cls, given: Any, method: Method) -> Regularizers:
        """What a user gave: None, a name, a regulariser, or several of them; checked against each other and the method."""
        several = given if isinstance(given, list | tuple) else () if given is None else (given,)
        parts: tuple[Regularizer, ...] = ()
        for each in several:
            part = read_one(each)
            check_kind(part, method)
            for other in parts:
                _check_pair(other, part, method)
            parts = (*parts, part)
        return cls(parts)

    def check(self, method: Method, judged: bool) -> None:
        """Raise if one doesn't go with the method's options, or needs validation rows that aren't there."""
        for part in self.parts:
            part.check(method, judged)

    # ---- what they do, hook by hook -------------------------------------------------------------------------------

    def that_defines(self, hook: str) -> Regularizer | None:
        """The one that acts there."""
        return next((part for part in self.parts if part.defines(hook)), None)

    @property
    def counts(self) -> tuple[float, float]:
        """Counts of each sum unit and of each unit of an input, all together."""
        found = [part.counts() for part in self.parts if part.defines("counts")]
        return sum(sums for sums, _ in found), sum(inputs for _, inputs in found)

    @property
    def penalty(self) -> Sharpness | None:
        """The penalty on the curvature."""
        part = self.that_defines("penalty")
        return None if part is None else part.penalty()

    def m_step(self, evaluator: Evaluator, groups: Sequence[Group]) -> MStep | None:
        """The M-step, if it isn't the plain one."""
        part = self.that_defines("m_step")
        return None if part is None else part.m_step(evaluator, groups)

    def collect(self, evaluator: Evaluator, rows: TrainingRows, seed: int, rank: int) -> Collect | None:
        """What adds up flows, if it isn't the plain one."""
        part = self.that_defines("collect")
        return None if part is None else part.collect(evaluator, rows, seed, rank)

    def unconstrained(self, evaluator: Evaluator, seed: int) -> Unconstrained | None:
        """The parameters that are learnt, if they aren't logits."""
        part = self.that_defines("unconstrained")
        return None if part is None else part.unconstrained(evaluator, seed)

    def add_gradients(self, z: Array, to: Array) -> None:
        """Add the gradients of penalties on z."""
        for part in self.parts:
            if part.defines("gradient"):
                to += part.gradient(z.copy())


def _check_pair(one: Regularizer, other: Regularizer, method: Method) -> None:
    names = " and ".join(sorted((type(one).__name__, type(other).__name__)))
    reasons = [one.objection(other, method), other.objection(one, method)]
    reasons += [why for hook, why in ALONE.items() if hook in HOOKS[method.kind] and one.defines(hook) and other.defines(hook)]
    for reason in reasons:
        if reason:
            raise OptionError(f"{names} can't be combined: {reason}; leave one out.")
