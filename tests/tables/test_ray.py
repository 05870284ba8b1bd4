"""Ray: its datasets as sources of rows, and candidates on its workers. Skipped where Ray is not installed."""

import os
import warnings

import numpy as np
import pytest

import flatpc as fp

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # at 15, Ray's own, a busy machine hardly lets workers begin
ray = pytest.importorskip("ray", reason="ray is not installed; pip install 'ray[data]' to test its datasets")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two processes on this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).integers(0, 2, (400, 5))
    X[:, 1] = X[:, 0]
    return X


@pytest.fixture(scope="module")
def dataset(rows):
    return ray.data.from_items([{f"v{j}": int(x) for j, x in enumerate(row)} for row in rows])


def test_a_dataset_is_a_source(rows, dataset):
    source = fp.tables.source(dataset)
    assert (source.n_rows, source.names) == (400, ("v0", "v1", "v2", "v3", "v4"))
    found = np.concatenate([block.to_numpy() for block in source.blocks()])
    assert sorted(map(tuple, found)) == sorted(map(tuple, rows))


def test_learning_from_a_dataset_equals_learning_from_memory(rows, dataset):
    circuit = fp.structures.hclt(dataset, 3)
    how = {"method": fp.EM(step_size=1.0), "batch_size": None, "epochs": 4, "dtype": "float64", "progress": False}
    there, here = fp.fit(circuit, dataset, **how), fp.fit(circuit, rows, **how)
    np.testing.assert_allclose(there.history["train_nll"], here.history["train_nll"], rtol=1e-12)
    np.testing.assert_allclose(there.circuit.log_prob(rows), here.circuit.log_prob(rows), rtol=1e-9)
    np.testing.assert_allclose(np.sort(here.circuit.log_prob(dataset)), np.sort(here.circuit.log_prob(rows)), rtol=1e-12)


def test_curvature_search_and_estimator_take_a_dataset(rows, dataset):
    circuit = fp.structures.hclt(rows, 3)
    there, here = (fp.curvature.trace(circuit, given, reduction="mean") for given in (dataset, rows))
    assert there == pytest.approx(here, rel=1e-10)
    assert fp.choose(dataset, effort=0.2, progress=False).n_rows == len(rows)
    assert len(fp.CircuitDensity(effort=0.2).fit(dataset).score_samples(dataset)) == len(rows)


def test_candidates_on_ray_through_joblib(rows):
    """Sweeps go where joblib's backend sends them, and come back with the numbers of this process."""
    import joblib
    from ray.util.joblib import register_ray

    register_ray()
    circuit = fp.structures.hclt(rows[:300], 2)
    how = {"valid": rows[300:], "grid": (0.0, 1.0), "epochs": 2}
    with joblib.parallel_config(backend="ray", n_jobs=2):
        there = fp.search.select(circuit, rows[:300], **how)
    here = fp.search.select(circuit, rows[:300], n_jobs=1, **how)
    assert [one.valid_nll for one in there.candidates] == [one.valid_nll for one in here.candidates]
