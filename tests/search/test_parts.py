"""The parts of the search: units, starting points, floors, judges, plans."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import DataError, OptionError
from flatpc.families import Log
from flatpc.search.clusters import start_at_clusters
from flatpc.search.column_maps import fronts
from flatpc.search.floors import rounding_variances, varying, with_first_floor, with_floor
from flatpc.search.judging import Split, splits
from flatpc.search.plans import FLOORS, Plan, Wishes, check_wishes, counted_plans, mixture_plans, trained_plans
from flatpc.search.samples import Sample
from flatpc.search.scaling import Scaling, in_users_units
from flatpc.search.work import of_tree, read_effort


def chain(n, seed=0):
    return (np.cumsum(np.random.default_rng(seed).random((n, 5)) < 0.1, axis=1) % 2).astype(float)


# ---- units -----------------------------------------------------------------------------------------------------------


def test_a_circuit_in_other_units_has_the_density_of_the_change_of_variables():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(50, 20, 40), rng.integers(0, 2, 40), rng.normal(-3, 0.01, 40)])
    rows[::5, 0] = np.nan
    scaling = Scaling.learn(rows, [fp.Gaussian(), fp.Bernoulli(), fp.Gaussian()])
    scaled = scaling.apply(rows)
    np.testing.assert_allclose(np.nanmean(scaled[:, [0, 2]], axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(scaled[:, [0, 2]], axis=0), 1, atol=1e-12)
    np.testing.assert_array_equal(scaled[:, 1], rows[:, 1])
    circuit = fp.structures.hclt(scaled, n_latents=3, family=["gaussian", "bernoulli", "gaussian"])
    ours = in_users_units(circuit, scaling)
    expected = circuit.log_prob(scaled, missing="marginalize") - scaling.log_volume(rows)
    np.testing.assert_allclose(ours.log_prob(rows, missing="marginalize"), expected, atol=1e-9)


def test_a_circuit_of_mapped_columns_is_one_of_the_table():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.lognormal(1, 1, 400), rng.integers(0, 2, 400), rng.normal(size=400), rng.gamma(2, 3, 400) - 5])
    families = [fp.Gaussian(), fp.Bernoulli(), fp.Gaussian(), fp.Gaussian()]
    (plain, mapped), _ = fronts(Sample(rows), [Split(Sample(rows[:300]), Sample(rows[300:]))], families, families, 0)
    assert plain.scaling.transforms == {}
    assert [type(t).__name__ for t in mapped.scaling.transforms.values()] == ["Log", "YeoJohnson"]
    assert list(mapped.scaling.transforms) == [0, 3]
    circuit = fp.structures.hclt(mapped.rows.X, n_latents=3, family=list(mapped.families))
    ours = in_users_units(circuit, mapped.scaling)
    expected = circuit.log_prob(mapped.splits[0].valid.X) - mapped.volumes[0]
    np.testing.assert_allclose(ours.log_prob(rows[300:]), expected, atol=1e-9)
    assert ours.sample(500, seed=0)[:, 0].min() > 0


def test_columns_that_never_change_keep_their_unit_or_have_the_size_of_their_value():
    rows = np.array([[0.1 + 0.2, 5.0, 0.0, -0.002, 1e-140], [0.3, 5.0, 0.0, -0.002, 1e-140]])
    scaling = Scaling.learn(rows, [fp.Gaussian()] * 5)
    # 0.1 + 0.2 differs from 0.3 by rounding only
    np.testing.assert_allclose(scaling.scale, [0.3, 1, 1, 0.002, 1], rtol=1e-12)
    np.testing.assert_allclose(scaling.log_volume(rows), np.log(0.3) + np.log(0.002), rtol=1e-12)


@pytest.mark.parametrize("value", [0.001, -1e-6, 1e-100])
def test_a_column_that_never_changes_has_its_value_alone_and_a_density_in_proportion(value):
    X = np.column_stack([np.full(100, value), np.random.default_rng(0).normal(size=100)])
    density = fp.CircuitDensity(effort=0.1, verbose=False).fit(X)
    assert (density.sample(200)[:, 0] == value).all()
    assert (density.quantile(np.full((1, 2), np.nan), 0, q=[0.05, 0.95]) == value).all()
    alone = density.circuit_.log_prob([[value, np.nan]], missing="marginalize")[0]
    assert alone == pytest.approx(-np.log(0.1 * abs(value) * np.sqrt(2 * np.pi)), abs=0.5)


def test_numbers_whose_squares_overflow_are_refused():
    with pytest.raises(DataError, match="'mass' has numbers around 3e\\+200"):
        Scaling.learn(np.array([[1e200], [3e200]]), [fp.Gaussian()], ["mass"])


# ---- starting points -------------------------------------------------------------------------------------------------


def test_units_start_at_clusters_whatever_the_scale():
    """Two kinds of rows with rates 3 and 2000, means -5 and 5: one unit starts near each, in all columns together."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 300)
    rows = np.column_stack([rng.poisson(np.where(kind, 2000, 3)), rng.normal(np.where(kind, 5, -5)), kind]).astype(float)
    families = [fp.Poisson(), fp.Gaussian(), fp.Bernoulli()]
    mixture = fp.structures.rat_spn(3, depth=0, n_repetitions=1, n_inputs=2, family=families)
    started = start_at_clusters(mixture, rows, seed=0, pseudocount=1.0)
    by_variable = {node.variable: started.parameters[i] for i, node in enumerate(started.nodes) if isinstance(node, fp.Input)}
    low, high = np.argsort(by_variable[0]["rate"])
    assert by_variable[0]["rate"][low] < 300  # a twentieth of the other rows' weight
    assert by_variable[0]["rate"][high] > 1800
    assert by_variable[1]["mean"][low] < -4 < 4 < by_variable[1]["mean"][high]
    assert by_variable[2]["p"][low] < 0.1 < 0.9 < by_variable[2]["p"][high]


