"""Rivals on tables: their densities against scipy, scikit-learn and deeprob-kit, and that all probability adds up to one."""

import itertools

import numpy as np
import pytest
from scipy.stats import lognorm, multivariate_normal, norm

import flatpc as fp
from flatpc.datasets import Column, TableSplits, load_packaged
from flatpc.errors import MissingValueError
from flatpc.paper.table_rivals.circuits import Scorer, circuit_scores, default_scores
from flatpc.paper.table_rivals.gaussians import log_box, log_interval, log_normal
from flatpc.paper.table_rivals.independent import fit_independent
from flatpc.paper.table_rivals.judging import CLASSIC, FLOORED, at_best
from flatpc.paper.table_rivals.kernels import Kernels, fit_kernels
from flatpc.paper.table_rivals.mixture import Mixture, fit_mixture, maximise
from flatpc.paper.table_rivals.rows import LEAST_DEVIATION, Rows, Units


def rows_of(y, codes=None):
    y = np.asarray(y, float)
    return Rows(y, np.zeros((len(y), 0), np.int64) if codes is None else np.asarray(codes, np.int64))


def mixed_rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    y = rng.normal(size=(n, 2)) @ [[1.0, 0.6], [0.0, 0.5]] + 3 * kind[:, None]
    codes = np.column_stack([(kind + (rng.random(n) < 0.1)) % 2, rng.integers(0, 3, n)])
    return rows_of(y, codes)


def cells(r, reach=12.0):
    """Middles of all cells of two columns that have any probability to speak of."""
    axes = [np.arange(-reach, reach, width) for width in r]
    return np.array(list(itertools.product(*axes)))


# ---- Gaussians -----------------------------------------------------------------------------------------------------------


def test_densities_and_boxes_are_scipys():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3)) * 0.5
    covariance, mean, r = root @ root.T + 0.05 * np.eye(3), rng.normal(size=3), np.array([0.5, 1.0, 0.3])
    y = rng.multivariate_normal(mean, covariance, 6)
    factor = np.linalg.cholesky(covariance)
    truth = multivariate_normal(mean, covariance, seed=0, abseps=1e-9, releps=1e-7)
    np.testing.assert_allclose(log_normal(y, mean, factor), truth.logpdf(y), rtol=1e-12)
    expected = [np.log(truth.cdf(x + r / 2, lower_limit=x - r / 2)) for x in y]
    np.testing.assert_allclose(log_box(y, r, mean, factor, 4096), expected, atol=1e-3)
    np.testing.assert_allclose(log_box(y, r, mean, factor), expected, atol=0.05)


def test_boxes_of_diagonal_covariances_are_exact_and_narrow_ones_are_densities():
    y, sd = np.array([[0.3, -7.0], [1.0, 2.0]]), np.array([0.5, 2.0])
    expected = np.log(norm.cdf((y + 0.1) / sd) - norm.cdf((y - 0.1) / sd)).sum(axis=1)
    np.testing.assert_allclose(log_box(y, np.array([0.2, 0.2]), np.zeros(2), np.diag(sd)), expected, rtol=1e-9)
    factor = np.linalg.cholesky([[1.0, 0.9], [0.9, 1.0]])
    r = np.array([1e-7, 1e-6])
    np.testing.assert_allclose(
        log_box(y, r, np.zeros(2), factor) - np.log(r).sum(), log_normal(y, np.zeros(2), factor), atol=1e-5
    )


def test_intervals_far_out():
    low = np.array([-40.0, 30.0, -1e-7, 9.0])
    high = low + np.array([0.5, 1.0, 2e-7, 1e-9])
    tail = norm.logcdf(-39.5) + np.log(-np.expm1(norm.logcdf(-40) - norm.logcdf(-39.5)))
    found = log_interval(low, high)
    np.testing.assert_allclose(found[0], tail, atol=1e-9)
    np.testing.assert_allclose(found[1], norm.logsf(30), atol=1e-9)
    np.testing.assert_allclose(found[2:], norm.logpdf([0.0, 9.0]) + np.log([2e-7, 1e-9]), atol=1e-6)


# ---- mixtures ------------------------------------------------------------------------------------------------------------


