"""Checkpoints: a run that is killed and resumed ends with the bits of one that wasn't."""

import json
import os
import signal
import sys
import time
import warnings

import numpy as np
import pytest
import torch
from safetensors import safe_open

import flatpc as fp
from flatpc.errors import FileFormatError, OptionError
from flatpc.learning.run import checkpoint as files

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
V = (RNG.random((30, 5)) < RNG.choice([0.2, 0.8], (30, 1))).astype(float)
CIRCUIT = fp.structures.hclt(X, 9)
GAUSSIAN = fp.structures.rat_spn(2, 1, 3, 4, 4)
Y = fp.datasets.manifold("spiral", 60)

RUNS = {
    "em": (CIRCUIT, X, {"batch_size": 25, "sharpness": fp.Sharpness(mu=0.3), "valid": V}),
    "em float32": (CIRCUIT, X, {"batch_size": 25, "dtype": "float32", "regularizer": fp.learning.Laplace(0.1)}),
    "em momentum": (GAUSSIAN, Y, {"batch_size": 25, "method": fp.EM(momentum=0.9, anemone=True), "dtype": "float32"}),
    "em dropout": (CIRCUIT, X, {"batch_size": 25, "regularizer": fp.learning.Dropout(0.2, 0.2)}),
    "adam hyper": (GAUSSIAN, Y, {"method": "adam", "batch_size": 25, "regularizer": "hyper-weights"}),
    "em drawn": (CIRCUIT, X, {"batch_size": 25, "regularizer": fp.learning.Softening(0.9, draws=2)}),
    "sgd dropout": (CIRCUIT, X, {"method": "sgd", "batch_size": 25, "regularizer": fp.learning.Dropout(0.2, 0.2)}),
    "adam": (GAUSSIAN, Y, {"method": "adam", "batch_size": 25, "sharpness": fp.Sharpness(mu="adaptive"), "valid": Y[:20]}),
    "sgd": (GAUSSIAN, Y, {"method": fp.SGD(step_size=0.01, clip=1.0), "batch_size": 25, "regularizer": fp.learning.SAM()}),
}


def run(name, **options):
    circuit, rows, more = RUNS[name]
    return fp.fit(circuit, rows, progress=False, **{**more, **options})


def assert_same_bits(a, b):
    for i, value in a.circuit.parameters.items():
        np.testing.assert_equal(b.circuit.parameters[i], value)
    for name in ("train_nll", "valid_nll", "mu", "overfitting"):
        np.testing.assert_array_equal(a.history[name], b.history[name])


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_has_the_same_bits(name, tmp_path):
    whole = run(name, epochs=9)
    path = tmp_path / "run"
    for epochs, n_threads in ((3, 1), (4, 2), (9, 3), (9, 1)):
        result = run(name, epochs=epochs, run=path, n_threads=n_threads)
    assert_same_bits(whole, result)
    assert result.history[-1]["seconds"] > result.history[0]["seconds"]


def test_checkpoints_less_often_and_the_log_of_a_resumed_run(tmp_path):
    whole = run("em", epochs=8)
    path, log = tmp_path / "run", tmp_path / "log"
    stop = [lambda row, circuit: row["epoch"] == 5]
    with pytest.raises(ZeroDivisionError):
        run(
            "em",
            epochs=8,
            run=fp.learning.Run(
                checkpoint=path, checkpoint_every=2, callbacks=[lambda row, circuit: 0 / (row["epoch"] - 5)], log=log
            ),
        )
    assert len(log.read_text().splitlines()) == 5
    result = run("em", epochs=8, run=fp.learning.Run(checkpoint=path, checkpoint_every=2, log=log))
    assert_same_bits(whole, result)
    assert len(log.read_text().splitlines()) == 8
    # A run that was stopped on purpose stays stopped.
    other = tmp_path / "stopped"
    assert len(run("em", epochs=8, run=fp.learning.Run(checkpoint=other, callbacks=stop)).history) == 5
    again = run("em", epochs=8, run=other)
    assert (again.stopped, len(again.history)) == ("callback", 5)


