"""The Gaussian mixture: SciPy agrees about its density, its rows have its moments, and a circuit learns it."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import flatpc as fp
from flatpc.datasets import GaussianMixture, gaussian_mixture, gaussian_mixture_splits
from flatpc.errors import OptionError


def test_density_is_that_of_scipy():
    truth = GaussianMixture.draw(seed=3, n_variables=4, n_components=3)
    rows = truth.sample(50, seed=1)
    parts = [
        w * multivariate_normal(m, c).pdf(rows) for w, m, c in zip(truth.weights, truth.means, truth.covariances, strict=True)
    ]
    np.testing.assert_allclose(truth.log_prob(rows), np.log(np.sum(parts, axis=0)), rtol=1e-12)


def test_variables_are_standardised_exactly():
    truth = GaussianMixture.draw()
    np.testing.assert_allclose(truth.weights @ truth.means, 0, atol=1e-12)
    second = truth.covariances + truth.means[:, :, None] * truth.means[:, None, :]
    covariance = np.einsum("k,kij->ij", truth.weights, second)
    np.testing.assert_allclose(np.diagonal(covariance), 1, atol=1e-12)
    # Rows have these moments, up to the error of 20,000 of them.
    np.testing.assert_allclose(np.cov(truth.sample(20000), rowvar=False), covariance, atol=0.06)


def test_rows_are_seeded_and_of_one_mixture():
    np.testing.assert_array_equal(gaussian_mixture(10, seed=2), gaussian_mixture(10, seed=2))
    assert not np.array_equal(gaussian_mixture(10, seed=2), gaussian_mixture(10, seed=3))
    data = gaussian_mixture_splits(fraction=0.1)
    assert (len(data.train), len(data.valid), len(data.test)) == (100, 1000, 1000)
    with pytest.raises(OptionError, match="n_components=0"):
        GaussianMixture.draw(n_components=0)


def test_a_hidden_chow_liu_tree_overfits_it():
    """More latents fit the training rows better than the truth does, and the others worse: the paper's motivation."""
    data = gaussian_mixture_splits(fraction=0.1)
    truth = GaussianMixture.draw()
    gap = {}
    for n_latents in (2, 32):
        circuit = fp.structures.hclt(data.train, n_latents=n_latents, family="gaussian").randomize(0, X=data.train)
        learnt = fp.fit(circuit, data.train, epochs=40, batch_size=None, method=fp.EM(step_size=1.0), progress=False).circuit
        train, test = learnt.log_prob(data.train).mean(), learnt.log_prob(data.test).mean()
        assert test < truth.log_prob(data.test).mean()
        gap[n_latents] = train - test
    assert train > truth.log_prob(data.train).mean()
    assert gap[32] > 5 * gap[2]
