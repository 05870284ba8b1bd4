"""`sample_weight` of `choose` and of the estimator: weights count rows, whole numbers are repeated rows, 0 is none."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import flatpc as fp
from flatpc._row_weights import deviation, mean, median, quantiles, rows_by_weight
from flatpc.errors import OptionError
from flatpc.families.transforms import fit_power
from flatpc.search.averaging import average_nll, cross_fitted_nll, mixture_weights
from flatpc.search.column_maps import choose_transform
from flatpc.search.counted import Counted
from flatpc.search.judging import splits
from flatpc.search.leave_one_out import SMOOTHINGS, of_column, of_weighted_column, of_weighted_edge, smoothing_of_columns
from flatpc.search.plans import Plan, Wishes, trained_plans
from flatpc.search.samples import Sample, judges_of
from flatpc.search.scaling import Scaling
from flatpc.search.suiting import choose_family
from flatpc.structures.trees.mutual_information import PairCounts
from flatpc.structures.trees.spanning import root_at
from flatpc.structures.trees.tree_models import tree_tables

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
VALID = (RNG.random((40, 5)) < RNG.choice([0.2, 0.8], (40, 1))).astype(float)
TIMES = RNG.integers(0, 4, 60)
REPEATED = np.repeat(X, TIMES, axis=0)
COPIES = np.repeat(np.arange(60), TIMES)
QUICK = {"effort": 0.3, "progress": False, "n_threads": 1}
FRACTIONS = RNG.exponential(size=60)


def doors(data, **options):
    """The choice and the estimator with the same options."""
    weights = {name: options.pop(name) for name in ("sample_weight", "valid_weight", "valid", "groups") if name in options}
    return [
        lambda: fp.choose(data, **weights, **QUICK, **options).circuit,
        lambda: fp.CircuitDensity(effort=0.3, verbose=False, **options).fit(data, **weights).circuit_,
    ]


# ---- whole numbers are repeated rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["factorized", "chow_liu"])
@pytest.mark.parametrize("judged", ["valid", "folds", "holdout"])
def test_whole_numbers_are_repeated_rows(structure, judged):
    """What is counted is the same circuit; without validation rows, if copies of a row are one group."""
    options = {"valid": {"valid": VALID}, "folds": {}, "holdout": {"judge": "holdout"}}[judged]
    weighted = fp.choose(X, sample_weight=TIMES, structure=structure, **options, **QUICK)
    repeated = fp.choose(REPEATED, groups=COPIES, structure=structure, **options, **QUICK)
    assert [c.name for c in weighted.candidates] == [c.name for c in repeated.candidates]
    for one, other in zip(weighted.candidates, repeated.candidates, strict=True):
        assert one.valid_nll == pytest.approx(other.valid_nll, rel=1e-10)
        assert one.weight == pytest.approx(other.weight, rel=1e-9)
    assert weighted.valid_nll == pytest.approx(repeated.valid_nll, rel=1e-10)
    np.testing.assert_allclose(weighted.circuit.log_prob(X), repeated.circuit.log_prob(X), rtol=1e-9)
    plain = fp.choose(X, structure=structure, **options, **QUICK)
    assert abs(plain.circuit.log_prob(X) - weighted.circuit.log_prob(X)).max() > 1e-3


def test_groups_go_with_weights():
    groups = np.arange(60) // 3
    weighted = fp.choose(X, sample_weight=TIMES, groups=groups, structure="chow_liu", **QUICK)
    repeated = fp.choose(REPEATED, groups=np.repeat(groups, TIMES), structure="chow_liu", **QUICK)
    np.testing.assert_allclose(weighted.circuit.log_prob(X), repeated.circuit.log_prob(X), rtol=1e-9)


def test_what_is_trained_is_about_as_good_as_with_repeated_rows():
    """Batches hold other rows, so that circuits differ; both find the two kinds of rows, which counted models can't."""
    weighted, repeated = fp.choose(X, sample_weight=TIMES, **QUICK), fp.choose(REPEATED, groups=COPIES, **QUICK)
    assert {c.structure for c in weighted.candidates} == {c.structure for c in repeated.candidates}
    assert weighted.valid_nll == pytest.approx(repeated.valid_nll, abs=0.1)
    new = (np.random.default_rng(1).random((4000, 5)) < np.random.default_rng(2).choice([0.2, 0.8], (4000, 1))).astype(float)
    assert weighted.circuit.log_prob(new).mean() == pytest.approx(repeated.circuit.log_prob(new).mean(), abs=0.1)


