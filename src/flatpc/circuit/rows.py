"""Rows for a circuit: one column for each variable, values in their families' supports, or an error that says what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice, instance
from flatpc._typing import Array
from flatpc.errors import ShapeError
from flatpc.tables.reading import MISSING, read_matrix, refuse_missing

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


_MANY = 1024
"""Rows from which on a look at all columns at once pays."""


def read_rows(circuit: Circuit, X: Any, missing: str = "raise") -> Array:
    """Rows for `circuit`: right number of columns, values in their families' supports, NaN only if marginalised."""
    check_circuit(circuit)
    choice("missing", missing, MISSING)
    rows, names = read_matrix(X)
    if rows.shape[1] != circuit.n_variables:
        raise ShapeError(
            f"The rows have {rows.shape[1]} columns, but the circuit is over {circuit.n_variables} variables; "
            f"give one column for each variable, in order."
        )
    if len(rows) >= _MANY and _are_small(circuit, rows):
        return rows
    if missing == "raise":
        refuse_missing(np.isnan(rows), names)
    for v, kinds in enumerate(circuit.families_of_variables):
        x = rows[:, v]
        if len(kinds) > 1:  # what one of them allows is possible
            outside = np.logical_and.reduce([family.outside(x) for family in kinds])
            x = np.where(outside, x, np.nan)
        kinds[0].check(x, names[v])
    return rows


def _are_small(circuit: Circuit, rows: Array) -> bool:
    """Whether all are among the small whole numbers that their columns may have, as codes mostly are: this is quickly seen."""
    with np.errstate(invalid="ignore"):
        small = rows.astype(np.uint8)
    if not (small == rows).all():
        return False
    largest = small.max(axis=0).astype(np.int64)
    every = np.arange(largest.max() + 1.0)
    for kinds, most in zip(circuit.families_of_variables, largest, strict=True):
        if np.logical_and.reduce([family.outside(every[: most + 1]) for family in kinds]).any():
            return False
    return True


def check_circuit(circuit: Any) -> Circuit:
    """The circuit, or an error if it is something else."""
    from flatpc.circuit.circuit import Circuit

    checked: Circuit = instance("circuit", circuit, Circuit, "a circuit, such as flatpc.structures.hclt(X) returns")
    return checked
