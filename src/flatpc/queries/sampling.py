"""Samples, ancestral and conditional.

A sample is an induced tree: at a sum unit n a child c is drawn with probability `θ_nc p_c / p_n`, where `p` is the value
given what is known (1 for every unit when nothing is), and at the inputs that are reached unknown variables are drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flatpc._options import choice, seed_number, whole_number
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.families import asking
from flatpc.queries.answers import Indices, answering, bytes_of_units, give_back, refuse_impossible, row_blocks
from flatpc.queries.induced_trees import chunks, descend, edge_scores
from flatpc.tables.reading import MISSING, is_torch

# A tree holds two indices for each node it is about to visit, and no node is visited twice.
_BYTES_PER_VISIT = 16


def sample(
    circuit: Circuit,
    n: int = 1,
    *,
    given: Any = None,
    seed: int = 0,
    missing: str = "marginalize",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
) -> Any:
    """Rows drawn from the circuit, or completions of rows of which something is known.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))]
    >>> c = fp.Circuit(pair, {0: {"p": [0.5]}, 1: {"p": [1.0]}})
    >>> fp.queries.sample(c, 3, seed=0).shape
    (3, 2)
    >>> fp.queries.sample(c, 2, given=[0, np.nan]).tolist()
    [[0.0, 1.0], [0.0, 1.0]]

    Parameters
    ----------
    circuit
        The circuit.
    n
        How many rows, or how many completions of every given row.
    given
        A table `[M, D]` in which NaN is unknown, or one row `[D]`. Known entries are kept.
    seed
        Random seed: the same one gives the same rows.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN in `given`.
    engine, dtype, device
        As for `log_prob`, with `given` for X. The engine gives the values of all units given what is known; NumPy draws.
        Without `given` there is nothing to evaluate.

    Returns
    -------
    array or tensor
        `[n, D]`; for a table `given`, `[n, M, D]`. A tensor if `given` is one.

    Raises
    ------
    DataError
        As for `log_prob`; and if known values have probability zero. It names the row.
    OptionError
        As for `log_prob`; and if `n` is not a positive whole number or `seed` no seed.
    """
    n, rng = whole_number("n", n, 1), np.random.default_rng(seed_number(seed))
    check_circuit(circuit).check_structure()
    choice("missing", missing, MISSING)
    run, precision = answering(given, engine, dtype, device)
    if given is None:
        out = np.full((n, circuit.n_variables), np.nan)
        for block in row_blocks(n, _BYTES_PER_VISIT * len(circuit.nodes)):
            _draw(circuit, out[block], None, None, rng)
        return out
    one = _is_row(given)
    table = given if not one else given[None] if is_torch(given) else np.asarray(given)[None]
    rows = read_rows(circuit, table, missing)
    completed = np.repeat(rows[None], n, axis=0)
    incomplete = np.flatnonzero(np.isnan(rows).any(axis=1))
    for block in row_blocks(len(incomplete), bytes_of_units(circuit)):
        which = incomplete[block]
        values = run.unit_values(circuit, rows[which], dtype=precision)
        refuse_impossible(values[circuit.root][:, 0], which)
        # Sample-major, as in the answer: tree t completes row t % len(which).
        trees = np.tile(np.arange(len(which)), n)
        drawn = completed[:, which].reshape(-1, circuit.n_variables)
        for part in row_blocks(len(trees), _BYTES_PER_VISIT * len(circuit.nodes)):
            _draw(circuit, drawn[part], values, trees[part], rng)
        completed[:, which] = drawn.reshape(n, len(which), -1)
    return give_back(completed[:, 0] if one else completed, given)


def _draw(circuit: Circuit, out: Array, values: list[Array] | None, evidence: Indices | None, rng: np.random.Generator) -> None:
    """Fill the NaN entries of `out`; `values[i][evidence[t]]` are node i's log-values for row t, all zero if None."""

    def choose(i: int, trees: Indices, units: Indices) -> Indices:
        weights: Any = circuit.parameters[i]
        if values is None or evidence is None:
            # Trees at the same unit draw from the same weights.
            distinct, which = np.unique(units, return_inverse=True)
            return _draw_edges(weights[distinct], which, rng)
        width = circuit.widths[i]
        distinct, which = np.unique(evidence[trees] * width + units, return_inverse=True)
        rows, at = np.divmod(distinct, width)
        order = np.argsort(which, kind="stable")
        edges = np.empty(len(trees), np.int64)
        for part in chunks(len(distinct), weights.shape[1]):
            scores = edge_scores(circuit, values, i, rows[part], at[part])
            posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
            low, high = np.searchsorted(which[order], [part.start, part.stop])
            here = order[low:high]
            edges[here] = _draw_edges(posterior, which[here] - part.start, rng)
        return edges

    def visit(i: int, trees: Indices, units: Indices) -> None:
        node = circuit.nodes[i]
        assert isinstance(node, Input)
        parameters: Any = circuit.parameters[i]
        at = node.place(trees)
        out[at] = asking.drawn(node.family, parameters, units, out[at], rng)

    descend(circuit, len(out), choose, visit)


def _draw_edges(weights: Array, which: Indices, rng: np.random.Generator) -> Indices:
    """For each entry w of `which` a column, drawn in proportion to `weights[w]`; never one of weight zero."""
    cumulative = np.cumsum(weights, axis=1)
    total = cumulative[which, -1]
    # Below the total even after rounding, so that the first sum above u belongs to a column of positive weight.
    u = np.minimum(rng.random(len(which)) * total, np.nextafter(total, 0))
    low = np.zeros(len(which), np.int64)
    high = np.full(len(which), weights.shape[1] - 1)
    for _ in range(int(weights.shape[1] - 1).bit_length()):
        middle = (low + high) // 2
        above = cumulative[which, middle] > u
        high = np.where(above, middle, high)
        low = np.where(above, low, middle + 1)
    return low


def _is_row(given: Any) -> bool:
    try:
        return np.ndim(given) == 1 and not isinstance(given, str | bytes)
    except (ValueError, TypeError, RuntimeError):  # Rows of different lengths, for instance; reading them says so.
        return False
