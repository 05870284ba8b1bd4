"""Rows whose evidence contradicts itself: float32 hands them to float64, and float64 to the log domain."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.numba import packing
from flatpc.engine.numba._kernels.collect import add_flows_as_gradients
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.update import PLAIN
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from tests.oracles.evaluate import log_prob
from tests.oracles.flows import flows

N_VARIABLES = 12
ROOT = N_VARIABLES + 3
WITHIN_FLOAT64 = [0, *[np.nan] * 10, 1]
BEYOND_FLOAT64 = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


@pytest.fixture
def circuit():
    """Two halves of the variables, all with the same value but for one in 10⁶⁰."""
    p = np.array([[1 - 1e-60, 1e-60], [1e-60, 1 - 1e-60]])
    inputs = [fp.Input(v, fp.Categorical(2), 2) for v in range(N_VARIABLES)]
    halves = [fp.Product(tuple(range(0, 6))), fp.Product(tuple(range(6, 12)))]
    top = [fp.Product((N_VARIABLES, N_VARIABLES + 1)), fp.Sum((N_VARIABLES + 2,))]
    return fp.Circuit([*inputs, *halves, *top], {**{v: {"p": p} for v in range(N_VARIABLES)}, ROOT: np.array([[0.25, 0.75]])})


def rows(*unusual):
    return np.array([[0] * N_VARIABLES, [1] * N_VARIABLES, *unusual, *unusual, [0] * N_VARIABLES], np.float64)


def counted(monkeypatch):
    """How many rows the log domain is asked for."""
    asked = []
    whole = Evaluator._log_domain
    monkeypatch.setattr(Evaluator, "_log_domain", lambda self, X, **how: asked.append(len(X)) or whole(self, X, **how))
    return asked


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unusual", [[WITHIN_FLOAT64], [BEYOND_FLOAT64], [WITHIN_FLOAT64, BEYOND_FLOAT64]])
def test_flows_of_all_rows_are_right_and_few_take_the_slow_way(circuit, unusual, dtype, monkeypatch):
    asked, X = counted(monkeypatch), rows(*unusual)
    weights = np.arange(1.0, len(X) + 1)
    evaluator = Evaluator(circuit, dtype)
    evidence = Evidence(evaluator.program, X)
    found, (sums, inputs) = evaluator.flows(evidence, weights), flows(circuit, X, weights)
    np.testing.assert_allclose(found.log_prob, log_prob(circuit, X), rtol=1e-6)
    np.testing.assert_allclose(evaluator.log_prob(evidence), found.log_prob, rtol=1e-12)
    for i, flow in sums.items():
        np.testing.assert_allclose(found.sums[i], flow, rtol=1e-6)
    for i, statistics in inputs.items():
        for name, statistic in statistics.items():
            np.testing.assert_allclose(found.inputs[i][name], statistic, rtol=1e-6, atol=1e-6)
    assert sum(asked) == 2 * unusual.count(BEYOND_FLOAT64)  # once with its flow and once without


def test_float32_alone_would_not_do(circuit):
    evaluator = Evaluator(circuit, "float32")
    evidence = Evidence(evaluator.program, rows(WITHIN_FLOAT64))
    plan = evidence.plan(np.arange(len(evidence)))
    evaluator.up(plan)
    np.testing.assert_array_equal(evaluator.root(plan)[1], [False, False, True])


def test_a_step_sees_the_weights_of_the_step_before(circuit):
    """The float64 twin of the weights is kept: it must not be that of an earlier step."""
    X, found = rows(WITHIN_FLOAT64), {}
    for dtype in ("float32", "float64"):
        evaluator = Evaluator(circuit, dtype)
        evidence = Evidence(evaluator.program, X)
        rule = Rule(PLAIN, np.zeros(evaluator.program.n_steps), 0.0, 0.5, np.empty(0, np.uint8))
        means = [evaluator.em_step(evidence, np.arange(len(X)), rule)[0] for _ in range(4)]
        found[dtype] = means, packing.unpack_weights(circuit, evaluator.program, evaluator.weights)[ROOT]
    assert len(set(found["float64"][0])) == 4
    for single, double in zip(*found.values(), strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_flows_become_gradients_that_are_finite(dtype):
    """An edge without flow stays as it is; a weight too small for its flow grows until the gradient has a number."""
    largest = 2.0**20
    weights = np.array([0.5, 0.25, 0.0, 2.0**-30], dtype)
    gradient = np.array([1.0, 2.0, 0.0, 4.0], dtype)
    add_flows_as_gradients(np.array([3.0, 0.0, 2.0, 2.0]), weights, gradient, largest)
    np.testing.assert_array_equal(weights, [0.5, 0.25, 2.0**-19, 2.0**-19])
    np.testing.assert_array_equal(gradient, [7.0, 2.0, largest, largest + 4.0])
