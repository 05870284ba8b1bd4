"""Numbers with any smooth density between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.families.base import Parameters, Statistics, masked
from flatpc.families.pieces import Pieces


@dataclass(frozen=True)
class PiecewiseLinear(Pieces):
    """A density that is linear between edges. Parameters of a unit: `p [K, n]`, one probability for each of the n edges.

    It is a mixture of triangles, one around each edge, that reach to the edges beside it; `p` are their shares.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"p": np.array([[0.0, 1.0, 0.0]])}
    >>> np.exp(fp.PiecewiseLinear((0.0, 1.0, 2.0)).log_density(unit, np.array([0.5, 1.0, 1.75])))[:, 0].tolist()
    [0.5, 1.0, 0.25]

    Parameters
    ----------
    edges
        Where the slope may change, in ascending order.

    Raises
    ------
    OptionError
        If `edges` are not two or more finite numbers in ascending order.
    """

    @property
    def n_pieces(self) -> int:
        """One triangle for each edge."""
        return len(self.edges)

    def _areas(self) -> Array:
        """Of triangles of height 1."""
        gaps = np.diff(self.edges)
        return np.asarray(np.concatenate([[0.0], gaps / 2]) + np.concatenate([gaps / 2, [0.0]]))

    def _heights(self, parameters: Parameters) -> Array:
        """`[K, n]`: the density at the edges."""
        return np.asarray(parameters["p"] / self._areas())

    def _place(self, x: Array) -> tuple[NDArray[np.int64], Array]:
        """The edge to the left of x, and how far x is from there to the next, as a share."""
        edges = np.asarray(self.edges)
        left = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        return np.asarray(left, np.int64), (x - edges[left]) / (edges[left + 1] - edges[left])

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Between the heights at the edges; 0 where x is NaN."""
        value, seen = masked(x)
        left, share = self._place(value)
        heights = self._heights(parameters)
        density = (1 - share)[:, None] * heights[:, left].T + share[:, None] * heights[:, left + 1].T
        with np.errstate(divide="ignore"):
            log_p = np.log(np.where(self.outside(value)[:, None], 0.0, density))
        return np.where(seen[:, None], log_p, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """The expected flow of each triangle."""
        value, seen = masked(x)
        left, share = self._place(value)
        heights = self._heights(parameters)
        mine, next_one = (1 - share)[:, None] * heights[:, left].T, share[:, None] * heights[:, left + 1].T
        density = mine + next_one
        possible = seen[:, None] & ~self.outside(value)[:, None] & (density > 0)
        flow = np.where(possible, flow, 0.0)
        safe = np.where(possible, density, 1.0)
        counts = np.zeros((self.n_pieces, flow.shape[1]))
        np.add.at(counts, left, flow * mine / safe)
        np.add.at(counts, left + 1, flow * next_one / safe)
        return {"counts": counts.T.copy()}

    def log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """Of the parts of triangles inside."""
        return self._log_between(parameters, self._masses(start, end))

    def statistics_between(self, parameters: Parameters, start: Array, end: Array, flow: Array) -> Statistics:
        """The expected flow of each triangle."""
        return self._statistics_between(parameters, self._masses(start, end), flow)

    def _masses(self, start: Array, end: Array) -> Array:
        """The share of each triangle's area, left and right of its peak."""
        edges, gaps, out = np.asarray(self.edges), np.diff(self.edges), np.zeros((len(start), self.n_pieces))
        low, high = np.maximum(start[:, None], edges[:-1]), np.minimum(end[:, None], edges[1:])
        width = np.maximum(high - low, 0.0) / (2 * gaps)
        out[:, 1:] += width * ((low - edges[:-1]) + (high - edges[:-1]))
        out[:, :-1] += width * ((edges[1:] - low) + (edges[1:] - high))
        return np.asarray(out / self._areas())

    def mode(self, parameters: Parameters) -> Array:
        """The highest edge."""
        return np.asarray(np.asarray(self.edges)[np.argmax(self._heights(parameters), axis=1)])

    def _moments(self) -> tuple[Array, Array]:
        """Mean and variance of each triangle."""
        edges = np.asarray(self.edges)
        low, high = np.concatenate([edges[:1], edges[:-1]]), np.concatenate([edges[1:], edges[-1:]])
        mean = (low + edges + high) / 3
        square = (low**2 + edges**2 + high**2 - low * edges - low * high - edges * high) / 18
        return mean, square

    def mean(self, parameters: Parameters) -> Array:
        """Of the triangles."""
        return np.asarray(parameters["p"] @ self._moments()[0])

    def variance(self, parameters: Parameters) -> Array:
        """Of the triangles' means, and theirs."""
        mean, square = self._moments()
        return np.asarray((parameters["p"] * (square + (mean - self.mean(parameters)[:, None]) ** 2)).sum(axis=1))

    def entropy(self, parameters: Parameters) -> Array:
        """Interval by interval: -∫ h log h of a linear h from a to b is w [(a+b)/4 - (b² log b - a² log a) / (2 (b-a))]."""
        heights, gaps = self._heights(parameters), np.diff(self.edges)
        a, b = heights[:, :-1], heights[:, 1:]
        level = abs(b - a) <= 1e-6 * (a + b)
        middle = (a + b) / 2

        def square_log(h: Array) -> Array:
            return np.asarray(h**2 * np.log(np.where(h > 0, h, 1.0)))

        flat = -middle * np.log(np.where(middle > 0, middle, 1.0))
        steep = (a + b) / 4 - (square_log(b) - square_log(a)) / (2 * np.where(level, 1.0, b - a))
        return np.asarray((gaps * np.where(level, flat, steep)).sum(axis=1))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Quadratic between the edges."""
        x = np.clip(np.asarray(x, np.float64), *self.bounds)
        left, share = self._place(x)
        heights, gaps = self._heights(parameters), np.diff(self.edges)
        a, b = heights[:, left].T, heights[:, left + 1].T
        part = gaps[left][:, None] * share[:, None] * (a + share[:, None] * (b - a) / 2)
        return np.asarray(self._below(heights, gaps)[:, left].T + part)

    def _below(self, heights: Array, gaps: Array) -> Array:
        """`[K, n]`: the cdf at the edges."""
        areas = gaps * (heights[:, :-1] + heights[:, 1:]) / 2
        return np.concatenate([np.zeros((len(heights), 1)), np.cumsum(areas, axis=1)], axis=1)

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The roots of quadratics."""
        heights, gaps, edges = self._heights(parameters), np.diff(self.edges), np.asarray(self.edges)
        q, out = np.asarray(q, np.float64), []
        for h, below in zip(heights, self._below(heights, gaps), strict=True):
            left = np.clip(np.searchsorted(below, q, side="left") - 1, 0, len(gaps) - 1)
            a, rise = h[left], h[left + 1] - h[left]
            need = np.maximum(q - below[left], 0.0) / gaps[left]
            # a s + rise s²/2 = need, in the form that doesn't cancel
            share = 2 * need / np.maximum(a + np.sqrt(np.maximum(a**2 + 2 * rise * need, 0.0)), 1e-300)
            out.append(edges[left] + np.clip(share, 0.0, 1.0) * gaps[left])
        return np.stack(out, axis=1)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """A triangle, and a place in it."""
        edges, cumulative = np.asarray(self.edges), np.cumsum(parameters["p"], axis=1)
        u = rng.random(len(units)) * cumulative[units, -1]
        peak = (cumulative[units, :-1] <= u[:, None]).sum(axis=1)
        low, high = edges[np.maximum(peak - 1, 0)], edges[np.minimum(peak + 1, len(edges) - 1)]
        to_the_left = rng.random(len(units)) * (high - low) < edges[peak] - low
        share = 1 - np.sqrt(rng.random(len(units)))
        return np.asarray(edges[peak] + share * np.where(to_the_left, low - edges[peak], high - edges[peak]))
