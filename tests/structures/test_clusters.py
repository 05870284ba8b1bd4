"""Clusters that units start from."""

import numpy as np

from flatpc.structures.clusters import cluster_weights


def test_one_row_very_far_from_the_others_is_no_reason_to_warn():
    rows = np.random.default_rng(0).normal(size=(100, 1))
    rows[0] = 1e12
    weights = cluster_weights(rows, 12, 0)
    assert (weights > 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
