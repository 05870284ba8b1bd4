"""Trials of optuna: what they suggest is what is learnt, and the simple models are among them."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.adapters import OptunaObjective
from flatpc.errors import DataError, OptionError

optuna = pytest.importorskip("optuna", reason="needs optuna (pip install 'flatpc[search]')")
optuna.logging.set_verbosity(optuna.logging.WARNING)

RNG = np.random.default_rng(3)
GROUP = RNG.random((300, 1)) < 0.5
X = np.where(RNG.random((300, 6)) < 0.8, GROUP, RNG.random((300, 6)) < 0.4).astype(float)
TRAIN, VALID = X[:100], X[100:]


def nll(circuit, rows=VALID):
    return -circuit.log_prob(rows).mean()


def study_of(objective, n_trials, pruner=None):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=pruner or optuna.pruners.NopPruner())
    study.optimize(objective, n_trials=n_trials)
    return study


def test_simple_models_come_first_with_their_own_likelihood():
    objective = OptunaObjective(TRAIN, VALID)
    study = optuna.create_study()
    objective.enqueue_simple(study)
    objective.enqueue_simple(study)  # what is there stays once
    n = len(study.get_trials())
    study.optimize(objective, n_trials=n)
    for trial in study.trials:
        options = {**trial.params}
        circuit = getattr(fp.structures, options.pop("structure"))(TRAIN, **options)
        assert trial.value == pytest.approx(nll(circuit), rel=1e-12)
    assert {trial.params["structure"] for trial in study.trials} == {"factorized", "chow_liu"}


def test_a_finished_trial_gives_its_circuit_again():
    objective = OptunaObjective(TRAIN, VALID, epochs=5)
    study = study_of(objective, 12)
    assert study.best_trial.params["structure"] in ("chow_liu", "hclt")
    for trial in study.trials:
        assert nll(objective.circuit(trial)) == trial.value


def fixed(**changes):
    params = {"structure": "hclt", "n_latents": 4, "init": "random", "step_size": 0.3, "sharpness": False, "laplace": False}
    return optuna.trial.FixedTrial({**params, **changes})


@pytest.mark.parametrize(
    ("changes", "regularizer"),
    [
        ({}, []),
        ({"sharpness": True, "mu": 0.5}, [fp.Sharpness(mu=0.5)]),
        ({"laplace": True, "pseudocount": 4.0}, [fp.learning.Laplace(4.0, on="sums")]),
        (
            {"sharpness": True, "mu": 0.5, "laplace": True, "pseudocount": 4.0},
            [fp.Sharpness(mu=0.5), fp.learning.Laplace(4.0, on="sums")],
        ),
    ],
)
def test_a_hidden_tree_is_trained_as_suggested(changes, regularizer):
    """By the same run of `fp.fit`, which is written out here."""
    by_hand = fp.fit(
        fp.structures.hclt(TRAIN, n_latents=4), TRAIN, valid=VALID, epochs=7, batch_size=100, stopping=10,
        method=fp.EM(step_size=fp.learning.linear(0.3, 0.03)), regularizer=[*regularizer, fp.learning.Laplace(0.1, on="inputs")],
        dtype="float32", progress=False,
    )  # fmt: skip
    assert OptunaObjective(TRAIN, VALID, epochs=7)(fixed(**changes)) == pytest.approx(nll(by_hand.circuit), rel=1e-12)


def test_the_start_is_the_tree_that_was_suggested():
    start = {"init": "chow-liu", "noise": 0.05, "smoothing": 2.0, "prior": "marginals"}
    learnt = OptunaObjective(TRAIN, VALID, epochs=1).circuit(fixed(**start))
    other = OptunaObjective(TRAIN, VALID, epochs=1).circuit(fixed())
    tree = fp.structures.chow_liu(TRAIN, smoothing=2.0, prior="marginals")
    assert nll(learnt) < nll(tree) + 0.05 < nll(other)


def test_epochs_are_reported_and_a_pruner_ends_a_trial():
    class AfterThree(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return trial.last_step >= 3

    trials = study_of(OptunaObjective(TRAIN, VALID, epochs=8), 8, AfterThree()).trials
    for trial in trials:
        hidden = trial.params["structure"] == "hclt"
        assert trial.state.name == ("PRUNED" if hidden else "COMPLETE")
        assert sorted(trial.intermediate_values) == ([1, 2, 3] if hidden else [])
    assert any(trial.params["structure"] == "hclt" for trial in trials)


def test_numbers_have_no_chow_liu_tree():
    numbers = np.random.default_rng(0).normal(size=(80, 3))
    objective = OptunaObjective(numbers[:40], numbers[40:], family="gaussian", epochs=3)
    study = study_of(objective, 8)
    assert {trial.params["structure"] for trial in study.trials} == {"factorized", "hclt"}
    assert all(np.isfinite(trial.value) for trial in study.trials)


def test_missing_values_are_marginalised_if_asked_for():
    holes = TRAIN.copy()
    holes[::3, 0] = np.nan
    with pytest.raises(DataError, match="missing"):
        OptunaObjective(holes, VALID, epochs=2)(fixed())
    assert np.isfinite(OptunaObjective(holes, VALID, epochs=2, missing="marginalize")(fixed()))


@pytest.mark.parametrize("option", ["epochs", "patience"])
def test_bad_options_are_named(option):
    with pytest.raises(OptionError, match=option):
        OptunaObjective(TRAIN, VALID, **{option: 0})
