"""Scales, and what is dropped: how the upward pass stays in the linear domain.

A step's value for sub-row u is `V[u, :] · 2^E[u]`, with E a whole number: powers of two cost no rounding, so that a shared
and an unshared evaluation give the same bits. Products are rescaled when their largest entry gets small.

An entry far below its row's largest is dropped (set to zero). Whether that was harmless shows at the next sum: `L[u]` is the
logarithm (base 2) of a bound on every dropped entry, in units of V, and `-inf` if there is none. A sum's output that is not well
above what the dropped entries could have added to it is dropped as well, with a new bound; all others are as good as exact, and
no later evidence can change that. Where no output survives, L is `+inf`: the row must be evaluated in the log domain.
"""

import math

import numpy as np

from flatpc.engine.numba._kernels.columns import CHILD, CHILD_END, ROW, STRIDE, VALUE, WIDTH
from flatpc.engine.numba._kernels.compiling import inner

LN2 = math.log(2.0)
DROP = {"float32": -100, "float64": -700}
"""Exponents of entries that are dropped, as `limits` has them."""


@inner
def limits(V):
    """Exponents: entries below the first are dropped, what is kept exceeds dropped by the second, below the third we rescale."""
    if V.itemsize == 4:
        return -100, 22, -20
    return -700, 55, -200


@inner
def exponent_of(x):
    """The power of two next above x."""
    return math.frexp(x)[1]


@inner
def power_of_two(shift, most):
    """2^shift; 0 far below, and 2^most above that."""
    return math.ldexp(1.0, int(min(max(shift, -2000.0), most)))


@inner
def largest_scale(P, B, V, E, s, u):
    """The largest scale among children of step s that have a positive entry in their sub-row u; `-inf` if none has."""
    e = -np.inf
    for q in range(P.steps[s, CHILD], P.steps[s, CHILD_END]):
        c = P.child[q]
        at, top = B.at[c, VALUE] + u * P.steps[c, STRIDE], V.dtype.type(0)
        for j in range(P.steps[c, WIDTH]):
            top = max(top, V[at + j])
        if top > 0:
            e = max(e, E[B.at[c, ROW] + u])
    return e
