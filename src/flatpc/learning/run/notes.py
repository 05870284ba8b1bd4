"""Things about the data that a user should know but that don't stop learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flatpc._messages import some_of
from flatpc._typing import Array
from flatpc.circuit.nodes import Sum

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


class LearningWarning(UserWarning):
    """Learning went on or ended, but not as hoped; the message says what to change."""


def notes_on(circuit: Circuit, X: Array, n_rows: int, batch_size: int | None) -> list[str]:
    """One sentence for each thing worth knowing before learning starts; X are all rows, or a sample of so many."""
    notes = []
    if batch_size is not None and batch_size > n_rows:
        notes.append(f"batch_size={batch_size} is larger than the data; each batch is all {n_rows} rows.")
    constant = [] if len(X) < n_rows else [v for v in range(X.shape[1]) if circuit.families[v].discrete and _is_constant(X[:, v])]
    if constant:
        notes.append(
            f"{len(constant)} of {X.shape[1]} columns never change ({some_of(constant)}); "
            f"without a Laplace regulariser EM gives any other value there probability 0."
        )
    latents = max((node.width for node in circuit.nodes if isinstance(node, Sum)), default=1)
    if n_rows < latents:
        notes.append(f"There are {n_rows} rows but sums have up to {latents} units; a smaller structure would do.")
    return notes


def _is_constant(x: Array) -> bool:
    seen = x[~np.isnan(x)]
    return len(seen) == 0 or bool((seen == seen[0]).all())