def test_one_step_is_means_covariances_and_shares_of_groups():
    rows = mixed_rows()
    groups = rows.codes[:, 0]
    rows, shares = Rows(rows.y, rows.codes[:, 1:]), np.eye(2)[groups]
    model = maximise(rows, shares, (np.full(3, 1 / 3),), "full", 0.0, 0.0)
    for k in range(2):
        mine = rows.y[groups == k]
        np.testing.assert_allclose(model.means[k], mine.mean(axis=0))
        np.testing.assert_allclose(model.factors[k] @ model.factors[k].T, np.cov(mine.T, bias=True), rtol=1e-6)
        np.testing.assert_allclose(np.exp(model.log_shares[0][k]), np.bincount(rows.codes[groups == k, 0]) / len(mine), rtol=1e-6)
    tied = maximise(rows, shares, (), "tied", 0.0, 0.0)
    within = sum((groups == k).mean() * np.cov(rows.y[groups == k].T, bias=True) for k in range(2))
    np.testing.assert_allclose(tied.factors[1] @ tied.factors[1].T, within, rtol=1e-6)


def test_em_never_lowers_the_likelihood():
    rows, totals = mixed_rows(), []
    shares = np.random.default_rng(1).dirichlet(np.ones(3), len(rows))
    for _ in range(15):
        model = maximise(rows, shares, (np.full(2, 0.5), np.full(3, 1 / 3)), "full", 0.0, 0.0)
        totals.append(model.log_density(rows).sum())
        shares = np.exp(model.joint(rows) - model.log_density(rows)[:, None])
    assert (np.diff(totals) > -1e-8).all()
    assert totals[-1] > totals[0] + 1


def test_without_discrete_columns_it_is_scikit_learns():
    from sklearn.mixture import GaussianMixture

    rows = rows_of(mixed_rows().y)
    found = fit_mixture(rows, (), n_components=2, covariance="tied", ridge=1e-3, smoothing=1.0, seed=0)
    theirs = GaussianMixture(2, covariance_type="tied", reg_covar=1e-3, random_state=0).fit(rows.y)
    np.testing.assert_allclose(found.log_density(rows), theirs.score_samples(rows.y), atol=1e-6)


def test_floors_are_ridges_of_columns():
    rows = mixed_rows()
    options = {"n_components": 2, "covariance": "full", "smoothing": 1.0, "seed": 0}
    wide = fit_mixture(rows, (2, 3), ridge=0.04, **options)
    floored = fit_mixture(rows, (2, 3), ridge=1e-6, floors=0.2, **options)
    np.testing.assert_allclose(floored.factors, wide.factors, rtol=1e-12)
    flat = rows_of(np.column_stack([rows.y[:, 0], np.zeros(len(rows))]))
    found = fit_mixture(flat, (), ridge=1e-6, floors=np.array([0.0, 0.3]), **options)
    np.testing.assert_allclose((found.factors @ found.factors.transpose(0, 2, 1))[:, 1, 1], 0.09, rtol=1e-9)


# ---- all that has a density ----------------------------------------------------------------------------------------------


def model_called(name):
    rows = mixed_rows()
    if name == "mixture":
        return fit_mixture(rows, (2, 3), n_components=3, covariance="full", ridge=1e-2, smoothing=1.0, seed=0)
    if name == "kernels":
        return fit_kernels(rows, (2, 3), bandwidth=0.5, flatness=0.2, seed=0)
    return fit_independent(rows, (2, 3), bandwidths=(0.3, 0.6), smoothing=1.0, seed=0)


@pytest.mark.parametrize("name", ["mixture", "kernels", "independent"])
def test_all_cells_together_have_probability_one(name):
    model = model_called(name)
    r = np.array([0.8, 0.6])
    middles = cells(r)
    total = 0.0
    for codes in itertools.product(range(2), range(3)):
        total += np.exp(model.log_cells(rows_of(middles, np.tile(codes, (len(middles), 1))), r)).sum()
    assert total == pytest.approx(1.0, abs=0.02 if name == "mixture" else 2e-3)  # a wide kernel reaches beyond the cells
    few = mixed_rows(20, seed=1)
    np.testing.assert_allclose(model.log_cells(few, np.array([1e-3, 1e-3])) - 2 * np.log(1e-3), model.log_density(few), atol=1e-3)


@pytest.mark.parametrize("name", ["mixture", "kernels", "independent"])
def test_missing_codes_are_summed_out(name):
    model = model_called(name)
    few = mixed_rows(10, seed=2)
    each = [model.log_density(Rows(few.y, np.column_stack([few.codes[:, 0], np.full(10, k)]))) for k in range(3)]
    gone = Rows(few.y, np.column_stack([few.codes[:, 0], np.full(10, -1)]))
    np.testing.assert_allclose(model.log_density(gone), np.logaddexp.reduce(each, axis=0), rtol=1e-9)


