"""Kernel densities as circuits, against scikit-learn's and against sums written out."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError

RNG = np.random.default_rng(0)


def test_gaussian_kernels_are_those_of_scikit_learn():
    from sklearn.neighbors import KernelDensity

    X, new = RNG.normal(size=(60, 3)), RNG.normal(size=(40, 3))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    circuit = fp.structures.kernels(X, share=0.09)
    np.testing.assert_allclose(circuit.log_prob(new), KernelDensity(bandwidth=0.3).fit(X).score_samples(new), rtol=1e-10)


def test_categories_have_their_frequency_beside_the_row():
    X = np.array([[0, 0], [2, 1], [2, 1], [1, 1]])
    circuit = fp.structures.kernels(X, share=0.25, family="categorical", smoothing=0.0)
    frequency = [np.array([1, 1, 2]) / 4, np.array([1, 3]) / 4]
    for x in np.ndindex(3, 2):
        parts = [
            np.prod([0.75 * (row[v] == x[v]) + 0.25 * frequency[v][x[v]] for v in range(2)])
            for row in X
        ]  # fmt: skip
        assert np.exp(circuit.log_prob([x]))[0] == pytest.approx(np.mean(parts), rel=1e-12)


@pytest.mark.parametrize(
    "family", [fp.Gaussian(), fp.StudentT(), fp.Gamma(), fp.LogNormal(), fp.Exponential(), fp.Poisson(), fp.NegativeBinomial(),
               fp.Hurdle((1.0,), fp.Gaussian()), fp.Discretized(fp.Gaussian(), 1.0)],
    ids=lambda family: type(family).__name__,
)  # fmt: skip
def test_any_family_has_kernels_under_which_their_rows_are_likelier_than_under_all_rows(family):
    x = np.concatenate([RNG.poisson(4.0, 40) + 1.0, np.full(3, np.nan)])
    wide, narrow = (fp.structures.kernels(x[:, None], share=share, family=family).parameters[0] for share in (1.0, 0.05))
    own = np.diag(family.log_density(narrow, x))[:40]
    whole = {name: value[-1:] for name, value in wide.items()}  # a missing value has all values' distribution
    assert (own >= family.log_density(whole, x)[:40, 0] - 1e-9).all()


def test_weights_are_repeated_rows():
    X, weights = RNG.normal(size=(12, 2)), RNG.integers(0, 4, 12)
    new = RNG.normal(size=(9, 2))
    weighted = fp.structures.kernels(X, share=0.2, sample_weight=weights)
    repeated = fp.structures.kernels(np.repeat(X, weights, axis=0), share=0.2)
    np.testing.assert_allclose(weighted.log_prob(new), repeated.log_prob(new), rtol=1e-10)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, np.nan, "wide"])
def test_a_share_is_above_0_and_up_to_1(share):
    with pytest.raises(OptionError, match="share"):
        fp.structures.kernels(RNG.normal(size=(5, 2)), share=share)
