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


def of_two_units(family, parameters):
    """What is known of a variable without evidence, by two units of a family that are as likely."""
    circuit = fp.Circuit([fp.Input(0, family, 2), fp.Sum((0,))], {0: parameters, 1: np.array([[0.5, 0.5]])})
    return fp.queries.conditional(circuit, np.full((2, 1), np.nan), variable=0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("family", [fp.Gaussian(), fp.LogNormal()])
def test_quantiles_are_atoms_where_the_cdf_jumps(family):
    """40% zeros and 10% ones, of two units that hold them in other shares."""
    shares = np.array([[0.8, 0.0, 0.2], [0.0, 0.2, 0.8]])
    units = {"shares": shares, "mean": np.array([1.0, 3.0]), "variance": np.array([1.0, 0.5])}
    found = of_two_units(fp.Hurdle((0.0, 1.0), family), units)
    zero, one = (found.cdf(np.nextafter(atom, -1))[0] for atom in (0.0, 1.0))
    for q in np.linspace(zero + 1e-6, zero + 0.4 - 1e-6, 9):
        np.testing.assert_array_equal(found.quantile(q), [0.0, 0.0])
    for q in np.linspace(one + 1e-6, one + 0.1 - 1e-6, 5):
        np.testing.assert_array_equal(found.quantile(q), [1.0, 1.0])
    some = np.linspace(0.0, 1.0, 101)
    quantiles = np.array([found.quantile(q)[0] for q in some])
    assert (np.diff(quantiles) >= 0).all()
    for q, x in zip(some[1:-1], quantiles[1:-1], strict=True):
        assert found.cdf(x)[0] >= q - 1e-12
        assert found.cdf(x - 1e-9)[0] < q + 1e-7


@pytest.mark.filterwarnings("error")
def test_quantiles_of_0_and_1_are_the_ends():
    normal = {"mean": np.array([0.0, 4.0]), "variance": np.ones(2)}
    hurdle = {"shares": np.array([[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]), **normal}
    below = {"shares": np.array([[0.5, 0.5], [0.5, 0.5]]), "mean": np.array([1.0, 2.0])}
    beta = {"a": np.array([2.0, 3.0]), "b": np.array([2.0, 2.0])}
    table = {"p": np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])}
    cases = [
        (fp.Gaussian(), normal, -np.inf, np.inf),
        (fp.LogNormal(), normal, 0.0, np.inf),
        (fp.Hurdle((-1.0, 2.0), fp.LogNormal()), hurdle, -1.0, np.inf),
        (fp.Hurdle((-1.0,), fp.Exponential()), below, -1.0, np.inf),
        (fp.Beta(), beta, 0.0, 1.0),
        (fp.Hurdle((2.0,), fp.Beta()), {"shares": below["shares"], **beta}, 0.0, 2.0),
        (fp.Categorical(3), table, 0.0, 1.0),
    ]
    for family, units, low, high in cases:
        found = of_two_units(family, units)
        np.testing.assert_array_equal([found.quantile(0.0)[0], found.quantile(1.0)[0]], [low, high], err_msg=str(family))
