"""Which row belongs to which.

Values V lie once per distinct sub-row. Adjoints A, tangents of values VT and tangents of adjoints AT lie at the same places if
`shared`, or once per row of the batch if not.

Units: with E the scale of a row, a value is `V 2^E`, its tangent `VT 2^E`, its adjoint `A 2^-E` and that one's tangent
`AT 2^-E`. So A·V is the flow, whatever the scale.
"""

import math

import numpy as np
from numba import njit

from flatpc.engine._kernels.columns import ADJOINT, ADJOINT_ROWS, ROW, SCOPE, STRIDE

COUNTED, DEAD = 1, 2
"""Marks of a step: its own parameters count; neither it nor anything below has any that do, nor is its adjoint wanted."""


@njit(cache=True)
def block_of(A, B, P, s):
    """A step's part of A, VT or AT, [rows, stride]."""
    start, rows, stride = B.at[s, ADJOINT], B.at[s, ADJOINT_ROWS], P.steps[s, STRIDE]
    return A[start : start + rows * stride].reshape(rows, stride)


@njit(cache=True)
def batch_row(P, B, s, a, shared):
    """A row of the batch that has row a of step s."""
    return np.int64(B.share[1, P.steps[s, SCOPE], a]) if shared else a


@njit(cache=True)
def value_row(P, B, s, b):
    """The row of step s's values that belongs to row b of the batch."""
    return np.int64(B.share[0, P.steps[s, SCOPE], b])


@njit(cache=True)
def scale(E, B, P, s, b):
    """Step s's E at row b of the batch."""
    return E[B.at[s, ROW] + value_row(P, B, s, b)]


@njit(cache=True)
def power(shift):
    """2^shift; infinite rather than wrong where float64 can't hold it."""
    return 1.0 if shift == 0 else math.ldexp(1.0, int(min(max(shift, -2000.0), 2000.0)))
