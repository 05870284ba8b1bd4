"""Numbers that depend on one another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from flatpc._options import number, put, several, whole_number, wrong
from flatpc._typing import Array
from flatpc.errors import ParameterError
from flatpc.families import factor_analysis as factors
from flatpc.families import normal_blocks as normal
from flatpc.families import normal_boxes as boxes
from flatpc.families import normal_derivatives as by_entries
from flatpc.families.base import LARGEST_EXPONENT, Family, Parameters, Statistics
from flatpc.families.gaussian import Gaussian
from flatpc.families.initialize import clusters_of_rows
from flatpc.families.transforms import Transform

MOST_VARIABLES = 1024
_SYMMETRY = 1e-8
"""How far a covariance may be from symmetric, in units of standard deviations."""
_LEAST_ABOVE = 0.01
"""Of the floors: how far above them unconstrained numbers begin."""


@dataclass(frozen=True)
class MultivariateGaussian(Family):
    """Normal density over several variables. Parameters of a unit: `mean [K, d]`, `covariance [K, d, d]`.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> units = {"mean": np.zeros((1, 2)), "covariance": np.array([[[1.0, 0.5], [0.5, 1.0]]])}
    >>> pair = fp.Circuit([fp.Input(variables=(0, 1), family=fp.MultivariateGaussian(2))], {0: units})
    >>> pair.expectation([[2.0, np.nan]]).tolist()
    [[2.0, 1.0]]

    Marginals, conditionals, samples and completions given some of the variables are exact; EM with unknown entries takes their
    means and covariances given the known ones. There is no closed form of its cdf; that of each variable alone is its
    `marginal_family`'s.

    Parameters
    ----------
    n_variables
        How many variables, 2 or more; for one there is `fp.Gaussian`.
    min_variance
        Learning keeps the variance in every direction at this or more; 0.0001 by default. One number for each variable is a
        floor for each, and in directions between them accordingly.
    rank
        None for any covariance, with d (d + 1) / 2 numbers. Otherwise covariances are `loadings · loadingsᵀ + diag(noise)`, with
        the parameters `loadings [K, d, rank]` and `noise [K, d]` in place of `covariance`: as in factor analysis, for many
        variables and few rows.
    pooled
        Rows' worth of the units' common covariance, that of rows around their own units' means, which EM joins with each unit's
        own: many units can then be learnt from few rows. None for none: the largest likelihood.

    Raises
    ------
    OptionError
        Unless there are 2 to 1,024 variables, floors are positive and finite, and the rank is below the number of variables.
    """

    n_variables: int = field()  # type: ignore[misc]
    min_variance: float | tuple[float, ...] | None = None
    rank: int | None = None
    pooled: float | None = None
    statistic_names: ClassVar[tuple[str, ...]] = ("count", "deviation", "squares")
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        d = whole_number("MultivariateGaussian: n_variables", self.n_variables, 2, MOST_VARIABLES)
        put(self, n_variables=d, min_variance=_floor(self.min_variance, d))
        if self.rank is not None:
            put(self, rank=whole_number("MultivariateGaussian: rank", self.rank, 1, d - 1))
        if self.pooled is not None:
            put(self, pooled=number("MultivariateGaussian: pooled", self.pooled, 0.0, what="it is a number of rows"))

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The mean; the covariance or, of low rank, what it is made of."""
        return ("mean", "covariance") if self.rank is None else ("mean", "loadings", "noise")

    def covariance(self, parameters: Parameters) -> Array:
        """The covariance of each unit.

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K, d, d]`.
        """
        if self.rank is None:
            return np.asarray(parameters["covariance"])
        return factors.covariance(parameters["loadings"], parameters["noise"])

    @property
    def floors(self) -> Array:
        """`[d]`: the least variance of each variable."""
        return np.broadcast_to(np.asarray(self.min_variance, np.float64), (self.n_variables,))

    @property
    def n_redundant(self) -> int:
        """Covariances, which are written twice; of loadings, which can be turned, as many as a rotation has."""
        d = self.n_variables if self.rank is None else self.rank
        return d * (d - 1) // 2

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`mean [width, d]`, and `covariance [width, d, d]` or `loadings [width, d, rank]` and `noise [width, d]`."""
        d = self.n_variables
        if self.rank is None:
            return {"mean": (width, d), "covariance": (width, d, d)}
        return {"mean": (width, d), "loadings": (width, d, self.rank), "noise": (width, d)}

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """`count [width]`, `deviation [width, d]`, `squares [width, d, d]`."""
        d = self.n_variables
        return {"count": (width,), "deviation": (width, d), "squares": (width, d, d)}

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Finite means; covariances symmetric and positive definite."""
        if not np.isfinite(parameters["mean"]).all():
            raise ParameterError(f"{where}: every mean must be a finite number.")
        if self.rank is not None:
            if not np.isfinite(parameters["loadings"]).all():
                raise ParameterError(f"{where}: every loading must be a finite number.")
            if not (np.isfinite(parameters["noise"]) & (parameters["noise"] > 0)).all():
                raise ParameterError(f"{where}: every noise is a variance, and must be finite and positive.")
            self._check_definite(self.covariance(parameters), where, "raise its noise")
            return
        covariance = parameters["covariance"]
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        if not np.isfinite(covariance).all() or (variance <= 0).any():
            raise ParameterError(f"{where}: covariances must be finite, and variances positive.")
        deviation = np.sqrt(variance)
        uneven = abs(covariance - normal.transposed(covariance)) / deviation[:, :, None] / deviation[:, None, :]
        if (uneven > _SYMMETRY).any():
            raise ParameterError(f"{where}: the covariance of unit {int(uneven.max(axis=(1, 2)).argmax())} is not symmetric.")
        self._check_definite(covariance, where, "add a small number to its diagonal")

    def _check_definite(self, covariance: Array, where: str, remedy: str) -> None:
        for unit, each in enumerate(covariance):
            try:
                np.linalg.cholesky(each)
            except np.linalg.LinAlgError:
                raise ParameterError(f"{where}: the covariance of unit {unit} is not positive definite; {remedy}.") from None

    # ---- of several variables ---------------------------------------------------------------------------------------

    def marginal_family(self, position: int) -> Gaussian:
        """A Gaussian with the variable's floor."""
        return Gaussian(min_variance=float(self.floors[position]))

    def marginal_parameters(self, parameters: Parameters, position: int) -> dict[str, Array]:
        """Its mean and its place on the diagonal."""
        return {"mean": parameters["mean"][:, position].copy(), "variance": self.variance(parameters)[:, position].copy()}

    def sample_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array, rng: np.random.Generator) -> Array:
        """Normal noise around the means given the known entries."""
        out, whole = x.copy(), self.covariance(parameters)
        for unit in np.unique(units):
            mine = np.flatnonzero(units == unit)
            mean, covariance = parameters["mean"][unit : unit + 1], whole[unit : unit + 1]
            for rows, known, deviation, rest in normal.filled(mean, covariance, x[mine]):
                if known.all():
                    continue
                noise = rng.standard_normal((len(rows), int((~known).sum()))) @ normal.cholesky(rest[0]).T
                out[np.ix_(mine[rows], ~known)] = mean[0, ~known] + deviation[0][:, ~known] + noise
        return out

    def mode_given(self, parameters: Parameters, units: NDArray[np.int64], x: Array) -> Array:
        """The means given the known entries."""
        out, whole = x.copy(), self.covariance(parameters)
        for unit in np.unique(units):
            mine = np.flatnonzero(units == unit)
            mean, covariance = parameters["mean"][unit : unit + 1], whole[unit : unit + 1]
            for rows, known, deviation, _ in normal.filled(mean, covariance, x[mine]):
                out[np.ix_(mine[rows], ~known)] = mean[0, ~known] + deviation[0][:, ~known]
        return out

    def log_density_at_mode(self, parameters: Parameters, x: Array) -> Array:
        """That of the known entries, and of the others at their means."""
        out, covariance = self.log_density(parameters, x), self.covariance(parameters)
        for rows, known in normal.patterns(x):
            if not known.all():
                _, log_det = normal.whitening(normal.conditional(covariance, known)[1])
                out[rows] -= 0.5 * (log_det + int((~known).sum()) * math.log(2 * math.pi))
        return out

    def moments_given(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """Means and variances given the known entries."""
        mean, covariance = parameters["mean"], self.covariance(parameters)
        means = np.empty((len(x), *mean.shape))
        variances = np.zeros(means.shape)
        for rows, known, deviation, rest in normal.filled(mean, covariance, x):
            means[rows] = np.swapaxes(deviation, 0, 1) + mean
            means[np.ix_(rows, np.arange(len(mean)), known)] = x[np.ix_(rows, known)][:, None]
            unknown = np.flatnonzero(~known)
            variances[np.ix_(rows, np.arange(len(mean)), unknown)] = np.diagonal(rest, axis1=-2, axis2=-1)
        return means, variances

    def behind(self, transforms: Sequence[Transform | None]) -> Family:
        """A Gaussian with maps in front."""
        from flatpc.families.mapped_gaussian import MappedGaussian

        return MappedGaussian.of(self, tuple(transforms))

    def entry_given(self, parameters: Parameters, x: Array, position: int) -> tuple[Family, dict[str, Array]]:
        """A Gaussian with the moments given the known entries."""
        others = x.copy()
        others[:, position] = np.nan
        mean, variance = (found[:, :, position] for found in self.moments_given(parameters, others))
        return self.marginal_family(position), {"mean": mean, "variance": variance}

    def box_log_prob(self, parameters: Parameters, x: Array, low: Array, high: Array) -> Array:
        """Of bounds of one entry exact; of two, three and more to about 1e-6, 1e-4 and 1e-3 of 1."""
        mean, covariance, bounded, others = parameters["mean"], self.covariance(parameters), *_without(x, low, high)
        out = self.log_density(parameters, others)
        for rows, known, deviation, rest in normal.filled(mean, covariance, others) if bounded.any() else ():
            within = bounded[~known]
            for k in range(len(mean)):
                middle = mean[k, bounded] + deviation[k][:, bounded]
                found = boxes.mass(middle, rest[k][np.ix_(within, within)], low[bounded], high[bounded])
                with np.errstate(divide="ignore"):
                    out[rows, k] += np.log(found)
        return out

    def sample_in_box(
        self, parameters: Parameters, units: NDArray[np.int64], x: Array, low: Array, high: Array, rng: np.random.Generator
    ) -> Array:
        """Bounded entries given the known ones; then the others given both."""
        whole, bounded, out = self.covariance(parameters), *_without(x, low, high)
        for unit in np.unique(units) if bounded.any() else ():
            mine = np.flatnonzero(units == unit)
            mean, covariance = parameters["mean"][unit : unit + 1], whole[unit : unit + 1]
            for rows, known, deviation, rest in normal.filled(mean, covariance, out[mine]):
                within, middle = bounded[~known], mean[0, bounded] + deviation[0][:, bounded]
                found = boxes.drawn(middle, rest[0][np.ix_(within, within)], low[bounded], high[bounded], rng)
                out[np.ix_(mine[rows], bounded)] = found
        return self.sample_given(parameters, units, out, rng)

    # ---- where learning starts --------------------------------------------------------------------------------------

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Standard normal means; variances of 1, and no covariances, or small random loadings."""
        mean = rng.standard_normal((width, self.n_variables))
        if self.rank is not None:
            loadings = 0.3 * rng.standard_normal((width, self.n_variables, self.rank))
            return {"mean": mean, "loadings": loadings, "noise": np.maximum(np.ones(mean.shape), self.floors)}
        return {"mean": mean, "covariance": self._within(np.tile(np.eye(self.n_variables), (width, 1, 1)))}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Clusters of the rows, by k-means."""
        self.initialize(width, rng, spread)  # so that later draws are those of a start without rows
        mean, covariance = clusters_of_rows(x, width, rng)
        if self.rank is not None:
            loadings, noise = factors.principal(self._within(covariance), self.rank, self.floors)
            return {"mean": mean, "loadings": loadings, "noise": noise}
        return {"mean": mean, "covariance": self._within(covariance)}

    # ---- density and EM ---------------------------------------------------------------------------------------------

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """Of the known entries of each row; 0 where there are none."""
        return normal.log_density(parameters["mean"], self.covariance(parameters), x)

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """Flow, deviations from the mean, and their products, expected given the known entries."""
        count, first, second = normal.moments(parameters["mean"], self.covariance(parameters), x, flow)
        return {"count": count, "deviation": first, "squares": second}

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Mean and covariance of the rows; of low rank, a few steps towards it."""
        shift, squares, seen = _averages(statistics)
        own = self._joined(squares - _outer(shift), statistics["count"])
        if self.rank is not None:
            loadings, noise = parameters["loadings"].copy(), parameters["noise"].copy()
            average = own[seen]
            loadings[seen], noise[seen] = factors.improved(loadings[seen], noise[seen], average, self.floors)
            return {"mean": parameters["mean"] + shift, "loadings": loadings, "noise": noise}
        return {
            "mean": parameters["mean"] + shift,
            "covariance": np.where(seen[:, None, None], self._within(own), parameters["covariance"]),
        }

    def in_batch(self, share: float) -> Self:
        """With this share of the pooled rows."""
        return self if self.pooled is None or share == 1 else replace(self, pooled=self.pooled * share)

    def _joined(self, covariance: Array, count: Array) -> Array:
        """Covariances of units with `pooled` rows more that have the average one."""
        if not self.pooled or not count.sum() > 0:
            return covariance
        common = np.einsum("k,kij->ij", count / count.sum(), covariance)
        keep = (count / (count + self.pooled))[:, None, None]
        return np.asarray(keep * covariance + (1 - keep) * common)

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The average of first and second moments; of low rank, average loadings, and in the noise what they leave open."""
        once, twice = np.reshape(step, (-1, 1)), np.reshape(step, (-1, 1, 1))
        shift = new["mean"] - old["mean"]
        if self.rank is not None:
            turn = new["loadings"] - old["loadings"]
            apart = shift**2 + (turn**2).sum(axis=2)
            noise = (1 - once) * old["noise"] + once * new["noise"] + once * (1 - once) * apart
            return {"mean": old["mean"] + once * shift, "loadings": old["loadings"] + twice * turn, "noise": noise}
        covariance = (1 - twice) * old["covariance"] + twice * new["covariance"] + twice * (1 - twice) * _outer(shift)
        return {"mean": old["mean"] + once * shift, "covariance": self._within(covariance)}

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Deviations from the new mean, and their products."""
        shift, count, first = new["mean"] - old["mean"], statistics["count"], statistics["deviation"]
        across = shift[:, :, None] * first[:, None, :]
        squares = statistics["squares"] - across - normal.transposed(across) + count[:, None, None] * _outer(shift)
        return {"count": count, "deviation": first - count[:, None] * shift, "squares": squares}

    def _within(self, covariance: Array) -> Array:
        """The nearest covariances whose variances are allowed: smaller ones, in units of the floors, are raised to them."""
        unit = np.sqrt(self.floors)
        scaled = (covariance + normal.transposed(covariance)) / (2 * unit[:, None] * unit)
        values, vectors = np.linalg.eigh(scaled)
        low = values[:, 0] < 1
        if low.any():
            raised = (vectors[low] * np.maximum(values[low], 1)[:, None, :]) @ normal.transposed(vectors[low])
            scaled[low] = (raised + normal.transposed(raised)) / 2
        tight = values[:, -1] * normal.least_share(self.n_variables) > np.maximum(values[:, 0], 1)
        if tight.any():
            scaled[tight] = normal.definite(scaled[tight])
        return np.asarray(scaled * unit[:, None] * unit)

    # ---- gradients --------------------------------------------------------------------------------------------------

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """The mean itself; with covariance = floors + L Lᵀ the lower triangle L, its diagonal as logarithms.

        Of low rank: loadings themselves, and z with noise = floors + exp(2 z).
        """
        if self.rank is not None:
            above = np.maximum(parameters["noise"] - self.floors, _LEAST_ABOVE * self.floors)
            return {"mean": parameters["mean"], "loadings": parameters["loadings"], "noise": np.log(above) / 2}
        factor = self._above(parameters["covariance"])
        diagonal = np.arange(self.n_variables)
        factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
        return {"mean": parameters["mean"], "covariance": factor}

    def _above(self, covariance: Array) -> Array:
        """L with L Lᵀ = covariance - floors, of which no direction is 0."""
        unit = np.sqrt(self.floors)
        values, vectors = np.linalg.eigh(covariance / (unit[:, None] * unit) - np.eye(self.n_variables))
        above = (vectors * np.maximum(values, _LEAST_ABOVE)[:, None, :]) @ normal.transposed(vectors)
        tight = values[:, -1] * normal.least_share(self.n_variables) > np.maximum(values[:, 0], _LEAST_ABOVE)
        if tight.any():
            above[tight] = normal.definite(above[tight])
        return np.asarray(unit[:, None] * normal.cholesky(above))

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again."""
        if self.rank is not None:
            noise = self.floors + np.exp(np.minimum(2 * free["noise"], LARGEST_EXPONENT))
            return {"mean": free["mean"], "loadings": np.clip(free["loadings"], -1e150, 1e150), "noise": noise}
        factor = np.clip(np.tril(free["covariance"]), -1e150, 1e150)
        diagonal = np.arange(self.n_variables)
        factor[:, diagonal, diagonal] = np.exp(np.minimum(factor[:, diagonal, diagonal], LARGEST_EXPONENT / 2))
        return {"mean": free["mean"], "covariance": factor @ normal.transposed(factor) + np.diag(self.floors)}

    def reached(self, parameters: Parameters) -> dict[str, NDArray[np.bool_]]:
        """All but covariances with a direction at the floors, and noise there."""
        found: dict[str, NDArray[np.bool_]] = {name: np.ones(len(value), np.bool_) for name, value in parameters.items()}
        if self.rank is not None:
            found["noise"] = np.all(parameters["noise"] - self.floors >= _LEAST_ABOVE * self.floors, axis=1)
            return found
        unit = np.sqrt(self.floors)
        least = np.linalg.eigvalsh(parameters["covariance"] / (unit[:, None] * unit))[:, 0]
        found["covariance"] = least >= 1 + _LEAST_ABOVE
        return found

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule; with unknown entries too, as expected statistics have the gradient of what is known."""
        covariance = self.covariance(parameters)
        inverse = np.linalg.inv(covariance)
        mean = (inverse @ statistics["deviation"][:, :, None])[:, :, 0]
        spare = inverse @ (statistics["squares"] - statistics["count"][:, None, None] * covariance) @ inverse
        if self.rank is not None:
            noise = np.diagonal(spare, axis1=1, axis2=2) * (parameters["noise"] - self.floors)
            return {"mean": mean, "loadings": spare @ parameters["loadings"], "noise": noise}
        factor = self._above(covariance)
        pull = np.tril(spare @ factor)
        diagonal = np.arange(self.n_variables)
        pull[:, diagonal, diagonal] *= factor[:, diagonal, diagonal]
        return {"mean": mean, "covariance": pull}

    def scores(self, parameters: Parameters, x: Array) -> Array:
        """In closed form, of the known entries."""
        covariance = self.covariance(parameters)
        shapes = self.parameter_shapes(len(covariance))
        found: dict[str, Array] = {name: np.zeros((len(x), *shape)) for name, shape in shapes.items()}
        diagonal = np.arange(self.n_variables)
        factor = None if self.rank is not None else self._above(covariance)
        for rows, u, inverse in by_entries.solved(parameters["mean"], covariance, x):
            found["mean"][rows] = u
            across = parameters["loadings"] if factor is None else factor
            pull = u[:, :, :, None] * np.einsum("nki,kij->nkj", u, across)[:, :, None, :] - inverse @ across
            if factor is None:
                found["loadings"][rows] = pull
                spare = u**2 - np.diagonal(inverse, axis1=1, axis2=2)
                found["noise"][rows] = spare * (parameters["noise"] - self.floors)
            else:
                pull[:, :, diagonal, diagonal] *= factor[:, diagonal, diagonal]
                found["covariance"][rows] = np.tril(pull)
        return np.concatenate([each.reshape(*each.shape[:2], -1) for each in found.values()], axis=2)

    def bends(self, parameters: Parameters, x: Array, flow: Array) -> Array:
        """In closed form, of the known entries."""
        covariance = self.covariance(parameters)
        motions = [self._motion(parameters, k) for k in range(len(covariance))]
        out = np.zeros((len(motions), *2 * (self.n_variables + len(motions[0][0]),)))
        for W, F, e, U in by_entries.sums(parameters["mean"], covariance, x, flow):
            for k, (moved, bend) in enumerate(motions):
                out[k] += by_entries.second(moved, bend, W[k], F[k], e[k], U[k])
        return out

    def information(self, parameters: Parameters) -> Array:
        """Fisher's, in closed form."""
        inverse = np.linalg.inv(self.covariance(parameters))
        return np.stack([by_entries.information(self._motion(parameters, k)[0], W) for k, W in enumerate(inverse)])

    def log_prior(self, parameters: Parameters, statistics: Statistics) -> tuple[Array, Array] | None:
        """`pooled` rows with the units' common covariance, which is held still."""
        count = statistics["count"]
        if not self.pooled or not count.sum() > 0:
            return None
        shift, squares, _ = _averages(statistics)
        common = np.einsum("k,kij->ij", count / count.sum(), squares - _outer(shift))
        covariance = self.covariance(parameters)
        inverse, none, width = np.linalg.inv(covariance), np.zeros(self.n_variables), len(count)
        n = np.full(width, self.pooled)
        stated = {"count": n, "deviation": np.zeros((width, self.n_variables)), "squares": n[:, None, None] * common}
        slope = self.gradient(parameters, stated)
        bend = [
            by_entries.second(*self._motion(parameters, k), W, self.pooled, none, self.pooled * W @ common @ W, of_mean=0.0)
            for k, W in enumerate(inverse)
        ]
        return np.concatenate([np.reshape(each, (width, -1)) for each in slope.values()], axis=1), np.stack(bend)

    def _motion(self, parameters: Parameters, unit: int) -> tuple[Array, by_entries.Bend]:
        """How a unit's covariance moves with its unconstrained numbers."""
        if self.rank is not None:
            return by_entries.by_loadings(parameters["loadings"][unit], parameters["noise"][unit] - self.floors)
        return by_entries.by_triangle(self._above(parameters["covariance"][unit : unit + 1])[0])

    # ---- answers ----------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """The mean."""
        return np.asarray(parameters["mean"])

    def mean(self, parameters: Parameters) -> Array:
        """The parameter."""
        return np.asarray(parameters["mean"])

    def variance(self, parameters: Parameters) -> Array:
        """The diagonal of the covariance."""
        return np.diagonal(self.covariance(parameters), axis1=-2, axis2=-1).copy()

    def entropy(self, parameters: Parameters) -> Array:
        """(d log(2πe) + log det S) / 2."""
        _, log_det = normal.whitening(self.covariance(parameters))
        return np.asarray((self.n_variables * (1 + math.log(2 * math.pi)) + log_det) / 2)

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Normal noise, scaled and shifted."""
        return self.sample_given(parameters, units, np.full((len(units), self.n_variables), np.nan), rng)

    def rescaled(
        self, parameters: Parameters, shift: float | Array, scale: float | Array
    ) -> tuple[MultivariateGaussian, dict[str, Array]]:
        """One shift and scale for each variable; covariances and floors by products of scales."""
        by = np.broadcast_to(np.asarray(scale, np.float64), (self.n_variables,))
        family = replace(self, min_variance=tuple(float(floor) for floor in self.floors * by**2))
        mean = shift + by * parameters["mean"]
        if self.rank is not None:
            return family, {"mean": mean, "loadings": by[:, None] * parameters["loadings"], "noise": by**2 * parameters["noise"]}
        return family, {"mean": mean, "covariance": parameters["covariance"] * (by[:, None] * by)}

    @property
    def floor(self) -> float | None:
        """The lowest of the floors."""
        return float(self.floors.min())

    @property
    def chosen_floor(self) -> float:
        """`floor` unless it is the default."""
        return 0.0 if self.min_variance == Gaussian.min_variance else float(self.floors.min())

    def with_floor(self, floor: float) -> MultivariateGaussian:
        """With `min_variance=floor`."""
        return replace(self, min_variance=floor)

    def with_floors(self, floors: Sequence[float]) -> MultivariateGaussian:
        """With one for each variable."""
        return replace(self, min_variance=tuple(floors))

    def with_lower_floor(self, share: float) -> MultivariateGaussian:
        """With a share of each variable's."""
        return replace(self, min_variance=tuple(float(each) for each in share * self.floors))

    # ---- torch ------------------------------------------------------------------------------------------------------

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """The same, for rows of which all have the same known entries."""
        import torch

        known = ~x[0, 0, 0].isnan()
        if self.rank is None:
            whole = parameters["covariance"]
        else:
            loadings = parameters["loadings"]
            whole = loadings @ loadings.transpose(-1, -2) + torch.diag_embed(parameters["noise"])
        mean, covariance = parameters["mean"][..., known], whole[..., known, :][..., known]
        try:
            factor = torch.linalg.cholesky(covariance)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            raise normal.indefinite() from None

        def squares(deviation: Any) -> Any:
            below = deviation.movedim(1, -1)[:, None]  # [n, 1, K, d, B]
            return (torch.linalg.solve_triangular(factor, below, upper=False)[:, 0] ** 2).sum(-2).movedim(-1, 1)

        deviation = x[..., known] - mean
        # As for one variable: where squares overflow the density is 0, and its derivative must not be inf · 0.
        far = ~squares(deviation.detach()).detach().isfinite()
        square = squares(torch.where(far[..., None], 0.0, deviation))
        log_det = 2 * torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)
        return torch.where(far, -torch.inf, -0.5 * (square + log_det + int(known.sum()) * math.log(2 * math.pi)))


