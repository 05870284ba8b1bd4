"""Numbers that depend on one another, each after a monotone map of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flatpc._options import instance, put, several, wrong
from flatpc._typing import Array
from flatpc.families import normal_blocks as normal
from flatpc.families.base import Family, Parameters, Statistics
from flatpc.families.gaussian import Gaussian
from flatpc.families.multivariate_gaussian import MultivariateGaussian
from flatpc.families.transformed import GOLDEN, Transformed
from flatpc.families.transforms import Transform

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_KEPT = _WEIGHTS > 1e-18
NODES: Array = _NODES[_KEPT]
NODE_WEIGHTS: Array = _WEIGHTS[_KEPT]
"""Of means over a standard normal."""
_ENTRIES = 1 << 14
"""Means that are taken at a time."""
_STEPS = 60
"""Of Newton's method, at the most, to a mode."""


@dataclass(frozen=True)
class MappedGaussian(MultivariateGaussian):
    """Normal density over several variables, some of which are mapped first: that of t(x), times the slopes t'(x).

    >>> import numpy as np
    >>> import flatpc as fp
    >>> family = fp.families.MappedGaussian(2, transforms=(fp.families.Log(), None))
    >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
    >>> pair = fp.Circuit([fp.Input(variables=(0, 1), family=family)], {0: units})
    >>> pair.expectation([[np.e, np.nan]]).round(6).tolist()
    [[2.718282, 0.5]]

    Parameters are those of `fp.MultivariateGaussian` at t(x). Marginals, conditionals and samples are exact; means are by
    quadrature, and modes by Newton's method from the median.

    Parameters
    ----------
    n_variables, min_variance, rank, pooled
        As for `fp.MultivariateGaussian`; floors are of the variances of t(x).
    transforms
        For each variable its map, or None; by default none has one.

    Raises
    ------
    OptionError
        As `fp.MultivariateGaussian` does, or unless there is a map or None for each variable.
    """

    transforms: tuple[Transform | None, ...] = field(default=())

    def __post_init__(self) -> None:
        super().__post_init__()
        give = f"a list of maps, or None, one for each of {self.n_variables} variables"
        maps = several("MappedGaussian: transforms", self.transforms, give) or (None,) * self.n_variables
        if len(maps) != self.n_variables:
            raise wrong("MappedGaussian: transforms", self.transforms, f"give one, or None, for each of {self.n_variables}.")
        for each in maps:
            if each is not None:
                instance("MappedGaussian: transforms", each, Transform, "maps, such as fp.families.Log(), or None")
        put(self, transforms=maps)

    @staticmethod
    def of(family: MultivariateGaussian, transforms: tuple[Transform | None, ...]) -> MappedGaussian:
        """A multivariate Gaussian with maps in front.

        >>> import flatpc as fp
        >>> fp.families.MappedGaussian.of(fp.MultivariateGaussian(2), (fp.families.Log(), None)).n_variables
        2

        Parameters
        ----------
        family
            Of t(x).
        transforms
            As for the class.

        Returns
        -------
        MappedGaussian
            Of x.
        """
        return MappedGaussian(family.n_variables, family.min_variance, family.rank, family.pooled, transforms)

    @property
    def inner(self) -> MultivariateGaussian:
        """The family of t(x)."""
        return MultivariateGaussian(self.n_variables, self.min_variance, self.rank, self.pooled)

    def forward(self, x: Array) -> Array:
        """t(x) of rows.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.families.MappedGaussian(2, transforms=(fp.families.Log(), None)).forward(np.array([[1.0, 7.0]])).tolist()
        [[0.0, 7.0]]

        Parameters
        ----------
        x
            `[N, d]`, within the support of the maps; NaN where unknown.

        Returns
        -------
        array
            `[N, d]`; NaN stay.
        """
        return self._each(x, lambda t, column: t.forward(column))

    def _inverse(self, z: Array) -> Array:
        """The rows x of t(x)."""
        return self._each(z, lambda t, column: t.inverse(column))

    def _log_slopes(self, x: Array) -> Array:
        """`[N]`: Σ log t'(x) over known entries."""
        out = np.zeros(len(x))
        for j, transform in enumerate(self.transforms):
            if transform is not None:
                known = ~np.isnan(x[:, j])
                out[known] += transform.log_slope(x[known, j])
        return out

    def _each(self, rows: Array, f: Callable[[Transform, Array], Array]) -> Array:
        out = rows.copy()
        for j, transform in enumerate(self.transforms):
            if transform is not None:
                known = ~np.isnan(rows[:, j])
                out[known, j] = f(transform, rows[known, j])
        return out

    def marginal_family(self, position: int) -> Family:  # type: ignore[override]
        """A Gaussian, behind the variable's map."""
        alone, transform = Gaussian(min_variance=float(self.floors[position])), self.transforms[position]
        return alone if transform is None else Transformed(alone, transform)

    def marginal_parameters(self, parameters: Parameters, position: int) -> dict[str, Array]:
        """Mean and variance of t(x)."""
        return self.inner.marginal_parameters(parameters, position)

    # ---- the Gaussian's own at t(x) -----------------------------------------------------------------------------------

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """The Gaussian's own."""
        return self.inner.initialize_from(self.forward(x), width, rng, spread)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """`log q(t(x)) + Σ log t'(x)`, of the known entries."""
        return self.inner.log_density(parameters, self.forward(x)) + self._log_slopes(x)[:, None]

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """The Gaussian's own."""
        return self.inner.statistics(parameters, self.forward(x), flow)

    def scores(self, parameters: Parameters, x: Array) -> Array:
        """The Gaussian's own."""
        return self.inner.scores(parameters, self.forward(x))

    def bends(self, parameters: Parameters, x: Array, flow: Array) -> Array:
        """The Gaussian's own."""
        return self.inner.bends(parameters, self.forward(x), flow)

    def information(self, parameters: Parameters) -> Array:
        """The Gaussian's own."""
        return self.inner.information(parameters)

    def sample_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array, rng: np.random.Generator) -> Array:
        """The Gaussian's own, mapped back; known entries stay as they are."""
        drawn = self._inverse(self.inner.sample_given(parameters, units, self.forward(x), rng))
        return np.where(np.isnan(x), drawn, x)

    def entry_given(self, parameters: Parameters, x: Array, position: int) -> tuple[Family, dict[str, Array]]:
        """A Gaussian of t(x), behind the variable's map."""
        others = x.copy()
        others[:, position] = np.nan
        family, given = self.inner.entry_given(parameters, self.forward(others), position)
        transform = self.transforms[position]
        return family if transform is None else _OfRows(family, transform), given

    def box_log_prob(self, parameters: Parameters, x: Array, low: Array, high: Array) -> Array:
        """The Gaussian's own between the bounds of t(x)."""
        others = np.where(np.isfinite(low) | np.isfinite(high), np.nan, x)
        found = self.inner.box_log_prob(parameters, self.forward(others), self._bounds(low), self._bounds(high))
        return np.asarray(found + self._log_slopes(others)[:, None])

    def sample_in_box(
        self, parameters: Parameters, units: NDArray[np.int64], x: Array, low: Array, high: Array, rng: np.random.Generator
    ) -> Array:
        """The Gaussian's own, mapped back; known entries stay as they are."""
        others = np.where(np.isfinite(low) | np.isfinite(high), np.nan, x)
        inside = self.inner.sample_in_box(parameters, units, self.forward(others), self._bounds(low), self._bounds(high), rng)
        return np.where(np.isnan(others), np.clip(self._inverse(inside), low, high), others)

    def _bounds(self, ends: Array) -> Array:
        """T of each end; ends beyond the support of a map are none."""
        out = ends.copy()
        for j, transform in enumerate(self.transforms):
            if transform is not None and np.isfinite(ends[j]):
                out[j] = -np.inf if ends[j] <= transform.low else transform.forward(ends[j : j + 1])[0]
        return out

    # ---- modes ------------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """Of each unit."""
        width = len(parameters["mean"])
        return self.mode_given(parameters, np.arange(width), np.full((width, self.n_variables), np.nan))

    def mode_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array) -> Array:
        """By Newton's method, from the medians given the known entries."""
        out, z, whole = x.copy(), self.forward(x), self.covariance(parameters)
        for unit in np.unique(units):
            mine = np.flatnonzero(units == unit)
            mean, covariance = parameters["mean"][unit : unit + 1], whole[unit : unit + 1]
            for rows, known, deviation, rest in normal.filled(mean, covariance, z[mine]):
                if known.all():
                    continue
                middle = mean[0, ~known] + deviation[0][:, ~known]
                maps = [self.transforms[j] for j in np.flatnonzero(~known)]
                best = _highest(middle, np.linalg.inv(rest[0]), maps)
                out[np.ix_(mine[rows], ~known)] = _back(best, maps)
        return out

    def log_density_at_mode(self, parameters: Parameters, x: Array) -> Array:
        """That of the completed rows."""
        width = len(parameters["mean"])
        out = np.empty((len(x), width))
        for unit in range(width):
            best = self.mode_given(parameters, np.full(len(x), unit), x)
            one = {name: value[unit : unit + 1] for name, value in parameters.items()}
            out[:, unit] = self.log_density(one, best)[:, 0]
        return out

    # ---- moments ----------------------------------------------------------------------------------------------------

    def moments_given(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """By quadrature, with the Gaussian's own means and variances of t(x) given the known entries."""
        means, variances = self.inner.moments_given(parameters, self.forward(x))
        for j, transform in enumerate(self.transforms):
            if transform is not None:
                unknown = np.isnan(x[:, j])
                found = _moments(transform, means[unknown, :, j], variances[unknown, :, j])
                means[~unknown, :, j] = x[~unknown, j][:, None]
                means[unknown, :, j], variances[unknown, :, j] = found
        return means, variances

    def mean(self, parameters: Parameters) -> Array:
        """By quadrature."""
        return np.asarray(self.moments_given(parameters, np.full((1, self.n_variables), np.nan))[0][0])

    def variance(self, parameters: Parameters) -> Array:
        """By quadrature."""
        return np.asarray(self.moments_given(parameters, np.full((1, self.n_variables), np.nan))[1][0])

    def entropy(self, parameters: Parameters) -> Array:
        """The Gaussian's own, less the means of log t'(x), by quadrature."""
        out, deviation = self.inner.entropy(parameters), np.sqrt(self.inner.variance(parameters))
        for j, transform in enumerate(self.transforms):
            if transform is not None:
                z = parameters["mean"][:, j, None] + deviation[:, j, None] * NODES
                out = out - transform.log_slope(transform.inverse(z)) @ NODE_WEIGHTS
        return out

    # ---- options ----------------------------------------------------------------------------------------------------

    def rescaled(
        self, parameters: Parameters, shift: float | Array, scale: float | Array
    ) -> tuple[MappedGaussian, dict[str, Array]]:
        """Other maps where there are any; other parameters where there are none."""
        d = self.n_variables
        by, to = (np.broadcast_to(np.asarray(each, np.float64), (d,)) for each in (scale, shift))
        mapped = np.array([transform is not None for transform in self.transforms])
        family, found = self.inner.rescaled(parameters, np.where(mapped, 0.0, to), np.where(mapped, 1.0, by))
        maps = tuple(
            None if t is None else t.rescaled(float(a), float(b)) for t, a, b in zip(self.transforms, to, by, strict=True)
        )
        return MappedGaussian.of(family, maps), found

    def with_floor(self, floor: float) -> MappedGaussian:
        """With `min_variance=floor`."""
        return replace(self, min_variance=floor)

    @property
    def chosen_floor(self) -> float:
        """Floors are of t(x), not in the user's units."""
        return 0.0


class _OfRows(Transformed):
    """A mapped Gaussian whose parameters are `[N, K]`, of each row its own."""

    def mean(self, parameters: Parameters) -> Array:
        """By quadrature."""
        return _moments(self.transform, parameters["mean"], parameters["variance"])[0]

    def mode(self, parameters: Parameters) -> Array:
        """By golden section around the best of a grid."""
        mean, deviation = parameters["mean"], np.sqrt(parameters["variance"])

        def height(u: Array) -> Array:
            return np.asarray(self.transform.log_slope(self.transform.inverse(mean + deviation * u)) - 0.5 * u**2)

        grid = np.linspace(-8.0, 8.0, 81)
        best = np.argmax([height(np.full(mean.shape, u)) for u in grid], axis=0)
        low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, len(grid) - 1)]
        for _ in range(60):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            first = height(left) >= height(right)
            low, high = np.where(first, low, left), np.where(first, right, high)
        return np.asarray(self.transform.inverse(mean + deviation * (low + high) / 2))


