"""What else imputes, predicts, makes up rows and finds odd ones."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.datasets import TableSplits

NEIGHBOURS = (3, 10, 30)
BOOSTED = tuple((rate, leaves) for rate in (0.03, 0.1) for leaves in (7, 31))
"""Learning rates and leaves."""
GAPS = 0.2
ROUNDS = 5
"""Of imputing each column by all others."""


class Numbers:
    """Rows as numbers: standardised columns, and one column of 0 and 1 for each category."""

    def __init__(self, data: TableSplits, columns: list[int] | None = None) -> None:
        self.data = data
        self.columns = list(range(len(data.columns))) if columns is None else columns
        known = np.concatenate([data.train, data.valid])
        self.mean, self.scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-12)

    def of(self, rows: Array) -> Array:
        """`[N, numbers]`, NaN where a value is missing."""
        parts = []
        for j in self.columns:
            x, n = rows[:, j], int(self.data.n_values[j])
            if n == 0:
                parts.append(((x - self.mean[j]) / self.scale[j])[:, None])
            else:
                one_hot = (x[:, None] == np.arange(n)).astype(np.float64)
                one_hot[np.isnan(x)] = np.nan
                parts.append(one_hot)
        return np.concatenate(parts, axis=1)

    def back(self, numbers: Array) -> Array:
        """The rows, each category that with the largest number."""
        out, start = np.empty((len(numbers), len(self.columns))), 0
        for k, j in enumerate(self.columns):
            n = max(int(self.data.n_values[j]), 1)
            part = numbers[:, start : start + n]
            out[:, k] = part.argmax(axis=1) if self.data.n_values[j] else part[:, 0] * self.scale[j] + self.mean[j]
            start += n
        return out


def column_means(data: TableSplits, rows: Array, seed: int) -> Array:
    """Gaps filled by means, and by the most frequent category."""
    known = np.concatenate([data.train, data.valid])
    out = rows.copy()
    for j, n in enumerate(data.n_values):
        usual = known[:, j].mean() if n == 0 else np.bincount(known[:, j].astype(np.intp)).argmax()
        out[np.isnan(rows[:, j]), j] = usual
    return out


def neighbours(data: TableSplits, rows: Array, seed: int) -> Array:
    """Gaps filled by means over the nearest rows that have the value; how many, validation rows with gaps of their own choose."""
    from sklearn.impute import KNNImputer

    numbers = Numbers(data)
    hidden = np.random.default_rng([seed, 19]).random(data.valid.shape) < GAPS
    asked, truth = numbers.of(np.where(hidden, np.nan, data.valid)), numbers.of(data.valid)

    def off(n: int) -> float:
        found = KNNImputer(n_neighbors=n).fit(numbers.of(data.train)).transform(asked)
        return float(np.nanmean((found - truth)[np.isnan(asked)] ** 2))

    best = min(NEIGHBOURS, key=off)
    both = numbers.of(np.concatenate([data.train, data.valid]))
    return numbers.back(KNNImputer(n_neighbors=best).fit(both).transform(numbers.of(rows)))


def chained(data: TableSplits, rows: Array, seed: int) -> Array:
    """Gaps filled by a ridge or logistic regression of each column on all others, in turns."""
    from sklearn.linear_model import LogisticRegression, RidgeCV

    return _in_turns(data, rows, RidgeCV(np.geomspace(0.1, 1000, 9)), LogisticRegression(max_iter=1000))


def forests(data: TableSplits, rows: Array, seed: int) -> Array:
    """The same by random forests, as MissForest does."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    options: dict[str, Any] = {"n_estimators": 100, "min_samples_leaf": 3, "random_state": seed}
    return _in_turns(data, rows, RandomForestRegressor(**options), RandomForestClassifier(**options))


