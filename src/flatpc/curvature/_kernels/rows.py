"""Which row belongs to which.

Values V lie once per distinct sub-row. Adjoints A, tangents of values VT and tangents of adjoints AT lie at the same places if
`shared`, or once per row of the batch if not. VT and AT have all that once for each direction.

Units: with E the scale of a row, a value is `V 2^E`, its tangent `VT 2^E`, its adjoint `A 2^-E` and that one's tangent
`AT 2^-E`. So A·V is the flow, whatever the scale.
"""

import numpy as np

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, SCOPE
from flatpc.engine.numba._kernels.compiling import inner, kernel
from flatpc.engine.numba._kernels.underflow import power_of_two
from flatpc.engine.numba._kernels.work_items import scale_of

COUNTED, MOVED, STILL, UNWANTED = 1, 2, 4, 8
"""Marks of a step: its own parameters count; they move in some direction; neither they nor any below do, so that tangents of
its values are zero and nowhere written; nothing is wanted of it or of anything below, adjoints included."""


@kernel
def complete_marks(P, marks, wanted):
    """Add STILL and UNWANTED to steps whose own COUNTED and MOVED are there; `wanted[s]` if something of step s itself is."""
    for s in range(len(marks)):
        still, unwanted = not marks[s] & MOVED, not wanted[s]
        for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
            still &= marks[P.child[q]] & STILL != 0
            unwanted &= marks[P.child[q]] & UNWANTED != 0
        marks[s] |= (STILL if still else 0) | (UNWANTED if unwanted else 0)


@inner
def batch_row(P, B, s, a, shared):
    """A row of the batch that has row a of step s."""
    return np.int64(B.share[1, P.steps[s, SCOPE], a]) if shared else a


@inner
def value_row(P, B, s, b):
    """The row of step s's values that belongs to row b of the batch."""
    return np.int64(B.share[0, P.steps[s, SCOPE], b])


@inner
def scale(E, B, P, s, b):
    """Step s's E at row b of the batch."""
    return scale_of(E, B, s, value_row(P, B, s, b))


@inner
def power(shift):
    """2^shift; infinite rather than wrong where float64 can't hold it."""
    return 1.0 if shift == 0 else power_of_two(shift, 2000.0)
