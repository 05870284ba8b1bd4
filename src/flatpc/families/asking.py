"""How everyone else asks a family about values: missing and impossible ones never get there, and its answers are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.errors import FamilyError
from flatpc.families.base import Array, Family, Parameters, Statistics

_LARGEST = 1e300
"""Logarithms beyond this can't be told apart once they are added up."""


def log_density(family: Family, parameters: Parameters, x: Array) -> Array:
    """`[N, K]`: 0 where x is missing, `-inf` where the family doesn't allow it (another input over the variable may).

    Raises `FamilyError` for what can't be a log-density.
    """
    width = _width(family, parameters)
    missing, outside = np.isnan(x), family.outside(x)
    if not (missing.any() or outside.any()):
        return _checked(family, family.log_density(parameters, x), x, width)
    out = np.where(missing[:, None], 0.0, np.full((len(x), width), -np.inf))
    asked = ~missing & ~outside
    if asked.any():
        out[asked] = _checked(family, family.log_density(parameters, x[asked]), x[asked], width)
    return out


def statistics(family: Family, parameters: Parameters, x: Array, flow: NDArray[Any]) -> Statistics:
    """The family's statistics of values weighted by `flow [N, K]`; missing values, and those outside its support, add nothing.

    Raises `FamilyError` unless names and shapes are those that the family has declared, and all numbers finite.
    """
    asked = ~np.isnan(x) & ~family.outside(x)
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
            f"{kind}.log_density gave {found[row][wrong[row]][0]} at x = {x[row]:g}; a log-density is a number or -inf, "
            f"for all parameters that check_parameters lets pass and all values that `outside` does."
        )
    return found


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
