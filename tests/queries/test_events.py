"""Ranges and sets of values as evidence, and one variable given others: against enumeration, scipy and numerical integration."""

import numpy as np
import pytest
from scipy import integrate, stats

import flatpc as fp
from flatpc.errors import DataError, OptionError
from flatpc.queries import conditional, event_log_prob, sample_given_events

MEANS, SCALES, RATES, P = [-1.0, 0.5, 2.0], [1.0, 0.5, 2.0], [1.0, 4.0, 9.0], [0.2, 0.3, 0.5]
TABLE = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]


def circuit():
    """Three clusters over a number, a count and a category."""
    nodes = [
        fp.Input(0, fp.Gaussian(), 3), fp.Input(1, fp.Poisson(), 3), fp.Input(2, fp.Categorical(3), 3), fp.Product((0, 1, 2)),
        fp.Sum((3,)),
    ]  # fmt: skip
    parameters = {0: {"mean": MEANS, "variance": np.square(SCALES)}, 1: {"rate": RATES}, 2: {"p": TABLE}, 4: [P]}
    return fp.Circuit(nodes, parameters)


def test_probabilities_of_events_are_those_of_scipy():
    found = event_log_prob(circuit(), events={0: (0.0, 1.5), 1: (2, 5), 2: [0, 2]})
    expected = sum(
        p
        * (stats.norm.cdf(1.5, m, s) - stats.norm.cdf(0.0, m, s))
        * (stats.poisson.cdf(5, r) - stats.poisson.cdf(1, r))
        * (t[0] + t[2])
        for p, m, s, r, t in zip(P, MEANS, SCALES, RATES, TABLE, strict=True)
    )
    np.testing.assert_allclose(np.exp(found), [expected], rtol=1e-12)
    sure = event_log_prob(circuit(), events={0: (-np.inf, np.inf), 1: (0, np.inf), 2: [0, 1, 2]})
    np.testing.assert_allclose(sure, [0.0], atol=1e-12)


def test_events_beside_known_values():
    rows = np.array([[np.nan, 3.0, np.nan], [0.25, np.nan, 1.0]])
    found = event_log_prob(circuit(), rows, events={0: (0.0, 1.0)})  # the second row's own value is not looked at
    for row, log in zip(rows, found, strict=True):
        density = lambda x, row=row: float(np.exp(circuit().log_prob([[x, *row[1:]]], missing="marginalize")[0]))  # noqa: E731
        assert np.exp(log) == pytest.approx(integrate.quad(density, 0.0, 1.0)[0], rel=1e-9)


@pytest.mark.parametrize("family", [
    fp.Discretized(fp.Gaussian(), 0.5), fp.Hurdle((0.0,), fp.Gaussian()), fp.NegativeBinomial(), fp.Categorical(5),
    fp.Hurdle((0.0, 2.0), fp.NegativeBinomial()), fp.Hurdle((0.0,), fp.Discretized(fp.Gaussian(), 0.5)),
])  # fmt: skip
def test_both_bounds_belong_to_a_range(family):
    """The probability of a single value is its density, of a family that gives it one."""
    rng = np.random.default_rng(0)
    c = fp.Circuit([fp.Input(0, family, 3), fp.Sum((0,))], {0: family.initialize(3, rng, "exponential"), 1: [P]})
    for value in (0.0, 2.0):
        if family == fp.Hurdle((0.0,), fp.Gaussian()) and value == 2.0:
            continue
        np.testing.assert_allclose(event_log_prob(c, events={0: (value, value)}), c.log_prob([[value]]), rtol=1e-7)
        np.testing.assert_allclose(event_log_prob(c, events={0: value}), c.log_prob([[value]]), rtol=1e-12)
    parts = [np.exp(event_log_prob(c, events={0: bounds})[0]) for bounds in ((-np.inf, 1.9), (2.0, np.inf))]
    between = np.exp(event_log_prob(c, events={0: (1.9000001, 1.9999999)})[0])
    assert sum(parts) + between == pytest.approx(1.0, abs=1e-6)


