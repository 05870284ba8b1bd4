"""Data softening: EM on the softened data set, written out row by row."""

import itertools

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.numba import packing
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.errors import MissingValueError, OptionError
from flatpc.learning import Softening
from flatpc.learning.regularizers.softening import Drawn, Softened
from flatpc.learning.steps.rows import TrainingRows
from tests.learning.test_em import assert_same
from tests.oracles import evaluate
from tests.oracles import flows as oracle

RNG = np.random.default_rng(0)
BINARY = (RNG.random((40, 4)) < RNG.choice([0.2, 0.8], (40, 1))).astype(float)
MANY = RNG.integers(0, 3, (30, 3)).astype(float)


def transitions(softening, X, n_values):
    """W[x, v] of each variable, by the definition."""
    out = []
    for i, n in enumerate(n_values):
        W = np.empty((n, n))
        marginal = np.array([(X[:, i] == v).sum() + 1 / n for v in range(n)]) / (len(X) + 1)
        for x, v in itertools.product(range(n), repeat=2):
            if softening.toward == "uniform":
                W[x, v] = softening.beta if x == v else (1 - softening.beta) / (n - 1)
            else:
                W[x, v] = softening.beta * (x == v) + (1 - softening.beta) * marginal[v]
        out.append(W)
    return out


def softened(circuit, X, softening):
    """Every assignment, and for each row of X its weight."""
    every = evaluate.assignments(circuit)
    W = transitions(softening, X, [family.n_categories for family in circuit.families])
    weight = np.ones((len(X), len(every)))
    for i, w in enumerate(W):
        weight *= w[X[:, i].astype(int)][:, every[:, i].astype(int)]
    np.testing.assert_allclose(weight.sum(axis=1), 1)
    return every, weight


def full_step(circuit, X, softening, step_size=1.0):
    options = {"epochs": 1, "batch_size": None, "method": fp.EM(step_size=step_size), "dtype": "float64", "progress": False}
    return fp.fit(circuit, X, regularizer=softening, **options)


def em_on(circuit, rows, weight):
    """One step of plain EM on weighted rows, from the oracle's flows."""
    sums, inputs = oracle.flows(circuit, rows, weight)
    new = {i: F / F.sum(axis=1, keepdims=True) for i, F in sums.items()}
    for i, statistics in inputs.items():
        family = circuit.nodes[i].family
        if family.learnable:
            new[i] = family.update(circuit.parameters[i], statistics)
    return new


def chow_liu_with_categorical_inputs():
    """Deterministic: indicators of the first variable choose between categorical inputs of the second."""
    nodes = [
        fp.Input(0, fp.Indicator(3), 3),
        fp.Input(1, fp.Categorical(3), 3),
        fp.Product((0, 1)),
        fp.Input(2, fp.Categorical(3)),
    ]
    nodes += [fp.Sum((2,)), fp.Product((4, 3))]
    circuit = fp.Circuit(nodes)
    return circuit.with_parameters({0: {"value": np.arange(3.0)}})


EXACT = {
    "factorized": (fp.structures.factorized(BINARY).randomize(3), BINARY),
    "chow_liu": (fp.structures.chow_liu(BINARY), BINARY),
    "chow_liu, three values": (fp.structures.chow_liu(MANY), MANY),
    "indicators and tables": (chow_liu_with_categorical_inputs(), MANY),
}


@pytest.mark.parametrize("softening", [Softening(0.9), Softening(0.8, toward="marginals")])
@pytest.mark.parametrize("name", EXACT)
def test_a_step_is_em_on_the_softened_data_set(name, softening):
    circuit, X = EXACT[name]
    every, weight = softened(circuit, X, softening)
    result = full_step(circuit, X, softening)
    expected = em_on(circuit, every, weight.sum(axis=0))
    assert_same(result.circuit, expected, rtol=1e-10)
    nll = -(weight @ evaluate.log_prob(circuit, every)).mean()
    assert result.history["train_nll"][0] == pytest.approx(nll, rel=1e-12)


