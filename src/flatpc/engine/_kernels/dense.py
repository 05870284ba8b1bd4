"""Small matrix products for one to a few hundred rows, where general BLAS reaches a quarter of the machine.

    multiply_transposed   out[u, n]  = Σ_c p[u, c] W[n, c]      (values, upward)
    multiply              out[u, c]  = Σ_n g[u, n] W[n, c]      (adjoints, downward)
    accumulate_outer      F[n, c]   += Σ_u g[u, n] p[u, c]      (flows of the weights)

Whole vectors go through the register tiles of `simd.py`, rows narrower than a vector through plain loops. Each entry of a
result is computed in one fixed order, whatever range of rows a call is given.
"""

from numba import njit

from flatpc.engine._kernels.simd import VECTOR_BYTES, axpy_tile, dot_tile

FAST = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered. Not nnan, ninf: infinities must survive."""
_ROWS_AT_A_TIME = 64
_dot3, _dot2, _dot1 = dot_tile(3), dot_tile(2), dot_tile(1)
_set43, _set23, _set13 = axpy_tile(4, 3, False), axpy_tile(2, 3, False), axpy_tile(1, 3, False)
_set41, _set21, _set11 = axpy_tile(4, 1, False), axpy_tile(2, 1, False), axpy_tile(1, 1, False)
_add43, _add23, _add13 = axpy_tile(4, 3, True), axpy_tile(2, 3, True), axpy_tile(1, 3, True)
_add41, _add21, _add11 = axpy_tile(4, 1, True), axpy_tile(2, 1, True), axpy_tile(1, 1, True)


@njit(cache=True, fastmath=FAST, boundscheck=False)
def multiply_transposed(p, w, out, lo, hi):
    """out[lo:hi, :n_out] = p[lo:hi] @ w.T"""
    n_out, n_in = w.shape
    o = out.shape[1]
    n = 0
    if n_in % (VECTOR_BYTES // p.itemsize) == 0:
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


@njit(cache=True, fastmath=FAST, boundscheck=False)
def multiply(g, w, out, lo, hi):
    """out[lo:hi] = g[lo:hi, :n_out] @ w"""
    n_out, n_in = w.shape
    stride = g.shape[1]
    lanes = VECTOR_BYTES // g.itemsize
    c = 0
    if n_in % lanes == 0:
        while c + 3 * lanes <= n_in:
            u = lo
            while u + 4 <= hi:
                _set43(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                u += 4
            if u + 2 <= hi:
                _set23(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                u += 2
            if u < hi:
                _set13(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += 3 * lanes
        while c < n_in:
            u = lo
            while u + 4 <= hi:
                _set41(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                u += 4
            if u + 2 <= hi:
                _set21(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
                u += 2
            if u < hi:
                _set11(g, u * stride, stride, 1, w, c, n_in, out, u * n_in + c, n_in, n_out)
            c += lanes
        return
    out[lo:hi] = 0
    for n in range(n_out):
        w0 = w[n]
        for u in range(lo, hi):
            a0 = g[u, n]
            o0 = out[u]
            for j in range(n_in):
                o0[j] += a0 * w0[j]


@njit(cache=True, fastmath=FAST, boundscheck=False)
def accumulate_outer(g, p, f, n_lo, n_hi):
    """F += g[:, n_lo:n_hi].T @ p, a few rows at a time, so that they are in cache for every tile"""
    for lo in range(0, len(p), _ROWS_AT_A_TIME):
        _accumulate_some(g, p, f, n_lo, n_hi, lo, min(lo + _ROWS_AT_A_TIME, len(p)))


@njit(cache=True, fastmath=FAST, boundscheck=False)
def _accumulate_some(g, p, f, n_lo, n_hi, lo, hi):
    n_in = p.shape[1]
    stride = g.shape[1]
    n_rows = hi - lo
    lanes = VECTOR_BYTES // g.itemsize
    c = 0
    if n_in % lanes == 0:
        while c + 3 * lanes <= n_in:
            n = n_lo
            while n + 4 <= n_hi:
                _add43(g, lo * stride + n, 1, stride, p, lo * n_in + c, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                n += 4
            if n + 2 <= n_hi:
                _add23(g, lo * stride + n, 1, stride, p, lo * n_in + c, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                n += 2
            if n < n_hi:
                _add13(g, lo * stride + n, 1, stride, p, lo * n_in + c, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
            c += 3 * lanes
        while c < n_in:
            n = n_lo
            while n + 4 <= n_hi:
                _add41(g, lo * stride + n, 1, stride, p, lo * n_in + c, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                n += 4
            if n + 2 <= n_hi:
                _add21(g, lo * stride + n, 1, stride, p, lo * n_in + c, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
                n += 2
            if n < n_hi:
                _add11(g, lo * stride + n, 1, stride, p, lo * n_in + c, n_in, f, (n - n_lo) * n_in + c, n_in, n_rows)
            c += lanes
        return
    for u in range(lo, hi):
        p0 = p[u]
        for n in range(n_lo, n_hi):
            a0 = g[u, n]
            f0 = f[n - n_lo]
            for j in range(n_in):
                f0[j] += a0 * p0[j]
