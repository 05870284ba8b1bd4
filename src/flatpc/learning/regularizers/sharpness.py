"""What to do about sharpness while learning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flatpc._messages import VALID, Message, Option
from flatpc._options import choice, flag, instance, number, put
from flatpc.errors import OptionError
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.run.schedules import Constant, Schedule, as_schedule, check_range
from flatpc.learning.steps.method import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flatpc.engine.contract import Evaluator
    from flatpc.learning.steps.inputs import Group
    from flatpc.learning.steps.m_step import KernelStep

UPDATES = ("quadratic", "cubic")
MULTIPLIERS = ("renormalize", "exact")
UNITS = ("counts", "batch-counts", "mean-flow")
SPACES = ("weights", "logits", "logit-gradient")
_GIVE = "fp.Sharpness(...), such as fp.Sharpness(mu=0.1)"
METHODS = {"mean-flow": "em", "adaptive": "adam and sgd"}
RULES = ("overfitting", "released")


@dataclass(frozen=True)
class Sharpness(Regularizer):
    """Learn a flatter model: a penalty μ on the trace of the Hessian of the log-likelihood.

    Parameters
    ----------
    mu
        A number, a schedule (`fp.learning.linear(1.0, 0.0)`), `"mean-flow"` (EM: each layer's mean edge flow, that is
        `mu=1` in units of it) or `"adaptive"` (gradient learning: set after every epoch so that penalty and likelihood pull
        equally hard, harder the more the model overfits; needs validation rows).
    update
        EM: `"quadratic"` solves λθ² - Fθ - μF = 0 (penalty μ Σ F/θ), `"cubic"` solves λθ³ - Fθ² - 2μF² = 0 (penalty
        μ Σ F²/θ²), F being an edge's flow.
    multiplier
        EM: `"renormalize"` takes λ = 1 and divides by the sum; `"exact"` finds the λ for which weights sum to one.
    unit
        EM: `"counts"` states μ as it stands in the equations above, F being counts over the training data: a batch's share of the
        rows takes the same share of μ. `"batch-counts"` takes μ as it is with the flows of every batch, however small.
        `"mean-flow"` is in units of the layer's mean flow per edge, which means the same for all sizes of data and of layers,
        and for both multipliers.
    inputs
        EM: whether Bernoulli and categorical inputs are regularised too.
    space
        Gradient learning: the penalty is the trace in the space of the `"weights"`, the exact trace in `"logits"`, or the
        sum of squares of the `"logit-gradient"`.
    kappa, scale, max_overfitting
        Options of the adaptive μ = kappa^DoF · scale · ‖∇NLL‖ / ‖∇R‖, with DoF the degree of overfitting in percent, counted up
        to `max_overfitting`.
    rule
        How the adaptive μ is set. `"overfitting"` is the paper's: the formula above, with gradients in all parameters added
        up over an epoch. `"released"` is that of its authors' code: norms are medians over five batches, in the sums' logits
        alone; DoF is relative to the validation NLL and counts only after an epoch in which the training NLL fell and the
        validation NLL rose; where both moved the same way, μ is a hundredth.

    Raises
    ------
    OptionError
        If an option is of the wrong type or out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.Sharpness(mu=0.5).update
    'quadratic'
    """

    mu: float | str | Schedule = 0.1
    update: str = "quadratic"
    multiplier: str = "renormalize"
    unit: str = "counts"
    inputs: bool = False
    space: str = "weights"
    kappa: float = 1.05
    scale: float = 1.0
    max_overfitting: float = 100.0
    rule: str = "overfitting"

    def __post_init__(self) -> None:
        known = {"update": UPDATES, "multiplier": MULTIPLIERS, "unit": UNITS, "space": SPACES, "rule": RULES}
        for name, names in known.items():
            choice(f"Sharpness: {name}", getattr(self, name), names)
        if isinstance(self.mu, str):
            choice("Sharpness: mu", self.mu, tuple(METHODS), also="a number")
        else:
            check_range("Sharpness: mu", self.schedule, 0.0, math.inf)
        put(
            self,
            inputs=flag("Sharpness: inputs", self.inputs),
            kappa=number("Sharpness: kappa", self.kappa, 1.0),
            scale=number("Sharpness: scale", self.scale, 0.0),
            max_overfitting=number(
                "Sharpness: max_overfitting", self.max_overfitting, 0.0, infinite=True, what="it is a percentage of 0 or more"
            ),
        )

    @property
    def schedule(self) -> Schedule:
        """μ as a schedule; 1 for `"mean-flow"`, whose unit is the mean flow."""
        if isinstance(self.mu, str):
            return Constant(1.0)
        return as_schedule("Sharpness: mu", self.mu, "give a number, a schedule, 'mean-flow' or 'adaptive'")

    @property
    def relative(self) -> bool:
        """Whether μ is in units of the mean flow of a layer."""
        return (isinstance(self.mu, str) and self.mu == "mean-flow") or self.unit == "mean-flow"

    def m_step(self, evaluator: Evaluator, groups: Sequence[Group]) -> KernelStep:
        """One of the equations above, in native code."""
        from flatpc.learning.steps.m_step import KernelStep

        return KernelStep(evaluator, groups, self)

    def penalty(self) -> Sharpness:
        """The penalty is this one."""
        return self

    def objection(self, other: Regularizer, method: Method) -> str:
        """Gradients of the penalty are those of the rows as they are."""
        if method.kind == "gradient" and other.defines("collect"):
            return f"with method={method.name!r} the penalty is that of the rows as they are (method='em' takes both)"
        return ""

    def check(self, method: Method, judged: bool) -> None:
        """Raise if μ is of a kind that the method doesn't have, or needs validation rows."""
        is_em, given = method.kind == "em", Option("mu", self.mu)
        if (self.mu == "adaptive" and is_em) or (self.mu == "mean-flow" and not is_em):
            assert isinstance(self.mu, str)
            other = "mean-flow" if is_em else "adaptive"
            text = f"{given} is for {METHODS[self.mu]}, not for {method.name}; choose a number or {other!r}."
            raise OptionError(Message(text, given), option="mu")
        if self.mu == "adaptive" and not judged:
            raise OptionError(Message(f"{given} measures overfitting by validation rows; pass {VALID}", given, VALID))


def check_sharpness(value: Any) -> Sharpness:
    """The option `sharpness` of those who learn, unless it is None or `"auto"`."""
    checked: Sharpness = instance("sharpness", value, Sharpness, _GIVE)
    return checked


def is_auto(option: Any) -> bool:
    """Whether a user left the choice of an option to us."""
    return isinstance(option, str) and option == "auto"
