"""Modes, quantiles and samples at the edges of what a family has."""

import numpy as np
import pytest

import flatpc as fp

Q = np.array([0.01, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.999])


def test_quantiles_of_a_histogram_pass_over_empty_bins():
    family, unit = fp.Histogram((0.0, 1.0, 2.0, 3.0)), {"p": np.array([[0.5, 0.0, 0.5], [0.0, 0.25, 0.75], [0.2, 0.8, 0.0]])}
    found = family.quantile(unit, np.array([0.0, 0.25, 0.5, 0.75, 0.9, 1.0]))
    wanted = [
        [0.0, 0.5, 1.0, 2.5, 2.8, 3.0],
        [1.0, 2.0, 7 / 3, 8 / 3, 2 + 13 / 15, 3.0],
        [0.0, 1.0625, 1.375, 1.6875, 1.875, 2.0],
    ]
    np.testing.assert_allclose(found, np.transpose(wanted), rtol=0, atol=1e-15)


def test_samples_in_a_range_leave_empty_bins_empty():
    circuit = fp.Circuit([fp.Input(0, fp.Histogram((0.0, 1.0, 2.0, 3.0)))], {0: {"p": np.array([[0.5, 0.0, 0.5]])}})
    drawn = fp.queries.sample_given_events(circuit, 500, events={0: (1.5, 3.0)}, seed=0)
    assert drawn.min() >= 2
    assert np.isfinite(circuit.log_prob(drawn)).all()


HALVES, NORMAL = np.arange(-60, 60) / 2, {"mean": [-1.0], "variance": [4.0]}
HURDLES = {
    "rounded": (fp.Hurdle((0.0, 2.0), fp.Discretized(fp.Gaussian(), 0.5)), NORMAL, HALVES),
    "between": (fp.Hurdle((-1.3, 0.25), fp.Discretized(fp.Gaussian(), 0.5)), NORMAL, HALVES),
    "coarse": (fp.Hurdle((0.0, 3.0), fp.Discretized(fp.Gaussian(), 3.0)), {"mean": [0.0], "variance": [1.0]}, 6 * HALVES),
    "shifted": (
        fp.Hurdle((0.25, 1.25), fp.Discretized(fp.Logistic(), 0.5, 0.25)), {"location": [0.3], "scale": [0.2]}, HALVES + 0.25
    ),
    "table": (fp.Hurdle((1.0, 3.0), fp.Categorical(6)), {"p": [[0.4, 0.1, 0.05, 0.05, 0.02, 0.38]]}, np.arange(6.0)),
    "far": (fp.Hurdle((0.0, 1.0), fp.Categorical(9)), {"p": [[0.5, 0.1, 0.0, 0.0, 0.01, 0.02, 0.03, 0.3, 0.04]]}, np.arange(9.0)),
    "counts": (fp.Hurdle((-1.0, 4.0), fp.Poisson()), {"rate": [4.5]}, np.arange(60.0)),
}  # fmt: skip


@pytest.mark.parametrize("case", HURDLES)
@pytest.mark.parametrize("shares", [(0.3, 0.2, 0.5), (0.01, 0.01, 0.98)])
def test_hurdles_of_discrete_families_answer_as_their_table_does(case, shares):
    family, own, values = HURDLES[case]
    unit = {"shares": np.array([shares]), **{name: np.array(value) for name, value in own.items()}}
    values = np.union1d(values, family.atoms)
    p = np.exp(family.log_density(unit, values)[:, 0])
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_array_equal(family.quantile(unit, Q)[:, 0], values[np.searchsorted(np.cumsum(p), Q)])
    assert family.mode(unit)[0] == values[p.argmax()]


def test_samples_of_hurdles_in_a_range_have_the_probabilities_of_the_range():
    family, own, values = HURDLES["rounded"]
    unit = {"shares": np.array([[0.3, 0.2, 0.5]]), **{name: np.array(value) for name, value in own.items()}}
    circuit = fp.Circuit([fp.Input(0, family)], {0: unit})
    drawn = fp.queries.sample_given_events(circuit, 20_000, events={0: (-10.0, -0.4)}, seed=0)
    inside = values[(values >= -10) & (values <= -0.4)]
    p = np.exp(family.log_density(unit, inside)[:, 0])
    found = (drawn == inside).mean(axis=0)
    assert found.sum() == 1
    np.testing.assert_allclose(found, p / p.sum(), rtol=0, atol=4 * np.sqrt(0.25 / 20_000))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.0, 10.0), (0.0, 2.5), (-10.0, 0.0), (-3.0, 1e9), (0.0, 1e-3), (0.0, 1e300)]
)
def test_a_beta_stays_inside_its_bounds(low, high):
    family = fp.Beta(low, high)
    units = {"a": np.array([0.002, 0.5, 3.0]), "b": np.array([3.0, 0.002, 2.0])}
    drawn = family.sample(units, np.arange(3000) % 3, np.random.default_rng(0))
    inner = family.quantile(units, np.array([1e-12, 0.3, 0.999])).ravel()
    for x in (family.mode(units), drawn, inner):
        assert not family.outside(x).any()
        assert np.isfinite(family.log_density(units, x)).all()
    assert family.quantile(units, np.array([0.0, 1.0]))[:, 0].tolist() == [low, high]


@pytest.mark.parametrize("family", [
    fp.Gaussian(), fp.Logistic(), fp.StudentT(), fp.LogisticMixture(2), fp.Hurdle((0.0,), fp.StudentT()), fp.Exponential(),
    fp.Gamma(), fp.LogNormal(), fp.Beta(), fp.Histogram((0.0, 1.0, 3.0)), fp.PiecewiseLinear((0.0, 1.0, 3.0)),
    fp.Discretized(fp.StudentT(), 0.5),
], ids=str)  # fmt: skip
def test_quantiles_of_zero_and_one_are_the_ends_of_the_support(family):
    units = family.initialize(2, np.random.default_rng(0), "uniform")
    found = family.quantile(units, np.array([0.0, 1.0]))
    assert found[0].tolist() == [family.bounds[0]] * 2
    assert found[1].tolist() == [family.bounds[1]] * 2
