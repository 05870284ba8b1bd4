"""EM: it climbs, its steps are those of the definition, and its halves, batches and units fit together."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.learning import Laplace
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps.em_learner import EMLearner
from tests.engine.conformance import circuits
from tests.oracles import flows as oracle

NAMES = sorted(circuits())


def rows_for(circuit, n=40, seed=0):
    rng = np.random.default_rng(seed)
    columns = []
    for family in circuit.families:
        if isinstance(family, fp.Gaussian):
            columns.append(rng.standard_normal(n))
        elif isinstance(family, fp.Poisson):
            columns.append(rng.poisson(3, n).astype(float))
        else:
            columns.append(rng.integers(0, family.n_categories, n).astype(float))
    return np.stack(columns, axis=1)


def learner(circuit, X, *regularizers, step_size=1.0):
    evaluator = Evaluator(circuit, "float64", 1)
    method, parts = fp.EM(step_size), [part for part in regularizers if part is not None]
    return EMLearner(evaluator, len(X), method, Regularizers.read(parts, method)), Evidence(evaluator.program, X)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step_size", [1.0, 0.4])
def test_full_batch_em_climbs(name, step_size):
    circuit = circuits()[name]
    X = rows_for(circuit)
    X[::7, 0] = np.nan
    result = fp.fit(
        circuit,
        X,
        epochs=8,
        batch_size=None,
        method=fp.EM(step_size=step_size),
        missing="marginalize",
        dtype="float64",
        progress=False,
    )
    nll = result.history["train_nll"]
    assert (np.diff(nll) <= 1e-10 * abs(nll[:-1])).all()
    assert nll[-1] < nll[0] - 1e-6 or name == "from_edges"
    last = -result.circuit.log_prob(X, missing="marginalize").mean()
    assert last <= nll[-1] + 1e-10 * abs(last)


def by_definition(circuit, X, alpha, pseudocount, mu=0.0, mu_inputs=0.0):
    """One M-step written down node by node from the oracle's flows; the quadratic update, renormalised."""
    sums, inputs = oracle.flows(circuit, X)
    new = {}
    for i, F in sums.items():
        mask = getattr(circuit.nodes[i], "mask", None)
        mask = np.ones(F.shape) if mask is None else mask
        F = F + mask * pseudocount / mask.sum(axis=1, keepdims=True)
        root = F + np.sqrt(F * F + 4 * mu * F)
        total = root.sum(axis=1, keepdims=True)
        estimate = np.where(total > 0, root / np.where(total > 0, total, 1), circuit.parameters[i])
        new[i] = (1 - alpha) * circuit.parameters[i] + alpha * estimate
    for i, statistics in inputs.items():
        family, old = circuit.nodes[i].family, circuit.parameters[i]
        if isinstance(family, fp.Bernoulli | fp.Categorical) and mu_inputs:
            F = statistics["counts"] + pseudocount / family.n_categories
            statistics, pseudocount_left = {"counts": F + np.sqrt(F * F + 4 * mu_inputs * F)}, 0.0
        else:
            pseudocount_left = pseudocount
        made = family.update(old, statistics, pseudocount_left)
        if isinstance(family, fp.Gaussian):
            moments = [(p["mean"], p["variance"] + p["mean"] ** 2) for p in (old, made)]
            mean, second = ((1 - alpha) * a + alpha * b for a, b in zip(*moments, strict=True))
            new[i] = {"mean": mean, "variance": second - mean**2}
        elif family.learnable:
            new[i] = {name: (1 - alpha) * old[name] + alpha * made[name] for name in old}
    return new


def assert_same(circuit, expected, rtol=1e-9):
    for i, value in expected.items():
        found = circuit.parameters[i]
        for name in value if isinstance(value, dict) else [None]:
            a, b = (found, value) if name is None else (found[name], value[name])
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_that_of_the_definition(name):
    circuit = circuits()[name]
    X = rows_for(circuit, 15)
    options = {"epochs": 1, "batch_size": None, "dtype": "float64", "progress": False}
    plain = fp.fit(circuit, X, method=fp.EM(step_size=0.3), regularizer=fp.learning.Laplace(0.7), **options).circuit
    assert_same(plain, by_definition(circuit, X, 0.3, 0.7))
    sharp = fp.Sharpness(mu=0.8, inputs=True)
    assert_same(
        fp.fit(circuit, X, method=fp.EM(step_size=0.6), sharpness=sharp, **options).circuit,
        by_definition(circuit, X, 0.6, 0, 0.8, 0.8),
    )
    sums_only = fp.Sharpness(mu=0.8)
    assert_same(
        fp.fit(circuit, X, method=fp.EM(step_size=0.6), sharpness=sums_only, **options).circuit,
        by_definition(circuit, X, 0.6, 0, 0.8),
    )


