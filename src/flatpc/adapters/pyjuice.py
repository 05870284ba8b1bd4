"""Circuits built or trained with PyJuice, carried over node by node.

    import pyjuice as juice
    from flatpc.adapters import from_pyjuice

    root = juice.structures.HCLT(x, num_latents=32, input_dist=juice.distributions.Bernoulli())
    root.init_parameters()
    circuit = from_pyjuice(root)

| PyJuice | flatpc |
|---|---|
| `InputNodes` over one variable: Bernoulli, Categorical, Gaussian, Literal, Indicator | `Input` |
| `ProdNodes` that multiply entry by entry, or all pairs | `Product` |
| `ProdNodes` with other edges | a `Sum` with one edge for each unit that fetches a child's units, below a `Product` |
| `SumNodes`, with or without all blocks of edges | `Sum`, with a mask where edges are absent |
| tied nodes | tied nodes |

Nothing of PyJuice is imported here: the nodes say what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Node, Product, Sum
from flatpc.circuit.parameters import NodeParameters
from flatpc.errors import OptionError, ParameterError, StructureError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.indicator import Indicator

_FAMILIES = "Bernoulli, Categorical, Gaussian, Indicator, Literal"


def from_pyjuice(root: Any) -> Circuit:
    """The circuit below a PyJuice node, with its parameters.

    >>> import flatpc as fp
    >>> import pyjuice as juice  # doctest: +SKIP
    >>> coins = [juice.inputs(v, num_nodes=4, dist=juice.distributions.Bernoulli()) for v in range(2)]  # doctest: +SKIP
    >>> root = juice.summate(juice.multiply(*coins), num_nodes=1)  # doctest: +SKIP
    >>> root.init_parameters()  # doctest: +SKIP
    >>> fp.adapters.from_pyjuice(root).n_variables  # doctest: +SKIP
    2

    Weights, which are float32 in PyJuice, are normalised anew in float64. A compiled model writes what it has learnt back to its
    nodes with `model.update_parameters()`: convert after that.

    Parameters
    ----------
    root
        The root node of a PyJuice circuit, a `SumNodes`.

    Returns
    -------
    Circuit
        With the same distribution.

    Raises
    ------
    OptionError
        If it is no PyJuice node.
    StructureError
        For inputs over several variables, other distributions, or sums with external parameters.
    ParameterError
        For nodes without parameters.
    """
    if type(root).__module__.split(".")[0] != "pyjuice" or not hasattr(root, "chs"):
        raise OptionError(f"from_pyjuice takes the root node of a PyJuice circuit (a SumNodes), not a {type(root).__name__}.")
    return _Conversion(root).circuit()


class _Conversion:
    def __init__(self, root: Any) -> None:
        self.nodes: list[Node] = []
        self.parameters: dict[int, NodeParameters] = {}
        self.index: dict[int, int] = {}
        """From id(PyJuice node) to the index of the node that has its units, in order."""
        self.owner: dict[int, int] = {}
        """From id(PyJuice node that holds parameters) to the first node that uses them."""
        self.order = _children_first(root)
        self.n_values = _values_of_variables(self.order)

    def circuit(self) -> Circuit:
        for ns in self.order:
            convert = self._input if ns.is_input() else self._product if ns.is_prod() else self._sum
            self.index[id(ns)] = convert(ns)
        return Circuit(self.nodes, self.parameters)

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _tie(self, ns: Any) -> int | None:
        """The earlier node that has this one's parameters; None if this is the first that uses them."""
        first = self.owner.setdefault(id(ns.get_source_ns()), len(self.nodes))
        return None if first == len(self.nodes) else first

    def _input(self, ns: Any) -> int:
        variable = _variable(ns)
        family = _family(ns, self.n_values[variable])
        tie = self._tie(ns)
        i = self._add(Input(variable, family, ns.num_nodes, tie))
        if tie is None:
            self.parameters[i] = _input_parameters(ns, family)
        return i

    def _product(self, ns: Any) -> int:
        """Column j of `factors` says which unit of child j each unit multiplies."""
        factors = _numpy(ns.edge_ids).astype(np.int64)
        if len(factors) != ns.num_nodes:
            # Edges between blocks: unit by unit inside each.
            factors = (factors[:, None, :] * ns.block_size + np.arange(ns.block_size)[:, None]).reshape(ns.num_nodes, -1)
        children = [self.index[id(cs)] for cs in ns.chs]
        widths = [cs.num_nodes for cs in ns.chs]
        if len(children) > 1 and np.prod(widths) == ns.num_nodes:
            pairs = np.stack(np.unravel_index(np.arange(ns.num_nodes), widths), axis=1)
            if np.array_equal(factors, pairs):
                return self._add(Product(tuple(children), "kronecker"))
        children = [self._fetch(c, k, units) for c, k, units in zip(children, widths, factors.T, strict=True)]
        return children[0] if len(children) == 1 else self._add(Product(tuple(children)))

    def _fetch(self, child: int, width: int, units: NDArray[np.int64]) -> int:
        """A node whose unit k is unit `units[k]` of the child: the child itself if that is all of it in order."""
        if np.array_equal(units, np.arange(width)):
            return child
        one = np.zeros((len(units), width))
        one[np.arange(len(units)), units] = 1.0
        i = self._add(Sum((child,), len(units), mask=one > 0))
        self.parameters[i] = one
        return i

    def _sum(self, ns: Any) -> int:
        if hasattr(ns, "external_params"):
            raise StructureError("A PyJuice sum with external parameters has no weights of its own and can't be carried over.")
        tie = self._tie(ns)
        weights, mask = _weights(ns)
        children = tuple(self.index[id(cs)] for cs in ns.chs)
        i = self._add(Sum(children, ns.num_nodes, None if mask.all() else mask, tie))
        if tie is None:
            self.parameters[i] = weights
        return i