def test_samples_given_events_have_the_conditional_distribution():
    drawn = sample_given_events(circuit(), 4000, events={0: (0.0, 1.0), 2: [0, 1]}, seed=1)
    assert drawn.shape == (4000, 3)
    assert ((drawn[:, 0] >= 0) & (drawn[:, 0] <= 1)).all()
    assert set(drawn[:, 2]) == {0.0, 1.0}
    # Against rows of the circuit that happen to be so.
    free = circuit().sample(60_000, seed=2)
    kept = free[(free[:, 0] >= 0) & (free[:, 0] <= 1) & (free[:, 2] < 2)]
    assert stats.ks_2samp(drawn[:, 0], kept[:, 0]).pvalue > 1e-3
    assert stats.ks_2samp(drawn[:, 1], kept[:, 1]).pvalue > 1e-3
    rows = sample_given_events(circuit(), 5, events={0: (0.0, 1.0)}, given=[[np.nan, 3.0, np.nan]] * 2)
    assert rows.shape == (5, 2, 3)
    assert (rows[..., 1] == 3).all()


def test_one_variable_given_others():
    rows = np.array([[9.0, 3.0, 1.0], [9.0, np.nan, 2.0]])
    found = conditional(circuit(), rows, variable=0)
    for k, row in enumerate(rows):

        def density(x, row=row):
            top, rest = ([x, *row[1:]], [np.nan, *row[1:]])
            logs = circuit().log_prob([top, rest], missing="marginalize")
            return float(np.exp(logs[0] - logs[1]))

        at = np.full(2, 0.7)
        assert np.exp(found.log_density(at))[k] == pytest.approx(density(0.7), rel=1e-9)
        assert found.cdf(at)[k] == pytest.approx(integrate.quad(density, -15, 0.7, limit=200)[0], abs=1e-8)
        assert found.mean()[k] == pytest.approx(integrate.quad(lambda x: x * density(x), -20, 20, limit=200)[0], abs=1e-7)
        grid = np.linspace(-5, 6, 4001)
        best = grid[np.argmax([found.log_density(np.full(2, x))[k] for x in grid])]
        assert abs(found.mode()[k] - best) < 0.3
    for q in (0.01, 0.5, 0.9):
        np.testing.assert_allclose(found.cdf(found.quantile(q)), q, atol=1e-9)


def test_quantiles_of_counts_and_categories():
    count = conditional(circuit(), [[0.3, 0.0, 0.0]], variable=1)
    for q in (0.05, 0.5, 0.99):
        value = count.quantile(q)
        assert value[0] == pytest.approx(round(value[0]), abs=1e-9)
        assert count.cdf(value + 1e-9)[0] >= q > count.cdf(value - 0.5)[0]
    category = conditional(circuit(), [[0.3, 2.0, 0.0]], variable=2)
    np.testing.assert_allclose(category.table().sum(axis=1), 1.0)
    joint = [circuit().log_prob([[0.3, 2.0, k]])[0] for k in range(3)]
    np.testing.assert_allclose(category.table()[0], np.exp(joint) / np.exp(joint).sum(), rtol=1e-12)
    assert category.quantile(0.999)[0] in (0, 1, 2)


def test_mistakes():
    with pytest.raises(OptionError, match="no variable 7"):
        event_log_prob(circuit(), events={7: 1})
    with pytest.raises(OptionError, match="low first"):
        event_log_prob(circuit(), events={0: (2.0, 1.0)})
    with pytest.raises(OptionError, match="no variable 7"):
        conditional(circuit(), np.zeros((1, 3)), variable=7)
    with pytest.raises(DataError, match="probability zero"):
        sample_given_events(circuit(), 3, events={0: (0.1, 0.2), 1: (0.2, 0.8)})


