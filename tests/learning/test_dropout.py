"""Dropout: flows are those of the rows and circuits that are left; draws are fair, seeded and fresh."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.numba.packing import unpack_statistics, unpack_weights
from flatpc.errors import OptionError
from flatpc.learning import SAM, Dropout
from flatpc.learning.regularizers.dropout import Dropped
from tests.engine.conformance import circuits
from tests.learning.test_em import rows_for
from tests.oracles import evaluate
from tests.oracles import flows as oracle

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
CIRCUIT = fp.structures.hclt(X, 9)


@pytest.mark.parametrize("rows_per_mask", [None, 1, 7])
@pytest.mark.parametrize("name", ["every_node-categorical", "hclt-bernoulli", "rat_spn-gaussian", "hmm_homogeneous-poisson"])
def test_flows_are_those_of_what_is_left(name, rows_per_mask):
    circuit = circuits()[name]
    rows = rows_for(circuit, 20)
    evaluator = Evaluator(circuit, "float64", 1)
    dropout = Dropout(0.3, 0.4, rows_per_mask)
    evidence = Evidence(evaluator.program, rows)
    order = np.random.default_rng(1).permutation(20)[:15]
    log_prob, sums, inputs, n = 0.0, {}, {}, 0
    for part, mine, kept in Dropped(dropout, evaluator, 3).draw(evidence, order):
        masks = unpack_weights(circuit, evaluator.program, kept)
        # Not normalised any more, so the checks of with_parameters are left out.
        owners = circuit.owners
        left = {i: p * masks[owners[i]] if owners[i] in masks else p for i, p in circuit.parameters.items()}
        left = circuit._replace(left)
        F, S = oracle.flows(left, part.X[mine])
        log_prob += evaluate.log_prob(left, part.X[mine]).sum()
        for total, new in ((sums, F), *((inputs.setdefault(i, {}), s) for i, s in S.items())):
            for key, value in new.items():
                total[key] = total.get(key, 0) + value
        seen = ~np.isnan(part.X[mine])
        np.testing.assert_array_equal(part.X[mine][seen], rows[order[n : n + len(mine)]][seen])
        n += len(mine)
    assert n == 15
    total, gradient, statistics = Dropped(dropout, evaluator, 3).statistics(evidence, order)
    assert total == pytest.approx(log_prob, rel=1e-12)
    found = unpack_weights(circuit, evaluator.program, gradient * evaluator.weights)
    for i, F in sums.items():
        np.testing.assert_allclose(found[i], F, rtol=1e-9, atol=1e-12)
    for i, S in unpack_statistics(circuit, evaluator.program, statistics).items():
        for key, value in S.items():
            np.testing.assert_allclose(value, inputs[i][key], rtol=1e-9, atol=1e-11)


def test_draws_are_fair_and_fresh():
    evaluator = Evaluator(CIRCUIT, "float64", 1)
    evidence = Evidence(evaluator.program, X)
    made = Dropped(Dropout(0.3, 0.2), evaluator, 0)
    holes, edges = [], []
    for _ in range(200):
        ((part, mine, kept),) = made.draw(evidence, np.arange(60))
        holes.append(np.isnan(part.X[mine]))
        edges.append(np.concatenate([m.ravel() for m in unpack_weights(CIRCUIT, evaluator.program, kept).values()]))
    holes, edges = np.array(holes), np.array(edges)
    assert holes.mean() == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / holes.size))
    # A unit of 9 edges loses all of them once in two million.
    assert edges.mean() == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / edges.size))
    assert holes.mean(axis=0).std() == pytest.approx(np.sqrt(0.21 / 200), rel=0.2)
    again = Dropped(Dropout(0.3, 0.2), evaluator, 0)
    again.draws = 199
    ((part, mine, kept),) = again.draw(evidence, np.arange(60))
    np.testing.assert_array_equal(np.isnan(part.X[mine]), holes[-1])
    other = Dropped(Dropout(0.3, 0.2), evaluator, 0, rank=1)
    other.draws = 199
    ((part, mine, kept),) = other.draw(evidence, np.arange(60))
    assert not np.array_equal(np.isnan(part.X[mine]), holes[-1])


def test_a_unit_keeps_its_edges_rather_than_none():
    evaluator = Evaluator(CIRCUIT, "float64", 1)
    made = Dropped(Dropout(0.0, 0.99), evaluator, 0)
    ((_, _, kept),) = made.draw(Evidence(evaluator.program, X), np.arange(60))
    for mask in unpack_weights(CIRCUIT, evaluator.program, kept).values():
        assert mask.any(axis=1).all()
    assert np.isfinite(made.statistics(Evidence(evaluator.program, X), np.arange(60))[0])


def test_nothing_dropped_is_nothing_changed():
    options = {"epochs": 3, "batch_size": 20, "dtype": "float64", "progress": False}
    plain, same = (fp.fit(CIRCUIT, X, regularizer=r, **options).circuit for r in (None, Dropout(0.0, 0.0)))
    np.testing.assert_allclose(plain.log_prob(X), same.log_prob(X), rtol=1e-10)


@pytest.mark.parametrize("method", ["em", "adam"])
def test_it_learns_and_holds_back(method):
    options = {"method": method, "epochs": 60, "batch_size": 20, "progress": False}
    plain, held = (fp.fit(CIRCUIT, X, regularizer=r, **options).circuit for r in (None, Dropout(0.3, 0.1)))
    start, end, free = (c.log_prob(X).mean() for c in (CIRCUIT, held, plain))
    assert start < end < free


def test_bad_input():
    for wrong in ({"inputs": 1.0}, {"sums": -0.1}, {"inputs": float("nan")}, {"rows_per_mask": 0}, {"rows_per_mask": 1.5}):
        with pytest.raises(OptionError, match="Dropout"):
            Dropout(**wrong)
    with pytest.raises(OptionError, match="would delete"):
        fp.fit(CIRCUIT, X, regularizer=Dropout(sums=0.1), method=fp.EM(step_size=1.0), progress=False)
    with pytest.raises(OptionError, match="both change the flows"):
        fp.fit(CIRCUIT, X, regularizer=["dropout", "softening"], progress=False)
    with pytest.raises(OptionError, match="Dropout and SAM can't be combined: two gradients"):
        fp.fit(CIRCUIT, X, method="sgd", regularizer=["dropout", SAM()], progress=False)
