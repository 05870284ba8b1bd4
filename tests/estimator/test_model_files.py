"""Models of tables on disk: columns come back as they were, and what doesn't fit is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.circuit.files import load_all, save
from flatpc.errors import FileFormatError
from flatpc.estimator.model_files import load_model, plain_columns, save_model
from flatpc.tables.column import RARE
from flatpc.tables.columns import Columns
from flatpc.tables.forms import Form
from flatpc.tables.traits import Traits

FIXTURE = Path(__file__).parent / "fixtures" / "version-1-table.safetensors"
RAIN = 17.5 / 41  # "nein" in 17 of 40 rows, and one more row spread evenly over both values


def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    n = 40
    return pl.DataFrame(
        {
            "rain": rng.choice(["nein", "ja"], n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "mark": rng.integers(1, 6, n),
            "smoker": rng.random(n) < 0.3,
            "visits": rng.poisson(12, n),
            "height": rng.normal(170, 10, n),
        }
    )


def saved(path: Path) -> tuple[fp.Circuit, Columns]:
    columns = Columns.learn(table())
    circuit = fp.structures.factorized(columns.encode(table()), family=columns.families)
    save_model(path, circuit, columns, about={"structure": "factorized"})
    return circuit, columns


def test_columns_come_back(tmp_path: Path) -> None:
    circuit, columns = saved(tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert model.columns == columns
    assert model.about == {"structure": "factorized"}
    rows = columns.encode(table())
    np.testing.assert_array_equal(model.columns.encode(table()), rows)
    np.testing.assert_array_equal(model.circuit.log_prob(rows), circuit.log_prob(rows))
    assert model.columns.decode(rows).equals(table())


def test_files_of_version_1_stay_loadable() -> None:
    """The fixture was written by the first release; if this fails, users' models are lost."""
    model = load_model(FIXTURE)
    learnt = Columns.learn(table(), {"visits": "continuous"})  # today it is a count
    assert model.columns == replace(
        learnt,
        columns=tuple(
            replace(column, traits=Traits(), rare=RARE, form=Form(), why=column.why.replace("said so", "numbers"))
            for column in learnt.columns
        ),
    )
    assert model.about == {"structure": "factorized"}
    rain = model.circuit.parameters[0]
    assert isinstance(rain, dict)
    np.testing.assert_allclose(rain["p"], [RAIN], rtol=1e-15)
    assert model.circuit.families[5] == fp.Gaussian()


def test_a_circuit_alone_gets_plain_columns(tmp_path: Path) -> None:
    families = [fp.Bernoulli(), fp.Categorical(3), fp.Gaussian(), fp.Poisson(), fp.Binomial(4), fp.Indicator(2)]
    nodes: list[fp.Node] = [fp.Input(v, family) for v, family in enumerate(families)]
    circuit = fp.Circuit([*nodes, fp.Product(tuple(range(6)))])
    circuit.save(tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert model.columns == plain_columns(circuit)
    assert [column.kind for column in model.columns.columns] == [
        "binary", "categorical", "continuous", "count", "categorical", "binary",
    ]  # fmt: skip
    rows = circuit.sample(20)
    np.testing.assert_array_equal(model.columns.encode(rows), rows)
    np.testing.assert_array_equal(model.columns.decode(rows), rows)


def column(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "kind": "binary", "dtype": "integer", "why": "", "categories": [0, 1]} | changes


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "not a list"),
        ([7], "keys of a column"),
        ([{"name": "a"}], "keys of a column"),
        ([column(kind="spectral")], "kind 'spectral'"),
        ([column(dtype="int8")], "type 'int8'"),
        ([column(name=3)], "wrong type"),
        ([column(why=None)], "wrong type"),
        ([column(categories="01")], "wrong type"),
        ([column(categories=[0, 0])], "not different values"),
        ([column(categories=[0, "1"])], "not different values"),
        ([column(categories=[False, True])], "not different values"),
        ([column(dtype="text", categories=["b", 1])], "not different values"),
        ([column(kind="continuous")], "not different values"),
        ([column(categories=[])], "not different values"),
        ([column(), column()], "same name"),
        ([column(), column(name="b")], "2 columns for 1 variables"),
        ([column(kind="continuous", dtype="float", categories=[])], "input is Bernoulli"),
        ([column(form={"zone": "Atlantis"})], "the form"),
        ([column(form={"digits": True})], "the form"),
        ([column(form={"colour": "red"})], "the form"),
        ([column(form=7)], "the form"),
        ([column(other=True)], "category of others"),
        ([column(kind="categorical", categories=[0, 1, 2])], "input is Bernoulli"),
    ],
)
def test_forged_columns_are_refused(tmp_path: Path, columns: Any, message: str) -> None:
    save(fp.structures.factorized([[0], [1]]), tmp_path / "model", {"columns": columns})
    with pytest.raises(FileFormatError, match=message) as caught:
        load_model(tmp_path / "model")
    assert str(tmp_path / "model") in str(caught.value)


def test_the_unchanged_forgery_loads(tmp_path: Path) -> None:
    save(fp.structures.factorized([[0], [1]]), tmp_path / "model", {"columns": [column()]})
    assert load_model(tmp_path / "model").columns.names == ("a",)


def test_about_is_an_object(tmp_path: Path) -> None:
    save(fp.structures.factorized([[0], [1]]), tmp_path / "model", {"about": [1]})
    with pytest.raises(FileFormatError, match="about"):
        load_model(tmp_path / "model")


def test_the_circuit_can_be_loaded_alone(tmp_path: Path) -> None:
    circuit, _ = saved(tmp_path / "model")
    assert fp.load(tmp_path / "model").nodes == circuit.nodes
    assert set(load_all(tmp_path / "model")[1]) == {"columns", "about"}
