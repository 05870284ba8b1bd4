"""`regularizer=`: by name, by options, in lists; what doesn't go together, and bad input."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.learning import ASAM, SAM, Laplace
from flatpc.learning.regularizers.together import NAMES

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
CIRCUIT = fp.structures.hclt(X, 4)


def fit(**options):
    return fp.fit(CIRCUIT, X, **{"epochs": 3, "batch_size": 25, "progress": False, **options}).circuit


def assert_same_bits(a, b):
    for i, value in a.parameters.items():
        np.testing.assert_equal(b.parameters[i], value)


def test_laplace_has_the_numbers_of_pseudocounts():
    assert_same_bits(fit(regularizer=Laplace(0.7)), fit(pseudocount=0.7))
    assert_same_bits(fit(regularizer="laplace"), fit(pseudocount=1.0))
    assert_same_bits(fit(regularizer=Laplace(0.7, on="sums")), fit(pseudocount=0.7, input_pseudocount=0.0))
    assert_same_bits(fit(regularizer=Laplace(0.7, on="inputs")), fit(input_pseudocount=0.7))
    both = [Laplace(0.7, on="inputs"), Laplace(0.2, on="sums")]
    assert_same_bits(fit(regularizer=both), fit(pseudocount=0.2, input_pseudocount=0.7))


def test_sharpness_on_sums_and_laplace_on_inputs():
    sharpness = fp.Sharpness(mu=0.3)
    expected = fit(sharpness=sharpness, input_pseudocount=0.5)
    assert_same_bits(fit(regularizer=(sharpness, Laplace(0.5, on="inputs"))), expected)
    assert_same_bits(fit(regularizer=Laplace(0.5, on="inputs"), sharpness=sharpness), expected)
    assert_same_bits(fit(regularizer="sharpness"), fit(sharpness=fp.Sharpness()))


def test_sam_by_name():
    options = {"method": "sgd", "step_size": 0.01}
    assert_same_bits(fit(regularizer="sam", **options), fit(regularizer=SAM(), **options))
    assert_same_bits(fit(regularizer=["asam"], **options), fit(regularizer=ASAM(), **options))
    assert not np.array_equal(fit(regularizer="sam", **options).log_prob(X), fit(**options).log_prob(X))


def test_every_name_has_default_options():
    assert all(NAMES[name] is type(NAMES[name]()) for name in NAMES)
    assert_same_bits(fit(regularizer=None), fit(regularizer=[]))


@pytest.mark.parametrize(("options", "words"), [
    ({"regularizer": "l2"}, "asam, .*laplace"),
    ({"regularizer": 0.1}, "its name, or a list"),
    ({"regularizer": Laplace}, r"an instance, such as fp.learning.Laplace\(\)"),
    ({"regularizer": [Laplace(), None]}, "list"),
    ({"regularizer": [Laplace(), "laplace"]}, "Two Laplace"),
    ({"regularizer": [Laplace(on="sums"), Laplace(on="all")]}, "Two Laplace"),
    ({"regularizer": Laplace(), "pseudocount": 1.0}, "given twice"),
    ({"regularizer": Laplace(), "input_pseudocount": 1.0}, "given twice"),
    ({"regularizer": fp.Sharpness(), "sharpness": fp.Sharpness()}, "given twice"),
    ({"regularizer": [fp.Sharpness(), fp.Sharpness(mu=1.0)]}, "can't be combined"),
    ({"regularizer": [SAM(), ASAM()], "method": "adam"}, "ASAM and SAM can't be combined: both say where"),
    ({"regularizer": Laplace(), "method": "adam"}, "Laplace changes the M-step"),
    ({"regularizer": ASAM()}, "gradient learning"),
    ({"regularizer": fp.Sharpness(mu="adaptive"), "method": "adam"}, "valid"),
    ({"regularizer": fp.Sharpness(mu="adaptive")}, "mean-flow"),
])  # fmt: skip
def test_what_does_not_go(options, words):
    with pytest.raises(OptionError, match=words):
        fit(**options)


@pytest.mark.parametrize("make", [
    lambda: Laplace(-1.0),
    lambda: Laplace(float("nan")),
    lambda: Laplace("much"),
    lambda: Laplace(1.0, on="edges"),
])  # fmt: skip
def test_parts_out_of_range(make):
    with pytest.raises(OptionError, match=r"Laplace.*(choose|counts)"):
        make()
