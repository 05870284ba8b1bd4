"""Small matrix products for one to a few hundred rows, where general BLAS reaches a quarter of the machine.

    multiply_transposed   out[u, n]  = Σ_c p[u, c] W[n, c]      (values, upward)
    multiply              out[u, c]  = Σ_n g[u, n] W[n, c]      (adjoints, downward)
    accumulate_outer      F[n, c]   += Σ_u g[u, n] p[u, c]      (flows of the weights)

Whole vectors go through the register tiles of `simd.py`, rows narrower than a vector through plain loops. Each entry of a
result is computed in one fixed order, whatever range of rows a call is given.
"""

from flatpc.engine.numba._kernels.compiling import inner
from flatpc.engine.numba._kernels.simd import VECTOR_BYTES, axpy_tile, dot_tile

FAST = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered. Not nnan, ninf: infinities must survive."""
ROWS_AT_A_TIME = 64
_dot3, _dot2, _dot1, _dot18 = dot_tile(3), dot_tile(2), dot_tile(1), dot_tile(1, 8)
_set43, _set42, _set41 = axpy_tile(4, 3, False), axpy_tile(4, 2, False), axpy_tile(4, 1, False)
_set34, _set33, _set32, _set31 = (axpy_tile(3, c, False) for c in (4, 3, 2, 1))
_set25, _set24, _set23, _set22, _set21 = (axpy_tile(2, c, False) for c in (5, 4, 3, 2, 1))
_set17, _set16, _set13, _set11 = (axpy_tile(1, c, False) for c in (7, 6, 3, 1))
_add43, _add42, _add41 = axpy_tile(4, 3, True), axpy_tile(4, 2, True), axpy_tile(4, 1, True)
_add13, _add12, _add11 = axpy_tile(1, 3, True), axpy_tile(1, 2, True), axpy_tile(1, 1, True)


@inner(fastmath=FAST)
def multiply_transposed(p, w, out, lo, hi):
    """out[lo:hi, :n_out] = p[lo:hi] @ w.T"""
    n_out, n_in = w.shape
    o = out.shape[1]
    n = 0
    if n_in % (VECTOR_BYTES // p.itemsize) == 0:
        while hi == lo + 1 and n + 8 <= n_out:
            _dot18(p, lo * n_in, n_in, w, n * n_in, n_in, out, lo * o + n, o, n_in)
            n += 8
        while n + 4 <= n_out:
            u = lo
            while u + 3 <= hi:
                _dot3(p, u * n_in, n_in, w, n * n_in, n_in, out, u * o + n, o, n_in)
                u += 3
            if u + 2 == hi:
                _dot2(p, u * n_in, n_in, w, n * n_in, n_in, out, u * o + n, o, n_in)
            elif u + 1 == hi:
                _dot1(p, u * n_in, n_in, w, n * n_in, n_in, out, u * o + n, o, n_in)
            n += 4
    zero = p.dtype.type(0)
    while n < n_out:
        w0 = w[n]
        for u in range(lo, hi):
            p0 = p[u]
            a0 = zero
            for c in range(n_in):
                a0 += p0[c] * w0[c]
            out[u, n] = a0
        n += 1


@inner(fastmath=FAST)
def multiply(g, w, out, lo, hi):
    """out[lo:hi] = g[lo:hi, :n_out] @ w"""
    n_out, n_in = w.shape
    lanes = VECTOR_BYTES // g.itemsize
    if n_in % lanes == 0:
        if hi - lo >= 4:
            _many_rows(g, w, out, lo, hi, lanes)
        elif hi - lo == 3:
            _three_rows(g, w, out, lo, lanes)
        elif hi - lo == 2:
            _two_rows(g, w, out, lo, lanes)
        elif hi > lo:
            _one_row(g, w, out, lo, lanes)
        return
    out[lo:hi] = 0
    for n in range(n_out):
        w0 = w[n]
        for u in range(lo, hi):
            a0 = g[u, n]
            o0 = out[u]
            for j in range(n_in):
                o0[j] += a0 * w0[j]


# A tile must have at least eight vectors of results, since a vector unit starts a new multiplication long before it has
# finished the last; and at most twelve or so, which is all the registers hold. Widths are chosen so that none is left over.


@inner(fastmath=FAST)
def _many_rows(g, w, out, lo, hi, lanes):
    n_out, n_in = w.shape
    stride = g.shape[1]
    c = 0
    while c < n_in:
        u, left = lo, (n_in - c) // lanes
        if left >= 5 or left == 3:
            while u < hi:
                rows = hi - u
                if rows >= 7 or rows == 4:
                    _set43(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 4
                elif rows >= 3:
                    _set33(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 3
                else:
                    _set23(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 2
            c += 3 * lanes
        elif left >= 2:
            while u < hi:
                rows = hi - u
                if rows >= 7 or rows == 4:
                    _set42(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 4
                elif rows >= 3:
                    _set32(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 3
                else:
                    _set22(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 2
            c += 2 * lanes
        else:
            while u < hi:
                rows = hi - u
                if rows >= 4:
                    _set41(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 4
                else:
                    _set11(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                    u += 1
            c += lanes


@inner(fastmath=FAST)
def _three_rows(g, w, out, u, lanes):
    n_out, n_in = w.shape
    stride = g.shape[1]
    c = 0
    while c < n_in:
        left = (n_in - c) // lanes
        if left >= 4 and left % 3 != 0:
            _set34(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 4 * lanes
        elif left >= 3:
            _set33(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 3 * lanes
        elif left == 2:
            _set32(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 2 * lanes
        else:
            _set31(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += lanes


@inner(fastmath=FAST)
def _two_rows(g, w, out, u, lanes):
    n_out, n_in = w.shape
    stride = g.shape[1]
    c = 0
    while c < n_in:
        left = (n_in - c) // lanes
        if left >= 5 and left % 4 != 0:
            _set25(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 5 * lanes
        elif left >= 4:
            _set24(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 4 * lanes
        elif left == 3:
            _set23(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 3 * lanes
        elif left == 2:
            _set22(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 2 * lanes
        else:
            _set21(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += lanes


@inner(fastmath=FAST)
def _one_row(g, w, out, u, lanes):
    n_out, n_in = w.shape
    stride = g.shape[1]
    c = 0
    while c < n_in:
        left = (n_in - c) // lanes
        if left >= 7 and left % 6 != 0:
            _set17(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 7 * lanes
        elif left >= 6:
            _set16(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 6 * lanes
        elif left >= 3:
            _set13(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 3 * lanes
        else:
            _set11(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += lanes


@inner(fastmath=FAST)
def accumulate_outer(g, p, f, n_lo, n_hi):
    """F += g[:, n_lo:n_hi].T @ p, a few rows at a time, so that they are in cache for every tile"""
    for lo in range(0, len(p), ROWS_AT_A_TIME):
        accumulate_rows(g, p, f, n_lo, n_hi, lo, min(lo + ROWS_AT_A_TIME, len(p)))


@inner(fastmath=FAST)
def accumulate_rows(g, p, f, n_lo, n_hi, lo, hi):
    """F += g[lo:hi, n_lo:n_hi].T @ p[lo:hi]"""
    n_in = p.shape[1]
    stride = g.shape[1]
    n_rows = hi - lo
    lanes = VECTOR_BYTES // g.itemsize
    if n_in % lanes == 0:
        c = 0
        while c < n_in:
            left = (n_in - c) // lanes
            b, n = lo * n_in + c, n_lo
            if left >= 5 or left == 3:
                while n + 4 <= n_hi:
                    _add43(g, lo * stride + n, 1, stride, p, b, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                    n += 4
                while n < n_hi:
                    _add13(g, lo * stride + n, 1, stride, p, b, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                    n += 1
                c += 3 * lanes
            elif left >= 2:
                while n + 4 <= n_hi:
                    _add42(g, lo * stride + n, 1, stride, p, b, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                    n += 4
                while n < n_hi:
                    _add12(g, lo * stride + n, 1, stride, p, b, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                    n += 1
                c += 2 * lanes
            else:
                while n + 4 <= n_hi:
                    _add41(g, lo * stride + n, 1, stride, p, b, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                    n += 4
                while n < n_hi:
                    _add11(g, lo * stride + n, 1, stride, p, b, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                    n += 1
                c += lanes
        return
    for u in range(lo, hi):
        p0 = p[u]
        for n in range(n_lo, n_hi):
            a0 = g[u, n]
            f0 = f[n - n_lo]
            for j in range(n_in):
                f0[j] += a0 * p0[j]
