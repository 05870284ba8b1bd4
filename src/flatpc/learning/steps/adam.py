"""`fp.Adam`: its options, and the steps, on one flat vector and in place.

Parameters are few and steps many: NumPy takes a third of the time of an optimiser made for many tensors on many devices, and
never waits for a pool of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flatpc._typing import Array
from flatpc.learning.run.schedules import Schedule
from flatpc.learning.steps.descent import Descent, check_descent

FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Adam(Descent):
    """Learn by Adam on unconstrained parameters (Kingma and Ba, 2015).

    Parameters
    ----------
    step_size
        The learning rate: a positive number, or a schedule such as `fp.learning.cosine(0.1, 0.001)`.
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
    >>> fp.fit(circuit, X, method=fp.Adam(step_size=0.05, clip=10.0), epochs=5, progress=False).stopped
    'epochs'
    """

    name: ClassVar[str] = "adam"
    step_size: float | Schedule = 0.1
    clip: float | None = None

    def __post_init__(self) -> None:
        check_descent(self)

    def move(self, z: Array, gradient: Array, rate: float, state: dict[str, Array]) -> None:
        """`z ← z - rate · m̂ / (√v̂ + ε)`, with m̂ and v̂ averages of the gradient and its square."""
        if not state:
            state |= {"step": np.zeros(()), "first": np.zeros_like(z), "second": np.zeros_like(z)}
        step, first, second = state["step"], state["first"], state["second"]
        step += 1
        first += (1 - FIRST) * (gradient - first)
        second *= SECOND
        second += (1 - SECOND) * gradient * gradient
        scale = np.sqrt(second)
        scale /= np.sqrt(1 - SECOND**step)
        scale += EPSILON
        z -= rate / (1 - FIRST**step) * first / scale
