"""Numbers sorted into bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from flatpc._typing import Array
from flatpc.families.base import Parameters, Statistics, masked
from flatpc.families.pieces import Pieces


@dataclass(frozen=True)
class Histogram(Pieces):
    """A density that is constant between edges. Parameters of a unit: `p [K, n]`, the probability of each of the n bins.

    A bin has its left edge, the last one both. A pseudocount in EM is spread evenly over the bins.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> unit = {"p": np.array([[0.5, 0.5]])}
    >>> np.exp(fp.Histogram((0.0, 1.0, 3.0)).log_density(unit, np.array([0.5, 2.0])))[:, 0].tolist()
    [0.5, 0.25]

    Parameters
    ----------
    edges
        Where bins begin and end, in ascending order.

    Raises
    ------
    OptionError
        If `edges` are not two or more finite numbers in ascending order.
    """

    def _bin(self, x: Array) -> NDArray[np.int64]:
        at = np.searchsorted(self.edges, x, side="right") - 1
        return np.asarray(np.clip(at, 0, self.n_pieces - 1), np.int64)

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the bin that x is in, by its width; 0 where x is NaN."""
        value, seen = masked(x)
        with np.errstate(divide="ignore"):
            heights = np.log(parameters["p"]) - np.log(np.diff(self.edges))
        log_p = np.where(self.outside(value)[:, None], -np.inf, heights[:, self._bin(value)].T)
        return np.where(seen[:, None], log_p, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow in each bin."""
        value, seen = masked(x)
        inside = seen & ~self.outside(value)
        counts = np.zeros((self.n_pieces, flow.shape[1]))
        np.add.at(counts, self._bin(value)[inside], flow[inside])
        return {"counts": counts.T.copy()}

    def log_between(self, parameters: Parameters, start: Array, end: Array) -> Array:
        """Of the parts of bins inside."""
        return self._log_between(parameters, self._masses(start, end))

    def statistics_between(self, parameters: Parameters, start: Array, end: Array, flow: Array) -> Statistics:
        """The expected flow of each bin."""
        return self._statistics_between(parameters, self._masses(start, end), flow)

    def _masses(self, start: Array, end: Array) -> Array:
        """The share of each bin's width."""
        edges = np.asarray(self.edges)
        inside = np.minimum(end[:, None], edges[1:]) - np.maximum(start[:, None], edges[:-1])
        return np.asarray(np.maximum(inside, 0.0) / np.diff(edges))

    def mode(self, parameters: Parameters) -> Array:
        """The middle of the highest bin."""
        edges = np.asarray(self.edges)
        middle = (edges[1:] + edges[:-1]) / 2
        return np.asarray(middle[np.argmax(parameters["p"] / np.diff(edges), axis=1)])

    def mean(self, parameters: Parameters) -> Array:
        """Of the middles."""
        edges = np.asarray(self.edges)
        return np.asarray(parameters["p"] @ ((edges[1:] + edges[:-1]) / 2))

    def variance(self, parameters: Parameters) -> Array:
        """Of the middles, and inside the bins."""
        edges = np.asarray(self.edges)
        deviation = (edges[1:] + edges[:-1]) / 2 - self.mean(parameters)[:, None]
        return np.asarray((parameters["p"] * (deviation**2 + np.diff(edges) ** 2 / 12)).sum(axis=1))

    def entropy(self, parameters: Parameters) -> Array:
        """Of the bins, and the expected logarithm of their width."""
        p = parameters["p"]
        return np.asarray(entr(p).sum(axis=1) + p @ np.log(np.diff(self.edges)))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Linear inside the bins."""
        return np.stack([np.interp(x, self.edges, np.concatenate([[0.0], np.cumsum(p)])) for p in parameters["p"]], axis=1)

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """Its inverse: no place in a bin without probability, but for its left edge."""
        q, edges, out = np.asarray(q, np.float64), np.asarray(self.edges), []
        for p in parameters["p"]:
            kept, up_to = np.flatnonzero(p > 0), np.cumsum(p)
            at = kept[np.minimum(np.searchsorted(up_to[kept], q, side="left"), len(kept) - 1)]
            share = np.clip((q - (up_to[at] - p[at])) / p[at], 0.0, 1.0)
            out.append(edges[at] + share * (edges[at + 1] - edges[at]))
        return np.stack(out, axis=1)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """A bin, and a place in it."""
        edges, cumulative = np.asarray(self.edges), np.cumsum(parameters["p"], axis=1)
        u = rng.random(len(units)) * cumulative[units, -1]
        chosen = (cumulative[units, :-1] <= u[:, None]).sum(axis=1)
        return np.asarray(edges[chosen] + (edges[chosen + 1] - edges[chosen]) * rng.random(len(units)))
