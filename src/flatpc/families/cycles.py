"""Families that know the cycles of their values, made of those that don't."""

from __future__ import annotations

from flatpc.families.base import Family
from flatpc.families.cyclic import Cyclic
from flatpc.families.hurdle import Hurdle


def with_cycles(family: Family, parts: tuple[int, ...], step: float, origin: float) -> Family | None:
    """A continuous family with these cycles, beside its atoms if it has any; None for a discrete one.

    >>> from flatpc.families import Gaussian, Poisson
    >>> with_cycles(Hurdle((0.0,), Gaussian()), (7,), 1.0, 0.0).family.parts, with_cycles(Poisson(), (7,), 1.0, 0.0)
    ((7,), None)
    """
    if family.discrete:
        return None
    if not isinstance(family, Hurdle):
        return Cyclic(family, parts, step, origin)
    inner = with_cycles(family.family, parts, step, origin)
    return None if inner is None else Hurdle(family.atoms, inner)