def _floor(given: Any, d: int) -> float | tuple[float, ...]:
    """One floor for all variables, or one for each where they differ."""
    name, what = "MultivariateGaussian: min_variance", "the variance floor is positive and finite, or one such for each variable"
    if given is None:
        return Gaussian.min_variance
    if isinstance(given, tuple | list | np.ndarray) and np.ndim(given) == 1:
        floors = tuple(number(name, each, 0.0, above=True, what=what) for each in several(name, given, what))
        if len(floors) != d:
            raise wrong(name, given, f"give one number, or one for each of {d} variables.")
        return floors[0] if len(set(floors)) == 1 else floors
    return number(name, given, 0.0, above=True, what=what)


def _averages(statistics: Statistics) -> tuple[Array, Array, NDArray[np.bool_]]:
    """First and second moments of deviations, 0 where there is no flow, and where there is."""
    count = statistics["count"]
    seen = count > 0
    share = np.divide(1.0, count, out=np.zeros_like(count), where=seen)
    return statistics["deviation"] * share[:, None], statistics["squares"] * share[:, None, None], seen


def _without(x: Array, low: Array, high: Array) -> tuple[NDArray[np.bool_], Array]:
    """Which entries have a bound, `[d]`; and rows in which these are unknown."""
    bounded = np.isfinite(low) | np.isfinite(high)
    return bounded, np.where(bounded, np.nan, x)


def _outer(a: Array) -> Array:
    return a[:, :, None] * a[:, None, :]