def _in_turns(data: TableSplits, rows: Array, regression: Any, classifier: Any) -> Array:
    """Each column with gaps is predicted from all others, as they have been filled so far, `ROUNDS` times.

    Rows to learn from have no gaps, so that a column's model is learnt once.
    """
    from sklearn.base import clone

    known = np.concatenate([data.train, data.valid])
    asked = np.flatnonzero(np.isnan(rows).any(axis=0))
    numbers = {j: Numbers(data, [k for k in range(len(data.columns)) if k != j]) for j in asked}
    models = {
        j: clone(classifier if data.n_values[j] else regression).fit(numbers[j].of(known), known[:, j])
        for j in asked
        if len(np.unique(known[:, j])) > 1
    }
    out = column_means(data, rows, 0)
    for _ in range(ROUNDS):
        for j, model in models.items():
            here = np.isnan(rows[:, j])
            out[here, j] = model.predict(numbers[j].of(out[here]))
    return out


def boosting(data: TableSplits, target: int, seed: int) -> Array:
    """`[N, classes]`: probabilities of test rows' classes, by the options that validation rows like best."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    others = [j for j in range(len(data.columns)) if j != target]
    categorical = [k for k, j in enumerate(others) if 0 < data.n_values[j] < 255]

    def learnt(rows: Array, rate: float, leaves: int, rounds: int) -> Any:
        model = HistGradientBoostingClassifier(
            learning_rate=rate, max_leaf_nodes=leaves, max_iter=rounds, early_stopping=False, min_samples_leaf=10,
            categorical_features=categorical, random_state=seed,
        )  # fmt: skip
        return model.fit(rows[:, others], rows[:, target])

    def losses(model: Any) -> Array:
        truth = data.valid[:, target]
        out = []
        for p in model.staged_predict_proba(data.valid[:, others]):
            known = np.searchsorted(model.classes_, truth).clip(0, len(model.classes_) - 1)
            mine = np.where(model.classes_[known] == truth, p[np.arange(len(truth)), known], 0.0)
            out.append(-np.log(np.maximum(mine, 1e-12)).mean())
        return np.array(out)

    tried = {options: losses(learnt(data.train, *options, 300)) for options in BOOSTED}
    best = min(tried, key=lambda options: float(tried[options].min()))
    final = learnt(np.concatenate([data.train, data.valid]), *best, int(tried[best].argmin()) + 1)
    p = np.zeros((len(data.test), int(data.n_values[target])))
    p[:, final.classes_.astype(np.intp)] = final.predict_proba(data.test[:, others])
    return p


def copula(rows: Any, n: int, seed: int) -> Any:
    """Made-up rows, as a polars frame, by SDV's Gaussian copula."""
    import polars as pl

    table = rows.to_pandas()
    kinds = {
        name: {"sdtype": "categorical" if dtype == pl.String else "numerical"}
        for name, dtype in zip(rows.columns, rows.dtypes, strict=True)
    }
    metadata = import_module("sdv.metadata").Metadata.load_from_dict({"tables": {"rows": {"columns": kinds}}})
    model = import_module("sdv.single_table").GaussianCopulaSynthesizer(metadata)
    model.fit({"rows": table})
    np.random.seed(seed)  # noqa: NPY002
    made = model.sample(n)
    return pl.from_pandas(made["rows"] if isinstance(made, dict) else made)


def of_largest_class(data: TableSplits, target: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Rows of the most frequent class to learn from, all test rows, and which of these are of other classes."""
    known = np.concatenate([data.train, data.valid])
    usual = np.bincount(known[:, target].astype(np.intp)).argmax()
    return known[known[:, target] == usual], data.test, data.test[:, target] != usual


def _without(data: TableSplits, target: int) -> Numbers:
    return Numbers(data, [j for j in range(len(data.columns)) if j != target])


def isolation_forest(data: TableSplits, target: int, usual: Array, test: Array, seed: int) -> Array:
    """Scores of test rows, higher for odd ones."""
    from sklearn.ensemble import IsolationForest

    numbers = _without(data, target)
    return np.asarray(
        -IsolationForest(n_estimators=300, random_state=seed).fit(numbers.of(usual)).score_samples(numbers.of(test))
    )


def outlier_factor(data: TableSplits, target: int, usual: Array, test: Array, seed: int) -> Array:
    """The same by the density around a row beside that around its neighbours."""
    from sklearn.neighbors import LocalOutlierFactor

    numbers = _without(data, target)
    model = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(numbers.of(usual))
    return np.asarray(-model.score_samples(numbers.of(test)))
