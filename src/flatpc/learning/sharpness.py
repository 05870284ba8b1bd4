"""What to do about sharpness while learning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flatpc.errors import OptionError
from flatpc.learning.schedules import Constant, Schedule, check_range

UPDATES = ("quadratic", "cubic")
MULTIPLIERS = ("renormalize", "exact")
UNITS = ("counts", "mean-flow")
SPACES = ("weights", "logits", "logit-gradient")
METHODS = {"mean-flow": "em", "adaptive": "adam and sgd"}


@dataclass(frozen=True)
class Sharpness:
    """Learn a flatter model: a penalty μ on the trace of the Hessian of the log-likelihood.

    >>> Sharpness(mu=0.5).update
    'quadratic'

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
        EM: `"counts"` states μ as it stands in the equations above, F being counts over the training data; `"mean-flow"` in the
        layer's mean flow per edge, which means the same for all sizes of data and of layers, and for both multipliers.
    inputs
        EM: whether Bernoulli and categorical inputs are regularised too.
    space
        Gradient learning: the penalty is the trace in the space of the `"weights"`, the exact trace in `"logits"`, or the
        sum of squares of the `"logit-gradient"`.
    kappa, scale, max_overfitting
        Of the adaptive μ = kappa^DoF · scale · ‖∇NLL‖ / ‖∇R‖, with DoF the degree of overfitting in percent, counted up to
        `max_overfitting`.
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

    def __post_init__(self) -> None:
        _choose("update", self.update, UPDATES)
        _choose("multiplier", self.multiplier, MULTIPLIERS)
        _choose("unit", self.unit, UNITS)
        _choose("space", self.space, SPACES)
        if isinstance(self.mu, str):
            _choose("mu", self.mu, ("a number", *METHODS), hidden=1)
        else:
            check_range("Sharpness(mu=...)", self.schedule, 0.0, math.inf)
        for name, value, least in (("kappa", self.kappa, 1.0), ("scale", self.scale, 0.0)):
            if not (least <= value < math.inf):
                raise OptionError(f"Sharpness({name}={value}); it must be a finite number of at least {least:g}.")
        if not self.max_overfitting >= 0:
            raise OptionError(f"Sharpness(max_overfitting={self.max_overfitting}); it is a percentage of 0 or more.")

    @property
    def schedule(self) -> Schedule:
        """μ as a schedule; 1 for `"mean-flow"`, whose unit is the mean flow."""
        if self.mu == "mean-flow":
            return Constant(1.0)
        if callable(self.mu):
            return self.mu
        try:
            return Constant(float(self.mu))
        except (TypeError, ValueError):
            raise OptionError(f"Sharpness(mu={self.mu!r}); give a number, a schedule, 'mean-flow' or 'adaptive'.") from None

    @property
    def relative(self) -> bool:
        """Whether μ is in units of the mean flow of a layer."""
        return self.mu == "mean-flow" or self.unit == "mean-flow"

    def check_method(self, method: str) -> None:
        """Raise if μ is of a kind that the method doesn't have."""
        is_em = method == "em"
        if (self.mu == "adaptive" and is_em) or (self.mu == "mean-flow" and not is_em):
            assert isinstance(self.mu, str)
            raise OptionError(
                f"mu={self.mu!r} is for {METHODS[self.mu]}, not for {method}; "
                f"choose a number or {'mean-flow' if is_em else 'adaptive'!r}."
            )


def _choose(name: str, value: Any, choices: tuple[str, ...], hidden: int = 0) -> None:
    if value not in choices[hidden:]:
        shown = ", ".join([*choices[:hidden], *(repr(c) for c in choices[hidden:])])
        raise OptionError(f"Sharpness({name}={value!r}); choose one of {shown}.")
