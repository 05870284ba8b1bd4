"""What every family of input distributions can be asked. The rest of the library asks, and never looks at a family's class.

A family is a small immutable description; its parameters live in the circuit, one entry per unit, as named arrays of
float64 with the unit on the first axis. `docs/how-to/your-own-family.md` shows how to write one. Each module here is what
is asked for one purpose; `Family` is all of them.
"""

from flatpc.families.base.arithmetic import (
    LARGEST_EXPONENT,
    SIMPLEX_TOLERANCE,
    Parameters,
    Statistics,
    check_probability,
    count_and_sum,
    masked,
    ratio,
)
from flatpc.families.base.description import Cost, home
from flatpc.families.base.family import Family

__all__ = [
    "LARGEST_EXPONENT",
    "SIMPLEX_TOLERANCE",
    "Cost",
    "Family",
    "Parameters",
    "Statistics",
    "check_probability",
    "count_and_sum",
    "home",
    "masked",
    "ratio",
]
