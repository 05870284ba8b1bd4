"""The protocols: what a cell of each learns from, and by which rule."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from flatpc.datasets import manifold_splits
from flatpc.datasets.splits import Splits
from flatpc.paper import protocols, training
from flatpc.paper.cells import Cell
from flatpc.paper.simple_densities import NAMES, simple_density
from flatpc.paper.tables import TABLES


def test_every_difference_is_one():
    for name, differences in protocols.DIFFERENCES.items():
        assert name in TABLES
        for each in differences:
            assert len({each.text, each.code, each.ours}) > 1, each.what


def test_einsum_networks_start_as_the_authors_do():
    circuit = training.einsum_start(3, protocols.EINSUM["code"], seed=0)
    variances = np.concatenate([p["variance"] for p in circuit.parameters.values() if isinstance(p, dict)])
    r = special.logit((variances - 1e-4) / (10 - 1e-4))
    assert len(r) == 5 * 3 * 10
    assert stats.kstest(r, "norm").pvalue > 1e-4
    weights = [w for w in circuit.parameters.values() if not isinstance(w, dict)]
    assert all(abs(np.log(w * w.shape[1])).max() < 1 for w in weights)  # almost uniform


@pytest.mark.parametrize(("rows", "share"), [(50, 1 / 3), (200, 1 / 3), (250, 250 / 350), (400, 400 / 800)])
def test_what_measuring_leaves_behind(rows, share):
    """The flows of the last batch, of 50 or 200 rows here, are there three times."""
    assert training._share(rows, protocols.HCLT["code"]) == pytest.approx(share, rel=1e-15)
    assert training._share(rows, protocols.HCLT["text"]) == 1.0


def test_units_and_rules_of_the_protocols():
    mu = {name: training._sharpness("mu=0.1", unit=settings.unit) for name, settings in protocols.HCLT.items()}
    assert {name: each.unit for name, each in mu.items()} == {"text": "batch-counts", "code": "counts", "ours": "counts"}
    rules = {name: settings.rule for name, settings in protocols.EINSUM.items()}
    assert rules == {"text": "overfitting", "code": "released", "ours": "overfitting"}


def test_our_einsum_networks_are_stopped_early():
    cell = Cell("table1", "spiral", 0.05, 0, "plain", "ours")
    short = protocols.Einsum("ours", n_repetitions=2, epochs=40, clip=1.0, patience=50)
    found = training.einsum_cell(cell, short)
    assert found["valid_nll"] == found["best_valid_nll"]
    assert found["valid_nll"] < training.einsum_cell(cell, protocols.Einsum(n_repetitions=2, epochs=40))["valid_nll"] + 1.0


@pytest.mark.parametrize("method", ["plain", "mu=0.1", "laplace=0.1"])
def test_our_hidden_trees_are_stopped_early(monkeypatch, method):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (400, 8)).astype(float)
    rows[:, 4:] = np.where(rng.random((400, 4)) < 0.3, 1 - rows[:, :4], rows[:, :4])
    monkeypatch.setattr(training, "_binary", lambda name: Splits("pairs", rows[:100], rows[100:200], rows[200:]))
    cell = Cell("table2", "pairs", 1.0, 0, method, "ours")
    short = protocols.HcltTable("ours", n_latents=8, epochs=60, batch_size=50, unit="counts", patience=3)
    found, whole = training.hclt_cell(cell, short), training.hclt_cell(cell, replace(short, patience=None))
    assert found["best_epoch"] < 57
    for name in ("train_nll", "valid_nll", "test_nll", "sharpness_weights"):
        assert found[name] == found[f"best_{name}"]
    assert found["valid_nll"] < whole["valid_nll"]
    assert ("best_epoch" in whole) == (method in ("plain", "laplace=0.1"))


@pytest.mark.parametrize("name", NAMES)
def test_simple_densities_are_densities(name):
    data = manifold_splits("spiral", seed=0).fraction(0.05, how="random", seed=0)
    found = simple_density(name, data, seed=0)
    if name == "normal":
        expected = -stats.multivariate_normal(np.zeros(2)).logpdf(data.test).mean()
        assert found["test_nll"] == pytest.approx(expected, rel=1e-12)
    if name == "gaussian":  # maximum likelihood, up to the ridge
        expected = -stats.multivariate_normal(data.train.mean(axis=0), np.cov(data.train.T, bias=True)).logpdf(data.train).mean()
        assert expected <= found["train_nll"] < expected + 0.05
    assert found["valid_nll"] < 3.0


def test_simple_densities_choose_by_validation():
    data = manifold_splits("two_moons", seed=1).fraction(0.1, how="random", seed=1)
    assert simple_density("mixture", data, 0)["valid_nll"] < simple_density("gaussian", data, 0)["valid_nll"] - 0.3
    assert simple_density("kde", data, 0)["valid_nll"] < simple_density("normal", data, 0)["valid_nll"]
