"""Small matrix products for 1 to a few hundred rows, where general BLAS reaches a quarter of the machine.

Weights are `W[n, c]`. Every loop takes four rows of W at a time, so that a block of weights is read from memory once
however many products use it, and leaves the innermost loop over `c` to the compiler's vectoriser:

    multiply_transposed   out[u, n]  = Σ_c p[u, c] W[n, c]      (values, upward)
    multiply              out[u, c]  = Σ_n g[u, n] W[n, c]      (adjoints, downward)
    accumulate_outer      F[n, c]   += Σ_u g[u, n] p[u, c]      (flows of the weights)

Each entry of a result is computed in one fixed order, whatever range of rows a call is given.
"""

from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}  # not nnan, ninf: infinities must survive


@njit(cache=True, fastmath=FAST, inline="never", boundscheck=False)
def multiply_transposed(p, w, out, lo, hi):
    """out[lo:hi] = p[lo:hi] @ w.T"""
    n_out, n_in = w.shape
    zero = p.dtype.type(0)
    n = 0
    while n + 4 <= n_out:
        w0, w1, w2, w3 = w[n], w[n + 1], w[n + 2], w[n + 3]
        u = lo
        while u + 2 <= hi:
            p0, p1 = p[u], p[u + 1]
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            for c in range(n_in):
                x, y = p0[c], p1[c]
                a0 += x * w0[c]
                a1 += x * w1[c]
                a2 += x * w2[c]
                a3 += x * w3[c]
                b0 += y * w0[c]
                b1 += y * w1[c]
                b2 += y * w2[c]
                b3 += y * w3[c]
            out[u, n], out[u, n + 1], out[u, n + 2], out[u, n + 3] = a0, a1, a2, a3
            out[u + 1, n], out[u + 1, n + 1], out[u + 1, n + 2], out[u + 1, n + 3] = b0, b1, b2, b3
            u += 2
        if u < hi:
            p0 = p[u]
            a0, a1, a2, a3 = zero, zero, zero, zero
            for c in range(n_in):
                x = p0[c]
                a0 += x * w0[c]
                a1 += x * w1[c]
                a2 += x * w2[c]
                a3 += x * w3[c]
            out[u, n], out[u, n + 1], out[u, n + 2], out[u, n + 3] = a0, a1, a2, a3
        n += 4
    while n < n_out:
        w0 = w[n]
        for u in range(lo, hi):
            p0 = p[u]
            a0 = zero
            for c in range(n_in):
                a0 += p0[c] * w0[c]
            out[u, n] = a0
        n += 1


@njit(cache=True, fastmath=FAST, inline="never", boundscheck=False)
def multiply(g, w, out, lo, hi):
    """out[lo:hi] = g[lo:hi, :n_out] @ w"""
    n_out, n_in = w.shape
    out[lo:hi] = 0
    n = 0
    while n + 4 <= n_out:
        w0, w1, w2, w3 = w[n], w[n + 1], w[n + 2], w[n + 3]
        u = lo
        while u + 2 <= hi:
            a0, a1, a2, a3 = g[u, n], g[u, n + 1], g[u, n + 2], g[u, n + 3]
            b0, b1, b2, b3 = g[u + 1, n], g[u + 1, n + 1], g[u + 1, n + 2], g[u + 1, n + 3]
            o0, o1 = out[u], out[u + 1]
            for c in range(n_in):
                x0, x1, x2, x3 = w0[c], w1[c], w2[c], w3[c]
                o0[c] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                o1[c] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
            u += 2
        if u < hi:
            a0, a1, a2, a3 = g[u, n], g[u, n + 1], g[u, n + 2], g[u, n + 3]
            o0 = out[u]
            for c in range(n_in):
                o0[c] += a0 * w0[c] + a1 * w1[c] + a2 * w2[c] + a3 * w3[c]
        n += 4
    while n < n_out:
        w0 = w[n]
        for u in range(lo, hi):
            a0 = g[u, n]
            o0 = out[u]
            for c in range(n_in):
                o0[c] += a0 * w0[c]
        n += 1


@njit(cache=True, fastmath=FAST, inline="never", boundscheck=False)
def accumulate_outer(g, p, f, n_lo, n_hi):
    """F += g[:, n_lo:n_hi].T @ p"""
    n_rows, n_in = p.shape
    n = n_lo
    while n + 2 <= n_hi:
        f0, f1 = f[n - n_lo], f[n - n_lo + 1]
        u = 0
        while u + 4 <= n_rows:
            p0, p1, p2, p3 = p[u], p[u + 1], p[u + 2], p[u + 3]
            a0, a1, a2, a3 = g[u, n], g[u + 1, n], g[u + 2, n], g[u + 3, n]
            b0, b1, b2, b3 = g[u, n + 1], g[u + 1, n + 1], g[u + 2, n + 1], g[u + 3, n + 1]
            for c in range(n_in):
                x0, x1, x2, x3 = p0[c], p1[c], p2[c], p3[c]
                f0[c] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                f1[c] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
            u += 4
        while u < n_rows:
            p0 = p[u]
            a0, b0 = g[u, n], g[u, n + 1]
            for c in range(n_in):
                f0[c] += a0 * p0[c]
                f1[c] += b0 * p0[c]
            u += 1
        n += 2
    if n < n_hi:
        f0 = f[n - n_lo]
        for u in range(n_rows):
            p0 = p[u]
            a0 = g[u, n]
            for c in range(n_in):
                f0[c] += a0 * p0[c]
