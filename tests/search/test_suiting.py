"""Families of columns, chosen by values held out."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.search import choosing
from flatpc.search.floors import further_families
from flatpc.search.samples import Sample
from flatpc.search.scaling import Scaling, in_users_units
from flatpc.search.suiting import choose_families, choose_family, ordered_families


def test_the_family_that_the_values_come_from():
    rng = np.random.default_rng(0)
    skewed = rng.lognormal(0, 1, 400)
    assert choose_family(skewed, (fp.Gaussian(), fp.LogNormal()), 0) == fp.LogNormal()
    assert choose_family(rng.poisson(4, 400).astype(float), (fp.Poisson(), fp.NegativeBinomial()), 0) == fp.Poisson()
    # Among equals the first.
    assert choose_family(rng.normal(size=400), (fp.Gaussian(), fp.StudentT(), fp.Logistic()), 0) == fp.Gaussian()


def test_one_measure_and_atoms_first():
    rng = np.random.default_rng(1)
    spiked = np.where(rng.random(400) < 0.4, 0.0, rng.lognormal(0, 1, 400))
    atoms = (fp.Gaussian(), fp.Hurdle((0.0,), fp.Gaussian()), fp.Hurdle((0.0,), fp.LogNormal()))
    assert choose_family(spiked, atoms, 0) == fp.Hurdle((0.0,), fp.LogNormal())
    # A probability is no density, however large it is.
    rounded = np.round(100 * rng.normal(size=300)) / 100
    assert choose_family(rounded, (fp.Gaussian(), fp.Discretized(fp.Gaussian(), 0.01)), 0) == fp.Gaussian()
    # Counts of any number, and of a few values with a probability each, are one measure.
    assert choose_family(rng.integers(0, 9, 300).astype(float), (fp.Poisson(), fp.Categorical(9)), 0) == fp.Categorical(9)
    assert choose_family(rng.poisson(3, 300).astype(float), (fp.Poisson(), fp.Categorical(12)), 0) == fp.Poisson()


def test_a_table_with_atoms_is_learnt_in_its_own_units():
    rng = np.random.default_rng(2)
    group = rng.integers(0, 2, 300)
    debt = np.where(rng.random(300) < 0.4, 0.0, 1000 * rng.lognormal(group, 0.5))
    rows = np.column_stack([debt, group, rng.normal(50 * group, 5.0)])
    families = [(fp.Gaussian(), fp.Hurdle((0.0,), fp.LogNormal())), fp.Bernoulli(), fp.Gaussian()]
    found = choosing.search(Sample(rows), families, effort=1.0, n_threads=1)
    drawn = found.circuit.sample(400, seed=0)
    assert (drawn[:, 0] >= 0).all()
    assert abs(np.mean(drawn[:, 0] == 0) - np.mean(debt == 0)) < 0.12
    assert np.isfinite(found.circuit.log_prob(rows)).all()


def test_options_of_families_move_with_the_units():
    rows = np.array([[0.0, 2.0, 1.0], [10.0, 4.0, 3.0], [30.0, 9.0, 2.5]])
    families = [fp.Hurdle((0.0,), fp.Gaussian()), fp.Hurdle((0.0,), fp.LogNormal()), fp.Hurdle((1.0,), fp.Gamma())]
    assert [family.can_rescale for family in families] == [True, True, False]
    scaling = Scaling.learn(rows, families)
    assert scaling.shift[1] == scaling.shift[2] == 0.0
    own = [scaling.own(family, j) for j, family in enumerate(families)]
    assert own[0].atoms[0] == scaling.apply(rows)[0, 0]
    circuit = fp.structures.factorized(scaling.apply(rows), family=own)
    ours = in_users_units(circuit, scaling)
    assert [family.atoms for family in ours.families if isinstance(family, fp.Hurdle)] == [(0.0,), (0.0,), (1.0,)]
    # At an atom there is a probability, which no unit changes; elsewhere a density.
    expected = circuit.log_prob(scaling.apply(rows)) - np.log(scaling.scale[1]) - np.log(scaling.scale[0]) * (rows[:, 0] != 0)
    np.testing.assert_allclose(ours.log_prob(rows), expected, atol=1e-9)
    np.testing.assert_allclose(ours.log_prob(rows), circuit.log_prob(scaling.apply(rows)) - scaling.log_volume(rows), atol=1e-9)


def repeated(seed=0):
    """Values of 30 groups, the 12 of each nearly the same, and their groups; in random order."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(30), 12)[rng.permutation(360)]
    return rng.normal(size=30)[groups] + 0.01 * rng.normal(size=360), rng.poisson(8, 30)[groups].astype(float), groups


