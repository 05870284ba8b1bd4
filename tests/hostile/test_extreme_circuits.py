"""Extreme circuits × all queries × both engines × both precisions: never NaN, and what the oracles say.

Log-probabilities are those of the oracle within 1e-9 (float64) or 1e-4 (float32), relative above 1, or exactly -inf; flows
are right within the slack that rounding of the logarithms leaves.
"""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.errors import DataError
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps.em_learner import EMLearner
from tests.engine.conformance import slack
from tests.hostile import extreme_circuits
from tests.hostile.tally import Tally, how_many
from tests.oracles import evaluate
from tests.oracles import flows as flows_by_definition

TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
WAYS = [(engine, dtype) for engine in ("numba", "torch") for dtype in ("float64", "float32")]
FIRST_SEED = 1000


def test_extreme_circuits():
    with Tally("queries of extreme circuits") as tally:
        for seed in range(FIRST_SEED, FIRST_SEED + how_many(12, 420)):
            rng = np.random.default_rng(seed)
            circuit = extreme_circuits.circuit(rng)
            X = extreme_circuits.rows(circuit, rng)
            _ask_engines(tally, seed, circuit, X, rng)
            _ask_about_missing(tally, seed, circuit, X)
            for dtype in ("float64", "float32"):
                with tally.case(f"seed {seed}, EM step, {dtype}"):
                    _check_em_step(circuit, X, dtype)
            with tally.case(f"seed {seed}, infinity"), pytest.raises(DataError):
                circuit.log_prob(np.where(np.arange(X.shape[1]) == 0, np.inf, X), missing="marginalize")


def _ask_engines(tally, seed, circuit, X, rng):
    values = evaluate.log_values(circuit, X)
    truth = values[-1][:, 0]
    sums, inputs = flows_by_definition.flows(circuit, X)
    half = rng.random(X.shape) < 0.5
    given = evaluate.log_prob(circuit, np.where(half, X, np.nan))
    for engine, dtype in WAYS:
        how, name, tolerance = {"engine": engine, "dtype": dtype}, f"seed {seed}, {engine}, {dtype}", TOLERANCE[dtype]
        with tally.case(f"{name}, log_prob"):
            _close(_answered(circuit.log_prob, X, missing="marginalize", **how), truth, tolerance)
        with tally.case(f"{name}, marginals"):
            hidden = np.where(half, X, np.nan)
            _close(_answered(circuit.log_prob, hidden, missing="marginalize", **how), given, tolerance)
        with tally.case(f"{name}, conditional_log_prob"):
            possible = given > -np.inf
            found = _refused_if(not possible.all(), circuit.conditional_log_prob, X, half, missing="marginalize", **how)
            if found is not None:
                scale = np.maximum(1.0, np.maximum(abs(given), np.where(np.isneginf(truth), 0.0, abs(truth))))
                _close(found / scale, (truth - given) / scale, tolerance)
        with tally.case(f"{name}, flows"):
            found = _answered(circuit.flows, X, missing="marginalize", **how)
            allowed = slack(values, dtype)
            for i, flow in sums.items():
                _flows_close(found.sums[i], flow, allowed, len(X) * circuit.owners.count(i))
            for i, statistics in found.inputs.items():
                assert not any(np.isnan(array).any() for array in statistics.values())
                count = next(iter(statistics.values())), next(iter(inputs[i].values()))
                _flows_close(*count, allowed, len(X) * circuit.owners.count(i))


def _ask_about_missing(tally, seed, circuit, X):
    impossible = bool(np.isneginf(evaluate.log_prob(circuit, X[np.isnan(X).any(axis=1)])).any())
    with tally.case(f"seed {seed}, sample"):
        assert np.isfinite(_answered(circuit.sample, 5, seed=seed)).all()
    with tally.case(f"seed {seed}, sample given rows"):
        drawn = _refused_if(impossible, circuit.sample, 2, seed=seed, given=X)
        assert drawn is None or np.array_equal(np.where(np.isnan(X), np.nan, drawn), np.stack([X, X]), equal_nan=True)
    with tally.case(f"seed {seed}, mpe"):
        best = _refused_if(impossible, circuit.mpe, X)
        if best is not None:
            assert np.isfinite(best.values).all()
            _close(best.log_prob, evaluate.log_prob(circuit, best.values), 1e-9)
    with tally.case(f"seed {seed}, expectation"):
        mean = _refused_if(impossible, circuit.expectation, X)
        assert mean is None or np.isfinite(mean).all()
    with tally.case(f"seed {seed}, variance"):
        spread = _refused_if(impossible, circuit.variance, X)
        assert spread is None or (spread >= 0).all()


def _check_em_step(circuit, X, dtype):
    values = evaluate.log_values(circuit, X)
    method = fp.EM(step_size=1.0)
    em = EMLearner(Evaluator(circuit, dtype, n_threads=1), len(X), method, Regularizers.read(None, method))
    found = em.step(Evidence(em.evaluator.program, X), np.arange(len(X)), 0.0)
    _close(np.array([found]), np.array([values[-1][:, 0].mean()]), TOLERANCE[dtype])
    after, allowed = em.circuit(), slack(values, dtype)
    for i, flow in flows_by_definition.flows(circuit, X)[0].items():
        total = flow.sum(axis=1)
        for unit in np.flatnonzero(total > 1e-3):
            _flows_close(after.parameters[i][unit], flow[unit] / total[unit], 4 * allowed / total[unit], 1)


# ---- comparing -------------------------------------------------------------------------------------------------------------


def _answered(ask, *arguments, **options):
    """The answer; a refusal of what is no mistake fails the case."""
    try:
        return ask(*arguments, **options)
    except fp.errors.FlatpcError as error:
        raise AssertionError(f"refused: {error}") from error


def _refused_if(impossible, ask, *arguments, **options):
    """The answer, or None where the evidence is impossible, which must be refused."""
    if not impossible:
        return _answered(ask, *arguments, **options)
    with pytest.raises(DataError, match="probability zero"):
        ask(*arguments, **options)
    return None


def _close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=False)


def _flows_close(found, expected, allowed, most):
    """Between 0 and `most`, and close as far as rounding allows."""
    assert (found >= 0).all()
    assert (found <= most * (1 + 1e-3)).all()
    _close(found, expected, allowed)
