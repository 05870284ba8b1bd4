"""Monotone maps of a column: logarithms, powers, quantiles. Each takes its values onto all numbers, in rising order.

With z = t(x), a density q over z is the density `q(t(x)) t'(x)` over x; `Transformed` is the family of such densities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import inv_boxcox, ndtri

from flatpc._options import ascending, number, put
from flatpc._row_weights import deviation, interpolated_quantiles, mean, median
from flatpc._typing import Array
from flatpc.errors import OptionError

POWERS: Array = np.linspace(0.0, 2.0, 41)
"""Among which a power is chosen. Others would leave some numbers z without an x, and densities that don't add up to one."""


@dataclass(frozen=True)
class Transform:
    """A rising map z = t(x) from the values of a column onto all numbers.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> t = fp.families.Log()
    >>> t.forward(np.array([1.0])).tolist(), t.inverse(np.array([0.0])).tolist(), t.log_slope(np.array([2.0])).round(3).tolist()
    ([0.0], [1.0], [-0.693])
    """

    @property
    def low(self) -> float:
        """What values lie above."""
        return -np.inf

    @property
    def corners(self) -> tuple[float, ...]:
        """Values at which the curve is not smooth."""
        return ()

    def forward(self, x: Array) -> Array:
        """`z = t(x)`.

        Parameters
        ----------
        x
            `[N]`: values above `low`; NaN stays NaN.

        Returns
        -------
        array
            `[N]`.
        """
        raise NotImplementedError

    def inverse(self, z: Array) -> Array:
        """The x with t(x) = z.

        Parameters
        ----------
        z
            Any numbers.

        Returns
        -------
        array
            Of the same shape.
        """
        raise NotImplementedError

    def log_slope(self, x: Array) -> Array:
        """The logarithm of t'(x).

        Parameters
        ----------
        x
            `[N]`: values above `low`.

        Returns
        -------
        array
            `[N]`.
        """
        raise NotImplementedError

    def rescaled(self, shift: float, scale: float) -> Transform:
        """The same map of `shift + scale · x`.

        >>> import flatpc as fp
        >>> fp.families.Log().rescaled(shift=1.0, scale=2.0)
        Log(shift=1.0, scale=2.0)

        Parameters
        ----------
        shift, scale
            The numbers of the formula; the scale is positive.

        Returns
        -------
        Transform
            Of these values.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Log(Transform):
    """The logarithm of (x - shift) / scale, of numbers above `shift`.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> fp.families.Log(shift=-1.0).forward(np.array([0.0])).tolist()
    [0.0]

    Parameters
    ----------
    shift
        Every value must be greater than this.
    scale
        The unit of x.

    Raises
    ------
    OptionError
        If the scale is not positive.
    """

    shift: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        put(self, shift=number("Log: shift", self.shift), scale=number("Log: scale", self.scale, 0.0, above=True))

    @property
    def low(self) -> float:
        """The shift."""
        return self.shift

    def forward(self, x: Array) -> Array:
        """`log u`."""
        u = (x - self.shift) / self.scale
        return np.asarray(np.log(np.where(u > 0, u, np.where(np.isnan(u), np.nan, 1.0))))

    def inverse(self, z: Array) -> Array:
        """By exp."""
        return np.asarray(self.shift + self.scale * np.exp(z))

    def log_slope(self, x: Array) -> Array:
        """-log(x - shift)."""
        return np.asarray(-self.forward(x) - np.log(self.scale))

    def rescaled(self, shift: float, scale: float) -> Log:
        """With another shift and scale."""
        return replace(self, shift=shift + scale * self.shift, scale=scale * self.scale)


@dataclass(frozen=True)
class YeoJohnson(Transform):
    """A power of u = (x - shift) / scale that bends both sides of 0 the same way (Yeo and Johnson, 2000).

    `((u + 1)^p - 1) / p` for u of 0 or more, `-((1 - u)^(2 - p) - 1) / (2 - p)` below, and logarithms in place of powers of 0. A
    power below 1 draws in the larger numbers, one above 1 the smaller ones; 1 leaves u as it is.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> fp.families.YeoJohnson(0.5).forward(np.array([-3.0, 0.0, 3.0])).round(3).tolist()
    [-4.667, 0.0, 2.0]

    Parameters
    ----------
    power
        From 0 to 2.
    shift, scale
        Middle and unit of x.

    Raises
    ------
    OptionError
        If the power is not between 0 and 2, or the scale not positive.
    """

    power: float = 1.0
    shift: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        put(self, power=number("YeoJohnson: power", self.power, 0.0, 2.0), shift=number("YeoJohnson: shift", self.shift))
        put(self, scale=number("YeoJohnson: scale", self.scale, 0.0, above=True))

    @property
    def corners(self) -> tuple[float, ...]:
        """The shift."""
        return (self.shift,)

    def forward(self, x: Array) -> Array:
        """The power."""
        u = (x - self.shift) / self.scale
        return np.asarray(np.where(u < 0, -_power(np.maximum(-u, 0.0), 2 - self.power), _power(np.maximum(u, 0.0), self.power)))

    def inverse(self, z: Array) -> Array:
        """The root."""
        below, above = inv_boxcox(np.maximum(-z, 0.0), 2 - self.power) - 1, inv_boxcox(np.maximum(z, 0.0), self.power) - 1
        return np.asarray(self.shift + self.scale * np.where(z < 0, -below, above))

    def log_slope(self, x: Array) -> Array:
        """(p - 1) log(u + 1) above 0, (1 - p) log(1 - u) below, less the logarithm of the scale."""
        u = (x - self.shift) / self.scale
        return np.asarray((self.power - 1) * np.sign(u) * np.log1p(abs(u)) - np.log(self.scale))

    def rescaled(self, shift: float, scale: float) -> YeoJohnson:
        """With another shift and scale."""
        return replace(self, shift=shift + scale * self.shift, scale=scale * self.scale)


def _power(u: Array, power: float) -> Array:
    return np.log1p(u) if power == 0 else np.asarray(np.expm1(power * np.log1p(u)) / power)


@dataclass(frozen=True)
class Quantiles(Transform):
    """A smooth rising curve through points (x, z), straight beyond the first and the last.

    Between two points it is a quotient of two quadratic polynomials (Gregory and Delbourgo, 1982), whose slope at a point is the
    geometric mean of those of the chords to its neighbours: it rises everywhere, and its inverse is a root of a quadratic
    equation.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> t = fp.families.Quantiles((0.0, 1.0, 8.0), (-1.0, 0.0, 1.0))
    >>> t.forward(np.array([0.0, 1.0, 8.0, 15.0])).round(6).tolist()
    [-1.0, 0.0, 1.0, 2.0]

    Parameters
    ----------
    x, z
        The points, both in ascending order; two or more.

    Raises
    ------
    OptionError
        If they are not in ascending order, or not as many.
    """

    x: tuple[float, ...] = (0.0, 1.0)
    z: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        put(self, x=ascending("Quantiles: x", self.x, 2), z=ascending("Quantiles: z", self.z, 2))
        if len(self.x) != len(self.z):
            raise OptionError(f"Quantiles: there are {len(self.x)} numbers x and {len(self.z)} numbers z; give as many of both.")

    @property
    def corners(self) -> tuple[float, ...]:
        """The points."""
        return self.x

    def _pieces(self, at: Array, knots: tuple[float, ...]) -> tuple[Array, ...]:
        """Of the piece that holds each value: left end (x and z), width, chord, slopes at its ends; and which values it holds."""
        x, z = np.array(self.x), np.array(self.z)
        chord = np.diff(z) / np.diff(x)
        inner = np.sqrt(chord[:-1] * chord[1:])
        slope = np.concatenate([chord[:1], inner, chord[-1:]])
        k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(x) - 2)
        return x[k], z[k], np.diff(x)[k], chord[k], slope[k], slope[k + 1]

    def forward(self, x: Array) -> Array:
        """The curve."""
        left, bottom, width, chord, first, last = self._pieces(x, self.x)
        share = np.clip((x - left) / width, 0.0, 1.0)
        bent = (first + last - 2 * chord) * share * (1 - share)
        rise = width * chord * (chord * share**2 + first * share * (1 - share)) / (chord + bent)
        beyond = np.minimum(x - self.x[0], 0.0) * first + np.maximum(x - self.x[-1], 0.0) * last
        return np.asarray(bottom + rise + beyond)

    def inverse(self, z: Array) -> Array:
        """The root of a quadratic equation."""
        left, bottom, width, chord, first, last = self._pieces(z, self.z)
        rise = np.clip(z - bottom, 0.0, width * chord)
        bend = first + last - 2 * chord
        a = width * chord * (chord - first) + rise * bend
        b = width * chord * first - rise * bend
        c = -chord * rise
        share = 2 * c / (-b - np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)))
        beyond = np.minimum(z - self.z[0], 0.0) / first + np.maximum(z - self.z[-1], 0.0) / last
        return np.asarray(left + width * share + beyond)

    def log_slope(self, x: Array) -> Array:
        """Of the curve."""
        left, _, width, chord, first, last = self._pieces(x, self.x)
        share = np.clip((x - left) / width, 0.0, 1.0)
        bent = (first + last - 2 * chord) * share * (1 - share)
        above = last * share**2 + 2 * chord * share * (1 - share) + first * (1 - share) ** 2
        return np.asarray(2 * np.log(chord / (chord + bent)) + np.log(above))

    def rescaled(self, shift: float, scale: float) -> Quantiles:
        """With other x."""
        return Quantiles(tuple(float(shift + scale * x) for x in self.x), self.z)


# ---- from a column --------------------------------------------------------------------------------------------------------


def fit_power(x: Array, weights: Array | None = None) -> YeoJohnson:
    """The power with which values, in units of their median and spread, look most like a normal distribution."""
    shift, scale = median(x, weights), deviation(x, weights) or 1.0
    best, most = YeoJohnson(1.0, shift, scale), -np.inf
    for power in POWERS:
        t = YeoJohnson(float(power), shift, scale)
        likelihood = mean(t.log_slope(x), weights) - np.log(max(deviation(t.forward(x), weights), 1e-300))
        if likelihood > most + 1e-12:
            best, most = t, likelihood
    return best


def fit_quantiles(x: Array, n: int, weights: Array | None = None) -> Quantiles:
    """The map of about n quantiles to those of a normal distribution; fewer where values repeat."""
    share = (np.arange(n) + 0.5) / n
    points, first = np.unique(interpolated_quantiles(x, share, weights), return_index=True)
    last = np.append(first[1:], n) - 1
    z = ndtri((share[first] + share[last]) / 2)
    if len(points) < 2:
        return Quantiles((float(x.min()) - 1.0, float(x.max()) + 1.0), (-1.0, 1.0))
    return Quantiles(tuple(points.tolist()), tuple(z.tolist()))