@pytest.mark.parametrize("odd", [
    "a", "yes", ("a", "b"), (None, 1), (0.0, "b"), (np.nan, 1.0), (1.0,), (1.0, 2.0, 3.0), (), ["x"], [0.5, None], [], [np.nan],
    np.nan, None, object(), {}, {1, 2}, b"a", 1j, np.array([0.0, 1.0]),
])  # fmt: skip
def test_events_that_are_none(odd):
    for ask in (event_log_prob, sample_given_events):
        with pytest.raises(OptionError, match=r"variable 1 is .*(a list of numbers|low first)") as raised:
            ask(circuit(), events={0: 0.5, 1: odd})
        assert raised.value.option == "events"


def test_a_value_that_is_listed_twice_counts_once():
    for listed, same in (([1, 1, 0], [0, 1]), ([True], 1), ([np.float32(2.0)], 2), (np.True_, 1), (np.array(2), [2])):
        np.testing.assert_array_equal(event_log_prob(circuit(), events={2: listed}), event_log_prob(circuit(), events={2: same}))
    assert float(np.exp(event_log_prob(circuit(), events={2: [0, 1, 2, 2]})[0])) == pytest.approx(1.0, abs=1e-12)


def test_options_and_tables_are_those_of_other_queries():
    rows = np.array([[0.25, 3.0, np.nan], [0.5, 2.0, 1.0]])
    masked = np.ma.masked_array(np.nan_to_num(rows, nan=2.0), np.isnan(rows))
    ask = {
        "events": lambda X, **o: event_log_prob(circuit(), X, events={0: (0.0, 1.0)}, **o),
        "sample": lambda X, **o: sample_given_events(circuit(), 3, events={0: (0.0, 1.0)}, given=X, **o),
        "conditional": lambda X, **o: conditional(circuit(), X, variable=0, **o).mean(),
    }
    for name, question in ask.items():
        expected = question(rows)
        # A masked entry is unknown, whatever number is below the mask.
        np.testing.assert_array_equal(question(masked), expected)
        if name != "sample":
            np.testing.assert_allclose(question(rows, dtype="float32"), expected, rtol=1e-4)
        with pytest.raises(DataError, match="row 0"):
            question(rows, missing="raise")
        np.testing.assert_array_equal(question(rows[1:], missing="raise"), question(rows[1:]))
        for wrong in ({"dtype": "half"}, {"missing": "drop"}, {"engine": "numba", "device": "cuda"}):
            with pytest.raises(OptionError):
                question(rows, **wrong)


# ---- variables that inputs take together ------------------------------------------------------------------------------

COVARIANCES = np.array(
    [[[1.0, 0.6, 0.2], [0.6, 2.0, -0.3], [0.2, -0.3, 0.5]], [[0.5, -0.3, 0.0], [-0.3, 1.0, 0.4], [0.0, 0.4, 1.5]]]
)
CENTRES = np.array([[0.0, 1.0, -1.0], [2.0, -1.0, 0.5]])


def blocks():
    """Two clusters of three numbers that depend on one another, and a category."""
    nodes = [
        fp.Input(variables=(0, 1, 2), family=fp.MultivariateGaussian(3), width=2), fp.Input(3, fp.Categorical(2), 2),
        fp.Product((0, 1)), fp.Sum((2,)),
    ]  # fmt: skip
    units = {"mean": CENTRES, "covariance": COVARIANCES}
    return fp.Circuit(nodes, {0: units, 1: {"p": [[0.9, 0.1], [0.3, 0.7]]}, 3: [[0.4, 0.6]]})


def along(c, row, j, low, high):
    """∫ p(row with x_j) dx_j, by numerical integration."""
    at = lambda x: float(np.exp(c.log_prob([[*row[:j], x, *row[j + 1 :]]], missing="marginalize")[0]))  # noqa: E731
    return integrate.quad(at, max(low, -30), min(high, 30), limit=200, epsabs=1e-13, epsrel=1e-11, points=[0.0])[0]


