"""`fp.SGD`: its options, and the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.learning.run.schedules import Schedule
from flatpc.learning.steps.descent import Descent, check_descent

_MOMENTUM = "it is the share of the step before that is made again, from 0 to less than 1"


@dataclass(frozen=True)
class SGD(Descent):
    """Learn by stochastic gradient descent with momentum on unconstrained parameters.

    Parameters
    ----------
    step_size
        The learning rate: a positive number, or a schedule such as `fp.learning.cosine(0.1, 0.001)`.
    momentum
        The m of b ← m·b + gradient, z ← z - step_size · b; from 0 to less than 1.
    clip
        The largest norm of a gradient; None leaves gradients as they are.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).standard_normal((100, 4))
    >>> circuit = fp.structures.rat_spn(4, depth=1, family="gaussian")
    >>> fp.fit(circuit, X, method=fp.SGD(step_size=0.01, momentum=0.5), epochs=5, progress=False).stopped
    'epochs'
    """

    name: ClassVar[str] = "sgd"
    step_size: float | Schedule = 0.1
    momentum: float = 0.9
    clip: float | None = None

    def __post_init__(self) -> None:
        check_descent(self)
        put(self, momentum=number("SGD: momentum", self.momentum, 0.0, 1.0, below=True, what=_MOMENTUM))

    def move(self, z: Array, gradient: Array, rate: float, state: dict[str, Array]) -> None:
        """One step."""
        if not state:
            state["momentum"] = np.zeros_like(z)
        momentum = state["momentum"]
        momentum *= self.momentum
        momentum += gradient
        z -= rate * momentum
