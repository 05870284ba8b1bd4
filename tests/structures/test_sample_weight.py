"""`sample_weight` of structures that count rows: whole numbers are repeated rows."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.structures.trees import mutual_information
from flatpc.structures.trees.mutual_information import PairCounts, binned

RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, n, 90) for n in (2, 3, 20, 2, 4)], axis=1).astype(float)
CODES[:, 4] = np.where(RNG.random(90) < 0.8, CODES[:, 1], CODES[:, 4])
GAPS = np.where(RNG.random(CODES.shape) < 0.15, np.nan, CODES)
NUMBERS = RNG.standard_normal((90, 3)) @ RNG.standard_normal((3, 3))
TIMES = RNG.integers(0, 4, 90)
# All values are seen, so that both ways give columns the same number of values.
for v in range(CODES.shape[1]):
    TIMES[np.argmax(CODES[:, v])] = 1


def same(one, other):
    assert [repr(node) for node in one.nodes] == [repr(node) for node in other.nodes]
    for i, value in one.parameters.items():
        for name in value if isinstance(value, dict) else [None]:
            a, b = (value, other.parameters[i]) if name is None else (value[name], other.parameters[i][name])
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)


BUILD = {
    "factorized": lambda X, **w: fp.structures.factorized(X, family="categorical", **w),
    "factorized, gaps": lambda X, **w: fp.structures.factorized(np.where(X == 1, np.nan, X), family="categorical", **w),
    "chow_liu": lambda X, **w: fp.structures.chow_liu(X, **w),
    "chow_liu, marginals": lambda X, **w: fp.structures.chow_liu(X, smoothing=5.0, prior="marginals", **w),
    "hclt": lambda X, **w: fp.structures.hclt(X, 20, family="categorical", n_trees=3, **w),
    "hclt, from the tree": lambda X, **w: fp.structures.hclt(X, 20, family="categorical", init="chow-liu", noise=0.0, **w),
}


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("X", [CODES, GAPS], ids=["whole", "gaps"])
def test_whole_numbers_are_repeated_rows(name, X):
    same(BUILD[name](X, sample_weight=TIMES), BUILD[name](np.repeat(X, TIMES, axis=0)))


def test_numbers_are_binned_by_weight():
    repeated = np.repeat(NUMBERS, TIMES, axis=0)
    same(
        fp.structures.factorized(NUMBERS, family="gaussian", sample_weight=TIMES),
        fp.structures.factorized(repeated, family="gaussian"),
    )
    same(
        fp.structures.hclt(NUMBERS, 4, family="gaussian", sample_weight=TIMES), fp.structures.hclt(repeated, 4, family="gaussian")
    )
    codes, sizes = binned(NUMBERS[TIMES > 0], [fp.Gaussian()] * 3, TIMES[TIMES > 0].astype(float))
    wanted, wanted_sizes = binned(repeated, [fp.Gaussian()] * 3)
    assert sizes == wanted_sizes
    np.testing.assert_array_equal(np.repeat(codes, TIMES[TIMES > 0], axis=0), wanted)


@pytest.mark.parametrize("kept", [True, False])
def test_counts_and_information(monkeypatch, kept):
    """By matrix products and by joint codes, kept or counted when asked for, with cells that never occur stored or not."""
    if not kept:
        monkeypatch.setattr(mutual_information, "MAX_TABLE", 0)
    sizes = [2, 3, 20, 2, 4]
    weighted = PairCounts(GAPS, sizes, TIMES.astype(float))
    repeated = PairCounts(np.repeat(GAPS, TIMES, axis=0), sizes)
    for smoothing in (0.0, 1.0):
        np.testing.assert_allclose(
            weighted.mutual_information(smoothing), repeated.mutual_information(smoothing), rtol=1e-10, atol=1e-12
        )
    for u, v in ((0, 1), (2, 4), (2, 2)):
        np.testing.assert_allclose(weighted.joint(u, v), repeated.joint(u, v), rtol=1e-12)
    halves = PairCounts(CODES, sizes, np.full(90, 0.5))
    np.testing.assert_allclose(2 * halves.joint(0, 2), PairCounts(CODES, sizes).joint(0, 2), rtol=1e-12)


def test_mixtures_of_trees_count_rows():
    """One tree has no clusters, and is the same; several are about as likely as those of repeated rows."""
    rows, repeated = CODES[:, [0, 1, 3, 4]], np.repeat(CODES[:, [0, 1, 3, 4]], TIMES, axis=0)
    one = [fp.structures.tree_mixture(X, 1, **w).log_prob(rows) for X, w in ((rows, {"sample_weight": TIMES}), (repeated, {}))]
    np.testing.assert_allclose(one[0], one[1], rtol=1e-5)  # shares of rows are counted in float32
    for build in (
        lambda X, **w: fp.structures.tree_mixture(X, 3, smoothing=5.0, **w),
        lambda X, **w: fp.structures.hclt(
            X, 4, family="categorical", n_trees=3, trees="clusters", init="chow-liu", noise=0.0, **w
        ),
    ):
        found = build(rows, sample_weight=TIMES).log_prob(repeated).mean()
        assert found == pytest.approx(build(repeated).log_prob(repeated).mean(), abs=0.05)
        assert found > build(rows).log_prob(repeated).mean() + 0.02
    halves = fp.structures.tree_mixture(rows, 1, smoothing=0.5, sample_weight=np.full(90, 0.5)).log_prob(rows)
    assert abs(halves - fp.structures.tree_mixture(rows, 1, smoothing=0.5).log_prob(rows)).max() > 1e-3


def test_bad_input():
    with pytest.raises(OptionError, match="90 rows"):
        fp.structures.chow_liu(CODES, sample_weight=[1.0])
