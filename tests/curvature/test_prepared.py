"""`PreparedPenalty`: the penalty of some rows, at other parameters and with weights, is that of `penalty`."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError, TiedParametersError

RNG = np.random.default_rng(0)
X = RNG.integers(0, 2, (30, 5)).astype(float)
TREE = fp.structures.hclt(X, 3)


def same(one, other):
    assert one.value == pytest.approx(other.value, rel=1e-10)
    assert one.gradient.keys() == other.gradient.keys()
    for i, gradient in one.gradient.items():
        np.testing.assert_allclose(gradient, other.gradient[i], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"space": "logits"}, {"space": "simplex"}, {"include_inputs": True}])
def test_it_is_the_penalty_of_these_rows(options):
    prepared = fp.curvature.PreparedPenalty(TREE, X, **options)
    rows = np.array([3, 7, 7, 20])
    same(prepared.of(rows), fp.curvature.penalty(TREE, X[rows], **options))
    same(prepared.of(list(rows)), prepared.of(rows))
    same(prepared.of(), fp.curvature.penalty(TREE, X, **options))
    for seed in (1, 2):
        other = TREE.randomize(seed)
        same(prepared.of(rows, circuit=other), fp.curvature.penalty(other, X[rows], **options))
    times = np.array([2, 0, 1, 3])
    expected = fp.curvature.penalty(TREE, np.repeat(X[rows], times, axis=0), **options)
    same(prepared.of(rows, circuit=TREE, sample_weight=times), expected)


def test_bad_input():
    prepared = fp.curvature.PreparedPenalty(TREE, X)
    for rows in ([30], [-1], [0.5], "all", 3, [[0]], [True], [None, "a"]):
        with pytest.raises(OptionError, match="row"):
            prepared.of(rows)
    with pytest.raises(OptionError, match="same nodes"):
        prepared.of([0], circuit=fp.structures.hclt(X, 4))
    with pytest.raises(OptionError, match="sample_weight"):
        prepared.of([0, 1], sample_weight=[1.0])
    with pytest.raises(TiedParametersError):
        fp.curvature.PreparedPenalty(fp.structures.hmm(5, 3, homogeneous=True), X)
