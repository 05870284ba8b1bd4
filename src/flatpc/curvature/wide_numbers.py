"""Numbers with a mantissa of 53 bits and an exponent of 64: float64's precision, without its limits.

What float64 can't hold, the square of a gradient of 1e160 or a density of e^-5000, is an ordinary number here: products in which
such numbers cancel come out right, and only what is too large in the end becomes infinite. Slower than plain arrays by far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._typing import Array, Ints

_ZERO = np.int64(-(1 << 40))
"""The exponent of zero: far below all others, so that a sum is never aligned to it."""
_LOG_2 = np.log(2.0)


@dataclass(frozen=True)
class Wide:
    """An array of numbers `mantissa · 2^exponent`; mantissas are 0 or in ±[0.5, 1)."""

    mantissa: Array
    exponent: Ints
    __array_ufunc__ = None
    """NumPy leaves operators between its arrays and these to us."""

    @staticmethod
    def of(numbers: Any) -> Wide:
        """Finite numbers as they are."""
        return numbers if isinstance(numbers, Wide) else _normal(np.asarray(numbers, np.float64), np.int64(0))

    @staticmethod
    def exp(logarithms: Array) -> Wide:
        """`e^x` for x from -inf up."""
        zero = np.isneginf(logarithms)
        x = np.where(zero, 0.0, logarithms)
        exponent = np.floor(x / _LOG_2)
        return _normal(np.where(zero, 0.0, np.exp(x - exponent * _LOG_2)), exponent.astype(np.int64))

    def to_float(self) -> Array:
        """Float64: infinite where that is too small a range, 0 (or a denormal number) where it is too coarse a one."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.ldexp(self.mantissa, np.clip(self.exponent, -3000, 3000).astype(np.int32)))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mantissa.shape

    def __getitem__(self, where: Any) -> Wide:
        return Wide(self.mantissa[where], self.exponent[where])

    def __mul__(self, other: Any) -> Wide:
        other = Wide.of(other)
        return _normal(self.mantissa * other.mantissa, self.exponent + other.exponent)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Wide:
        """By numbers that are not 0."""
        other = Wide.of(other)
        return _normal(self.mantissa / other.mantissa, self.exponent - other.exponent)

    def __neg__(self) -> Wide:
        return Wide(-self.mantissa, self.exponent)

    def __add__(self, other: Any) -> Wide:
        other = Wide.of(other)
        top = np.maximum(self.exponent, other.exponent)
        return _normal(_aligned(self, top) + _aligned(other, top), top)

    def __sub__(self, other: Any) -> Wide:
        return self + -Wide.of(other)

    def sum(self, axis: int) -> Wide:
        """The sum along one axis, which must have entries."""
        top = self.exponent.max(axis=axis, keepdims=True)
        return _normal(_aligned(self, top).sum(axis=axis), np.squeeze(top, axis))

    def sum_of_segments(self, starts: Ints) -> Wide:
        """Sums along the last axis from each of `starts` to the next."""
        top = np.maximum.reduceat(self.exponent, starts, axis=-1)
        lengths = np.diff(np.append(starts, self.shape[-1]))
        total = np.add.reduceat(_aligned(self, np.repeat(top, lengths, axis=-1)), starts, axis=-1)
        return _normal(total, top)

    def reshape(self, *shape: int) -> Wide:
        return Wide(self.mantissa.reshape(shape), self.exponent.reshape(shape))

    def swapaxes(self, a: int, b: int) -> Wide:
        return Wide(self.mantissa.swapaxes(a, b), self.exponent.swapaxes(a, b))


def zeros(shape: tuple[int, ...]) -> Wide:
    return Wide(np.zeros(shape), np.full(shape, _ZERO))


def stack(parts: list[Wide], axis: int) -> Wide:
    mantissas, exponents = [p.mantissa for p in parts], [p.exponent for p in parts]
    return Wide(np.stack(mantissas, axis), np.stack(exponents, axis))


def concatenate(parts: list[Wide], axis: int) -> Wide:
    mantissas, exponents = [p.mantissa for p in parts], [p.exponent for p in parts]
    return Wide(np.concatenate(mantissas, axis), np.concatenate(exponents, axis))


def _normal(mantissa: Array, exponent: Any) -> Wide:
    fraction, shift = np.frexp(mantissa)
    return Wide(fraction, np.where(fraction == 0, _ZERO, exponent + shift))


def _aligned(x: Wide, top: Ints) -> Array:
    """Mantissas in units of `2^top`, which is no less than any of them."""
    return np.asarray(np.ldexp(x.mantissa, np.maximum(x.exponent - top, -2000).astype(np.int32)))