@pytest.mark.parametrize("judged", [{}, {"valid": VALID}])
def test_ones_are_no_weights(judged):
    for one, other in zip(doors(X, sample_weight=np.ones(60), **judged), doors(X, **judged), strict=True):
        np.testing.assert_array_equal(one().log_prob(X), other().log_prob(X))


def test_rows_of_weight_0_are_not_there():
    """Whatever they hold: values that no other row has, or none."""
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "yes", "no"), "c": RNG.normal(size=60)})
    strange = pd.DataFrame({"a": [7.5, 2.0], "b": ["perhaps", None], "c": [np.nan, 1e9]})
    options = {"effort": 0.3, "verbose": False}
    with_them = fp.CircuitDensity(**options).fit(pd.concat([strange, frame]), sample_weight=[0, 0, *np.ones(60)])
    without = fp.CircuitDensity(**options).fit(frame)
    assert with_them.kinds_ == without.kinds_
    assert with_them.categories("b") == ["no", "yes"]
    np.testing.assert_array_equal(with_them.score_samples(frame), without.score_samples(frame))
    weights = np.where(np.arange(60) < 20, 0.0, FRACTIONS)
    for one, other in zip(doors(X, sample_weight=weights), doors(X[20:], sample_weight=weights[20:]), strict=True):
        np.testing.assert_array_equal(one().log_prob(X), other().log_prob(X))
    codes = np.array([[9.0], *[[v] for v in [0.0, 1.0, 2.0] * 5]])
    circuit = fp.choose(codes, family="categorical", sample_weight=[0.0, *np.ones(15)], structure="factorized", **QUICK).circuit
    assert circuit.nodes[0].family == fp.Categorical(3)


def test_the_estimator_counts_rows_as_choose_does():
    options = {"structure": "chow_liu", "effort": 0.3, "verbose": False}
    weighted = fp.CircuitDensity(**options).fit(X, sample_weight=TIMES, valid=VALID)
    repeated = fp.CircuitDensity(**options).fit(REPEATED, valid=VALID)
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-10)
    assert weighted.curvature_ == repeated.curvature_
    with pytest.warns(UserWarning, match="are guesses"):
        answers = [each.score_samples(X, return_std=True) for each in (weighted, repeated)]
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert weighted.columns_.columns[0].rare == repeated.columns_.columns[0].rare


# ---- fractions ------------------------------------------------------------------------------------------------------------


def test_a_weighted_counted_model_against_the_closed_form():
    for smoothing in (0.1, 1.0, 5.0):
        circuit = Counted(Sample(X, FRACTIONS), X[:0], [fp.Bernoulli()] * 5, 0).fit(Plan("factorized", {"smoothing": smoothing}))[
            1
        ]()
        expected = (FRACTIONS @ X + smoothing / 2) / (FRACTIONS.sum() + smoothing)
        np.testing.assert_allclose([circuit.parameters[v]["p"][0] for v in range(5)], expected, rtol=1e-12)


@pytest.mark.parametrize("structure", ["factorized", "chow_liu"])
def test_quarters_against_rows_repeated_four_times_with_four_times_the_smoothing(structure):
    quarters = np.maximum(TIMES, 1) / 4
    prior = {"prior": "even"} if structure == "chow_liu" else {}
    fits = []
    for rows, smoothing in ((Sample(X, quarters), 0.5), (Sample(np.repeat(X, np.maximum(TIMES, 1), axis=0)), 2.0)):
        plan = Plan(structure, {"smoothing": smoothing, **prior})
        fits.append(Counted(rows, VALID, [fp.Bernoulli()] * 5, 0).fit(plan)[0])
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-10)


