"""What each edge of a sum is worth, by curvature: optimal brain damage and surgeon (LeCun, 1990; Hassibi and Stork, 1993).

p is linear in the weights of a unit. So where they change from θ to θ (1 + w), f being the flows of a row through its edges,

    log p - log p'  =  -log(1 + Σ f w)

to all orders, and what an edge is worth needs no quadratic; only where the other weights should go to does.

- `"damage"` takes edge c away, w_c = -1, and scales the others up, w = θ_c / (1 - θ_c).
- `"surgeon"` lets the others move to where, by the exact Hessian within the unit, the loss is least. At an optimum it is
  wᵀ A w / 2  with A = Σ f fᵀ over rows. With M the inverse of A on Σ θ w = 0, the best w is  -M_c / M_cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice
from flatpc._typing import Array
from flatpc.circuit.nodes import Sum
from flatpc.circuit.rows import check_circuit
from flatpc.curvature.layout import Layout
from flatpc.curvature.over_sources import rows_or_source
from flatpc.curvature.row_flows import blocks, row_flows
from flatpc.structures.edit.pruning import share_of_edges, without_least

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.tables.sources import Source

WAYS = ("damage", "surgeon")
RIDGE = 1e-6
"""Of the complete-data information, which keeps A from being singular: fewer rows than edges, or edges that no row uses."""
LEAST = 0.1
"""Of what scaling up would make of a weight: no weight ends below, however far the quadratic would go."""


def edge_losses(circuit: Circuit, X: Any, *, how: str = "damage", missing: str = "raise") -> dict[int, Array]:
    """For each edge of a sum, the log-likelihood in nats that all rows together lose if this edge alone is removed.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 3))
    >>> circuit = fp.structures.hclt(X, n_latents=2)
    >>> losses = fp.curvature.edge_losses(circuit, X)
    >>> losses.keys() == {i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)}
    True

    Parameters
    ----------
    circuit
        Any circuit without tied parameters.
    X
        The rows that it was fitted to, or a source of them.
    how
        `"damage"`: the other weights of the unit are scaled up. `"surgeon"`: or they move to where the Hessian within the unit
        says that the loss is least, if that is better.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    dict
        For each sum node `[units, edges]`; infinite for a unit's only edge, or where a row becomes impossible.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    TiedParametersError
        If parameters are tied.
    """
    choice("how", how, WAYS)
    layout, rows = _read(circuit, X, missing)
    return _losses(layout, rows, how)


def prune(circuit: Circuit, X: Any, fraction: float, *, how: str = "damage", missing: str = "raise") -> Circuit:
    """The circuit without those of the sums' edges that are worth least by curvature; each unit keeps its best edge.

    `fp.structures.prune` takes those with the least flow.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=8)
    >>> fp.curvature.prune(circuit, X, 0.5).n_edges < circuit.n_edges
    True

    Parameters
    ----------
    circuit
        Any circuit without tied parameters.
    X
        The rows that it was fitted to, or a source of them.
    fraction
        Share of the edges to remove, from 0 to less than 1.
    how
        As for `edge_losses`. With `"surgeon"` the weights that are left are moved, too.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    Circuit
        With masks where edges are gone. `fp.structures.compact` removes the units that are left over.

    Raises
    ------
    OptionError
        For an option out of its range.
    DataError
        For rows that are not the circuit's.
    TiedParametersError
        If parameters are tied.
    """
    choice("how", how, WAYS)
    fraction = share_of_edges("fraction", fraction)
    layout, rows = _read(circuit, X, missing)
    pruned = without_least(circuit, _losses(layout, rows, how), fraction)
    if how == "damage":
        return pruned
    thetas, squares = layout.arrays(layout.values), _squares(layout, rows)
    scaled: dict[int, Any] = {i: pruned.parameters[i] for i in squares}
    moved = {
        i: np.stack([_moved(*unit) for unit in zip(thetas[i], squares[i], scaled[i], strict=True)]) for i in squares
    }  # fmt: skip
    # Each unit for itself, the better one.
    lost = [_unit_losses(layout, rows, each) for each in (scaled, moved)]
    better = {i: np.where((lost[1][i] < lost[0][i])[:, None], moved[i], scaled[i]) for i in squares}
    return pruned.with_parameters(better)


def _read(circuit: Circuit, X: Any, missing: str) -> tuple[Layout, Array | Source]:
    layout = Layout(check_circuit(circuit))
    layout.refuse_ties("loss of an edge")
    return layout, rows_or_source(circuit, X, missing)


def _sums(layout: Layout) -> Iterator[tuple[int, slice]]:
    for i, start, end in zip(layout.shapes, layout.starts[:-1], layout.starts[1:], strict=True):
        if isinstance(layout.circuit.nodes[i], Sum):
            yield i, slice(int(start), int(end))


def _losses(layout: Layout, rows: Array | Source, how: str) -> dict[int, Array]:
    """For each sum `[K, C]`: of each edge, by the better of the ways that are allowed."""
    thetas = layout.arrays(layout.values)
    out = {i: np.zeros((2, *layout.shapes[i])) for i, _ in _sums(layout)}
    moves = {i: _moves(thetas[i], A) for i, A in _squares(layout, rows).items()} if how == "surgeon" else {}
    for part in blocks(layout, rows):
        flows = row_flows(layout, part)
        for i, place in _sums(layout):
            theta, f = thetas[i], flows[:, place].reshape(len(part), *layout.shapes[i])
            rest = 1 - theta
            change = (theta * f.sum(axis=2, keepdims=True) - f) / np.where(rest > 0, rest, 1.0)
            out[i][0] += _lost(change)
            out[i][1] += _lost(np.einsum("nkc,kec->nke", f, moves[i])) if moves else np.inf
    return {i: np.where(thetas[i] < 1, each.min(axis=0), np.inf) for i, each in out.items()}


def _unit_losses(layout: Layout, rows: Array | Source, weights: dict[int, Array]) -> dict[int, Array]:
    """For each sum `[K]`: nats that are lost if the weights of one unit alone are replaced by these."""
    thetas = layout.arrays(layout.values)
    changes = {i: weights[i] / np.where(thetas[i] > 0, thetas[i], 1.0) - 1 for i, _ in _sums(layout)}
    out = {i: np.zeros(layout.shapes[i][0]) for i, _ in _sums(layout)}
    for part in blocks(layout, rows):
        flows = row_flows(layout, part)
        for i, place in _sums(layout):
            f = flows[:, place].reshape(len(part), *layout.shapes[i])
            out[i] += _lost(np.einsum("nkc,kc->nk", f, changes[i]))
    return out


def _lost(change: Array) -> Array:
    """-log(1 + u) over rows."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(np.maximum(change, -1.0)).sum(axis=0))


