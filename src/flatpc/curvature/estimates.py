"""Answers with their standard errors, which can be subtracted and averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice, number, wrong
from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.queries.answers import give_back
from flatpc.tables.reading import is_torch

if TYPE_CHECKING:
    from flatpc.curvature.posterior import Posterior

GRADIENT_BYTES = 1 << 26
"""Of gradients of answers that are alive at once."""
ROUNDING = 1e-9
"""By which a probability may be below 0 or above 1."""


@dataclass(frozen=True)
class Answer:
    """How answers change with a circuit's parameters."""

    posterior: Posterior
    pull: Callable[[slice], Array]
    """Some of the answers, raveled -> their gradients `[n, P]`."""
    group: int = 1
    """Slices begin and end at multiples of it."""

    def blocks(self, n: int) -> list[slice]:
        """Slices of `range(n)` whose gradients fit in bounded memory."""
        size = max(1, GRADIENT_BYTES // (8 * max(self.posterior.size, 1) * self.group)) * self.group
        return [slice(at, min(at + size, n)) for at in range(0, n, size)]

    def errors(self, shape: tuple[int, ...]) -> Array:
        """Standard errors of all of them; an answer that depends on no parameter has none."""
        n = int(np.prod(shape))
        out = np.zeros(n)
        for part in self.blocks(n):
            gradients = self.pull(part)
            moved = gradients.any(axis=1)
            if moved.any():
                out[part][moved] = self.posterior.errors(gradients[moved])
        return out.reshape(shape)

    def mean(self, n: int) -> Array:
        """`[P]`: the mean gradient of all of them."""
        return np.asarray(sum((self.pull(part).sum(axis=0) for part in self.blocks(n)), np.zeros(self.posterior.size)) / n)


@dataclass(frozen=True)
class Estimate:
    """Answers and how sure they are.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> low, high = fp.curvature.Estimate(np.array([-1.0]), np.array([0.1])).interval(0.95)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-1.2], [-0.8])

    Answers of one posterior vary together. Their difference, `a - b`, and their mean, `a.mean()`, take that into account:

    >>> coins = fp.structures.factorized(np.array([[0, 1], [1, 1], [1, 0], [1, 1]] * 25), smoothing=0.0)
    >>> sure = fp.curvature.laplace(coins, [[0, 1], [1, 1], [1, 0], [1, 1]] * 25, prior=0.0)
    >>> one, other = sure.log_prob([[1, 1]]), sure.log_prob([[0, 1]])
    >>> float((one - other).error[0].round(3)), float(np.hypot(one.error, other.error)[0].round(3))
    (0.231, 0.2)
    >>> sure.log_prob([[1, 1], [1, 1]]).mean().error.round(3).tolist()
    0.082
    """

    value: Array
    """The answers."""
    error: Array
    """Their standard errors: how much they would vary if the circuit were fitted to other rows of the same kind."""
    answer: Answer | None = field(default=None, repr=False, compare=False)
    """How they change with the parameters, if known."""

    def interval(self, level: float = 0.9, *, scale: str = "linear") -> tuple[Array, Array]:
        """Both ends of the interval that holds the answer with probability `level`, by the normal distribution.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> low, high = fp.curvature.Estimate(np.array([0.98]), np.array([0.03])).interval(0.9, scale="logit")
        >>> low.round(2).tolist(), high.round(3).tolist()                # of a probability: within 0 and 1
        ([0.8], [0.998])

        Parameters
        ----------
        level
            Between 0 and 1.
        scale
            `"linear"`, or `"logit"` for probabilities: logits are taken as normal, so that both ends are probabilities.

        Returns
        -------
        tuple of arrays
            The lower and the upper ends.

        Raises
        ------
        OptionError
            If `level` is not between 0 and 1, the scale is another, or an answer of which the logit is asked is no probability.
        """
        from scipy.special import expit, logit, ndtri

        reach = float(ndtri((1 + number("level", level, 0.0, 1.0, above=True, below=True)) / 2))
        if choice("scale", scale, ("linear", "logit")) == "linear":
            return self.value - reach * self.error, self.value + reach * self.error
        p = _numbers(self.value)
        if ((p < -ROUNDING) | (p > 1 + ROUNDING)).any():
            raise wrong("scale", scale, "the answers are no probabilities; take scale='linear'.")
        inside = (p > 0) & (p < 1)
        middle = np.where(inside, p, 0.5)
        away = reach * _numbers(self.error) / (middle * (1 - middle))
        ends = (np.where(inside, expit(logit(middle) + sign * away), np.clip(p, 0.0, 1.0)) for sign in (-1, 1))
        low, high = ends
        return give_back(np.asarray(low), self.value), give_back(np.asarray(high), self.value)

    def plot(
        self, *, level: float = 0.9, labels: Sequence[str] | None = None, sort: bool = False, title: str | None = None,
        axes: Any = None,
    ) -> Any:  # fmt: skip
        """A matplotlib figure with a dot and an interval for each answer.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> answers = fp.curvature.Estimate(np.array([-1.0, -2.0]), np.array([0.1, 0.3]))
        >>> figure = answers.plot(labels=["common", "rare"])
        >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        ['common', 'rare']

        Parameters
        ----------
        level
            Of the intervals, between 0 and 1.
        labels
            A text for each answer; None numbers them.
        sort
            Whether the largest answer comes first.
        title
            A heading.
        axes
            Matplotlib axes to draw in; None makes a figure.

        Returns
        -------
        matplotlib.figure.Figure
            It is neither shown nor kept: `.savefig("answers.png")` does.

        Raises
        ------
        OptionError
            If `level` is not between 0 and 1, or labels are too few or too many.
        """
        from flatpc.curvature.interval_plots import plot

        return plot(self, level=level, labels=labels, sort=sort, title=title, axes=axes)

    def __sub__(self, other: Any) -> Estimate:
        """The difference of two answers, or of answers and known numbers."""
        if not isinstance(other, Estimate):
            known = other if is_torch(self.value) else np.asarray(other, np.float64)
            return Estimate(self.value - known, self.error, self.answer)
        a, b = self._known("a difference"), other._known("a difference")
        if a.posterior is not b.posterior or self.value.shape != other.value.shape:
            raise OptionError(
                "Answers can be subtracted if they are of one posterior and one shape; ask both of the same `laplace`."
            )
        return estimate(
            _numbers(self.value) - _numbers(other.value),
            Answer(a.posterior, lambda p: a.pull(p) - b.pull(p), int(np.lcm(a.group, b.group))),
            self.value,
        )

    def mean(self) -> Estimate:
        """The mean of all answers, such as the log-likelihood of a test set, with its own standard error.

        Returns
        -------
        Estimate
            Of one number, as arrays without an axis.

        Raises
        ------
        OptionError
            If it is not known how the answers change with the parameters.
        """
        answer, gradient = self._known("a mean"), self.gradient
        middle = np.asarray(_numbers(self.value).mean())
        return estimate(middle, Answer(answer.posterior, lambda part: gradient[None][part]), self.value)

    @property
    def gradient(self) -> Array:
        """`[P]`: of the answers' mean."""
        return self._known("a gradient").mean(int(np.prod(self.value.shape)))

    def _known(self, what: str) -> Answer:
        if self.answer is None:
            raise OptionError(
                f"These answers don't tell how they vary together, which {what} depends on; ask a posterior for them."
            )
        return self.answer


def estimate(value: Array, answer: Answer, X: Any = None) -> Estimate:
    """Answers with the errors that their gradients tell; as tensors if X is one."""
    return Estimate(give_back(value, X), give_back(answer.errors(np.shape(value)), X), answer)


def _numbers(answers: Any) -> Array:
    return np.asarray(answers.cpu() if is_torch(answers) else answers, np.float64)