def test_importance_weights_recover_the_target():
    """Rows of a wide normal distribution, weighted into a narrow one: that is learnt, not the one that was drawn from."""
    rng = np.random.default_rng(3)
    draws = rng.normal(0.0, 2.0, (3000, 1))
    weights = np.exp(norm(1.0, 0.5).logpdf(draws[:, 0]) - norm(0.0, 2.0).logpdf(draws[:, 0]))
    target = norm(1.0, 0.5)
    new = target.rvs((4000, 1), random_state=rng)
    for fit in (
        lambda w: fp.choose(draws, family="gaussian", sample_weight=w, effort=0.5, progress=False).circuit.log_prob(new),
        lambda w: fp.CircuitDensity(effort=0.5, verbose=False).fit(draws, sample_weight=w).score_samples(new),
    ):
        # Kullback-Leibler divergences, in nats.
        assert target.logpdf(new[:, 0]).mean() - fit(weights).mean() < 0.03
        assert target.logpdf(new[:, 0]).mean() - fit(None).mean() > 0.5


def test_importance_weights_between_tables_of_bits():
    """One kind of rows four times as likely as it was drawn: weighted rows are as good as rows of the target."""
    rng = np.random.default_rng(4)

    def rows(share, n):
        kind = rng.random(n) < share
        return (rng.random((n, 6)) < np.where(kind, 0.85, 0.15)[:, None]).astype(float)

    def log_density(x, share):
        k = x.sum(axis=1)
        return logsumexp(
            np.stack([
                np.log(share) + k * np.log(0.85) + (6 - k) * np.log(0.15),
                np.log1p(-share) + k * np.log(0.15) + (6 - k) * np.log(0.85),
            ]), axis=0,
        )  # fmt: skip

    drawn, new = rows(0.2, 800), rows(0.8, 4000)
    weights = np.exp(log_density(drawn, 0.8) - log_density(drawn, 0.2))
    learnt = fp.choose(drawn, sample_weight=weights, effort=1.0, progress=False).circuit.log_prob(new).mean()
    plain = fp.choose(drawn, effort=1.0, progress=False).circuit.log_prob(new).mean()
    best = log_density(new, 0.8).mean()
    assert best - 0.06 < learnt
    assert plain < best - 0.3


# ---- judges ---------------------------------------------------------------------------------------------------------------


def test_the_weight_of_judges_is_that_of_their_mean():
    weights = RNG.exponential(size=40)
    found = fp.choose(X, valid=VALID, valid_weight=weights, structure="factorized", average=False, **QUICK)
    assert found.valid_nll == pytest.approx(-np.average(found.circuit.log_prob(VALID), weights=weights), rel=1e-10)
    kinds = [candidate.valid_nll for candidate in found.candidates]
    assert kinds == sorted(kinds)
    # Trained models are judged so too, epoch by epoch.
    circuit = fp.structures.hclt(X, 3, family="bernoulli")
    options = {"epochs": 3, "batch_size": None, "dtype": "float64", "progress": False}
    result = fp.fit(circuit, X, valid=VALID, valid_weight=weights, **options)
    last = -np.average(result.circuit.log_prob(VALID), weights=weights)
    assert result.history[-1]["valid_nll"] == pytest.approx(last, rel=1e-12)
    times = RNG.integers(0, 3, 40)
    whole = fp.fit(circuit, X, valid=VALID, valid_weight=times, **options).history["valid_nll"]
    np.testing.assert_allclose(whole, fp.fit(circuit, X, valid=np.repeat(VALID, times, axis=0), **options).history["valid_nll"])
    chosen = fp.search.select(circuit, X, valid=VALID, valid_weight=weights, grid=(0.0,), n_jobs=1, **options)
    assert chosen.best.valid_nll == pytest.approx(last, rel=1e-10)