def complete(circuit, X, softening):
    """For each row the value of the bound, log Σ_z exp E log p(x', z), from a circuit with one value per observed symbol."""
    W = transitions(softening, X, [family.n_categories for family in circuit.families])
    tables = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            tables[i] = np.exp(np.log(node.family.table(circuit.parameters[i])) @ W[node.variable].T)
    values = []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            value = tables[i].T[X[:, node.variable].astype(int)]
        elif isinstance(node, fp.Product):
            value = np.prod([values[c] for c in node.children], axis=0)
        else:
            value = np.concatenate([values[c] for c in node.children], axis=1) @ circuit.parameters[i].T
        values.append(value)
    return np.log(values[-1][:, 0])


@pytest.mark.parametrize("softening", [Softening(0.9), Softening(0.8, toward="marginals")])
def test_with_latents_the_bound_holds_climbs_and_is_maximised(softening):
    circuit = fp.structures.hclt(BINARY, 3, seed=2)
    every, weight = softened(circuit, BINARY, softening)
    nll = []
    for _ in range(6):
        result = full_step(circuit, BINARY, softening, 0.7)
        nll.append(result.history["train_nll"][0])
        bound = complete(circuit, BINARY, softening)
        assert nll[-1] == pytest.approx(-bound.mean(), rel=1e-12)
        assert (bound <= weight @ evaluate.log_prob(circuit, every) + 1e-12).all()
        circuit = result.circuit
    assert (np.diff(nll) < 0).all()


def test_gradients_are_those_of_the_bound():
    """The gradient of the bound in the weights and probabilities, by central differences."""
    circuit, softening = fp.structures.hclt(BINARY, 3, seed=2), Softening(0.9)
    evaluator = Evaluator(circuit, "float64", 1)
    made = Softened(softening, evaluator, TrainingRows(BINARY))
    _, gradient, inputs = made.statistics(Evidence(evaluator.program, BINARY), np.arange(40))
    weights = packing.unpack_weights(circuit, evaluator.program, gradient)
    counts = packing.unpack_statistics(circuit, evaluator.program, inputs)

    def bound(i, change):
        # Off the simplex on purpose, so that each parameter can be moved alone.
        moved = circuit._replace({**circuit.parameters, i: change})
        return complete(moved, BINARY, softening).sum()

    for i, found in weights.items():
        for at in np.ndindex(found.shape):
            step = np.zeros(found.shape)
            step[at] = 1e-6
            theta = circuit.parameters[i]
            assert (bound(i, theta + step) - bound(i, theta - step)) / 2e-6 == pytest.approx(found[at], rel=1e-6)
    for i, statistics in counts.items():
        p = circuit.parameters[i]["p"]
        for k in range(len(p)):
            step = np.zeros(len(p))
            step[k] = 1e-6
            slope = (bound(i, {"p": p + step}) - bound(i, {"p": p - step})) / 2e-6
            expected = statistics["counts"][k] @ [-1 / (1 - p[k]), 1 / p[k]]
            assert slope == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("toward", ["uniform", "marginals"])
