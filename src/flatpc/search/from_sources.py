"""A choice for a source of rows: made by a sample of them, then learnt on from all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flatpc.learning.fitting import fit
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.run.schedules import linear
from flatpc.learning.steps.em import EM
from flatpc.search.choice import Choice
from flatpc.search.training import INPUT_PSEUDOCOUNT
from flatpc.tables.sources import Source

FIRST, LAST = 0.05, 0.005
"""Step sizes at the beginning and at the end: what the sample taught is to be corrected, not forgotten."""
BATCH = 1000


def learn_on(choice: Choice, source: Source, *, seed: int, missing: str, n_threads: int | None = None, **run: Any) -> Choice:
    """The choice after an epoch of EM over all rows of the source, if there are more than it was learnt from."""
    counted = source.counted()
    n = counted.n_rows or 0
    if n <= choice.n_rows or choice.cut_short:
        return choice
    learnt = fit(
        choice.circuit, counted, method=EM(linear(FIRST, LAST)), epochs=1, batch_size=BATCH, seed=seed, missing=missing,
        regularizer=Laplace(INPUT_PSEUDOCOUNT, on="inputs"), n_threads=n_threads, **{"progress": False, **run},
    )  # fmt: skip
    return replace(choice, circuit=learnt.circuit, n_rows=n, refitted=True)