SHARPNESS = [
    None,
    fp.Sharpness(mu=0.5),
    fp.Sharpness(mu=0.5, update="cubic", inputs=True),
    fp.Sharpness(mu=0.1, multiplier="exact", inputs=True),
    fp.Sharpness(mu=0.01, update="cubic", multiplier="exact", inputs=True),
    fp.Sharpness(mu=0.5, update="cubic", multiplier="exact", unit="mean-flow", inputs=True),
    fp.Sharpness(mu=0.5, multiplier="exact", unit="mean-flow", inputs=True),
    fp.Sharpness(mu=0.5, unit="mean-flow", inputs=True),
    fp.Sharpness(mu="mean-flow"),
]
SOME = ["every_node-categorical", "hclt-bernoulli", "rat_spn-gaussian", "hmm_homogeneous-poisson"]


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("sharpness", SHARPNESS)
def test_a_batch_counts_as_a_share_of_the_data(name, sharpness):
    """A quarter of the data with the same content as the whole gives the same step: μ and pseudocounts are scaled."""
    circuit = circuits()[name]
    X = np.tile(rows_for(circuit, 12), (4, 1))
    made = []
    for rows in (np.arange(48), np.arange(12)):
        em, evidence = learner(circuit, X, sharpness, Laplace(2.0, on="sums"), Laplace(1.0, on="inputs"))
        em.step(evidence, rows, 0.0)
        made.append(em.circuit())
    assert_same(made[0], {i: p for i, p in made[1].parameters.items() if circuit.owners[i] == i}, rtol=1e-10)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("sharpness", SHARPNESS)
def test_statistics_add_up(name, sharpness):
    circuit = circuits()[name]
    X = rows_for(circuit, 30)
    em, evidence = learner(circuit, X, sharpness, Laplace(0.5, on="sums"), step_size=0.7)
    halves = em.accumulate(evidence, np.arange(11)) + em.accumulate(evidence, np.arange(11, 30))
    em.update(halves)
    once, evidence = learner(circuit, X, sharpness, Laplace(0.5, on="sums"), step_size=0.7)
    log_likelihood = once.step(evidence, np.arange(30), 0.0)
    assert log_likelihood == pytest.approx(circuit.log_prob(X).mean(), rel=1e-12)
    assert halves.log_likelihood == pytest.approx(30 * log_likelihood, rel=1e-12)
    assert_same(em.circuit(), {i: p for i, p in once.circuit().parameters.items() if circuit.owners[i] == i}, rtol=1e-10)


def test_mean_flow_is_the_mean_over_a_layers_edges():
    """Two layers of sums over three variables: each is updated with its own μ."""
    circuit = fp.structures.rat_spn(4, 2, 2, 3, 2, family="bernoulli").randomize(2)
    X = rows_for(circuit, 20)
    sums, _ = oracle.flows(circuit, X)
    inner = [i for i in sums if circuit.nodes[i] != circuit.nodes[-1] and circuit.widths[i] > 1]
    tops = [i for i in sums if isinstance(circuit.nodes[i], fp.Sum) and circuit.widths[i] == 1]
    expected = {}
    for layer in (inner, tops, [circuit.root]):
        mu = sum(sums[i].sum() for i in layer) / sum(sums[i].size for i in layer)
        for i in layer:
            root = sums[i] + np.sqrt(sums[i] ** 2 + 4 * mu * sums[i])
            expected[i] = root / root.sum(axis=1, keepdims=True)
    options = {"epochs": 1, "batch_size": None, "method": fp.EM(step_size=1.0), "dtype": "float64", "progress": False}
    found = fp.fit(circuit, X, sharpness=fp.Sharpness(mu="mean-flow"), **options).circuit
    assert set(expected) == set(sums)
    assert_same(found, expected)
    relative = fp.fit(circuit, X, sharpness=fp.Sharpness(mu=1.0, unit="mean-flow"), **options).circuit
    assert_same(relative, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sharpness", [None, fp.Sharpness(mu=0.5), fp.Sharpness(mu="mean-flow", inputs=True)])
def test_results_do_not_depend_on_the_number_of_threads(dtype, sharpness, monkeypatch):
    monkeypatch.setattr("flatpc.engine.numba.evaluator.WORTH_A_THREAD", 1e-9)  # small as the circuit is
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 12))
    circuit = fp.structures.hclt(X, 9)
    made = [
        fp.fit(circuit, X, epochs=3, batch_size=64, sharpness=sharpness, dtype=dtype, n_threads=n, progress=False).circuit
        for n in (1, 3)
    ]
    for i, value in made[0].parameters.items():
        np.testing.assert_equal(made[1].parameters[i], value)


def test_mini_batches_climb_on_the_whole():
    rng = np.random.default_rng(0)
    X = (rng.random((400, 8)) < rng.choice([0.1, 0.9], (400, 1))).astype(float)
    result = fp.fit(
        fp.structures.hclt(X, 4),
        X,
        epochs=20,
        batch_size=50,
        method=fp.EM(step_size=fp.learning.cosine(0.5, 0.05)),
        progress=False,
    )
    nll = result.history["train_nll"]
    assert nll[-1] < nll[0] - 0.1
    assert (np.diff(nll) < 0.01).all()


def test_counts_of_a_batch_take_mu_as_it_is():
    """A batch of a tenth of the rows: in counts of the data its μ is a tenth, in counts of the batch it is whole."""
    circuit = circuits()["hclt-bernoulli"]
    X = rows_for(circuit, 40)
    for unit, mu in (("counts", 0.08), ("batch-counts", 0.8)):
        made, evidence = learner(circuit, X, fp.Sharpness(mu=0.8, unit=unit))
        made.step(evidence, np.arange(4), 0.0)
        assert_same(made.circuit(), by_definition(circuit, X[:4], 1.0, 0.0, mu))
