"""Categories in order: a logistic number, cut into pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, logit

from flatpc._options import as_float, ascending, put, several, wrong
from flatpc._typing import Array
from flatpc.errors import OptionError, ParameterError
from flatpc.families.base import LARGEST_EXPONENT, Cost, Family, Parameters, Statistics, masked
from flatpc.families.finite import Finite
from flatpc.families.initialize import k_means

NARROWEST, WIDEST = 20.0, 600.0
"""In units of the least scale that learning allows: the narrowest gap between cuts, and the most that all gaps may be together.

The first keeps 1e-4 of a unit's probability outside of its value. The second goes first: no probability is below exp(-650)."""
FARTHEST = 20.0
"""Learning keeps locations within so many scales of the outer cuts."""
FLATTEST = 1e4
"""The largest scale that learning allows, in units of the distance of the outer cuts."""
SMALLEST = 1e-300
"""Probabilities in a table are this or more, whatever the parameters are."""
STEPS, HALVINGS, ENOUGH = 60, 30, 1e-12
"""Newton steps; how often one is halved; and by how much of a nat per count the last one has to promise to be followed."""
LARGEST = 1e150
"""Standardised cuts are no farther from 0, so that their squares are numbers."""
RIDGE = 1e-12
"""Added to the information, which has no inverse where nothing tells the scale."""


