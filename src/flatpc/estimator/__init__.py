"""The scikit-learn face: `CircuitDensity` learns a circuit from a table as it is, and answers in the table's own terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flatpc.estimator.density import CircuitDensity as CircuitDensity

__all__ = ["CircuitDensity"]


def __getattr__(name: str) -> Any:
    # scikit-learn takes seconds to load, and the command line has a mistake to tell of before it needs any of it.
    if name == "CircuitDensity":
        from flatpc.estimator.density import CircuitDensity

        return CircuitDensity
    raise AttributeError(f"module 'flatpc.estimator' has no attribute {name!r}")
