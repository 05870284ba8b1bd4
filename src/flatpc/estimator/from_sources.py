"""An estimator's answers for rows that come from a source: some rows at a time, and nothing of them is kept but the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.errors import ShapeError
from flatpc.estimator.evidence import Evidence, read_evidence
from flatpc.estimator.imputing import fill
from flatpc.queries.streaming import Asked
from flatpc.tables.columns import Columns
from flatpc.tables.reading import RawTable, read_raw
from flatpc.tables.sources import Part, Source, as_source

Method = TypeVar("Method", bound=Callable[..., Any])


def over_blocks(method: Method) -> Method:
    """A method that answers row by row, and so takes a source: block by block, with one answer below the other."""

    @wraps(method)
    def answer(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        source = as_source(X)
        if source is None:
            return method(self, X, *arguments, **options)
        found = list(source.changed(lambda block: method(self, block, *arguments, **options)).blocks())
        if not found:
            raise ShapeError("The source has no rows: all its parts are empty.")
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(each) for each in zip(*found, strict=True))
        return np.concatenate(found)

    return answer  # type: ignore[return-value]


@dataclass(frozen=True)
class Reading:
    """Tables read for a circuit; plain data, so that it can be sent to another machine."""

    circuit: Circuit
    columns: Columns
    missing: str
    unseen: str

    def __call__(self, block: Any) -> tuple[Evidence, RawTable]:
        """The block as evidence, and as it was."""
        table = read_raw(block)
        return read_evidence(self.circuit, self.columns, table, self.missing, self.unseen), table

    def likelihood(self) -> Asked:
        """For `queries.streaming`: log-likelihoods of blocks, with those of values that the circuit doesn't know."""
        return _Likelihood(self.circuit, "marginalize", reading=self)


@dataclass(frozen=True)
class _Likelihood(Asked):
    reading: Reading | None = None

    def log_prob(self, block: Any) -> tuple[Array, Array]:
        assert self.reading is not None
        evidence, _ = self.reading(block)
        rows, found = super().log_prob(evidence.rows)
        return rows, found + evidence.rare.sum(axis=1)


def filled(source: Source, reading: Reading, how: str, seed: int) -> Source:
    """The source with the gaps of its rows filled in whenever they are read; draws are by the seed and the place of a block."""
    bare = replace(source, parts=(), cluster=None)
    parts = tuple(_Filled(part, bare, reading, how, seed, place) for place, part in enumerate(source.parts))
    return Source(parts, source.names, cluster=source.cluster)


@dataclass(frozen=True)
class _Filled:
    """A part whose gaps are filled in."""

    part: Part
    source: Source
    reading: Reading
    how: str
    seed: int
    place: int

    @property
    def name(self) -> str:
        """The part's."""
        return self.part.name

    @property
    def n_rows(self) -> int | None:
        """As many as before."""
        return self.part.n_rows

    def blocks(self) -> Iterator[Any]:
        """Tables of the kind that the part has."""
        columns = self.reading.columns
        for i, block in enumerate(self.source.blocks_of(self.part)):
            evidence, table = self.reading(block)
            own = int(np.random.SeedSequence([self.seed, self.place, i]).generate_state(1)[0])
            yield columns.decode(fill(self.reading.circuit, columns, evidence.rows, self.how, own), like=table)

    def identity(self) -> str:
        """By the part and what is done to it."""
        return f"{self.part.identity()} {self.how} {self.seed}"
