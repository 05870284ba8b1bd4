"""Curvature over rows that come from a source: traces and products with the Hessian are sums over its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice
from flatpc._typing import Array
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature.layout import REDUCTIONS, Layout, share_of_sum
from flatpc.engine.contract import get_engine
from flatpc.errors import TooLargeError
from flatpc.tables.sources import Source, as_source
from flatpc.tables.sums import Arrays, plus

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Asked:
    """What is asked of each part; plain data, so that it can be sent to another machine."""

    circuit: Circuit
    include_inputs: bool
    missing: str
    space: str = "weights"
    engine: str = "auto"


@dataclass(frozen=True)
class _Rows:
    """Blocks as the circuit takes them."""

    circuit: Circuit
    missing: str

    def __call__(self, block: Any) -> Array:
        return read_rows(self.circuit, block, self.missing)


def rows_or_source(circuit: Circuit, X: Any, missing: str) -> Array | Source:
    """The rows of a table, or a source that knows how many it has and whose blocks are rows."""
    source = as_source(X)
    if source is None:
        return read_rows(circuit, X, missing)
    check_circuit(circuit)
    return source.counted().changed(_Rows(circuit, missing))


def number_of(rows: Array | Source) -> int:
    """Of rows."""
    return (rows.n_rows or 0) if isinstance(rows, Source) else len(rows)


def sum_of_blocks(source: Source, work: Callable[..., Arrays], n: int, circuit: Circuit, **how: Any) -> Arrays:
    """The sum over all blocks of the n arrays that `work(circuit, block, **how)` returns."""
    return source.add_up(_blocks, (work, n, circuit, how), None)


def _blocks(blocks: Iterator[Any], what: tuple[Callable[..., Arrays], int, Circuit, dict[str, Any]], shared: None) -> Arrays:
    work, n, circuit, how = what
    total: Arrays = tuple(np.zeros(()) for _ in range(n))
    for block in blocks:
        total = plus(total, work(circuit, block, **how))
    return total


def total_flows(layout: Layout, rows: Array | Source) -> Array:
    """`[P]`: flows of weights and of free tables, over all rows."""
    if isinstance(rows, Source):
        (found,) = sum_of_blocks(rows, _flows, 1, layout.circuit, include_inputs=layout.include_inputs)
        return found
    return _flows(layout.circuit, rows, layout.include_inputs)[0]


def _flows(circuit: Circuit, rows: Array, include_inputs: bool) -> tuple[Array]:
    layout, found = Layout(circuit, include_inputs), get_engine().flows(circuit, rows)
    tables = {i: found.inputs[i]["counts"] if isinstance(circuit.nodes[i], Input) else found.sums[i] for i in layout.shapes}
    return (np.asarray(layout.vector(tables)),)


def trace_of_source(
    circuit: Circuit, source: Source, space: str, include_inputs: bool, reduction: str, missing: str
) -> Array | float:
    """`curvature.trace` of a source."""
    choice("reduction", reduction, ("none", *REDUCTIONS))
    asked = Asked(circuit, include_inputs, missing, space)
    if reduction == "none":
        return np.concatenate(list(source.map(_traces, asked, None)))
    source = source.counted()
    (total,) = source.add_up(_trace, asked, None)
    return share_of_sum(reduction, source.n_rows or 0) * float(total)


def _traces(blocks: Iterator[Any], asked: Asked, shared: None) -> Array:
    from flatpc.curvature.traces import trace

    how: dict[str, Any] = {"space": asked.space, "include_inputs": asked.include_inputs, "missing": asked.missing}
    found = [trace(asked.circuit, block, **how) for block in blocks]
    return np.concatenate(found) if found else np.empty(0)


def _trace(blocks: Iterator[Any], asked: Asked, shared: None) -> tuple[Array]:
    return (np.array(_traces(blocks, asked, shared).sum()),)


class OfSource:
    """Multiplies vectors by the Hessian of Σ log p(x); the source is read anew for each product."""

    def __init__(self, layout: Layout, source: Source, engine: str, missing: str) -> None:
        self._source = source
        self._asked = Asked(layout.circuit, layout.include_inputs, missing, engine=engine)

    @property
    def rows(self) -> Array:
        """Are not all there at a time."""
        raise TooLargeError(
            "The Hessian of these rows is beyond the numbers of float64, and a source of rows has no wider ones; "
            "give the rows as a table: source.sample(n)."
        )

    def gradient(self, scale: Array | None) -> Array:
        """`[P]`."""
        return self._sum("gradient", scale)

    def products(self, vectors: Array, scale: Array | None, count: Callable[[int], None]) -> Array:
        """`[D, P]`."""
        found = self._sum("products", vectors, scale)
        count(len(vectors))
        return found

    def matrix(self, scale: Array | None, count: Callable[[int], None]) -> Array:
        """`[P, P]`."""
        found = self._sum("matrix", scale)
        count(len(found))
        return found

    def _sum(self, what: str, *arguments: Any) -> Array:
        (found,) = self._source.add_up(_hessian, self._asked, (what, arguments))
        return np.asarray(found)


def _hessian(blocks: Iterator[Any], asked: Asked, now: tuple[str, tuple[Any, ...]]) -> tuple[Array]:
    """What is asked of the Hessian, summed over the blocks of a part."""
    from flatpc.curvature.operators import products_of

    what, arguments = now
    layout = Layout(asked.circuit, asked.include_inputs)
    total: Any = 0.0
    for block in blocks:
        of_block = products_of(layout, read_rows(asked.circuit, block, asked.missing), asked.engine)
        counting = () if what == "gradient" else (_ignore,)
        total = total + getattr(of_block, what)(*arguments, *counting)
    return (np.asarray(total),)


def _ignore(n: int) -> None:
    """Nobody sees a bar on a worker."""
