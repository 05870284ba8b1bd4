"""SAM and ASAM: gradients taken a step uphill, where a sharp minimum is already steep.

SAM (Foret et al., 2021):   e = ρ g / ‖g‖
ASAM (Kwon et al., 2021):   e = ρ T² g / ‖T g‖,   T = |z| + η
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flatpc._options import number, put
from flatpc._typing import Array
from flatpc.learning.regularizers.base import Regularizer


@dataclass(frozen=True)
class SAM(Regularizer):
    """Sharpness-aware minimisation: descend by the gradient at distance ρ uphill.

    Parameters
    ----------
    rho
        How far uphill.

    Raises
    ------
    OptionError
        If it is not positive.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.SAM(rho=0.1)
    SAM(rho=0.1)
    """

    rho: float = 0.05

    def __post_init__(self) -> None:
        put(self, rho=number("SAM: rho", self.rho, 0.0, above=True))

    def offset(self, z: Array, gradient: Array) -> Array:
        """Where to look, from z."""
        norm = float(np.linalg.norm(gradient))
        return self.rho / norm * gradient if norm > 0 else np.zeros_like(z)


@dataclass(frozen=True)
class ASAM(Regularizer):
    """Adaptive SAM: distances are measured relative to the parameters' sizes.

    Parameters
    ----------
    rho
        How far uphill.
    eta
        Added to the size of every parameter.

    Raises
    ------
    OptionError
        If one of them is not positive.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.ASAM(rho=0.1)
    ASAM(rho=0.1, eta=0.01)
    """

    rho: float = 0.5
    eta: float = 0.01

    def __post_init__(self) -> None:
        put(self, rho=number("ASAM: rho", self.rho, 0.0, above=True), eta=number("ASAM: eta", self.eta, 0.0, above=True))

    def offset(self, z: Array, gradient: Array) -> Array:
        """Where to look, from z."""
        size = np.abs(z) + self.eta
        scaled = size * gradient
        norm = float(np.linalg.norm(scaled))
        return self.rho / norm * size * scaled if norm > 0 else np.zeros_like(z)
