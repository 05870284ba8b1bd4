"""The fit loop: history, early stopping, time, callbacks, logs, Ctrl-C, and what it says about bad input."""

import json
import os
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import MissingPackageError, MissingValueError, OptionError, ShapeError, SupportError, WriteError
from flatpc.learning import ASAM, SAM, LearningWarning, cosine, linear, stages


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = (rng.random((120, 6)) < rng.choice([0.15, 0.85], (120, 1))).astype(float)
    return X[:40], X[40:]


@pytest.fixture(scope="module")
def circuit(data):
    return fp.structures.hclt(data[0], 8)


def fit(circuit, X, **options):
    return fp.fit(circuit, X, **{"epochs": 5, "progress": False, **options})


def test_history_says_what_happened(circuit, data):
    X, V = data
    seen = []
    result = fit(
        circuit,
        X,
        valid=V,
        batch_size=None,
        method=fp.EM(step_size=0.5),
        dtype="float64",
        run=fp.learning.Run(sharpness_every=2, callbacks=[lambda row, c: seen.append(c().log_prob(V))]),
    )
    history = result.history
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(history["train_nll"][0], -circuit.log_prob(X).mean(), rtol=1e-12)
    np.testing.assert_allclose(history["valid_nll"], [-s.mean() for s in seen], rtol=1e-12)
    train, valid = history["train_nll"], history["valid_nll"]
    np.testing.assert_allclose(history["overfitting"], 100 * abs(valid - train) / abs(train), rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(history["sharpness"]), [True, False, True, False, False])
    np.testing.assert_allclose(history["sharpness"][-1], fp.curvature.trace(result.circuit, X).mean(), rtol=1e-9)
    assert (np.diff(history["seconds"]) > 0).all()
    assert (history["step_size"] == 0.5).all()
    assert (history["mu"] == 0).all()
    assert result.stopped == "epochs"


def test_no_epochs_change_nothing(circuit, data):
    result = fit(circuit, data[0], epochs=0)
    assert len(result.history) == 0
    np.testing.assert_allclose(result.circuit.log_prob(data[0]), circuit.log_prob(data[0]), rtol=1e-12)


def test_the_order_of_rows_depends_on_the_seed_alone(circuit, data):
    made = [fit(circuit, data[0], batch_size=7, seed=seed).circuit.log_prob(data[1]) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_early_stopping_restores_the_best(circuit, data):
    X, V = data
    kept = []
    options = {"valid": V, "method": fp.EM(step_size=1.0), "batch_size": None, "epochs": 300}
    result = fit(circuit, X, stopping=4, run=fp.learning.Run(callbacks=[lambda row, c: kept.append(c())]), **options)
    valid = result.history["valid_nll"]
    assert result.stopped == "early stopping"
    assert result.best_epoch == 1 + int(valid.argmin())
    assert len(valid) == result.best_epoch + 4
    assert result.best_nll == valid.min()
    np.testing.assert_array_equal(result.circuit.log_prob(V), kept[result.best_epoch - 1].log_prob(V))


def test_a_callback_can_stop(circuit, data):
    calls = []
    result = fit(
        circuit,
        data[0],
        run=fp.learning.Run(callbacks=[lambda row, c: row["epoch"] == 2, lambda row, c: calls.append(row["epoch"])]),
    )
    assert result.stopped == "callback"
    assert calls == [1, 2]


def test_time_budget(circuit, data):
    result = fit(circuit, data[0], epochs=10**6, stopping=fp.learning.Stopping(time_budget=0.3))
    assert result.stopped == "time budget"
    assert 0.2 < result.history[-1]["seconds"] < 3


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_with_the_best_model(circuit, data):
    X, V = data
    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    result = fit(circuit, X, valid=V, epochs=10**6, method=fp.EM(step_size=1.0), batch_size=None)
    assert result.stopped == "interrupted"
    assert result.best_epoch == 1 + int(result.history["valid_nll"].argmin())
    assert -result.circuit.log_prob(V).mean() == pytest.approx(result.best_nll, rel=1e-12)
    # Afterwards Ctrl-C is what it was.
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_stops_at_once(circuit, data):
    def impatient(row, c):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(circuit, data[0], run=fp.learning.Run(callbacks=[impatient]))


def test_json_lines(circuit, data, tmp_path):
    path = tmp_path / "log.jsonl"
    result = fit(circuit, data[0], run=fp.learning.Run(log=path))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["train_nll"] for row in rows] == list(result.history["train_nll"])
    assert rows[0]["valid_nll"] == "nan"


