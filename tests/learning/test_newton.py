"""Newton and natural-gradient steps: they end where EM does or higher, never lose likelihood, and resume bit for bit."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.curvature.layout import Layout
from flatpc.curvature.operators import operator, weighted_operator
from flatpc.errors import OptionError
from tests.oracles.random_circuits import circuits
from tests.oracles.random_circuits import rows as rows_of

METHODS = (fp.Newton(), fp.NaturalGradient())


def bits(n_rows, n_variables=6, seed=0):
    return (np.cumsum(np.random.default_rng(seed).random((n_rows, n_variables)) < 0.3, axis=1) % 2).astype(float)


def learnt(start, X, method, epochs, **options):
    return fp.fit(start, X, method=method, epochs=epochs, progress=False, n_threads=1, **options)


@pytest.mark.parametrize(
    "start",
    [fp.structures.chow_liu(bits(300), family="bernoulli", smoothing=0.0).randomize(1), fp.structures.factorized(bits(300))],
)
def test_newton_ends_at_the_counts_of_a_counted_model(start):
    X = bits(300)
    exact = learnt(start, X, fp.EM(1.0), 20, batch_size=None, dtype="float64").circuit
    found = learnt(start.randomize(3), X, fp.Newton(), 12).circuit
    assert found.log_prob(X).sum() == pytest.approx(exact.log_prob(X).sum(), abs=1e-6)
    natural = learnt(start.randomize(3), X, fp.NaturalGradient(), 12).circuit
    assert natural.log_prob(X).sum() == pytest.approx(exact.log_prob(X).sum(), abs=0.05)


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
@pytest.mark.parametrize("method", METHODS)
def test_no_step_makes_the_rows_less_likely(method, data):
    circuit = data.draw(circuits(max_variables=3, max_width=3))
    assume(all(node.family.is_free_table for node in circuit.nodes if isinstance(node, fp.Input)))
    rows = data.draw(rows_of(circuit, max_rows=6))
    rows = rows[np.isfinite(circuit.log_prob(rows, missing="marginalize"))]
    assume(len(rows) > 0)
    nll = learnt(circuit, rows, method, 4, missing="marginalize").history["train_nll"]
    assert np.isfinite(nll).all()
    assert (np.diff(nll) <= 1e-9 * (1 + abs(nll[0]))).all()


def test_continuous_inputs_learn_by_em_beside():
    rows = np.random.default_rng(0).standard_normal((200, 3)) + 3 * (np.arange(200) % 2)[:, None]
    start = fp.structures.rat_spn(3, depth=1, n_repetitions=2, n_sums=3, n_inputs=3, family="gaussian", seed=0).randomize(
        0, X=rows
    )
    nll = learnt(start, rows, fp.Newton(), 8).history["train_nll"]
    assert (np.diff(nll) < 0).all()


def test_it_reaches_an_optimum_that_em_only_comes_near_to():
    """From where 20 steps of EM end, with a prior: 10 steps of Newton leave less than 10⁻⁶ nats to win, 40 of EM far more."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 5)) < np.where(rng.random((400, 1)) < 0.5, 0.3, 0.6)).astype(float)
    options = {"batch_size": None, "dtype": "float64", "regularizer": fp.learning.Laplace(1.0)}
    start = learnt(fp.structures.hclt(X, 2, seed=0), X, fp.EM(1.0), 20, **options).circuit
    em = learnt(start, X, fp.EM(1.0), 40, **options).circuit
    newton = learnt(start, X, fp.Newton(), 10, **options).circuit
    gaps = [fp.curvature.laplace(each, X, prior=0.5).gap for each in (em, newton)]
    assert gaps[1] < 1e-6
    assert gaps[0] > 100 * gaps[1]

    def log_posterior(circuit):
        return circuit.log_prob(X).sum() + 0.5 * np.log(Layout(circuit, True).values).sum()

    assert log_posterior(newton) >= log_posterior(em)


