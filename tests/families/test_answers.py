"""Modes, quantiles and samples at the edges of what a family has."""

import numpy as np

import flatpc as fp


def test_quantiles_of_a_histogram_pass_over_empty_bins():
    family, unit = fp.Histogram((0.0, 1.0, 2.0, 3.0)), {"p": np.array([[0.5, 0.0, 0.5], [0.0, 0.25, 0.75], [0.2, 0.8, 0.0]])}
    found = family.quantile(unit, np.array([0.0, 0.25, 0.5, 0.75, 0.9, 1.0]))
    wanted = [
        [0.0, 0.5, 1.0, 2.5, 2.8, 3.0],
        [1.0, 2.0, 7 / 3, 8 / 3, 2 + 13 / 15, 3.0],
        [0.0, 1.0625, 1.375, 1.6875, 1.875, 2.0],
    ]
    np.testing.assert_allclose(found, np.transpose(wanted), rtol=0, atol=1e-15)


def test_samples_in_a_range_leave_empty_bins_empty():
    circuit = fp.Circuit([fp.Input(0, fp.Histogram((0.0, 1.0, 2.0, 3.0)))], {0: {"p": np.array([[0.5, 0.0, 0.5]])}})
    drawn = fp.queries.sample_given_events(circuit, 500, events={0: (1.5, 3.0)}, seed=0)
    assert drawn.min() >= 2
    assert np.isfinite(circuit.log_prob(drawn)).all()
