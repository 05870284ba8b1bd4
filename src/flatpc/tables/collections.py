"""Collections of other libraries as sources: polars LazyFrames, Dask DataFrames and Arrays, Ray datasets, torch DataLoaders."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc.errors import DataError, FlatpcError, OptionError
from flatpc.tables.files import in_words
from flatpc.tables.reading import from_torch, is_torch
from flatpc.tables.sources import BLOCK_ROWS, Source


def read(X: Any) -> Source | None:
    """X as a source; None if it is nothing of the kind."""
    library, kind = type(X).__module__.split(".")[0], type(X).__name__
    if library == "polars" and kind == "LazyFrame":
        with _said_of("The LazyFrame can't be collected"):
            names = tuple(X.collect_schema().names())
        return Source((LazyPart(X),), names)
    if library in ("dask", "dask_expr") and hasattr(X, "dask"):
        return _dask(X)
    if library == "ray" and hasattr(X, "iter_batches"):
        part = RayPart(X)
        return Source((part,), part.columns)
    if library == "torch" and hasattr(X, "dataset") and hasattr(X, "batch_size"):
        return _loader(X)
    return None


@contextmanager
def _said_of(what: str) -> Iterator[None]:
    """Errors of another library, or of a user's function that it runs, as one of ours: they may be of any type."""
    try:
        yield
    except FlatpcError:
        raise
    except Exception as error:
        raise DataError(f"{what}: {in_words(error)}.") from error


@dataclass(frozen=True)
class LazyPart:
    """A polars LazyFrame, whose result is read in blocks."""

    frame: Any

    @property
    def name(self) -> str:
        """There is one only."""
        return "the LazyFrame"

    @property
    def n_rows(self) -> None:
        """Not known before it is collected."""

    def blocks(self) -> Iterator[Any]:
        """In the order of the frame."""
        with _said_of("The LazyFrame can't be collected"):
            yield from self.frame.collect_batches(chunk_size=BLOCK_ROWS, maintain_order=True)

    def identity(self) -> str:
        """By what it does."""
        return hashlib.sha256(self.frame.explain().encode()).hexdigest()


# ---- Dask -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DaskPart:
    """One partition of a Dask collection."""

    delayed: Any
    number: int
    token: str
    n_rows: int | None = None

    @property
    def name(self) -> str:
        """By position."""
        return f"partition {self.number}"

    def blocks(self) -> Iterator[Any]:
        """All its rows at once."""
        with _said_of(f"{self.name} can't be computed"):
            found = self.delayed.compute()
        yield found

    def identity(self) -> str:
        """By the graph that makes it, in which Dask gives equal things equal names."""
        return f"{self.token} {self.number}"


def _dask(X: Any) -> Source:
    """A source over the partitions, worked on by the client that is there, if there is one."""
    if hasattr(X, "chunks"):
        if X.ndim != 2:
            raise DataError(f"The Dask array has {X.ndim} dimensions; give a table of two.")
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        delayed, names = X.to_delayed()[:, 0], tuple(f"x{j}" for j in range(X.shape[1]))
        sizes = [None if np.isnan(n) else int(n) for n in X.chunks[0]]
    else:
        delayed, names = X.to_delayed(), tuple(str(name) for name in X.columns)
        sizes = [None] * len(delayed)
    token = str(X.name if hasattr(X, "name") and isinstance(X.name, str) else X._name)
    parts = tuple(DaskPart(one, i, token, sizes[i]) for i, one in enumerate(delayed))
    return Source(parts, names, cluster=_present())


def _present() -> Any:
    """The cluster of the client that is there; None if there is none."""
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        client = default_client()  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    from flatpc.tables.clusters import Cluster

    return Cluster(client)


# ---- loaders --------------------------------------------------------------------------------------------------------------


_RAY = "The Ray dataset can't be read"


@dataclass(frozen=True)
class RayPart:
    """A Ray dataset, whose rows come in its own order."""

    dataset: Any

    @property
    def name(self) -> str:
        """There is one only."""
        return "the Ray dataset"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names."""
        with _said_of(_RAY):
            return tuple(str(name) for name in self.dataset.columns())

    @property
    def n_rows(self) -> int:
        """Ray counts."""
        with _said_of(_RAY):
            return int(self.dataset.count())

    def blocks(self) -> Iterator[Any]:
        """As pandas frames."""
        with _said_of(_RAY):
            yield from self.dataset.iter_batches(batch_size=BLOCK_ROWS, batch_format="pandas")

    def identity(self) -> str:
        """By its columns and number of rows."""
        return f"ray {self.columns} {self.n_rows}"


@dataclass(frozen=True)
class LoaderPart:
    """A torch DataLoader, whose batches are rows, or lists whose first item is rows."""

    loader: Any

    @property
    def name(self) -> str:
        """There is one only."""
        return "the DataLoader"

    @property
    def n_rows(self) -> int | None:
        """As many as its data set has, unless the loader leaves some out."""
        if getattr(self.loader, "drop_last", False) or getattr(self.loader, "batch_sampler", None) is None:
            return None
        try:
            return len(self.loader.sampler)
        except TypeError:
            return None

    def blocks(self) -> Iterator[Any]:
        """The loader's batches, in the loader's order."""
        with _said_of("The DataLoader can't be read"):
            for batch in self.loader:
                rows = batch[0] if isinstance(batch, list | tuple) else batch
                array = from_torch(rows) if is_torch(rows) else np.asarray(rows)
                yield array.reshape(len(array), -1) if array.ndim > 2 else array

    def identity(self) -> str:
        """By the number of its rows: what they are, it doesn't say. One that shuffles has other rows in every place each time."""
        if self._shuffles():
            raise OptionError(
                "The DataLoader shuffles rows in an order of its own, so that a checkpoint can't go on where it was; give one "
                "without shuffle=True (flatpc shuffles by its seed), or learn without a checkpoint."
            )
        return f"loader of {self.n_rows}"

    def _shuffles(self) -> bool:
        """Whether a sampler draws the order of rows; whether a data set without places does, can't be known."""
        from torch.utils.data import IterableDataset, SequentialSampler

        if isinstance(self.loader.dataset, IterableDataset):
            return False
        of_batches = getattr(getattr(self.loader, "batch_sampler", None), "sampler", None)
        return not all(isinstance(one, SequentialSampler | None) for one in (self.loader.sampler, of_batches))


def _loader(X: Any) -> Source:
    part = LoaderPart(X)
    first = next(part.blocks(), None)
    if first is None or first.ndim != 2:
        raise DataError("The DataLoader gives no tables of rows; let each of its batches be a tensor [rows, columns].")
    return Source((part,), tuple(f"x{j}" for j in range(first.shape[1])))
