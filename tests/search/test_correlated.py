"""Correlated and mapped columns, and counts that vary little: what the search makes of them, beside the truth."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flatpc as fp
from flatpc.families import Discretized, Gamma, Gaussian, Hurdle, NegativeBinomial, Poisson
from flatpc.families.transforms import Quantiles
from flatpc.search.column_maps import choose_transform, fronts
from flatpc.search.plans import Wishes, trained_plans
from flatpc.search.samples import Sample
from flatpc.search.suiting import normal_instead


def covariance(d):
    root = np.random.default_rng(1).normal(size=(d, d))
    return root @ root.T + 0.1 * np.eye(d)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_gaussian_is_found_behind_its_maps(mapped):
    """To within a fifth of a nat of the truth, with 25 parameters of 5 columns from 400 rows."""
    truth = stats.multivariate_normal(np.zeros(5), covariance(5))
    z = truth.rvs(1400, random_state=0)
    x, volume = (np.exp(z / 2), (z / 2 + np.log(0.5)).sum(axis=1)) if mapped else (z, np.zeros(len(z)))
    density = fp.CircuitDensity(effort=2, verbose=False).fit(x[:400])
    assert "correlated" in density.candidates_[0].name
    wanted = float(np.mean(truth.logpdf(z[400:]) - volume[400:]))
    assert density.score(x[400:]) > wanted - 0.2
    if mapped:
        assert (density.sample(500, random_state=0) > 0).all()


@pytest.mark.parametrize("digits", [None, 2])
def test_a_column_that_follows_from_others(digits):
    """Almost: it is off by a thousandth of its spread. To within half a nat of the truth; rounded, not above it by peaks."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1400, 4))
    last = z.sum(axis=1) + 0.002 * rng.normal(size=len(z))
    x = np.column_stack([z, last])
    wanted = float(np.mean(stats.norm.logpdf(z).sum(axis=1) + stats.norm.logpdf(last - z.sum(axis=1), 0, 0.002)))
    if digits is not None:
        x = np.round(x, digits)
        # Five roundings are off by 0.01 / √12 each, of which the sum of four and the fifth make one.
        wanted = float(stats.norm.logpdf(z).sum(axis=1).mean()) - 0.5 * np.log(2 * np.pi * np.e * 5 * 1e-4 / 12)
    density = fp.CircuitDensity(effort=4, verbose=False).fit(x[:400])
    assert wanted - 0.5 < density.score(x[400:]) < wanted + 0.25


