"""Curvature over rows that come from a source: traces and products with the Hessian are sums over its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice
from flatpc._typing import Array
from flatpc.circuit.rows import read_rows
from flatpc.curvature.layout import REDUCTIONS, Layout, share_of_sum
from flatpc.errors import TooLargeError
from flatpc.tables.sources import Source

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
