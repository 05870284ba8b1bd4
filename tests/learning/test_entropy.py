"""Entropy regularisation: each unit's optimum against scipy's, the entropy against enumeration, and that EM climbs."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax, wrightomega
from scipy.stats import binom, norm, poisson

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.errors import OptionError, TiedParametersError
from flatpc.learning import Entropy, Laplace
from flatpc.learning._kernels import entropy as kernels
from flatpc.learning.steps.topdown import entropies, top_down
from tests.learning.test_em import assert_same, by_definition
from tests.oracles import evaluate
from tests.oracles import flows as oracle

RNG = np.random.default_rng(0)
X = (RNG.random((50, 4)) < RNG.choice([0.2, 0.8], (50, 1))).astype(float)


def maximise(a, e, b, exists, out):
    return kernels.maximise(a, e, b, exists, out, np.empty(len(a)))


def optimum(a, e, b):
    """The maximum over the simplex by BFGS on logits."""

    def loss(z):
        phi, theta = log_softmax(z), softmax(z)
        value = a @ phi + b * (theta @ (e - phi))
        inner = e - phi - theta @ (e - phi)
        return -value, -(a - a.sum() * theta + b * theta * inner)

    start = np.log((a + 0.1) / (a + 0.1).sum())
    return softmax(minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-13, "maxiter": 2000}).x)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 30.0])
def test_a_unit_is_at_scipys_optimum(scale):
    rng = np.random.default_rng(int(100 * scale))
    for n in (2, 3, 7):
        for _ in range(10):
            a, e = rng.gamma(0.5, 2.0, n) + 1e-3, rng.exponential(1.0, n)
            b, found = scale * rng.random(), np.empty(n)
            assert maximise(a, e, b, np.ones(n, bool), found)
            np.testing.assert_allclose(found, optimum(a, e, b), atol=1e-8)


def test_a_unit_satisfies_its_equation_at_the_extremes():
    """The multiplier a/θ + b (e - log θ - 1) is one number for all edges."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(2, 40))
        a = 10.0 ** rng.uniform(-12, 5, n)
        e, b, found = rng.exponential(2.0, n), 10.0 ** rng.uniform(-10, 6), np.empty(n)
        assert maximise(a, e, b, np.ones(n, bool), found)
        assert found.sum() == pytest.approx(1, abs=1e-14)
        multiplier = a / found + b * (e - np.log(found) - 1)
        np.testing.assert_allclose(multiplier, multiplier[0], rtol=1e-9, atol=1e-9 * (a.sum() + b))


def test_edges_without_flow_and_without_existence():
    found, all_of_them = np.empty(3), np.ones(3, bool)
    zero = np.zeros(3)
    assert maximise(zero, zero, 2.0, all_of_them, found)
    np.testing.assert_allclose(found, 1 / 3)
    e = np.array([0.0, 1.0, 2.0])
    assert maximise(zero, e, 2.0, all_of_them, found)
    np.testing.assert_allclose(found, softmax(e), rtol=1e-13)
    assert maximise(np.array([1.0, 3.0, 0.0]), e, 0.0, all_of_them, found)
    np.testing.assert_allclose(found, [0.25, 0.75, 0])
    assert maximise(np.array([1.0, 3.0, 9.0]), zero, 2.0, np.array([True, True, False]), found)
    np.testing.assert_allclose(found[:2], optimum(np.array([1.0, 3.0]), np.zeros(2), 2.0), atol=1e-8)
    assert found[2] == 0
    assert not maximise(zero, e, 0.0, all_of_them, found)


def test_wright_omega():
    z = np.concatenate([np.linspace(-800, 800, 4001), np.linspace(-3, 3, 2001)])
    np.testing.assert_allclose([kernels.wright_omega(x, 0.0) for x in z], wrightomega(z), rtol=1e-14)
    # A guess, however bad, changes nothing.
    for guess in (1e-20, 0.3, 5.0, 1e4):
        np.testing.assert_allclose([kernels.wright_omega(x, guess) for x in z], wrightomega(z), rtol=1e-14)


# ---- whole circuits -----------------------------------------------------------------------------------------------


def unit_by_unit(circuit, rows, entropy, alpha, pseudocount):
    """One M-step from the definition: units from the root down, scipy's optimum for each."""
    sums, inputs = oracle.flows(circuit, rows)
    uncertain = entropies(Evaluator(circuit))
    new = dict(circuit.parameters)
    for i in reversed(range(len(circuit.nodes))):
        node = circuit.nodes[i]
        t = top_down(Evaluator(circuit.with_parameters(new)))[i] * entropy.tau * len(rows)
        if i in sums:
            ends = np.concatenate([uncertain[c] for c in node.children]) * entropy.children
            F = sums[i] + pseudocount / sums[i].shape[1]
            best = np.stack([optimum(F[k], ends, t[k]) for k in range(len(F))])
            new[i] = (1 - alpha) * new[i] + alpha * best
        elif isinstance(node, fp.Input):
            F = inputs[i]["counts"] + pseudocount / 2
            best = np.array([optimum(F[k], np.zeros(2), t[k])[1] for k in range(len(F))])
            new[i] = {"p": (1 - alpha) * new[i]["p"] + alpha * best}
    return new


@pytest.mark.parametrize("children", [False, True])
def test_a_step_is_that_of_the_definition(children):
    circuit, entropy = fp.structures.hclt(X, 3, seed=1), Entropy(0.2, children=children)
    together = [entropy, Laplace(0.5)]
    found = fp.fit(
        circuit, X, regularizer=together, epochs=1, batch_size=None, method=fp.EM(step_size=0.7), progress=False
    ).circuit
    expected = unit_by_unit(circuit, X, entropy, 0.7, 0.5)
    for i, value in expected.items():
        for name in value if isinstance(value, dict) else [None]:
            a, b = (found.parameters[i], value) if name is None else (found.parameters[i][name], value[name])
            np.testing.assert_allclose(a, b, atol=1e-8)


