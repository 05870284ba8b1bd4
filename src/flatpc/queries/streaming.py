"""Log-likelihoods of rows that come from a source, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import Flows, check_dtype, get_engine
from flatpc.errors import ShapeError
from flatpc.queries.answers import bytes_of_units, row_blocks
from flatpc.tables.sources import Source


@dataclass(frozen=True)
class Asked:
    """A circuit and how it is asked; plain data, so that it can be sent to another machine."""

    circuit: Circuit
    missing: str = "raise"
    engine: str = "auto"
    dtype: str = "float64"
    device: Any = None

    def log_prob(self, block: Any) -> tuple[Array, Array]:
        """The rows of a block and their log-likelihoods, within the memory of a query."""
        rows = read_rows(self.circuit, block, self.missing)
        run, precision = get_engine(self.engine, self.device), check_dtype(self.dtype)
        some = row_blocks(len(rows), bytes_of_units(self.circuit))
        return rows, np.concatenate([run.log_prob(self.circuit, rows[part], dtype=precision) for part in some])

    def flows(self, block: Any) -> Flows:
        """The flows of a block."""
        run, precision = get_engine(self.engine, self.device), check_dtype(self.dtype)
        return run.flows(self.circuit, read_rows(self.circuit, block, self.missing), dtype=precision)


@dataclass(frozen=True)
class Totals:
    """Sums over rows."""

    n_rows: int
    n_known: int
    """Values that are not missing."""
    impossible: int
    """Rows of probability 0."""
    log_prob: float
    squares: float
    """Of log-likelihoods about `shift`."""
    shift: float

    @property
    def mean(self) -> float:
        """The mean log-likelihood."""
        return self.log_prob / self.n_rows

    @property
    def deviation(self) -> float:
        """The standard deviation of the log-likelihood."""
        return float(np.sqrt(max(self.squares / self.n_rows - (self.mean - self.shift) ** 2, 0.0)))


def log_prob_of(asked: Asked, source: Source) -> Array:
    """`[N]`."""
    found = [part for part in source.map(_log_probs, asked, None) if len(part)]
    return np.concatenate(found) if found else np.empty(0)


def totals_of(asked: Asked, source: Source) -> Totals:
    """Sums over all rows; nothing is kept of a row."""
    first = next(source.blocks(), None)
    shift = 0.0 if first is None else float(np.nan_to_num(asked.log_prob(first)[1], neginf=0.0).mean())
    (found,) = source.add_up(_totals, asked, shift)
    if not found[0]:
        raise ShapeError("The source has no rows: all its parts are empty.")
    return Totals(int(found[0]), int(found[1]), int(found[2]), float(found[3]), float(found[4]), shift)


def flows_of(asked: Asked, source: Source) -> Flows:
    """Added up over all rows."""
    total: Flows | None = None
    log_prob = []
    for block in source.blocks():
        one = asked.flows(block)
        log_prob.append(one.log_prob)
        if total is None:
            total = one
            continue
        for node, flow in one.sums.items():
            total.sums[node] = total.sums[node] + flow
        for node, statistics in one.inputs.items():
            for name, value in statistics.items():
                total.inputs[node][name] = total.inputs[node][name] + value
    assert total is not None
    return Flows(np.concatenate(log_prob), total.sums, total.inputs)


def _log_probs(blocks: Iterator[Any], asked: Asked, shared: None) -> Array:
    found = [asked.log_prob(block)[1] for block in blocks]
    return np.concatenate(found) if found else np.empty(0)


def _totals(blocks: Iterator[Any], asked: Asked, shift: float) -> tuple[Array]:
    out = np.zeros(5)
    for block in blocks:
        rows, log_prob = asked.log_prob(block)
        with np.errstate(invalid="ignore"):
            squares = float(((log_prob - shift) ** 2).sum())
        known, impossible = np.count_nonzero(~np.isnan(rows)), np.count_nonzero(np.isneginf(log_prob))
        out += np.array([len(rows), known, impossible, float(log_prob.sum()), squares])
    return (out,)
