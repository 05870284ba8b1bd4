"""Vector code against NumPy: every shape of tile and every length of row."""

import numpy as np
import pytest
from numba import njit

from flatpc.engine.numba._kernels import dense, fused, rows
from flatpc.engine.numba._kernels.update import cubic_root, exact_multiplier

RNG = np.random.default_rng(0)
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


@njit
def multiply_transposed(p, w, out, lo, hi):
    dense.multiply_transposed(p, w, out, lo, hi)


@njit
def multiply(g, w, out, lo, hi):
    dense.multiply(g, w, out, lo, hi)


@njit
def accumulate_outer(g, p, f, n_lo, n_hi):
    dense.accumulate_outer(g, p, f, n_lo, n_hi)


@njit
def new_weights(g, p, f, totals, W, w_at, n_lo, n_hi, four_mu, alpha):
    fused.new_weights(g, p, f, totals, W, w_at, n_lo, n_hi, four_mu, alpha)


def padded(k):
    from flatpc.engine.numba.program import padded

    return padded(k)


def random(shape, dtype, live):
    """Numbers in the first `live` columns, zeros in the padding."""
    out = np.zeros(shape, dtype)
    out[:, :live] = RNG.random((shape[0], live))
    return out


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 7, 11])
@pytest.mark.parametrize(("n_out", "n_in"), [(1, 1), (3, 5), (4, 8), (5, 12), (10, 24), (33, 40), (2, 100), (100, 100), (6, 600)])
def test_products(dtype, n_rows, n_out, n_in):
    p = random((n_rows, padded(n_in)), dtype, n_in)
    g = random((n_rows, padded(n_out)), dtype, n_out)
    w = random((n_out, padded(n_in)), dtype, n_in)
    close = {"rtol": TOLERANCE[dtype] * n_in, "atol": TOLERANCE[dtype]}
    out = np.full((n_rows, padded(n_out)), 7, dtype)
    multiply_transposed(p, w, out, 0, n_rows)
    np.testing.assert_allclose(out[:, :n_out], p.astype(float) @ w.T.astype(float), **close)
    assert (out[:, n_out:] == 7).all()
    down = np.full(p.shape, 7, dtype)
    multiply(g, w, down, 0, n_rows)
    np.testing.assert_allclose(down, g[:, :n_out].astype(float) @ w.astype(float), **close)
    flow = np.ones((n_out, padded(n_in)), dtype)
    accumulate_outer(g, p, flow, 0, n_out)
    np.testing.assert_allclose(flow, 1 + g[:, :n_out].T.astype(float) @ p.astype(float), **close)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_row_is_the_same_to_the_bit_in_any_range_of_rows(dtype):
    p, g = random((13, padded(30)), dtype, 30), random((13, padded(20)), dtype, 20)
    w = random((20, padded(30)), dtype, 30)
    up, down = np.zeros((13, padded(20)), dtype), np.zeros((13, padded(30)), dtype)
    multiply_transposed(p, w, up, 0, 13)
    multiply(g, w, down, 0, 13)
    for lo in range(13):
        for hi in range(lo + 1, 14):
            a, b = np.zeros_like(up), np.zeros_like(down)
            multiply_transposed(p, w, a, lo, hi)
            multiply(g, w, b, lo, hi)
            np.testing.assert_array_equal(a[lo:hi], up[lo:hi])
            np.testing.assert_array_equal(b[lo:hi], down[lo:hi])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("n_rows", [1, 2, 5, 130, 300])
@pytest.mark.parametrize("n_in", [8, 10, 20, 30, 100])
def test_new_weights_are_those_of_the_flows(dtype, mu, n_rows, n_in):
    first, last, n_out, stride, kind = 4, 12, 12, padded(n_in), np.dtype(dtype).type
    p, g = random((n_rows, stride), dtype, n_in), random((n_rows, padded(n_out)), dtype, n_out)
    g[:, 5] = 0  # a unit without flow keeps its weights
    old = random((n_out, stride), dtype, n_in)
    new = old.flatten()
    lanes = fused.VECTOR_BYTES // new.itemsize
    f, totals = np.full((16, stride), np.nan, dtype), np.full(4 * lanes, np.nan, dtype)
    new_weights(g, p, f, totals, new, first * stride, first, last, kind(4 * mu), 0.25)
    flow = old.astype(float) * (g[:, :n_out].T.astype(float) @ p.astype(float))
    root = flow + np.sqrt(flow**2 + 4 * mu * flow)
    total = root.sum(1, keepdims=True)
    wanted = np.where(total > 0, 0.75 * old + 0.25 * root / np.where(total > 0, total, 1), old)
    wanted[:first] = old[:first]
    np.testing.assert_allclose(new.reshape(old.shape), wanted, rtol=TOLERANCE[dtype] * 10)


@njit
def all_rows(a, b, c, d, at, n, scalar):
    first = rows.multiply_rows(a, at, b, at + 1, c, at + 2, n)
    second = rows.multiply_three_rows(d, at, a, at, b, at + 1, c, at + 2, n)
    extremes = rows.extremes(d, at, n)
    low = rows.smallest(d, at, n)
    rows.add_row(a, at, d, at, n)
    rows.times_row(a, at, b, at + 1, n)
    rows.add_quotient(d, at, a, at, c, at + 2, n)
    rows.scale_row(d, at, scalar, n)
    return extremes, low, first, second


