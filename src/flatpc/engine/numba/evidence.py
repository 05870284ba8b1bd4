"""Evidence: rows seen through the circuit's scopes.

The value of a node depends only on the evidence inside its scope, so each node is evaluated once per distinct sub-row of a
batch. Which rows agree inside which scope is worked out once per data set (`Evidence`) and looked up per batch (`Plan`).
A missing value is one more symbol of its variable; a continuous variable has as many symbols as rows, and then nothing
above it is shared.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.engine.numba._kernels import columns, sharing, work_items
from flatpc.engine.numba._kernels.columns import Batch
from flatpc.engine.numba._kernels.threads import run_tickets
from flatpc.engine.numba.program import Program

_WORTH_A_THREAD = 1 << 16
"""Numbers of a plan, below which waking another thread takes longer than it saves."""
MAX_TABLE_BYTES = 1 << 29
"""Data sets whose table of sub-row ids would be larger than this are numbered batch by batch."""


@dataclass(eq=False, slots=True)
class Plan:
    """How a batch of rows is evaluated. One is made for every batch, so it is made quickly: neither frozen nor compared."""

    batch: Batch
    n_values: int
    """Numbers in all steps' values together."""
    n_rows: int
    """Distinct sub-rows, added up over steps."""
    distinct: NDArray[np.int32]
    """`[B]`: which of the distinct whole rows a row is."""
    upward: dict[int, work_items.Items] = field(default_factory=dict, compare=False, repr=False)
    """Work items of the upward pass by the number of threads, once they have been made: validation rows need them every epoch."""


class Evidence:
    """A data set prepared for one program.

    Rows must have passed `circuit.rows.read_rows`.
    """

    def __init__(self, program: Program, X: Array, *, share: bool = True) -> None:
        self.program = program
        # Never writable, so that rows from a frame that is not (pandas 3) have the type that kernels are compiled for.
        self.X = np.ascontiguousarray(X, np.float64).view()
        self.X.flags.writeable = False
        self.share = share
        self._lock = threading.Lock()
        n_rows, n_scopes = len(X), len(program.scopes)
        self._part_ptr = np.cumsum([0] + [len(parts) for parts in program.scopes]).astype(np.int64)
        self._part = np.array([p for parts in program.scopes for p in parts], np.int64)
        self._by_scope: NDArray[np.int32] | None = None
        """`[scopes, N]`: which of a scope's distinct sub-rows a row has; None once some rows in the midst were asked for."""
        self._by_row: NDArray[np.int32] | None = None
        """`[N, scopes]`: the same, from then on."""
        if share and 4 * n_rows * n_scopes <= MAX_TABLE_BYTES:
            self._by_scope, count = self._number(self.X)
            self._scratch = np.full((1, int(count.max(initial=0))), -1, np.int32)

    def __len__(self) -> int:
        return len(self.X)

    def plan(self, rows: NDArray[np.int64], n_threads: int = 1) -> Plan:
        """Plan the evaluation of some rows."""
        rows = np.ascontiguousarray(rows, np.int64)  # kernels are compiled for exactly this
        n_scopes = len(self.program.scopes)
        share = np.empty((2, n_scopes, len(rows)), np.int32)
        count = np.empty(n_scopes, np.int64)
        if not self.share:
            share[:] = np.arange(len(rows), dtype=np.int32)
            count[:] = len(rows)
        elif self._by_row is None and (ids := self._of_all(rows)) is not None:
            sharing.plan_whole(ids, share[0], share[1], count)
        elif self._by_row is not None:
            n_threads = n_threads if share.size > _WORTH_A_THREAD else 1
            with self._lock:  # the scratch has one user at a time
                if len(self._scratch) < n_threads:
                    self._scratch = np.repeat(self._scratch[:1], n_threads, axis=0)
                run_tickets(
                    sharing.plan_batch, n_threads, -(-n_scopes // sharing.SCOPES_PER_TICKET),
                    self._by_row, rows, self._scratch, share[0], share[1], count,
                )  # fmt: skip
        else:
            sharing.plan_whole(self._number(self.X[rows])[0], share[0], share[1], count)
        at = np.empty((self.program.n_steps, columns.N_PLACES), np.int32)
        n_values, n_rows = work_items.places(self.program.structure.steps, count, at)
        return Plan(Batch(self.X, rows, share, at), n_values, n_rows, share[0, self.program.root_scope])

    def _of_all(self, rows: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """`[scopes, rows]`: numbers of these rows if they are all, in order; once others have been asked for, none."""
        with self._lock:
            ids = self._by_scope
            if ids is None or (len(rows) == ids.shape[1] and np.array_equal(rows, np.arange(len(rows)))):
                return ids
            self._by_row, self._by_scope = np.ascontiguousarray(ids.T), None  # for a moment it is there twice
            return None

    def _number(self, X: Array) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """`[scopes, N]`: which of a scope's distinct sub-rows each row has, by first occurrence; and how many there are."""
        n_scopes = len(self.program.scopes)
        codes, n_codes = _symbols(X)
        ids = np.empty((n_scopes, len(X)), np.int32)
        count = np.empty(n_scopes, np.int64)
        sharing.number_sub_rows(codes, n_codes, self._part_ptr, self._part, ids, count, *sharing.hash_table(len(X)))
        return ids, count


def _symbols(X: Array) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Each variable's values as whole numbers 0, 1, 2, ... in order of first occurrence `[D, N]`, and how many there are."""
    codes = np.empty(X.shape[::-1], np.int32)
    n_codes = np.empty(X.shape[1], np.int64)
    X.flags.writeable = False  # kernels are compiled for exactly this
    sharing.small_symbols(X, codes, n_codes, np.empty((X.shape[1], sharing.SMALL + 1), np.int32))
    others = np.flatnonzero(n_codes < 0)
    table = sharing.hash_table(len(X) if len(others) else 0)
    for v in others:
        x = X[:, v] + 0.0  # one zero
        x[np.isnan(x)] = np.nan  # one NaN
        n_codes[v] = sharing.symbols(x.view(np.int64), codes[v], *table)
    return codes, n_codes