def test_flows_of_drawn_rows_have_the_mean_of_the_softened_data_set(toward):
    rows = MANY[:10]
    circuit, softening = fp.structures.hclt(rows, 2, family=fp.Categorical(3), seed=2), Softening(0.7, toward, draws=40)
    every, weight = softened(circuit, rows, softening)
    evaluator = Evaluator(circuit, "float64", 1)
    made, evidence = Drawn(softening, evaluator, TrainingRows(rows), 0), Evidence(evaluator.program, rows)
    found = [made.statistics(evidence, np.arange(10)) for _ in range(100)]
    sums, inputs = oracle.flows(circuit, every, weight.sum(axis=0))
    samples = {i: [] for i in (*sums, *inputs)}
    for _, gradient, statistics in found:
        for i, F in packing.unpack_weights(circuit, evaluator.program, gradient * evaluator.weights).items():
            samples[i].append(F)
        for i, S in packing.unpack_statistics(circuit, evaluator.program, statistics).items():
            samples[i].append(S["counts"])
    for i, expected in (*sums.items(), *((i, S["counts"]) for i, S in inputs.items())):
        error = np.std(samples[i], axis=0) / 10
        assert (abs(np.mean(samples[i], axis=0) - expected) < 5 * error + 1e-12).all()
    log_likelihood = weight.sum(axis=0) @ evaluate.log_prob(circuit, every)
    totals = [total for total, _, _ in found]
    assert np.mean(totals) == pytest.approx(log_likelihood, abs=5 * np.std(totals) / 10)
    again = Drawn(softening, evaluator, TrainingRows(rows), 0)
    again.draws = 99
    np.testing.assert_array_equal(again.statistics(evidence, np.arange(10))[1], found[-1][1])
    holes = rows.copy()
    holes[::2, 0] = np.nan
    np.testing.assert_array_equal(np.isnan(again.draw(holes.copy())), np.isnan(holes))


def test_no_softening_changes_nothing_and_zeros_heal():
    circuit = fp.structures.hclt(BINARY, 3)
    options = {"epochs": 4, "batch_size": 10, "progress": False}
    plain, same = (fp.fit(circuit, BINARY, regularizer=r, **options).circuit for r in (None, Softening(1.0)))
    assert_same(same, plain.parameters, rtol=1e-9)
    one = BINARY.copy()
    one[:, 0] = 1
    trained = fp.fit(circuit, one, method=fp.EM(step_size=1.0), **options).circuit
    other = np.where(np.arange(4) == 0, 0.0, one[:1])
    assert np.isneginf(trained.log_prob(other))
    healed = fp.fit(trained, one, method=fp.EM(step_size=1.0), regularizer="softening", **options).circuit
    assert healed.log_prob(other) > np.log(1e-4)


def test_softening_with_adam_sharpness_and_missing_values():
    circuit = fp.structures.hclt(BINARY, 3)
    result = fp.fit(circuit, BINARY, method=fp.Adam(step_size=0.05), regularizer=Softening(0.9), epochs=8, progress=False)
    assert (np.diff(result.history["train_nll"]) < 0).all()
    holes = np.where(RNG.random(BINARY.shape) < 0.3, np.nan, BINARY)
    together = [Softening(0.9), fp.Sharpness(mu=0.1)]
    result = fp.fit(circuit, holes, regularizer=together, missing="marginalize", batch_size=None, epochs=3, progress=False)
    assert np.isfinite(result.history["train_nll"]).all()


def test_bad_input():
    for wrong in ({"beta": 0.0}, {"beta": 1.1}, {"beta": float("nan")}, {"toward": "mean"}, {"draws": 0}):
        with pytest.raises(OptionError, match="Softening"):
            Softening(**wrong)
    nodes = [fp.Input(0, fp.Indicator(2), 2), fp.Sum((0,), 2), fp.Sum((1,))]
    circuit = fp.Circuit(nodes).with_parameters({0: {"value": np.arange(2.0)}})
    with pytest.raises(OptionError, match="indicators"):
        full_step(circuit, BINARY[:, :1], Softening())
    holes = np.where(BINARY == 1, np.nan, BINARY)
    with pytest.raises(MissingValueError, match="complete rows"):
        fp.fit(fp.structures.chow_liu(BINARY), holes, regularizer="softening", missing="marginalize", progress=False)
    with pytest.raises(OptionError, match="Sharpness and Softening"):
        fp.fit(fp.structures.hclt(BINARY, 3), BINARY, method="adam", regularizer=["softening", "sharpness"], progress=False)
    both = [Softening(draws=1), "sam"]
    with pytest.raises(OptionError, match="draws change the objective"):
        fp.fit(fp.structures.hclt(BINARY, 3), BINARY, method="adam", regularizer=both, progress=False)
