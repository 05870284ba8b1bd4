"""How everyone else asks a family about values: missing and impossible ones never get there, and its answers are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.errors import FamilyError
from flatpc.families.base import Family, Parameters, Statistics

Units = NDArray[np.int64]
_LARGEST = 1e300
"""Logarithms beyond this can't be told apart once they are added up."""


def log_density(family: Family, parameters: Parameters, x: Array) -> Array:
    """`[N, K]`: 0 where x is missing, `-inf` where the family doesn't allow it (another input over the variable may).

    A family over d variables is asked about rows `x [N, d]` of which at least one entry is known.

    Raises `FamilyError` for what can't be a log-density.
    """
    width = _width(family, parameters)
    missing, impossible = all_missing(x), outside(family, x)
    if not (missing.any() or impossible.any()):
        return _checked(family, family.log_density(parameters, x), x, width)
    out = np.where(missing[:, None], 0.0, np.full((len(x), width), -np.inf))
    asked = ~missing & ~impossible
    if asked.any():
        out[asked] = _checked(family, family.log_density(parameters, x[asked]), x[asked], width)
    return out


def statistics(family: Family, parameters: Parameters, x: Array, flow: NDArray[Any]) -> Statistics:
    """The family's statistics of values weighted by `flow [N, K]`; missing values, and those outside its support, add nothing.

    Raises `FamilyError` unless names and shapes are those that the family has declared, and all numbers finite.
    """
    asked = ~all_missing(x) & ~outside(family, x)
    flow = np.asarray(flow[asked], np.float64)
    found = family.statistics(parameters, x[asked], flow)
    width, kind = flow.shape[1], type(family).__name__
    shapes, given = family.statistic_shapes(width), {name: np.shape(value) for name, value in found.items()}
    if given != shapes:
        raise FamilyError(
            f"{kind}.statistics gave {_listed(given)} for {width} units, but its statistic_shapes are {_listed(shapes)}; "
            f"name them in `statistic_names`, or define `statistic_shapes`."
        )
    for name, value in found.items():
        if not np.isfinite(value).all() and np.isfinite(flow).all():
            raise FamilyError(f"{kind}.statistics gave a {name!r} that is not finite, from flows that are.")
    return found


def all_missing(x: Array) -> NDArray[np.bool_]:
    """`[N]`: values that are missing, of `x [N]`; rows of which nothing is known, of `x [N, d]`."""
    unknown = np.isnan(x)
    return np.asarray(unknown if x.ndim == 1 else unknown.all(axis=1))


def outside(family: Family, x: Array) -> NDArray[np.bool_]:
    """`[N]`: values, or rows with a value, outside the support."""
    if x.ndim == 1:
        return family.outside(x)
    columns = [family.marginal_family(j).outside(x[:, j]) for j in range(x.shape[1])]
    return np.asarray(np.logical_or.reduce(columns))


# ---- about unknown entries ----------------------------------------------------------------------------------------------


def drawn(family: Family, parameters: Parameters, units: Units, x: Array, rng: np.random.Generator) -> Array:
    """X with every unknown entry drawn from a unit, given what is known of the row."""
    if x.ndim > 1:
        return _completed(x, lambda rows: family.sample_given(parameters, units[rows], x[rows], rng))
    return _completed(x, lambda rows: family.sample(parameters, units[rows], rng))


def at_mode(family: Family, parameters: Parameters, units: Units, x: Array) -> Array:
    """X with every unknown entry at a unit's most probable value, given what is known of the row."""
    if x.ndim > 1:
        return _completed(x, lambda rows: family.mode_given(parameters, units[rows], x[rows]))
    return _completed(x, lambda rows: family.mode(parameters)[units[rows]])


def _completed(x: Array, complete: Callable[[NDArray[np.bool_]], Array]) -> Array:
    rows = np.asarray(np.isnan(x) if x.ndim == 1 else np.isnan(x).any(axis=1))
    out = x.copy()
    if rows.any():
        out[rows] = complete(rows)
    return out


def log_density_at_mode(family: Family, parameters: Parameters, x: Array, known: Array) -> Array:
    """`[N, K]`: the largest log-density at rows with these known entries; `known` is that of the known entries alone."""
    if x.ndim > 1:
        rows, out = np.isnan(x).any(axis=1), known.copy()
        rows &= ~outside(family, x)
        if rows.any():
            out[rows] = family.log_density_at_mode(parameters, x[rows])
        return out
    largest = log_density(family, parameters, family.mode(parameters)).diagonal()
    return np.where(np.isnan(x)[:, None], largest, known)


# ---- checks -------------------------------------------------------------------------------------------------------------


def _width(family: Family, parameters: Parameters) -> int:
    """How many units there are."""
    if not parameters:
        raise FamilyError(f"{type(family).__name__} has no parameters; name one at least in `names`.")
    return len(next(iter(parameters.values())))


def _checked(family: Family, given: Any, x: Array, width: int) -> Array:
    found, kind = np.asarray(given, np.float64), type(family).__name__
    if found.shape != (len(x), width):
        raise FamilyError(
            f"{kind}.log_density gave an array of shape {found.shape} for {len(x)} values and {width} units; "
            f"it should be {(len(x), width)}: compare x[:, None] with the parameters."
        )
    wrong = np.isnan(found) | (found > _LARGEST)
    if wrong.any():
        row = int(np.flatnonzero(wrong.any(axis=1))[0])
        raise FamilyError(
            f"{kind}.log_density gave {found[row][wrong[row]][0]} at x = {x[row]!s}; a log-density is a number or -inf, "
            f"for all parameters that check_parameters lets pass and all values that `outside` does."
        )
    return found


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
