"""Register tiles: the innermost blocks of small matrix products, written as vector instructions.

A tile keeps R × C vectors of results in registers while it runs through the summed index. Compilers don't find such
blocks by themselves, and libraries find them only for matrices with hundreds of rows; sub-rows of a batch are a few dozen.

`axpy_tile(R, C, add)`   out[r, :] (+)= Σ_k a[r, k] · b[k, :]     R rows, C vectors wide
`dot_tile(R, C)`         out[r, n]   = Σ_c p[r, c] · w[n, c]      R rows, C = 4 or 8 columns n, c in whole vectors

Arguments are an array and an offset into its memory for each operand, and distances in entries.
"""

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

VECTOR_BYTES = 64 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 32
LANES = VECTOR_BYTES // 4
"""Entries of a float32 vector; rows of eight units and more are padded to a multiple of this."""


def lanes_of(dtype: Any) -> int:
    return VECTOR_BYTES // (dtype.bitwidth // 8)


def _bytes(vector: Any) -> int:
    return 4 if isinstance(vector.element, ir.FloatType) else 8


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """A · b + c, fused where the machine can."""
    return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))


def pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def load(builder: Any, pointer: Any, offset: Any, vector: Any) -> Any:
    at = builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())
    return builder.load(at, align=_bytes(vector))


def store(builder: Any, value: Any, pointer: Any, offset: Any) -> None:
    at = builder.bitcast(builder.gep(pointer, [offset]), value.type.as_pointer())
    builder.store(value, at, align=_bytes(value.type))


def splat(builder: Any, scalar: Any, vector: Any) -> Any:
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def shuffle(builder: Any, a: Any, b: Any, indices: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(indices)), indices)
    return builder.shuffle_vector(a, b, mask)


def index(value: int) -> Any:
    return ir.Constant(ir.IntType(64), value)


def axpy_tile(rows: int, vectors: int, add: bool) -> Any:
    """A tile of `rows` × `vectors` vectors; with `add` it adds to what is in `out`."""

    @intrinsic
    def tile(typing_context, a, a_at, a_row, a_step, b, b_at, b_step, out, out_at, out_row, n):
        def generate(context, builder, signature, arguments):
            a, a_at, a_row, a_step, b, b_at, b_step, out, out_at, out_row, n = arguments
            scalar = context.get_data_type(signature.args[0].dtype)
            lanes = lanes_of(signature.args[0].dtype)
            vector = ir.VectorType(scalar, lanes)
            pa = pointer(context, builder, signature.args[0], a, a_at)
            pb = pointer(context, builder, signature.args[4], b, b_at)
            po = pointer(context, builder, signature.args[7], out, out_at)
            places = [
                [builder.add(builder.mul(out_row, index(r)), index(j * lanes)) for j in range(vectors)] for r in range(rows)
            ]
            totals = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(rows)]
            for r in range(rows):
                for j in range(vectors):
                    start = load(builder, po, places[r][j], vector) if add else ir.Constant(vector, [0.0] * lanes)
                    builder.store(start, totals[r][j])
            with cgutils.for_range(builder, n) as loop:
                row = builder.mul(loop.index, b_step)
                xs = [load(builder, pb, builder.add(row, index(j * lanes)), vector) for j in range(vectors)]
                column = builder.mul(loop.index, a_step)
                for r in range(rows):
                    at = builder.add(column, builder.mul(a_row, index(r)))
                    factor = splat(builder, builder.load(builder.gep(pa, [at])), vector)
                    for j in range(vectors):
                        builder.store(multiply_add(builder, factor, xs[j], builder.load(totals[r][j])), totals[r][j])
            for r in range(rows):
                for j in range(vectors):
                    store(builder, builder.load(totals[r][j]), po, places[r][j])
            return context.get_dummy_value()

        i = types.intp
        return types.void(a, i, i, i, b, i, i, out, i, i, i), generate

    return tile


def dot_tile(rows: int, columns: int = 4) -> Any:
    """A tile of `rows` rows of p and four or eight rows of w."""

    @intrinsic
    def tile(typing_context, p, p_at, p_row, w, w_at, w_row, out, out_at, out_row, n):
        def generate(context, builder, signature, arguments):
            p, p_at, p_row, w, w_at, w_row, out, out_at, out_row, n = arguments
            scalar = context.get_data_type(signature.args[0].dtype)
            lanes = lanes_of(signature.args[0].dtype)
            vector = ir.VectorType(scalar, lanes)
            pp = pointer(context, builder, signature.args[0], p, p_at)
            pw = pointer(context, builder, signature.args[3], w, w_at)
            po = pointer(context, builder, signature.args[6], out, out_at)
            totals = [[cgutils.alloca_once(builder, vector) for _ in range(columns)] for _ in range(rows)]
            for row in totals:
                for total in row:
                    builder.store(ir.Constant(vector, [0.0] * lanes), total)
            with cgutils.for_range(builder, builder.sdiv(n, index(lanes))) as loop:
                at = builder.mul(loop.index, index(lanes))
                xs = [load(builder, pp, builder.add(at, builder.mul(p_row, index(r))), vector) for r in range(rows)]
                for m in range(columns):
                    y = load(builder, pw, builder.add(at, builder.mul(w_row, index(m))), vector)
                    for r in range(rows):
                        builder.store(multiply_add(builder, xs[r], y, builder.load(totals[r][m])), totals[r][m])
            bits = signature.args[0].dtype.bitwidth
            for r in range(rows):
                for m in range(0, columns, 4):
                    sums = _add_lanes(builder, [builder.load(total) for total in totals[r][m : m + 4]], lanes, bits)
                    store(builder, sums, po, builder.add(builder.mul(out_row, index(r)), index(m)))
            return context.get_dummy_value()

        i = types.intp
        return types.void(p, i, i, w, i, i, out, i, i, i), generate

    return tile


def _add_lanes(builder: Any, four: list[Any], lanes: int, bits: int) -> Any:
    """The sums of the entries of four vectors, as one vector of four: pairwise inside 128-bit lanes, then across them."""
    per = 128 // bits

    def pairs(a: Any, b: Any) -> Any:
        even, odd = [], []
        for start in range(0, lanes, per):
            for base in (start, lanes + start):
                even += [base + i for i in range(0, per, 2)]
                odd += [base + i for i in range(1, per, 2)]
        return builder.fadd(shuffle(builder, a, b, even), shuffle(builder, a, b, odd))

    def across(x: Any) -> Any:
        total = None
        for start in range(0, lanes, per):
            part = shuffle(builder, x, x, list(range(start, start + per)))
            total = part if total is None else builder.fadd(total, part)
        return total

    left, right = pairs(four[0], four[1]), pairs(four[2], four[3])
    if per == 4:
        return across(pairs(left, right))
    return shuffle(builder, across(left), across(right), [0, 1, 2, 3])
