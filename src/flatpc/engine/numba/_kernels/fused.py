"""The M-step inside the tile that adds up the flows: a flow goes from register to new weight and is stored once.

`new_weights` does for a few units of a dense sum what `dense.accumulate_outer` and `update.update_unit` do one after the
other, for the two updates that need no more than one sweep over the flows: plain, and quadratic with λ = 1.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.dense import FAST, accumulate_rows
from flatpc.engine.numba._kernels.rows import mix_rows, square_root, sum_of_row
from flatpc.engine.numba._kernels.simd import VECTOR_BYTES, index, lanes_of, load, multiply_add, pointer, splat, store
from flatpc.engine.numba._kernels.update import least_flow

UNITS = 4
"""Units of a tile."""
_ROWS = 128
"""Rows that stay in the first-level cache while one sweep after the other goes over them."""


def _flow_tile(vectors: int) -> Any:
    """`UNITS` units × `vectors` vectors of weights: flows, from them what new weights are proportional to, and its sums.

    F[n, c] = w[n, c] · (Σ_u g[u, n] p[u, c] + f[n, c] if add),  f[n, c] = F, or F + sqrt(F² + 4μF) if μ > 0,
    totals[n] (+)= Σ_c f[n, c], lane by lane; set by the `first` tile of a row, added to by others.
    """

    @intrinsic
    def tile(typing_context, g, g_at, g_row, p, p_at, p_row, w, w_at, f, f_at, totals, first, n, add, four_mu):
        def generate(context, builder, signature, arguments):
            g, g_at, g_row, p, p_at, p_row, w, w_at, f, f_at, totals, first, n, add, four_mu = arguments
            dtype = signature.args[0].dtype
            scalar, lanes = context.get_data_type(dtype), lanes_of(dtype)
            vector = ir.VectorType(scalar, lanes)
            pg = pointer(context, builder, signature.args[0], g, g_at)
            pp = pointer(context, builder, signature.args[3], p, p_at)
            pw = pointer(context, builder, signature.args[6], w, w_at)
            pf = pointer(context, builder, signature.args[8], f, f_at)
            pt = pointer(context, builder, signature.args[10], totals, index(0))
            at = [[builder.add(builder.mul(p_row, index(r)), index(j * lanes)) for j in range(vectors)] for r in range(UNITS)]
            flows = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(UNITS)]
            zero = ir.Constant(vector, [0.0] * lanes)
            for row in flows:
                for flow in row:
                    builder.store(zero, flow)
            with builder.if_then(add):
                for r in range(UNITS):
                    for j in range(vectors):
                        builder.store(load(builder, pf, at[r][j], vector), flows[r][j])
            with cgutils.for_range(builder, n) as loop:
                row = builder.mul(loop.index, p_row)
                xs = [load(builder, pp, builder.add(row, index(j * lanes)), vector) for j in range(vectors)]
                column = builder.mul(loop.index, g_row)
                for r in range(UNITS):
                    factor = splat(builder, builder.load(builder.gep(pg, [builder.add(column, index(r))])), vector)
                    for j in range(vectors):
                        builder.store(multiply_add(builder, factor, xs[j], builder.load(flows[r][j])), flows[r][j])
            for r in range(UNITS):
                for j in range(vectors):
                    flow = builder.fmul(builder.load(flows[r][j]), load(builder, pw, at[r][j], vector))
                    builder.store(flow, flows[r][j])
            with builder.if_then(builder.fcmp_ordered(">", four_mu, ir.Constant(scalar, 0.0))):
                mu = splat(builder, four_mu, vector)
                for r in range(UNITS):
                    for j in range(vectors):
                        flow = builder.load(flows[r][j])
                        root = square_root(builder, builder.fmul(flow, builder.fadd(flow, mu)))
                        builder.store(builder.fadd(flow, root), flows[r][j])
            for r in range(UNITS):
                total = builder.select(first, zero, load(builder, pt, index(r * lanes), vector))
                for j in range(vectors):
                    flow = builder.load(flows[r][j])
                    store(builder, flow, pf, at[r][j])
                    total = builder.fadd(total, flow)
                store(builder, total, pt, index(r * lanes))
            return context.get_dummy_value()

        i, dtype = types.intp, g.dtype
        return types.void(g, i, i, p, i, i, w, i, f, i, totals, types.boolean, i, types.boolean, dtype), generate

    return tile


_flows3, _flows2, _flows1 = _flow_tile(3), _flow_tile(2), _flow_tile(1)


@inner
def fits(n_in, itemsize):
    """Whether rows of this many entries are whole vectors."""
    return n_in % (VECTOR_BYTES // itemsize) == 0


@inner(fastmath=FAST)
def new_weights(g, p, f, totals, W, w_at, n_lo, n_hi, four_mu, alpha):
    """W[w_at...], weights of units n_lo:n_hi, from adjoints g and the child's values p; n_hi - n_lo is a multiple of `UNITS`.

    f [units, n_in] is scratch, totals at least `UNITS` vectors.
    """
    n_rows, n_in = p.shape
    stride = g.shape[1]
    lanes = VECTOR_BYTES // W.itemsize
    flat = f.reshape(f.size)
    keep, alpha = W.dtype.type(1 - alpha), W.dtype.type(alpha)
    lo = 0
    if n_rows > _ROWS:
        f[:] = 0
        while lo + _ROWS < n_rows:
            accumulate_rows(g, p, f, n_lo, n_hi, lo, lo + _ROWS)
            lo += _ROWS
    for n in range(n_lo, n_hi, UNITS):
        at = (n - n_lo) * n_in
        c = 0
        while c < n_in:
            left = (n_in - c) // lanes
            gi, pi, wi, fi = lo * stride + n, lo * n_in + c, w_at + at + c, at + c
            if left >= 5 or left == 3:
                _flows3(g, gi, stride, p, pi, n_in, W, wi, f, fi, totals, c == 0, n_rows - lo, lo > 0, four_mu)
                c += 3 * lanes
            elif left >= 2:
                _flows2(g, gi, stride, p, pi, n_in, W, wi, f, fi, totals, c == 0, n_rows - lo, lo > 0, four_mu)
                c += 2 * lanes
            else:
                _flows1(g, gi, stride, p, pi, n_in, W, wi, f, fi, totals, c == 0, n_rows - lo, lo > 0, four_mu)
                c += lanes
        for r in range(UNITS):
            total = sum_of_row(totals, r * lanes, lanes)
            if total >= least_flow(W):
                mix_rows(W, w_at + at + r * n_in, flat, at + r * n_in, keep, W.dtype.type(alpha / total), n_in)
