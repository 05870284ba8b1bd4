"""Where learning ends, and that it ends there on every engine."""

import numpy as np
import pytest

import flatpc as fp


@pytest.mark.parametrize("size", [0.1, 2.0])
def test_em_of_a_negative_binomial_stays_where_the_likelihood_is_largest(size):
    family, rng = fp.NegativeBinomial(), np.random.default_rng(0)
    x = rng.negative_binomial(size, 0.3, 500).astype(float)
    unit, one = family.initialize(1, rng, "uniform"), np.ones((500, 1))
    for _ in range(400):
        unit = family.update(unit, family.statistics(unit, x, one))
    slopes = family.gradient(unit, family.statistics(unit, x, one))
    np.testing.assert_allclose(np.concatenate([slopes["rate"], slopes["size"]]), 0.0, atol=1e-5)
