"""Products of all factors but one or two, also where a factor is zero and can't be divided out."""

import math

from flatpc.curvature._kernels.rows import power, scale, value_row
from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, STRIDE, VALUE
from flatpc.engine.numba._kernels.compiling import inner


@inner
def total_shift(P, B, E, p, b):
    """The exponent of the children's scales together in units of product p's own."""
    shift = -scale(E, B, P, p, b)
    for q in range(P.steps[p, CHILD], P.steps[p, CHILD_END]):
        shift += scale(E, B, P, P.child[q], b)
    return shift


@inner
def others(P, B, V, p, b, skip, skip_too, j, shift):
    """2^shift times the product, over children of p but those at two positions, of their j-th values at row b."""
    out = 1.0
    first = P.steps[p, CHILD]
    for q in range(first, P.steps[p, CHILD_END]):
        if q - first == skip or q - first == skip_too:
            continue
        c = P.child[q]
        out, size = math.frexp(out * V[B.at[c, VALUE] + value_row(P, B, c, b) * P.steps[c, STRIDE] + j])
        shift += size
    return out * power(shift) if out > 0 else 0.0
