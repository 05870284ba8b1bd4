"""What a run learns from, batch by batch: rows in memory, or a source that is read in windows.

A source is read anew in every epoch: its parts in an order drawn by seed and epoch, cut into windows of up to 65,536 rows and
64 MiB, of which two are held at a time, one being read while the other is learnt from. The rows of a window are shuffled, by
seed, epoch and window, and cut into batches. A batch that is larger than a window is worked on in pieces, whose sums are added
up. Where an epoch begins or goes on depends on numbers of rows alone, so that a run can be resumed at any batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flatpc._typing import Array, Ints
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import Evaluator, Evidence, get_engine, get_evaluator
from flatpc.learning.run.memory import MEMORY, window_rows
from flatpc.learning.run.on_cluster import Setting, There
from flatpc.learning.steps.pieces import Here, Pieces
from flatpc.learning.steps.rows import TrainingRows
from flatpc.tables.sources import SAMPLE_ROWS, Source, naming

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Batch:
    """The rows of one step: some of the rows of the evidence, or pieces."""

    n_rows: int
    weight: float
    evidence: Evidence | None = None
    rows: Ints | None = None
    weights: Array | None = None
    pieces: Pieces | None = None


class Feed(Protocol):
    """Rows to learn from."""

    rows: TrainingRows
    """All rows, or a sample of them, or none, that knows what all weigh."""
    n_rows: int

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch but for the first ones."""

    def mean(self, of_rows: Callable[[Array], Array]) -> float:
        """The mean over all rows of a function that has one number for each."""

    def mean_log_prob(self, evaluator: Evaluator) -> float:
        """The mean log-likelihood at the evaluator's parameters."""


class InMemory:
    """Rows that are all there."""

    def __init__(self, rows: TrainingRows, evaluator: Evaluator, batch_size: int, seed: int) -> None:
        self.rows, self.n_rows, self._size, self._seed = rows, len(rows.X), batch_size, seed
        self._evidence = evaluator.evidence(rows.X)

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """Batches of rows in an order that depends on seed and epoch alone."""
        for rows in itertools.islice(self._orders(epoch), skip, None):
            yield Batch(len(rows), self.rows.weight_of(rows), self._evidence, rows, self.rows.weights)

    def _orders(self, epoch: int) -> Iterator[Ints]:
        n = self.n_rows
        if self._size >= n:
            yield np.arange(n)
            return
        order = np.random.default_rng([self._seed, epoch]).permutation(n)
        for start in range(0, n, self._size):
            yield order[start : start + self._size]

    def mean(self, of_rows: Callable[[Array], Array]) -> float:
        """At once."""
        return self.rows.mean(of_rows(self._evidence.X))

    def mean_log_prob(self, evaluator: Evaluator) -> float:
        """At once."""
        return self.rows.mean(evaluator.log_prob(self._evidence))


