"""Sources of rows: tables that come in blocks, because they are larger than memory or somewhere else.

A source is a list of *parts*, each of which can be read on its own, as often as wanted, in blocks of rows: a slice of a file, a
partition of a Dask collection. Whatever sums over rows takes a source in place of a table, and holds some blocks at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flatpc._messages import about
from flatpc._options import seed_number, whole_number
from flatpc.errors import DataError, FlatpcError, OptionError, ShapeError
from flatpc.tables.sums import Arrays, tree_sum

if TYPE_CHECKING:
    from flatpc.tables.clusters import Cluster, Work

BLOCK_ROWS = 1 << 14
"""Rows of a block of a file."""
SAMPLE_ROWS = 100_000
"""Rows of the sample by which columns are recognised and models chosen."""

Change = Callable[[Any], Any]
"""What becomes of a block: a function that can be sent to another process."""


class Part(Protocol):
    """A part of a source that can be read on its own."""

    @property
    def name(self) -> str:
        """For messages: the file, or the partition."""

    @property
    def n_rows(self) -> int | None:
        """How many rows it has, where that is known without reading it."""

    def blocks(self) -> Iterator[Any]:
        """Its rows in order, as arrays or frames."""

    def identity(self) -> str:
        """The same for the same rows: by this a checkpoint knows its source."""


@dataclass(frozen=True)
class Source:
    """Rows that come in blocks. `fp.tables.scan` makes one from files; polars LazyFrames, Dask and Ray collections and torch
    DataLoaders are taken as they are wherever a source is.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> source = fp.tables.source(np.arange(10.0).reshape(5, 2), block_rows=2)
    >>> source.n_rows, source.names, [block.shape for block in source.blocks()]
    (5, ('x0', 'x1'), [(2, 2), (2, 2), (1, 2)])
    >>> source.sample(3, seed=0).shape
    (3, 2)
    >>> source.n_rows == source.counted().n_rows, source.on(None).identity() == source.identity()
    (True, True)
    >>> minus = source.changed(np.negative)
    >>> [block[0, 0] for block in minus.blocks_of(minus.parts[1])]
    [np.float64(-4.0)]
    >>> total = lambda blocks, fixed, shared: (sum(block.sum(axis=0) for block in blocks),)
    >>> [part[0].tolist() for part in source.map(total, None, None)], source.add_up(total, None, None)[0].tolist()
    ([[2.0, 4.0], [10.0, 12.0], [8.0, 9.0]], [20.0, 25.0])
    """

    parts: tuple[Part, ...]
    """What it is made of, in order."""
    names: tuple[str, ...]
    """The names of the columns."""
    changes: tuple[Change, ...] = ()
    """What is done to every block that is read."""
    cluster: Cluster | None = None
    """Where sums over parts are worked out; None is here."""

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, where all parts know; `counted` finds out."""
        known = [part.n_rows for part in self.parts]
        return None if any(n is None for n in known) else sum(n for n in known if n is not None)

    def blocks(self, order: Sequence[int] | None = None) -> Iterator[Any]:
        """The rows, block by block.

        Parameters
        ----------
        order
            Which parts, in which order; all of them as they come, unless given.

        Yields
        ------
        array or frame
            Some rows, with the columns in the order of `names`. Empty ones are left out.

        Raises
        ------
        DataError
            For a part that can't be read, was changed since it was found, or has other columns. It names the part.
        """
        for i in range(len(self.parts)) if order is None else order:
            yield from self.blocks_of(self.parts[i])

    def blocks_of(self, part: Part) -> Iterator[Any]:
        """The blocks of one part.

        Parameters
        ----------
        part
            One of `parts`.

        Yields
        ------
        array or frame
            Some rows.

        Raises
        ------
        DataError
            As `blocks` does.
        """
        with naming(part):
            for block in part.blocks():
                if len(block):
                    yield self._changed(self._aligned(block))

    def _aligned(self, block: Any) -> Any:
        """The block with the columns of the source, by name where it has names."""
        if isinstance(block, np.ndarray):
            if block.ndim != 2 or block.shape[1] != len(self.names):
                raise DataError(f"its shape is {block.shape}, and the source has {len(self.names)} columns.")
            return block
        names = [str(name) for name in block.columns]
        if tuple(names) == self.names:
            return block
        lost = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self.names]
        if lost or extra:
            what = f"it has no column {lost[0]!r}" if lost else f"it has a column {extra[0]!r}"
            raise DataError(
                f"{what}, unlike the first part of the source; give all parts the same columns, or name those to read: "
                f"fp.tables.scan(..., columns=[...])."
            )
        return block[list(self.names)]

    def _changed(self, block: Any) -> Any:
        for change in self.changes:
            block = change(block)
        return block

    def changed(self, change: Change, names: Sequence[str] | None = None) -> Source:
        """The source with something done to every block, after whatever is done already.

        Parameters
        ----------
        change
            A function from a block to a block of as many rows. To be worked on by a cluster it must be one that can be pickled.
        names
            The names of the columns after it; the same as before unless given.

        Returns
        -------
        Source
            A new one; nothing is read.
        """
        return replace(self, changes=(*self.changes, change), names=self.names if names is None else tuple(names))

    def counted(self) -> Source:
        """The source, knowing how many rows each of its parts has: those that don't know are read once.

        Returns
        -------
        Source
            With `n_rows`.

        Raises
        ------
        DataError
            If a part can't be read.
        ShapeError
            If there are no rows at all.
        """
        unknown = [i for i, part in enumerate(self.parts) if part.n_rows is None]
        parts = list(self.parts)
        for i, n in zip(unknown, replace(self, changes=()).map(_count, None, None, unknown), strict=True):
            parts[i] = Counted(parts[i], n)
        found = replace(self, parts=tuple(part for part in parts if part.n_rows))
        if not found.parts:
            raise ShapeError("The source has no rows: all its parts are empty.")
        return found

    def sample(self, n: int = SAMPLE_ROWS, *, seed: int = 0) -> Any:
        """Some of the rows, drawn without replacement by seed, each as likely as any other; all rows if there are no more.

        Parameters
        ----------
        n
            How many.
        seed
            Random seed.

        Returns
        -------
        array or frame
            The rows, in the order of the source.

        Raises
        ------
        DataError
            As `blocks` does, and for a part of which a column holds something else than in those before it. It names both.
        """
        n, rng = whole_number("n", n, 1), np.random.default_rng(seed_number(seed))
        total = self.n_rows
        kept: list[Any] = []
        alike = _alike()
        if total is not None:
            wanted = np.sort(rng.choice(total, n, replace=False)) if n < total else np.arange(total)
            first = 0
            for part in self.parts:
                size = part.n_rows or 0
                mine = wanted[(wanted >= first) & (wanted < first + size)] - first
                if len(mine):
                    kept.extend(alike(part, _taken(self.blocks_of(part), mine)))
                first += size
        else:
            kept = _reservoir((block for part in self.parts for block in alike(part, self.blocks_of(part))), n, rng)
        if not kept:
            raise ShapeError("The source has no rows: all its parts are empty.")
        return joined(kept)

    def add_up(self, work: Work, fixed: Any, shared: Any, order: Sequence[int] | None = None) -> Arrays:
        """The sum over parts of tuples of arrays, in an order that depends on the number of parts alone.

        Parameters
        ----------
        work
            A function of the blocks of a part, `fixed` and `shared`; for a cluster, one that can be pickled.
        fixed, shared
            What it needs: for a cluster, what is the same every time, and what is not.
        order
            Which parts, in which order; all unless given.

        Returns
        -------
        tuple of arrays
            The sums.

        Raises
        ------
        DataError
            As `blocks` does, and if there are no parts.
        ClusterError
            If a cluster is lost.
        """
        order = range(len(self.parts)) if order is None else order
        if not len(order):
            raise ShapeError("The source has no rows: all its parts are empty.")
        if self.cluster is not None:
            return self.cluster.add_up(work, self, order, fixed, shared)
        return tree_sum(self.map(work, fixed, shared, order))

    def map(self, work: Work, fixed: Any, shared: Any, order: Sequence[int] | None = None) -> Iterator[Any]:
        """What a function makes of each part.

        Parameters
        ----------
        work, fixed, shared, order
            As for `add_up`; `work` may return anything.

        Yields
        ------
        object
            The answer for a part, in order.

        Raises
        ------
        DataError, ClusterError
            As `add_up` does.
        """
        order = range(len(self.parts)) if order is None else order
        if self.cluster is not None:
            yield from self.cluster.map(work, self, order, fixed, shared)
            return
        for i in order:
            with naming(self.parts[i]):
                yield work(self.blocks_of(self.parts[i]), fixed, shared)

    def on(self, cluster: Any = "dask", *, n_workers: int | None = None) -> Source:
        """The source, with all sums over its parts worked out on a Dask cluster.

        Parameters
        ----------
        cluster
            `"dask"`: worker processes on this machine, started when first needed and ended with this process. A scheduler's
            address (`"tcp://scheduler:8786"`), or a `dask.distributed.Client`. None is this process alone. Workers read files
            themselves, from the same paths.
        n_workers
            Processes of `"dask"`; as many as there are cores unless given.

        Returns
        -------
        Source
            Which gives the same bits whatever the number of workers.

        Raises
        ------
        MissingPackageError
            Without the extra `flatpc[dask]`.
        ClusterError
            If the scheduler can't be reached.
        """
        if cluster is None:
            return replace(self, cluster=None)
        from flatpc.tables.clusters import read_cluster

        return replace(self, cluster=read_cluster(cluster, n_workers))

    def identity(self) -> str:
        """A digest that is the same for the same rows.

        Returns
        -------
        str
            Of the parts, their order and what is done to them.

        Raises
        ------
        OptionError
            If its rows come in another order each time, as those of a DataLoader that shuffles.
        """
        digest = hashlib.sha256(repr(self.names).encode())
        for part in self.parts:
            digest.update(part.identity().encode())
        digest.update(str(len(self.changes)).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Counted:
    """A part whose rows have been counted."""

    part: Part
    n_rows: int

    @property
    def name(self) -> str:
        """The part's."""
        return self.part.name

    @property
    def delayed(self) -> Any:
        """The graph of a Dask partition."""
        return self.part.delayed  # type: ignore[attr-defined]

    def blocks(self) -> Iterator[Any]:
        """Its rows; an error if they are not as many as they were."""
        found = 0
        for block in self.part.blocks():
            found += len(block)
            if found > self.n_rows:
                break
            yield block
        if found != self.n_rows:
            raise DataError(f"it had {self.n_rows:,} rows when they were counted, and now has others; leave it alone meanwhile.")

    def identity(self) -> str:
        """The part's."""
        return self.part.identity()


@dataclass(frozen=True)
class ArrayPart:
    """Rows that are in memory."""

    rows: Any
    first: int

    @property
    def name(self) -> str:
        """By position."""
        return f"rows {self.first} to {self.first + len(self.rows) - 1}"

    @property
    def n_rows(self) -> int:
        """Known."""
        return len(self.rows)

    def blocks(self) -> Iterator[Any]:
        """All at once."""
        yield self.rows

    def identity(self) -> str:
        """By the values."""
        values = self.rows if isinstance(self.rows, np.ndarray) else np.asarray(self.rows)
        return hashlib.sha256(f"{values.shape} {values.dtype}".encode() + values.tobytes()).hexdigest()


def source(X: Any, *, block_rows: int = BLOCK_ROWS) -> Source:
    """A source of the rows of X, which may be a source, a collection that is read in blocks, or a table in memory.

    >>> import flatpc as fp
    >>> fp.tables.source([[0, 1], [1, 1], [0, 0]]).n_rows
    3

    Parameters
    ----------
    X
        A `Source`, a polars LazyFrame, a Dask DataFrame or Array, a Ray dataset, a torch DataLoader whose batches are rows; or a
        table, which is cut into blocks.
    block_rows
        Rows of a block of a table.

    Returns
    -------
    Source
        Nothing is read yet, except the names of the columns of a DataLoader or a Ray dataset.

    Raises
    ------
    DataError
        If X is no table, or has no rows.
    """
    found = as_source(X)
    if found is not None:
        return found
    size = whole_number("block_rows", block_rows, 1)
    if type(X).__module__.split(".")[0] in ("polars", "pandas"):
        names, rows = tuple(str(name) for name in X.columns), X
    else:
        from flatpc.tables.reading import read_matrix

        rows, _ = read_matrix(X)
        names = tuple(f"x{j}" for j in range(rows.shape[1]))
    return Source(tuple(ArrayPart(rows[i : i + size], i) for i in range(0, len(rows), size)), names)


def as_source(X: Any) -> Source | None:
    """X as a source if it is one or a collection that comes in blocks, None if it is a table or nothing of the kind."""
    if isinstance(X, Source):
        return X
    room = type(X).__module__.split(".")
    if room[0] not in ("polars", "dask", "dask_expr", "ray", "torch"):
        return None
    from flatpc.tables import collections

    return collections.read(X)


def is_source(X: Any) -> bool:
    """Whether X comes in blocks."""
    return as_source(X) is not None


class naming:
    """`with naming(part)`: errors name the part they are about."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if (
            isinstance(error, FlatpcError)
            and not isinstance(error, OptionError)
            and self.part.name.lower() not in str(error).lower()
        ):
            raise about(self.part.name, error) from error


def _count(blocks: Iterator[Any], fixed: None, shared: None) -> int:
    return sum(len(block) for block in blocks)


def _alike() -> Callable[[Part, Iterator[Any]], Iterator[Any]]:
    """What lets the blocks of parts pass while their columns hold the same."""
    from flatpc.tables.agreement import Agreement, sorts_of_block

    seen = Agreement()

    def checked(part: Part, blocks: Iterator[Any]) -> Iterator[Any]:
        for block in blocks:
            seen.add(part.name, sorts_of_block(block))
            yield block

    return checked


def joined(blocks: Sequence[Any]) -> Any:
    """Blocks whose columns hold the same, one below the other."""
    if len(blocks) == 1:
        return blocks[0]
    if isinstance(blocks[0], np.ndarray):
        return np.concatenate(blocks)
    if type(blocks[0]).__module__.split(".")[0] == "pandas":
        import pandas

        return pandas.concat(blocks, ignore_index=True)
    import polars as pl

    mixed = [name for name in blocks[0].columns if len({block[name].dtype for block in blocks}) > 1]
    return pl.concat([block.with_columns(_comparable(block[name]) for name in mixed) for block in blocks], how="vertical_relaxed")


def _comparable(column: Any) -> Any:
    """A column of a type that goes with others of its sort; without values, with all others."""
    import polars as pl

    if column.null_count() == len(column):
        return column.cast(pl.Null)
    return column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column


def _taken(blocks: Iterator[Any], wanted: Any) -> Iterator[Any]:
    """The rows at some places, counted from the first block."""
    first = 0
    for block in blocks:
        mine = wanted[(wanted >= first) & (wanted < first + len(block))] - first
        if len(mine):
            yield take(block, mine)
        first += len(block)


def take(block: Any, rows: Any) -> Any:
    """Some rows of a block."""
    return block.iloc[rows] if hasattr(block, "iloc") else block[rows]


def _reservoir(blocks: Iterator[Any], n: int, rng: np.random.Generator) -> list[Any]:
    """A reservoir sample: of every row a number is drawn, and the rows with the n smallest are kept."""
    kept: list[tuple[Any, Any]] = []
    limit = np.inf
    for block in blocks:
        drawn = rng.random(len(block))
        below = np.flatnonzero(drawn < limit)
        if len(below):
            kept.append((drawn[below], take(block, below)))
        if sum(len(numbers) for numbers, _ in kept) > 2 * n:
            kept, limit = _smallest(kept, n)
    kept, _ = _smallest(kept, n)
    return [rows for _, rows in kept if len(rows)]


def _smallest(kept: list[tuple[Any, Any]], n: int) -> tuple[list[tuple[Any, Any]], float]:
    numbers = np.concatenate([numbers for numbers, _ in kept]) if kept else np.empty(0)
    if len(numbers) <= n:
        return kept, np.inf
    limit = float(np.partition(numbers, n - 1)[n - 1])
    return [(drawn[drawn <= limit], take(rows, np.flatnonzero(drawn <= limit))) for drawn, rows in kept], limit
