"""The full Hessian: closed form for trees, column by column for any circuit; and the second derivatives of p itself.

With g the gradient of log p in the weights and F flow, for two edges i, j of a tree-structured circuit

    H_ij = g_i g_j (1 - 1/F_q)   if one induced tree can contain both,   g_i g_j   if none can

where q is the deepest unit that is above, or equal to, both edges' lower ends. One formula for the three kinds of pair: for a
product pair q is a product unit; for a path pair it is the upper edge's own lower end; for a sum pair it is a sum unit, where
the two edges exclude each other. An edge excludes itself in this sense, p being linear in its weight: H_ii = g_i².

For a circuit whose units have several parents the number of paths between two edges grows exponentially with depth, but no path
has to be looked at: a Hessian-vector product is a few passes over the edges, so a column of the Hessian costs O(edges) and the
whole O(edges · parameters), which is the order of its own size. Several columns go through one pass, each only through the nodes
that its parameter moves, and down no further than to its own node: the rest is known by symmetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, flag
from flatpc._typing import Array, Ints
from flatpc.circuit.nodes import Input, Mixture, Product, Sum
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature.layout import Layout, check_space, share_of_sum
from flatpc.curvature.operators import operator
from flatpc.curvature.over_sources import sum_of_blocks
from flatpc.curvature.spaces import gradient_in, product_in
from flatpc.curvature.wide_numbers import Wide
from flatpc.curvature.wide_passes import WidePasses
from flatpc.engine.contract import ENGINES, get_engine
from flatpc.errors import DataError, OptionError
from flatpc.tables.reading import from_torch, is_torch
from flatpc.tables.sources import as_source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

METHODS = ("auto", "tree", "columns")
_LEAST_LOG_PROB = -300.0
"""Where p times derivatives of log p is still within float64's range."""


def hessian(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    method: str = "auto",
    engine: str = "auto",
    missing: str = "raise",
    progress: bool = False,
) -> Array:
    """The Hessian of the negative log-likelihood, exactly, for any circuit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> fp.curvature.hessian(c, [[1]]).round(6).tolist()  # p pᵀ / s², a sum pair
    [[0.16, 0.64], [0.64, 2.56]]

    Parameters
    ----------
    circuit
        Any circuit.
    X
        Rows for it, or a source of rows.
    space
        `"weights"`, `"logits"` or `"simplex"`, as for `operator`.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too.
    reduction
        `"sum"`: of the rows' negative log-likelihoods. `"mean"`: of their mean.
    method
        `"tree"`: the closed form, for tree-structured circuits, in weights. `"columns"`: Hessian-vector products, several in one
        pass. `"auto"`: the closed form where it applies.
    engine
        Engine of the Hessian-vector products: `"auto"`, `"numba"` or `"torch"`.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.
    progress
        Whether to show a bar while columns are computed.

    Returns
    -------
    array
        `[P, P]`, symmetric, parameters in the order that `operator` tells; infinite where float64 can't hold an entry.

    Raises
    ------
    OptionError
        For an unknown option, or `method="tree"` where the closed form doesn't apply.
    DataError
        For rows that are not the circuit's.
    """
    check_space(space)
    choice("method", method, METHODS)
    choice("engine", engine, ("auto", *ENGINES))
    flag("include_inputs", include_inputs)
    flag("progress", progress)
    source = as_source(X)
    if source is not None:
        source = source.counted()
        share = share_of_sum(reduction, source.n_rows or 0)
        how: dict[str, Any] = {"space": space, "include_inputs": include_inputs, "method": method, "engine": engine}
        return share * sum_of_blocks(source, _of_block, 1, check_circuit(circuit), missing=missing, **how)[0]
    rows = read_rows(circuit, X, missing)
    share = share_of_sum(reduction, len(rows))
    closed = space == "weights" and not include_inputs and circuit.is_tree and not circuit.has_tied_parameters
    if method == "tree" and not closed:
        raise OptionError(
            "The closed form is for tree-structured circuits with untied parameters, in the weights and without inputs; "
            "method='columns' is exact for all others."
        )
    if method == "columns" or not closed:
        return share * _by_columns(circuit, rows, space, include_inputs, engine, progress)
    return share * _by_pairs(circuit, rows, engine, progress)


