"""Completions of deterministic circuits equal enumeration; the others are flagged and at least sensible."""

import numpy as np
import polars as pl
import pytest
import torch

import flatpc as fp
from flatpc.errors import DataError
from tests.oracles.evaluate import log_prob
from tests.queries.cases import BUILD, DETERMINISTIC, case, evidence, joint


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_deterministic_circuits_equal_enumeration(name):
    circuit, table = case(name), joint(name)
    X = evidence(circuit, n=40)
    done = circuit.mpe(X)
    assert done.exact
    for row, completed, value in zip(X, done.values, done.log_prob, strict=True):
        p, total = table.given(row)
        assert value == pytest.approx(np.log(p.max() * total), abs=1e-10)
        assert ((completed == row) | np.isnan(row)).all()


@pytest.mark.parametrize("name", BUILD)
def test_the_exact_flag_is_determinism(name):
    assert case(name).mpe(evidence(case(name))).exact == (name in DETERMINISTIC)


@pytest.mark.parametrize("name", BUILD)
def test_log_prob_is_that_of_the_completed_rows(name):
    circuit = case(name)
    done = circuit.mpe(evidence(circuit))
    assert np.isfinite(done.log_prob).all()
    np.testing.assert_allclose(done.log_prob, log_prob(circuit, done.values), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", BUILD)
def test_max_product_takes_the_best_induced_tree(name):
    """All induced trees of the circuit, as an enumeration: none has a larger product than the one that is taken."""
    circuit = case(name)
    for row in evidence(circuit, n=4):
        done = circuit.mpe(row[None])
        trees = induced_trees(circuit, row)
        best = max(p for p, _ in trees)
        completions = [values for p, values in trees if p > best * (1 - 1e-12)]
        taken = done.values[0]
        assert any(all(taken[v] == x for v, x in values.items()) for values in completions)


def induced_trees(circuit, row):
    """Pairs of a tree's product of weights and densities and its completed values; modes where `row` is NaN."""

    def below(i, k):
        node, parameters = circuit.nodes[i], circuit.parameters.get(i)
        if isinstance(node, fp.Input):
            x = row[node.variable]
            if np.isnan(x):
                x = node.family.mode(parameters)[k]
            return [(float(np.exp(node.family.log_density(parameters, np.array([x])))[0, k]), {node.variable: x})]
        if isinstance(node, fp.Product):
            units = (
                [k] * len(node.children)
                if node.kind == "hadamard"
                else np.unravel_index(k, [circuit.widths[c] for c in node.children])
            )
            out = [(1.0, {})]
            for c, u in zip(node.children, units, strict=True):
                out = best_of((p * q, {**a, **b}) for p, a in out for q, b in memo(c, u))
            return out
        if isinstance(node, fp.Mixture):
            edges = [(c, k) for c in node.children]
        else:
            edges = [(c, u) for c in node.children for u in range(circuit.widths[c])]
        return best_of((w * p, a) for w, (c, u) in zip(parameters[k], edges, strict=True) for p, a in memo(c, u))

    def best_of(trees):
        """Of trees with the same values only the best can matter further up."""
        found = {}
        for p, values in trees:
            key = tuple(sorted(values.items()))
            found[key] = max(found.get(key, 0.0), p)
        return [(p, dict(key)) for key, p in found.items()]

    cache = {}

    def memo(i, k):
        if (i, k) not in cache:
            cache[i, k] = below(i, k)
        return cache[i, k]

    return memo(circuit.root, 0)


def test_max_product_can_miss_the_most_probable_value():
    """Three trees: x=0 with 0.4 alone, x=1 with 0.3 + 0.3; the flag says that the answer, 0, is not guaranteed."""
    circuit = fp.Circuit([fp.Input(0, fp.Indicator(2), 3), fp.Sum((0,))], {0: {"value": [0.0, 1.0, 1.0]}, 1: [[0.4, 0.3, 0.3]]})
    done = circuit.mpe([[np.nan]])
    assert not done.exact
    np.testing.assert_array_equal(done.values, [[0.0]])
    assert done.log_prob[0] == pytest.approx(np.log(0.4))


def test_ties_take_the_first_child():
    circuit = fp.Circuit([fp.Input(0, fp.Indicator(3), 3), fp.Sum((0,))], {0: {"value": [2.0, 0.0, 1.0]}, 1: [[0.4, 0.4, 0.2]]})
    np.testing.assert_array_equal(circuit.mpe([[np.nan]]).values, [[2.0]])


def test_gaussians_are_completed_with_the_mean_of_the_tallest_weighted_component():
    """Heights at the modes: 0.7 N(0; 0, 100) = 0.028 against 0.3 N(0; 0, 1) = 0.120."""
    circuit = fp.Circuit(
        [fp.Input(0, fp.Gaussian(), 2), fp.Sum((0,))],
        {0: {"mean": [-5.0, 5.0], "variance": [100.0, 1.0]}, 1: [[0.7, 0.3]]},
    )
    np.testing.assert_array_equal(circuit.mpe([[np.nan]]).values, [[5.0]])


def test_impossible_evidence_names_the_row_and_complete_rows_pass():
    circuit = fp.Circuit(
        [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))], {0: {"p": [1.0]}, 1: {"p": [0.5]}}
    )
    assert circuit.mpe([[0, 1]]).log_prob[0] == -np.inf
    with pytest.raises(DataError, match="row 2 have probability zero"):
        circuit.mpe([[0, 1], [1, np.nan], [0, np.nan]])


def test_blocks_of_rows_and_units_make_no_difference(monkeypatch):
    X = evidence(case("rat_spn"), n=30)
    expected = case("rat_spn").mpe(X).values
    monkeypatch.setattr("flatpc.queries.answers.BLOCK_BYTES", 2000)
    monkeypatch.setattr("flatpc.queries.induced_trees._CHUNK", 3)
    np.testing.assert_array_equal(case("rat_spn").mpe(X).values, expected)


def test_tensor_in_tensor_out_and_frames_in():
    X = evidence(case("hclt"))
    done = case("hclt").mpe(torch.from_numpy(X))
    assert isinstance(done.values, torch.Tensor)
    assert isinstance(done.log_prob, torch.Tensor)
    np.testing.assert_array_equal(case("hclt").mpe(pl.DataFrame(X)).values, done.values.numpy())


def test_a_long_chain_can_be_completed():
    circuit = fp.structures.hmm(1500, n_latents=2, family="bernoulli")
    done = circuit.mpe(np.full((1, 1500), np.nan))
    assert not done.exact
    assert np.isfinite(done.log_prob).all()
