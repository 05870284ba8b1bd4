"""One file for a model of a table: the circuit, its columns, and how it was learnt.

    save_model("model.safetensors", circuit, columns, about={"structure": "hclt"})
    model = load_model("model.safetensors")
    model.circuit, model.columns, model.about

It is the file that `circuit.save` writes, with `columns` and `about` beside the circuit: `flatpc.load` reads it, too. A file that
`circuit.save` wrote has no columns; they are then called x0, x1, ..., and hold the numbers that the circuit's families take.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from reprlib import repr as show
from typing import Any, get_args

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.files import load_all, save
from flatpc.errors import FileFormatError
from flatpc.families.base import Family
from flatpc.tables.column import DIGEST, RARE, Column
from flatpc.tables.columns import Columns
from flatpc.tables.forms import TEMPORAL, Form, is_zone
from flatpc.tables.reading import DType
from flatpc.tables.recognition import KINDS
from flatpc.tables.traits import Traits

_AGAIN = "Fit the model again."
_TUNED = "tuned "
_DTYPES = get_args(DType)
_VALUES: dict[str, Any] = {"text": str, "boolean": bool, **dict.fromkeys(("integer", "float", *TEMPORAL), (int, float))}


@dataclass(frozen=True)
class Model:
    """A circuit over named columns."""

    circuit: Circuit
    columns: Columns
    about: dict[str, Any] = field(default_factory=dict)
    """How it was learnt; plain JSON, for people."""
    tuned: dict[int, Circuit] = field(default_factory=dict)
    """Copies that were tuned to predict a column, by its position."""


def save_model(
    path: str | os.PathLike[str],
    circuit: Circuit,
    columns: Columns,
    about: Mapping[str, Any] | None = None,
    tuned: Mapping[int, Circuit] | None = None,
) -> None:
    """Write a model to a file, replacing in one step what was there."""
    extra = {"columns": [_to_json(column) for column in columns.columns], "about": dict(about or {})}
    save(circuit, path, extra, {f"{_TUNED}{j}": copy for j, copy in (tuned or {}).items()})


def load_model(path: str | os.PathLike[str]) -> Model:
    """The model in a file that `save_model` or `circuit.save` wrote."""
    circuit, extra, copies = load_all(path)
    try:
        about = extra.get("about", {})
        if not isinstance(about, dict):
            raise FileFormatError(f"its `about` is not a JSON object. {_AGAIN}")
        columns = _from_json(extra["columns"]) if "columns" in extra else plain_columns(circuit)
        _check_fit(columns, circuit)
        tuned = {_tuned_column(name, circuit): copy for name, copy in copies.items()}
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    return Model(circuit, columns, about, tuned)


def _tuned_column(name: str, circuit: Circuit) -> int:
    """The column that a copy was tuned for."""
    number = name.removeprefix(_TUNED)
    if name != f"{_TUNED}{number}" or not re.fullmatch("0|[1-9][0-9]{0,8}", number) or int(number) >= circuit.n_variables:
        raise FileFormatError(f"its copy {show(name)} is of no column. {_AGAIN}")
    return int(number)


def plain_columns(circuit: Circuit) -> Columns:
    """Columns x0, x1, ... that hold what the circuit's families take."""
    out = []
    for v, family in enumerate(circuit.families):
        n = family.n_categories
        if n is not None:
            out.append(Column(f"x{v}", "binary" if n == 2 else "categorical", "integer", "the circuit", tuple(range(n))))
        elif family.discrete:
            out.append(Column(f"x{v}", "count", "integer", "the circuit"))
        else:
            out.append(Column(f"x{v}", "continuous", "float", "the circuit"))
    return Columns(tuple(out))


def _to_json(column: Column) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind,
        "dtype": column.dtype,
        "why": column.why,
        "categories": list(column.categories),
    }
    if column.rare != RARE:
        out["rare"] = column.rare
    if column.traits != Traits():
        traits = column.traits
        # JSON has no infinities.
        bounds = [bound if math.isfinite(bound) else None for bound in traits.bounds]
        out["traits"] = [traits.resolution, traits.origin, list(traits.atoms), bounds]
    if column.form != Form():
        out["form"] = {name: value for name, value in asdict(column.form).items() if value != getattr(Form(), name)}
    if column.other:
        out["other"] = True
    if column.rest:
        out["rest"] = column.rest.hex()
    return out