def test_more_units_than_different_rows_and_gaps():
    rows = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 1.0], [1.0, 0.0]])
    circuit = fp.structures.hclt(rows, n_latents=6)
    started = start_at_clusters(circuit, rows, seed=0, pseudocount=0.3)
    assert np.isfinite(started.log_prob(rows, missing="marginalize")).all()
    # Units that share a cluster are told apart.
    known = chain(20)
    started = start_at_clusters(fp.structures.hclt(known, n_latents=12), known, seed=0, pseudocount=0.3)
    units = np.stack([started.parameters[i]["p"] for i, node in enumerate(started.nodes) if isinstance(node, fp.Input)], axis=1)
    assert len(np.unique(units.round(12), axis=0)) == 12 > len(np.unique(known, axis=0))


# ---- judges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "sizes"), [(9, []), (50, [10] * 10), (100, [20] * 5), (2000, [400] * 5), (2001, [400])])
def test_rows_judge_in_turn_and_every_row_once_in_each_turn(n, sizes):
    rows = np.arange(2.0 * n).reshape(n, 2)
    found = splits(Sample(rows), None, "auto", 0)
    assert [len(split.valid) for split in found] == sizes
    for split in found:
        # Together they are all rows.
        assert sorted([*split.train.X[:, 0], *split.valid.X[:, 0]]) == rows[:, 0].tolist()
    if n == 50:
        for turn in (found[:5], found[5:]):
            assert sorted(np.concatenate([split.valid.X[:, 0] for split in turn])) == rows[:, 0].tolist()
    if len(sizes) == 5:
        assert sorted(np.concatenate([split.valid.X[:, 0] for split in found])) == rows[:, 0].tolist()


def test_many_rows_have_5000_judges_at_most():
    assert [len(split.valid) for split in splits(Sample(np.zeros((60_000, 1))), None, "holdout", 0)] == [5000]


def test_a_group_is_on_one_side():
    groups = np.repeat(np.arange(20), 10)
    rows = np.stack([groups.astype(float), np.arange(200.0)], axis=1)
    for judge, times in (("cv", 5), ("holdout", 1)):
        found = splits(Sample.of(rows, None, groups), None, judge, 0)
        assert len(found) == times
        for split in found:
            assert not set(split.train.X[:, 0]) & set(split.valid.X[:, 0])


def test_a_column_that_only_judges_know_is_not_learnt_without():
    rows = np.random.default_rng(0).random((50, 2))
    rows[1:, 1] = np.nan
    assert len(splits(Sample(rows), None, "cv", 0)) == 10 - 2  # the two folds that hold row 0 are left out


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"judge": "oracle"}, OptionError, "judge='oracle'"),
        ({"judge": "valid"}, OptionError, "pass valid="),
        ({"judge": "cv", "valid": Sample(np.zeros((3, 1)))}, OptionError, "leave one out"),
    ],
)
def test_wrong_judges(options, error, match):
    with pytest.raises(error, match=match):
        splits(Sample(np.zeros((30, 1))), **{"valid": None, "judge": "auto", "seed": 0, **options})


