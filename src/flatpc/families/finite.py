"""What families over finitely many values share: a table of probabilities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import entr

from flatpc._typing import Array
from flatpc.families.base import Family, Parameters, Statistics, home, masked


class Finite(Family):
    """A family over 0, ..., n-1, seen as a table of probabilities `[K, n]`.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import flatpc as fp
    >>> @dataclass(frozen=True)
    ... class Die(fp.families.Finite):
    ...     names = ("six",)
    ...     n_categories = 6
    ...
    ...     def table(self, parameters):
    ...         six = parameters["six"][:, None]
    ...         return np.concatenate([np.repeat((1 - six) / 5, 5, axis=1), six], axis=1)
    >>> circuit = fp.Circuit([fp.Input(0, Die())], {0: {"six": [0.5]}})
    >>> np.exp(circuit.log_prob([[0], [5]])).round(6).tolist()
    [0.1, 0.5]

    A subclass defines `n_categories` and `table`, and is evaluated by native code on both engines; to be learnt it defines
    `update` (and for Adam and SGD `unconstrain`, `constrain`, `gradient`) from the one statistic `counts [K, n]`. It doesn't
    change `log_density` or `statistics`: if it did, engines would ask these in place of the table.
    """

    statistic_names: ClassVar[tuple[str, ...]] = ("counts",)

    @property
    def is_table(self) -> bool:
        """True, as long as density and statistics are the table's."""
        return all(home(type(self), name) is Finite for name in ("log_density", "statistics"))

    @property
    def is_free_table(self) -> bool:
        """Whether `from_table` says that any table will do, and no subclass has changed what is made of it."""
        homes = {home(type(self), name) for name in ("table", "from_table", "update")}
        return self.is_table and len(homes) == 1

    @property
    def size(self) -> int:
        """`n_categories`, which is not None here."""
        n = self.n_categories
        if n is None:
            raise self.lacks("n_categories")
        return n

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """One count for each unit and value."""
        return {"counts": (width, self.size)}

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Looked up; 0 where x is NaN."""
        value, seen = masked(x)
        with np.errstate(divide="ignore"):
            log_table = np.log(self.table(parameters))
        return np.where(seen[:, None], log_table[:, value.astype(np.int64)].T, 0.0)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """`{"counts": [K, n]}`."""
        value, seen = masked(x)
        code = value.astype(np.int64)[seen]
        counts = csr_array((np.ones(len(code)), code, np.arange(len(code) + 1)), shape=(len(code), self.size)).T @ flow[seen]
        return {"counts": np.ascontiguousarray(counts.T)}

    def count(self, statistics: Statistics) -> Array:
        """The sum of all counts."""
        return np.asarray(statistics["counts"].sum(axis=1))

    def mode(self, parameters: Parameters) -> Array:
        """The first of the most probable values."""
        return np.asarray(self.table(parameters).argmax(axis=1), dtype=np.float64)

    def mean(self, parameters: Parameters) -> Array:
        """Of the values as numbers."""
        table = self.table(parameters)
        return np.asarray(table @ np.arange(table.shape[1], dtype=np.float64))

    def variance(self, parameters: Parameters) -> Array:
        """Of the values as numbers."""
        table = self.table(parameters)
        deviation = np.arange(table.shape[1]) - self.mean(parameters)[:, None]
        return np.asarray((table * deviation**2).sum(axis=1))

    def entropy(self, parameters: Parameters) -> Array:
        """Of the table."""
        return np.asarray(entr(self.table(parameters)).sum(axis=1))

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """Sums of the table."""
        below = np.concatenate([np.zeros((len(self._cumulative(parameters)), 1)), self._cumulative(parameters)], axis=1)
        return np.asarray(below[:, np.clip(np.floor(x) + 1, 0, self.size).astype(np.int64)].T)

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """From sums of the table."""
        cumulative = self._cumulative(parameters)
        return np.asarray((cumulative[None, :, :-1] < np.asarray(q)[:, None, None]).sum(axis=2), dtype=np.float64)

    def _cumulative(self, parameters: Parameters) -> Array:
        return np.cumsum(self.table(parameters), axis=1)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """By sums of the table."""
        cumulative = self._cumulative(parameters)
        u = rng.random(len(units)) * cumulative[units, -1]
        return np.asarray((cumulative[units, :-1] <= u[:, None]).sum(axis=1), dtype=np.float64)

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Whatever is not one of the whole numbers."""
        value, seen = masked(x)
        return np.asarray(seen & ((value < 0) | (value >= self.size) | (value != np.floor(value))))

    def support(self) -> str:
        """The values in words."""
        return "0 and 1" if self.size == 2 else f"the whole numbers 0 to {self.size - 1}"
