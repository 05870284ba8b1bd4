"""Odd tables, in memory and in files, through all that takes a table: a right answer or an error of flatpc's own.

No other exception, no NaN where there is an answer, and no table that is changed by being asked about.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.tables import read_table
from flatpc.tables.columns import Columns, kinds
from flatpc.tables.reading import read_raw
from tests.cli.running import Answer
from tests.hostile.odd_tables import FILES, TABLES, B, N, X
from tests.hostile.tally import LONG, Tally

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning", "ignore::DeprecationWarning")

GAUSSIANS = fp.structures.factorized(X, family="gaussian")
BITS = fp.structures.factorized(B)


def density(**options: Any) -> fp.CircuitDensity:
    """One that is fitted at once."""
    return fp.CircuitDensity(structure="factorized", verbose=False, missing="marginalize", unseen="missing", **options)


NUMBERS = density().fit(X)
PEOPLE = density().fit(pl.DataFrame({"a": ["x", "y"] * (N // 2), "b": X[:, 0]}))


def scores(found: Any) -> None:
    """Log-likelihoods, which may be minus infinite but nothing else that is no number."""
    found = np.asarray(found.detach() if hasattr(found, "detach") else found, dtype=float)
    assert not np.isnan(found).any(), "NaN among the answers"
    assert not np.isposinf(found).any(), "+inf among the answers"


def complete(found: Any) -> None:
    """A table without gaps."""
    for column in read_raw(found).columns:
        assert not column.missing.any(), f"a gap in {column.name!r}"


def _conditional(table: Any) -> None:
    model = density().fit(table)
    column = next((name for name, kind in model.kinds_.items() if kind in ("binary", "categorical")), 0)
    if not hasattr(model, "predict_proba"):
        assert not any(kind in ("binary", "categorical") for kind in model.kinds_.values())
        with pytest.raises(AttributeError, match="predict_proba") as unavailable:
            model.predict_proba(table, column)
        assert isinstance(unavailable.value.__cause__, OptionError)
        return
    found = model.predict_proba(table, column)
    assert np.allclose(found.sum(axis=1), 1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "kinds": kinds,
    "all categorical": lambda t: kinds(t, overrides="categorical"),
    "all continuous": lambda t: kinds(t, overrides="continuous"),
    "encode": lambda t: Columns.learn(t).encode(t, "marginalize"),
    "fit": lambda t: scores(density().fit(t).score_samples(t)),
    "score": lambda t: scores(NUMBERS.score(t)),
    "score of a frame": lambda t: scores(PEOPLE.score(t)),
    "anomaly_score": lambda t: scores(-density().fit(t).anomaly_score(t)),
    "bic": lambda t: NUMBERS.bic(t),
    "sample": lambda t: complete(density().fit(t).sample(3, random_state=0)),
    "impute": lambda t: complete(density().fit(t).impute(t)),
    "impute by draws": lambda t: complete(density().fit(t).impute(t, how="draw", random_state=0)),
    "impute the most probable": lambda t: complete(NUMBERS.impute(t, how="mode")),
    "predict_proba": _conditional,
    "log_prob": lambda t: scores(GAUSSIANS.log_prob(t, missing="marginalize")),
    "log_prob of bits": lambda t: scores(BITS.log_prob(t, missing="marginalize")),
    "expectation": lambda t: GAUSSIANS.expectation(t),
    "mpe": lambda t: BITS.mpe(t),
    "sample given": lambda t: GAUSSIANS.sample(2, seed=0, given=t),
    "factorized": lambda t: scores(fp.structures.factorized(t, family="gaussian").log_prob(t, missing="marginalize")),
    "chow_liu": lambda t: scores(fp.structures.chow_liu(t).log_prob(t, missing="marginalize")),
    "hclt": lambda t: fp.structures.hclt(t, n_latents=2, family="gaussian"),
    "tree_mixture": lambda t: fp.structures.tree_mixture(t, n_trees=2, steps=1),
}
FIT = ("--structure", "factorized", "--missing", "marginalize", "--unseen", "missing", "--force")
SHORT = ("kinds", "fit", "score of a frame", "impute", "sample", "log_prob", "chow_liu")


def snapshot(table: Any) -> bytes:
    """What tells whether it was changed; frames pickle what they cache, too."""
    if isinstance(table, pd.DataFrame | pl.DataFrame):
        kinds_of = table.dtypes if isinstance(table, pl.DataFrame) else table.dtypes.tolist()
        columns = [list(column) for column in (table.iter_columns() if isinstance(table, pl.DataFrame) else table.to_numpy().T)]
        return repr((list(table.columns), kinds_of, columns)).encode(errors="backslashreplace")
    try:
        return pickle.dumps(table)
    except Exception:
        return repr(table).encode(errors="backslashreplace")


def test_tables_in_memory():
    with Tally("odd tables") as tally:
        for kind, make in TABLES.items():
            for name in FUNCTIONS if LONG else SHORT:
                with tally.case(f"{name} of {kind}"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    table = make()
                    before = snapshot(table)
                    try:
                        FUNCTIONS[name](table)
                    finally:
                        assert snapshot(table) == before, "the table was changed"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of numbers, and one of bits."""
    folder = tmp_path_factory.mktemp("models")
    density().fit(pl.DataFrame(X, schema=["a", "b"])).save(folder / "numbers.model")
    density().fit(B).save(folder / "bits.model")
    return folder


def command(*arguments: object) -> None:
    """It ends well, or with a mistake that it names."""
    answer = Answer(*arguments)
    assert answer.code in (0, 1), f"exit code {answer.code}: {answer.err[-300:]}"
    assert "\x1b" not in answer.err, "a control character reached the terminal"
    assert answer.code == 0 or answer.err.startswith("Error: "), answer.err


def test_tables_in_files(tmp_path: Path, models: Path):
    out = tmp_path / "out.csv"
    with Tally("odd files") as tally:
        for place, (kind, (ending, data)) in enumerate(FILES.items()):
            file = tmp_path / f"table{place}{ending}"
            file.write_bytes(data)
            model = tmp_path / f"{place}.model"
            ways: dict[str, Callable[[], Any]] = {
                "read_table": lambda file=file: read_table(file),
                "kinds": lambda file=file: kinds(read_table(file).train),
                "fit": lambda file=file: scores(density().fit(t := read_table(file).train).score_samples(t)),
                "impute": lambda file=file: complete(density().fit(t := read_table(file).train).impute(t)),
                "flatpc score": lambda file=file: command("score", models / "numbers.model", file, "--missing", "marginalize"),
            }
            if LONG:
                ways |= {
                    "flatpc score of bits": lambda file=file: command("score", models / "bits.model", file, "--json"),
                    "flatpc impute": lambda file=file: command("impute", models / "numbers.model", file, "-o", out, "--force"),
                    "flatpc fit": lambda file=file, model=model: command("fit", file, "-o", model, *FIT),
                    "flatpc sample": lambda model=model: command("sample", model, "-n", 3, "-o", out, "--force"),
                    "flatpc score of itself": lambda file=file, model=model: command(
                        "score", model, file, "--per-row", "--missing", "marginalize", "--unseen", "missing"
                    ),
                }
            for name, way in ways.items():
                with tally.case(f"{name} of {kind}"):
                    way()
            assert file.read_bytes() == data


def test_there_are_as_many_kinds_and_cases_as_promised():
    assert len(TABLES) + len(FILES) >= 117
    assert len(TABLES) * len(FUNCTIONS) + len(FILES) * 10 >= 2_700
