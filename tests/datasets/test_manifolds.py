"""The manifolds: seeded, standardised, and really the curves they claim to be."""

import numpy as np
import pytest

from flatpc.datasets import MANIFOLDS, fraction_of, manifold, manifold_splits
from flatpc.errors import OptionError


@pytest.mark.parametrize("name", MANIFOLDS)
def test_a_draw_is_standardised_and_repeatable(name):
    rows = manifold(name, 500, seed=3)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), 1, atol=1e-12)
    np.testing.assert_array_equal(rows, manifold(name, 500, seed=3))
    assert not np.array_equal(rows, manifold(name, 500, seed=4))


def raw(name, n=4000, seed=0):
    return MANIFOLDS[name](n, np.random.default_rng(seed))


def test_moons_lie_on_two_half_circles():
    x, y = raw("two_moons").T
    upper, lower = np.hypot(x, y) - 1, np.hypot(x - 1, y - 0.5) - 1
    distance = np.where(abs(upper) < abs(lower), upper, lower)
    assert 0.03 < distance.std() < 0.06


def test_spiral_has_radius_twice_its_angle():
    x, y = raw("spiral").T
    radius = np.hypot(x, y)
    far = radius > 2
    turn = np.arctan2(y, x)[far] - radius[far] / 2
    # two arms, half a turn apart
    off = (turn + np.pi / 2) % np.pi - np.pi / 2
    assert abs(off).max() < 0.4
    # angle 2π √U: the square of the radius is uniform
    np.testing.assert_allclose(np.quantile(radius**2, [0.25, 0.5, 0.75]) / (4 * np.pi) ** 2, [0.25, 0.5, 0.75], atol=0.03)


def test_pinwheel_has_five_arms():
    x, y = raw("pinwheel").T
    assert np.hypot(x, y).mean() == pytest.approx(1, abs=0.03)
    arm = np.angle(np.exp(5j * np.arctan2(y, x)))
    assert abs(np.exp(1j * arm).mean()) == pytest.approx(np.exp(-0.5), abs=0.03)  # angular noise 0.2, five times


def test_helix():
    t, y, z = raw("helix").T
    assert abs(np.hypot(y, z) - 1).mean() < 0.06
    assert t.min() > -0.3
    assert t.max() < 6 * np.pi + 0.3


@pytest.mark.parametrize(("name", "shift"), [("interlocked_circles", 1.0), ("twisted_eight", 2.0)])
def test_circles_are_orthogonal_and_shifted(name, shift):
    x, y, z = raw(name).T
    first = np.hypot(np.hypot(x, y) - 1, z)
    second = np.hypot(np.hypot(x - shift, z) - 1, y)
    assert np.minimum(first, second).mean() < 0.2
    assert 0.4 < np.mean(first < second) < 0.6


def test_knotted_and_lissajous_lie_near_their_curves():
    t = np.linspace(-np.pi, np.pi, 2000)
    curves = {
        "knotted": np.stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), np.sin(3 * t)], axis=1),
        "bent_lissajous": np.stack([np.sin(2 * t), np.cos(t), np.cos(2 * t)], axis=1),
    }
    for name, curve in curves.items():
        rows = raw(name, 300)
        distance = np.sqrt(((rows[:, None] - curve) ** 2).sum(axis=2)).min(axis=1)
        assert 0.05 < distance.mean() < 0.2


def test_splits_and_fractions():
    splits = manifold_splits("spiral", seed=1, fraction=0.05)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (50, 1000, 1000)
    np.testing.assert_array_equal(splits.train, manifold_splits("spiral", seed=1).train[:50])
    assert len(fraction_of(np.arange(100), 0.29)) == 29
    assert len(fraction_of(np.arange(10), 0.01)) == 1
    some = fraction_of(np.arange(100), 0.2, how="random", seed=5)
    assert len(set(some)) == 20
    np.testing.assert_array_equal(some, fraction_of(np.arange(100), 0.2, how="random", seed=5))


@pytest.mark.parametrize("call", [
    lambda: manifold("torus", 10),
    lambda: manifold("helix", 1),
    lambda: fraction_of(np.arange(3), 0.0),
    lambda: fraction_of(np.arange(3), 1.5),
    lambda: fraction_of(np.arange(3), 0.5, how="last"),
])  # fmt: skip
def test_options_out_of_range(call):
    with pytest.raises(OptionError):
        call()