@pytest.mark.parametrize("noise", [1e-4, 0.3])
def test_mixtures_begin_with_the_floor_that_one_gaussian_needs(noise):
    """With the lowest, by what four columns leave open of the fifth; with the usual one if none follows."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 4))
    x = np.column_stack([z, z.sum(axis=1) + noise * rng.normal(size=600)])
    found = fp.CircuitDensity(effort=1, verbose=False, average=False).fit(x).candidates_
    alone = {c.floor for c in found if c.options.get("blocks") and c.options["n_latents"] == 1}
    mixed = {c.floor for c in found if c.options.get("blocks") and c.options["n_latents"] == 4}
    if noise < 0.01:
        assert alone >= {1e-4, 1e-5, 1e-6, 1e-7}
        assert max(mixed) == 1e-7
    else:
        assert 1e-4 in alone
        assert max(mixed) == 1e-4


@pytest.mark.parametrize("sum_of_parts", [True, False])
def test_maps_do_not_bend_what_follows(sum_of_parts):
    """A sum of skewed columns follows from them only unmapped, a product only mapped; in the right units they are likelier."""
    rng = np.random.default_rng(0)
    parts = rng.lognormal(3, 0.8, (900, 3))
    noise = 1 + 1e-3 * rng.normal(size=900)
    x = np.column_stack([parts, (parts.sum(axis=1) if sum_of_parts else parts.prod(axis=1)) * noise])
    rows, families = Sample(x[:600]), [Gaussian()] * 4
    found, _ = fronts(rows, [], families, families, 0)
    assert len(found) == (1 if sum_of_parts else 2)
    assert set(found[-1].scaling.transforms) == (set() if sum_of_parts else {0, 1, 2, 3})
    density = fp.CircuitDensity(effort=2, verbose=False, random_state=0).fit(x[:600])
    # The parts' own densities, and that of what the noise leaves open.
    logs = np.log(x[600:])
    wanted = (stats.norm.logpdf(logs[:, :3], 3, 0.8) - logs[:, :3]).sum(axis=1) + stats.norm.logpdf(noise[600:], 1, 1e-3)
    wanted -= logs[:, 3] - np.log(noise[600:])
    assert density.score(x[600:]) > wanted.mean() - (2.0 if sum_of_parts else 0.3)


def test_quantiles_map_a_column_with_several_peaks():
    """Neither a logarithm nor a power makes it normal; answers have the Jacobian."""
    rng = np.random.default_rng(0)
    peaks = rng.choice([-6.0, 0.0, 9.0], 600) + rng.normal(size=600)
    rows, families = Sample(peaks[:, None]), [Gaussian()]
    assert len(fronts(rows, [], families, families, 0)[0]) == 1
    found, _ = fronts(rows, [], families, families, 0, quantiles=True)
    mapping = found[1].scaling.transforms[0]
    assert isinstance(mapping, Quantiles)
    z = found[1].rows.X[:, 0]
    assert stats.kstest((z - z.mean()) / z.std(), "norm").pvalue > 0.05
    # By differences: the log-density in the user's units is lower by the logarithm of the slope.
    x, step = np.linspace(-7, 10, 50)[:, None], 1e-6
    slope = (found[1].scaling.apply(x + step) - found[1].scaling.apply(x - step))[:, 0] / (2 * step)
    np.testing.assert_allclose(-found[1].scaling.log_volume(x), np.log(slope), atol=1e-6)
    # A normal column gains nothing by it.
    assert choose_transform(rng.normal(size=600), np.ones(1), 0, quantiles=True) is None


def test_counts_that_vary_little():
    rng = np.random.default_rng(0)
    marks = rng.integers(2, 19, 900)
    frame = pd.DataFrame({"first": marks, "second": np.clip(marks + rng.integers(-1, 2, 900), 0, 20)})
    density = fp.CircuitDensity(effort=2, verbose=False, kinds="count").fit(frame[:600])
    # 17 even marks, and three even differences.
    assert density.score(frame[600:]) > -np.log(17) - np.log(3) - 0.35


def test_gaussians_stand_in_for_other_families():
    rounded = Discretized(Gaussian(), 1.0)
    assert normal_instead(Gamma(), (Gaussian(), Gamma())) == Gaussian()
    assert normal_instead(Poisson(), (NegativeBinomial(), Poisson(), rounded)) == rounded
    assert normal_instead(Poisson(), Poisson()) == Poisson()
    atoms = Hurdle((0.0,), Gamma())
    assert normal_instead(atoms, (Gaussian(), atoms)) == atoms


def test_mixtures_of_correlated_columns_are_as_many_as_rows_allow():
    def components(n_rows, n_columns):
        families = [Gaussian()] * n_columns
        plans = trained_plans(families, Sample(np.zeros((n_rows, n_columns))), Wishes(), False)
        return [plan.n_latents for plan in plans if "blocks" in plan.options]

    assert components(1000, 3) == [1, 4, 16, 64]
    assert components(364, 30) == [1, 4]
    assert components(50, 30) == [1]
    assert components(1000, 1) == []


def test_maps_are_judged_by_whole_groups():
    """Values that repeat within groups are likeliest after a map of quantiles, unless groups are new to it."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 15)[rng.permutation(600)]
    x = rng.normal(size=40)[groups] + 0.005 * rng.normal(size=600)
    assert isinstance(choose_transform(x, x, 0, quantiles=True), Quantiles)
    assert isinstance(choose_transform(x, x, 0, quantiles=True, groups=np.arange(600)), Quantiles)
    assert choose_transform(x, x, 0, quantiles=True, groups=groups) is None
    assert choose_transform(x, x, 0, quantiles=True, groups=np.zeros(600, np.int64)) is None
    found, _ = fronts(Sample(x[:, None], None, groups), [], [Gaussian()], [Gaussian()], 0, quantiles=True)
    assert len(found) == 1


def test_maps_by_quantiles_are_for_weighted_rows_and_uneven_groups_too():
    rng = np.random.default_rng(0)
    x, times = rng.choice([-1.0, 1.0], 300) * (1 + 0.05 * rng.normal(size=300)), rng.integers(1, 4, 300)
    repeated, groups = np.repeat(x, times), np.repeat(np.arange(300), times)
    found = choose_transform(x, x, 0, times.astype(float), quantiles=True)
    same = choose_transform(repeated, repeated, 0, quantiles=True, groups=groups)
    assert isinstance(found, Quantiles)
    assert isinstance(same, Quantiles)
    np.testing.assert_allclose(found.x, same.x, rtol=1e-12)
    # A part of a few rows has few quantiles.
    assert isinstance(choose_transform(x, x, 0, quantiles=True, groups=np.repeat([0, 1], [290, 10])), Quantiles | None)


def test_whole_groups_tell_whether_maps_bend():
    rng = np.random.default_rng(0)
    parts = rng.lognormal(3, 0.8, (600, 3))
    rows = np.column_stack([parts, parts.sum(axis=1) * (1 + 1e-3 * rng.normal(size=600))])
    for groups in (np.arange(600), np.repeat(np.arange(60), 10)):
        assert len(fronts(Sample(rows, None, groups), [], [Gaussian()] * 4, [Gaussian()] * 4, 0)[0]) == 1


def test_one_group_of_nearly_all_rows_gives_no_warnings():
    """The other part of such a split is a row alone, by which no map is judged."""
    x = np.exp(np.random.default_rng(0).normal(size=101))
    assert choose_transform(x, x, 0, groups=np.append(np.zeros(100, np.int64), 1)) is None
