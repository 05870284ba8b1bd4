"""Evidence: rows seen through the circuit's scopes.

The value of a node depends only on the evidence inside its scope, so each node is evaluated once per distinct sub-row of a
batch. Which rows agree inside which scope is worked out once per data set (`Evidence`) and looked up per batch (`Batch`).
A missing value is one more symbol of its variable; a continuous variable has as many symbols as rows, and then nothing
above it is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flatpc.engine._kernels import layout, sharing
from flatpc.engine.program import Program

Array = NDArray[np.float64]

MAX_TABLE_BYTES = 1 << 29
"""Data sets whose table of sub-row ids would be larger than this are numbered batch by batch."""


class Batch(NamedTuple):
    """A batch as kernels read it. `B` rows, `S` scopes."""

    X: Array
    """All rows of the data set `[N, D]`."""
    rows: NDArray[np.int64]
    """`[B]`: which of them are in the batch."""
    where: NDArray[np.int32]
    """`[S, B]`: number of a row's sub-row."""
    representative: NDArray[np.int32]
    """`[S, B]`: a batch row that has the sub-row of this number."""
    count: NDArray[np.int64]
    """`[S]`: distinct sub-rows."""
    value_ptr: NDArray[np.int64]
    """Per step: where its values `[count, stride]` start."""
    row_ptr: NDArray[np.int64]
    """Per step: where its per-row numbers (scales, losses) start."""


class Evidence:
    """A data set prepared for one program.

    Rows must have passed `circuit.rows.read_rows`. `weights` count rows more or less than once.
    """

    def __init__(self, program: Program, X: Array, *, share: bool = True) -> None:
        self.program = program
        self.X = X
        self.share = share
        n_rows, n_scopes = len(X), len(program.scopes)
        self._part_ptr = np.cumsum([0] + [len(parts) for parts in program.scopes]).astype(np.int64)
        self._part = np.array([p for parts in program.scopes for p in parts], np.int64)
        self._ids: NDArray[np.int32] | None = None
        if not share:
            return
        self._codes, self._n_codes = _symbols(X)
        if 8 * n_rows * n_scopes <= MAX_TABLE_BYTES:
            self._ids, count = self._number(self._codes, self._n_codes)
            self._offset = np.cumsum(np.concatenate([[0], count]))[:-1].astype(np.int64)
            self._number_of = np.full(int(count.sum()), -1, np.int32)

    def __len__(self) -> int:
        return len(self.X)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Plan the evaluation of some rows."""
        n_scopes = len(self.program.scopes)
        shape = (n_scopes, len(rows))
        where, representative = np.empty(shape, np.int32), np.empty(shape, np.int32)
        count = np.empty(n_scopes, np.int64)
        if not self.share:
            where[:] = representative[:] = np.arange(len(rows), dtype=np.int32)
            count[:] = len(rows)
        elif self._ids is not None:
            sharing.plan_batch(self._ids, rows, self._offset, self._number_of, where, representative, count)
        else:
            ids, _ = self._number(*_symbols(self.X[rows]))
            sharing.plan_whole(ids, where, representative, count)
        arrays = self.program.arrays
        value_ptr, row_ptr = layout.pointers(arrays.scope, arrays.stride, count)
        return Batch(self.X, rows, where, representative, count, value_ptr, row_ptr)

    def _number(self, codes: NDArray[np.int32], n_codes: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        n_scopes = len(self.program.scopes)
        ids = np.empty((n_scopes, codes.shape[1]), np.int32)
        count = np.empty(n_scopes, np.int64)
        sharing.number_sub_rows(codes, n_codes, self._part_ptr, self._part, ids, count)
        return ids, count


def _symbols(X: Array) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Each variable's values as whole numbers 0, 1, 2, ... in order of first occurrence `[D, N]`, and how many there are."""
    codes = np.empty(X.shape[::-1], np.int32)
    n_codes = np.empty(X.shape[1], np.int64)
    for v in range(X.shape[1]):
        n_codes[v] = layout.symbols(np.ascontiguousarray(X[:, v]), codes[v])
    return codes, n_codes