def test_wrong_groups():
    with pytest.raises(DataError, match="one label for each of the 30 rows"):
        Sample.of(np.zeros((30, 1)), None, [1, 2])


# ---- floors ----------------------------------------------------------------------------------------------------------


def test_floors_are_in_units_of_the_columns_and_constant_columns_keep_theirs():
    rows = np.array([[0.0, 3.0, 1.0], [2.0, 3.0, 0.0], [1.0, np.nan, 1.0]])
    assert varying(rows) == [True, False, True]
    families = with_first_floor(
        [fp.Gaussian(), fp.Gaussian(), fp.Bernoulli(), fp.Gaussian(0.5)], Scaling(np.zeros(4), np.array([1, 1, 1, 2.0]))
    )
    assert families == [fp.Gaussian(FLOORS[0]), fp.Gaussian(FLOORS[0]), fp.Bernoulli(), fp.Gaussian(0.125)]
    circuit = fp.structures.factorized(np.nan_to_num(rows), family=[fp.Gaussian(0.01), fp.Gaussian(0.01), fp.Bernoulli()])
    lower = with_floor(circuit, 1e-3, [True, False, True])
    assert [node.family for node in lower.nodes[:3]] == [fp.Gaussian(1e-3), fp.Gaussian(0.01), fp.Bernoulli()]
    np.testing.assert_array_equal(lower.log_prob(np.ones((1, 3))), circuit.log_prob(np.ones((1, 3))))


def test_the_lowest_floors_are_of_several_columns_and_not_below_their_rounding():
    block = fp.Input(variables=(0, 2), family=fp.MultivariateGaussian(2, FLOORS[0]))
    circuit = fp.Circuit([block, fp.Input(1, fp.Gaussian(FLOORS[0])), fp.Product((0, 1))])
    rounding = (4e-5, 0.0, 0.0)
    low = with_floor(circuit, 1e-6, [True] * 3, rounding)
    assert [node.family.min_variance for node in low.nodes[:2]] == [(4e-5, 1e-6), FLOORS[-1]]
    assert with_floor(low, 1e-7, [True] * 3, rounding).nodes[0].family.min_variance == (4e-5, 1e-7)
    assert with_floor(low, 1e-3, [True] * 3, rounding).nodes[0].family.min_variance == 1e-3


def test_variances_of_rounding():
    """Of 100,000 numbers: the variance of what rounding takes from each, in the units of learning."""
    exact = np.exp(np.random.default_rng(0).normal(5.0, 0.01, (100_000, 4)))
    rows = np.column_stack([np.round(exact[:, :2] * 2) / 2, exact[:, 2], np.round(exact[:, 3])])
    scaling = Scaling(np.zeros(4), np.array([10.0, 0.1, 1.0, 1.0]), {1: Log()})
    found = rounding_variances(rows, [fp.Gaussian()] * 3 + [fp.Poisson()], scaling)
    assert found[0] == pytest.approx(np.var(rows[:, 0] - exact[:, 0]) / 100, rel=0.02)
    assert found[1] == pytest.approx(np.var(np.log(rows[:, 1]) - np.log(exact[:, 1])) / 0.01, rel=0.02)
    assert found[2:] == (0.0, 0.0)


# ---- plans -----------------------------------------------------------------------------------------------------------


def names(plans):
    return [plan.structure for plan in plans]