def test_kernels_are_scikit_learns():
    from sklearn.neighbors import KernelDensity

    rows = rows_of(mixed_rows().y)
    ours = Kernels(rows, (), 0.4, 0.0, wide=False)
    theirs = KernelDensity(bandwidth=0.4).fit(rows.y)
    few = rows_of(mixed_rows(30, seed=3).y)
    np.testing.assert_allclose(ours.log_density(few), theirs.score_samples(few.y), rtol=1e-6)


def test_learnspn_has_deeprob_kits_likelihood():
    pytest.importorskip("deeprob")
    from deeprob.spn.algorithms.inference import log_likelihood

    from flatpc.paper.table_rivals.learnspn import Structures

    rows = mixed_rows(400)
    network = Structures((2, 3), 0).fit(rows, min_rows=60, threshold=0.3, floor=0.0)
    theirs = log_likelihood(network.root, np.hstack([rows.y, rows.codes]).astype(np.float32))
    np.testing.assert_allclose(network.log_density(rows), np.ravel(theirs), atol=2e-3)  # theirs is float32
    r = np.array([1e-4, 1e-4])
    np.testing.assert_allclose(network.log_cells(rows, r) - np.log(r).sum(), network.log_density(rows), atol=1e-3)


# ---- circuits ------------------------------------------------------------------------------------------------------------


def a_circuit():
    """Two latents over a Gaussian, a hurdle with a log-normal, a count and a category."""
    families = [fp.Gaussian(), fp.Hurdle((0.0,), fp.LogNormal()), fp.Poisson(), fp.Categorical(3)]
    nodes = [fp.Input(variable=v, family=family, width=2) for v, family in enumerate(families)]
    return fp.Circuit([*nodes, fp.Product((0, 1, 2, 3)), fp.Sum((4,))]).randomize(seed=1)


def test_the_plain_score_is_the_circuits_own_but_for_atoms():
    circuit = a_circuit()
    rows = np.array([[0.5, 1.3, 2.0, 1.0], [-1.0, 0.2, 0.0, np.nan], [0.1, 0.0, 1.0, 2.0]])
    r = np.array([0.1, 0.05, 1.0, 1.0])
    found = Scorer(circuit, "plain", np.array([True, True, True, False]), r)(rows)
    own = circuit.log_prob(rows, missing="marginalize")
    np.testing.assert_allclose(found[:2], own[:2], rtol=1e-9)
    # The probability of the atom is spread over its cell.
    np.testing.assert_allclose(found[2], own[2] - np.log(0.05), rtol=1e-9)


def test_the_bounded_score_adds_up_to_one():
    circuit, r = a_circuit(), np.array([0.5, 0.5, 1.0, 1.0])
    scorer = Scorer(circuit, "bounded", np.array([True, True, True, False]), r)
    numbers = np.arange(-60, 60, r[0])
    rows = np.full((len(numbers), 4), np.nan)
    rows[:, 0] = numbers
    assert np.exp(scorer(rows)).sum() * r[0] == pytest.approx(1.0, abs=1e-6)
    positive = np.arange(0.0, 3000.0, r[1])
    rows = np.full((len(positive), 4), np.nan)
    rows[:, 1] = positive
    assert np.exp(scorer(rows)).sum() * r[1] == pytest.approx(1.0, abs=1e-3)


def test_a_cell_at_the_edge_of_a_mapped_pair():
    family = fp.families.MappedGaussian(2, transforms=(fp.families.Log(), None))
    units = {"mean": np.array([[-3.0, 0.5]]), "covariance": np.array([np.diag([0.5, 2.0])])}
    circuit = fp.Circuit([fp.Input(variables=(0, 1), family=family)], {0: units})
    r = np.array([0.1, 0.2])
    found = Scorer(circuit, "bounded", np.array([True, True]), r)(np.array([[0.0, 0.4], [0.3, 0.4]]))
    first = [lognorm.cdf(high, np.sqrt(0.5), scale=np.exp(-3.0)) for high in (0.05, 0.25, 0.35)]
    second = np.diff(norm.cdf([0.3, 0.5], 0.5, np.sqrt(2.0)))[0]
    wanted = np.log(np.array([first[0], first[2] - first[1]]) * second / r.prod())
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_missing_values_of_a_pair_are_summed_out():
    family = fp.families.MappedGaussian(2, transforms=(fp.families.Log(), None))
    units = {"mean": np.array([[0.2, 0.5], [0.1, -1.0]]), "covariance": np.array([[[0.5, 0.3], [0.3, 2.0]], np.eye(2)])}
    pair = fp.Input(variables=(0, 1), family=family, width=2)
    circuit = fp.Circuit([pair, fp.Sum((0,), width=1)], {0: units, 1: np.array([[0.4, 0.6]])})
    scorer = Scorer(circuit, "bounded", np.array([True, True]), np.array([0.1, 0.2]))
    found = scorer(np.array([[1.3, np.nan], [np.nan, 0.4], [np.nan, np.nan], [1.3, 0.4]]))
    first = [np.diff(lognorm.cdf([1.25, 1.35], s, scale=np.exp(m)))[0] for m, s in ((0.2, np.sqrt(0.5)), (0.1, 1.0))]
    second = [np.diff(norm.cdf([0.3, 0.5], m, s))[0] for m, s in ((0.5, np.sqrt(2.0)), (-1.0, 1.0))]
    wanted = [np.log(np.dot([0.4, 0.6], first) / 0.1), np.log(np.dot([0.4, 0.6], second) / 0.2), 0.0]
    np.testing.assert_allclose(found[:3], wanted, atol=1e-9)
    assert np.isfinite(found[3])


