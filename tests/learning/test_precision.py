"""The default arithmetic of `fit`: float32, float64 where that is too narrow, and numbers judged in float64."""

import inspect

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import ParameterError
from flatpc.learning import fitting
from flatpc.learning.steps import model

RNG = np.random.default_rng(0)
X = (RNG.random((120, 6)) < RNG.choice([0.2, 0.8], (120, 1))).astype(float)
TRAIN, VALID = X[:60], X[60:]
TREE = fp.structures.hclt(TRAIN, 5)


def nll(circuit, rows):
    return -circuit.log_prob(rows, dtype="float64").mean()


def test_float32_is_the_default():
    assert inspect.signature(fp.fit).parameters["dtype"].default == "float32"
    default, single, double = (
        fp.fit(TREE, TRAIN, epochs=5, progress=False, **options).circuit.log_prob(X)
        for options in ({}, {"dtype": "float32"}, {"dtype": "float64"})
    )
    np.testing.assert_array_equal(default, single)
    assert 0 < abs(default - double).max() < 1e-4


@pytest.mark.parametrize("options", [{}, {"stopping": 4}, {"method": fp.Adam(0.2)}, {"method": fp.EM(1.0), "batch_size": None}])
def test_final_numbers_are_those_of_float64(options):
    result = fp.fit(TREE, TRAIN, valid=VALID, **{"epochs": 40, "batch_size": 20, "progress": False, **options})
    assert result.best_nll == pytest.approx(nll(result.best_circuit, VALID), rel=1e-14)
    row = result.history[result.best_epoch - 1]
    assert row["valid_nll"] == result.best_nll
    assert row["overfitting"] == fp.learning.degree_of_overfitting(row["train_nll"], row["valid_nll"])
    assert result.best_nll < min(result.history["valid_nll"]) + 1e-5
    if "stopping" not in options:
        assert result.history[-1]["valid_nll"] == pytest.approx(nll(result.circuit, VALID), rel=1e-14)


def test_resumed_runs_end_with_the_same_numbers(tmp_path):
    options = {"valid": VALID, "batch_size": 20, "progress": False}
    whole = fp.fit(TREE, TRAIN, epochs=12, **options)
    fp.fit(TREE, TRAIN, epochs=5, run=tmp_path / "run", **options)
    for _ in range(2):  # the second time it is over already
        resumed = fp.fit(TREE, TRAIN, epochs=12, run=tmp_path / "run", **options)
        assert resumed.best_nll == whole.best_nll
        for column in ("train_nll", "valid_nll", "overfitting"):
            np.testing.assert_array_equal(resumed.history[column], whole.history[column])


def test_a_run_that_float32_is_too_narrow_for_is_made_in_float64(tmp_path, monkeypatch):
    """Stands in for a unit whose weights all underflow after the third epoch."""
    real = model.to_circuit

    def narrow(evaluator, parameters=None):
        if evaluator.dtype == "float32":
            evaluator.weights[:] = 0.0
        return real(evaluator, parameters)

    options = {"epochs": 6, "batch_size": 20, "progress": False}
    wanted = fp.fit(TREE, TRAIN, dtype="float64", **options)
    monkeypatch.setattr(model, "to_circuit", narrow)
    with pytest.raises(ParameterError):
        fitting._once(TREE, TRAIN, _settings(**options))
    seen = []
    run = fp.learning.Run(checkpoint=tmp_path / "run", callbacks=[lambda row, circuit: seen.append(row["epoch"])])
    for _ in range(2):  # the second time from both files
        found = fp.fit(TREE, TRAIN, run=run, **options)
        np.testing.assert_array_equal(found.circuit.log_prob(X), wanted.circuit.log_prob(X))
        assert found.notes[-1].startswith("A unit lost all its weights in float32")
        assert found.history["train_nll"].tolist() == wanted.history["train_nll"].tolist()
    assert seen == 2 * [1, 2, 3, 4, 5, 6]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run", "run.float64"]


def _settings(**options):
    caught = []

    def keep(circuit, rows, settings):
        caught.append(settings)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_learn", keep)
        with pytest.raises(KeyboardInterrupt):
            fp.fit(TREE, TRAIN, **options)
    return caught[0]


def test_tiny_weights_start_in_float64():
    weights = {i: w for i, w in TREE.parameters.items() if not isinstance(w, dict)}
    i, w = max(weights.items(), key=lambda pair: pair[1].shape[1])
    tiny = np.full(w.shape, 1e-60)
    tiny[:, 0] = 1.0
    circuit = TREE.with_parameters({i: tiny / tiny.sum(axis=1, keepdims=True)})
    single, double = (fp.fit(circuit, TRAIN, epochs=3, dtype=d, progress=False).circuit for d in ("float32", "float64"))
    np.testing.assert_array_equal(single.log_prob(X), double.log_prob(X))