def test_averages_of_weighted_judges_are_those_of_repeated_ones():
    log_prob, times = RNG.normal(-5, 2, (60, 3)), TIMES[TIMES > 0]
    log_prob = log_prob[TIMES > 0]
    weighted = Sample(log_prob, times.astype(float))
    repeated = Sample.of(np.repeat(log_prob, times, axis=0), None, np.repeat(np.arange(len(times)), times))
    w = mixture_weights(log_prob, weighted)
    np.testing.assert_allclose(w, mixture_weights(repeated.X), rtol=1e-10)
    assert average_nll(log_prob, w, weighted) == pytest.approx(average_nll(repeated.X, w), rel=1e-12)
    assert cross_fitted_nll(log_prob, weighted) == pytest.approx(cross_fitted_nll(repeated.X, repeated), rel=1e-10)
    both = judges_of([weighted, Sample(np.zeros((2, 3)))])
    assert both.weights.tolist() == [*times, 1, 1]
    assert both.groups is None


def test_folds_are_those_of_rows_whatever_they_weigh():
    for n, folds in ((60.0, 10), (3000.0, 1)):
        found = splits(Sample(X, np.full(60, n / 60)), None, "auto", 0)
        assert len(found) == folds
        assert all(len(split.train) + len(split.valid) == 60 for split in found)
    sizes = {
        weight: [plan.n_latents for plan in trained_plans([fp.Bernoulli()] * 5, Sample(X, np.full(60, weight)), Wishes(), False)]
        for weight in (0.5, 50.0)
    }
    assert max(sizes[0.5]) < max(sizes[50.0])


# ---- parts ----------------------------------------------------------------------------------------------------------------


def left_out(rows, groups, log_prob_of):
    """Σ w log p(row | all rows of other groups), each model counted again."""
    total = 0.0
    for i in range(len(rows)):
        others = groups != groups[i]
        total += rows.weights[i] * log_prob_of(rows.some(others))(rows.X[[i]])[0]
    return total


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("smoothing", [0.1, 3.0])
def test_leave_one_out_in_closed_form_against_counting_again(grouped, smoothing):
    groups = np.arange(30) // 3 if grouped else np.arange(30)
    rows = Sample(X[:30, :2], FRACTIONS[:30], groups if grouped else None)
    families, at = [fp.Bernoulli()] * 2, np.array([smoothing])
    closed = sum(
        of_weighted_column(rows.X[:, v], np.array([FRACTIONS[:30] @ (rows.X[:, v] == k) for k in (0, 1)]), rows, at)[0]
        for v in (0, 1)
    )
    brute = left_out(
        rows,
        groups,
        lambda own: fp.structures.factorized(own.X, family=families, smoothing=smoothing, sample_weight=own.weights).log_prob,
    )
    assert closed == pytest.approx(brute, rel=1e-10)
    counts = PairCounts(rows.X, [2, 2], rows.weights)
    closed = of_weighted_edge(rows.X[:, 0], rows.X[:, 1], counts.joint(0, 1), counts.marginal(1), rows, at)[0]

    def edge(own):
        table = tree_tables(root_at(np.array([[0, 1]]), 0), PairCounts(own.X, [2, 2], own.weights), smoothing, "marginals")[1]
        return lambda x: np.log(table[x[:, 0].astype(int), x[:, 1].astype(int)])

    assert closed == pytest.approx(left_out(rows, groups, edge), rel=1e-10)


def test_smoothing_by_leave_one_out_leaves_out_copies_together():
    weights = TIMES[TIMES > 0].astype(float)
    kinds = [fp.Bernoulli()] * 5
    weighted = smoothing_of_columns(Sample(X[TIMES > 0], weights), kinds)
    assert weighted == smoothing_of_columns(Sample.of(REPEATED, None, COPIES), kinds)
    # With enough rows of each weight the closed forms agree: a weight of 1 is a row.
    ones = of_weighted_column(X[:, 0], np.bincount(X[:, 0].astype(int)).astype(float), Sample(X, np.ones(60)), SMOOTHINGS)
    np.testing.assert_allclose(ones, of_column(np.bincount(X[:, 0].astype(int)).astype(float), SMOOTHINGS), rtol=1e-12)


