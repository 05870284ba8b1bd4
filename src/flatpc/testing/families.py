"""The tests of a family over one variable."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import integrate, stats

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.files import load
from flatpc.circuit.nodes import Input, Product, Sum
from flatpc.errors import DataError, FamilyError, SupportError
from flatpc.families.base import Family, Parameters
from flatpc.learning import EM, Adam, fit
from flatpc.queries.likelihood import log_prob

LEVEL = 1e-4
"""The significance level of tests of random samples: how often a correct family fails with a new seed. The seed is fixed."""


class FamilySuite:
    """The tests of a family, for its author to inherit.

    >>> import flatpc as fp
    >>> class TestGaussian(fp.testing.FamilySuite):
    ...     family = fp.Gaussian()
    ...     def maximum_likelihood(self, x):
    ...         return {"mean": x.mean(keepdims=True), "variance": x.var(keepdims=True)}
    >>> TestGaussian().test_moments()

    Set `family` in a subclass, and the other attributes where the defaults don't fit. The family must be registered
    (`fp.families.register`), or nothing could be saved.
    """

    family: ClassVar[Family]
    """The family to test."""
    parameters: ClassVar[dict[str, Array] | None] = None
    """The parameters of a few units; by default `initialize` draws them."""
    wrong_values: ClassVar[tuple[float, ...]] = (np.inf,)
    """Values outside the support."""
    breaks: ClassVar[tuple[float, ...]] = ()
    """Values at which a density jumps or has a corner, between which integrals are taken."""
    atoms: ClassVar[tuple[float, ...]] = ()
    """Values with a probability of their own, of a family that is continuous elsewhere."""
    values: ClassVar[Array | None] = None
    """All values of a discrete family, if they aren't 0, 1, 2, ..."""
    seed: ClassVar[int] = 0
    """Random seed of all samples."""
    tolerance: ClassVar[float] = 1e-8
    """Relative tolerance of integrals."""

    def maximum_likelihood(self, x: Array) -> dict[str, Array] | None:
        """The parameters of one unit that maximise the likelihood of x, found by other means than EM.

        Parameters
        ----------
        x
            Values, without missing ones.

        Returns
        -------
        dict or None
            Name -> array `[1, ...]`; None, the default, if there is no other means.
        """
        return None

    # ---- what the tests start from ------------------------------------------------------------------------------------

    @cached_property
    def _p(self) -> dict[str, Array]:
        if self.parameters is not None:
            return {name: np.asarray(value, np.float64) for name, value in self.parameters.items()}
        return self.family.initialize(3, self._rng(), "uniform")

    @property
    def _width(self) -> int:
        return len(next(iter(self._p.values())))

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def _unit(self, k: int) -> dict[str, Array]:
        return {name: value[k : k + 1] for name, value in self._p.items()}

    def _sample(self, n: int) -> Array:
        """Values of all units in turn."""
        return self.family.sample(self._p, np.arange(n) % self._width, self._rng())

    def _table(self, n: int) -> Array:
        """The same, as rows of a table."""
        return self._sample(n).reshape(n, -1)

    def _defines(self, *methods: str) -> bool:
        """Whether the family defines these methods; one that it doesn't must raise `FamilyError`."""
        for method in methods:
            if not self.family.defines(method):
                arguments = {"statistics": (self._p, np.empty(0), np.empty((0, self._width))), "update": (self._p, {})}
                arguments |= {"cdf": (self._p, np.zeros(1)), "quantile": (self._p, np.full(1, 0.5)), "gradient": (self._p, {})}
                _raises(FamilyError, getattr(self.family, method), *arguments.get(method, (self._p,)))
                return False
        return True

    def _expectation(self, k: int, f: Callable[[Array, Array], Array], until: float = np.inf) -> float:
        """Σ or ∫ of f(x, log p(x)) · p(x) of unit k, over values up to `until`."""

        def integrand(x: Array) -> Array:
            log_p = self.family.log_density(self._unit(k), x)[:, 0]
            p = np.exp(log_p)
            return np.where(p > 0, p * f(x, np.where(p > 0, log_p, 0.0)), 0.0)

        low, high = self.family.bounds
        high = min(high, until)
        if self.family.discrete:
            values = np.arange(low, (min(high, low + 5000)) + 1) if self.values is None else self.values[self.values <= until]
            return float(integrand(values).sum())
        at_atoms = float(integrand(np.array([atom for atom in self.atoms if atom <= until])).sum()) if self.atoms else 0.0
        drawn = self.family.sample(self._p, np.full(400, k), self._rng())
        inner = [x for x in np.unique(np.quantile(drawn, np.linspace(0, 1, 9))) if low < x < high]
        spread = float(drawn.max() - drawn.min())
        far = [x for x in (drawn.min() - spread, drawn.max() + spread, drawn.max() + 9 * spread) if low < x < high]
        edges = sorted({low, *inner, *far, *(x for x in (*self.breaks, *self.atoms) if low < x < high), high})
        return at_atoms + sum(
            float(integrate.quad(lambda x: float(integrand(np.array([x]))[0]), a, b, epsabs=1e-12, epsrel=1e-10, limit=400)[0])
            for a, b in pairwise(edges)
        )

    def _mixture(self, n_inputs: int = 1) -> Circuit:
        """A mixture of the units, as one input or as independent ones."""
        d = self.family.n_variables
        nodes: list[Any] = [
            Input(family=self.family, width=self._width, variables=range(d * i, d * i + d)) for i in range(n_inputs)
        ]
        if n_inputs > 1:
            nodes.append(Product(tuple(range(n_inputs))))
        nodes.append(Sum((len(nodes) - 1,)))
        weights = np.arange(1.0, self._width + 1)
        parameters: dict[int, Any] = dict.fromkeys(range(n_inputs), self._p)
        return Circuit(nodes, {**parameters, len(nodes) - 1: (weights / weights.sum())[None]})

    # ---- the density and what follows from it -------------------------------------------------------------------------

    def test_density_adds_up_to_one(self) -> None:
        """The sum over all values, or the integral, is 1."""
        for k in range(self._width):
            np.testing.assert_allclose(self._expectation(k, lambda x, _: np.ones_like(x)), 1.0, rtol=self.tolerance)

    def test_cdf_is_the_integral(self) -> None:
        """The cdf is the sum or integral of the density, and `quantile` its inverse."""
        if not self._defines("cdf"):
            return
        x = np.unique(self._sample(12))
        cdf = self.family.cdf(self._p, x)
        for k in range(self._width):
            wanted = [self._expectation(k, lambda x, _: np.ones_like(x), until=float(each)) for each in x]
            np.testing.assert_allclose(cdf[:, k], wanted, rtol=1e-6, atol=self.tolerance)
        if self._defines("quantile"):
            q = np.linspace(0.01, 0.99, 23)
            found = self.family.quantile(self._p, q)
            for k in range(self._width):
                reached = self.family.cdf(self._unit(k), found[:, k])[:, 0]
                if self.family.discrete or self.atoms:
                    step = 1e-9 if self.atoms else 1.0 if self.values is None else float(self.values[1] - self.values[0])
                    before = self.family.cdf(self._unit(k), found[:, k] - step)[:, 0]
                    assert (reached >= q - 1e-9).all()
                    assert (before <= q + 1e-9).all()
                else:
                    np.testing.assert_allclose(reached, q, atol=1e-8)

    def test_samples_have_the_density(self) -> None:
        """Chi-square (values one by one) or Kolmogorov-Smirnov, at `LEVEL`; and nothing outside bounds or support."""
        low, high = self.family.bounds
        for k in range(self._width):
            x = self.family.sample(self._p, np.full(4000, k), self._rng())
            assert not self.family.outside(x).any()
            assert (x >= low).all()
            assert (x <= high).all()
            if self.family.discrete:
                values, counts = np.unique(x, return_counts=True)
                expected = len(x) * np.exp(self.family.log_density(self._unit(k), values)[:, 0])
                enough = expected >= 5
                rest = len(x) - expected[enough].sum()
                seen, hoped = np.append(counts[enough], counts[~enough].sum()), np.append(expected[enough], max(rest, 0.0))
                if hoped[-1] < 5:
                    assert seen[-1] < 40
                    seen, hoped = seen[:-1], hoped[:-1]
                statistic = float(((seen - hoped) ** 2 / hoped).sum())
                assert stats.chi2.sf(statistic, max(len(hoped) - 1, 1)) > LEVEL
            elif self.family.defines("cdf"):
                # At an atom the cdf jumps: any number between is as good as any other.
                at_atom = np.isin(x, self.atoms)
                jump = np.where(at_atom, np.exp(self.family.log_density(self._unit(k), x)[:, 0]), 0.0)
                u = self.family.cdf(self._unit(k), x)[:, 0] - jump * np.random.default_rng(self.seed + 1).random(len(x))
                assert stats.kstest(u, "uniform").pvalue > LEVEL
            else:
                borders = np.quantile(x[:2000], np.linspace(0.1, 0.9, 9))
                share = [self._expectation(k, lambda x, _: np.ones_like(x), until=float(b)) for b in borders]
                cells = np.diff(np.concatenate([[0.0], share, [1.0]]))
                counts = np.bincount(np.searchsorted(borders, x[2000:]), minlength=len(cells))
                assert stats.chisquare(counts, cells / cells.sum() * counts.sum()).pvalue > LEVEL

    def test_moments(self) -> None:
        """Mean and variance are those of the density."""
        if not self._defines("mean", "variance"):
            return
        mean, variance = self.family.mean(self._p), self.family.variance(self._p)
        for k in range(self._width):
            np.testing.assert_allclose(mean[k], self._expectation(k, lambda x, _: x), rtol=1e-6, atol=self.tolerance)
            found = self._expectation(k, lambda x, _, m=mean[k]: (x - m) ** 2)  # type: ignore[misc]
            np.testing.assert_allclose(variance[k], found, rtol=1e-6, atol=self.tolerance)

    def test_mode(self) -> None:
        """No value drawn is more probable, and none beside it."""
        if not self._defines("mode"):
            return
        mode = self.family.mode(self._p)
        assert not self.family.outside(mode).any()
        for k in range(self._width):
            step = 1e-4 if not self.family.discrete else 1.0 if self.values is None else float(self.values[1] - self.values[0])
            near = mode[k] + np.array([-step, step])
            x = np.concatenate([self._sample(400), near])
            x = x[~self.family.outside(x) & (x >= self.family.bounds[0]) & (x <= self.family.bounds[1])]
            at_mode = self.family.log_density(self._unit(k), mode[k : k + 1])[0, 0]
            assert at_mode >= self.family.log_density(self._unit(k), x).max() - 1e-7

    def test_entropy(self) -> None:
        """-E[log p]."""
        if not self._defines("entropy"):
            return
        entropy = self.family.entropy(self._p)
        for k in range(self._width):
            np.testing.assert_allclose(entropy[k], self._expectation(k, lambda _, l: -l), rtol=1e-6, atol=self.tolerance)

    def test_values_outside_the_support_are_refused(self) -> None:
        """`SupportError` for each of `wrong_values`, which names the column."""
        for value in self.wrong_values:
            error = _raises(SupportError, self.family.check, np.array([value]), "Column 'a'")
            assert "Column 'a'" in str(error)
            _raises(DataError, self._mixture().log_prob, np.array([[value]]))
        self.family.check(np.append(self._sample(50), np.nan), "Column 'a'")

    # ---- engines --------------------------------------------------------------------------------------------------------

    def test_log_likelihood_is_that_of_the_units(self) -> None:
        """Both engines agree with a mixture written out, to 1e-10; float32 to 1e-4."""
        x, X, circuit = self._sample(60), self._table(60), self._mixture()
        with np.errstate(divide="ignore"):
            wanted = np.logaddexp.reduce(self.family.log_density(self._p, x) + np.log(np.asarray(circuit.parameters[1])), axis=1)
        for engine in ("numba", "torch"):
            np.testing.assert_allclose(log_prob(circuit, X, engine=engine), wanted, rtol=1e-10, atol=1e-10)
            single = log_prob(circuit, X, engine=engine, dtype="float32")
            np.testing.assert_allclose(single, wanted, rtol=1e-4, atol=1e-4)

    def test_engines_agree_on_flows(self) -> None:
        """Flows of edges and statistics of inputs, with missing values among the rows."""
        if not self._defines("statistics"):
            return
        X, circuit = self._rows(80), self._mixture(2)
        numba, torch = (circuit.flows(X, missing="marginalize", engine=engine) for engine in ("numba", "torch"))
        np.testing.assert_allclose(numba.sums[3], torch.sums[3], rtol=1e-10, atol=1e-10)
        for v in (0, 1):
            assert numba.inputs[v].keys() == torch.inputs[v].keys() == self.family.statistic_shapes(self._width).keys()
            for name, found in numba.inputs[v].items():
                np.testing.assert_allclose(found, torch.inputs[v][name], rtol=1e-10, atol=1e-10)

    def test_engines_agree_on_learning(self) -> None:
        """One step of EM, and one of Adam, from the same start to the same parameters."""
        if not self.family.learnable or not self._defines("statistics", "update"):
            return
        X = self._table(120)
        circuit = self._mixture().with_parameters({0: self.family.initialize(self._width, self._rng(), "uniform")})
        free = self.family.is_free_table or self.family.defines("unconstrain", "constrain", "gradient")
        for method in (EM(1.0), *([Adam(0.05)] if free else [])):
            numba, torch = (
                fit(circuit, X, method=method, epochs=1, batch_size=None, dtype="float64", progress=False, engine=engine).circuit
                for engine in ("numba", "torch")
            )
            mine: Any = numba.parameters[0]
            others: Any = torch.parameters[0]
            for name in self.family.names:
                np.testing.assert_allclose(mine[name], others[name], rtol=1e-8, atol=1e-8)

    def _rows(self, n: int) -> Array:
        """Rows of two inputs, every ninth value missing."""
        X = self._sample(2 * n).reshape(n, -1)
        X.ravel()[::9] = np.nan
        return X

    def test_missing_values_are_integrated_out(self) -> None:
        """A row without a value has the likelihood of the other variables; one without any has 1."""
        X = self._table(20)
        alone, both = self._mixture(), self._mixture(2)
        beside = np.concatenate([X, np.full(X.shape, np.nan)], axis=1)
        for engine in ("numba", "torch"):
            found = log_prob(both, beside, missing="marginalize", engine=engine)
            np.testing.assert_allclose(found, log_prob(alone, X, engine=engine), rtol=1e-10, atol=1e-10)
            nothing = log_prob(both, np.full((1, beside.shape[1]), np.nan), missing="marginalize", engine=engine)
            np.testing.assert_allclose(nothing, 0.0, atol=1e-12)

    def test_queries(self) -> None:
        """Samples, completions and moments of a circuit, or `FamilyError` for what the family doesn't define."""
        circuit, X = self._mixture(2), self._rows(20)
        assert not np.isnan(np.asarray(circuit.sample(10, seed=self.seed))).any()
        given = np.asarray(circuit.sample(1, given=X, seed=self.seed)).reshape(X.shape)
        np.testing.assert_array_equal(given[~np.isnan(X)], X[~np.isnan(X)])
        if self._defines("mode"):
            assert not np.isnan(np.asarray(circuit.mpe(X).values)).any()
        if self._defines("mean", "variance"):
            assert np.isfinite(np.asarray(circuit.expectation(X))).all()
            assert (np.asarray(circuit.variance(X)) >= 0).all()

    # ---- learning -------------------------------------------------------------------------------------------------------

    def test_statistics_add_up(self) -> None:
        """They are linear in flow, and those of two halves add up to those of all values."""
        if not self._defines("statistics"):
            return
        x = self._sample(40)
        flow = self._rng().normal(size=(40, self._width))
        whole = self.family.statistics(self._p, x, flow)
        halves = [self.family.statistics(self._p, x[part], -2 * flow[part]) for part in (slice(17), slice(17, None))]
        for name, value in whole.items():
            np.testing.assert_allclose(-2 * value, halves[0][name] + halves[1][name], rtol=1e-10, atol=1e-10)

    def test_em_never_lowers_the_likelihood(self) -> None:
        """Steps of a mixture, whole and damped, over all rows."""
        if not self.family.learnable or not self._defines("statistics", "update"):
            return
        X = self._table(200)
        for step_size in (1.0, 0.4):
            circuit = self._mixture().with_parameters({0: self.family.initialize(self._width, self._rng(), "uniform")})
            result = fit(circuit, X, method=EM(step_size), epochs=15, batch_size=None, dtype="float64", progress=False)
            nll = [*result.history["train_nll"], -float(np.mean(log_prob(result.circuit, X)))]
            assert (np.diff(nll) <= 1e-9 * (1 + np.abs(nll[:-1]))).all(), f"NLL with step size {step_size}: {nll}"

    def test_em_ends_where_likelihood_is_largest(self) -> None:
        """The limit for one unit beats its neighbours, and is `maximum_likelihood` if that is known."""
        if not self.family.learnable or not self._defines("statistics", "update"):
            return
        x = self.family.sample(self._p, np.zeros(300, np.int64), self._rng())
        one = np.ones((len(x), 1))
        p: Parameters = self.family.initialize(1, self._rng(), "uniform")
        for _ in range(500):
            p = self.family.update(p, self.family.statistics(p, x, one))
        self.family.check_parameters(p, "The limit of EM")
        best = self.family.log_density(p, x).sum()
        wanted = self.maximum_likelihood(x)
        if wanted is not None:
            for name, value in wanted.items():
                np.testing.assert_allclose(p[name], value, rtol=1e-5, atol=1e-7)
        if self.family.defines("unconstrain", "constrain"):
            z = self.family.unconstrain(p)
            for name, value in z.items():
                for move in (-1e-3, 1e-3):
                    near = self.family.constrain({**z, name: value + move})
                    assert self.family.log_density(near, x).sum() <= best + 1e-7 * (1 + abs(best))

    def test_kernels_suit_their_values(self) -> None:
        """A kernel makes its own value at least as likely as a unit that is fitted to all values."""
        if self.family.n_variables > 1 or not self.family.learnable or not self._defines("statistics", "update"):
            return
        x = self._sample(30)
        whole = self._unit(0)
        for _ in range(40):
            whole = self.family.update(whole, self.family.statistics(whole, x, np.full((30, 1), 1 / 30)))
        found = self.family.statistics(whole, x, np.full((30, 1), 1 / 30))
        units = self.family.kernels(whole, found, x, 0.05)
        own, all_values = np.diag(self.family.log_density(units, x)), self.family.log_density(whole, x)[:, 0]
        assert own.mean() >= all_values.mean() - 1e-6
        assert np.isfinite(own).all()

    def test_a_unit_without_flow_stays(self) -> None:
        """EM doesn't invent parameters where there are no rows."""
        if not self.family.learnable or not self._defines("statistics", "update"):
            return
        x = self._sample(10)
        same = self.family.update(self._p, self.family.statistics(self._p, x, np.zeros((10, self._width))))
        for name, value in self._p.items():
            np.testing.assert_allclose(same[name], value, rtol=1e-12, atol=1e-12)

    def test_gradient(self) -> None:
        """`constrain` takes `unconstrain` back, and `gradient` is that of differences."""
        if not self.family.learnable or not self._defines("unconstrain", "constrain", "gradient", "statistics"):
            return
        z = self.family.unconstrain(self._p)
        p = self.family.constrain(z)
        for name, value in self._p.items():
            np.testing.assert_allclose(p[name], value, rtol=1e-6, atol=1e-6)
        x, flow = self._sample(30), self._rng().random((30, self._width))
        found = self.family.gradient(p, self.family.statistics(p, x, flow))
        for name, value in z.items():
            assert found[name].shape == value.shape
            for place in np.ndindex(value.shape):
                ends = []
                for move in (-1e-5, 1e-5):
                    moved = value.copy()
                    moved[place] += move
                    ends.append((flow * self.family.log_density(self.family.constrain({**z, name: moved}), x)).sum())
                np.testing.assert_allclose(found[name][place], (ends[1] - ends[0]) / 2e-5, rtol=1e-5, atol=1e-5)

    def test_torch_density(self) -> None:
        """By torch the same density; `FamilyError` for its derivatives where there is none by torch."""
        import torch

        x = self._sample(12)
        p = {name: torch.tensor(value[None, None], requires_grad=True) for name, value in self._p.items()}
        if self.family.follows("torch_log_density", "log_density"):
            found = self.family.torch_log_density(p, torch.tensor(x[None, :, None]))  # [1, N, 1], or [1, N, 1, d]
            np.testing.assert_allclose(found[0].detach(), self.family.log_density(self._p, x), rtol=1e-10, atol=1e-10)
            torch.autograd.grad(found.sum(), list(p.values()))
        elif not self.family.is_table:
            rows = torch.tensor(self._table(12), requires_grad=True)
            _raises(FamilyError, lambda: torch.autograd.grad(log_prob(self._mixture(), rows, engine="torch").sum(), rows))

    def test_adam_lowers_the_loss(self) -> None:
        """Thirty epochs; or `FamilyError` at the start of a family that lacks what it needs."""
        if not self.family.learnable:
            return
        X = self._table(200)
        circuit = self._mixture().with_parameters({0: self.family.initialize(self._width, self._rng(), "uniform")})

        def learn() -> Any:
            return fit(circuit, X, method=Adam(0.05), epochs=30, batch_size=None, dtype="float64", progress=False)

        if not self.family.is_free_table and not self.family.defines("unconstrain", "constrain", "gradient", "statistics"):
            _raises(FamilyError, learn)
            return
        assert np.mean(log_prob(learn().circuit, X)) > np.mean(log_prob(circuit, X))

    # ---- files ----------------------------------------------------------------------------------------------------------

    def test_saved_and_loaded(self, tmp_path: Path) -> None:
        """The same family, the same bits."""
        circuit = self._mixture(2)
        path = tmp_path / "circuit.safetensors"
        circuit.save(path)
        again = load(path)
        assert again.families == circuit.families
        for name, value in self._p.items():
            found: Any = again.parameters[0]
            np.testing.assert_array_equal(found[name], value)
        X = self._rows(10)
        np.testing.assert_array_equal(
            log_prob(again, X, missing="marginalize"), log_prob(circuit, X, missing="marginalize")
        )  # fmt: skip


def _raises(kind: type[Exception], function: Callable[..., Any], *arguments: Any) -> Exception:
    """The error that a call must raise."""
    try:
        function(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"{function} raised no {kind.__name__}")
