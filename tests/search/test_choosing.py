"""`choose`: it can't lose to its simple candidates, says the same twice, refits as stated, and works for all kinds of tables."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from scipy.stats import multivariate_normal

import flatpc as fp
from flatpc.engine import clock
from flatpc.errors import DataError, OptionError, ParameterError, SupportError
from flatpc.search import choose, choosing
from flatpc.search.averaging import average_nll, cross_fitted_nll, members, mixture_weights
from flatpc.search.counted import Counted
from flatpc.search.findings import Findings
from flatpc.search.judging import Split, splits
from flatpc.search.plans import Plan
from flatpc.search.samples import Sample
from flatpc.search.training import Task, batch_size


def bits(n_rows, n_variables=8, seed=0):
    """Two kinds of rows, in which neighbours agree or disagree."""
    rng = np.random.default_rng(seed)
    flips = rng.random((n_rows, n_variables)) < rng.choice([0.1, 0.9], (n_rows, 1))
    return (np.cumsum(flips, axis=1) % 2).astype(float)


def quick(X, valid=None, **options):
    return choose(X, **{"valid": valid, "effort": 1.0, "progress": False, "n_threads": 1, **options})


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


@pytest.mark.parametrize(("gain", "front"), [(0.05, 0), (0.5, 1)])
def test_another_front_has_to_be_clearly_better_on_average(gain, front):
    """Behind front 1, two models that tell of other rows; their average beats the best model by `gain`, two errors being 0.1."""
    search, noise = Findings(), np.random.default_rng(0).normal(0, 1, 400)
    rows = Sample(np.zeros((400, 0)))
    even = np.arange(400) // 2 % 2 == 0  # each half of the judges has both
    half, best = np.log(2), np.full(400, -5.0)
    logs = [best, *(np.where(rare, -20.0, -5.0 + half + gain + noise - noise.mean()) for rare in (even, ~even))]
    search.average, search.task = True, SimpleNamespace(judges=rows, judge=lambda model: model.logs, splits=[None])
    models = [
        SimpleNamespace(logs=each, valid_nll=-each.mean(), plan=Plan("mixture", front=min(i, 1))) for i, each in enumerate(logs)
    ]
    chosen, weights, log_prob = search._averaged(models)
    assert [model.plan.front for model in chosen] == [front] * (1 + front)
    assert weights == pytest.approx(np.full(1 + front, 1 / (1 + front)), abs=0.01)
    assert log_prob.shape == (400, 1 + front)


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
    names = {candidate.structure for candidate in choice.candidates}
    assert names == {"factorized", "chow_liu", "tree_mixture", "hclt"}


def test_what_it_says(choice):
    assert sum(outcome.weight for outcome in choice.chosen) == pytest.approx(1)
    assert choice.chosen[0].weight == max(outcome.weight for outcome in choice.candidates)
    assert [c.valid_nll for c in choice.candidates] == sorted(c.valid_nll for c in choice.candidates)
    assert "validation rows" in choice.why
    assert "\n" not in choice.why
    assert len(choice.table().splitlines()) == len(choice.candidates) + 1
    assert any("Sharpness(mu=" in c.name for c in choice.candidates)
    assert choice.work < 2.0


def test_the_same_twice(choice):
    again = quick(bits(400), bits(300, seed=1))
    assert again.candidates == choice.candidates
    assert again.work == choice.work
    X = bits(50, seed=3)
    assert np.array_equal(again.circuit.log_prob(X), choice.circuit.log_prob(X))


def test_without_validation_rows_all_judge_in_turn_and_the_choice_is_fitted_to_all():
    X = bits(300)
    chosen = quick(X, structure="chow_liu", average=False)
    outcome = chosen.candidates[0]
    build = fp.structures.chow_liu
    folds = splits(Sample(X), None, "auto", 0)
    log_prob = [build(s.train.X, family="bernoulli", **outcome.options).log_prob(s.valid.X) for s in folds]
    assert -np.concatenate(log_prob).mean() == pytest.approx(outcome.valid_nll, abs=1e-9)
    assert (chosen.n_judges, chosen.judge, chosen.refitted) == (300, "rows in turn", True)
    # What is returned has seen all rows.
    expected = build(X, family="bernoulli", **outcome.options).log_prob(X)
    assert np.allclose(chosen.circuit.log_prob(X), expected, rtol=0, atol=1e-12)


def test_one_thread_and_two_give_the_same_circuit():
    X = bits(400, n_variables=20)
    one, two = (choose(X, effort=1.0, progress=False, n_threads=n) for n in (1, 2))
    assert one.candidates == two.candidates
    assert np.array_equal(one.circuit.log_prob(X), two.circuit.log_prob(X))


def test_the_estimator_gives_the_same_circuit():
    X = bits(200)
    choice = choose(X, effort=1.0, seed=3, progress=False)
    density = fp.CircuitDensity(effort=1.0, random_state=3, verbose=False).fit(X)
    assert density.candidates_ == choice.candidates
    assert np.array_equal(density.score_samples(X), choice.circuit.log_prob(X))


@pytest.mark.parametrize("effort", ["quick", 1.0])
def test_all_doors_give_the_same_bytes_twice_on_one_thread_and_two(effort, tmp_path):
    X = bits(120, n_variables=20, seed=4)

    def saved(circuit):
        circuit.save(tmp_path / "circuit")
        return (tmp_path / "circuit").read_bytes()

    found = [saved(choose(X, effort=effort, seed=2, progress=False, n_threads=n).circuit) for n in (1, 1, 2)]
    found.append(saved(fp.CircuitDensity(effort=effort, random_state=2, verbose=False).fit(X).circuit_))
    assert len(set(found)) == 1
    assert saved(choose(X, effort=effort, seed=3, progress=False).circuit) != found[0]


def test_the_time_limit_says_so():
    choice = quick(bits(400), effort=60, time_budget=0.3)
    assert choice.cut_short == "time budget"
    assert choice.work < 60
    assert np.isfinite(choice.circuit.log_prob(bits(50, seed=1))).all()
    none = quick(bits(200), time_budget=1e-9, structure="hclt")
    assert (none.cut_short, len(none.candidates)) == ("time budget", 1)


def test_the_time_limit_is_of_all_that_is_chosen(monkeypatch):
    """What tells families apart takes its time, too; whatever is begun is given up between two folds."""
    late, real = [0.0], clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + late[0])

    def slowly(*given, chosen=choosing.choose_families):
        late[0] += 100.0
        return chosen(*given)

    monkeypatch.setattr(choosing, "choose_families", slowly)
    choice = quick(bits(200), effort=60, time_budget=50.0)
    assert (choice.cut_short, len(choice.candidates)) == ("time budget", 1)
    assert choice.seconds > 100
    monkeypatch.undo()

    folds = []

    def each(self, plan, fit=Counted.fit):
        folds.append(plan)
        late[0] += 20.0
        return fit(self, plan)

    monkeypatch.setattr(clock, "now", lambda: real() + late[0])
    monkeypatch.setattr(Counted, "fit", each)
    assert quick(bits(200), effort=60, time_budget=150.0).cut_short == "time budget"
    # Five of the first model, three of the next one, and the first one again from all rows.
    assert len(folds) == 9


def test_floors_of_the_variance_fall_while_that_helps():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 400) + 0.01 * rng.standard_normal(400)  # four spikes a hundredth wide
    rows = np.column_stack([100 * x, rng.standard_normal(400), np.full(400, 7.0)])
    found = quick(rows, family="gaussian", structure="mixture", n_latents=8, average=False, effort=4.0)
    assert "variances from 0.0001" in found.name
    smooth = quick(rng.standard_normal((400, 2)), family="gaussian", structure="mixture", n_latents=4, average=False, effort=4.0)
    assert "variances" not in smooth.name


def test_skewed_columns_are_mapped_and_answers_are_in_their_units():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(900, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    rows = np.exp(np.column_stack([z, -z[:, 0] + 0.5 * rng.normal(size=900)]))
    found = quick(rows[:300], rows[300:400], family="gaussian")
    assert "of mapped columns" in found.name
    new = rows[400:]
    names = [c.name for c in found.candidates]
    assert "independent columns, smoothing 1" in names
    assert "independent columns, smoothing 1, of mapped columns" in names
    # The density of the logarithms is known, but for its parameters.
    covariance = np.cov(np.log(rows[:400]).T)
    best = multivariate_normal(np.zeros(3), covariance).logpdf(np.log(new)) - np.log(new).sum(axis=1)
    assert found.circuit.log_prob(new).mean() > best.mean() - 0.5
    assert (found.circuit.sample(300, seed=0) > 0).all()


def test_rows_that_judge_twice_count_once():
    """Few rows are folded twice."""
    assert quick(bits(60), effort=1.0).n_judges == 60


def test_many_rows_are_sampled_for_the_choice_and_all_are_learnt_from(monkeypatch):
    from flatpc.search import training

    monkeypatch.setattr(training, "MOST_ROWS", 200)
    monkeypatch.setattr(training, "LARGE", 300)
    used = []
    learn = training.fit

    def fit(circuit, rows, **options):
        used.append(len(rows))
        return learn(circuit, rows, **options)

    monkeypatch.setattr(training, "fit", fit)
    rows = np.random.default_rng(0).normal(size=(600, 2))
    quick(rows, rows[:50], family="gaussian", structure="mixture", effort=2.0, average=False)
    assert set(used) == {200, 600}
    assert used.index(600) > used.count(200) / 2


def test_what_a_sample_chose_is_doubled_for_all_rows(monkeypatch):
    """A mixture of correlated columns and a copy of it learn from all rows as one, in batches, and do better than either."""
    from flatpc.search import training

    monkeypatch.setattr(training, "MOST_ROWS", 400)
    monkeypatch.setattr(training, "LARGE", 600)
    monkeypatch.setattr(training, "PART_ROWS", 100)
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 3000)
    rows = np.column_stack([np.cos(angle), np.sin(angle), np.cos(3 * angle)]) + 0.02 * rng.normal(size=(3000, 3))
    best, *others = [
        c for c in quick(rows[:2000], rows[2000:], family="gaussian", effort=3.0).candidates if "correlated" in c.name
    ]
    chosen = max((c for c in others if c.options["n_latents"] < best.options["n_latents"]), key=lambda c: c.options["n_latents"])
    assert best.options["n_latents"] == 2 * chosen.options["n_latents"]
    assert best.valid_nll < chosen.valid_nll - 0.05


def test_a_hidden_model_is_refitted_as_it_was_trained():
    X = bits(300)
    chosen = quick(X, average=False, regularizer=None, sharpness=None)
    assert chosen.candidates[0].structure == "hclt"
    new = bits(2000, seed=5)
    simple = fp.structures.chow_liu(X, family="bernoulli").log_prob(new).mean()
    assert chosen.circuit.log_prob(new).mean() > simple + 0.2


def task_of(X, valid):
    return Task([Split(Sample(X), Sample(valid))], [fp.Bernoulli()] * X.shape[1], 0, "raise", 1, [True] * X.shape[1])


def test_what_follows_a_model_is_trained_as_it_was():
    task, plan = task_of(bits(400), bits(300, seed=1)), Plan("hclt", {"n_latents": 4}, trained=True)
    first, second = task.start(plan), task.start(plan)
    task.train_round(first, 12, np.inf)
    for planned in first.rounds:
        task.follow(second, planned, planned.epochs)
    assert len(first.rounds) > 1
    assert np.allclose(task.judge(second), task.judge(first), rtol=0, atol=1e-6)
    assert second.epochs <= first.epochs


def test_a_copy_has_trees_from_a_sample_of_the_rows():
    X = np.random.default_rng(0).integers(0, 2, (1000, 20)).astype(float)
    task, plan = task_of(X, X), Plan("hclt", {"n_latents": 2, "smoothing": 1e-9}, trained=True)

    def subtrees(copy, whole):
        return set(task.start(plan, copy, whole).parts[0].make().scopes)

    assert subtrees(1, 0) != subtrees(0, 0)
    assert subtrees(1, 0) != subtrees(2, 0)
    # All rows a thousand times leave the drawn ones no say.
    assert subtrees(1, 1000) == subtrees(0, 0)


def test_few_rows():
    chosen = quick(bits(10))
    assert np.isfinite(chosen.circuit.log_prob(bits(100, seed=1))).all()
    assert "too few" not in chosen.why


def test_one_variable():
    X = np.array([[0.0], [1.0], [1.0], [1.0], [1.0], [0.0]])
    assert np.exp(quick(X, X).circuit.log_prob([[1]])[0]) == pytest.approx(4 / 6, abs=0.1)


def test_categorical_gaussian_and_mixed_tables():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 300)
    X = np.stack([group, rng.normal(3.0 * group, 0.3), rng.poisson(1 + 4 * group), group != 1], axis=1)
    mixed = quick(X, family=["categorical", "gaussian", "poisson", "bernoulli"], effort=2.0)
    apart = fp.structures.factorized(X, family=["categorical", "gaussian", "poisson", "bernoulli"])
    assert mixed.circuit.log_prob(X).mean() > apart.log_prob(X).mean() + 1.0
    assert {c.structure for c in mixed.candidates} >= {"factorized", "hclt", "mixture"}
    discrete = quick(X[:, [0, 3]], family="categorical")
    # The second variable follows from the first.
    assert -discrete.valid_nll > -np.log(3) - 0.2
    numbers = quick(X[:, [1]], family="gaussian")
    assert (
        numbers.circuit.log_prob(X[:, [1]]).mean()
        > fp.structures.factorized(X[:, [1]], family="gaussian").log_prob(X[:, [1]]).mean()
    )


def test_missing_values():
    X = bits(200)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    chosen = quick(X, missing="marginalize")
    assert np.isfinite(chosen.circuit.log_prob(X, missing="marginalize")).all()
    with pytest.raises(DataError):
        quick(X)


def test_regularizers_can_be_given():
    X = bits(200)
    chosen = quick(X, bits(100, seed=1), regularizer=None, sharpness=fp.Sharpness(mu=0.5))
    hidden = [c for c in chosen.candidates if c.structure == "hclt"]
    assert hidden
    assert all(c.regularizer == (fp.Sharpness(mu=0.5),) for c in hidden)
    plain = quick(X, bits(100, seed=1), regularizer=None, sharpness=None)
    assert not any(c.regularizer for c in plain.candidates)


def test_batches_grow():
    assert [batch_size(n, 0) for n in (5, 100, 1000, 100_000)] == [5, 100, 100, 500]
    assert [batch_size(5000, k) for k in range(6)] == [250, 500, 1000, 2000, 2000, 2000]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"time_budget": 0}, OptionError, "time_budget=0"),
        ({"effort": -1}, OptionError, "effort=-1"),
        ({"structure": "forest"}, OptionError, "structure='forest'"),
        ({"seed": -1}, OptionError, "seed=-1"),
        ({"n_latents": None}, OptionError, "n_latents=None; .*auto"),
        ({"sharpness": 0.1}, OptionError, "0.1"),
        ({"family": fp.Categorical(2), "valid": [[2.0] * 8]}, SupportError, "Column 'x0'"),
    ],
)
def test_bad_options_are_named(options, error, match):
    with pytest.raises(error, match=match):
        quick(bits(20), **options)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_too_few_rows_to_choose_by(n):
    choice = quick(bits(n))
    assert f"too few rows ({n})" in choice.why
    assert np.isfinite(choice.circuit.log_prob(bits(20))).all()


def test_where_float32_fails_it_takes_float64(monkeypatch):
    from flatpc.search import training

    used = []

    def fit(*args, dtype, **options):
        used.append(dtype)
        if dtype == "float32":
            raise ParameterError("no weights are left")
        return fp.fit(*args, dtype=dtype, **options)

    monkeypatch.setattr(training, "fit", fit)
    chosen = quick(bits(100), bits(100, seed=1))
    assert set(used) == {"float32", "float64"}
    assert any(c.epochs for c in chosen.candidates)


@pytest.mark.parametrize("structure", ["factorized", "mixture", "hclt", "rat_spn"])
def test_every_structure_can_be_insisted_on(structure):
    X = np.random.default_rng(0).normal(size=(60, 3))
    choice = fp.choose(X, family="gaussian", structure=structure, effort=0.5, progress=False)
    assert np.isfinite(choice.circuit.log_prob(X)).all()


# ---- judges that no model allows --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("largest", [1e125, 1e155, 1e200, 1e300])
def test_one_number_too_large_to_be_squared_is_refused_by_name(largest):
    rng = np.random.default_rng(0)
    x, zeros = rng.lognormal(size=300), np.where(rng.random(300) < 0.2, 0.0, rng.normal(size=300))
    x[7] = zeros[7] = largest
    for column in (x, zeros):
        density = fp.CircuitDensity(effort=2, verbose=False)
        with pytest.raises(DataError, match=r"Column 'mass' has numbers around \de\+\d+; state it in a unit"):
            density.fit(pd.DataFrame({"mass": column, "y": rng.normal(size=300)}))


def test_validation_rows_that_no_model_allows_are_refused_by_name():
    X = np.random.default_rng(0).normal(size=(300, 2))
    valid = X[:50].copy()
    valid[3, 1] = 1e300
    with pytest.raises(DataError, match=r"Column 'x1' has 1e\+300 in validation row 3, .* leave the row out"):
        quick(X, valid, family="gaussian", effort=0.1)
    density = fp.CircuitDensity(effort=0.1, verbose=False)
    with pytest.raises(DataError, match="Column 'b' has 1e\\+300 in validation row 3"):
        density.fit(pd.DataFrame(X, columns=["a", "b"]), valid=pd.DataFrame(valid, columns=["a", "b"]))


def test_rows_in_turn_that_no_model_allows_leave_the_first_model(monkeypatch):
    own = Task.judge

    def judge(task, candidate):
        candidate.valid_nll = np.inf
        return np.full(len(own(task, candidate)), -np.inf)

    monkeypatch.setattr(Task, "judge", judge)
    monkeypatch.setattr(Task, "_mean", lambda task, parts: np.inf)
    choice = quick(bits(60, 3), effort=0.1)
    assert (choice.best.structure, choice.valid_nll, choice.n_judges) == ("factorized", np.inf, 60)
    assert np.isfinite(choice.circuit.log_prob(bits(60, 3))).all()
    assert "-inf nats per row on 60 rows in turn" in choice.why
