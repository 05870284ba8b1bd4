"""Tests that the author of a family inherits.

    import flatpc as fp

    class TestExponential(fp.testing.FamilySuite):
        family = Exponential()

`pytest` then finds out whether the family keeps what `fp.Family` promises, in all queries, on both engines, in learning and in
files. A method that the family doesn't define must raise `FamilyError`, and is not tested further. A family over several
variables inherits `MultivariateFamilySuite`.
"""

from flatpc.testing.families import LEVEL, FamilySuite
from flatpc.testing.multivariate import MultivariateFamilySuite

__all__ = ["LEVEL", "FamilySuite", "MultivariateFamilySuite"]