def test_a_circuit_of_a_table_and_its_rivals_in_the_tables_units():
    """A Gaussian column in other units: all scores move by the logarithm of the factor."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)).round(1)
    columns = (Column("x"),)
    one, ten = (TableSplits("t", f * x[:120], f * x[120:150], f * x[150:], columns=columns) for f in (1.0, 10.0))
    for name in ("independent", "mixture"):
        a, b = at_best(name, one, 0), at_best(name, ten, 0)
        for score in ("plain", "bounded"):
            np.testing.assert_allclose(a[score].test, b[score].test + np.log(10), atol=1e-6)
    density = fp.CircuitDensity(effort=0.1, verbose=False, structure="factorized").fit(one.frame("train"))
    found = circuit_scores(density, one)
    # The variance of one Gaussian is far above r², so that both scores are nearly the same, and neither is a spike.
    np.testing.assert_allclose(found["plain"], found["bounded"], atol=0.05)
    assert (found["bounded"] <= -np.log(0.1) + 1e-9).all()


def test_spikes_win_nothing_in_the_bounded_score():
    """Two values that repeat: plain densities grow without bound, bounded ones up to the probability over r."""
    y = np.repeat([[0.0], [1.0]], 50, axis=0)
    spiky = Mixture(np.log([0.5, 0.5]), np.array([[0.0], [1.0]]), np.full((2, 1, 1), 1e-6), ())
    rows = rows_of(y)
    assert spiky.log_density(rows).mean() > 10
    assert spiky.log_cells(rows, np.array([1.0])).mean() == pytest.approx(np.log(0.5), abs=1e-9)


@pytest.mark.parametrize("name", FLOORED)
def test_rivals_without_spikes(name):
    """Whole numbers from 0 to 5, uneven: no density above that of the narrowest Gaussian, which spikes exceed."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.choice(6, 400, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05]), rng.normal(size=400)]).astype(float)
    data = TableSplits("t", x[:250], x[250:320], x[320:], columns=(Column("n"), Column("y")))
    units = Units.of(data)
    np.testing.assert_allclose(units.floors, [1 / np.sqrt(12) / units.scale[0], LEAST_DEVIATION])
    most = -np.log(units.floors * units.scale * np.sqrt(2 * np.pi)).sum()
    assert at_best(FLOORED[name], data, 0)["plain"].test.mean() > at_best(name, data, 0)["plain"].test.mean() + 0.5
    assert (at_best(name, data, 0)["plain"].test <= most).all()


@pytest.mark.parametrize("name", CLASSIC)
def test_each_rival_on_a_small_table(name):
    if name == "learnspn":
        pytest.importorskip("deeprob")
    rows = mixed_rows(150)
    table = np.hstack([rows.y, rows.codes]).round(2)
    columns = (Column("a"), Column("b"), Column("c", ("n", "y")), Column("d", (0, 1, 2)))
    data = TableSplits("t", table[:100], table[100:120], table[120:], columns=columns)
    found = at_best(name, data, 0)
    assert found["plain"].test.shape == found["bounded"].test.shape == (30,)
    assert np.isfinite(found["bounded"].test).all()
    table[3, 0] = np.nan
    with pytest.raises(MissingValueError, match="t has missing values"):
        Units.of(TableSplits("t", table, table, table, columns=columns))


def test_the_default_is_scored_as_the_estimator_scores_itself():
    data = load_packaged("sklearn/iris", seed=0)
    scores, density = default_scores(data, 0, effort=1)
    np.testing.assert_allclose(scores["plain"], density.score_samples(data.frame("test")), atol=1e-10)
    assert (scores["bounded"] <= -np.log(data.resolutions()[data.n_values == 0]).sum() + 1e-9).all()