def test_without_tau_it_is_plain_em():
    circuit = fp.structures.rat_spn(4, 2, 2, 3, 2, family="bernoulli")
    options = {"epochs": 1, "batch_size": None, "method": fp.EM(step_size=0.4), "dtype": "float64", "progress": False}
    found = fp.fit(circuit, X, regularizer=[Entropy(0.0), Laplace(0.3)], **options).circuit
    assert_same(found, by_definition(circuit, X, 0.4, 0.3))


def objective(circuit, tau):
    return circuit.log_prob(X).mean() + tau * entropies(Evaluator(circuit))[-1][0]


def test_the_entropy_of_a_deterministic_circuit_is_that_of_the_distribution():
    circuit = fp.structures.chow_liu(X)
    log_prob = evaluate.log_prob(circuit, evaluate.assignments(circuit))
    assert entropies(Evaluator(circuit))[-1][0] == pytest.approx(-(np.exp(log_prob) * log_prob).sum(), rel=1e-12)


def test_the_entropy_is_a_sum_over_units():
    """H = Σ t(n) H(θ_n) for every kind of node, and for the families of inputs scipy's entropies."""
    from tests.engine.conformance import circuits

    for name in ("every_node-categorical", "rat_spn-gaussian", "poon_domingos-binomial", "hmm_homogeneous-poisson"):
        circuit = circuits()[name]
        t, total = top_down(Evaluator(circuit)), 0.0
        for i, node in enumerate(circuit.nodes):
            p = circuit.parameters.get(i)
            if isinstance(node, fp.Product):
                continue
            if not isinstance(node, fp.Input):
                mine = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=1)
            elif isinstance(node.family, fp.Gaussian):
                mine = norm.entropy(p["mean"], np.sqrt(p["variance"]))
            elif isinstance(node.family, fp.Poisson):
                mine = poisson.entropy(p["rate"])
            elif isinstance(node.family, fp.Binomial):
                mine = binom.entropy(node.family.n, p["p"])
            else:
                mine = -(p["p"] * np.log(p["p"])).sum(axis=1)
            total += t[i] @ mine
        assert entropies(Evaluator(circuit))[-1][0] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("make", [lambda: fp.structures.chow_liu(X), lambda: fp.structures.hclt(X, 3, seed=3)])
@pytest.mark.parametrize("step_size", [1.0, 0.5])
def test_with_childrens_entropies_em_climbs(make, step_size):
    circuit, tau = make(), 0.3
    values = [objective(circuit, tau)]
    for _ in range(12):
        options = {"epochs": 1, "batch_size": None, "method": fp.EM(step_size=step_size), "progress": False}
        circuit = fp.fit(circuit, X, regularizer=Entropy(tau, children=True), **options).circuit
        values.append(objective(circuit, tau))
    assert (np.diff(values) > -1e-12).all()
    assert values[-1] > values[0] + 1e-3


def test_it_ends_where_no_unit_can_do_better():
    """A stationary point of mean log-likelihood + τ H(p), H by enumeration, in every direction of the simplices."""
    circuit, tau = fp.structures.chow_liu(X), 0.3
    entropy = Entropy(tau, children=True)
    circuit = fp.fit(
        circuit, X, regularizer=entropy, epochs=300, batch_size=None, method=fp.EM(step_size=1.0), progress=False
    ).circuit
    every = evaluate.assignments(circuit)

    def value(i, theta):
        log_prob = evaluate.log_prob(circuit._replace({**circuit.parameters, i: theta}), every)
        return circuit._replace({**circuit.parameters, i: theta}).log_prob(X).mean() - tau * (np.exp(log_prob) * log_prob).sum()

    for i, theta in circuit.parameters.items():
        if isinstance(theta, dict) or theta.shape[1] != 2:
            continue
        for k in range(len(theta)):
            step = np.zeros(theta.shape)
            step[k] = 1e-5, -1e-5
            assert (value(i, theta + step) - value(i, theta - step)) / 2e-5 == pytest.approx(0, abs=1e-7)


def test_entropy_grows_with_tau_and_batches_agree():
    circuit = fp.structures.hclt(X, 4)
    found = []
    for tau in (0.0, 0.01, 0.1, 1.0):
        made = fp.fit(circuit, X, regularizer=Entropy(tau), epochs=20, batch_size=20, progress=False).circuit
        found.append(entropies(Evaluator(made))[-1][0])
    assert (np.diff(found) > 0).all()
    options = {"epochs": 1, "method": fp.EM(step_size=1.0), "regularizer": Entropy(0.1), "progress": False}
    twice = np.tile(X, (2, 1))
    once, other = (fp.fit(circuit, rows, batch_size=None, **options).circuit for rows in (X, twice))
    assert_same(once, other.parameters, rtol=1e-10)


def test_bad_input():
    with pytest.raises(OptionError, match="tau"):
        Entropy(-1.0)
    circuit = fp.structures.hmm(4, 3, family="bernoulli", homogeneous=True)
    with pytest.raises(TiedParametersError, match="share parameters"):
        fp.fit(circuit, X, regularizer="entropy", progress=False)
    circuit = fp.structures.hclt(X, 3)
    with pytest.raises(OptionError, match="Entropy and Sharpness can't be combined"):
        fp.fit(circuit, X, regularizer="entropy", sharpness=fp.Sharpness(), progress=False)
    with pytest.raises(OptionError, match="M-step of EM"):
        fp.fit(circuit, X, regularizer="entropy", method="adam", progress=False)
