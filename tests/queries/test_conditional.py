"""The distribution of one variable given others: what may be asked of it, and the errors of what may not."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError


@pytest.fixture(scope="module")
def given():
    units = {"mean": np.array([0.0, 4.0]), "variance": np.ones(2)}
    circuit = fp.Circuit([fp.Input(0, fp.Gaussian(), 2), fp.Sum((0,))], {0: units, 1: np.array([[0.5, 0.5]])})
    return fp.queries.conditional(circuit, np.full((3, 1), np.nan), variable=0)


@pytest.mark.parametrize("q", [1.5, -0.5, np.nan, "a", None, [0.5]])
def test_only_probabilities_have_quantiles(given, q):
    with pytest.raises(OptionError, match="probability, from 0 to 1") as caught:
        given.quantile(q)
    assert caught.value.option == "q"


@pytest.mark.parametrize("x", [np.zeros(2), np.zeros((3, 1)), np.zeros(0), "a", ["a", "b", "c"], [[1.0], [1.0, 2.0]], None, {}])
@pytest.mark.parametrize("ask", ["log_density", "cdf"])
def test_values_are_one_for_each_row(given, ask, x):
    with pytest.raises(OptionError, match="one number for each of 3 rows") as caught:
        getattr(given, ask)(x)
    assert caught.value.option == "x"


@pytest.mark.parametrize("x", [2, 2.0, [2.0], [2, 2, 2], np.full(3, 2.0)])
def test_lists_and_single_numbers_are_values(given, x):
    np.testing.assert_allclose(given.cdf(x), np.full(3, 0.5), rtol=0, atol=1e-15)
    np.testing.assert_allclose(given.log_density(x), np.full(3, -2 - 0.5 * np.log(2 * np.pi)), rtol=1e-14)


@pytest.mark.filterwarnings("error")
def test_units_without_a_share_have_no_say():
    """The other variables rule the second cluster out, in whose midst the value is."""
    units = {"mean": np.array([0.0, 100.0]), "variance": np.ones(2)}
    pair = [fp.Input(0, fp.Gaussian(), 2), fp.Input(1, fp.Gaussian(), 2), fp.Product((0, 1)), fp.Sum((2,))]
    circuit = fp.Circuit(pair, {0: units, 1: units, 3: np.array([[0.5, 0.5]])})
    given = fp.queries.conditional(circuit, [[np.nan, 0.0]], variable=0)
    np.testing.assert_allclose(given.log_density(90.0), -4050 - 0.5 * np.log(2 * np.pi), rtol=1e-14)