class Streamed:
    """Rows of a source that knows how many it has."""

    def __init__(
        self, source: Source, circuit: Circuit, evaluator: Evaluator, missing: str, batch_size: int, seed: int,
        engine: str = "numba", device: Any = None, sampled: bool = False,
    ) -> None:  # fmt: skip
        self.source, self.circuit, self.evaluator = source, circuit, evaluator
        self._missing, self._size, self._seed = missing, batch_size, seed
        self.n_rows = source.n_rows or 0
        # Few regularisers look at rows beforehand, and a sample takes a pass over the source.
        sample = source.sample(SAMPLE_ROWS, seed=seed) if sampled else None
        known = np.empty((0, circuit.n_variables)) if sample is None else read_rows(circuit, sample, missing)
        self.rows = TrainingRows(known, total=float(self.n_rows))
        self._most = window_rows(circuit.n_variables)
        self._setting = Setting(circuit, evaluator.arithmetic, missing, engine, device)

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """Batches from windows, or in pieces."""
        if self.source.cluster is not None:
            return self._on_cluster(epoch, skip)
        return self._in_pieces(epoch, skip) if self._size > self._most else self._in_windows(epoch, skip)

    def _order(self, epoch: int) -> Ints:
        """Of parts; as they come if all rows are one batch."""
        n = len(self.source.parts)
        return np.arange(n) if self._size >= self.n_rows else np.random.default_rng([self._seed, epoch]).permutation(n)

    def _in_windows(self, epoch: int, skip: int) -> Iterator[Batch]:
        per_window = self._most // self._size
        first, skip = divmod(skip, per_window)
        windows = self._windows(epoch, first * per_window * self._size, per_window * self._size)
        prepared = (self._shuffled(X, [self._seed, epoch, number]) for number, X in enumerate(windows, first))
        for batches in ahead(prepared):
            yield from itertools.islice(batches, skip, None)
            skip = 0

    def _shuffled(self, X: Array, seed: list[int]) -> list[Batch]:
        """The batches of a window. Each has evidence of its own: all of its rows are used once."""
        order = np.random.default_rng(seed).permutation(len(X))
        batches = [X[order[start : start + self._size]] for start in range(0, len(X), self._size)]
        return [Batch(len(rows), float(len(rows)), self.evaluator.evidence(rows), np.arange(len(rows))) for rows in batches]

    def _in_pieces(self, epoch: int, skip: int) -> Iterator[Batch]:
        for start in range(skip * self._size, self.n_rows, self._size):
            n = min(self._size, self.n_rows - start)
            pieces = Here(lambda start=start, n=n: ahead(self._windows(epoch, start, self._most, n)), n)  # type: ignore[misc]
            yield Batch(n, float(n), pieces=pieces)

    def _on_cluster(self, epoch: int, skip: int) -> Iterator[Batch]:
        """Batches of whole parts, as many as hold `batch_size` rows."""
        order = self._order(epoch).tolist()
        number = 0
        while order:
            mine: list[int] = []
            n = 0
            while order and n < self._size:
                mine.append(order.pop(0))
                n += self.source.parts[mine[-1]].n_rows or 0
            if number >= skip:
                yield Batch(n, float(n), pieces=There(self.source, self._setting, tuple(mine), n))
            number += 1

    def _windows(self, epoch: int, start: int, size: int, n: int | None = None) -> Iterator[Array]:
        """`[≤ size, D]` each: the rows of the epoch from one place on, or so many of them."""
        left = self.n_rows - start if n is None else n
        held: list[Array] = []
        for X in self._blocks(epoch, start):
            X = X[:left]
            left -= len(X)
            held.append(X)
            have = sum(map(len, held))
            while have >= size or (left == 0 and have):
                rows = held[0] if len(held) == 1 else np.concatenate(held)
                yield np.ascontiguousarray(rows[:size])
                held, have = [rows[size:]], max(have - size, 0)
            if left == 0:
                return

    def _blocks(self, epoch: int, start: int) -> Iterator[Array]:
        """Blocks of the epoch's order from one row on; parts before it are not read."""
        for i in self._order(epoch):
            part = self.source.parts[i]
            if start >= (part.n_rows or 0):
                start -= part.n_rows or 0
                continue
            for block in self.source.blocks_of(part):
                if start < len(block):
                    with naming(part):
                        yield read_rows(self.circuit, block, self._missing)[start:]
                start = max(start - len(block), 0)

    def mean(self, of_rows: Callable[[Array], Array]) -> float:
        """Block by block."""
        total = 0.0
        for X in self._blocks(0, 0):
            total += float(of_rows(X).sum())
        return total / self.n_rows

    def mean_log_prob(self, evaluator: Evaluator) -> float:
        """Block by block."""
        return self.mean(lambda X: evaluator.log_prob(evaluator.evidence(X)))


class Judges(Protocol):
    """Rows to judge by."""

    weights: Array | None
    """`[N]`: how often each row counts; None if each counts once."""

    def log_probs(self, evaluator: Evaluator) -> Iterator[Array]:
        """Log-likelihoods of all rows at the evaluator's parameters, some rows' at a time."""

    def mean_log_prob(self, circuit: Circuit) -> float:
        """The mean of those of a circuit, in float64."""

    def identity(self) -> Any:
        """What a checkpoint knows them by."""


class JudgesInMemory:
    """Rows that are all there, prepared once."""

    def __init__(self, rows: TrainingRows, evaluator: Evaluator) -> None:
        self._rows, self.weights, self._evidence = rows, rows.weights, evaluator.evidence(rows.X)

    def log_probs(self, evaluator: Evaluator) -> Iterator[Array]:
        """At once."""
        yield evaluator.log_prob(self._evidence)

    def mean_log_prob(self, circuit: Circuit) -> float:
        """At once."""
        return self._rows.mean(get_engine().log_prob(circuit, self._rows.X))

    def identity(self) -> Array:
        """The rows themselves."""
        return self._rows.X


class JudgesOfSource:
    """Rows of a source, read anew each time."""

    def __init__(self, source: Source, circuit: Circuit, missing: str) -> None:
        self.source, self.circuit, self._missing = source, circuit, missing
        self.weights: Array | None = None

    def _blocks(self) -> Iterator[Array]:
        for part in self.source.parts:
            for block in self.source.blocks_of(part):
                with naming(part):
                    yield read_rows(self.circuit, block, self._missing)

    def log_probs(self, evaluator: Evaluator) -> Iterator[Array]:
        """Block by block."""
        for X in ahead(self._blocks()):
            yield evaluator.log_prob(evaluator.evidence(X))

    def mean_log_prob(self, circuit: Circuit) -> float:
        """Block by block."""
        found = [(float(answer.sum()), len(answer)) for answer in self.log_probs(get_evaluator(circuit, memory=MEMORY))]
        return sum(total for total, _ in found) / sum(n for _, n in found)

    def identity(self) -> str:
        """Of the source."""
        return self.source.identity()


def ahead(items: Iterable[Any]) -> Iterator[Any]:
    """The items, each made by another thread while the one before is in use."""
    end = object()
    source = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="reading") as reader:
        future = reader.submit(next, source, end)
        while (item := future.result()) is not end:
            future = reader.submit(next, source, end)
            yield item
