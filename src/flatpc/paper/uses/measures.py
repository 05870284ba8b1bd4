"""How good imputed values, predictions, made-up rows and scores of odd rows are."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.datasets import TableSplits
from flatpc.paper.cells import Metrics


def imputed(data: TableSplits, filled: Array, hidden: NDArray[np.bool_]) -> Metrics:
    """Root mean square error of hidden numbers, in standard deviations of their columns; share of wrong categories.

    >>> from flatpc.datasets import Column
    >>> rows = np.array([[0.0, 0.0], [2.0, 1.0]])
    >>> data = TableSplits("t", rows, rows[:0], rows, columns=(Column("x"), Column("c", ("a", "b"))))
    >>> imputed(data, np.array([[1.0, 0.0], [2.0, 0.0]]), np.ones((2, 2), bool))
    {'number_error': 0.7071067811865476, 'category_error': 0.5}
    """
    known = np.concatenate([data.train, data.valid])
    out: Metrics = {}
    numbers, categories = data.continuous, data.discrete
    if hidden[:, numbers].any():
        scale = np.maximum(known[:, numbers].std(axis=0), 1e-12)
        off = ((filled - data.test)[:, numbers] / scale)[hidden[:, numbers]]
        out["number_error"] = float(np.sqrt(np.mean(off**2)))
    if hidden[:, categories].any():
        wrong = (filled != data.test)[:, categories][hidden[:, categories]]
        out["category_error"] = float(wrong.mean())
    return out


def predicted(p: Array, truth: Array) -> Metrics:
    """Of probabilities `[N, classes]`: the share of wrong predictions, and the mean of -log p(truth).

    >>> predicted(np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0.0, 0.0]))
    {'wrong': 0.0, 'log_loss': 0.4904146265058631}
    """
    code = truth.astype(np.intp)
    mine = np.maximum(p[np.arange(len(p)), code], 1e-12)
    return {"wrong": float((p.argmax(axis=1) != code).mean()), "log_loss": float(-np.log(mine).mean())}


def indistinguishable(data: TableSplits, made: Array, seed: int) -> Metrics:
    """How well a classifier tells made-up rows from real ones that nobody learnt from: area under the curve, 0.5 at best."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_score

    n = len(data.test)
    rows, label = np.concatenate([data.test, made[:n]]), np.repeat([0, 1], [n, len(made[:n])])
    judge = HistGradientBoostingClassifier(
        max_iter=100, categorical_features=(data.n_values > 0) & (data.n_values < 255), random_state=seed
    )
    order = np.random.default_rng(seed).permutation(len(rows))
    return {"told_apart": float(cross_val_score(judge, rows[order], label[order], cv=5, scoring="roc_auc").mean())}


def quality(data: TableSplits, real: Any, made: Any) -> Metrics:
    """SDMetrics' score of how alike the distributions of columns and of pairs of columns are, 1 at best."""
    kinds = {c.name: {"sdtype": "numerical" if c.values is None else "categorical"} for c in data.columns}
    tables = [frame.to_pandas() for frame in (real, made)]
    report = import_module("sdmetrics.reports.single_table").QualityReport()
    report.generate(*tables, {"columns": kinds}, verbose=False)
    return {"quality": float(report.get_score())}


def odd_rows_found(scores: Array, odd: NDArray[np.bool_]) -> Metrics:
    """The area under the curve of scores that are to be higher for odd rows: 1 at best, 0.5 by chance.

    >>> odd_rows_found(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True]))
    {'found': 1.0}
    """
    from sklearn.metrics import roc_auc_score

    return {"found": float(roc_auc_score(odd, scores))}
