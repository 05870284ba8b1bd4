"""Families of columns, chosen by values held out."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.search import choosing
from flatpc.search.samples import Sample, effective_number, parted, standard_error
from flatpc.search.scaling import Scaling, in_users_units
from flatpc.search.suiting import choose_families, choose_family


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


def test_parts_of_whole_groups():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 9, 200)
    order = rng.permutation(200)[:150]
    first, rest = parted(order, 75, groups)
    assert not set(groups[first]) & set(groups[rest])
    assert sorted([*first, *rest]) == sorted(order)
    assert abs(len(first) - 75) < 20
    alone = parted(order, 75, np.arange(200))
    np.testing.assert_array_equal(alone[0], order[:75])
    np.testing.assert_array_equal(alone[1], order[75:])
    assert [len(part) for part in parted(order, 75, np.zeros(200, np.int64))] == [0, 150]


def test_standard_errors_of_groups_are_those_of_their_means():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2000, 40))
    groups = np.repeat(np.arange(40), 5)
    found = [standard_error(np.repeat(x, 5), np.ones(200), effective_number(np.ones(200), groups), groups) for x in means]
    # Of 40 numbers with deviation 1.
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(found))), 1 / np.sqrt(40), rtol=0.02)
