"""The scikit-learn face: `CircuitDensity` learns a circuit from a table as it is, and answers in the table's own terms."""

from flatpc.estimator.density import CircuitDensity

__all__ = ["CircuitDensity"]
