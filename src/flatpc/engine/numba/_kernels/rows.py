"""Loops over the entries of rows, written as vector instructions on offsets into flat arrays.

Plain loops over `V[at + j]` are not vectorised (an index might be negative, rows of one array might overlap), and slicing out
a row first costs as much as the row itself. Rows given here never overlap, except that a result may be one of its operands.

The first row is the one written to. `n` entries are processed, whole vectors first and then single ones.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.simd import index, lanes_of, load, pointer, splat, store

Body = Callable[[Any, list[Any], list[Any]], tuple[Any, list[Any]]]
_START = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


def _row_loop(given: tuple[Any, ...], n_rows: int, reductions: tuple[str, ...], body: Body) -> Any:
    """Signature and code of a loop whose arguments are `n_rows` pairs (array, offset), scalars, and the number of entries.

    `body(builder, entries, scalars)` returns the first row's new entry (or None) and one number for each reduction, which
    are returned by the loop.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.args[0].dtype
        scalar, lanes = context.get_data_type(dtype), lanes_of(dtype)
        vector = ir.VectorType(scalar, lanes)
        rows = [pointer(context, builder, signature.args[i], *arguments[i : i + 2]) for i in range(0, 2 * n_rows, 2)]
        scalars, n = list(arguments[2 * n_rows : -1]), arguments[-1]
        splats = [splat(builder, s, vector) for s in scalars]
        wide = [cgutils.alloca_once(builder, vector) for _ in reductions]
        narrow = [cgutils.alloca_once(builder, scalar) for _ in reductions]
        for kind, total in zip(reductions, wide, strict=True):
            builder.store(ir.Constant(vector, [_START[kind]] * lanes), total)
        blocks = builder.udiv(n, index(lanes))
        with cgutils.for_range(builder, blocks) as loop:
            at = builder.mul(loop.index, index(lanes))
            new, parts = body(builder, [load(builder, row, at, vector) for row in rows], splats)
            if new is not None:
                store(builder, new, rows[0], at)
            for kind, total, part in zip(reductions, wide, parts, strict=True):
                builder.store(_combine(builder, kind, builder.load(total), part), total)
        done = builder.mul(blocks, index(lanes))
        rest = builder.sub(n, done)
        if reductions and "sum" not in reductions:  # extremes may see an entry twice: the last vector overlaps
            some = builder.icmp_unsigned(">", blocks, index(0))
            with builder.if_then(builder.and_(some, builder.icmp_unsigned(">", rest, index(0)))):
                at = builder.sub(n, index(lanes))
                _, parts = body(builder, [load(builder, row, at, vector) for row in rows], splats)
                for kind, total, part in zip(reductions, wide, parts, strict=True):
                    builder.store(_combine(builder, kind, builder.load(total), part), total)
            rest = builder.select(some, index(0), rest)
        for kind, total, single in zip(reductions, wide, narrow, strict=True):
            builder.store(_across(builder, kind, builder.load(total), lanes), single)
        with cgutils.for_range(builder, rest) as loop:
            places = [builder.gep(row, [builder.add(done, loop.index)]) for row in rows]
            new, parts = body(builder, [builder.load(place) for place in places], scalars)
            if new is not None:
                builder.store(new, places[0])
            for kind, total, part in zip(reductions, narrow, parts, strict=True):
                builder.store(_combine(builder, kind, builder.load(total), part), total)
        results = [builder.load(total) for total in narrow]
        if len(results) > 1:
            return context.make_tuple(builder, signature.return_type, results)
        return results[0] if results else context.get_dummy_value()

    dtype = given[0].dtype
    result = types.void if not reductions else dtype if len(reductions) == 1 else types.UniTuple(dtype, len(reductions))
    pairs = [t for i in range(0, 2 * n_rows, 2) for t in (given[i], types.intp)]
    return result(*pairs, *[dtype] * (len(given) - 2 * n_rows - 1), types.intp), generate


