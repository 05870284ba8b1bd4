"""Irregular scalar circuits, of which the engine does long runs without writing scales."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba._kernels.adjoints import FLOWS
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.torch.engine import TorchEngine
from tests.engine.test_sharing import bits, rule_for

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
N_VARIABLES = 6
TINY = {"float64": 1e-90, "float32": 1e-9}


def dag(smallest, seed=0):
    """Products of one to three shared parts, sums of products and of sums; inputs of variable 2 can be as small as wanted."""
    rng = np.random.default_rng(seed)
    nodes, parameters = [], {}

    def add(node, value=None):
        nodes.append(node)
        if value is not None:
            parameters[len(nodes) - 1] = value
        return len(nodes) - 1

    def add_sum(children):
        weights = rng.random((1, len(children))) + 0.1
        return add(fp.Sum(tuple(children)), weights / weights.sum())

    def add_input(v):
        low = smallest if v == 2 and rng.random() < 0.5 else 0.2
        return add(fp.Input(v, fp.Bernoulli()), {"p": np.array([low])})

    def mixed(parts, n):
        """Sums over random products of the parts, half of them with a sum below."""
        out = []
        for _ in range(n):
            products = [add(fp.Product(tuple(int(rng.choice(part)) for part in parts))) for _ in range(rng.integers(1, 5))]
            if rng.random() < 0.5:
                products.append(add_sum(products[: rng.integers(1, len(products) + 1)]))
            out.append(add_sum(products))
        return out

    inputs = [[add_input(v) for _ in range(4)] for v in range(N_VARIABLES)]
    single = mixed([inputs[3]], 3)
    left = mixed([inputs[0], inputs[1]], 5)
    middle = mixed([inputs[2], single], 5)
    right = mixed([inputs[4], inputs[5]], 5)
    whole = mixed([left, middle, right], 4)
    add_sum([*whole, add(fp.Product((left[0], mixed([middle, right], 1)[0])))])
    return fp.Circuit(*without_unused(nodes, parameters))


def without_unused(nodes, parameters):
    """Nodes and parameters that the last node uses."""
    used = {len(nodes) - 1}
    for i in reversed(range(len(nodes))):
        if i in used and not isinstance(nodes[i], fp.Input):
            used |= set(nodes[i].children)
    new = {i: place for place, i in enumerate(sorted(used))}
    kept = [
        node if isinstance(node, fp.Input) else replace(node, children=tuple(new[c] for c in node.children))
        for i, node in enumerate(nodes)
        if i in used
    ]
    return kept, {new[i]: value for i, value in parameters.items() if i in used}


def evidence_rows(n_rows):
    X = bits(n_rows, N_VARIABLES)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    return X


def assert_flows(found, expected, tolerance):
    np.testing.assert_allclose(found.log_prob, expected.log_prob, rtol=tolerance)
    for i, flow in expected.sums.items():
        np.testing.assert_allclose(found.sums[i], flow, rtol=tolerance, atol=tolerance)
    for i, statistics in expected.inputs.items():
        for name, statistic in statistics.items():
            np.testing.assert_allclose(found.inputs[i][name], statistic, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("n_rows", [1, 3, 5, 40, 150])
@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_flows_are_those_of_the_torch_engine(dtype, rescaled, n_rows, share):
    circuit, X = dag(TINY[dtype] if rescaled else 0.2), evidence_rows(n_rows)
    evaluator = Evaluator(circuit, dtype)
    evidence = Evidence(evaluator.program, X, share=share)
    evaluator.log_prob(evidence)
    evaluator._scales[:], evaluator._losses[:] = 77.0, np.inf  # what the next pass doesn't write it mustn't read
    assert_flows(evaluator.flows(evidence), TorchEngine().flows(circuit, X), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_only_what_is_rescaled_has_scales(dtype):
    circuit, X = dag(TINY[dtype]), evidence_rows(60)
    evaluator = Evaluator(circuit, dtype)
    plan = Evidence(evaluator.program, X).plan(np.arange(60))
    evaluator.up(plan)
    scaled, bare = plan.batch.at[:, columns.SCALED] == 1, evaluator.program.structure.steps[:, columns.BARE] == 1
    assert (bare & scaled).any()
    assert (bare & ~scaled).any()
    assert scaled[~bare].all()
    uses_variable_2 = np.zeros(len(bare), bool)
    uses_variable_2[evaluator.program.step_of] = [scope >> 2 & 1 for scope in circuit.scopes]
    assert uses_variable_2[bare & scaled].all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scales_of_an_earlier_pass_are_forgotten(dtype):
    circuit, X = dag(TINY[dtype]), evidence_rows(60)
    usual = dag(0.2)
    evaluator, fresh = Evaluator(circuit, dtype), Evaluator(usual, dtype)
    evidence = Evidence(evaluator.program, X)
    evaluator.log_prob(evidence)
    evaluator.inputs[:] = fresh.inputs  # the kept plan has marks of the first pass
    np.testing.assert_array_equal(evaluator.log_prob(evidence), fresh.log_prob(Evidence(fresh.program, X)))


@pytest.mark.parametrize("rescaled", [False, True])
def test_adjoints_row_by_row_add_up_to_shared_ones(rescaled):
    circuit, X = dag(TINY["float64"] if rescaled else 0.2), evidence_rows(30)
    evaluator = Evaluator(circuit)
    plan = Evidence(evaluator.program, X).plan(np.arange(30))
    at, n_inputs = plan.batch.at, evaluator.program.n_inputs
    evaluator.up(plan)
    counts = np.bincount(plan.distinct).astype(float)
    evaluator.down(plan, counts, FLOWS, np.zeros(evaluator.program.n_weights), np.zeros(n_inputs))
    steps = np.flatnonzero(evaluator.program.structure.steps[:, columns.KIND] <= columns.HADAMARD)
    shared = [evaluator._adjoints[at[s, columns.ADJOINT] :][: at[s, columns.ADJOINT_ROWS]].sum() for s in steps]
    evaluator.down_per_row(plan, np.ones(30))
    by_row = [evaluator._adjoints[at[s, columns.ADJOINT] :][:30].sum() for s in steps]
    np.testing.assert_allclose(by_row, shared, rtol=1e-11)


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_number_of_threads_changes_no_bit(dtype, rescaled, monkeypatch):
    monkeypatch.setattr("flatpc.engine.numba.evaluator.WORTH_A_THREAD", 1e-9)
    circuit, X = dag(TINY[dtype] if rescaled else 0.2), evidence_rows(200)
    results = []
    for n_threads in (1, 2, 3):
        evaluator = Evaluator(circuit, dtype, n_threads)
        evidence = Evidence(evaluator.program, X)
        _, gradient, statistics = evaluator.statistics(evidence, np.arange(200))
        evaluator.em_step(evidence, np.arange(200), rule_for(evaluator))
        results.append((gradient, statistics, evaluator.weights, evaluator.log_prob(evidence)))
    for one, other in itertools.pairwise(results):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