def _of_block(circuit: Circuit, block: Any, **how: Any) -> tuple[Array]:
    return (np.asarray(hessian(circuit, block, progress=False, **how)),)


def likelihood_hessian(
    circuit: Circuit, x: Any, *, space: str = "weights", include_inputs: bool = False, missing: str = "raise"
) -> Array:
    """The second derivatives of p(x) itself, not of its logarithm, at one row.

    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> bool(abs(fp.curvature.likelihood_hessian(c, [1])).max() < 1e-12)  # p is linear in the weights of one sum
    True

    For a tree, in the weights, `∂²p/∂θ_i∂θ_j = p g_i g_j / F_q` for two edges that one induced tree can contain, and 0 for all
    others, the diagonal included; for any circuit and in every space `∇²p = p (g gᵀ - H)`, H being `hessian`.

    Parameters
    ----------
    circuit
        Any circuit.
    x
        One row for it.
    space, include_inputs, missing
        As for `hessian`.

    Returns
    -------
    array
        `[P, P]`, parameters in the order that `operator` tells.

    Raises
    ------
    OptionError
        For an unknown space.
    DataError
        For a row that is not the circuit's.
    """
    check_space(space)
    flag("include_inputs", include_inputs)
    rows = read_rows(circuit, _one_row(x), missing)
    layout = Layout(circuit, include_inputs)
    log_prob = float(get_engine().log_prob(circuit, rows)[0])
    options: Any = {"space": space, "include_inputs": include_inputs, "missing": "marginalize"}
    if log_prob > _LEAST_LOG_PROB:
        H = hessian(circuit, rows, **options)
        g = gradient_in(space, layout, layout.values, operator(circuit, rows, **options).gradient)
        with np.errstate(over="ignore", invalid="ignore"):
            if space == "weights" and not include_inputs and circuit.is_tree and not circuit.has_tied_parameters:
                # Exact zeros where no induced tree has both edges, rather than what is left of a difference.
                H = np.where(pairs_of(circuit).together, H, np.outer(g, g))
            out: Array = np.exp(log_prob) * (np.outer(g, g) - H)
        if np.isfinite(out).all():
            return out
    return _of_likelihood(layout, rows, space)


def _of_likelihood(layout: Layout, row: Array, space: str) -> Array:
    """Without dividing by p, which may be 0, and in numbers that are never out of range."""
    passes = WidePasses(layout)
    theta = passes.theta

    def product(vectors: Wide) -> Wide:
        if space != "logits":
            return passes.products(row, vectors, log=False)
        return theta * passes.products(row, theta * vectors, log=False)

    flows, units = theta * passes.gradient(row, log=False), Wide.of(np.eye(layout.size))
    return product_in(space, layout, theta, lambda: flows, product, units).to_float()


def _one_row(x: Any) -> Any:
    """A row as a table of one."""
    if isinstance(x, list | tuple):
        return [x]
    if is_torch(x):
        return from_torch(x)[None]
    if isinstance(x, np.ndarray):
        return x[None]
    raise DataError(f"x is a {type(x).__name__}; give one row, a list or an array with a value for each variable.")


def _by_columns(circuit: Circuit, rows: Array, space: str, include_inputs: bool, engine: str, progress: bool) -> Array:
    options: Any = {"space": space, "include_inputs": include_inputs, "engine": engine, "progress": progress}
    return operator(circuit, rows, missing="marginalize", **options).matrix()


# ---- trees --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """For every pair of parameters of a tree-structured circuit how their edges lie to each other."""

    together: NDArray[np.bool_]
    """`[P, P]`: whether one induced tree can contain both edges; False on the diagonal."""
    meet: Ints
    """`[P, P]`: the unit q, numbered through all nodes' units; anything where `together` is False."""
    parent: Ints
    """`[P]`: the sum unit that a parameter's edge leaves."""
    child: Ints
    """`[P]`: the unit it leads to."""


