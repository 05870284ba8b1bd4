"""`choose`: it can't lose to its simple candidates, says the same twice, refits as stated, and works for all kinds of tables."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

import flatpc as fp
from flatpc.errors import DataError, OptionError, ParameterError, SupportError
from flatpc.learning.auto import choose, hold_out
from flatpc.learning.auto_average import average_nll, cross_fitted_nll, members, mixture_weights
from flatpc.learning.auto_candidates import Plan
from flatpc.learning.auto_training import Task, batch_size


def bits(n_rows, n_variables=8, seed=0):
    """Two kinds of rows, in which neighbours agree or disagree."""
    rng = np.random.default_rng(seed)
    flips = rng.random((n_rows, n_variables)) < rng.choice([0.1, 0.9], (n_rows, 1))
    return (np.cumsum(flips, axis=1) % 2).astype(float)


def quick(X, valid=None, **options):
    return choose(X, valid, **{"budget": 40, "time_budget": 1e4, "progress": False, "n_threads": 1, **options})


@pytest.fixture(scope="module")
def choice():
    return quick(bits(400), bits(300, seed=1))


# ---- averaging --------------------------------------------------------------------------------------------------------


def test_weights_maximise_the_smoothed_likelihood():
    log_prob = np.random.default_rng(0).normal(-5, 2, (60, 3))

    def objective(z):
        w = log_softmax(z)
        return -logsumexp(log_prob + w, axis=1).sum() - w.sum() / 3

    best = minimize(objective, np.zeros(3), tol=1e-12)
    assert mixture_weights(log_prob) == pytest.approx(np.exp(log_softmax(best.x)), abs=1e-3)


def test_a_row_no_model_allows_is_passed_over():
    log_prob = np.log([[0.5, 0.1], [0.4, 0.2]])
    with_impossible = np.concatenate([log_prob, np.full((1, 2), -np.inf)])
    assert np.array_equal(mixture_weights(with_impossible), mixture_weights(log_prob))


def test_members_are_those_that_help():
    rng = np.random.default_rng(0)
    left = np.where(rng.random(400) < 0.5, -1.0, -9.0)
    log_prob = np.stack([left, -10.0 - left, left - 5], axis=1)
    index, weights = members(log_prob)
    assert index.tolist() == [0, 1]
    assert weights == pytest.approx([0.5, 0.5], abs=0.1)
    # A copy of the best model is no help.
    index, weights = members(np.stack([left, left], axis=1))
    assert (index.tolist(), weights.tolist()) == ([0], [1.0])
    both = log_prob[:, :2]
    assert average_nll(both, mixture_weights(both)) < cross_fitted_nll(both) < -left.mean()


# ---- choosing ---------------------------------------------------------------------------------------------------------


def test_it_does_not_lose_to_a_candidate(choice):
    valid, test = bits(300, seed=1), bits(3000, seed=2)
    for candidate in choice.candidates:
        assert choice.valid_nll <= candidate.valid_nll + 1e-9
    assert -choice.circuit.log_prob(valid).mean() == pytest.approx(choice.valid_nll, abs=1e-6)
    simple = [fp.structures.factorized(bits(400)), fp.structures.chow_liu(bits(400), family="bernoulli")]
    best = min(-circuit.log_prob(test).mean() for circuit in simple)
    # The rows are a mixture, which neither of the simple models can express.
    assert -choice.circuit.log_prob(test).mean() < best - 0.3
    names = {candidate.name.split("(")[0] for candidate in choice.candidates}
    assert names == {"factorized", "chow_liu", "tree_mixture", "hclt"}


def test_what_it_says(choice):
    assert sum(outcome.weight for outcome in choice.chosen) == pytest.approx(1)
    assert choice.chosen[0].weight == max(outcome.weight for outcome in choice.candidates)
    assert [c.valid_nll for c in choice.candidates] == sorted(c.valid_nll for c in choice.candidates)
    assert "validation rows" in choice.why
    assert "\n" not in choice.why
    assert len(choice.table().splitlines()) == len(choice.candidates) + 1
    assert any("Sharpness(mu=" in c.name for c in choice.candidates)
    assert max(c.epochs for c in choice.candidates) <= 40


def test_the_same_twice(choice):
    again = quick(bits(400), bits(300, seed=1))
    strip = [dataclasses.replace(outcome, seconds=0.0) for outcome in again.candidates]
    assert strip == [dataclasses.replace(outcome, seconds=0.0) for outcome in choice.candidates]
    X = bits(50, seed=3)
    assert np.array_equal(again.circuit.log_prob(X), choice.circuit.log_prob(X))


def test_without_validation_rows_it_holds_some_out_and_refits():
    X = bits(300)
    chosen = quick(X, budget=0, average=False)
    train, valid = hold_out(X, 0)
    assert (len(train), len(valid)) == (240, 60)
    outcome = chosen.candidates[0]
    structure = outcome.name.split("(")[0]
    build = getattr(fp.structures, structure)
    assert -build(train, family="bernoulli", **outcome.options).log_prob(valid).mean() == pytest.approx(
        outcome.valid_nll, abs=1e-9
    )
    # What is returned has seen all rows.
    assert np.allclose(
        chosen.circuit.log_prob(X), build(X, family="bernoulli", **outcome.options).log_prob(X), rtol=0, atol=1e-12
    )
    assert "held-out" in chosen.why


def test_a_hidden_model_is_refitted_as_it_was_trained():
    X = bits(300)
    chosen = quick(X, average=False, regularizer=None, sharpness=None, budget=200)
    assert chosen.candidates[0].name.startswith("hclt")
    new = bits(2000, seed=5)
    simple = fp.structures.chow_liu(X, family="bernoulli").log_prob(new).mean()
    assert chosen.circuit.log_prob(new).mean() > simple + 0.2


def task_of(X, valid):
    return Task(X, valid, [fp.Bernoulli()] * X.shape[1], 0, "raise", 1)


def test_what_follows_a_model_is_trained_as_it_was():
    task, plan = task_of(bits(400), bits(300, seed=1)), Plan("hclt", {"n_latents": 4}, trained=True)
    first, second = task.start(plan), task.start(plan)
    task.train_round(first, 12, np.inf)
    for planned in first.rounds:
        task.follow(second, planned, planned.epochs, np.inf)
    assert len(first.rounds) > 1
    assert np.allclose(task.judge(second), task.judge(first), rtol=0, atol=1e-6)
    assert second.epochs <= first.epochs


def test_a_copy_has_trees_from_a_sample_of_the_rows():
    X = np.random.default_rng(0).integers(0, 2, (1000, 20)).astype(float)
    task, plan = task_of(X, X), Plan("hclt", {"n_latents": 2, "smoothing": 1e-9}, trained=True)

    def subtrees(copy, whole):
        return set(task.start(plan, copy, whole).make().scopes)

    assert subtrees(1, 0) != subtrees(0, 0)
    assert subtrees(1, 0) != subtrees(2, 0)
    # All rows a thousand times leave the drawn ones no say.
    assert subtrees(1, 1000) == subtrees(0, 0)


def test_few_rows():
    chosen = quick(bits(10), budget=10)
    assert np.isfinite(chosen.circuit.log_prob(bits(100, seed=1))).all()
    assert chosen.seconds < 60


def test_one_variable():
    X = np.array([[0.0], [1.0], [1.0], [1.0], [1.0], [0.0]])
    assert np.exp(quick(X, X, budget=3).circuit.log_prob([[1]])[0]) == pytest.approx(4 / 6, abs=0.1)


def test_categorical_gaussian_and_mixed_tables():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 300)
    X = np.stack([group, rng.normal(3.0 * group, 0.3), rng.poisson(1 + 4 * group), group != 1], axis=1)
    mixed = quick(X, family=["categorical", "gaussian", "poisson", "bernoulli"], budget=30)
    apart = fp.structures.factorized(X, ["categorical", "gaussian", "poisson", "bernoulli"])
    assert mixed.circuit.log_prob(X).mean() > apart.log_prob(X).mean() + 1.0
    assert {c.name.split("(")[0] for c in mixed.candidates} == {"factorized", "hclt", "rat_spn"}
    discrete = quick(X[:, [0, 3]], family="categorical", budget=10)
    # The second variable follows from the first.
    assert -discrete.valid_nll > -np.log(3) - 0.2
    numbers = quick(X[:, [1]], family="gaussian", budget=30)
    assert numbers.circuit.log_prob(X[:, [1]]).mean() > fp.structures.factorized(X[:, [1]], "gaussian").log_prob(X[:, [1]]).mean()


def test_missing_values():
    X = bits(200)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    chosen = quick(X, missing="marginalize", budget=10)
    assert np.isfinite(chosen.circuit.log_prob(X, missing="marginalize")).all()
    with pytest.raises(DataError):
        quick(X, budget=10)


def test_regularizers_can_be_given():
    X = bits(200)
    chosen = quick(X, bits(100, seed=1), regularizer=None, sharpness=fp.Sharpness(mu=0.5), budget=10)
    hidden = [c for c in chosen.candidates if c.name.startswith("hclt")]
    assert hidden
    assert all(c.regularizer == (fp.Sharpness(mu=0.5),) for c in hidden)
    plain = quick(X, bits(100, seed=1), regularizer=None, sharpness=None, budget=10)
    assert not any(c.regularizer for c in plain.candidates)


def test_batches_grow():
    assert [batch_size(n, 0) for n in (5, 100, 1000, 100_000)] == [5, 100, 100, 500]
    assert [batch_size(5000, k) for k in range(6)] == [250, 500, 1000, 2000, 2000, 2000]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"time_budget": 0}, OptionError, "time_budget=0"),
        ({"budget": -1}, OptionError, "budget=-1"),
        ({"seed": -1}, OptionError, "seed=-1"),
        ({"sharpness": 0.1}, OptionError, "0.1"),
        ({"family": fp.Categorical(2), "valid": [[2.0] * 8]}, SupportError, "Column 0"),
    ],
)
def test_bad_options_are_named(options, error, match):
    with pytest.raises(error, match=match):
        quick(bits(20), **options)


def test_one_row_is_not_enough_to_choose_by():
    with pytest.raises(DataError, match="more rows"):
        quick(bits(1))


def test_where_float32_fails_it_takes_float64(monkeypatch):
    from flatpc.learning import auto_training

    used = []

    def fit(*args, dtype, **options):
        used.append(dtype)
        if dtype == "float32":
            raise ParameterError("no weights are left")
        return fp.fit(*args, dtype=dtype, **options)

    monkeypatch.setattr(auto_training, "fit", fit)
    chosen = quick(bits(100), bits(100, seed=1), budget=5)
    assert set(used) == {"float32", "float64"}
    assert any(c.epochs for c in chosen.candidates)