def _combine(builder: Any, kind: str, a: Any, b: Any) -> Any:
    if kind == "sum":
        return builder.fadd(a, b)
    return builder.select(builder.fcmp_ordered(">" if kind == "max" else "<", a, b), a, b)


def _across(builder: Any, kind: str, vector: Any, lanes: int) -> Any:
    """One number from a vector, by halves."""
    while lanes > 1:
        lanes //= 2
        halves = [
            builder.shuffle_vector(
                vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes)))
            )
            for start in (0, lanes)
        ]
        vector = _combine(builder, kind, *halves)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _constant(like: Any, value: float) -> Any:
    return ir.Constant(like.type, [value] * like.type.count if isinstance(like.type, ir.VectorType) else value)


def square_root(builder: Any, x: Any) -> Any:
    element = x.type.element if isinstance(x.type, ir.VectorType) else x.type
    bits = "f32" if isinstance(element, ir.FloatType) else "f64"
    name = f"llvm.sqrt.v{x.type.count}{bits}" if isinstance(x.type, ir.VectorType) else f"llvm.sqrt.{bits}"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(x.type, [x.type]), name)
    return builder.call(function, [x])


def _product_loop(given: tuple[Any, ...], n_factors: int) -> Any:
    """Out = a · b ..., n entries; returns the largest, and the smallest of those whose factors are all positive.

    Entries with a factor of zero, padding among them, are exact; a zero that is not must be an underflow.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.args[0].dtype
        scalar, lanes = context.get_data_type(dtype), lanes_of(dtype)
        vector, n = ir.VectorType(scalar, lanes), arguments[-1]
        rows = [pointer(context, builder, signature.args[i], *arguments[i : i + 2]) for i in range(0, 2 * n_factors + 2, 2)]
        low = cgutils.alloca_once_value(builder, ir.Constant(vector, [_START["min"]] * lanes))
        high = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * lanes))
        blocks = builder.udiv(n, index(lanes))

        def product(values: list[Any]) -> tuple[Any, Any]:
            """And the same with infinity where a factor is zero."""
            out, zero = values[0], _constant(values[0], 0.0)
            positive = builder.fcmp_ordered(">", values[0], zero)
            for value in values[1:]:
                out = builder.fmul(out, value)
                positive = builder.and_(positive, builder.fcmp_ordered(">", value, zero))
            return out, builder.select(positive, out, _constant(out, _START["min"]))

        with cgutils.for_range(builder, blocks) as loop:
            at = builder.mul(loop.index, index(lanes))
            new, kept = product([load(builder, row, at, vector) for row in rows[1:]])
            store(builder, new, rows[0], at)
            builder.store(_combine(builder, "min", builder.load(low), kept), low)
            builder.store(_combine(builder, "max", builder.load(high), new), high)
        lowest = cgutils.alloca_once_value(builder, _across(builder, "min", builder.load(low), lanes))
        highest = cgutils.alloca_once_value(builder, _across(builder, "max", builder.load(high), lanes))
        done = builder.mul(blocks, index(lanes))
        with cgutils.for_range(builder, builder.sub(n, done)) as loop:  # rows of so few entries have no padding
            at = builder.add(done, loop.index)
            new, kept = product([builder.load(builder.gep(row, [at])) for row in rows[1:]])
            builder.store(new, builder.gep(rows[0], [at]))
            builder.store(_combine(builder, "min", builder.load(lowest), kept), lowest)
            builder.store(_combine(builder, "max", builder.load(highest), new), highest)
        return context.make_tuple(builder, signature.return_type, [builder.load(highest), builder.load(lowest)])

    pairs = [t for i in range(0, 2 * n_factors + 2, 2) for t in (given[i], types.intp)]
    return types.UniTuple(given[0].dtype, 2)(*pairs, types.intp), generate


@intrinsic
def multiply_rows(typing_context, out, out_at, a, a_at, b, b_at, n):
    """Out = a · b, of entries that are not negative; returns the largest, and the smallest whose factors are positive."""
    return _product_loop((out, out_at, a, a_at, b, b_at, n), 2)


@intrinsic
def multiply_three_rows(typing_context, out, out_at, a, a_at, b, b_at, c, c_at, n):
    """Out = a · b · c, and the same."""
    return _product_loop((out, out_at, a, a_at, b, b_at, c, c_at, n), 3)


def _convert(builder: Any, x: Any, like: Any) -> Any:
    """X in the precision of a type of vector or number."""
    double, wanted = (isinstance(getattr(t, "element", t), ir.DoubleType) for t in (x.type, like))
    if double == wanted:
        return x
    return builder.fpext(x, like) if wanted else builder.fptrunc(x, like)


@intrinsic
def convert_row(typing_context, out, out_at, x, x_at, factor, n):
    """Out = factor · x, in the precision of out."""
    return _mixed_loop((out, out_at, x, x_at, factor, n), lambda b, old, new, s: _convert(b, b.fmul(new, s), old.type))


@intrinsic
def add_converted_row(typing_context, out, out_at, x, x_at, factor, n):
    """Out += factor · x, in the precision of out."""
    return _mixed_loop(
        (out, out_at, x, x_at, factor, n), lambda b, old, new, s: b.fadd(old, _convert(b, b.fmul(new, s), old.type))
    )


def _mixed_loop(given: tuple[Any, ...], body: Any) -> Any:
    """A loop over a row to write and a row to read in another precision, with a factor in the precision of the latter."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        types_ = [context.get_data_type(signature.args[i].dtype) for i in (0, 2)]
        lanes = max(lanes_of(signature.args[i].dtype) for i in (0, 2))
        to, source = (pointer(context, builder, signature.args[i], *arguments[i : i + 2]) for i in (0, 2))
        factor, n = arguments[4:]
        vectors = [ir.VectorType(t, lanes) for t in types_]
        factors = splat(builder, factor, vectors[1])
        blocks = builder.udiv(n, index(lanes))
        with cgutils.for_range(builder, blocks) as loop:
            at = builder.mul(loop.index, index(lanes))
            old, new = load(builder, to, at, vectors[0]), load(builder, source, at, vectors[1])
            store(builder, body(builder, old, new, factors), to, at)
        done = builder.mul(blocks, index(lanes))
        with cgutils.for_range(builder, builder.sub(n, done)) as loop:
            place, other = (builder.gep(row, [builder.add(done, loop.index)]) for row in (to, source))
            builder.store(body(builder, builder.load(place), builder.load(other), factor), place)
        return context.get_dummy_value()

    i = types.intp
    return types.void(given[0], i, given[2], i, given[2].dtype, i), generate


