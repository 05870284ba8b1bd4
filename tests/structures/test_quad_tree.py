"""Quad-trees and quad-graphs: regions counted by hand, likelihoods by enumeration."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.oracles.evaluate import assignments, log_prob


def regions(circuit):
    """Scopes of the sums."""
    return [circuit.scopes[i] for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)]


def test_a_square_is_cut_into_quadrants():
    circuit = fp.structures.quad_tree((4, 4), 2, family="bernoulli")
    scopes = regions(circuit)
    # 15 inner regions of a binary tree with 16 leaves, each once: halves, quadrants, and so on.
    assert len(scopes) == len(set(scopes)) == 15
    quadrant = 0b0011_0011
    assert {quadrant << shift for shift in (0, 2, 8, 10)} <= set(scopes)
    # 16 inputs x 2 probabilities; 14 blocks of 2 x 2 weights, and 2 at the root.
    assert circuit.n_parameters == 16 * 2 + 14 * 4 + 2
    assert circuit.is_smooth
    assert circuit.is_structured_decomposable


@pytest.mark.parametrize("layer", ["cp", "tucker"])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (5,), (1, 2, 2), (1,)])
def test_it_is_a_distribution(shape, graph, layer):
    circuit = fp.structures.quad_tree(shape, 3, layer=layer, graph=graph, family="bernoulli", seed=1)
    X = assignments(circuit)
    assert np.exp(log_prob(circuit, X)).sum() == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(circuit.log_prob(X), log_prob(circuit, X), atol=1e-12)


def test_a_graph_cuts_every_side_and_shares_regions():
    circuit = fp.structures.quad_tree((2, 2), 2, graph=True, layer="tucker", family="bernoulli")
    # Two rows and two columns; the whole is cut both ways.
    assert sorted(regions(circuit)) == [0b0011, 0b0101, 0b1010, 0b1100, 0b1111]
    assert len([n for n in circuit.nodes if isinstance(n, fp.Input)]) == 4
    # Four blocks of 2 x 4, the root's 1 x 8, and 4 x 2 probabilities.
    assert circuit.n_parameters == 4 * 8 + 8 + 8
    assert not circuit.is_structured_decomposable


def test_an_image_of_odd_sides_has_as_many_regions_as_pixels():
    circuit = fp.structures.quad_tree((7, 7), 4, family=fp.Categorical(16))
    assert circuit.n_variables == 49
    assert len(regions(circuit)) == 48


def test_it_learns():
    rng = np.random.default_rng(0)
    X = np.repeat(np.repeat(rng.integers(0, 2, (200, 2, 2)), 2, axis=1), 2, axis=2).reshape(
        200, 16
    )  # four alike in each quadrant
    start = fp.structures.quad_tree((4, 4), 2, family="bernoulli")
    result = fp.fit(start, X, epochs=60, batch_size=None, method=fp.EM(step_size=1.0), progress=False)
    assert result.history["train_nll"][-1] == pytest.approx(4 * np.log(2), rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": ()}, "at least one axis"),
        ({"shape": 28}, "shape"),
        ({"shape": (2, 0)}, "shape"),
        ({"n_sums": 0}, "n_sums"),
        ({"layer": "cpp"}, "layer='cpp'"),
        ({"graph": "yes"}, "graph"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(OptionError, match=message):
        fp.structures.quad_tree(**{"shape": (2, 2), **options})