@njit
def mixed(narrow, wide, divisor, at, n):
    rows.convert_row(narrow, at, wide, at + 1, 0.5, n)
    rows.add_converted_row(wide, at, narrow, at, narrow.dtype.type(3), n)
    rows.divide_row(narrow, at, divisor, at + 1, n)
    return rows.sum_of_row(wide, at, n)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [1, 3, 7, 8, 9, 100])
def test_rows_of_two_precisions(dtype, n):
    wide, narrow, divisor = RNG.random(n + 5), np.zeros(n + 5, dtype), RNG.random(n + 5).astype(dtype)
    divisor[3] = 0
    before = wide.copy()
    total = mixed(narrow, wide, divisor, 2, n)
    half = (0.5 * before[3 : 3 + n]).astype(dtype)
    sums = before[2 : 2 + n] + 3 * half.astype(float)
    np.testing.assert_allclose(wide[2 : 2 + n], sums, rtol=2 * TOLERANCE[dtype])
    assert total == pytest.approx(sums.sum())
    quotient = np.divide(half, divisor[3 : 3 + n], out=np.zeros_like(half), where=divisor[3 : 3 + n] > 0)
    np.testing.assert_allclose(narrow[2 : 2 + n], quotient, rtol=2 * TOLERANCE[dtype])
    for x in (narrow[:2], narrow[2 + n :]):
        assert (x == 0).all()
    np.testing.assert_array_equal(wide[2 + n :], before[2 + n :])


@njit
def all_updates(f, w, g, at, n, keep, scale):
    total = rows.flows_of_edges(f, at, w, at, n)
    other = rows.quadratic_of_edges(g, at, w, at, scale, n)
    rows.mix_rows(w, at, f, at, keep, scale, n)
    return total, other


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 9, 16, 31, 104])
def test_row_loops(dtype, n):
    close = {"rtol": 10 * TOLERANCE[dtype]}
    a, b, c, d = RNG.random((4, n + 5)).astype(dtype)
    c[4] = 0  # a zero to divide by
    before = [x.copy() for x in (a, b, c, d)]
    extremes, low, of_two, of_three = all_rows(a, b, c, d, 2, n, np.dtype(dtype).type(1.5))
    x, y = before[1][3 : 3 + n].astype(float), before[2][4 : 4 + n].astype(float)
    product = x * y
    three = product * x * y
    assert extremes == pytest.approx((three.max(), three.min()), rel=close["rtol"])
    assert low == pytest.approx(three.min(), rel=close["rtol"])
    positive = (x > 0) & (y > 0)  # zeros with a factor of zero are exact
    for found, entries in ((of_two, product), (of_three, three)):
        assert found == pytest.approx((entries.max(), entries.min(where=positive, initial=np.inf)), rel=close["rtol"])
    first = (product + three) * x
    np.testing.assert_allclose(a[2 : 2 + n], first, **close)
    quotient = np.divide(first, y, out=np.zeros(n), where=y > 0)
    np.testing.assert_allclose(d[2 : 2 + n], 1.5 * (three + quotient), **close)
    for x, old in ((a, before[0]), (d, before[3])):  # nothing outside the row
        np.testing.assert_array_equal(x[:2], old[:2])
        np.testing.assert_array_equal(x[2 + n :], old[2 + n :])
    f, w, g = RNG.random((3, n + 5)).astype(dtype)
    old = [x[2 : 2 + n].astype(float) for x in (f, w, g)]
    kind = np.dtype(dtype).type
    total, other = all_updates(f, w, g, 2, n, kind(0.9), kind(0.3))
    flow, second = old[0] * old[1], old[2] * old[1]
    assert total == pytest.approx(flow.sum(), rel=close["rtol"])
    assert other == pytest.approx((second + np.sqrt(second**2 + 0.3 * second)).sum(), rel=close["rtol"])
    np.testing.assert_allclose(w[2 : 2 + n], 0.9 * old[1] + 0.3 * flow, **close)


def test_the_cubic_root_solves_its_equation_over_twelve_decades():
    for f, mu, lam in 10 ** RNG.uniform(-6, 6, (5000, 3)):
        x = cubic_root(f, mu, lam)
        terms = lam * x**3, f * x**2, 2 * mu * f**2
        assert abs(terms[0] - terms[1] - terms[2]) <= 1e-10 * max(terms)


@pytest.mark.parametrize("cubic", [False, True])
def test_the_exact_multiplier_puts_the_weights_on_the_simplex(cubic):
    for _ in range(300):
        flow = 10 ** RNG.uniform(-6, 4, RNG.integers(1, 30))
        mu = 10 ** RNG.uniform(-4, 4)
        lam = exact_multiplier(flow, mu, cubic)
        theta = [cubic_root(f, mu, lam) for f in flow] if cubic else (flow + np.sqrt(flow**2 + 4 * lam * mu * flow)) / (2 * lam)
        assert sum(theta) == pytest.approx(1.0, abs=1e-12)