def test_progress_is_for_terminals(circuit, data, capfd):
    fit(circuit, data[0], progress=True)
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == ""


def test_the_bar_shows_the_numbers(circuit, data, capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    fit(circuit, data[0], valid=data[1], batch_size=500, progress=True)
    said = capfd.readouterr().err
    assert "5/5" in said
    assert "valid" in said
    assert "larger than the data" in said


# ---- schedules ----------------------------------------------------------------------------------------------------


def test_schedules():
    assert [linear(1.0, 0.0)(t) for t in (0, 0.25, 1)] == [1.0, 0.75, 0.0]
    np.testing.assert_allclose([cosine(1.0, 0.2)(t) for t in (0, 0.5, 1)], [1.0, 0.6, 0.2])
    assert [stages({0.5: 2.0, 0.0: 1.0})(t) for t in (0, 0.49, 0.5, 0.99)] == [1.0, 1.0, 2.0, 2.0]
    for wrong in ({}, {0.1: 1.0}, {0.0: 1.0, 1.0: 2.0}):
        with pytest.raises(OptionError):
            stages(wrong)


def test_schedules_are_followed(circuit, data):
    X = data[0]
    result = fit(
        circuit,
        X,
        epochs=4,
        batch_size=None,
        dtype="float64",
        method=fp.EM(step_size=linear(0.8, 0.0)),
        sharpness=fp.Sharpness(mu=stages({0.0: 0.2, 0.5: 0.4})),
    )
    np.testing.assert_allclose(result.history["step_size"], [0.8, 0.6, 0.4, 0.2])
    np.testing.assert_allclose(result.history["mu"], [0.2, 0.2, 0.4, 0.4])
    first = fit(
        circuit, X, epochs=1, batch_size=None, dtype="float64", method=fp.EM(step_size=0.8), sharpness=fp.Sharpness(mu=0.2)
    ).circuit
    np.testing.assert_allclose(-first.log_prob(X).mean(), result.history["train_nll"][1], rtol=1e-12)


# ---- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: fp.Sharpness(mu=-0.1),
    lambda: fp.Sharpness(mu=float("nan")),
    lambda: fp.Sharpness(mu=float("inf")),
    lambda: fp.Sharpness(mu="auto"),
    lambda: fp.Sharpness(mu=None),
    lambda: fp.Sharpness(mu=linear(0.1, -0.1)),
    lambda: fp.Sharpness(update="linear"),
    lambda: fp.Sharpness(multiplier="fixed"),
    lambda: fp.Sharpness(unit="rows"),
    lambda: fp.Sharpness(space="logit"),
    lambda: fp.Sharpness(kappa=0.9),
    lambda: fp.Sharpness(scale=-1.0),
    lambda: fp.Sharpness(max_overfitting=-1.0),
    lambda: SAM(0.0),
    lambda: ASAM(0.5, eta=-1),
])  # fmt: skip
def test_parts_out_of_range(make):
    with pytest.raises(OptionError, match=r"choose|must|give|is a"):
        make()


