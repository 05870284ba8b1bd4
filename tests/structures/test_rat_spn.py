"""Random region graphs: the paper's Einsum Network, counts worked out by hand, shapes of deeper ones."""

import numpy as np
import pytest
from scipy.stats import norm

import flatpc as fp
from flatpc.circuit.scopes import variables_in
from flatpc.errors import OptionError
from tests.oracles.evaluate import assignments, log_prob


def test_two_variables_have_the_parameters_of_the_einsum_network():
    # Depth 1, 10 repetitions, 10 sums, 10 Gaussian inputs over 2 variables. Every repetition cuts {0, 1} into {0} and {1}
    # and has inputs of its own: 10 repetitions x 2 variables x 10 Gaussians x (mean, variance) = 400. The root's einsum layer
    # has one sum over 10 x 10 products for each repetition: 10 x 100 = 1000. The mixing layer has one weight for each
    # repetition: 10. With depth 1 no region lies between root and leaves, so the 10 sums are not used.
    circuit = fp.structures.rat_spn(2, depth=1, n_repetitions=10, n_sums=10, n_inputs=10, family="gaussian")
    assert circuit.n_parameters == 400 + 1000 + 10
    assert len(circuit.nodes) == 10 * (2 + 1 + 1) + 1
    assert isinstance(circuit.nodes[-1], fp.Mixture)
    assert circuit.parameters[circuit.root].shape == (1, 10)


def test_two_variables_have_the_density_of_the_einsum_network():
    circuit = fp.structures.rat_spn(2, seed=4)
    X = np.random.default_rng(0).standard_normal((20, 2))
    want = np.zeros(20)
    for share, c in zip(circuit.parameters[circuit.root][0], circuit.nodes[circuit.root].children, strict=True):
        left, right = circuit.nodes[circuit.nodes[c].children[0]].children
        density = []
        for i in (left, right):
            p = circuit.parameters[i]
            density.append(norm.pdf(X[:, circuit.nodes[i].variable, None], p["mean"], np.sqrt(p["variance"])))
        want += share * np.einsum("ni,nj,ij->n", *density, circuit.parameters[c].reshape(10, 10))
    assert np.allclose(log_prob(circuit, X), np.log(want), rtol=0, atol=1e-12)


def test_three_variables_are_cut_into_one_and_two():
    # 10 repetitions x (3 variables x 10 Gaussians x 2 + 100 weights) + 10 mixing weights; the pair is a leaf region:
    # ten products of two Gaussians each.
    circuit = fp.structures.rat_spn(3)
    assert circuit.n_parameters == 10 * (60 + 100) + 10
    leaves = [circuit.scopes[i] for i, node in enumerate(circuit.nodes) if getattr(node, "kind", None) == "hadamard"]
    assert len(leaves) == 10
    assert {len(list(variables_in(scope))) for scope in leaves} == {2}
    assert len(set(leaves)) > 1  # which two is random


def test_deeper_ones():
    # 8 variables, depth 3: per repetition 8 inputs of 4 units (Bernoulli: 1 number); four regions of 2 with 3 x 16 weights;
    # two regions of 4 with 3 x 9; the top with 1 x 9. Two repetitions and 2 mixing weights.
    circuit = fp.structures.rat_spn(8, depth=3, n_repetitions=2, n_sums=3, n_inputs=4, family="bernoulli")
    assert circuit.n_parameters == 2 * (8 * 4 + 4 * 3 * 16 + 2 * 3 * 9 + 9) + 2
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 10])
def test_any_depth_sums_to_one(depth):
    circuit = fp.structures.rat_spn(7, depth, n_repetitions=3, n_sums=2, n_inputs=3, family="bernoulli", seed=depth)
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-13)
    smallest = (
        min(circuit.scopes[i].bit_count() for i, n in enumerate(circuit.nodes) if getattr(n, "kind", "") == "kronecker")
        if depth
        else 7
    )
    assert smallest == {0: 7, 1: 7, 2: 3}.get(depth, 2)


def test_properties():
    one = fp.structures.rat_spn(16, 3, n_repetitions=1)
    assert one.is_structured_decomposable
    assert not any(isinstance(node, fp.Mixture) for node in one.nodes)
    several = fp.structures.rat_spn(16, 3, n_repetitions=5)
    assert not several.is_structured_decomposable
    assert not several.is_deterministic
    assert not several.is_tree
    # Two variables can be cut in one way only.
    assert fp.structures.rat_spn(2).is_structured_decomposable
    # One input per leaf: every unit has a single parent.
    assert fp.structures.rat_spn(4, 2, 3, n_sums=1, n_inputs=1).is_tree


def test_seeds():
    a, b, c = (fp.structures.rat_spn(12, 2, seed=seed) for seed in (1, 1, 2))
    assert a.nodes == b.nodes
    assert np.array_equal(a.parameters[a.root], b.parameters[b.root])
    assert a.nodes != c.nodes


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_variables": 0}, "n_variables=0"),
        ({"n_variables": 3, "depth": -1}, "depth=-1"),
        ({"n_variables": 3, "n_repetitions": 0}, "n_repetitions=0"),
        ({"n_variables": 3, "n_sums": 0}, "n_sums=0"),
        ({"n_variables": 3, "n_inputs": 0}, "n_inputs=0"),
        ({"n_variables": 3, "seed": -1}, "seed=-1"),
        ({"n_variables": 3, "family": "binomial"}, r"fp\.Binomial\(n=\.\.\.\)"),
        ({"n_variables": 3, "family": ["bernoulli"]}, "3 variables but 1"),
    ],
)
def test_bad_options_are_named(options, match):
    with pytest.raises(OptionError, match=match):
        fp.structures.rat_spn(**options)
