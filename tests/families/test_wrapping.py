"""Families that are made of others: which they take, and what they say of those that they don't."""

import pytest

import flatpc as fp
from flatpc.errors import OptionError


@pytest.mark.parametrize("wrap", [
    lambda family: fp.Hurdle((0.0,), family), lambda family: fp.Discretized(family, 0.5), lambda family: fp.Transformed(family),
    lambda family: fp.Cyclic(family),
], ids=["hurdle", "discretized", "transformed", "cyclic"])  # fmt: skip
@pytest.mark.parametrize(("family", "why"), [
    (fp.MultivariateGaussian(2), "over 2 variables; give one over a single"),
    (fp.Hurdle((0.0,), fp.Gaussian()), "has atoms"),
])  # fmt: skip
def test_families_that_cannot_be_wrapped_are_refused(wrap, family, why):
    with pytest.raises(OptionError, match=why) as caught:
        wrap(family)
    assert caught.value.option == "family"


@pytest.mark.parametrize(
    ("family", "why"), [(fp.Poisson(), "discrete"), (fp.Discretized(fp.Gaussian(), 1.0), "discrete"), (fp.Cyclic(), "has cycles")]
)
def test_cycles_are_of_densities_without_any(family, why):
    with pytest.raises(OptionError, match=why):
        fp.Cyclic(family)


@pytest.mark.parametrize("parts", [(), (7, 1), (7.5,), "7", None])
def test_parts_of_cycles_are_several(parts):
    with pytest.raises(OptionError, match="parts"):
        fp.Cyclic(parts=parts)
