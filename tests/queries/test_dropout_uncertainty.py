"""Dropout inference: mean and variance against all subsets of edges, or against draws of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.errors import OptionError, StructureError, TiedParametersError
from flatpc.queries import dropout_uncertainty
from tests.engine.conformance import circuits, every_node
from tests.learning.test_em import rows_for
from tests.oracles import evaluate, random_circuits


def edges(circuit):
    """All edges of sums that exist: (node, unit, edge)."""
    return [(i, *at) for i, W in circuit.parameters.items() if not isinstance(W, dict) for at in np.argwhere(W > 0)]


def values(circuit, X, masks):
    """`[M, N]`: the probabilities of the rows with the edges that each mask `[M, edges]` keeps, node by node."""
    every = edges(circuit)
    inputs = evaluate.log_values(circuit, X)
    found = []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            value = np.broadcast_to(np.exp(inputs[i]), (len(masks), *inputs[i].shape))
        elif isinstance(node, fp.Product):
            value = found[node.children[0]]
            for c in node.children[1:]:
                if node.kind == "kronecker":
                    value = (value[..., :, None] * found[c][..., None, :]).reshape(len(masks), len(X), -1)
                else:
                    value = value * found[c]
        else:
            W = np.zeros((len(masks), *circuit.parameters[i].shape))
            for e, (j, *at) in enumerate(every):
                if j == i:
                    W[:, *at] = circuit.parameters[i][tuple(at)] * masks[:, e]
            if isinstance(node, fp.Sum):
                value = np.einsum("mkc,mnc->mnk", W, np.concatenate([found[c] for c in node.children], axis=2))
            else:
                value = np.einsum("mkc,mnkc->mnk", W, np.stack([found[c] for c in node.children], axis=3))
        found.append(value)
    return found[-1][:, :, 0]


def by_enumeration(circuit, X, p):
    n = len(edges(circuit))
    masks = np.array(list(itertools.product([False, True], repeat=n)))
    probability = np.prod(np.where(masks, 1 - p, p), axis=1)
    value = values(circuit, X, masks)
    return probability @ value, probability @ value**2 - (probability @ value) ** 2


def small(family):
    """A sub-circuit shared in several ways: under a sum twice, in a mixture, in products of both kinds."""
    nodes = [
        fp.Input(0, family, 2),
        fp.Input(1, family, 2),
        fp.Sum((0,), 2),
        fp.Product((2, 1)),
        fp.Product((2,)),
        fp.Product((4, 1)),
        fp.Mixture((3, 5)),
        fp.Sum((6, 3)),
    ]
    return fp.Circuit(nodes).randomize(3)


def kronecker():
    """Products of both kinds over one shared sum, in both orders; a mask keeps the number of subsets down."""
    nodes = [fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,), 2), fp.Input(1, fp.Bernoulli(), 2), fp.Product((1, 2), "kronecker")]
    mask = np.array([[1, 0, 0, 1, 0, 1, 1, 0, 1, 0]], bool)
    nodes += [fp.Product((2, 1), "kronecker"), fp.Product((1, 2)), fp.Sum((3, 4, 5), 1, mask)]
    return fp.Circuit(nodes).randomize(2)


CIRCUITS = {"small": small(fp.Bernoulli()), "gaussian": small(fp.Gaussian()), "kronecker": kronecker()}


@pytest.mark.parametrize("p", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("name", CIRCUITS)
def test_moments_are_those_over_all_subsets(name, p):
    circuit = CIRCUITS[name]
    X = rows_for(circuit, 3)
    X[2, 0] = np.nan
    found = dropout_uncertainty(circuit, X, p=p, missing="marginalize")
    mean, variance = by_enumeration(circuit, X, p)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-11)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-8, atol=1e-14)
    if p == 0:
        np.testing.assert_allclose(found.log_mean, circuit.log_prob(X, missing="marginalize"), rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_random_circuits_without_dropout_and_with_independence(data):
    """With p = 0 nothing varies, and for trees, where different nodes are independent, both ways agree."""
    circuit = data.draw(random_circuits.circuits(ties=False))
    X = data.draw(random_circuits.rows(circuit))
    none = dropout_uncertainty(circuit, X, p=0.0, exact=False, missing="marginalize")
    np.testing.assert_allclose(none.log_mean, circuit.log_prob(X, missing="marginalize"), rtol=1e-10, atol=1e-12)
    tree = data.draw(random_circuits.scalar_trees(families="all"))
    X = data.draw(random_circuits.rows(tree))
    one, other = (dropout_uncertainty(tree, X, p=0.3, exact=exact, missing="marginalize") for exact in (True, False))
    np.testing.assert_allclose(one.relative_variance, other.relative_variance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["hclt-bernoulli", "rat_spn-gaussian"])
def test_draws_agree(name):
    circuit = circuits()[name]
    X, rng = rows_for(circuit, 2), np.random.default_rng(0)
    result = dropout_uncertainty(circuit, X, p=0.2)
    n = 2000
    drawn = values(circuit, X, rng.random((n, len(edges(circuit)))) > 0.2)
    relative = drawn / result.mean
    assert (abs(relative.mean(axis=0) - 1) < 5 * relative.std(axis=0) / np.sqrt(n)).all()
    spread = (relative - 1) ** 2
    assert (abs(spread.mean(axis=0) - result.relative_variance) < 5 * spread.std(axis=0) / np.sqrt(n)).all()


def test_hundreds_of_variables():
    """No underflow: with independent blocks the relative second moments multiply."""
    nodes = []
    for v in range(300):
        nodes += [fp.Input(v, fp.Bernoulli(), 2), fp.Sum((2 * v,))]
    circuit = fp.Circuit([*nodes, fp.Product(tuple(range(1, 600, 2)))]).randomize(1)
    X = np.zeros((2, 300))
    found = dropout_uncertainty(circuit, X, p=0.01)
    log_mean, log_second = 0.0, 0.0
    for v in range(300):
        terms = circuit.parameters[2 * v + 1][0] * (1 - circuit.parameters[2 * v]["p"])
        mean = 0.99 * terms.sum()
        log_mean += np.log(mean)
        log_second += np.log1p(0.99 * 0.01 * (terms**2).sum() / mean**2)
    np.testing.assert_allclose(found.log_mean, log_mean, rtol=1e-12)
    np.testing.assert_allclose(found.relative_variance, np.expm1(log_second), rtol=1e-9)


def test_impossible_rows_do_not_vary():
    circuit = fp.structures.chow_liu(np.array([[0, 0], [1, 1]]), smoothing=0.0)
    found = dropout_uncertainty(circuit, [[0, 1], [0, 0]], p=0.1)
    assert found.mean[0] == found.variance[0] == 0
    assert found.variance[1] > 0


def test_bad_input():
    circuit = fp.structures.hclt(np.eye(3), 2)
    for p in (-0.1, 1.0, float("nan")):
        with pytest.raises(OptionError, match="probability that an edge is dropped"):
            dropout_uncertainty(circuit, np.eye(3), p=p)
    with pytest.raises(TiedParametersError, match="untie"):
        dropout_uncertainty(every_node(fp.Bernoulli()), np.eye(3), p=0.1)
    # One sum in two products that cut {0, 1, 2} in different ways.
    nodes = [fp.Input(v, fp.Bernoulli(), 2) for v in range(3)]
    nodes += [fp.Sum((0,), 2), fp.Product((3, 1)), fp.Sum((4,), 2), fp.Product((1, 2)), fp.Sum((6,), 2)]
    nodes += [fp.Product((5, 2)), fp.Product((3, 7)), fp.Sum((8, 9))]
    crossed = fp.Circuit(nodes)
    with pytest.raises(StructureError, match="exact=False"):
        dropout_uncertainty(crossed, np.eye(3), p=0.1)
    assert (dropout_uncertainty(crossed, np.eye(3), p=0.1, exact=False).variance > 0).all()