def test_plans_suit_columns_and_rows():
    bits, mixed, numbers = [fp.Bernoulli()] * 3, [fp.Bernoulli(), fp.Gaussian()], [fp.Gaussian()] * 2
    rows = {n: Sample(np.zeros((n, 3))) for n in (30, 100, 5000)}
    assert set(names(counted_plans(bits, Wishes(), 30))) == {"factorized", "chow_liu"}
    levels = [*bits, fp.Categorical(3)]
    assert set(names(counted_plans(levels, Wishes(), 30))) == {"factorized", "chow_liu", "binned_tree"}
    assert set(names(counted_plans(levels, Wishes(), 30, bins=False))) == {"factorized", "chow_liu"}
    assert set(names(counted_plans(mixed, Wishes(), 30))) == {"factorized", "kernels"}
    assert set(names(counted_plans(mixed, Wishes(), 5000))) == {"factorized"}
    assert set(names(counted_plans([*mixed, fp.Poisson()], Wishes(), 5000))) == {"factorized", "binned_tree"}
    assert set(names(counted_plans([fp.Poisson()], Wishes(), 5000))) == {"factorized"}
    by_both = [plan for plan in counted_plans(numbers, Wishes(), 30, 100) if plan.options.get("by") == "all"]
    assert {plan.structure for plan in by_both} == {"factorized", "kernels"}
    assert not any("by" in plan.options for plan in counted_plans(numbers, Wishes(), 30, 30))
    assert len(mixture_plans(bits, rows[30], Wishes())) == 1
    assert len(mixture_plans(bits, rows[5000], Wishes())) == 4
    assert mixture_plans(mixed, rows[5000], Wishes()) == []
    assert set(names(trained_plans(bits, rows[100], Wishes(), True))) == {"hclt"}
    assert any(plan.regularizer for plan in trained_plans(bits, rows[100], Wishes(), True))
    assert not any(plan.regularizer for plan in trained_plans(bits, rows[100], Wishes(), False))
    assert set(names(trained_plans(mixed, rows[100], Wishes(), True))) == {"mixture", "hclt"}
    assert set(names(trained_plans(numbers, rows[100], Wishes(), True))) == {"mixture", "hclt", "rat_spn"}
    assert set(names(trained_plans([fp.Gaussian()], rows[100], Wishes(), True))) == {"mixture"}
    assert trained_plans([fp.Bernoulli()], rows[100], Wishes(), True) == []


def test_wishes_leave_plans_out():
    bits, rows = [fp.Bernoulli()] * 3, Sample(np.zeros((200, 3)))
    for structure in ("factorized", "kernels", "binned_tree", "chow_liu", "tree_mixture", "hclt", "mixture", "rat_spn"):
        wishes = Wishes(structure, 5)
        plans = [*counted_plans(bits, wishes, 200), *mixture_plans(bits, rows, wishes), *trained_plans(bits, rows, wishes, True)]
        assert set(names(plans)) == {structure}
        assert all(plan.n_latents == 5 for plan in plans if plan.trained)
    for wishes in (Wishes("forest"), Wishes("chow_liu")):
        with pytest.raises(OptionError, match=f"structure='{wishes.structure}'"):
            check_wishes(wishes, [fp.Gaussian()] * 2)


@pytest.mark.parametrize(("n", "sizes"), [(5, [2]), (60, [8]), (100, [8, 25]), (200, [8, 50]), (800, [8, 128]), (9999, [128])])
def test_sizes_suit_the_rows(n, sizes):
    """Never more than a quarter of them, and each at least twice the one before."""
    plans = trained_plans([fp.Gaussian()] * 2, Sample(np.zeros((n, 2))), Wishes("mixture"), True)
    assert [plan.n_latents for plan in plans] == sizes


def test_work_is_a_number_that_no_clock_knows():
    assert read_effort(7) == 7.0
    for wrong in ("long", -1, True, None, float("nan"), float("inf"), [5]):
        with pytest.raises(OptionError, match="effort="):
            read_effort(wrong)
    assert of_tree(100, 20) < of_tree(200, 20) < of_tree(200, 40)
    tree, mixture = Plan("hclt", {"n_latents": 4}, trained=True), Plan("tree_mixture", {"n_trees": 5, "smoothing": 1.0})
    binary = [fp.Bernoulli()] * 20
    assert mixture.work(100, binary) > 5 * tree.work(100, binary)
    assert mixture.work(100, [fp.Categorical(50)] * 20) > 2 * mixture.work(100, binary)


def test_few_rows_beside_many_validation_rows_have_the_spread_of_both():
    """Ten rows tell neither where a column lies nor how wide it is; a thousand do."""
    rng = np.random.default_rng(0)
    X, valid, test = (rng.uniform(-1, 1, size=(n, 3)) for n in (10, 1000, 1000))
    found = fp.choose(X, valid=valid, family="gaussian", effort=1, progress=False)
    alone = fp.structures.factorized(X, family="gaussian").log_prob(test).mean()
    both = fp.structures.factorized(np.concatenate([X, valid]), family="gaussian").log_prob(test).mean()
    assert found.circuit.log_prob(test).mean() > both - 0.02 > alone
    assert any("spread by validation rows too" in outcome.name for outcome in found.chosen)