@intrinsic
def scale_row(typing_context, out, out_at, factor, n):
    """Out *= factor"""
    return _row_loop((out, out_at, factor, n), 1, (), lambda b, r, s: (b.fmul(r[0], s[0]), []))


@intrinsic
def extremes(typing_context, x, x_at, n):
    """The largest and the smallest entry."""
    return _row_loop((x, x_at, n), 1, ("max", "min"), lambda b, r, s: (None, [r[0], r[0]]))


@intrinsic
def smallest(typing_context, x, x_at, n):
    """The smallest entry."""
    return _row_loop((x, x_at, n), 1, ("min",), lambda b, r, s: (None, [r[0]]))


@intrinsic
def sum_of_row(typing_context, x, x_at, n):
    """The sum of all entries."""
    return _row_loop((x, x_at, n), 1, ("sum",), lambda b, r, s: (None, [r[0]]))


@intrinsic
def times_row(typing_context, out, out_at, x, x_at, n):
    """Out *= x"""
    return _row_loop((out, out_at, x, x_at, n), 2, (), lambda b, r, s: (b.fmul(r[0], r[1]), []))


@intrinsic
def add_row(typing_context, out, out_at, x, x_at, n):
    """Out += x"""
    return _row_loop((out, out_at, x, x_at, n), 2, (), lambda b, r, s: (b.fadd(r[0], r[1]), []))


@intrinsic
def copy_row(typing_context, out, out_at, x, x_at, n):
    """Out = x"""
    return _row_loop((out, out_at, x, x_at, n), 2, (), lambda b, r, s: (r[1], []))