def test_units_maps_and_families_follow_the_weights():
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=400), np.exp(rng.normal(2, 1, 400))])
    first, second = np.repeat([1.0, 1e-6], 400), np.repeat([1e-6, 1.0], 400)
    families = (fp.Gaussian(), fp.LogNormal(), fp.Gamma())
    positive = np.where(x > 0, x, 0.5)
    assert choose_transform(x, x, 0, first) is None
    assert choose_transform(positive, positive, 0, second) == fp.families.Log()
    assert choose_family(positive, families, 0, second) == fp.LogNormal()
    times = rng.integers(1, 4, 800)
    scaling = Scaling.learn(x[:, None], [fp.Gaussian()], weights=times.astype(float))
    expected = Scaling.learn(np.repeat(x, times)[:, None], [fp.Gaussian()])
    np.testing.assert_allclose([scaling.shift, scaling.scale], [expected.shift, expected.scale], rtol=1e-12)
    one, other = fit_power(x, times.astype(float)), fit_power(np.repeat(x, times))
    assert (one.power, one.shift) == (other.power, other.shift)
    assert one.scale == pytest.approx(other.scale, rel=1e-12)


def test_weighted_numbers_are_those_of_repeated_ones():
    x, times = RNG.normal(size=50), RNG.integers(1, 5, 50)
    w, repeated = times.astype(float), np.repeat(x, times)
    assert mean(x, w) == pytest.approx(repeated.mean(), rel=1e-12)
    assert deviation(x, w) == pytest.approx(repeated.std(), rel=1e-12)
    assert median(x, w) == np.median(repeated)
    shares = np.linspace(0.05, 0.95, 19)
    np.testing.assert_array_equal(quantiles(x, shares, w), np.quantile(repeated, shares, method="higher"))
    # In any unit of weight, a quantile has its share below.
    assert quantiles(np.arange(1000.0), np.array([0.25]), np.full(1000, 1e-3)) == pytest.approx(250, abs=1)
    np.testing.assert_array_equal(rows_by_weight(w, 10**6), np.repeat(np.arange(50), times))
    few = rows_by_weight(np.full(1000, 1e-3), 100)
    assert len(few) == 100
    assert few.max() > 900


def test_families_of_columns_follow_the_weights():
    rng = np.random.default_rng(6)
    skewed, plain = np.exp(rng.normal(size=300)), abs(rng.normal(5, 0.5, 300))
    table = np.concatenate([skewed, plain])[:, None]
    for weights, found in ((np.repeat([1.0, 1e-6], 300), True), (np.repeat([1e-6, 1.0], 300), False)):
        families = fp.tables.Columns.learn(table, sample_weight=weights).columns[0].families
        assert (fp.LogNormal() in families) == found
    kinds = fp.tables.Columns.learn([["a"], ["b"], ["c"]] * 3, sample_weight=[1, 1, 0] * 3)
    assert kinds.columns[0].categories == ("a", "b")


# ---- mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weights", "words"), [
    (np.ones(59), "59 numbers"),
    (np.zeros(60), "all weights are zero"),
    (np.where(np.arange(60) == 7, -1.0, 1.0), "number 7 is -1"),
    (np.where(np.arange(60) == 7, np.nan, 1.0), "number 7 is nan"),
    (np.full(60, np.inf), "number 0 is inf"),
    (np.full(60, 1e-30), "from 1e-12 to 1e.12"),
    ("x0", "sample_weight='x0'"),
    (np.ones((60, 1)), "one number of 0 or more"),
])  # fmt: skip
def test_bad_weights(weights, words):
    for ask in doors(X, sample_weight=weights):
        with pytest.raises(OptionError, match=words):
            ask()


def test_bad_weights_of_validation_rows():
    for options in ({"valid": VALID, "valid_weight": np.ones(3)}, {"valid_weight": np.ones(40)}):
        for ask in (*doors(X, **options), lambda options=options: fp.fit(fp.structures.hclt(X, 2), X, progress=False, **options)):
            with pytest.raises(OptionError, match="valid_weight"):
                ask()


def test_weights_that_add_up_to_next_to_nothing_are_noted():
    with pytest.warns(UserWarning, match="multiply them, to a sum of 60"):
        choice = fp.choose(X, sample_weight=np.full(60, 1 / 60), **QUICK)
    assert "too few rows" in choice.why
