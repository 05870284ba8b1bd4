"""Sums over the parts of a source, on Dask workers.

What all parts need (a circuit, an option) is scattered once, what changes from step to step (parameters) once per step. Each part
is read and worked on by one worker; results stay where they are and are added up as a tree (`sums.py`), of which the last sum
alone comes here. If a worker is lost, Dask has its parts done again by others; if what was scattered is lost with it, the whole
step is done again.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flatpc._extras import need
from flatpc._options import whole_number, wrong
from flatpc.errors import ClusterError, DataError, FlatpcError
from flatpc.tables.files import in_words
from flatpc.tables.sums import Arrays, plus, tree_of

if TYPE_CHECKING:
    from flatpc.tables.sources import Part, Source

Work = Callable[[Iterator[Any], Any, Any], Any]
"""Blocks of a part, what all parts need, and what changes -> an answer."""

PATIENCE = "10s"
"""How long to look for a scheduler."""
TRIES = 3
"""How often a step is tried if what workers had is lost."""


@dataclass
class Cluster:
    """Dask workers, by their client."""

    client: Any
    _scattered: dict[int, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)
    _partitions: list[tuple[str, Any]] = field(default_factory=list, compare=False, repr=False)
    """Those that a step needs, by name."""

    def add_up(self, work: Work, source: Source, order: Sequence[int], fixed: Any, shared: Any) -> Arrays:
        """The sum over some parts, as a tree."""
        add = _task(self.client, plus)
        found: Arrays = self._tried(lambda: tree_of(self._submitted(work, source, order, fixed, shared), add).result())
        return found

    def map(self, work: Work, source: Source, order: Sequence[int], fixed: Any, shared: Any) -> list[Any]:
        """The answers for some parts, in order."""
        found: list[Any] = self._tried(lambda: self.client.gather(self._submitted(work, source, order, fixed, shared)))
        return found

    def _submitted(self, work: Work, source: Source, order: Sequence[int], fixed: Any, shared: Any) -> list[Any]:
        client, bare = self.client, replace(source, parts=(), cluster=None)
        once, now = self._fixed(fixed), _task(client, _sent)(shared)
        # Where a partition is a graph, its result is an argument, which the workers keep or make.
        parts = [source.parts[i] for i in order]
        data = [client.compute(part.delayed) if hasattr(part, "delayed") else None for part in parts]
        self._partitions = [(part.name, one) for part, one in zip(parts, data, strict=True) if one is not None]
        submit = _task(client, _on_part)
        return [submit(work, bare, _light(part), one, once, now) for part, one in zip(parts, data, strict=True)]

    def _fixed(self, fixed: Any) -> Any:
        """What all parts need, where it is already if it was needed before."""
        known = self._scattered.get(id(fixed))
        if known is None:
            while len(self._scattered) >= TRIES:
                self._scattered.pop(next(iter(self._scattered)))
            known = self._scattered[id(fixed)] = fixed, _task(self.client, _sent)(fixed)
        return known[1]

    def _tried(self, step: Callable[[], Any]) -> Any:
        import asyncio

        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        problem: BaseException | None = None
        for _ in range(TRIES):
            try:
                return step()
            except KilledWorker as error:
                raise ClusterError(
                    f"Workers ended {error.allowed_failures + 1} times while they worked on one part, perhaps for lack of "
                    f"memory; give them more of it, or make parts smaller."
                ) from None
            except (CancelledError, asyncio.CancelledError, CommClosedError, TimeoutError) as error:
                problem = error
                self._scattered.clear()
                if self.client.status != "running":
                    break
            except Exception as error:  # a client that lost its scheduler before it could be asked anything
                if self.client.status == "running":
                    self._blame_partition(error)
                    raise
                problem = error
                break
        raise ClusterError(
            f"The Dask cluster can't be reached any more ({type(problem).__name__}); see whether its scheduler and workers are "
            f"running, and start again: from a checkpoint learning goes on where it was."
        ) from None

    def _blame_partition(self, error: Exception) -> None:
        """Raise an error that names the partition, if there is one that can't be computed."""
        if isinstance(error, FlatpcError):
            return
        for name, partition in self._partitions:
            if partition.status == "error":
                raise DataError(f"{name} can't be computed: {in_words(error)}.") from error


def _sent(value: Any) -> Any:
    """What was sent; as the result of a task it is made again where the worker that had it is lost."""
    return value


def _task(client: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: client.submit(function, *arguments, pure=False)


@dataclass(frozen=True)
class _Partition:
    """What a worker must know of a part whose rows it is given."""

    name: str


def _light(part: Part) -> Any:
    return _Partition(part.name) if hasattr(part, "delayed") else part


def _on_part(work: Work, source: Source, part: Any, data: Any, fixed: Any, shared: Any) -> Any:
    """On a worker: the answer for one part."""
    from flatpc.tables.sources import ArrayPart, naming

    with naming(part):
        if data is None:
            return work(source.blocks_of(part), fixed, shared)
        return work(source.blocks_of(ArrayPart(data, 0)), fixed, shared)


# ---- which cluster --------------------------------------------------------------------------------------------------------

_embedded: dict[int, Cluster] = {}


def read_cluster(given: Any, n_workers: int | None) -> Cluster:
    """What a user gave: `"dask"`, an address, or a client."""
    need("distributed", "dask", "a Dask cluster")
    from distributed import Client

    if isinstance(given, Client):
        return Cluster(given)
    if not isinstance(given, str):
        raise wrong("cluster", given, "give 'dask', the address of a scheduler, or a dask.distributed.Client.")
    if given == "dask":
        return _on_this_machine(os.cpu_count() or 1 if n_workers is None else whole_number("n_workers", n_workers, 1))
    try:
        return Cluster(Client(given, timeout=PATIENCE, set_as_default=False))  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError):
        raise ClusterError(
            f"There is no Dask scheduler at {given}; start one with `dask scheduler`, and workers with `dask worker {given}`, or "
            f"use 'dask' for worker processes on this machine."
        ) from None


def _on_this_machine(n_workers: int) -> Cluster:
    """Worker processes of our own, started once."""
    known = _embedded.get(n_workers)
    if known is not None and known.client.status == "running":
        return known
    from distributed import Client, LocalCluster

    try:
        workers = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ClusterError(
            f"Dask workers can't be started on this machine ({error}); in a script, call from under if __name__ == '__main__'."
        ) from None
    client = Client(workers, set_as_default=False)  # type: ignore[no-untyped-call]
    atexit.register(_close, client, workers)
    _embedded[n_workers] = Cluster(client)
    return _embedded[n_workers]


def _close(client: Any, workers: Any) -> None:
    for each in (client, workers):
        with suppress(Exception):  # the process is ending, and so do they
            each.close(timeout=5)
