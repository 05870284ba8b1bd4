"""Tuning a circuit to predict a variable: gradients against finite differences, and what learning does."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.contract import get_evaluator
from flatpc.errors import DataError, OptionError
from flatpc.learning.conditional import _Conditional
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps import model


def mixed(n=60, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    X = np.stack([rng.normal(kind, 0.7), rng.poisson(1 + kind), kind, rng.normal(-kind, 1.0)], axis=1).astype(float)
    X[rng.random(n) < 0.1, 0] = np.nan
    return X, [fp.Gaussian(), fp.Poisson(), fp.Categorical(3), fp.StudentT()]


def start(X, families, seed=0):
    return fp.structures.hclt(X, 3, family=families, seed=seed).randomize(seed, X=X)


def objective(circuit, X, j, mu):
    rest = X.copy()
    rest[:, j] = np.nan
    joint, without = (circuit.log_prob(rows, missing="marginalize") for rows in (X, rest))
    penalty = fp.curvature.trace(circuit, X, missing="marginalize") if mu else np.zeros(1)
    return float(np.mean(without - joint)) + mu * float(np.mean(penalty))


@pytest.mark.parametrize("j", [0, 2])
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_gradients_are_finite_differences(j, mu):
    X, families = mixed()
    X = X[~np.isnan(X[:, j])]
    sharpness = fp.Sharpness(mu=mu, space="weights") if mu else None
    evaluator = get_evaluator(start(X, families), dtype="float64")
    learner = _Conditional(evaluator, fp.Adam(), Regularizers(() if sharpness is None else (sharpness,)), j)
    both = learner.prepared(X)
    conditional, penalty = learner.conditional_gradient(both, np.arange(len(X)))
    found = conditional + mu * penalty
    z = learner.z.copy()
    for place in np.random.default_rng(1).permutation(len(z))[:40]:
        ends = []
        for move in (-1e-5, 1e-5):
            moved = z.copy()
            moved[place] += move
            learner.unconstrained.write(moved)
            ends.append(objective(model.to_circuit(evaluator), X, j, mu))
        assert found[place] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-5, abs=1e-7)


def test_the_conditional_nll_falls_and_the_best_epoch_is_kept():
    X, families = mixed(300)
    valid, _ = mixed(200, seed=1)
    first = fp.fit(start(X, families), X, epochs=3, missing="marginalize", progress=False).circuit
    found = fp.learning.fit_conditional(first, X, variable=2, valid=valid, epochs=15, missing="marginalize")
    assert found.train_nll[-1] < found.train_nll[0]
    assert min(found.valid_nll) == found.valid_nll[found.best_epoch] < found.valid_nll[0]
    assert objective(found.circuit, valid, 2, 0.0) == pytest.approx(found.valid_nll[found.best_epoch], abs=1e-9)


def test_the_penalty_keeps_a_circuit_flat():
    X, families = mixed(150)
    first = start(X, families)
    plain, flat = (
        fp.learning.fit_conditional(first, X, variable=2, epochs=15, sharpness=each, missing="marginalize").circuit
        for each in (None, fp.Sharpness(mu=1.0))
    )
    sharp = [float(np.mean(fp.curvature.trace(c, X, missing="marginalize"))) for c in (plain, flat)]
    assert abs(sharp[1]) < abs(sharp[0])


def test_mistakes():
    X, families = mixed(30)
    circuit = start(X, families)
    for options, match in (
        ({"variable": 4}, "variable"),
        ({"variable": 0, "method": "adam"}, "method"),
        ({"variable": 0, "sharpness": fp.Sharpness(mu="adaptive")}, "sharpness"),
    ):
        with pytest.raises(OptionError, match=match):
            fp.learning.fit_conditional(circuit, X, missing="marginalize", **options)
    with pytest.raises(DataError, match="No row has a value"):
        fp.learning.fit_conditional(circuit, np.where(np.arange(4) == 1, np.nan, X), variable=1, missing="marginalize")
