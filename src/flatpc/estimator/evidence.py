"""Tables as evidence: rows as a circuit takes them, with values that it doesn't know; and conditions in the table's own terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._options import shown
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.errors import OptionError
from flatpc.families.base import Family
from flatpc.tables.column import Column, refuse_unseen
from flatpc.tables.columns import Columns
from flatpc.tables.forms import TEMPORAL
from flatpc.tables.reading import RawTable


@dataclass(frozen=True)
class Evidence:
    """Rows, and what the values cost that they can't hold."""

    rows: Array
    """`[N, D]`: codes and numbers; NaN where a value is missing or unknown to the circuit."""
    rare: Array
    """`[N, D]`: log-probabilities of values unknown to the circuit, and of one text of a shared category; 0 elsewhere."""


def read_evidence(
    circuit: Circuit, columns: Columns, table: RawTable, missing: str, unseen: str, ignore: int | None = None
) -> Evidence:
    """The table for the circuit. With `unseen="rare"`, a value that the circuit gives no probability has the column's `rare` one.

    It says nothing about other columns: they are judged as if it were missing. Rare texts that share a category have equal parts
    of its probability, and a text that is none of them is unknown. Numbers between the steps of a column that was rounded are
    rounded.
    """
    rows = columns.encode(table, missing, unseen, ignore=ignore)
    rare = np.zeros_like(rows)
    spreads: Array | None = None
    for j, (column, raw) in enumerate(zip(columns.columns, columns.matched(table), strict=True)):
        if j == ignore:
            continue
        if column.rest:
            new = column.is_new(raw)
            if unseen == "raise":
                refuse_unseen(column, raw, new)
            rows[new, j] = np.nan
            rare[rows[:, j] == len(column.categories) - 1, j] = column.log_share
        if unseen == "raise":
            continue
        if not column.is_discrete:
            families = circuit.families_of_variables[j]
            rows[:, j] = _on_grid(families[0], rows[:, j])
            outside = np.logical_and.reduce([family.outside(rows[:, j]) for family in families])
            rows[outside, j] = np.nan
        strange = ~raw.missing & np.isnan(rows[:, j])
        if strange.any() and unseen == "rare":
            cost = np.log(column.rare)
            if not column.is_discrete and not circuit.families_of_variables[j][0].discrete:
                if spreads is None:
                    spreads = np.sqrt(circuit.variance(np.full((1, circuit.n_variables), np.nan))[0])
                cost -= np.log(spreads[j])  # a density: spread over as much as the column's values are
            rare[strange, j] = cost
    return Evidence(rows, rare)


def read_judges(columns: Columns, table: RawTable, missing: str, unseen: str) -> tuple[Array, list[tuple[Family, ...]]]:
    """Rows to choose by, and the families of each column that allow all of its values there.

    Values that none allows are missing; where each family leaves out some, all stay, and what any of them leaves out is missing.
    """
    rows, offered = columns.encode(table, missing, "missing" if unseen == "rare" else unseen), []
    for j, column in enumerate(columns.columns):
        families = column.families
        if not column.is_discrete:
            outside = np.array([family.outside(rows[:, j]) for family in families])
            rows[outside.all(axis=0), j] = np.nan
            outside &= ~np.isnan(rows[:, j])
            families = tuple(family for family, some in zip(families, outside, strict=True) if not some.any()) or families
            if families == column.families:
                rows[outside.any(axis=0), j] = np.nan
        offered.append(families)
    return rows, offered


def _on_grid(family: Family, x: Array) -> Array:
    """Numbers rounded to the steps of a family that has some; atoms stay."""
    if family.grid is None:
        return x
    resolution, origin = family.grid
    rounded = origin + resolution * np.round((x - origin) / resolution)
    return np.where(np.isin(x, family.set_apart), x, rounded)


# ---- conditions -------------------------------------------------------------------------------------------------------


def read_events(columns: Columns, said: Any, option: str) -> dict[int, Any]:
    """Events by variable from what is said of columns by name: values, or ranges, as `flatpc.queries.events` takes them.

    Numbers of a column that was rounded stand for all that is rounded to them.
    """
    if not isinstance(said, Mapping) or not said:
        raise OptionError(
            f"{option}={shown(said)}; give a dict such as {{{columns.names[0]!r}: VALUE}}, or (low, high) for a range.",
            option=option,
        )
    return {
        columns.position(name): _event(columns.columns[columns.position(name)], value, option) for name, value in said.items()
    }


