"""The tests of a family over several variables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import stats

from flatpc._typing import Array
from flatpc.errors import DataError
from flatpc.learning import EM, fit
from flatpc.queries.likelihood import log_prob
from flatpc.testing.families import LEVEL, FamilySuite, _raises


class MultivariateFamilySuite(FamilySuite):
    """The tests of a family over several continuous variables, for its author to inherit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> class TestPair(fp.testing.MultivariateFamilySuite):
    ...     family = fp.MultivariateGaussian(2)
    ...     parameters = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
    >>> TestPair().test_marginals()

    What `FamilySuite` tests, and what a family is asked of rows with unknown entries.
    """

    def _distance(self) -> float:
        """How many standard errors an average may be from what it estimates, at `LEVEL`."""
        return float(stats.norm.isf(LEVEL / 2))

    def _integral(self, k: int, row: Array, j: int, f: Callable[[Array], Array]) -> float:
        """∫ f(x_j) p(row with x_j) dx_j of unit k; NaN in the row are integrated out by the family."""
        drawn = self.family.sample(self._p, np.full(400, k), self._rng())[:, j]
        low, high = self.family.marginal_family(j).bounds
        spread = float(drawn.max() - drawn.min())
        edges = np.clip(np.linspace(drawn.min() - spread, drawn.max() + spread, 13), low, high)
        node, weight = (each / 2 for each in np.polynomial.legendre.leggauss(60))
        u = node + 0.5
        x = [a + u * (b - a) for a, b in pairwise(edges)]
        w = [weight * (b - a) for a, b in pairwise(edges)]
        for edge, end, sign in ((edges[0], low, -1.0), (edges[-1], high, 1.0)):
            # A tail without end, by the substitution x = edge + spread · u / (1 - u).
            reach = u / (1 - u) * spread if np.isinf(end) else u * abs(end - edge)
            x.append(edge + sign * reach)
            w.append(weight / (1 - u) ** 2 * spread if np.isinf(end) else weight * abs(end - edge))
        at, share = np.concatenate(x), np.concatenate(w)
        rows = np.tile(row, (len(at), 1))
        rows[:, j] = at
        density = np.exp(self.family.log_density(self._unit(k), rows)[:, 0])
        return float((share * np.where(density > 0, density * f(at), 0.0)).sum())

    def test_density_adds_up_to_one(self) -> None:
        """One variable after the other: integrals over it are the density of what is left, and of the last one 1."""
        for k in range(self._width):
            row = self.family.sample(self._p, np.array([k]), self._rng())[0]
            for j in range(self.family.n_variables):
                found = self._integral(k, row, j, np.ones_like)
                row[j] = np.nan
                left = 0.0 if np.isnan(row).all() else float(self.family.log_density(self._unit(k), row[None])[0, 0])
                np.testing.assert_allclose(found, np.exp(left), rtol=self.tolerance)

    def test_marginals(self) -> None:
        """One variable alone has the density of its `marginal_family`."""
        x = self._sample(20)
        for j in range(self.family.n_variables):
            alone = np.full(x.shape, np.nan)
            alone[:, j] = x[:, j]
            own = self.family.marginal_parameters(self._p, j)
            wanted = self.family.marginal_family(j).log_density(own, x[:, j])
            np.testing.assert_allclose(self.family.log_density(self._p, alone), wanted, rtol=1e-10, atol=1e-10)

    def test_cdf_is_the_integral(self) -> None:
        """Of each variable alone; that of all together needs no closed form."""
        self._defines("cdf")

    def test_samples_have_the_density(self) -> None:
        """Each variable by Kolmogorov-Smirnov, and log-densities on average minus the entropy, at `LEVEL`."""
        for k in range(self._width):
            x = self.family.sample(self._p, np.full(4000, k), self._rng())
            for j in range(self.family.n_variables):
                own = self.family.marginal_parameters(self._unit(k), j)
                u = self.family.marginal_family(j).cdf(own, x[:, j])[:, 0]
                assert stats.kstest(u, "uniform").pvalue > LEVEL
            log_p = self.family.log_density(self._unit(k), x)[:, 0]
            error = log_p.std() / np.sqrt(len(x))
            assert abs(log_p.mean() + self.family.entropy(self._unit(k))[0]) < self._distance() * error

    def test_samples_given_known_entries(self) -> None:
        """Known entries are kept; the others have the moments that `moments_given` says, at `LEVEL`."""
        row = self._sample(1)[0]
        for j in range(self.family.n_variables):
            given = row.copy()
            given[j] = np.nan
            for k in range(self._width):
                x = self.family.sample_given(self._p, np.full(3000, k), np.tile(given, (3000, 1)), self._rng())
                mean, variance = (found[0, 0] for found in self.family.moments_given(self._unit(k), given[None]))
                np.testing.assert_array_equal(np.delete(x, j, axis=1), np.tile(np.delete(row, j), (3000, 1)))
                np.testing.assert_array_equal(np.delete(mean, j), np.delete(row, j))
                np.testing.assert_array_equal(np.delete(variance, j), 0.0)
                assert abs(x[:, j].mean() - mean[j]) < self._distance() * np.sqrt(variance[j] / 3000)
                squares = (x[:, j] - mean[j]) ** 2
                assert abs(squares.mean() - variance[j]) < self._distance() * squares.std() / np.sqrt(3000)

    def test_moments(self) -> None:
        """Mean and variance are those of each variable's density; given the others, those of the density along it."""
        mean, variance = self.family.mean(self._p), self.family.variance(self._p)
        given = self._sample(1)[0]
        for k in range(self._width):
            for j in range(self.family.n_variables):
                nothing = np.full(self.family.n_variables, np.nan)
                found = self._integral(k, nothing, j, lambda x: x)
                np.testing.assert_allclose(mean[k, j], found, rtol=1e-6, atol=self.tolerance)
                found = self._integral(k, nothing, j, lambda x, m=mean[k, j]: (x - m) ** 2)  # type: ignore[misc]
                np.testing.assert_allclose(variance[k, j], found, rtol=1e-6, atol=self.tolerance)
                row = given.copy()
                row[j] = np.nan
                known = float(np.exp(self.family.log_density(self._unit(k), row[None])[0, 0]))
                m, v = (each[0, 0, j] for each in self.family.moments_given(self._unit(k), row[None]))
                np.testing.assert_allclose(m, self._integral(k, given, j, lambda x: x) / known, rtol=1e-6, atol=self.tolerance)
                found = self._integral(k, given, j, lambda x, m=m: (x - m) ** 2) / known  # type: ignore[misc]
                np.testing.assert_allclose(v, found, rtol=1e-6, atol=self.tolerance)

    def test_mode(self) -> None:
        """No row drawn is more probable, none beside it, and no other completion of a row of which a part is known."""
        mode = self.family.mode(self._p)
        for k in range(self._width):
            near = mode[k] + 1e-4 * np.concatenate([np.eye(mode.shape[1]), -np.eye(mode.shape[1])])
            x = np.concatenate([self._sample(400), near])
            at_mode = self.family.log_density(self._unit(k), mode[k : k + 1])[0, 0]
            assert at_mode >= self.family.log_density(self._unit(k), x).max() - 1e-7
            for j in range(mode.shape[1]):
                known = self._sample(5)
                known[:, j] = np.nan
                best = self.family.mode_given(self._unit(k), np.zeros(5, np.int64), known)
                found = self.family.log_density_at_mode(self._unit(k), known)
                np.testing.assert_allclose(found, self.family.log_density(self._unit(k), best), rtol=1e-10, atol=1e-10)
                for move in (-1e-4, 1e-4):
                    beside = best.copy()
                    beside[:, j] += move
                    assert (self.family.log_density(self._unit(k), beside) <= found + 1e-12 * abs(found)).all()

    def test_entropy(self) -> None:
        """-E[log p], by the samples of `test_samples_have_the_density`."""
        assert np.isfinite(self.family.entropy(self._p)).all()

    def test_values_outside_the_support_are_refused(self) -> None:
        """`DataError` for each of `wrong_values`, in any of the columns."""
        for value in self.wrong_values:
            for j in range(self.family.n_variables):
                X = self._table(1)
                X[0, j] = value
                _raises(DataError, self._mixture().log_prob, X)

    def test_em_with_unknown_entries_never_lowers_the_likelihood(self) -> None:
        """The likelihood of the known entries, in whole steps and damped ones."""
        X = self._table(200)
        X[self._rng().random(X.shape) < 0.3] = np.nan
        for step_size in (1.0, 0.4):
            circuit = self._mixture().with_parameters({0: self.family.initialize(self._width, self._rng(), "uniform")})
            result = fit(
                circuit, X, method=EM(step_size), epochs=15, batch_size=None, dtype="float64", progress=False,
                missing="marginalize",
            )  # fmt: skip
            nll = [*result.history["train_nll"], -float(np.mean(log_prob(result.circuit, X, missing="marginalize")))]
            assert (np.diff(nll) <= 1e-9 * (1 + np.abs(nll[:-1]))).all(), f"NLL with step size {step_size}: {nll}"

    def test_gradient_with_unknown_entries(self) -> None:
        """`gradient` is that of the density of what is known."""
        z = self.family.unconstrain(self._p)
        p = self.family.constrain(z)
        x, flow = self._sample(30), self._rng().random((30, self._width))
        x[self._rng().random(x.shape) < 0.4] = np.nan
        x = x[~np.isnan(x).all(axis=1)]
        flow = flow[: len(x)]
        found = self.family.gradient(p, self.family.statistics(p, x, flow))
        for name, value in z.items():
            for place in np.ndindex(value.shape):
                ends = []
                for move in (-1e-5, 1e-5):
                    moved = value.copy()
                    moved[place] += move
                    ends.append((flow * self.family.log_density(self.family.constrain({**z, name: moved}), x)).sum())
                np.testing.assert_allclose(found[name][place], (ends[1] - ends[0]) / 2e-5, rtol=1e-5, atol=1e-5)
