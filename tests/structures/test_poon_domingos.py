"""Poon-Domingos structures: regions and cuts counted by hand."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.oracles.evaluate import assignments, log_prob


def kronecker_products(circuit):
    return [i for i, node in enumerate(circuit.nodes) if getattr(node, "kind", None) == "kronecker"]


def test_a_line_has_every_interval_once():
    circuit = fp.structures.poon_domingos(4, 1, n_sums=2, n_inputs=3, family="bernoulli")
    # Intervals of 1, 2, 3, 4 cells: 4 leaves, 3 + 2 + 1 inner regions with 1, 2, 3 cuts: 3 + 4 + 3 = 10 products.
    sums = [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)]
    assert len(kronecker_products(circuit)) == 10
    assert sorted(circuit.scopes[i] for i in sums) == [0b0011, 0b0110, 0b0111, 0b1100, 0b1110, 0b1111]
    # Weights: pairs 3 x (2 x 9); triples 2 x (2 x (6 + 6)); the whole 6 + 4 + 6; and 4 x 3 probabilities.
    assert circuit.n_parameters == 54 + 48 + (3 * 2 + 2 * 2 + 2 * 3) + 12
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-13)


def test_a_grid():
    circuit = fp.structures.poon_domingos((2, 3), 1, n_sums=2, n_inputs=2, family="bernoulli")
    # Rectangles: 3 ranges of rows x 6 of columns = 18. Cuts: (h - 1) + (w - 1) each, summed over all of them:
    # over rows 1 cut in 1 of 3 ranges, times 6; over columns 2 x 1 + 1 x 2 = 4, times 3.
    sums = [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)]
    assert len(sums) == 18 - 6
    assert len(kronecker_products(circuit)) == 6 + 12
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-13)
    assert not circuit.is_structured_decomposable
    assert not circuit.is_deterministic
    # Variables count along rows: the right column is variables 2 and 5.
    assert any(circuit.scopes[i] == 0b100100 for i in sums)


def test_cells_between_cuts_are_factorised():
    circuit = fp.structures.poon_domingos((4, 4), 2, n_inputs=3)
    leaves = {circuit.scopes[i] for i, node in enumerate(circuit.nodes) if getattr(node, "kind", None) == "hadamard"}
    assert leaves == {0b0011_0011 << shift for shift in (0, 2, 8, 10)}
    assert sum(isinstance(node, fp.Input) for node in circuit.nodes) == 16


def test_a_list_of_distances_goes_from_coarse_to_fine():
    circuit = fp.structures.poon_domingos(8, [4, 2], family="bernoulli")
    scopes = [circuit.scopes[i] for i in kronecker_products(circuit)]
    assert sorted(scopes) == [0b0000_1111, 0b1111_0000, 0b1111_1111]
    assert circuit.is_structured_decomposable
    # Multiples count from the grid's edge, not from the coarse cut: 3 cuts the left half and 6 the right one.
    circuit = fp.structures.poon_domingos(8, [4, 3], family="bernoulli")
    leaves = {circuit.scopes[i] for i in range(len(circuit.nodes)) if not isinstance(circuit.nodes[i], fp.Sum)}
    assert leaves >= {0b111, 0b1000, 0b11 << 4, 0b11 << 6}


def test_fractions_are_rounded_down():
    # 2.5, 5, 7.5: cuts at 2, 5, 7.
    circuit = fp.structures.poon_domingos(10, 2.5, family="bernoulli")
    inputs_together = {circuit.scopes[i] for i, node in enumerate(circuit.nodes) if getattr(node, "kind", None) == "hadamard"}
    assert inputs_together == {0b11, 0b111 << 2, 0b11 << 5, 0b111 << 7}


@pytest.mark.parametrize("shape", [1, 3, (1, 1), (2, 2)])
def test_a_grid_without_cuts_is_a_mixture_of_factorised_distributions(shape):
    circuit = fp.structures.poon_domingos(shape, 5, n_inputs=4, family="bernoulli")
    assert kronecker_products(circuit) == []
    assert circuit.n_parameters == 4 + 4 * circuit.n_variables
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-14)


def test_an_image_builds():
    circuit = fp.structures.poon_domingos((28, 28), 4, n_sums=2, n_inputs=2, family=fp.Categorical(256))
    # 7 x 7 cells have 28 x 28 rectangles, of which 49 are leaves.
    assert sum(isinstance(node, fp.Sum) for node in circuit.nodes) == 784 - 49


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (((4, 4), 0.5), "delta=0.5"),
        (((4, 4), []), "delta="),
        (((4, 4), [2, 0]), "delta="),
        (((4, 4), np.nan), "delta=nan"),
        (((4, 0), 2), "shape=0"),
        (((), 2), "at least one axis"),
        (((4, 4), 2, 0), "n_sums=0"),
        (((4, 4), 2, 1, 0), "n_inputs=0"),
    ],
)
def test_bad_options_are_named(arguments, match):
    with pytest.raises(OptionError, match=match):
        fp.structures.poon_domingos(*arguments)