def _event(column: Column, value: Any, option: str) -> Any:
    if isinstance(value, np.ndarray | range | frozenset):
        value = list(value)
    if isinstance(value, list | tuple | set) and not value:
        raise OptionError(f"{option} says {shown(value)} of {column.name!r}; list one value at least.", option=option)
    if column.is_discrete and isinstance(value, tuple) and has_numbers(column):
        return codes_between(column, *_range(column, value, option), f"{option} says {shown(value)} of {column.name!r}")
    if column.is_discrete:
        wanted = list(value) if isinstance(value, list | tuple | set) else [value]
        return [_code(column, each, option) for each in wanted]
    if isinstance(value, tuple):
        return _rounded_to(column, *_range(column, value, option))
    numbers = [_number(column, each, option) for each in (value if isinstance(value, list | set) else [value])]
    cells = [_rounded_to(column, number, number) for number in numbers]
    return cells if all(low < high for low, high in cells) else numbers


def _rounded_to(column: Column, low: float, high: float) -> tuple[float, float]:
    """All numbers that are rounded to values within a range; the range itself if it has none, or the column's are not rounded."""
    if column.kind != "continuous" or column.traits.resolution == 0:
        return low, high
    step, origin = column.traits.resolution, column.traits.origin
    first, last = np.ceil((low - origin) / step - 1e-4), np.floor((high - origin) / step + 1e-4)
    return (origin + step * (first - 0.5), origin + step * (last + 0.5)) if first <= last else (low, high)


def refuse_densities(circuit: Circuit, columns: Columns, events: Mapping[int, Any]) -> None:
    """Raise `OptionError` for a value of a continuous column that has a density rather than a probability."""
    for j, event in events.items():
        if columns.columns[j].kind != "continuous" or isinstance(event, tuple) or isinstance(event[0], tuple):
            continue
        for value in event:
            if not all(family.discrete or value in family.set_apart for family in circuit.families_of_variables[j]):
                said = str(columns.columns[j].shown(np.array([value]))[0])
                raise OptionError(
                    f"Column {columns.names[j]!r} is continuous: a value such as {said} has a density, and no probability. "
                    "Ask for a range (low, high), or for column_log_density.",
                    option="event",
                )


def _range(column: Column, value: tuple[Any, ...], option: str) -> tuple[float, float]:
    if len(value) != 2:
        raise OptionError(f"{option} says {shown(value)} of {column.name!r}; a range is (low, high).", option=option)
    low, high = (
        _number(column, each, option) if each is not None else end for each, end in zip(value, (-np.inf, np.inf), strict=True)
    )
    if not low <= high:
        raise OptionError(f"{option} says {shown(value)} of {column.name!r}; a range is (low, high), low first.", option=option)
    return low, high


def has_numbers(column: Column) -> bool:
    """Whether the categories are numbers, of which there are ranges."""
    return all(isinstance(category, int | float) and not isinstance(category, bool) for category in column.categories)


def codes_between(column: Column, low: float, high: float, said: str) -> list[float]:
    """The codes of categories that are numbers, from `low` to `high`; both belong to it."""
    found = [float(code) for code, category in enumerate(column.categories) if low <= category <= high]
    if not found:
        raise OptionError(f"{said}, whose values are {column.listed}.")
    return found


def _code(column: Column, value: Any, option: str) -> float:
    wanted = column.number(value) if column.dtype in TEMPORAL else value
    for code, category in enumerate(column.categories):
        if _is(category, wanted):
            return float(code)
    if column.other and isinstance(value, str):
        return len(column.categories) - 1.0
    raise OptionError(f"{option} says {shown(value)} of {column.name!r}, whose values are {column.listed}.", option=option)


def _is(category: Any, value: Any) -> bool:
    try:
        return bool(category == value) and isinstance(category, str) == isinstance(value, str)
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors are neither equal nor not
        return False


def _number(column: Column, value: Any, option: str) -> float:
    number = column.number(value)
    if np.isnan(number):
        wanted = f"a {column.dtype}" if column.dtype in TEMPORAL else "a number"
        raise OptionError(
            f"{option} says {shown(value)} of {column.name!r}, which is {column.kind}; give {wanted}, or (low, high).",
            option=option,
        )
    return number
