"""Sufficient statistics of inputs from adjoints, or tangents of adjoints, that lie row by row.

The gradient of Σ flow · log p in an input's parameters is linear in them, for every family. For a penalty's gradient the place
of a unit's flow, adjoint times value, is taken by its change: tangent of the adjoint times value.
"""

import numpy as np

from flatpc.engine.numba._kernels.columns import (
    ADJOINT,
    ADJOINT_ROWS,
    FORMULA,
    GAUSSIAN,
    GENERAL_INPUT,
    KIND,
    SCOPE,
    STRIDE,
    TABLE,
    TABLE_INPUT,
    VALUE,
    VARIABLE,
    WIDTH,
)
from flatpc.engine.numba._kernels.compiling import inner


@inner
def add_row_statistics(P, B, T, V, G, count, ST, s):
    """Add step s's to ST, unless its family is asked for them; G are adjoints, or tangents of adjoints."""
    if P.steps[s, KIND] == GENERAL_INPUT:
        return
    k, stride, at = P.steps[s, WIDTH], P.steps[s, STRIDE], P.steps[s, TABLE]
    for r in range(B.at[s, ADJOINT_ROWS]):
        x = B.X[B.rows[r], P.steps[s, VARIABLE]]
        if x != x or count[r] == 0:
            continue
        g = B.at[s, ADJOINT] + r * stride
        v = B.at[s, VALUE] + np.int64(B.share[0, P.steps[s, SCOPE], r]) * stride
        for j in range(k):
            flow = count[r] * G[g + j] * V[v + j]
            if P.steps[s, KIND] == TABLE_INPUT:
                ST[at + np.int64(x) * stride + j] += flow
            elif P.steps[s, FORMULA] == GAUSSIAN:
                if flow != 0:
                    d = x - T[at + j]
                    ST[at + j] += flow
                    ST[at + stride + j] += flow * d
                    ST[at + 2 * stride + j] += flow * d * d
            else:
                ST[at + j] += flow
                ST[at + stride + j] += flow * x
