"""Questions in the table's terms: against counts of many drawn rows, numerical integration, and the joint density."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

import flatpc as fp
from flatpc.errors import OptionError, ShapeError


def table(n=250, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.5
    return pd.DataFrame({
        "age": rng.normal(np.where(old, 60, 30), 5).round(),
        "city": np.where(rng.random(n) < np.where(old, 0.9, 0.2), "Ulm", "Bonn"),
        "debt": np.round(np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.normal(np.where(old, 3, 1), 0.5))), 2),
        "visits": rng.poisson(np.where(old, 9, 2)),
    })  # fmt: skip


@pytest.fixture(scope="module")
def density():
    options = {"structure": "mixture", "n_latents": 4, "mu": 0.0, "average": False, "effort": 0.2, "verbose": False}
    return fp.CircuitDensity(**options).fit(table())


@pytest.fixture(scope="module")
def drawn(density):
    """Rows of the circuit itself, before bounds and resolution."""
    return pd.DataFrame(density.circuit_.sample(40_000, seed=1), columns=density.columns_.names)


def test_ranges_of_categories_that_are_numbers():
    rng = np.random.default_rng(0)
    grades = fp.CircuitDensity(structure="factorized", effort=0.2, verbose=False).fit(rng.integers(1, 7, (200, 2)))
    assert grades.kinds_ == {"x0": "categorical", "x1": "categorical"}
    each = [grades.probability({"x0": grade}) for grade in range(1, 7)]
    assert grades.probability({"x0": (2, 4)}) == pytest.approx(sum(each[1:4]), abs=1e-12)
    assert grades.probability({"x0": (None, 2.5)}) == pytest.approx(sum(each[:2]), abs=1e-12)
    assert grades.probability({"x0": [2, 4]}) == pytest.approx(each[1] + each[3], abs=1e-12)
    assert set(grades.sample(100, given={"x0": (2, 4)}, random_state=0)[:, 0]) == {2, 3, 4}
    with pytest.raises(OptionError, match=r"event says \(8, None\) of 'x0', whose values are 1, 2, 3, 4, 5, 6\."):
        grades.probability({"x0": (8, None)})
    with pytest.raises(OptionError, match="low first"):
        grades.probability({"x0": (4, 2)})


def test_probabilities_are_shares_of_drawn_rows(density, drawn):
    city = density.categories("city").index("Ulm")
    young, ulm = drawn["age"].between(24.5, 40.5), drawn["city"] == city  # ages are rounded
    for found, share, n in [
        (density.probability({"age": (25, 40)}), young.mean(), len(drawn)),
        (density.probability({"city": "Ulm", "visits": (0, 3)}), (ulm & drawn["visits"].between(0, 3)).mean(), len(drawn)),
        (density.probability({"city": ["Ulm"]}, given={"age": (25, 40)}), ulm[young].mean(), young.sum()),
        (density.probability({"visits": (5, None)}, given={"city": "Ulm"}), (drawn["visits"][ulm] >= 5).mean(), ulm.sum()),
    ]:
        assert found == pytest.approx(share, abs=4.5 * np.sqrt(0.25 / n))
    of_rows = density.probability({"city": "Ulm"}, given=table(5, seed=3))
    np.testing.assert_allclose(of_rows, density.predict_proba(table(5, seed=3), "city")[:, city], rtol=1e-9)


def test_numbers_of_rounded_columns_stand_for_all_that_is_rounded_to_them():
    """Halves, prices in hundreds, and days: lists, ranges and single values add up, and are shares of drawn rows."""
    rng = np.random.default_rng(3)
    high, n = rng.random(600) < 0.5, 600
    frame = pd.DataFrame({
        "half": np.round(rng.normal(10 + 4 * high, 2) * 2) / 2,
        "price": (np.round(rng.normal(5000 + 3000 * high, 900) / 100) * 100).astype(int),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.normal(300, 60, n).round(), unit="D"),
    })  # fmt: skip
    density = fp.CircuitDensity(structure="mixture", n_latents=3, average=False, effort=0.3, verbose=False).fit(frame)
    drawn = density.sample(20_000, random_state=0)
    first, last = pd.Timestamp("2020-10-01"), pd.Timestamp("2020-10-31")
    for column, ends, listed in [
        ("half", (10.0, 12.0), [10.0, 10.5, 11.0, 11.5, 12.0]),
        ("price", (5000, 5300), [5000, 5100, 5200, 5300]),
        ("since", (first, last), list(pd.date_range(first, last))),
    ]:
        found = density.probability({column: ends})
        assert found == pytest.approx(density.probability({column: listed}), rel=1e-9)
        assert found == pytest.approx(sum(density.probability({column: value}) for value in listed), rel=1e-9)
        share = drawn[column].between(*ends).mean()
        assert found == pytest.approx(share, abs=4.5 * np.sqrt(0.25 / len(drawn)))
        apart = [listed[0], listed[-1]]
        assert density.probability({column: np.array(apart, object)}) == pytest.approx(density.probability({column: apart}))
        some = density.sample(2000, given={column: apart}, random_state=0)[column]
        assert set(some) == set(apart)
        share = density.probability({column: listed[0]}) / density.probability({column: apart})
        assert (some == listed[0]).mean() == pytest.approx(share, abs=0.06)
    assert density.probability({"half": (10, 12)}, given={"price": [5000, 8000]}) == pytest.approx(
        sum(
            density.probability({"half": (10, 12), "price": price}) for price in (5000, 8000)
        ) / density.probability({"price": [5000, 8000]}), rel=1e-9,
    )  # fmt: skip


def test_a_range_without_ends_says_nothing():
    rng = np.random.default_rng(0)
    covariance = [[1, 0.9, 0.8], [0.9, 1, 0.85], [0.8, 0.85, 1]]
    frame = pd.DataFrame(rng.multivariate_normal([0, 0, 0], covariance, 300), columns=list("abc"))
    density = fp.CircuitDensity(effort=1, random_state=0, verbose=False).fit(frame)
    assert density.probability({"a": (None, None)}) == pytest.approx(1.0, abs=1e-9)
    assert density.probability({"a": (-np.inf, np.inf), "b": (0, 1)}) == pytest.approx(
        density.probability({"b": (0, 1)}), rel=1e-6
    )
    given = density.probability({"b": (0, None)}, given={"a": (None, None)})
    assert given == pytest.approx(density.probability({"b": (0, None)}), rel=1e-6)


def test_a_value_that_has_a_density_has_no_probability(density):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "paid": np.where(rng.random(200) < 0.4, 0.0, rng.lognormal(size=200))})
    options = {"structure": "mixture", "n_latents": 2, "average": False, "effort": 0.3, "verbose": False}
    found = fp.CircuitDensity(**options).fit(frame)
    for values in (0.5, [0.5], [0.1, 0.5]):
        with pytest.raises(OptionError, match=r"'x' is continuous: .* Ask for a range \(low, high\)"):
            found.probability({"x": values})
    assert found.probability({"paid": 0.0}) == pytest.approx((frame["paid"] == 0).mean(), abs=0.05)
    with pytest.raises(OptionError, match="'paid' is continuous"):
        found.probability({"paid": [0.0, 1.234567]})
    assert 0 < found.probability({"paid": (0, 1)}, given={"x": 0.5}) < 1  # a density is no matter in what is given


def test_the_column_that_is_asked_for_may_be_missing(density):
    rows = table(6, seed=2)
    without = rows.drop(columns="city")
    np.testing.assert_array_equal(density.predict(without, "city"), density.predict(rows, "city"))
    np.testing.assert_array_equal(density.predict_proba(without, "city"), density.predict_proba(rows, "city"))
    np.testing.assert_array_equal(density.quantile(rows.drop(columns="age"), "age"), density.quantile(rows, "age"))
    asked = {"city": "Ulm", "age": (20, 40)}
    np.testing.assert_array_equal(
        density.probability(asked, given=rows[["visits", "debt"]]), density.probability(asked, given=rows)
    )
    with pytest.raises(ShapeError, match="missing"):
        density.predict(rows.drop(columns=["city", "age"]), "city")


def test_columns_may_be_called_by_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({1: rng.poisson(3, 200), 0: rng.choice(list("ab"), 200)})
    found = fp.CircuitDensity(structure="factorized", effort=0.2, verbose=False).fit(frame)
    assert found.probability({1: (0, None)}) == pytest.approx(1.0)
    assert set(found.predict(frame[:5], 0)) <= {"a", "b"}


def test_predictions_are_those_of_the_joint(density):
    rows = table(6, seed=2)
    assert density.predict(rows, "city").tolist() == [
        density.categories("city")[k] for k in density.predict_proba(rows, "city").argmax(axis=1)
    ]
    gaps = rows.assign(age=np.nan)
    np.testing.assert_allclose(density.predict(rows, "age"), density.impute(gaps)["age"], rtol=1e-12)
    grid = np.linspace(-40, 140, 4001)
    log = density.column_log_density(pd.concat([rows[:1]] * len(grid)).assign(age=grid), "age")
    assert integrate.trapezoid(np.exp(log), grid) == pytest.approx(1.0, abs=1e-6)
    assert integrate.trapezoid(grid * np.exp(log), grid) == pytest.approx(density.predict(rows[:1], "age")[0], abs=1e-4)


def test_quantiles_hold_their_share(density, drawn):
    gone = pd.DataFrame({"age": [np.nan], "city": [None], "debt": [np.nan], "visits": [None]})
    low, middle, high = density.quantile(gone, "age", q=[0.1, 0.5, 0.9])[0]
    for q, value in ((0.1, low), (0.5, middle), (0.9, high)):
        assert abs(np.quantile(drawn["age"], q) - value) <= 1.5  # ages are whole
    half, error = density.quantile(gone, "visits", q=0.5)[0], 4.5 * np.sqrt(0.25 / len(drawn))
    assert (drawn["visits"] < half).mean() - error <= 0.5 <= (drawn["visits"] <= half).mean() + error


def test_samples_keep_types_bounds_and_resolution(density):
    found = density.sample(2000, random_state=0)
    assert (found["debt"] >= 0).all()
    np.testing.assert_allclose(found["debt"], found["debt"].round(2), atol=1e-9)
    assert (found["age"] == found["age"].round()).all()
    assert found["visits"].dtype == table()["visits"].dtype
    assert set(found["city"]) <= {"Ulm", "Bonn"}
    given = density.sample(200, given={"age": (25, 40), "city": "Bonn"}, random_state=0)
    assert given["age"].between(25, 40).all()
    assert set(given["city"]) == {"Bonn"}
    holes = table(3).assign(debt=np.nan)
    filled = density.sample(4, given=holes, random_state=0)
    assert len(filled) == 12
    assert (density.impute(holes, how="draw", random_state=0)["debt"] >= 0).all()


def test_columns_are_matched_by_name(density):
    rows = table(20, seed=5)
    turned = rows[["visits", "debt", "city", "age"]]
    np.testing.assert_array_equal(density.score_samples(turned), density.score_samples(rows))
    filled = density.impute(turned.assign(city=None))
    assert filled.columns.tolist() == turned.columns.tolist()
    assert filled["city"].tolist() == density.impute(rows.assign(city=None))["city"].tolist()


def test_the_cause_of_an_odd_row_is_named(density):
    odd = table(4, seed=6)
    odd.loc[0, "age"] = 150.0
    odd.loc[1, "city"] = "Atlantis"
    odd.loc[2, "visits"] = 90
    score, causes = density.anomaly_score(odd, explain=True)
    np.testing.assert_array_equal(score, density.anomaly_score(odd))
    assert causes[:3].argmax(axis=1).tolist() == [0, 1, 3]
    assert (causes >= 0).all()


@pytest.mark.parametrize(("ask", "match"), [
    (lambda d: d.probability({"age": (40, 25)}), "low first"),
    (lambda d: d.probability({"age": (10**400, None)}), "give a number"),
    (lambda d: d.probability({"city": "Rom"}), "'Bonn', 'Ulm'"),
    (lambda d: d.probability({"age": "old"}), "give a number"),
    (lambda d: d.probability({}), "give a dict"),
    (lambda d: d.probability({"age": []}), "'age'; list one value at least"),
    (lambda d: d.probability({"city": ()}), "'city'; list one value at least"),
    (lambda d: d.probability({"shoe": 1}), "no column 'shoe'"),
    (lambda d: d.probability({"age": 30}, given={"age": (20, 40)}), "in event and in given"),
    (lambda d: d.quantile(table(2), "city"), "predict_proba"),
    (lambda d: d.quantile(table(2), "age", q=1.5), "q=1.5"),
    (lambda d: d.predict_proba(table(2), "age"), "has no categories"),
])  # fmt: skip
def test_mistakes_are_named(density, ask, match):
    with pytest.raises(OptionError, match=match):
        ask(density)
