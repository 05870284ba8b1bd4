"""Adam and SGD on one flat vector, in place.

Parameters are few and steps many: NumPy takes a third of the time of an optimiser made for many tensors on many devices, and
never waits for a pool of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8
MOMENTUM = 0.9


class Optimizer(Protocol):
    """Makes steps against gradients; `state` is all that it remembers."""

    state: dict[str, Array]

    def step(self, z: Array, gradient: Array, rate: float) -> None:
        """Change z."""


class Adam:
    """Kingma and Ba (2015): z ← z - rate · m̂ / (√v̂ + ε), with m̂ and v̂ averages of the gradient and its square."""

    def __init__(self) -> None:
        self.state: dict[str, Array] = {}

    def step(self, z: Array, gradient: Array, rate: float) -> None:
        """One step."""
        if not self.state:
            self.state = {"step": np.zeros(()), "first": np.zeros_like(z), "second": np.zeros_like(z)}
        step, first, second = self.state["step"], self.state["first"], self.state["second"]
        step += 1
        first += (1 - FIRST) * (gradient - first)
        second *= SECOND
        second += (1 - SECOND) * gradient * gradient
        scale = np.sqrt(second)
        scale /= np.sqrt(1 - SECOND**step)
        scale += EPSILON
        z -= rate / (1 - FIRST**step) * first / scale


class SGD:
    """Stochastic gradient descent with momentum: b ← 0.9 b + g, z ← z - rate · b."""

    def __init__(self) -> None:
        self.state: dict[str, Array] = {}

    def step(self, z: Array, gradient: Array, rate: float) -> None:
        """One step."""
        if not self.state:
            self.state = {"momentum": np.zeros_like(z)}
        momentum = self.state["momentum"]
        momentum *= MOMENTUM
        momentum += gradient
        z -= rate * momentum


OPTIMIZERS: Mapping[str, type[Adam] | type[SGD]] = {"adam": Adam, "sgd": SGD}
