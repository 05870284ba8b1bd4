"""Several families for the units of one input: learning tells which a unit is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flatpc._options import number, seed_number, several, whole_number, wrong
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Mixture, Node
from flatpc.circuit.rows import check_circuit
from flatpc.errors import OptionError
from flatpc.families import asking
from flatpc.families.base import Family, Parameters
from flatpc.families.registry import family as family_by_name

DRAWN, STEPS = 200, 20
"""Values of a unit that another family's is fitted to, and steps of EM."""


def mix_families(
    circuit: Circuit, *, families: Mapping[int, str | Family | Sequence[str | Family]], share: float = 0.25, seed: int = 0
) -> Circuit:
    """Each unit of a column's inputs as a mixture of several families, whose weights `fp.fit` learns with everything else.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-9, 1, (400, 1)), rng.exponential(2, (400, 1))])
    >>> both = fp.structures.mix_families(fp.structures.mixture(X, 2, blocks=None), families={0: fp.Exponential()})
    >>> learnt = fp.fit(both, X, epochs=30, progress=False).circuit
    >>> sorted(np.asarray(learnt.parameters[2]).round().tolist())  # an exponential unit, and a Gaussian one
    [[0.0, 1.0], [1.0, 0.0]]

    Each other family starts where the unit is: fitted to values drawn from it, as far as the family allows them.

    Parameters
    ----------
    circuit
        Any circuit whose inputs over these columns are of one variable each.
    families
        Column -> one or several further families, densities beside a density and probabilities beside probabilities.
    share
        The weight of all further families together at the start.
    seed
        Random seed of the values drawn.

    Returns
    -------
    Circuit
        In which each of these inputs is a `fp.Mixture` of inputs: that of before, then the others.

    Raises
    ------
    OptionError
        For a column without such inputs, a family of another measure, or an option out of its range.
    """
    check_circuit(circuit)
    share = number("share", share, 0.0, 1.0, above=True, below=True)
    rng = np.random.default_rng(seed_number(seed))
    wanted = {column: _read(circuit, column, given) for column, given in _items(families)}
    nodes: list[Node] = []
    parameters: dict[int, Any] = {}
    place: list[int] = []  # where each old node is now
    own: dict[int, list[int]] = {}  # of an input that became several: where these are
    for i, node in enumerate(circuit.nodes):
        tie = getattr(node, "tie", None)
        if not isinstance(node, Input):
            moved: dict[str, Any] = {} if tie is None else {"tie": place[tie]}
            nodes.append(replace(node, children=tuple(place[c] for c in node.children), **moved))
        elif node.variables[0] not in wanted:
            nodes.append(replace(node, tie=None if tie is None else place[tie]))
        else:
            others = [family for family in wanted[node.variables[0]] if family != node.family]
            if others:
                own[i] = _several(circuit, i, node, others, None if tie is None else own[tie], share, rng, nodes, parameters)
                place.append(len(nodes) - 1)
                continue
            nodes.append(replace(node, tie=None if tie is None else place[tie]))
        place.append(len(nodes) - 1)
        if i in circuit.parameters and circuit.owners[i] == i:
            parameters[place[i]] = circuit.parameters[i]
    return Circuit(nodes, parameters)


def _items(families: Any) -> list[tuple[int, Any]]:
    if not isinstance(families, Mapping) or not families:
        raise wrong("families", families, "give a dict from columns to further families, such as {0: fp.StudentT()}.")
    return [(whole_number("families", column, 0), given) for column, given in families.items()]


def _read(circuit: Circuit, column: int, given: Any) -> list[Family]:
    listed = [given] if isinstance(given, str | Family) else several("families", given, "a family, or a list of families")
    found = [family_by_name(each) for each in listed]
    inputs = [node for node in circuit.nodes if isinstance(node, Input) and column in node.variables]
    if not inputs or any(len(node.variables) > 1 for node in inputs):
        which = "is shared with other columns in an input" if inputs else f"is none of the {circuit.n_variables} columns"
        raise OptionError(f"families: column {column} {which}; name one with inputs of its own.", option="families")
    for family in found:
        if any(family.discrete != node.family.discrete for node in inputs) or family.n_variables > 1 or not family.learnable:
            measure = "probabilities" if inputs[0].family.discrete else "densities"
            raise OptionError(
                f"families: {family} can't stand beside {inputs[0].family} in column {column}; give a family of one variable "
                f"that is learnt, and has {measure} as that one has.",
                option="families",
            )
    return found


def _several(
    circuit: Circuit, i: int, node: Input, others: Sequence[Family], tied: Sequence[int] | None, share: float,
    rng: np.random.Generator, nodes: list[Node], parameters: dict[int, Any],
) -> list[int]:  # fmt: skip
    """Append the inputs and their mixture; where these are."""
    start, column = len(nodes), node.variables[0]
    given: Any = circuit.parameters[i]
    for k, family in enumerate([node.family, *others]):
        nodes.append(Input(column, family, node.width, None if tied is None else tied[k]))
        if tied is None:
            parameters[start + k] = given if k == 0 else _fitted(family, node.family, given, node.width, rng)
    nodes.append(Mixture(tuple(range(start, len(nodes))), None if tied is None else tied[-1]))
    if tied is None:
        weights = np.array([1 - share, *[share / len(others)] * len(others)])
        parameters[len(nodes) - 1] = np.tile(weights, (node.width, 1))
    return list(range(start, len(nodes)))


def _fitted(family: Family, of: Family, parameters: Parameters, width: int, rng: np.random.Generator) -> dict[str, Array]:
    """Units of one family, each fitted to what a unit of another one draws."""
    units = np.repeat(np.arange(width), DRAWN)
    x = of.sample(parameters, units, rng)
    allowed = ~family.outside(x)
    flow = np.eye(width)[units] * allowed[:, None]
    known = x[allowed]
    can_start = len(known) > 0 and family.defines("initialize_from")
    fitted = family.initialize_from(known, width, rng, "uniform") if can_start else family.initialize(width, rng, "uniform")
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            fitted = family.update(fitted, asking.statistics(family, fitted, x, flow), 1e-3)
    return fitted
