"""A Gaussian mixture as ground truth, with its exact density: how far from the truth a model is can be said, not guessed.

The paper's figure on overfitting and latent size trains hidden Chow-Liu trees on "a synthetic Gaussian mixture" and says no more.
This one has 16 variables and 10 components, so that neither few latents nor few rows are enough:

    p(x) = Σ_k w_k N(x; m_k, I/4 + A_k A_kᵀ)

with weights from Dirichlet(5, ..., 5), means m_k with entries N(0, 1.5²) and loadings A_k [16, 2] with entries N(0, 1/2): in each
component the variables depend on one another, and no Chow-Liu tree has it right. Variables are then shifted and scaled by the
mixture's own means and standard deviations, which are known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from flatpc._options import MOST, seed_number, whole_number
from flatpc._typing import Array
from flatpc.datasets.splits import Splits
from flatpc.errors import ShapeError
from flatpc.tables.reading import read_matrix

N_VARIABLES, N_COMPONENTS = 16, 10
SPLIT_SIZE = 1000


@dataclass(frozen=True)
class GaussianMixture:
    """Σ_k w_k N(m_k, C_k): a ground truth whose density is known.

    >>> import flatpc as fp
    >>> truth = fp.datasets.GaussianMixture.draw(seed=0)
    >>> X = truth.sample(5, seed=1)
    >>> X.shape, truth.log_prob(X).shape
    ((5, 16), (5,))
    """

    weights: Array
    """`[K]`: of the components."""
    means: Array
    """`[K, D]`: of each component."""
    covariances: Array
    """`[K, D, D]`: of each component."""

    @staticmethod
    def draw(*, seed: int = 0, n_variables: int = N_VARIABLES, n_components: int = N_COMPONENTS) -> GaussianMixture:
        """A random mixture; every variable has mean 0 and variance 1.

        Parameters
        ----------
        seed
            Random seed of the mixture.
        n_variables
            Number of variables.
        n_components
            Number of components. In each, the variables depend on one another.

        Returns
        -------
        GaussianMixture
            With weights from a Dirichlet distribution.

        Raises
        ------
        OptionError
            For an option out of its range.
        """
        n_variables, n_components = whole_number("n_variables", n_variables, 1), whole_number("n_components", n_components, 1)
        rng = np.random.default_rng(seed_number(seed))
        weights = rng.dirichlet(np.full(n_components, 5.0))
        means = rng.normal(0.0, 1.5, (n_components, n_variables))
        loadings = rng.normal(0.0, np.sqrt(0.5), (n_components, n_variables, 2))
        covariances = 0.25 * np.eye(n_variables) + loadings @ loadings.transpose(0, 2, 1)
        centre = weights @ means
        # Law of total variance.
        scale = np.sqrt(weights @ (np.diagonal(covariances, axis1=1, axis2=2) + (means - centre) ** 2))
        return GaussianMixture(weights, (means - centre) / scale, covariances / np.outer(scale, scale))

    def sample(self, n: int, *, seed: int = 0) -> Array:
        """Random rows.

        Parameters
        ----------
        n
            Number of rows.
        seed
            Random seed of the rows.

        Returns
        -------
        array
            `[n, D]`.

        Raises
        ------
        OptionError
            For an option out of its range.
        """
        n, rng = whole_number("n", n, 1), np.random.default_rng(seed_number(seed))
        component = rng.choice(len(self.weights), size=n, p=self.weights)
        root = np.linalg.cholesky(self.covariances)
        noise = rng.standard_normal((n, self.means.shape[1]))
        return np.asarray(self.means[component] + np.einsum("nij,nj->ni", root[component], noise))

    def log_prob(self, X: Array) -> Array:
        """The exact log-density of every row.

        Parameters
        ----------
        X
            Rows, `[N, D]`.

        Returns
        -------
        array
            `[N]`.

        Raises
        ------
        ShapeError
            For rows with another number of columns.
        """
        X, _ = read_matrix(X)
        if X.shape[1] != self.means.shape[1]:
            raise ShapeError(f"The rows have {X.shape[1]} columns, but the mixture is over {self.means.shape[1]} variables.")
        root = np.linalg.cholesky(self.covariances)
        deviation = X[None] - self.means[:, None]
        # C = L Lᵀ: the squared length of L⁻¹(x - m), and log det C from the diagonal of L.
        whitened = np.linalg.solve(root, deviation.transpose(0, 2, 1))
        log_det = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        constant = np.log(self.weights) - 0.5 * (log_det + X.shape[1] * np.log(2 * np.pi))
        return np.asarray(logsumexp(constant[:, None] - 0.5 * (whitened**2).sum(axis=1), axis=0))


def gaussian_mixture(n: int, *, seed: int = 0) -> Array:
    """Rows of the mixture that `GaussianMixture.draw(seed=0)` gives.

    >>> import flatpc as fp
    >>> fp.datasets.gaussian_mixture(100).shape
    (100, 16)

    Parameters
    ----------
    n
        Number of rows.
    seed
        Random seed of the rows; the mixture stays the same.

    Returns
    -------
    array
        `[n, 16]`.

    Raises
    ------
    OptionError
        For an option out of its range.
    """
    return GaussianMixture.draw().sample(n, seed=seed)


def gaussian_mixture_splits(*, seed: int = 0, fraction: float = 1.0, size: int = SPLIT_SIZE) -> Splits:
    """Train, validation and test rows of `gaussian_mixture`.

    >>> import flatpc as fp
    >>> data = fp.datasets.gaussian_mixture_splits(fraction=0.1)
    >>> fp.structures.hclt(data.train, n_latents=8, family="gaussian").n_variables
    16

    Parameters
    ----------
    seed
        Random seed of the rows.
    fraction
        Share of the training rows to keep, the first ones.
    size
        Number of rows of each split.

    Returns
    -------
    Splits
        `train`, `valid` and `test`.

    Raises
    ------
    OptionError
        For an option out of its range.
    """
    size = whole_number("size", size, 1, MOST // 3)
    rows = gaussian_mixture(3 * size, seed=seed)
    return Splits("gaussian_mixture", rows[:size], rows[size : 2 * size], rows[2 * size :]).fraction(fraction)
