"""The numbers of the paper's tables, typed once: *Tractable Sharpness-Aware Learning of Probabilistic Circuits*.

| table | holds | columns |
|---|---|---|
| `table1` | Einsum Networks by Adam on the manifolds: what the regulariser gains, in percent | `nll`, `dof`, `sharpness` |
| `table2` | the same for hidden Chow-Liu trees by EM on the binary benchmarks | `nll`, `dof`, `sharpness` |
| `einsum_nll`, `hclt_nll` | test NLL after the last epoch | `base`, `regularised` |
| `einsum_sharpness`, `hclt_sharpness` | sharpness of the training likelihood | `base`, `regularised` |
| `datasets` | sizes of the binary benchmarks | `variables`, `train`, `valid`, `test` |

All but the last have a `fraction` too. The `mean` rows of the first two are the paper's own. Gains are means over trials of
ratios, so ratios of the appendix's means differ a little from them; where they differ in sign, `contradictions` says so.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Any

from flatpc.errors import OptionError

TABLES = ("table1", "table2", "einsum_nll", "einsum_sharpness", "hclt_nll", "hclt_sharpness", "datasets")
FRACTIONS = (0.01, 0.05, 0.1, 0.5, 1.0)
GPU_HOURS = 192
"""What the paper's runs took, on four NVIDIA L4."""
APPENDIX = {"table1": "einsum", "table2": "hclt"}
"""How the names of the appendix's tables begin that belong to a table of the main text."""

Record = dict[str, Any]


def table(name: str) -> list[Record]:
    """The rows of one table, in the paper's order.

    >>> table("table1")[0]
    {'dataset': 'bent_lissajous', 'fraction': 0.01, 'nll': 46.65, 'dof': 65.62, 'sharpness': 93.41}
    """
    if name not in TABLES:
        raise OptionError(f"The paper has no table {name!r} here; choose one of {', '.join(TABLES)}.")
    return [dict(row) for row in _read(name)]


def value(name: str, dataset: str, fraction: float, column: str) -> float | None:
    """One number of one table; None where the table has no such row.

    >>> value("hclt_nll", "dna", 0.05, "base")
    91.664
    """
    if name not in TABLES or name == "datasets":
        raise OptionError(f"The paper has no table {name!r} by fraction here; choose one of {', '.join(TABLES[:-1])}.")
    row = _by_key(name).get((dataset, fraction))
    if row is not None and column not in row:
        raise OptionError(f"Table {name} has no column {column!r}; choose one of {', '.join(list(row)[2:])}.")
    return None if row is None else row[column]


def contradictions() -> list[Record]:
    """Gains whose sign in the main text is not that of the appendix's means, by more than rounding explains."""
    found = []
    for name, model in APPENDIX.items():
        for row in table(name):
            for column in ("nll", "sharpness"):
                base = value(f"{model}_{column}", row["dataset"], row["fraction"], "base")
                flat = value(f"{model}_{column}", row["dataset"], row["fraction"], "regularised")
                if base is None or flat is None:
                    continue
                implied = 100 * (base - flat) / base
                if implied * row[column] < 0 and min(abs(implied), abs(row[column])) > 0.5:
                    where = {"table": name, "dataset": row["dataset"], "fraction": row["fraction"], "column": column}
                    found.append(where | {"stated": row[column], "implied": implied})
    return found


@cache
def _read(name: str) -> tuple[Record, ...]:
    text = resources.files(__name__).joinpath(f"{name}.csv").read_text()
    number = int if name == "datasets" else float
    rows = csv.DictReader(text.splitlines())
    return tuple({key: cell if key == "dataset" else number(cell) for key, cell in row.items()} for row in rows)


@cache
def _by_key(name: str) -> dict[tuple[str, float], Record]:
    return {(row["dataset"], row["fraction"]): row for row in _read(name)}
