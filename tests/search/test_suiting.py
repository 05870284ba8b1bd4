"""Families of columns, chosen by values held out."""

import numpy as np

import flatpc as fp
from flatpc.search import choosing
from flatpc.search.samples import Sample
from flatpc.search.scaling import Scaling, in_users_units
from flatpc.search.suiting import choose_family


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
