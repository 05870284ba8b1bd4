"""Drawn rows are rows that the table could have: of its types, categories, bounds and steps, on every table at hand."""

import os
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import flatpc as fp
from flatpc.datasets import MANIFOLDS, MIXED, PACKAGED
from flatpc.datasets.local_files import is_local
from flatpc.datasets.mixed import mixed_registry
from flatpc.paper.outside import on_steps, values_outside
from flatpc.paper.people import load_table

ROWS, DRAWN = 250, 400
LONG = bool(os.environ.get("FLATPC_HOSTILE"))
"""All tables of the comparison that are at hand; otherwise some of each sort."""
FEW = ("mixed/crx", "mixed/autism", "mixed/anneal-U", "sklearn/iris", "sklearn/wine", "sklearn/diabetes", "spiral")


def tables():
    names = [*PACKAGED, *sorted(MANIFOLDS), *(f"mixed/{name}" for name in MIXED if is_local(mixed_registry().sets[name].file))]
    return [name for name in names if LONG or name in FEW]


@pytest.mark.parametrize("name", tables())
def test_no_value_is_outside_of_its_column(name):
    if name in PACKAGED:
        pytest.importorskip(PACKAGED[name].package)
    frame = load_table(name, 0).frame("train")[:ROWS]
    options = {"structure": "mixture", "n_latents": 4, "average": False, "effort": 0.3, "missing": "marginalize"}
    density = fp.CircuitDensity(**options, verbose=False).fit(frame)
    drawn = density.sample(DRAWN, random_state=0)
    assert values_outside(density, frame, drawn) == {}


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_what_is_given_is_kept(make):
    rng = np.random.default_rng(0)
    towns = np.array(["Ulm"] * 300 + [f"t{i}" for i in range(300)])
    table = {
        "k": rng.choice(["a", "b"], 600), "town": towns, "mark": rng.integers(1, 4, 600), "x": rng.normal(size=600).round(1),
        "day": np.datetime64("2020-01-01", "us") + rng.integers(0, 90, 600) * np.timedelta64(1, "D"),
    }  # fmt: skip
    density = fp.CircuitDensity(structure="factorized", effort=0.1, verbose=False).fit(make(table))
    gaps = {"k": ["zz", None, "a"], "town": ["t7", "new", None], "mark": [9, 1, 2], "x": [None, 0.123, 77.0]}
    gaps["day"] = [None, datetime(2031, 5, 1), None]
    given = make(gaps)
    drawn = density.sample(2, given=given, random_state=0)
    assert type(drawn) is type(given)
    for name, values in gaps.items():
        for said, value in zip([*values, *values], drawn[name].to_list(), strict=True):
            assert value is not None
            assert said in (None, value)
    assert drawn["k"].to_list()[1] in ("a", "b")


def test_values_that_a_type_cannot_hold():
    marks = pd.DataFrame({"mark": np.array([1, 2, 3] * 40, np.uint8), "flag": [True, False] * 60})
    density = fp.CircuitDensity(structure="factorized", effort=0.1, verbose=False).fit(marks)
    drawn = density.sample(given=pd.DataFrame({"mark": [300.0, 1.5, np.nan], "flag": [True, False, True]}), random_state=0)
    assert drawn["mark"].tolist()[:2] == [300, 1.5]
    assert str(drawn.dtypes["flag"]) == "bool"
    assert density.sample(5).dtypes.equals(marks.dtypes)


def test_values_outside_are_counted():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"spent": rng.exponential(2.0, 300).round(1), "n": rng.integers(0, 9, 300), "c": rng.choice(list("ab"), 300)}
    )
    density = fp.CircuitDensity(structure="factorized", average=False, effort=0.3, verbose=False).fit(frame)
    assert values_outside(density, frame, frame) == {}
    drawn = frame.with_columns(spent=pl.Series([-0.1, 0.25, *frame["spent"][2:]]))
    assert values_outside(density, frame, drawn) == {"spent": 2}
    assert values_outside(density, frame, frame.with_columns(pl.col("n").cast(pl.Float64))) == {"n": 300}


def test_values_drawn_within_a_range_are_the_columns_too():
    rng = np.random.default_rng(0)
    table = np.column_stack([np.round(rng.exponential(2.0, 300), 1), np.round(rng.normal(170, 9, 300), 1)])
    density = fp.CircuitDensity(structure="mixture", n_latents=2, average=False, effort=0.3, verbose=False).fit(table)
    spent, height = density.columns_.columns
    assert (spent.traits.bounds[0], spent.traits.resolution, height.traits.resolution) == (0.0, 0.1, 0.1)
    below = density.sample(400, given={"x0": (None, 1.0)}, random_state=0)[:, 0]
    assert 0 <= below.min() <= below.max() <= 1
    assert on_steps(spent, below).all()
    # Ends between two steps: 170.1 and 170.2 are the values in between. And a range that holds no step stays a range.
    assert set(density.sample(50, given={"x1": (170.06, 170.24)}, random_state=0)[:, 1]) == {170.1, 170.2}
    within = density.sample(50, given={"x1": (170.12, 170.18)}, random_state=0)[:, 1]
    assert 170.12 <= within.min() <= within.max() <= 170.18


def test_a_column_of_one_value_alone_keeps_it():
    g = np.random.default_rng(0)
    gaps = np.where(g.random(60) < 0.5, np.nan, -2.5)
    frame = pd.DataFrame({"rate": np.full(60, 0.1), "other": g.normal(size=60), "gaps": gaps})
    model = fp.CircuitDensity(effort=1, missing="marginalize", verbose=False).fit(frame)
    drawn = model.sample(100, random_state=0)
    assert set(drawn["rate"]) == {0.1}
    assert set(drawn["gaps"]) == {-2.5}
    assert drawn["other"].nunique() == 100
    assert set(model.impute(frame)["gaps"]) == {-2.5}
    assert set(model.sample(1, given=frame.assign(rate=0.2), random_state=0)["rate"]) == {0.2}
    one_row = fp.CircuitDensity(effort=1, verbose=False).fit(frame[["other"]].iloc[:1])
    assert one_row.sample(100, random_state=0)["other"].nunique() == 100