def _form(j: int, given: Any) -> Form:
    """How values are written; older files don't say."""
    wanted = {"native": str, "ordered": bool, "digits": int, "zone": str}
    if not isinstance(given, dict) or not all(type(value) is wanted.get(name) for name, value in given.items()):
        raise FileFormatError(f"its column {j} has the form {show(given)}. {_AGAIN}")
    form = Form(**given)
    if not 0 <= (form.digits or 0) <= 100 or not is_zone(form.zone):
        raise FileFormatError(f"its column {j} has the form {show(given)}. {_AGAIN}")
    return form


def _traits(j: int, given: Any) -> Traits:
    """Traits of a file; those written by older versions have none."""
    try:
        resolution, origin, atoms, (low, high) = given
        bounds = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
        return Traits(float(resolution), float(origin), tuple(float(atom) for atom in atoms), bounds)
    except (TypeError, ValueError):
        raise FileFormatError(f"its column {j} has traits {show(given)}. {_AGAIN}") from None


def _from_json(given: object) -> Columns:
    if not isinstance(given, list):
        raise FileFormatError(f"its columns are not a list. {_AGAIN}")
    columns = []
    for j, read in enumerate(given):
        if not isinstance(read, dict) or set(read) - {"traits", "rare", "form", "other", "rest"} != {
            "name",
            "kind",
            "dtype",
            "why",
            "categories",
        }:
            raise FileFormatError(f"its column {j} doesn't have the keys of a column. {_AGAIN}")
        if read["kind"] not in KINDS or read["dtype"] not in _DTYPES:
            raise FileFormatError(f"its column {j} is of kind {show(read['kind'])} and type {show(read['dtype'])}. {_AGAIN}")
        if not isinstance(read["name"], str) or not isinstance(read["why"], str) or not isinstance(read["categories"], list):
            raise FileFormatError(f"its column {j} has a name, reason or categories of a wrong type. {_AGAIN}")
        traits = _traits(j, read["traits"]) if "traits" in read else Traits()
        rare = read.get("rare", RARE)
        if not isinstance(rare, float) or not 0 < rare < 1:
            raise FileFormatError(f"its column {j} gives unseen values the probability {show(rare)}. {_AGAIN}")
        form, other = _form(j, read.get("form", {})), read.get("other", False)
        if type(other) is not bool or (other and read["dtype"] != "text"):
            raise FileFormatError(f"its column {j} has a category of others, {show(other)}. {_AGAIN}")
        rest = read.get("rest", "")
        if not isinstance(rest, str) or not re.fullmatch(f"([0-9a-f]{{{2 * DIGEST}}})*", rest) or (rest and not other):
            raise FileFormatError(f"its column {j} has the digests of rare texts {show(rest)}. {_AGAIN}")
        column = Column(
            read["name"], read["kind"], read["dtype"], read["why"], tuple(read["categories"]), traits, rare, form, other,
            bytes.fromhex(rest),
        )  # fmt: skip
        _check_categories(j, column)
        columns.append(column)
    out = Columns(tuple(columns), "polars")
    if len(set(out.names)) < len(out.names):
        raise FileFormatError(f"two of its columns have the same name. {_AGAIN}")
    return out


def _check_categories(j: int, column: Column) -> None:
    wanted: Any = _VALUES[column.dtype]
    right = all(
        isinstance(value, wanted) and (column.dtype == "boolean" or type(value) is not bool) for value in column.categories
    )
    different = right and len(set(column.categories)) == len(column.categories)
    if not different or bool(column.categories) != column.is_discrete:
        raise FileFormatError(f"the categories of its column {j} are not different values of its type. {_AGAIN}")


def _check_fit(columns: Columns, circuit: Circuit) -> None:
    if len(columns.columns) != circuit.n_variables:
        raise FileFormatError(f"it has {len(columns.columns)} columns for {circuit.n_variables} variables. {_AGAIN}")
    for column, family in zip(columns.columns, circuit.families, strict=True):
        if not _fits(column, family):
            raise FileFormatError(f"its column {column.name!r} is {column.kind}, but the circuit's input is {family}. {_AGAIN}")


def _fits(column: Column, family: Family) -> bool:
    if column.is_discrete:
        return family.n_categories == len(column.categories)
    # A count may have a probability for each of finitely many values, and a continuous one have been rounded.
    return family.discrete if column.kind == "count" else family.n_categories is None
