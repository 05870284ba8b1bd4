"""How sharp a circuit's likelihood is around its parameters, exactly."""

from flatpc.curvature.operators import HessianOperator, operator
from flatpc.curvature.penalties import Penalty, penalty, penalty_of_rows
from flatpc.curvature.traces import Breakdown, breakdown, diagonal, trace

__all__ = [
    "Breakdown",
    "HessianOperator",
    "Penalty",
    "breakdown",
    "diagonal",
    "operator",
    "penalty",
    "penalty_of_rows",
    "trace",
]