@dataclass(frozen=True)
class Ordinal(Finite):
    """Categories in order: P(x ≤ j) = σ((cuts[j] - location) / scale). Parameters of a unit: `location [K]`, `scale [K]`.

    This is the ordered logit, with σ(z) = 1 / (1 + exp(-z)): a logistic number of which is known between which cuts it lies. All
    units share the cuts, so that each takes two numbers, however many values there are.

    >>> import flatpc as fp
    >>> import numpy as np
    >>> grades = fp.Ordinal((-1.0, 0.0, 1.0))
    >>> grades.table({"location": np.array([0.0, 2.0]), "scale": np.array([1.0, 0.5])}).round(3).tolist()
    [[0.269, 0.231, 0.231, 0.269], [0.002, 0.016, 0.101, 0.881]]

    Learning keeps every scale at 1/20 of the narrowest gap between cuts or more, and at 1/600 of the distance of the outer cuts
    or more: no value becomes impossible.

    Parameters
    ----------
    cuts
        Where one value ends and the next begins, in ascending order: one cut less than there are values.

    Raises
    ------
    OptionError
        If `cuts` are not one or more finite numbers in ascending order.
    """

    cuts: tuple[float, ...] = (0.0,)
    names: ClassVar[tuple[str, ...]] = ("location", "scale")
    cost: ClassVar[Cost] = Cost(update=1e5)

    def __post_init__(self) -> None:
        cuts = ascending("Ordinal: cuts", self.cuts, 1)
        if not math.isfinite(cuts[-1] - cuts[0]):
            raise wrong("Ordinal: cuts", self.cuts, "give numbers whose distance is finite.")
        put(self, cuts=cuts)

    @classmethod
    def of_shares(cls, shares: Sequence[float] | Array) -> Ordinal:
        """The family in which a unit of location 0 and scale 1 gives each value its share.

        >>> import flatpc as fp
        >>> import numpy as np
        >>> family = fp.Ordinal.of_shares([0.5, 0.3, 0.2])
        >>> family.table({"location": np.zeros(1), "scale": np.ones(1)}).round(12).tolist()
        [[0.5, 0.3, 0.2]]

        Parameters
        ----------
        shares
            Of each value, in order; or counts, which are divided by their sum.

        Returns
        -------
        Ordinal
            Its cuts are the log-odds of the cumulative shares.

        Raises
        ------
        OptionError
            If `shares` are not two or more positive numbers, or one is too small beside the others to be told from 0.
        """
        name, give = "Ordinal.of_shares: shares", "give two or more positive finite numbers"
        found = np.array([as_float(each) for each in several(name, shares, give.removeprefix("give "))])
        if len(found) < 2 or not (np.isfinite(found) & (found > 0)).all():
            raise wrong(name, shares, f"{give}.")
        found = found / found.max()
        cuts = np.log(np.cumsum(found)[:-1]) - np.log(np.cumsum(found[::-1])[-2::-1])
        if not (np.diff(cuts) > 0).all():
            raise wrong(name, shares, "give numbers that can be told from 0 beside the others.")
        return cls(tuple(cuts.tolist()))

    @classmethod
    def for_parameters(cls, values: Sequence[Any]) -> Family:
        """None: location and scale don't tell the cuts."""
        raise OptionError("'ordinal' leaves open where its cuts are; give fp.Ordinal(cuts=...) instead.")

    @property
    def n_categories(self) -> int:
        """One more than there are cuts."""
        return len(self.cuts) + 1

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Finite locations and positive scales."""
        for name, value in parameters.items():
            if not (np.isfinite(value) & ((value > 0) | (name == "location"))).all():
                kind = "a finite number" if name == "location" else "finite and positive"
                raise ParameterError(f"{where}: every {name} must be {kind}.")

    # ---- the table ------------------------------------------------------------------------------------------------------

    def table(self, parameters: Parameters) -> Array:
        """σ(b) - σ(a) = σ(b) σ(-a) (1 - exp(a - b)), b and a being the cuts above and below, which has all its digits."""
        z, width = self._standardized(parameters)
        one = np.ones((len(z), 1))
        below, above = np.concatenate([expit(z), one], axis=1), np.concatenate([one, expit(-z)], axis=1)
        inside = np.concatenate([one, -np.expm1(-width), one], axis=1)
        return np.asarray(np.maximum(below * above * inside, SMALLEST))

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """The same."""
        import torch

        location, scale = parameters["location"][..., None], parameters["scale"][..., None]
        cuts = torch.tensor(self.cuts, dtype=location.dtype, device=location.device)
        z, width = (cuts - location) / scale, cuts.diff() / scale
        one = torch.ones_like(location)
        below, above = torch.cat([torch.sigmoid(z), one], dim=-1), torch.cat([one, torch.sigmoid(-z)], dim=-1)
        inside = torch.cat([one, -torch.expm1(-width), one], dim=-1)
        return (below * above * inside).clamp(min=SMALLEST)

    def _standardized(self, parameters: Parameters) -> tuple[Array, Array]:
        """`[K, n-1]` cuts in units of the scale, from the location on; `[K, n-2]` gaps between them."""
        location, scale = np.asarray(parameters["location"])[:, None], np.asarray(parameters["scale"])[:, None]
        cuts = np.asarray(self.cuts)
        with np.errstate(over="ignore"):
            return np.clip((cuts - location) / scale, -LARGEST, LARGEST), np.clip(np.diff(cuts) / scale, SMALLEST, WIDEST)

    # ---- starts ---------------------------------------------------------------------------------------------------------

    @property
    def _centre(self) -> float:
        """The middle of the outer cuts."""
        return self.cuts[0] + (self.cuts[-1] - self.cuts[0]) / 2

    @property
    def _unit(self) -> float:
        """The distance of the outer cuts; 1 if there is one cut alone."""
        return max(self.cuts[-1] - self.cuts[0], SMALLEST) if len(self.cuts) > 1 else 1.0

    @property
    def _usual_scale(self) -> float:
        """At which both ends have the share that they have among equally likely values."""
        return self._unit / (2 * math.log(len(self.cuts))) if len(self.cuts) > 1 else 1.0

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Normal locations around the middle of the cuts; one scale."""
        scale = self._usual_scale
        return {"location": self._centre + 1.5 * scale * rng.standard_normal(width), "scale": np.full(width, scale)}

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Clusters, by k-means, of numbers that a unit fitted to all values may have had before they were cut."""
        code = masked(x)[0].astype(np.int64)[~np.isnan(x)]
        if len(code) == 0:
            return self.initialize(width, rng, spread)
        start = {"location": np.array([self._centre]), "scale": np.array([self._usual_scale])}
        whole = self.update(start, {"counts": np.bincount(code, minlength=self.size)[None].astype(np.float64)})
        share = self.table(whole)[0]
        q = (np.cumsum(share) - share)[code] + share[code] * rng.random(len(code))
        uncut = whole["location"] + whole["scale"] * logit(np.clip(q, 1e-9, 1 - 1e-9))
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        mean, variance = k_means(np.clip(uncut, ends[code], ends[code + 1]), width, rng)
        scale = np.maximum(np.sqrt(3 * variance) / np.pi, self._usual_scale / 8)
        return self._of_natural(*self._bounded(*self._natural({"location": mean, "scale": scale})))

    # ---- learning -------------------------------------------------------------------------------------------------------

    # In α = (location - centre) / scale and β = unit / scale, with cuts c in units from the centre, z = c β - α and
    #
    #     log P(j) = log σ(z_{j+1}) + log σ(-z_j) + log(1 - exp(-(c_{j+1} - c_j) β)),
    #
    # each term of which is concave: likelihoods have one maximum, and are at least as large between two points as at the worse.

    @property
    def _cuts(self) -> Array:
        return (np.asarray(self.cuts) - self._centre) / self._unit

    @property
    def _steepest(self) -> float:
        """The largest β."""
        gaps = np.diff(self._cuts)
        return NARROWEST / max(float(gaps.min()), NARROWEST / WIDEST) if len(gaps) else NARROWEST

    @property
    def _least_scale(self) -> float:
        return self._unit / self._steepest

    def _natural(self, parameters: Parameters) -> tuple[Array, Array]:
        """α and β."""
        scale = np.asarray(parameters["scale"])
        with np.errstate(over="ignore"):
            return (np.asarray(parameters["location"]) - self._centre) / scale, self._unit / scale

    def _of_natural(self, alpha: Array, beta: Array) -> dict[str, Array]:
        """Back again."""
        scale = self._unit / beta
        return {"location": self._centre + alpha * scale, "scale": scale}

    def _bounded(self, alpha: Array, beta: Array) -> tuple[Array, Array]:
        """The same within what learning allows, which is convex."""
        cuts = self._cuts
        beta = np.clip(beta, 1 / FLATTEST, self._steepest)
        return np.clip(alpha, cuts[0] * beta - FARTHEST, cuts[-1] * beta + FARTHEST), beta

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """The maximum of the likelihood within the bounds, by Newton's method; `pseudocount` is spread evenly over the values."""
        counts = np.maximum(statistics["counts"], 0.0) + pseudocount / self.size
        total = counts.sum(axis=1)
        seen = total > 0
        found = {name: np.array(value, dtype=np.float64) for name, value in parameters.items()}
        if seen.any():
            units = {name: value[seen] for name, value in found.items()}
            for name, value in self._of_natural(*self._fitted(units, counts[seen] / total[seen, None])).items():
                found[name][seen] = value
        return found

    def _fitted(self, start: Parameters, shares: Array) -> tuple[Array, Array]:
        """α and β where the likelihood is largest: steps that are halved until none is downhill."""
        cuts, low, high = self._cuts, 1 / FLATTEST, self._steepest
        gaps = np.diff(cuts)
        left, right, inner = shares[:, :-1], shares[:, 1:], shares[:, 1:-1]

        def value(alpha: Array, beta: Array) -> Array:
            z = cuts * beta[:, None] - alpha[:, None]
            barrier = np.log(-np.expm1(-gaps * beta[:, None]))
            return np.asarray((left * log_expit(z) + right * log_expit(-z)).sum(axis=1) + (inner * barrier).sum(axis=1))

        alpha, beta = self._bounded(*self._natural(start))
        best = value(alpha, beta)
        guess = self._bounded(*self._guessed(shares))
        guessed = value(*guess)
        nearer = guessed > best
        alpha, beta, best = np.where(nearer, guess[0], alpha), np.where(nearer, guess[1], beta), np.maximum(guessed, best)
        for _ in range(STEPS):
            z, width = cuts * beta[:, None] - alpha[:, None], gaps * beta[:, None]
            p, rest = expit(z), expit(-z)
            pull = left * rest - right * p
            slope_a = -pull.sum(axis=1)
            slope_b = pull @ cuts + (inner * gaps * np.exp(-width) / -np.expm1(-width)).sum(axis=1)
            bend = (left + right) * p * rest
            aa, ab, bb = bend.sum(axis=1) + RIDGE, -(bend @ cuts), bend @ cuts**2 + RIDGE
            bb = bb + (inner * gaps**2 * np.exp(-width) / np.expm1(-width) ** 2).sum(axis=1)
            # The best β within its bounds, and the best α beside it.
            move_b = (slope_b - ab / aa * slope_a) / np.maximum(bb - ab**2 / aa, RIDGE)
            move_b = np.clip(beta + move_b, np.maximum(beta / 8, low), np.minimum(8 * beta, high)) - beta
            move_a = (slope_a - ab * move_b) / aa
            goal_a, goal_b = self._bounded(alpha + move_a, beta + move_b)
            move_a, move_b = goal_a - alpha, goal_b - beta
            last = abs(slope_a * move_a) + abs(slope_b * move_b) <= ENOUGH
            step = np.ones_like(beta)
            for _ in range(HALVINGS):
                now = value(alpha + step * move_a, beta + step * move_b)
                better = now >= best
                if (better | last).all():
                    break
                step = np.where(better, step, step / 2)
            alpha, beta = np.where(better, alpha + step * move_a, alpha), np.where(better, beta + step * move_b, beta)
            best = np.where(better, now, best)
            if (~better | last).all():
                break
        return self._bounded(alpha, beta)

    def _guessed(self, shares: Array) -> tuple[Array, Array]:
        """By least squares: the log-odds of cumulative shares are nearly c β - α."""
        cuts, few = self._cuts, 0.01 / shares.shape[1]
        up_to = np.cumsum(shares + few, axis=1)
        odds = logit(np.clip(up_to[:, :-1] / up_to[:, -1:], 1e-9, 1 - 1e-9))
        deviation = cuts - cuts.mean()
        usual = self._unit / self._usual_scale
        slope = odds @ deviation / (deviation @ deviation) if len(cuts) > 1 else np.full(len(odds), usual)
        beta = np.maximum(slope, usual / 8)
        return beta * cuts.mean() - odds.mean(axis=1), beta

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """The average of location / scale and of 1 / scale, in which the likelihood is concave."""
        alpha, beta = (
            (1 - step) * a + step * b for a, b in zip(self._natural(old), self._natural(new), strict=True)
        )  # fmt: skip
        return self._of_natural(alpha, beta)

    # ---- gradients ------------------------------------------------------------------------------------------------------

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """The location itself; z with scale = least + exp(z)."""
        least = self._least_scale
        above = np.maximum(parameters["scale"] - least, 0.01 * least)
        return {"location": parameters["location"], "scale": np.log(above)}

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Back again, with locations near enough to the cuts."""
        scale = self._least_scale + np.exp(np.minimum(free["scale"], LARGEST_EXPONENT))
        return {
            "location": np.clip(free["location"], self.cuts[0] - FARTHEST * scale, self.cuts[-1] + FARTHEST * scale),
            "scale": scale,
        }

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """By the chain rule."""
        first, _ = self._slopes(parameters)
        found = np.einsum("kn,knq->kq", statistics["counts"], first)
        return {"location": found[:, 0], "scale": found[:, 1]}

    def derivatives(self, parameters: Parameters, x: Array) -> tuple[Array, Array]:
        """Looked up; 0 where x is NaN."""
        value, seen = masked(x)
        code = value.astype(np.int64)
        first, second = (np.moveaxis(each, 0, 1)[code] for each in self._slopes(parameters))
        return first * seen[:, None, None], second * seen[:, None, None, None]

    def _slopes(self, parameters: Parameters) -> tuple[Array, Array]:
        """`[K, n, 2]` and `[K, n, 2, 2]`: derivatives of the log-probability of each value in the unconstrained numbers.

        With b and a the standardised cuts above and below, w = b - a, u = w / (exp(w) - 1) and t = log scale:

            ∂ location = (σ(a) - σ(-b)) / scale,    ∂t = a σ(a) - b σ(-b) - u
        """
        z, width = self._standardized(parameters)
        scale = np.maximum(parameters["scale"], 1 / LARGEST)[:, None]
        none = np.zeros((len(z), 1))
        lower, upper = np.concatenate([none, expit(z)], axis=1), np.concatenate([expit(-z), none], axis=1)  # σ(a), σ(-b)
        a, b = np.concatenate([none, z], axis=1), np.concatenate([z, none], axis=1)
        bend_a, bend_b = lower * np.concatenate([none, expit(-z)], axis=1), upper * np.concatenate([expit(z), none], axis=1)
        u, fall = np.zeros_like(lower), np.zeros_like(lower)
        rest = -np.expm1(-width)
        u[:, 1:-1] = width * np.exp(-width) / rest
        fall[:, 1:-1] = u[:, 1:-1] * (1 - width / rest)  # w ∂u/∂w
        by_location, by_t = (lower - upper) / scale, a * lower - b * upper - u
        twice = -(bend_a + bend_b) / scale / scale
        mixed = -(by_location + (a * bend_a + b * bend_b) / scale)
        twice_t = -(a * lower - b * upper) - a**2 * bend_a - b**2 * bend_b + fall
        part = np.maximum(1 - self._least_scale / scale, 0.0)  # ∂t/∂z
        first = np.stack([by_location, part * by_t], axis=-1)
        corner = part**2 * twice_t + part * (1 - part) * by_t
        second = np.stack([np.stack([twice, part * mixed], axis=-1), np.stack([part * mixed, corner], axis=-1)], axis=-1)
        return first, second