def pairs_of(circuit: Circuit) -> Pairs:
    """Walk up the tree, joining the sets of parameters below: O(P²) in all."""
    first = np.concatenate([[0], np.cumsum(circuit.widths)]).astype(np.int64)
    layout = Layout(circuit)
    n = layout.size
    together, meet = np.zeros((n, n), bool), np.zeros((n, n), np.int64)
    parent, child = np.zeros(n, np.int64), np.zeros(n, np.int64)
    below: dict[int, Ints] = {}
    number = layout.arrays(np.arange(n, dtype=np.float64))
    for i, node in enumerate(circuit.nodes):
        for k in range(circuit.widths[i]):
            unit = int(first[i]) + k
            if isinstance(node, Input):
                below[unit] = np.empty(0, np.int64)
                continue
            if isinstance(node, Product):
                parts = [below.pop(c) for c in _factors(circuit, node, first, k)]
                _join(together, meet, parts, unit)
                below[unit] = np.concatenate(parts)
                continue
            parts = []
            for j, c in _edges(circuit, i, first, k):
                edge = int(number[i][k, j])
                parent[edge], child[edge] = unit, c
                inside = below.pop(c)
                together[edge, inside] = together[inside, edge] = True
                meet[edge, inside] = meet[inside, edge] = c
                parts.append(np.append(inside, edge))
            below[unit] = np.concatenate(parts)
    return Pairs(together, meet, parent, child)


def _join(together: NDArray[np.bool_], meet: Ints, parts: list[Ints], unit: int) -> None:
    """Parameters below different factors of a product meet there."""
    seen = parts[0]
    for part in parts[1:]:
        for a, b in ((seen, part), (part, seen)):
            together[np.ix_(a, b)] = True
            meet[np.ix_(a, b)] = unit
        seen = np.append(seen, part)


def _factors(circuit: Circuit, node: Product, first: Ints, k: int) -> list[int]:
    if node.kind == "hadamard":
        return [int(first[c]) + k for c in node.children]
    out = []
    for c in reversed(node.children):
        k, inside = divmod(k, circuit.widths[c])
        out.append(int(first[c]) + inside)
    return out[::-1]


def _edges(circuit: Circuit, i: int, first: Ints, k: int) -> Iterator[tuple[int, int]]:
    """Columns of unit k's weights, and the units they lead to."""
    node = circuit.nodes[i]
    assert isinstance(node, Sum | Mixture)
    if isinstance(node, Mixture):
        yield from ((j, int(first[c]) + k) for j, c in enumerate(node.children))
        return
    units = [int(first[c]) + m for c in node.children for m in range(circuit.widths[c])]
    yield from ((j, unit) for j, unit in enumerate(units) if node.mask is None or node.mask[k, j])


def _by_pairs(circuit: Circuit, rows: Array, engine: str, progress: bool) -> Array:
    pairs, layout = pairs_of(circuit), Layout(circuit)
    native = get_engine()
    values = np.concatenate(native.unit_values(circuit, rows), axis=1)
    flows = np.concatenate(native.unit_flows(circuit, rows), axis=1)
    possible = values[:, -1] > -np.inf
    # 1/F_q is a limit where a flow is zero; such rows go column by column.
    plain = possible & (flows > 0).all(axis=1)
    out = np.zeros((layout.size, layout.size))
    with np.errstate(over="ignore", invalid="ignore"):
        for value, flow in zip(values[plain], flows[plain], strict=True):
            g = np.where(layout.exists, np.exp(value[pairs.child] - value[pairs.parent]) * flow[pairs.parent], 0.0)
            product = np.outer(g, g)
            out += product - np.where(pairs.together, 1 / flow[pairs.meet], 0.0) * product
    if not np.isfinite(out).all():  # beyond float64's range, at least on the way
        return _by_columns(circuit, rows, "weights", False, engine, progress)
    if (possible & ~plain).any():
        out += _by_columns(circuit, rows[possible & ~plain], "weights", False, engine, progress)
    return out