@pytest.mark.parametrize(("options", "words"), [
    (lambda: {"method": fp.EM(step_size=0.0)}, "step_size"),
    (lambda: {"method": fp.EM(step_size=1.5)}, r"\(0, 1\]"),
    (lambda: {"method": fp.EM(step_size=float("nan"))}, "step_size"),
    (lambda: {"method": fp.EM(step_size=linear(0.5, 1.5))}, "at progress"),
    (lambda: {"method": fp.Adam(step_size=-1.0)}, "step_size"),
    (lambda: {"regularizer": fp.learning.Laplace(-1.0)}, "pseudocount"),
    (lambda: {"regularizer": fp.learning.Laplace(float("inf"))}, "pseudocount"),
    (lambda: {"pseudocount": 1.0}, "it is now a regulariser"),
    (lambda: {"step_size": 0.5}, r"it is now an option of the method: method=fp.EM\(step_size"),
    (lambda: {"early_stopping": 3}, r"stopping=fp.learning.Stopping\(patience"),
    (lambda: {"checkpoint": "run"}, r"run=fp.learning.Run\(checkpoint"),
    (lambda: {"method": fp.EM}, "give an instance"),
    (lambda: {"method": 0.1}, "fp.Adam"),
    (lambda: {"engine": "jax"}, "engine"),
    (lambda: {"method": "adam", "regularizer": fp.learning.Laplace(1.0)}, "changes the M-step"),
    (lambda: {"method": "lbfgs"}, "choose one of"),
    (lambda: {"method": fp.Adam(clip=0.0)}, "clip"),
    (lambda: {"method": "adam", "regularizer": "adagrad"}, "sam"),
    (lambda: {"regularizer": SAM()}, "gradient learning"),
    (lambda: {"sharpness": 0.1}, "Sharpness"),
    (lambda: {"sharpness": fp.Sharpness(mu="adaptive")}, "mean-flow"),
    (lambda: {"method": "adam", "sharpness": fp.Sharpness(mu="mean-flow")}, "adaptive"),
    (lambda: {"method": "adam", "sharpness": fp.Sharpness(mu="adaptive")}, "valid"),
    (lambda: {"stopping": 3}, "valid"),
    (lambda: {"stopping": "soon"}, "stopping"),
    (lambda: {"stopping": fp.learning.Stopping(patience=0)}, "patience"),
    (lambda: {"run": 3}, "run"),
    (lambda: {"run": fp.learning.Run(callbacks=3)}, "callbacks"),
    (lambda: {"stopping": 0}, "stopping"),
    (lambda: {"epochs": -1}, "epochs"),
    (lambda: {"epochs": 1.5}, "epochs"),
    (lambda: {"batch_size": 0}, "batch_size"),
    (lambda: {"seed": -1}, "seed"),
    (lambda: {"stopping": fp.learning.Stopping(time_budget=0.0)}, "time_budget"),
    (lambda: {"run": fp.learning.Run(checkpoint_every=0)}, "checkpoint_every"),
    (lambda: {"run": fp.learning.Run(sharpness_every=-1)}, "sharpness_every"),
    (lambda: {"dtype": "float16"}, "dtype"),
    (lambda: {"run": fp.learning.Run(distributed=True)}, "torchrun"),
])  # fmt: skip
def test_options_out_of_range(circuit, data, options, words):
    with pytest.raises(OptionError, match=words):
        fit(circuit, data[0], **options())


def test_a_checkpoint_in_a_folder_that_is_not_there(circuit, data):
    with pytest.raises(WriteError, match="folder"):
        fit(circuit, data[0], run="no/such/folder/c")


def test_rows_that_do_not_fit(circuit, data):
    X, V = data
    with pytest.raises(ShapeError, match=r"Validation rows: .* 5 columns"):
        fit(circuit, X, valid=V[:, :5])
    with pytest.raises(SupportError, match="Validation rows: Column 'x0'"):
        fit(circuit, X, valid=V + 1)
    with pytest.raises(MissingValueError):
        fit(circuit, np.where(X == 1, np.nan, X))
    fit(circuit, np.where(X == 1, np.nan, X), missing="marginalize")
    with pytest.raises(ShapeError, match="no rows"):
        fit(circuit, X[:0])


def test_notes(circuit, data):
    X = data[0].copy()
    X[:, 2] = 1
    result = fit(circuit, X[:7], batch_size=200)
    said = " ".join(result.notes)
    assert "batch_size=200 is larger than the data; each batch is all 7 rows" in said
    assert "columns never change" in said
    assert "7 rows but sums have up to 8 units" in said
    same = fit(circuit, X[:7], batch_size=None)
    for i, value in same.circuit.parameters.items():
        np.testing.assert_equal(result.circuit.parameters[i], value)


def test_a_value_that_training_never_had(circuit, data):
    X, V = data[0].copy(), data[1].copy()
    X[:, 2] = 1
    V[:3, 2] = 0
    V[3:, 2] = 1
    with pytest.warns(LearningWarning, match="3 of 80 validation rows have probability 0"):
        result = fit(circuit, X, valid=V, method=fp.EM(step_size=1.0))
    assert result.history["valid_nll"][-1] == np.inf
    assert np.isneginf(result.circuit.log_prob(V)[:3]).all()
    assert any("pseudocount" in note for note in result.notes)
    smoothed = fit(circuit, X, valid=V, method=fp.EM(step_size=1.0), regularizer=fp.learning.Laplace(0.1))
    assert np.isfinite(smoothed.history["valid_nll"]).all()


def test_tensorboard(circuit, data, monkeypatch):
    written = []

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, epoch):
            written.append((name, epoch))

        def flush(self):
            pass

    stand_in = types.ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    fit(circuit, data[0], epochs=2, run=fp.learning.Run(callbacks=[fp.learning.TensorBoard("runs")]))
    assert {("train_nll", 1), ("train_nll", 2), ("seconds", 2)} <= set(written)
    assert not any(name == "valid_nll" for name, _ in written)  # there is none
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingPackageError, match="install"):
        fp.learning.TensorBoard("runs")
