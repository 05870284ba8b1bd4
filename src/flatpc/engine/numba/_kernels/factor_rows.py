"""Sub-rows of a product's factors, and loops that take entries from there or add to them.

Loops are written as instructions for the reasons given in `rows.py`, and because a plain loop checks every index for being
negative.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.simd import pointer

_NAMES = 2


@inner
def new_index(n_batch):
    """Room for two lists of sub-rows, each behind the two scopes that it is for."""
    index = np.empty(2 * (_NAMES + n_batch), np.int32)
    index[0], index[_NAMES + n_batch] = -1, -1
    return index


@inner(forceinline=True)
def sub_rows(share, index, side, scope, part, n):
    """Where in `index` those sub-rows of `part` begin that belong to the n sub-rows of `scope`; often they are there already."""
    start = side * (len(index) // 2)
    if index[start] != scope or index[start + 1] != part:
        index[start], index[start + 1] = scope, part
        for u in range(n):
            index[start + _NAMES + u] = share[0, part, share[1, scope, u]]
    return start + _NAMES


def _loop(given: tuple[Any, ...], body: Callable[..., None]) -> Any:
    """Signature and code of a loop over u; arguments are pairs (array, offset) and the number of entries.

    `body(builder, u, *pointers)`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pairs = range(0, len(arguments) - 1, 2)
        pointers = [pointer(context, builder, signature.args[i], *arguments[i : i + 2]) for i in pairs]
        with cgutils.for_range(builder, arguments[-1]) as loop:
            body(builder, loop.index, *pointers)
        return context.get_dummy_value()

    return types.void(*(t for array in given[:-1:2] for t in (array, types.intp)), types.intp), generate


def _named(builder: Any, x: Any, places: Any, u: Any) -> Any:
    """A pointer to x[places[u]]."""
    place = builder.load(builder.gep(places, [u]))
    return builder.gep(x, [builder.sext(place, ir.IntType(64))])


@intrinsic
def multiply_gathered(typing_context, out, out_at, x, x_at, i, i_at, y, y_at, j, j_at, n):
    """Out = x[i] · y[j]"""

    def body(builder, u, out, x, i, y, j):
        product = builder.fmul(builder.load(_named(builder, x, i, u)), builder.load(_named(builder, y, j, u)))
        builder.store(product, builder.gep(out, [u]))

    return _loop((out, out_at, x, x_at, i, i_at, y, y_at, j, j_at, n), body)


@intrinsic
def times_gathered(typing_context, out, out_at, x, x_at, i, i_at, n):
    """Out *= x[i]"""

    def body(builder, u, out, x, i):
        place = builder.gep(out, [u])
        builder.store(builder.fmul(builder.load(place), builder.load(_named(builder, x, i, u))), place)

    return _loop((out, out_at, x, x_at, i, i_at, n), body)


@intrinsic
def add_scattered(typing_context, out, out_at, i, i_at, x, x_at, n):
    """Out[i] += x, one after the other"""

    def body(builder, u, out, i, x):
        place = _named(builder, out, i, u)
        builder.store(builder.fadd(builder.load(place), builder.load(builder.gep(x, [u]))), place)

    return _loop((out, out_at, i, i_at, x, x_at, n), body)
