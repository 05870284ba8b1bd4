"""Random tensorised circuits: random binary region graphs with einsum layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flatpc._options import seed_number, whole_number
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Mixture, Node, Sum
from flatpc.families.base import Family
from flatpc.structures.options import FamilyLike, random_circuit, resolve_families
from flatpc.structures.regions.parts import add_leaf_region, add_partition


def rat_spn(
    n_variables: int,
    depth: int = 1,
    n_repetitions: int = 10,
    n_sums: int = 10,
    n_inputs: int = 10,
    *,
    family: FamilyLike = "gaussian",
    seed: int = 0,
) -> Circuit:
    """A mixture of random binary decompositions of the variables (RAT-SPN, Einsum Network), with random parameters.

    >>> import flatpc as fp
    >>> fp.structures.rat_spn(2).n_parameters  # ten times 2 x 10 Gaussians of 2 numbers and 100 weights; 10 mixing weights
    1410

    Each repetition cuts the variables into two random halves, these again, `depth` times over or until single variables
    are left. What is left is a leaf region: `n_inputs` factorised distributions. A cut multiplies all pairs of units of
    its halves and sums them with `n_sums` units (an einsum layer), or one unit at the top; a Mixture over the
    repetitions is the root. Repetitions share nothing but the root, even where they cut alike.

    Parameters
    ----------
    n_variables
        Number of variables.
    depth
        Number of cuts from the whole to a leaf; 0 gives a mixture of factorised distributions.
    n_repetitions
        Number of random decompositions.
    n_sums
        Number of units of every inner region below the root.
    n_inputs
        Number of units of every leaf region.
    family
        A family or its name, for all variables, or a list with one for each.
    seed
        Random seed of the decompositions and the parameters.

    Returns
    -------
    Circuit
        Over `n_variables` variables.

    Raises
    ------
    OptionError
        For an option out of its range.
    """
    n_variables = whole_number("n_variables", n_variables, 1)
    depth = whole_number("depth", depth, 0)
    n_repetitions = whole_number("n_repetitions", n_repetitions, 1)
    n_sums, n_inputs = whole_number("n_sums", n_sums, 1), whole_number("n_inputs", n_inputs, 1)
    families = resolve_families(family, n_variables)
    rng = np.random.default_rng(seed_number(seed))
    nodes: list[Node] = []
    roots = []
    for _ in range(n_repetitions):
        top = _add_region(nodes, rng.permutation(n_variables).tolist(), depth, families, n_sums, n_inputs)
        nodes.append(Sum((top,)))
        roots.append(len(nodes) - 1)
    if n_repetitions > 1:
        nodes.append(Mixture(tuple(roots)))
    return random_circuit(nodes, seed)


def _add_region(
    nodes: list[Node],
    variables: list[int],
    depth: int,
    families: Sequence[Family],
    n_sums: int,
    n_inputs: int,
) -> int:
    """Append a region, its variables already in random order, up to but without its sum; the index of its last node."""
    if depth == 0 or len(variables) == 1:
        return add_leaf_region(nodes, sorted(variables), families, n_inputs)
    halves = []
    for half in (variables[: len(variables) // 2], variables[len(variables) // 2 :]):
        # The halves of a random order are random halves, and their own orders are random too.
        node = _add_region(nodes, half, depth - 1, families, n_sums, n_inputs)
        if depth > 1 and len(half) > 1:
            nodes.append(Sum((node,), n_sums))
            node = len(nodes) - 1
        halves.append(node)
    return add_partition(nodes, *halves)