def test_what_repeats_within_groups_is_learnt_once():
    """The values of a group tell of each other, so that by rows the most flexible family is the best."""
    number, count, groups = repeated()
    densities, counts = (fp.Gaussian(), fp.Histogram(tuple(np.linspace(-4, 4, 81)))), (fp.Poisson(), fp.Categorical(30))
    for x, families in ((number, densities), (count, counts)):
        assert choose_family(x, families, 0) == families[1]
        assert choose_family(x, families, 0, groups=groups) == families[0]
        assert choose_family(x, families, 0, groups=np.arange(360)) == families[1]
        assert choose_family(x, families, 0, groups=np.zeros(360, np.int64)) == families[0]  # nothing to choose by
    found, _ = choose_families(Sample(np.column_stack([number, count]), None, groups), [densities, counts], 0, np.inf)
    assert found == [fp.Gaussian(), fp.Poisson()]


@pytest.mark.parametrize("seed", range(3))
def test_a_group_for_each_value_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, 300).astype(float)
    skewed, counts = rng.lognormal(0, 1, 300), rng.negative_binomial(1, 0.1, 300).astype(float)
    for x, families in ((skewed, (fp.Gaussian(), fp.LogNormal(), fp.Gamma())), (counts, (fp.Poisson(), fp.NegativeBinomial()))):
        for w in (None, weights):
            assert choose_family(x, families, 0, w, groups=np.arange(300)) == choose_family(x, families, 0, w)


LEVELS = 8


def levels(n, seed, ordered):
    """Three columns near a position that isn't seen, and one of levels: by the position, or in an order of each part's own."""
    rng = np.random.default_rng(seed)
    position = rng.normal(size=n)
    behind = position + 0.4 * rng.normal(size=n)
    level = np.searchsorted(np.quantile(behind, np.arange(1, LEVELS) / LEVELS), behind)
    if not ordered:
        codes = np.stack([rng.permutation(LEVELS) for _ in range(4)])
        level = codes[np.digitize(position, [-1, 0, 1]), np.minimum(rng.poisson(1, n), LEVELS - 1)]
    return np.column_stack([position[:, None] + 0.5 * rng.normal(size=(n, 3)), level])