def two_kinds(seed):
    """Rows of two kinds, how to fit them, and the log posterior of a fit."""
    rng = np.random.default_rng(seed)
    one, other = np.array([[0.2, 0.3, 0.7, 0.6, 0.4], [0.8, 0.7, 0.2, 0.3, 0.6]])
    X = (rng.random((300, 5)) < np.where(rng.random((300, 1)) < 0.5, one, other)).astype(float)

    def log_posterior(circuit):
        layout = Layout(circuit, True)
        return circuit.log_prob(X).sum() + (np.log(layout.values) / layout.edges).sum()

    return X, {"batch_size": None, "dtype": "float64", "regularizer": fp.learning.Laplace(1.0)}, log_posterior


@pytest.mark.parametrize("init", ["random", "chow-liu"])
@pytest.mark.parametrize("seed", range(6))
def test_it_ends_no_worse_than_em_run_on_from_the_same_place(init, seed):
    """EM comes near an optimum first, so that both end at the same one."""
    X, options, log_posterior = two_kinds(seed)
    start = learnt(fp.structures.hclt(X, 4, seed=seed, init=init), X, fp.EM(1.0), 300, **options).circuit
    em = learnt(start, X, fp.EM(1.0), 2000, **options).circuit
    newton = learnt(start, X, fp.Newton(), 40, **options).circuit
    assert log_posterior(newton) >= log_posterior(em) - 1e-6
    assert fp.curvature.laplace(newton, X, pseudocount=1.0).gap < 1e-6


def test_from_far_away_it_ends_at_an_optimum_which_may_be_another_one():
    """From random weights: where Newton ends lower than EM, it is at rest there, and EM run on from there stays."""
    lower = []
    for seed in (3, 4, 5):
        X, options, log_posterior = two_kinds(seed)
        start = fp.structures.hclt(X, 4, seed=seed, init="random")
        em = learnt(start, X, fp.EM(1.0), 2000, **options).circuit
        newton = learnt(start, X, fp.Newton(), 60, **options).circuit
        left = fp.curvature.laplace(newton, X, pseudocount=1.0)
        assert left.is_optimum
        assert left.gap < 1e-6
        stayed = learnt(newton, X, fp.EM(1.0), 200, **options).circuit
        assert log_posterior(stayed) == pytest.approx(log_posterior(newton), abs=1e-5)
        lower.append(log_posterior(newton) < log_posterior(em) - 0.1)
    assert any(lower)
    assert not all(lower)


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_rows_are_repetitions(method):
    X, times = bits(60), np.arange(60) % 3
    start = fp.structures.hclt(X, 3, seed=0)
    weighted = learnt(start, X, method, 4, sample_weight=times).circuit
    repeated = learnt(start, np.repeat(X, times, axis=0), method, 4).circuit
    np.testing.assert_allclose(weighted.log_prob(X), repeated.log_prob(X), rtol=1e-7)


def test_the_weighted_operator_is_that_of_repeated_rows():
    X, times = bits(40), np.arange(40) % 4 + 1
    circuit = fp.structures.hclt(X, 3, seed=0)
    found = weighted_operator(Layout(circuit, True), X, times.astype(float)).matrix()
    wanted = operator(circuit, np.repeat(X, times, axis=0), space="logits", include_inputs=True).matrix()
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_resumed_run_ends_where_a_whole_one_does(tmp_path):
    X = bits(80)
    start, path = fp.structures.hclt(X, 3, seed=0), tmp_path / "run"
    whole = learnt(start, X, "newton", 6)
    learnt(start, X, "newton", 3, run=path)
    resumed = learnt(start, X, "newton", 6, run=path)
    assert np.array_equal(resumed.history["train_nll"], whole.history["train_nll"])
    assert np.array_equal(resumed.circuit.log_prob(X), whole.circuit.log_prob(X))


def test_what_it_does_not_take_is_said():
    X = bits(30)
    start = fp.structures.hclt(X, 2)
    with pytest.raises(OptionError, match="Laplace"):
        learnt(start, X, "newton", 1, sharpness=fp.Sharpness(mu=0.1))
    with pytest.raises(OptionError, match="n_products"):
        fp.Newton(n_products=0)
    with pytest.raises(OptionError, match="step_size"):
        fp.NaturalGradient(step_size=2.0)
