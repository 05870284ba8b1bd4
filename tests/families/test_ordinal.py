"""Ordered categories: the table, its bounds, and where learning ends."""

import numpy as np
import pytest
from scipy import optimize, stats

import flatpc as fp
from flatpc.errors import OptionError, ParameterError
from flatpc.families.differences import derivatives

CUTS = [(0.0,), (-1.0, 0.5), (-2.0, -1.9, 0.0, 3.0), (1000.0, 1001.0, 1001.5), tuple(np.arange(30) / 7)]
each = pytest.mark.parametrize("cuts", CUTS, ids=[str(len(cuts)) for cuts in CUTS])


def units(cuts, seed=0, n=5):
    rng = np.random.default_rng(seed)
    spread = max(cuts[-1] - cuts[0], 1.0)
    return {"location": rng.uniform(cuts[0] - spread / 2, cuts[-1] + spread / 2, n), "scale": spread * rng.uniform(0.1, 1.0, n)}


@each
def test_table_is_what_a_logistic_cdf_says(cuts):
    parameters = units(cuts)
    below = stats.logistic.cdf(np.array(cuts), parameters["location"][:, None], parameters["scale"][:, None])
    wanted = np.diff(np.concatenate([np.zeros((5, 1)), below, np.ones((5, 1))], axis=1), axis=1)
    found = fp.Ordinal(cuts).table(parameters)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)


def test_tails_have_all_their_digits():
    found = fp.Ordinal((0.0, 1e-9)).table({"location": np.array([300.0, -300.0]), "scale": np.ones(2)})
    np.testing.assert_allclose(found[0, :2], [np.exp(-300.0), 1e-9 * np.exp(-300.0)], rtol=1e-8)
    np.testing.assert_allclose(found[1, :0:-1], [np.exp(-300.0 - 1e-9), 1e-9 * np.exp(-300.0)], rtol=1e-8)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_evenly_spaced_cuts_are_a_logistic_that_was_rounded(n):
    family, rounded = fp.Ordinal(tuple(np.arange(n - 1) + 0.5)), fp.Discretized(fp.Logistic(), 1.0, low=0.0, high=n - 1.0)
    parameters, x = {"location": np.array([-2.0, 0.3, 4.1]), "scale": np.array([0.2, 1.0, 3.0])}, np.arange(float(n))
    found = family.log_density(parameters, x)
    np.testing.assert_allclose(found, rounded.log_density(parameters, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0.999, 1e-9, 1e-3], [1e-12, 1.0, 1e-12], [3, 1, 4, 1, 5]])
def test_shares_are_those_of_a_unit_in_the_middle(shares):
    family = fp.Ordinal.of_shares(shares)
    found = family.table({"location": np.zeros(1), "scale": np.ones(1)})[0]
    np.testing.assert_allclose(found, np.array(shares) / np.sum(shares), rtol=1e-6)
    np.testing.assert_allclose(found, np.array(shares) / np.sum(shares), rtol=0, atol=1e-14)
    assert family == fp.Ordinal.of_shares(np.array(shares))


@each
@pytest.mark.parametrize("location", [-1e200, -1e4, 0.0, 1e9])
@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e6, 1e200])
def test_no_parameters_make_a_value_impossible(cuts, location, scale):
    family, unit = fp.Ordinal(cuts), {"location": np.array([location]), "scale": np.array([scale])}
    table = family.table(unit)
    assert (table > 0).all()
    np.testing.assert_allclose(table.sum(), 1.0, rtol=1e-12)
    counts = np.arange(1.0, len(cuts) + 2)[None]
    for new in (family.update(unit, {"counts": counts}), family.initialize_from(np.zeros(3), 1, np.random.default_rng(0), "")):
        family.check_parameters(new, "The unit")
        assert family.table(new).min() > 1e-290
    gradient = family.gradient(unit, {"counts": counts})
    assert np.isfinite(np.concatenate(list(gradient.values()))).all()


@each
def test_counts_at_one_value_or_at_both_ends_have_a_bounded_maximum(cuts):
    family, n = fp.Ordinal(cuts), len(cuts) + 1
    counts = np.concatenate([np.eye(n), np.eye(n)[:1] + np.eye(n)[-1:]]) * 50
    found = start = units(cuts, n=n + 1)
    for _ in range(3):
        found = family.update(found, {"counts": counts})
    family.check_parameters(found, "The limit")
    table = family.table(found)
    assert (table > 1e-290).all()
    log_likelihood = (counts * np.log(table)).sum(axis=1)
    assert (log_likelihood >= (counts * np.log(family.table(start))).sum(axis=1) - 1e-9).all()
    if n < 6:
        assert (np.diag(table[:n]) > 0.999).all() or min(np.diff(cuts)) < (cuts[-1] - cuts[0]) / 30
    assert table[n, 0] == pytest.approx(0.5, abs=1e-4)
    assert table[n, -1] == pytest.approx(0.5, abs=1e-4)