@intrinsic
def fill_row(typing_context, out, out_at, value, n):
    """Out = value"""
    return _row_loop((out, out_at, value, n), 1, (), lambda b, r, s: (s[0], []))


@intrinsic
def set_scaled_row(typing_context, out, out_at, x, x_at, factor, n):
    """Out = factor · x"""
    return _row_loop((out, out_at, x, x_at, factor, n), 2, (), lambda b, r, s: (b.fmul(s[0], r[1]), []))


@intrinsic
def dot_rows(typing_context, x, x_at, y, y_at, n):
    """Σ x · y"""
    return _row_loop((x, x_at, y, y_at, n), 2, ("sum",), lambda b, r, s: (None, [b.fmul(r[0], r[1])]))


@intrinsic
def add_scaled_row(typing_context, out, out_at, x, x_at, factor, n):
    """Out += factor · x"""
    return _row_loop((out, out_at, x, x_at, factor, n), 2, (), lambda b, r, s: (b.fadd(r[0], b.fmul(s[0], r[1])), []))


@intrinsic
def add_scaled_product(typing_context, out, out_at, x, x_at, y, y_at, factor, n):
    """Out += factor · x · y"""
    return _row_loop(
        (out, out_at, x, x_at, y, y_at, factor, n),
        3,
        (),
        lambda b, r, s: (b.fadd(r[0], b.fmul(b.fmul(s[0], r[1]), r[2])), []),
    )


@intrinsic
def add_quotient(typing_context, out, out_at, x, x_at, y, y_at, n):
    """Out += x / y, where y is not zero"""

    def body(builder, rows, scalars):
        zero = _constant(rows[2], 0.0)
        quotient = builder.fdiv(rows[1], rows[2])
        return builder.fadd(rows[0], builder.select(builder.fcmp_ordered(">", rows[2], zero), quotient, zero)), []

    return _row_loop((out, out_at, x, x_at, y, y_at, n), 3, (), body)


@intrinsic
def divide_row(typing_context, out, out_at, x, x_at, n):
    """Out = out / x, zero where x is zero"""

    def body(builder, rows, scalars):
        zero = _constant(rows[1], 0.0)
        return builder.select(builder.fcmp_ordered(">", rows[1], zero), builder.fdiv(rows[0], rows[1]), zero), []

    return _row_loop((out, out_at, x, x_at, n), 2, (), body)


@intrinsic
def flows_of_edges(typing_context, f, f_at, w, w_at, n):
    """Gradients to flows, f *= w; returns their sum."""

    def body(builder, rows, scalars):
        flow = builder.fmul(rows[0], rows[1])
        return flow, [flow]

    return _row_loop((f, f_at, w, w_at, n), 2, ("sum",), body)


@intrinsic
def quadratic_of_edges(typing_context, f, f_at, w, w_at, four_mu, n):
    """Gradients to flows to twice the quadratic's root for λ = 1, F + sqrt(F² + 4μF); returns their sum."""

    def body(builder, rows, scalars):
        flow = builder.fmul(rows[0], rows[1])
        square = builder.fadd(builder.fmul(flow, flow), builder.fmul(scalars[0], flow))
        root = builder.fadd(flow, square_root(builder, square))
        return root, [root]

    return _row_loop((f, f_at, w, w_at, four_mu, n), 2, ("sum",), body)


@intrinsic
def mix_rows(typing_context, w, w_at, f, f_at, keep, scale, n):
    """W = keep · w + scale · f"""

    def body(builder, rows, scalars):
        return builder.fadd(builder.fmul(scalars[0], rows[0]), builder.fmul(scalars[1], rows[1])), []

    return _row_loop((w, w_at, f, f_at, keep, scale, n), 2, (), body)


@inner
def largest_gradient(FL):
    """Of a weight: times a weight of 0, which EM leaves, an infinite one would be NaN."""
    return FL.dtype.type(1e304) if FL.itemsize == 8 else FL.dtype.type(1e37)
