"""Gaps of rows filled in, given the rest of each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import numpy as np
from scipy.special import logsumexp

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.estimator.drawing import draw, settle
from flatpc.queries.answers import refuse_impossible
from flatpc.tables.columns import Columns

HOW = ("mean", "mode", "draw")


class HasRows(Protocol):
    """Rows as a circuit takes them, and what else belongs to them."""

    @property
    def rows(self) -> Array:
        """`[N, D]`, NaN where something is to be filled in."""


Block = TypeVar("Block", bound=HasRows)


def fill(circuit: Circuit, columns: Columns, rows: Array, how: str, seed: int) -> Array:
    """Rows without NaN: means of numbers and most probable categories, most probable rows, or draws."""
    if how == "draw":
        return draw(circuit, columns, 1, seed, rows)
    unknown = np.isnan(rows)
    if how == "mode":
        return settle(columns, np.asarray(circuit.mpe(rows).values), unknown)
    filled = np.array(circuit.expectation(rows))
    for j, column in enumerate(columns.columns):
        here = np.flatnonzero(unknown[:, j])
        if column.is_discrete and len(here):
            filled[here, j] = log_conditional(circuit, rows[here], j, len(column.categories)).argmax(axis=1)
        else:
            filled[here, j] = np.clip(filled[here, j], *column.traits.bounds)
    return filled


def fill_blocks(
    circuit: Circuit, columns: Columns, blocks: Iterable[Block], how: str, seed: int
) -> Iterator[tuple[Block, Array]]:
    """Blocks of rows, each with its rows filled in; draws of a block are by the seed and its place."""
    for place, block in enumerate(blocks):
        own = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
        yield block, fill(circuit, columns, block.rows, how, own)


def log_conditional(circuit: Circuit, rows: Array, j: int, n_categories: int) -> Array:
    """`[N, categories]`: log p(x_j = k | the rest)."""
    joint = np.empty((len(rows), n_categories))
    asked = rows.copy()
    for k in range(n_categories):
        asked[:, j] = k
        joint[:, k] = circuit.log_prob(asked, missing="marginalize")
    evidence = logsumexp(joint, axis=1, keepdims=True)
    refuse_impossible(evidence[:, 0], np.arange(len(rows)))
    return np.asarray(joint - evidence)
