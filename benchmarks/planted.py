"""Which score finds rows that are wrong? Fair coins in place of 20 of 1,000 rows of every binary benchmark.

python -m benchmarks.planted

Counted are the planted rows among the 40 that a score puts first, around hidden Chow-Liu trees fitted to all rows, wrong ones
included. `docs/planted.json` gets the counts, and `docs/write_results.py` makes a table of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import flatpc as fp
from benchmarks import binary_data
from benchmarks.posterior_cases import PSEUDOCOUNT, Case
from flatpc.circuit.files import replace_file

Array = NDArray[np.float64]
COUNTS = Path(__file__).parents[1] / "docs" / "planted.json"
ROWS, PLANTED, LOOKED_AT, EPOCHS = 1000, 20, 40, 200
SMALL, LARGE = 2, 16
"""Latents."""
MOST_COLUMNS, FEW_COLUMNS = 500, 200
"""For scores by the Hessian of the small models, which is a matrix, and for the large models: more would take long."""


def planted(train: Array, seed: int = 0) -> tuple[Array, set[int]]:
    """Rows of a data set, and which of them were replaced by fair coins."""
    rng = np.random.default_rng(seed)
    rows = np.asarray(train[rng.permutation(len(train))[:ROWS]], np.float64)
    which = rng.choice(ROWS, PLANTED, replace=False)
    rows[which] = rng.integers(0, 2, (PLANTED, rows.shape[1]))
    return rows, set(which.tolist())


def scores(rows: Array, n_latents: int, by_hessian: bool) -> dict[str, Array]:
    """Of every row, larger for rows that look wrong."""
    circuit = Case("", fp.structures.hclt(rows, n_latents, seed=0), len(rows), EPOCHS).fit(rows)
    one_step: Callable[[], Array] = lambda: fp.curvature.leave_one_out(  # noqa: E731
        circuit, rows, pseudocount=PSEUDOCOUNT, structure="complete"
    )
    out = {"unlikely": -np.asarray(circuit.log_prob(rows)), "left out, one step": -one_step()}
    if by_hessian:
        around = fp.curvature.laplace(circuit, rows, pseudocount=PSEUDOCOUNT)
        out["self-influence"] = fp.curvature.influence(circuit, rows, uncertainty=around)
        out["left out"] = -fp.curvature.leave_one_out(circuit, rows, uncertainty=around)
    return out


def found(train: Array, n_latents: int = SMALL, *, by_hessian: bool = True) -> dict[str, int]:
    """Score -> how many of the planted rows are among those that it puts first."""
    rows, which = planted(train)
    return {
        name: len(which & set(np.argsort(-score, kind="stable")[:LOOKED_AT].tolist()))
        for name, score in scores(rows, n_latents, by_hessian).items()
    }


def main() -> None:
    """All data sets; prints and writes."""
    counts = {}
    for name in sorted(fp.datasets.DEBD):
        train = binary_data.train_rows(name)
        counts[name] = {str(SMALL): found(train, SMALL, by_hessian=train.shape[1] <= MOST_COLUMNS)}
        if train.shape[1] <= FEW_COLUMNS:
            counts[name][str(LARGE)] = found(train, LARGE, by_hessian=False)
        print(name, counts[name], flush=True)
    lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in counts.items()]
    replace_file(COUNTS, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


if __name__ == "__main__":
    main()
