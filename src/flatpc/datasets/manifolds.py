"""Eight curves in two and three dimensions with noise around them, standardised per dimension.

| name | curve | noise |
|---|---|---|
| `two_moons` | half circles (cos t, sin t) and (1 - cos t, 1/2 - sin t), t in [0, π] | 0.05 |
| `spiral` | two arms ±2a (cos a, sin a), angle a = 2π √U | 0.1 |
| `pinwheel` | 5 arms, radius N(1, 0.3²), turned by the arm and by angular noise of 0.2 | in the arms |
| `helix` | (t, cos t, sin t), t in [0, 6π] | 0.05 |
| `knotted` | (sin t + 2 sin 2t, cos t - 2 cos 2t, sin 3t) | 0.1 |
| `bent_lissajous` | (sin 2t, cos t, cos 2t) | 0.1 |
| `interlocked_circles` | unit circles in orthogonal planes, the second shifted by 1 along x | 0.1 |
| `twisted_eight` | the same, shifted by 2 | 0.1 |

t is uniform, over [-π, π] for the last four.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flatpc._options import MOST, choice, seed_number, whole_number
from flatpc._typing import Array
from flatpc.datasets.splits import Splits

Rng = np.random.Generator

SPLIT_SIZE = 1000


def manifold(name: str, n: int, *, seed: int = 0) -> Array:
    """Rows around a curve in two or three dimensions, each dimension with mean 0 and variance 1.

    >>> import flatpc as fp
    >>> fp.datasets.manifold("helix", 100).shape
    (100, 3)

    Parameters
    ----------
    name
        One of `MANIFOLDS`.
    n
        Number of rows, at least 2.
    seed
        Random seed of the rows.

    Returns
    -------
    array
        `[n, 2]` or `[n, 3]`.

    Raises
    ------
    OptionError
        For an unknown name, or fewer than two rows.
    """
    name, n = choice("name", name, MANIFOLDS), whole_number("n", n, 2, why="as standardising takes two rows")
    rows = MANIFOLDS[name](n, np.random.default_rng(seed_number(seed)))
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def manifold_splits(name: str, *, seed: int = 0, fraction: float = 1.0, size: int = SPLIT_SIZE) -> Splits:
    """Train, validation and test rows from one standardised draw of `manifold`.

    >>> import flatpc as fp
    >>> fp.datasets.manifold_splits("two_moons", fraction=0.05).train.shape
    (50, 2)

    Parameters
    ----------
    name
        One of `MANIFOLDS`.
    seed
        Random seed of the rows.
    fraction
        Share of the training rows to keep, the first ones.
    size
        Number of rows of each split.

    Returns
    -------
    Splits
        `train`, `valid` and `test`.

    Raises
    ------
    OptionError
        For an unknown name, or an option out of its range.
    """
    size = whole_number("size", size, 1, MOST // 3)
    rows = manifold(name, 3 * size, seed=seed)
    return Splits(name, rows[:size], rows[size : 2 * size], rows[2 * size :]).fraction(fraction)


def _noisy(rng: Rng, noise: float, *coordinates: Array) -> Array:
    curve = np.stack(coordinates, axis=1)
    return np.asarray(curve + noise * rng.standard_normal(curve.shape))


def _angle(n: int, rng: Rng) -> Array:
    return rng.uniform(-np.pi, np.pi, n)


def _two_moons(n: int, rng: Rng) -> Array:
    t, second = rng.uniform(0, np.pi, n), _half(n, rng)
    return _noisy(rng, 0.05, np.where(second, 1 - np.cos(t), np.cos(t)), np.where(second, 0.5 - np.sin(t), np.sin(t)))


def _spiral(n: int, rng: Rng) -> Array:
    angle, sign = 2 * np.pi * np.sqrt(rng.random(n)), np.where(_half(n, rng), -1.0, 1.0)
    return _noisy(rng, 0.1, sign * 2 * angle * np.cos(angle), sign * 2 * angle * np.sin(angle))


def _pinwheel(n: int, rng: Rng) -> Array:
    arm = rng.permutation(np.arange(n) % 5)
    radius = rng.normal(1.0, 0.3, n)
    angle = 2 * np.pi * arm / 5 + rng.normal(0.0, 0.2, n)
    return _noisy(rng, 0.0, radius * np.cos(angle), radius * np.sin(angle))


def _helix(n: int, rng: Rng) -> Array:
    t = rng.uniform(0, 6 * np.pi, n)
    return _noisy(rng, 0.05, t, np.cos(t), np.sin(t))


def _knotted(n: int, rng: Rng) -> Array:
    t = _angle(n, rng)
    return _noisy(rng, 0.1, np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), np.sin(3 * t))


def _bent_lissajous(n: int, rng: Rng) -> Array:
    t = _angle(n, rng)
    return _noisy(rng, 0.1, np.sin(2 * t), np.cos(t), np.cos(2 * t))


def _circles(shift: float) -> Callable[[int, Rng], Array]:
    def draw(n: int, rng: Rng) -> Array:
        t, second = _angle(n, rng), _half(n, rng)
        x = np.cos(t) + np.where(second, shift, 0.0)
        return _noisy(rng, 0.1, x, np.where(second, 0.0, np.sin(t)), np.where(second, np.sin(t), 0.0))

    return draw


def _half(n: int, rng: Rng) -> NDArray[np.bool_]:
    """A random half of the rows, so that any run of them holds both parts of a curve."""
    return np.asarray(rng.permutation(np.arange(n) % 2) == 1)


MANIFOLDS: dict[str, Callable[[int, Rng], Array]] = {
    "two_moons": _two_moons,
    "spiral": _spiral,
    "pinwheel": _pinwheel,
    "helix": _helix,
    "knotted": _knotted,
    "bent_lissajous": _bent_lissajous,
    "interlocked_circles": _circles(1.0),
    "twisted_eight": _circles(2.0),
}
"""Name -> function that draws rows of it; see `manifold`."""