def test_early_stopping_survives(tmp_path):
    options = {"epochs": 200, "stopping": 3, "method": fp.EM(step_size=1.0)}
    whole = run("em", **options)
    path = tmp_path / "run"
    run("em", **{**options, "epochs": 2}, run=path)
    result = run("em", **options, run=path)
    assert whole.stopped == result.stopped == "early stopping"
    assert_same_bits(whole, result)


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "run"
    run("em", epochs=1, run=path)
    with pytest.raises(OptionError, match="different here: regularizer"):
        run("em", epochs=2, run=path, sharpness=None)
    with pytest.raises(OptionError, match="validation rows"):
        run("em", epochs=2, run=path, valid=V[1:])
    with pytest.raises(OptionError, match="starting parameters, structure of the circuit, training rows"):
        fp.fit(GAUSSIAN, Y, run=path, progress=False)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "run"
    run("em", epochs=1, run=path)
    good = path.read_bytes()
    for bad in (b"", b"nonsense", good[:-5], good[: len(good) // 2], good[:-1] + bytes([good[-1] ^ 1])):
        path.write_bytes(bad)
        with pytest.raises(FileFormatError):
            run("em", epochs=2, run=path)
    CIRCUIT.save(path)
    with pytest.raises(FileFormatError, match="not a checkpoint"):
        run("em", epochs=2, run=path)
    assert files.read(tmp_path / "none", {}) is None


def test_functions_are_compared_by_what_they_do(tmp_path):
    path = tmp_path / "run"

    def falling(start):
        return lambda progress: start - 0.1 * progress

    run("em", epochs=1, run=path, method=fp.EM(step_size=falling(0.3)))
    run("em", epochs=2, run=path, method=fp.EM(step_size=falling(0.3)))
    with pytest.raises(OptionError, match="different here: step_size"):
        run("em", epochs=3, run=path, method=fp.EM(step_size=falling(0.31)))
    other = tmp_path / "sharp"
    run("em", epochs=1, run=other, sharpness=fp.Sharpness(mu=falling(0.3)))
    with pytest.raises(OptionError, match="different here: regularizer"):
        run("em", epochs=2, run=other, sharpness=fp.Sharpness(mu=falling(0.4)))
    run("em", epochs=2, run=other, sharpness=fp.Sharpness(mu=falling(0.3)))


def test_fewer_epochs_than_the_checkpoint_has_are_refused(tmp_path):
    run("em", epochs=5, run=tmp_path / "run")
    with pytest.raises(OptionError, match=r"epochs=3, but the run in .* has done 5"):
        run("em", epochs=3, run=tmp_path / "run")


@pytest.mark.parametrize("name", ["em", "adam"])
def test_a_run_that_ctrl_c_or_the_clock_has_ended_goes_on(name, tmp_path):
    path = tmp_path / "run"
    options = {"batch_size": None, "epochs": 6}

    def interrupt(row, circuit):
        if row["epoch"] == 2:
            signal.raise_signal(signal.SIGINT)

    first = run(name, **options, run=fp.learning.Run(checkpoint=path, callbacks=[interrupt]))
    assert first.stopped == "interrupted"
    second = run(name, **options, run=path, stopping=fp.learning.Stopping(time_budget=1e-9))
    assert second.stopped == "time budget"
    assert len(second.history) == len(first.history)
    assert_same_bits(run(name, **options), run(name, **options, run=path))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.parametrize("name", ["em", "adam"])
def test_kill_9_at_20_random_moments(name, tmp_path):
    """Each life goes on where the last one was killed, with another number of threads; the end has the same bits."""
    path, rng = tmp_path / "run", np.random.default_rng(1)
    start = time.perf_counter()
    assert os.waitpid(_spawn(name, 20, tmp_path / "measured", 1), 0)[1] == 0
    life = time.perf_counter() - start
    reached = []
    for n in range(20):
        child = _spawn(name, 10**6, path, 1 + n % 2)
        time.sleep(rng.random() * life)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        reached.append(_epoch(path))
    assert reached == sorted(reached)
    assert len(set(reached)) > 2
    epochs = reached[-1] + 10
    assert_same_bits(run(name, epochs=epochs), run(name, epochs=epochs, run=path))


def _spawn(name, epochs, path, n_threads):
    """A child that runs and is gone."""
    with warnings.catch_warnings():
        # Newer Pythons warn of threads at a fork; the child uses none that it inherits.
        warnings.simplefilter("ignore", DeprecationWarning)
        sys.stdout.flush()
        child = os.fork()
    if child == 0:
        # OpenMP threads don't survive a fork, and torch would wait for them for ever.
        torch.set_num_threads(1)
        try:
            run(name, epochs=epochs, run=path, n_threads=n_threads)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def _epoch(path):
    if not path.exists():
        return 0
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["flatpc checkpoint"])["epoch"]