def _squares(layout: Layout, rows: Array | Source) -> dict[int, Array]:
    """For each sum `[K, C, C]`: A, with a little of EM's complete-data information."""
    out = {i: np.zeros((*layout.shapes[i], layout.shapes[i][1])) for i, _ in _sums(layout)}
    for part in blocks(layout, rows):
        flows = row_flows(layout, part)
        for i, place in _sums(layout):
            f = flows[:, place].reshape(len(part), *layout.shapes[i])
            diagonal = f.sum(axis=0) + f.sum(axis=(0, 2))[:, None] * layout.values[place].reshape(layout.shapes[i])
            out[i] += np.einsum("nkc,nkd->kcd", f, f) + RIDGE * diagonal[:, None, :] * np.eye(f.shape[2])
    return out


def _moves(theta: Array, A: Array) -> Array:
    """`[K, C, C]`: for each edge that goes, in rows, the changes w of all edges."""
    k, c = theta.shape
    M = np.zeros((k, c + 1, c + 1))
    M[:, :c, :c] = A + np.where(theta > 0, 1e-12, 1.0)[:, None, :] * np.eye(c)
    M[:, :c, c] = M[:, c, :c] = np.where(theta.sum(axis=1, keepdims=True) > 0, theta, 0.0)
    inverse = np.linalg.inv(M)[:, :c, :c]
    spread = np.maximum(np.einsum("kcc->kc", inverse), 1e-300)
    moved = theta[:, None, :] * np.maximum(1 - inverse / spread[:, :, None], LEAST)
    moved = moved * (1 - np.eye(c))
    total = moved.sum(axis=2, keepdims=True)
    return np.asarray(moved / np.where(total > 0, total, 1.0) / np.where(theta > 0, theta, 1.0)[:, None, :] - 1)


def _moved(theta: Array, A: Array, left: Array) -> Array:
    """One unit's weights, given those that scaling up leaves: where the quadratic is best among the edges that are left."""
    kept, gone = left > 0, (theta > 0) & ~(left > 0)
    n = int(kept.sum())
    if n < 2 or not gone.any():
        return left
    M = np.zeros((n + 1, n + 1))
    M[:n, :n] = A[np.ix_(kept, kept)] + 1e-12 * np.eye(n)
    M[:n, n] = M[n, :n] = theta[kept]
    w = np.linalg.solve(M, np.append(A[np.ix_(kept, gone)].sum(axis=1), theta[gone].sum()))[:n]
    out = np.zeros_like(left)
    out[kept] = np.maximum(theta[kept] * (1 + w), LEAST * left[kept])
    return np.asarray(out / out.sum())
