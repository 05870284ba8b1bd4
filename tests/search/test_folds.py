"""Folds that are trained at the same time: the choice is that of one process, bit by bit."""

import joblib
import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.search import folds, training

HOW = {"effort": 0.6, "progress": False, "structure": "hclt"}


@pytest.fixture(scope="module")
def X():
    X = np.random.default_rng(0).integers(0, 2, size=(150, 5))
    X[:, 1] = X[:, 0]
    return X


@pytest.fixture(scope="module")
def serial(X):
    return fp.choose(X, **HOW)


def same(one, other):
    assert [(c.name, c.valid_nll, c.work, c.epochs, c.weight) for c in one.candidates] == [
        (c.name, c.valid_nll, c.work, c.epochs, c.weight) for c in other.candidates
    ]
    assert one.circuit.nodes == other.circuit.nodes
    for i, value in one.circuit.parameters.items():
        for name in value if isinstance(value, dict) else [slice(None)]:
            np.testing.assert_array_equal(value[name], other.circuit.parameters[i][name])


@pytest.fixture
def counted(monkeypatch):
    """How many folds were trained by joblib."""
    trained = []

    def train(circuits, *rest):
        trained.append(len(circuits))
        return folds.train_folds(circuits, *rest)

    monkeypatch.setattr(training, "train_folds", train)
    return trained


def test_two_processes_give_the_choice_of_one(X, serial, counted):
    assert len(serial.candidates) > 1
    assert serial.judge == "rows in turn"
    same(fp.choose(X, n_jobs=2, **HOW), serial)
    assert counted
    assert set(counted) == {5}


def test_joblib_s_own_setting_is_taken(X, serial, counted):
    with joblib.parallel_config(backend="loky", n_jobs=2):
        same(fp.choose(X, **HOW), serial)
        assert counted
        counted.clear()
        fp.choose(X, n_jobs=1, **HOW)
        fp.choose(X, judge="holdout", **HOW)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        fp.choose(X, **HOW)
    fp.choose(X, **HOW)
    assert not counted


def test_a_dask_cluster_gives_the_same_choice(X, serial, counted):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        same(fp.choose(X, **HOW), serial)
    assert counted


def test_no_processes_are_no_number(X):
    with pytest.raises(OptionError, match="n_jobs=0; give a number of processes"):
        fp.choose(X, n_jobs=0, **HOW)