@pytest.mark.parametrize("row", [[np.nan] * 4, [np.nan, 0.5, np.nan, 1.0], [9.0, 0.5, -0.2, np.nan]])
@pytest.mark.parametrize("bounds", [(-0.5, 0.7), (-np.inf, 0.0), (1.0, np.inf), (4.0, 6.0)])
def test_a_range_of_one_variable_of_several(row, bounds):
    found = event_log_prob(blocks(), [row], events={0: bounds})[0]
    assert np.exp(found) == pytest.approx(along(blocks(), row, 0, *bounds), rel=1e-9)


def test_ranges_of_two_variables_of_several():
    row, c = [np.nan, np.nan, -0.5, np.nan], blocks()
    inner = lambda x: along(c, [x, *row[1:]], 1, -0.5, np.inf)  # noqa: E731
    expected = integrate.quad(inner, 0.0, 1.5, epsabs=1e-10)[0]
    assert np.exp(event_log_prob(c, [row], events={0: (0.0, 1.5), 1: (-0.5, np.inf)})[0]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("d", "error"), [(2, 1e-6), (3, 1e-4), (5, 2e-3)])
def test_boxes_are_those_of_scipy(d, error):
    rng = np.random.default_rng(d)
    root = rng.normal(size=(d, d))
    covariance, mean = root @ root.T + 0.2 * np.eye(d), rng.normal(size=d)
    low, high = mean - [0.5, np.inf, 2.0, 1.0, 0.3][:d], mean + [1.0, 0.7, np.inf, 1.5, 2.0][:d]
    family = fp.MultivariateGaussian(d)
    found = family.box_log_prob({"mean": mean[None], "covariance": covariance[None]}, np.full((1, d), np.nan), low, high)
    law = stats.multivariate_normal(mean, covariance, abseps=1e-7, releps=1e-7, maxpts=1_000_000)
    assert np.exp(found[0, 0]) == pytest.approx(law.cdf(high, lower_limit=low), abs=error)


def test_values_and_ranges_of_several():
    c = blocks()
    for value in (0.3, [0.3, -1.0]):
        each = [c.log_prob([[np.nan, v, np.nan, 1.0]], missing="marginalize")[0] for v in np.atleast_1d(value)]
        found = event_log_prob(c, [[np.nan, 7.0, np.nan, 1.0]], events={1: value})[0]
        assert found == pytest.approx(np.logaddexp.reduce(each), rel=1e-12)
    both = sum(along(c, [np.nan, v, np.nan, np.nan], 0, 0.0, 2.0) for v in (0.3, -1.0))
    assert np.exp(event_log_prob(c, events={0: (0.0, 2.0), 1: [0.3, -1.0]})[0]) == pytest.approx(both, rel=1e-9)


@pytest.mark.parametrize("events", [{0: (1.0, 3.0)}, {0: (0.5, 2.0), 1: (-0.5, 0.5)}, {0: (3.0, np.inf), 2: (-np.inf, 0.0)}])
def test_samples_given_ranges_of_several_variables(events):
    drawn = sample_given_events(blocks(), 3000, events=events, seed=3)
    free = blocks().sample(400_000, seed=4)
    inside = np.logical_and.reduce([(free[:, v] >= low) & (free[:, v] <= high) for v, (low, high) in events.items()])
    assert inside.sum() > 500
    for v, (low, high) in events.items():
        assert ((drawn[:, v] >= low) & (drawn[:, v] <= high)).all()
    for v in range(4):
        assert stats.ks_2samp(drawn[:, v], free[inside, v]).pvalue > 1e-3
    given = sample_given_events(blocks(), 50, events=events, given=[[np.nan, np.nan, np.nan, 1.0]])
    assert (given[..., 3] == 1).all()


def test_samples_of_values_of_several_variables():
    drawn = sample_given_events(blocks(), 4000, events={1: [0.3, -1.0]}, seed=5)
    log = [blocks().log_prob([[np.nan, v, np.nan, np.nan]], missing="marginalize")[0] for v in (0.3, -1.0)]
    share = 1 / (1 + np.exp(log[1] - log[0]))
    assert set(drawn[:, 1]) == {0.3, -1.0}
    assert abs((drawn[:, 1] == 0.3).mean() - share) < 4 * np.sqrt(share * (1 - share) / 4000)


