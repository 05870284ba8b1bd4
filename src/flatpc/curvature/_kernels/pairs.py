"""Kronecker products of two short rows, and the sums that undo them, written as vector instructions.

    set_outer        out[i, j]  = f · a_i b_j
    set_two_outers   out[i, j]  = f · (a_i b_j + c_i d_j)
    add_row_sums     out[i]    += f · Σ_j s[i, j] b_j
    add_column_sums  out[j]    += f · Σ_i s[i, j] a_i

for i < ka, j < kb, with the pairs (i, j) next to each other in memory, kb to a line. Lines are ten or so entries long, where a
loop that a compiler vectorises spends its time on what is left over: here the last vector of a line overlaps the one before.

Arguments are as in the engine's `rows.py`: an array and an offset for each operand, the factor, and both lengths.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine.numba._kernels.simd import index, lanes_of, load, pointer, splat, store


class _Code:
    """What all four need while their code is generated."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        n = len(arguments) - 3
        dtype = signature.args[0].dtype
        self.builder = builder
        self.scalar, self.lanes = context.get_data_type(dtype), lanes_of(dtype)
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.rows = [pointer(context, builder, signature.args[i], *arguments[i : i + 2]) for i in range(0, n, 2)]
        self.factor, self.ka, self.kb = arguments[n:]

    def get(self, row: Any, at: Any, kind: Any) -> Any:
        return load(self.builder, row, at, kind) if kind is self.vector else self.builder.load(self.builder.gep(row, [at]))

    def put(self, value: Any, row: Any, at: Any) -> None:
        if value.type is self.scalar:
            self.builder.store(value, self.builder.gep(row, [at]))
        else:
            store(self.builder, value, row, at)

    def wide(self, number: Any, kind: Any) -> Any:
        return splat(self.builder, number, kind) if kind is self.vector else number

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.fadd(self.builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

    def zero(self, kind: Any) -> Any:
        return ir.Constant(kind, [0.0] * self.lanes if kind is self.vector else 0.0)

    def along_line(self, body: Callable[[Any, Any, Any], None]) -> None:
        """`body(at, kind, new)` for places that cover a line: vectors if one fits, otherwise single entries.

        `new` is a mask of the lanes that no vector before this one had, or None if all are new.
        """
        b, lanes = self.builder, self.lanes
        with b.if_else(b.icmp_signed(">=", self.kb, index(lanes))) as (then, otherwise):
            with then:
                whole = b.sdiv(self.kb, index(lanes))
                with cgutils.for_range(b, whole) as loop:
                    body(b.mul(loop.index, index(lanes)), self.vector, None)
                rest = b.sub(self.kb, b.mul(whole, index(lanes)))
                with b.if_then(b.icmp_signed(">", rest, index(0))):
                    lane = ir.Constant(ir.VectorType(ir.IntType(64), lanes), list(range(lanes)))
                    first = splat(b, b.sub(index(lanes), rest), lane.type)
                    body(b.sub(self.kb, index(lanes)), self.vector, b.icmp_signed(">=", lane, first))
            with otherwise, cgutils.for_range(b, self.kb) as loop:
                body(loop.index, self.scalar, None)


def _signature(result_rows: tuple[Any, ...]) -> Any:
    dtype = result_rows[0].dtype
    return types.void(*[t for row in result_rows for t in (row, types.intp)], dtype, types.intp, types.intp)


def _set_outers(code: _Code) -> None:
    b = code.builder
    out, left, right = code.rows[0], code.rows[1::2], code.rows[2::2]
    with cgutils.for_range(b, code.ka) as loop:
        factors = [b.fmul(code.factor, code.get(row, loop.index, code.scalar)) for row in left]
        line = b.mul(loop.index, code.kb)

        def body(at: Any, kind: Any, new: Any) -> None:
            value = b.fmul(code.wide(factors[0], kind), code.get(right[0], at, kind))
            for factor, row in zip(factors[1:], right[1:], strict=True):
                value = code.fused(code.wide(factor, kind), code.get(row, at, kind), value)
            code.put(value, out, b.add(line, at))

        code.along_line(body)


@intrinsic
def set_outer(typing_context, out, out_at, a, a_at, b, b_at, factor, ka, kb):
    """out[i, j] = factor · a_i b_j"""

    def generate(context, builder, signature, arguments):
        _set_outers(_Code(context, builder, signature, arguments))
        return context.get_dummy_value()

    return _signature((out, a, b)), generate


@intrinsic
def set_two_outers(typing_context, out, out_at, a, a_at, b, b_at, c, c_at, d, d_at, factor, ka, kb):
    """out[i, j] = factor · (a_i b_j + c_i d_j)"""

    def generate(context, builder, signature, arguments):
        _set_outers(_Code(context, builder, signature, arguments))
        return context.get_dummy_value()

    return _signature((out, a, b, c, d)), generate


@intrinsic
def add_row_sums(typing_context, out, out_at, s, s_at, x, x_at, factor, ka, kb):
    """out[i] += factor · Σ_j s[i, j] x_j"""

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature, arguments)
        out, s, x = code.rows
        wide, narrow = cgutils.alloca_once(builder, code.vector), cgutils.alloca_once(builder, code.scalar)
        with cgutils.for_range(builder, code.ka) as loop:
            builder.store(code.zero(code.vector), wide)
            builder.store(code.zero(code.scalar), narrow)
            line = builder.mul(loop.index, code.kb)

            def body(at, kind, new):
                total = wide if kind is code.vector else narrow
                entries = code.get(x, at, kind)
                if new is not None:
                    entries = builder.select(new, entries, code.zero(kind))
                builder.store(code.fused(code.get(s, builder.add(line, at), kind), entries, builder.load(total)), total)

            code.along_line(body)
            total, lanes = builder.load(wide), code.lanes
            while lanes > 1:
                lanes //= 2
                halves = [
                    builder.shuffle_vector(
                        total, total, ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes)))
                    )
                    for start in (0, lanes)
                ]
                total = builder.fadd(*halves)
            total = builder.extract_element(total, ir.Constant(ir.IntType(32), 0))
            total = builder.fadd(total, builder.load(narrow))
            code.put(code.fused(code.factor, total, code.get(out, loop.index, code.scalar)), out, loop.index)
        return context.get_dummy_value()

    return _signature((out, s, x)), generate


@intrinsic
def add_column_sums(typing_context, out, out_at, s, s_at, x, x_at, factor, ka, kb):
    """out[j] += factor · Σ_i s[i, j] x_i"""

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature, arguments)
        out, s, x = code.rows
        totals = {kind: cgutils.alloca_once(builder, kind) for kind in (code.vector, code.scalar)}

        def body(at, kind, new):
            total = totals[kind]
            builder.store(code.zero(kind), total)
            with cgutils.for_range(builder, code.ka) as loop:
                entries = code.get(s, builder.add(builder.mul(loop.index, code.kb), at), kind)
                number = code.wide(code.get(x, loop.index, code.scalar), kind)
                builder.store(code.fused(number, entries, builder.load(total)), total)
            old = code.get(out, at, kind)
            value = code.fused(code.wide(code.factor, kind), builder.load(total), old)
            code.put(value if new is None else builder.select(new, value, old), out, at)

        code.along_line(body)
        return context.get_dummy_value()

    return _signature((out, s, x)), generate