def ordinal(x):
    return fp.Ordinal.of_shares(np.bincount(x[~np.isnan(x)].astype(int), minlength=LEVELS) + 0.5)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_ordered_categories_are_told_by_the_other_columns(ordered, seed):
    rng = np.random.default_rng(seed)
    rows = levels(240, seed, ordered)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows = np.column_stack([rows, np.full(240, np.nan)])
    table, number = fp.Categorical(LEVELS), fp.Gaussian()
    own = ordinal(rows[:, 3])
    chosen, given = [number, number, number, table, number], [[number], [number], [number], [table, own], [number]]

    def found(sample, **how):
        return ordered_families(sample, chosen, given, seed, **how)

    for sample in (Sample(rows), Sample(rows, rng.integers(1, 4, 240).astype(float)), Sample(rows, None, np.arange(240) // 2)):
        kinds, spent = found(sample)
        assert kinds[3] == (own if ordered else table)
        assert spent > 0
    # Alone, and without the work for it, or rows to tell it by, it is the table.
    assert choose_family(rows[:, 3], (table, own), 0) == table
    assert choose_families(Sample(rows), [*given[:3], (table, own), number], seed, np.inf)[0][3] == table
    assert found(Sample(rows), allowance=0.002) == (chosen, 0.0)
    assert found(Sample(rows[:60]))[0] == chosen
    assert found(Sample(rows, None, np.zeros(240, np.int64)))[0] == chosen
    assert ordered_families(Sample(rows[:, 3:4]), [table], [[table, own]], seed) == ([table], 0.0)


def test_only_what_has_families_in_order_is_asked():
    rows = levels(240, 0, True)
    table, counts, number = fp.Categorical(LEVELS), fp.Poisson(), fp.Gaussian()
    rounded = fp.families.Discretized(number, 1.0)
    own = ordinal(rows[:, 3])
    assert ordered_families(Sample(rows), [number] * 3 + [counts], [[number]] * 3 + [[counts, table]], 0)[1] == 0
    assert ordered_families(Sample(rows), [number] * 3 + [counts], [[number]] * 3 + [[counts, table, own]], 0)[0][3] == counts
    assert ordered_families(Sample(rows), [number] * 3 + [table], [[number]] * 3 + [[counts, table, own]], 0)[0][3] == own
    assert ordered_families(Sample(rows), [number] * 3 + [rounded], [[number]] * 3 + [[counts, own]], 0)[0][3] == rounded


def test_many_ordered_columns_have_clusterings_in_common():
    rng = np.random.default_rng(0)
    position = rng.normal(size=300)
    behind = position[:, None] + 0.5 * rng.normal(size=(300, 20))
    rows = np.column_stack([np.searchsorted(np.linspace(-1.5, 1.5, LEVELS - 1), behind), position])
    given = [*[[fp.Categorical(LEVELS), ordinal(x)] for x in rows[:, :20].T], [fp.Gaussian()]]
    found, spent = ordered_families(Sample(rows), [several[0] for several in given], given, 0)
    assert found == [several[-1] for several in given]
    assert 0 < ordered_families(Sample(rows), [several[0] for several in given], given, 0, spent / 2)[1] < spent / 2


def test_finite_families_stand_beside_ordered_ones():
    def further(chosen, *given):
        rows = np.zeros((4, 1))
        return further_families([chosen], [given], Scaling.learn(rows, [chosen])).get(0, [])

    table, ordered, trials = fp.Categorical(4), fp.Ordinal((-1.0, 0.0, 1.0)), fp.Binomial(3)
    assert further(table, table, ordered, trials, fp.Binomial(4), fp.Poisson()) == [ordered, trials]
    assert further(ordered, trials, ordered, table) == [trials, table]
    # As ever where there is none for ordered categories, or two values are all.
    assert further(table, table, trials) == []
    assert further(fp.Poisson(), fp.Poisson(), table, ordered) == []
    assert further(fp.Bernoulli(), fp.Bernoulli(), fp.Ordinal((0.0,)), fp.Categorical(2), fp.Binomial(1)) == []
    assert further(fp.Gaussian(), fp.Gaussian(), fp.Logistic(0.1)) == [fp.Logistic(0.1)]


def test_probabilities_of_values_are_learnt_from_all_rows():
    """Codes of countries, nine of ten rows one of them: half of the sample that judges would not tell the others."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(41, 0.5))
    codes = np.where(rng.random(20_000) < 0.9, 38.0, rng.choice(41, 20_000, p=shares))
    offered = (fp.Hurdle((38.0,), fp.NegativeBinomial()), fp.Categorical(41))
    assert choose_family(codes[:300], offered, 0) == offered[0]
    assert choose_family(codes, offered, 0) == offered[1]
    assert choose_family(codes, offered, 0, np.full(20_000, 2.0)) == offered[1]


def test_probabilities_of_values_are_not_learnt_from_groups_that_judge():
    """Each group has a value of its own, which no other tells."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 40)
    values = rng.permutation(60)[groups].astype(float)
    offered = (fp.NegativeBinomial(), fp.Categorical(60))
    assert choose_family(values, offered, 0, groups=groups) == offered[0]
    assert choose_family(values, offered, 0) == offered[1]