SEVERAL = [(2.0, 3.0), (-1.0, 0.0), (-0.5, 0.5)]
"""Two of the ranges overlap: together they are -1 to 0.5, and 2 to 3."""


@pytest.mark.parametrize("make", [circuit, blocks])
def test_several_ranges_of_a_variable(make):
    c, row = make(), [0.7, *([np.nan] * (make().n_variables - 2)), 1.0]
    for X in (None, [row]):
        parts = [event_log_prob(c, X, events={0: ends})[0] for ends in ((-1.0, 0.5), (2.0, 3.0))]
        assert event_log_prob(c, X, events={0: SEVERAL})[0] == pytest.approx(np.logaddexp(*parts), rel=1e-9)
    drawn, free = sample_given_events(c, 4000, events={0: SEVERAL}, seed=6), c.sample(100_000, seed=7)
    inside = ((free[:, 0] >= -1) & (free[:, 0] <= 0.5)) | ((free[:, 0] >= 2) & (free[:, 0] <= 3))
    for v in range(c.n_variables):
        assert stats.ks_2samp(drawn[:, v], free[inside, v]).pvalue > 1e-3
    with pytest.raises(OptionError, match=r"range of variable 0 is 1\.0; give two numbers"):
        event_log_prob(c, events={0: [(0.0, 1.0), 1.0]})


@pytest.mark.parametrize("ends", [(-np.inf, np.inf), [(-np.inf, 0.0), (0.0, np.inf)]])
def test_ranges_without_ends_say_nothing(ends):
    c, row = blocks(), [[5.0, 0.3, np.nan, 1.0]]
    assert event_log_prob(c, events={0: ends})[0] == pytest.approx(0.0, abs=1e-9)
    rest = c.log_prob([[np.nan, *row[0][1:]]], missing="marginalize")[0]
    assert event_log_prob(c, row, events={0: ends})[0] == pytest.approx(rest, rel=1e-9)
    drawn = sample_given_events(c, 4000, events={0: ends}, seed=8)
    assert stats.ks_2samp(drawn[:, 0], c.sample(20_000, seed=9)[:, 0]).pvalue > 1e-3


def test_a_box_that_is_hard_to_hit():
    units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.999], [0.999, 1.0]]])}
    low, high = np.array([1.0, -np.inf]), np.array([2.0, 0.9])
    drawn = fp.MultivariateGaussian(2).sample_in_box(
        units, np.zeros(200, int), np.full((200, 2), np.nan), low, high, np.random.default_rng(0)
    )
    assert ((drawn >= low) & (drawn <= high)).all()


@pytest.mark.parametrize("row", [[np.nan] * 4, [np.nan, 0.5, np.nan, 1.0], [9.0, 0.5, -0.2, 0.0]])
def test_one_variable_of_several_given_others(row):
    c = blocks()
    given, total = conditional(c, [row], variable=0), along(c, row, 0, -np.inf, np.inf)
    for x in (-1.0, 0.4, 2.5):
        log = c.log_prob([[x, *row[1:]]], missing="marginalize")[0] - np.log(total)
        assert given.log_density(np.array([x]))[0] == pytest.approx(log, abs=1e-9)
        assert given.cdf(np.array([x]))[0] == pytest.approx(along(c, row, 0, -np.inf, x) / total, abs=1e-9)
    for q in (0.05, 0.5, 0.9):
        assert given.cdf(given.quantile(q))[0] == pytest.approx(q, abs=1e-9)
    unknown = [np.nan, *row[1:]]
    assert given.mean()[0] == pytest.approx(c.expectation([unknown])[0][0], rel=1e-10)
    centres = fp.MultivariateGaussian(3).moments_given({"mean": CENTRES, "covariance": COVARIANCES}, np.array([unknown[:3]]))[0]
    assert given.log_density(given.mode())[0] == max(given.log_density(np.array([x]))[0] for x in centres[0, :, 0])
