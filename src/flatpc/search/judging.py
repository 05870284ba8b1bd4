"""What models are judged by: validation rows that are given, some of the rows put aside, or all of them in turn.

| rows | judges |
|---|---|
| validation rows given | these |
| fewer than 10 | none: there is nothing to choose by |
| up to 2,000 | all rows, in five folds; below 100 rows twice, with other folds, where that is cheap |
| more | a fifth, at most 5,000 |

Rows of one group, where groups are given, are all on one side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice
from flatpc.errors import DataError, OptionError

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST, FEW, SOME = 10, 100, 2000
FOLDS = 5
MOST_HELD_OUT = 5000
JUDGES = ("auto", "valid", "holdout", "cv")


@dataclass(frozen=True)
class Split:
    """Rows to learn from, and rows to judge by."""

    train: Array
    valid: Array


def splits(rows: Array, valid: Array | None, judge: str, seed: int, groups: Any = None, repeats: int = 2) -> list[Split]:
    """The splits that a search judges by; none if there are too few rows. Few rows are folded `repeats` times.

    >>> [(len(s.train), len(s.valid)) for s in splits(np.zeros((200, 2)), None, "auto", 0)]
    [(160, 40), (160, 40), (160, 40), (160, 40), (160, 40)]
    """
    choice("judge", judge, JUDGES)
    if (valid is None) == (judge == "valid"):
        if valid is None:
            raise OptionError("judge='valid' judges by validation rows; pass valid=...")
        if judge != "auto":
            raise OptionError(f"judge={judge!r} takes judges from the rows, and validation rows are given, too; leave one out.")
    if valid is not None:
        return [Split(rows, valid)]
    labels = _labels(groups, len(rows))
    n_groups = int(labels.max()) + 1 if len(labels) else 0
    if len(rows) < FEWEST or n_groups < 2:
        return []
    rng = np.random.default_rng(seed)
    if judge == "cv" or (judge == "auto" and len(rows) <= SOME):
        parts = [part for _ in range(repeats if len(rows) < FEW else 1) for part in _folds(n_groups, rng)]
    else:
        n = max(1, min(n_groups // 5, MOST_HELD_OUT * n_groups // len(rows)))
        parts = [rng.permutation(n_groups)[:n]]
    out = []
    for part in parts:
        judges = np.isin(labels, part)
        # A column known in the judges only can't be learnt from the others.
        if not np.isnan(rows[~judges]).all(axis=0).any():
            out.append(Split(rows[~judges], rows[judges]))
    return out


def _folds(n: int, rng: np.random.Generator) -> Sequence[Ints]:
    order = rng.permutation(n)
    return [np.sort(order[fold::FOLDS]) for fold in range(min(FOLDS, n))]


def _labels(groups: Any, n_rows: int) -> Ints:
    """Groups as numbers 0, 1, 2, ...; every row is one of its own where there are none."""
    if groups is None:
        return np.arange(n_rows)
    try:
        given = np.asarray(groups)
        labels = np.unique(given, return_inverse=True)[1]
    except (TypeError, ValueError, RuntimeError):
        raise DataError("groups holds labels that can't be compared; give one number or one text for each row.") from None
    if given.shape != (n_rows,):
        raise DataError(f"groups has the shape {given.shape}; it holds one label for each of the {n_rows} rows.")
    return labels.astype(np.int64)
