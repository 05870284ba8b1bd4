"""What models are judged by: validation rows that are given, some of the rows put aside, or all of them in turn.

| rows | judges |
|---|---|
| validation rows given | these |
| fewer than 10 | none: there is nothing to choose by |
| up to 2,000 | all rows, in five folds; below 100 rows twice, with other folds, where that is cheap |
| more | a fifth, at most 5,000 |

Two judges put no rows aside (`by_curvature.py`): all rows are learnt from, and judged by.

Rows of one group, where groups are given, are all on one side. Where rows have weights, their sum is the number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flatpc._messages import VALID, Message
from flatpc._options import choice
from flatpc._typing import Ints
from flatpc.errors import OptionError
from flatpc.search.samples import Sample

FEWEST, FEW, SOME = 10, 100, 2000
FOLDS = 5
MOST_HELD_OUT = 5000
BY_CURVATURE = ("loo", "evidence")
"""Judges that judge by the rows that were learnt from."""
JUDGES = ("auto", "valid", "holdout", "cv", *BY_CURVATURE)


@dataclass(frozen=True)
class Split:
    """Rows to learn from, and rows to judge by."""

    train: Sample
    valid: Sample


def splits(rows: Sample, valid: Sample | None, judge: str, seed: int, repeats: int = 2) -> list[Split]:
    """The splits that a search judges by; none if there are too few rows. Few rows are folded `repeats` times.

    >>> [(len(s.train), len(s.valid)) for s in splits(Sample(np.zeros((200, 2))), None, "auto", 0)]
    [(160, 40), (160, 40), (160, 40), (160, 40), (160, 40)]
    """
    choice("judge", judge, JUDGES)
    if (valid is None) == (judge == "valid"):
        if valid is None:
            raise OptionError(Message(f"judge='valid' judges by validation rows; pass {VALID}", VALID), option="judge")
        if judge != "auto":
            raise OptionError(f"judge={judge!r} takes judges from the rows, and validation rows are given, too; leave one out.")
    if valid is not None:
        return [Split(rows, valid)]
    n_rows, n_groups = rows.weight, rows.n_groups
    if n_rows < FEWEST - 1e-9 <= len(rows):
        warnings.warn(
            f"sample_weight sums to {n_rows:.3g}, so that {len(rows)} rows count as too few to choose a model by. Weights count "
            f"rows; multiply them, to a sum of {len(rows)} if each row is to count once on average.",
            stacklevel=2,
        )
    if n_rows < FEWEST - 1e-9 or n_groups < 2:
        return []
    if judge in BY_CURVATURE:
        if rows.groups is not None or rows.weights is not None:
            raise OptionError(f"judge={judge!r} leaves out single rows; with groups or sample_weight take 'cv' or 'holdout'.")
        return [Split(rows, rows)]
    labels = np.arange(len(rows)) if rows.groups is None else rows.groups
    rng = np.random.default_rng(seed)
    if judge == "cv" or (judge == "auto" and n_rows <= SOME):
        parts = [part for _ in range(repeats if n_rows < FEW else 1) for part in _folds(n_groups, rng)]
    else:
        n = max(1, min(n_groups // 5, int(MOST_HELD_OUT * n_groups // n_rows)))
        parts = [rng.permutation(n_groups)[:n]]
    out = []
    for part in parts:
        judges = np.isin(labels, part)
        # A column known in the judges only can't be learnt from the others.
        if not np.isnan(rows.X[~judges]).all(axis=0).any():
            out.append(Split(rows.some(~judges), rows.some(judges)))
    return out


def _folds(n: int, rng: np.random.Generator) -> Sequence[Ints]:
    order = rng.permutation(n)
    return [np.sort(order[fold::FOLDS]) for fold in range(min(FOLDS, n))]