@each
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_update_reaches_the_maximum(cuts, seed):
    family, rng = fp.Ordinal(cuts), np.random.default_rng(seed)
    counts = rng.exponential(size=(4, len(cuts) + 1))
    far = {"location": np.array([0.0, -1e3, 1e3, cuts[0]]), "scale": np.array([1.0, 0.01, 1e3, 1e-6])}
    found = family.update(far, {"counts": counts})
    again = family.update(found, {"counts": counts})
    best = (counts * np.log(family.table(found))).sum(axis=1)
    np.testing.assert_allclose((counts * np.log(family.table(again))).sum(axis=1), best, rtol=1e-12)
    unit = max(cuts[-1] - cuts[0], 1.0)
    for k in range(4):

        def loss(z, k=k):
            parameters = {"location": np.array([cuts[0] + unit * z[0]]), "scale": np.array([unit * np.exp(z[1])])}
            return -(counts[k] * np.log(family.table(parameters)[0])).sum()

        start = [(found["location"][k] - cuts[0]) / unit + 0.1, np.log(found["scale"][k] / unit) - 0.1]
        options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5000}
        assert -optimize.minimize(loss, start, method="Nelder-Mead", options=options).fun <= best[k] + 1e-8


@each
def test_units_without_counts_stay_and_pseudocounts_are_spread_evenly(cuts):
    family, parameters, n = fp.Ordinal(cuts), units(cuts, n=2), len(cuts) + 1
    counts = np.zeros((2, n))
    counts[1, 0] = 4.0
    same = family.update(parameters, {"counts": counts})
    for name, value in parameters.items():
        assert same[name][0] == value[0]
    smoothed = family.update(parameters, {"counts": counts}, pseudocount=float(n))
    wanted = family.update(parameters, {"counts": counts + 1})
    for name, value in wanted.items():
        np.testing.assert_allclose(smoothed[name], value, rtol=1e-12)


@each
@pytest.mark.parametrize("step", [0.3, np.array([0.1, 0.5, 0.9])])
def test_parts_of_a_step_never_lower_the_likelihood(cuts, step):
    family, rng = fp.Ordinal(cuts), np.random.default_rng(3)
    old, counts = units(cuts, n=3), rng.exponential(size=(3, len(cuts) + 1)) ** 3
    new = family.update(old, {"counts": counts})
    between = family.interpolate(old, new, step)
    at = [(counts * np.log(family.table(each))).sum(axis=1) for each in (old, between, new)]
    assert (at[1] >= (1 - step) * at[0] + step * at[2] - 1e-10).all()


@each
def test_derivatives_in_closed_form_are_those_of_differences(cuts):
    family, parameters = fp.Ordinal(cuts), units(cuts, n=3)
    x = np.append(np.arange(len(cuts) + 1.0), np.nan)
    for found, wanted in zip(family.derivatives(parameters, x), derivatives(family, parameters, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * abs(found).max())


def test_units_start_around_the_values():
    family, rng = fp.Ordinal.of_shares(np.ones(10)), np.random.default_rng(0)
    x = np.append(np.repeat([1.0, 8.0], 50), np.nan)
    start = family.initialize_from(x, 2, rng, "uniform")
    assert sorted(family.mode(start)) == [1.0, 8.0]
    family.check_parameters(family.initialize_from(np.full(3, np.nan), 4, rng, "uniform"), "Without a value")
    assert len(set(family.initialize_from(x, 8, rng, "uniform")["location"])) == 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.Ordinal(()), r"Ordinal\(cuts=\(\)\); give 1 or more finite numbers in ascending order"),
        (lambda: fp.Ordinal((0.0, 0.0)), "ascending order"),
        (lambda: fp.Ordinal((0.0, np.inf)), "finite"),
        (lambda: fp.Ordinal((-1.7e308, 1.7e308)), "distance is finite"),
        (lambda: fp.Ordinal(1.0), "ascending order"),
        (lambda: fp.Ordinal("abc"), "ascending order"),
        (lambda: fp.Ordinal.of_shares([1.0]), "two or more positive"),
        (lambda: fp.Ordinal.of_shares([0.5, 0.0, 0.5]), "two or more positive"),
        (lambda: fp.Ordinal.of_shares([0.5, np.nan]), "two or more positive"),
        (lambda: fp.Ordinal.of_shares(0.5), "two or more positive"),
        (lambda: fp.Ordinal.of_shares([1.0, 1e-30, 1.0]), "told from 0"),
        (lambda: fp.Ordinal.for_parameters([0.0, 1.0]), r"fp\.Ordinal\(cuts=\.\.\.\)"),
    ],
)
def test_wrong_options_are_refused(make, message):
    with pytest.raises(OptionError, match=message):
        make()


@pytest.mark.parametrize(("name", "value"), [("location", np.inf), ("location", np.nan), ("scale", 0.0), ("scale", np.inf)])
def test_wrong_parameters_are_refused(name, value):
    parameters = {"location": np.zeros(1), "scale": np.ones(1), name: np.array([value])}
    with pytest.raises(ParameterError, match=f"every {name}"):
        fp.Ordinal((0.0,)).check_parameters(parameters, "Node 0")


def test_what_it_says_of_itself():
    family = fp.Ordinal([0, 1, 2.5])
    assert family.cuts == (0.0, 1.0, 2.5)
    assert family.n_categories == 4
    assert family.is_table
    assert not family.is_free_table
    assert not family.can_rescale
    assert not family.joins
    assert fp.family("ordinal", cuts=(0.0, 1.0, 2.5)) == family