def _back(z: Array, maps: list[Transform | None]) -> Array:
    return np.stack([z[:, j] if t is None else t.inverse(z[:, j]) for j, t in enumerate(maps)], axis=1)


def _slopes(z: Array, maps: list[Transform | None]) -> Array:
    """`[N, u]`: log t'(x) at t(x) = z."""
    zero = np.zeros(len(z))
    return np.stack([zero if t is None else t.log_slope(t.inverse(z[:, j])) for j, t in enumerate(maps)], axis=1)


def _highest(middle: Array, precision: Array, maps: list[Transform | None]) -> Array:
    """The z with the largest log N(z; middle, precision⁻¹) + Σ log t'(x)."""
    if all(t is None for t in maps):
        return middle
    width = 1e-4 / np.sqrt(np.diagonal(precision))

    def height(z: Array) -> Array:
        away = z - middle
        return np.asarray(_slopes(z, maps).sum(axis=1) - 0.5 * np.einsum("ni,ij,nj->n", away, precision, away))

    z, now = middle.copy(), height(middle)
    for _ in range(_STEPS):
        below, at, above = (_slopes(z + move * width, maps) for move in (-1.0, 0.0, 1.0))
        gradient = (above - below) / (2 * width) - (z - middle) @ precision
        bend = np.maximum((2 * at - above - below) / width**2, 0.0)
        step = np.linalg.solve(precision + bend[:, :, None] * np.eye(len(maps)), gradient[:, :, None])[:, :, 0]
        share = np.ones(len(z))
        for _ in range(12):
            moved = z + share[:, None] * step
            then = height(moved)
            if not (worse := ~(then >= now)).any():
                break
            share = np.where(worse, share / 2, share)
        else:
            moved, then = np.where(worse[:, None], z, moved), np.where(worse, now, then)
        gain = float((then - now).max())
        z, now = moved, then
        if gain < 1e-13:
            break
    return z


def _moments(transform: Transform, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Means and variances of t⁻¹(z) of normal z."""
    flat, deviation = mean.ravel(), np.sqrt(variance.ravel())
    first, second = np.empty(flat.shape), np.empty(flat.shape)
    for start in range(0, len(flat), _ENTRIES):
        some = slice(start, start + _ENTRIES)
        x = transform.inverse(flat[some, None] + deviation[some, None] * NODES)
        first[some] = x @ NODE_WEIGHTS
        second[some] = (x - first[some, None]) ** 2 @ NODE_WEIGHTS
    return first.reshape(mean.shape), second.reshape(mean.shape)