def _children_first(root: Any) -> list[Any]:
    """All nodes, children before parents; without recursion, as long chains are deep."""
    order: list[Any] = []
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        ns, expanded = stack.pop()
        if expanded:
            order.append(ns)
        elif id(ns) not in seen:
            seen.add(id(ns))
            stack.append((ns, True))
            stack.extend((cs, False) for cs in reversed(ns.chs))
    return order


def _variable(ns: Any) -> int:
    variables = ns.scope.to_list()
    if len(variables) != 1:
        raise StructureError(f"A PyJuice input over the variables {variables} can't be carried over: an Input has one variable.")
    return int(variables[0])


def _values_of_variables(order: list[Any]) -> dict[int, int]:
    """For each variable the number of values its inputs speak of: a Literal alone doesn't say how many there are."""
    out: dict[int, int] = {}
    for ns in order:
        if ns.is_input():
            dist = ns.dist
            says = getattr(dist, "num_cats", None) or getattr(dist, "num_states", None) or getattr(dist, "lit", 1) + 1
            out[_variable(ns)] = max(out.get(_variable(ns), 2), int(says))
    return out


def _family(ns: Any, n_values: int) -> Family:
    name = type(ns.dist).__name__
    if name == "Bernoulli":
        return Bernoulli()
    if name == "Categorical":
        return Categorical(ns.dist.num_cats)
    if name == "Gaussian":
        return Gaussian(min_variance=ns.dist.min_sigma**2)
    if name in ("Literal", "Indicator"):
        return Indicator(n_values)
    raise StructureError(f"A PyJuice input with the distribution {name} can't be carried over; known are {_FAMILIES}.")


def _input_parameters(ns: Any, family: Family) -> dict[str, Array]:
    if not family.learnable:
        lit = getattr(ns.dist, "lit", None)
        return {"value": np.arange(ns.num_nodes, dtype=np.float64) if lit is None else np.full(ns.num_nodes, float(lit))}
    held = ns.get_source_ns().get_params()
    if held is None:
        raise _without_parameters("input")
    values = _numpy(held).astype(np.float64).reshape(ns.num_nodes, -1)
    if not family.discrete:
        return {"mean": values[:, 0].copy(), "variance": values[:, 1] ** 2}
    if family.n_categories == 2 and values.shape[1] == 1:
        return {"p": values[:, 0].copy()}
    return {"p": values / values.sum(axis=1, keepdims=True)}


def _weights(ns: Any) -> tuple[Array, NDArray[np.bool_]]:
    """Weights and mask `[units, units of all children]` from blocks of edges."""
    source = ns.get_source_ns()
    held = source.get_params()
    if held is None:
        raise _without_parameters("sum")
    above, below = _numpy(ns.edge_ids)
    blocks = (ns.num_node_blocks, ns.num_ch_node_blocks, ns.block_size, ns.ch_block_size)
    shape = (ns.num_nodes, ns.num_ch_nodes)
    weights, mask = np.zeros(blocks), np.zeros(blocks, dtype=bool)
    weights[above, below] = _numpy(held)
    absent = source.get_zero_param_mask()
    mask[above, below] = True if absent is None else ~_numpy(absent) | (_numpy(held) > 0)
    weights = weights.transpose(0, 2, 1, 3).reshape(shape)
    return weights / weights.sum(axis=1, keepdims=True), mask.transpose(0, 2, 1, 3).reshape(shape)


def _without_parameters(kind: str) -> ParameterError:
    return ParameterError(f"A PyJuice {kind} has no parameters yet; call root.init_parameters() first.")


def _numpy(tensor: Any) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu())
