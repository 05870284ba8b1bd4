"""`regularizer=`: by name, by options, in lists; what doesn't go together, and bad input."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.learning import ASAM, SAM, Laplace
from flatpc.learning.regularizers.registry import read_one

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
CIRCUIT = fp.structures.hclt(X, 4)


def fit(**options):
    return fp.fit(CIRCUIT, X, **{"epochs": 3, "batch_size": 25, "progress": False, **options}).circuit


def assert_same_bits(a, b):
    for i, value in a.parameters.items():
        np.testing.assert_equal(b.parameters[i], value)


def test_laplace_adds_its_counts_to_what_it_is_on():
    assert_same_bits(fit(regularizer="laplace"), fit(regularizer=Laplace(1.0)))
    assert_same_bits(fit(regularizer=Laplace(0.7)), fit(regularizer=[Laplace(0.7, on="sums"), Laplace(0.7, on="inputs")]))
    assert_same_bits(fit(regularizer=Laplace(0.0)), fit())
    # By hand: one full step from the flows of the start.
    step = {"method": fp.EM(step_size=1.0), "epochs": 1, "batch_size": None}
    flows = CIRCUIT.flows(X)
    for on, counts in (("sums", (0.7, 0.0)), ("inputs", (0.0, 0.7))):
        found = fit(regularizer=Laplace(0.7, on=on), **step)
        for i, F in flows.sums.items():
            expected = (F + counts[0] / F.shape[1]) / (F.sum(axis=1, keepdims=True) + counts[0])
            np.testing.assert_allclose(found.parameters[i], expected, rtol=1e-5)
        for i, statistics in flows.inputs.items():
            F = statistics["counts"]
            expected = (F[:, 1] + counts[1] / 2) / (F.sum(axis=1) + counts[1])
            np.testing.assert_allclose(found.parameters[i]["p"], expected, rtol=1e-5)


def test_sharpness_on_sums_and_laplace_on_inputs():
    sharpness = fp.Sharpness(mu=0.3)
    expected = fit(sharpness=sharpness, regularizer=[Laplace(0.5, on="inputs")])
    assert_same_bits(fit(regularizer=(sharpness, Laplace(0.5, on="inputs"))), expected)
    assert_same_bits(fit(regularizer=Laplace(0.5, on="inputs"), sharpness=sharpness), expected)
    assert_same_bits(fit(regularizer="sharpness"), fit(sharpness=fp.Sharpness()))


def test_sam_by_name():
    options = {"method": fp.SGD(step_size=0.01)}
    assert_same_bits(fit(regularizer="sam", **options), fit(regularizer=SAM(), **options))
    assert_same_bits(fit(regularizer=["asam"], **options), fit(regularizer=ASAM(), **options))
    assert not np.array_equal(fit(regularizer="sam", **options).log_prob(X), fit(**options).log_prob(X))


def test_every_name_has_default_options():
    named = {type(read_one(name)).__name__ for name in fp.learning.regularizer_names()}
    built_in = {
        "ASAM",
        "SAM",
        "Dropout",
        "Entropy",
        "HyperWeights",
        "Laplace",
        "PruneGrow",
        "Sharpness",
        "Softening",
        "WeightedTrace",
    }
    assert built_in <= named
    assert_same_bits(fit(regularizer=None), fit(regularizer=[]))


@pytest.mark.parametrize(("options", "words"), [
    ({"regularizer": "l2"}, "asam, .*laplace"),
    ({"regularizer": 0.1}, "its name, or a list"),
    ({"regularizer": Laplace}, r"an instance, such as fp.learning.Laplace\(\)"),
    ({"regularizer": [Laplace(), None]}, "list"),
    ({"regularizer": [Laplace(), "laplace"]}, "both are for the same units"),
    ({"regularizer": [Laplace(on="sums"), Laplace(on="all")]}, "both are for the same units"),
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
