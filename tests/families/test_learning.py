"""Where learning ends, and that it ends there on every engine."""

import mpmath
import numpy as np
import pytest
import torch

import flatpc as fp


@pytest.mark.parametrize("size", [0.1, 2.0])
def test_em_of_a_negative_binomial_stays_where_the_likelihood_is_largest(size):
    family, rng = fp.NegativeBinomial(), np.random.default_rng(0)
    x = rng.negative_binomial(size, 0.3, 500).astype(float)
    unit, one = family.initialize(1, rng, "uniform"), np.ones((500, 1))
    for _ in range(400):
        unit = family.update(unit, family.statistics(unit, x, one))
    slopes = family.gradient(unit, family.statistics(unit, x, one))
    np.testing.assert_allclose(np.concatenate([slopes["rate"], slopes["size"]]), 0.0, atol=1e-5)


@pytest.mark.parametrize("size", [1e-3, 0.3, 1.5, 40.0, 1e5])
@pytest.mark.parametrize("rate", [1e-2, 3.0, 1e3, 1e6, 1e9])
def test_density_of_a_negative_binomial_by_torch_is_that_of_many_digits(rate, size):
    x = np.unique(np.floor(np.array([0.0, 1.0, 2.0, 7.0, 15.0, 17.0, 0.1 * rate, rate, 1.001 * rate, 5 * rate])))
    unit = {"rate": torch.tensor([[[rate]]], dtype=torch.float64, requires_grad=True), "size": torch.tensor([[[size]]]).double()}
    found = fp.NegativeBinomial().torch_log_density(unit, torch.tensor(x)[None, :, None])
    (slope,) = torch.autograd.grad(found.sum(), unit["rate"])
    with mpmath.workdps(50):
        r, s = mpmath.mpf(rate), mpmath.mpf(float(unit["size"]))
        for value, log_p in zip(x.tolist(), found.ravel().tolist(), strict=True):
            counted = mpmath.loggamma(value + s) - mpmath.loggamma(s) - mpmath.loggamma(value + 1)
            wanted = counted + s * mpmath.log(s / (s + r)) + value * mpmath.log(r / (s + r))
            assert log_p == pytest.approx(float(wanted), rel=1e-12, abs=1e-12)
        wanted = float(sum(value / r - (value + s) / (s + r) for value in x.tolist()))
    assert float(slope) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize(("family", "own"), [
    (fp.Categorical(4), {"p": [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]}), (fp.Binomial(3), {"p": [0.3, 0.6]}),
    (fp.Bernoulli(), {"p": [0.3, 0.6]}), (fp.Indicator(4), {"value": [2.0, 3.0]}),
], ids=["categorical", "binomial", "bernoulli", "indicator"])  # fmt: skip
def test_adam_learns_hurdles_of_tables(family, own, engine):
    x = np.repeat([0.0, 1.0, 2.0, 3.0], [40, 5, 10, 15])[:, None]
    x = x[x[:, 0] < family.n_categories]
    units = {"shares": [[0.5, 0.5], [0.3, 0.7]], **own}
    circuit = fp.Circuit([fp.Input(0, fp.Hurdle((0.0,), family), 2), fp.Sum((0,))], {0: units, 1: [[0.5, 0.5]]})
    rows = x[np.isfinite(circuit.log_prob(x))]
    learnt = fp.fit(
        circuit, rows, method=fp.Adam(0.1), epochs=30, batch_size=None, dtype="float64", progress=False, engine=engine
    )
    assert learnt.circuit.log_prob(rows).mean() > circuit.log_prob(rows).mean() + 1e-3
    if isinstance(family, fp.Indicator):
        np.testing.assert_array_equal(learnt.circuit.parameters[0]["value"], own["value"])


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("method", [fp.EM(1.0), fp.Adam(0.01)], ids=["em", "adam"])
@pytest.mark.parametrize("family", [
    fp.LogisticMixture(2), fp.Discretized(fp.LogisticMixture(2), 0.5),
    fp.Transformed(fp.LogisticMixture(2), fp.families.YeoJohnson(0.5)),
], ids=["alone", "rounded", "mapped"])  # fmt: skip
def test_logistic_mixtures_learn_from_batches_without_a_value(family, method, engine):
    x = np.round(np.random.default_rng(0).normal(0.0, 2.0, (40, 2)) * 2) / 2
    x[:30, 0] = np.nan
    circuit = fp.Circuit([fp.Input(0, family, 2), fp.Input(1, fp.Gaussian(), 2), fp.Product((0, 1)), fp.Sum((2,))])
    learnt = fp.fit(circuit, x, method=method, epochs=2, batch_size=2, progress=False, missing="marginalize", engine=engine)
    assert np.isfinite(learnt.circuit.log_prob(x, missing="marginalize")).all()
