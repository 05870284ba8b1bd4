"""Many variables and many values: trees within bounded memory, in a process of its own."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import DataError, TooLargeError
from flatpc.search import choose
from flatpc.structures.trees import mutual_information
from tests.hostile.tally import how_many
from tests.peak_memory import GIB, peak_memory

START = "import numpy as np, flatpc as fp\nrng = np.random.default_rng(0)\n"


@pytest.mark.parametrize(
    "code",
    [
        f"fp.structures.hclt(rng.integers(0, 2, (100, {how_many(3_000, 16_000)})), n_latents=4)",
        "fp.structures.hclt(rng.integers(0, 10_000, (20_000, 3)), n_latents=4, family='categorical')",
        "fp.structures.chow_liu(rng.integers(0, 5_000, (20_000, 3)))",
        f"fp.structures.hclt(rng.integers(0, 256, (500, {how_many(60, 784)})), n_latents=4, family='categorical')",
        f"fp.structures.chow_liu(rng.integers(0, 256, (500, {how_many(60, 784)})))",
        f"fp.structures.hclt(rng.integers(0, 256, (5_000, {how_many(100, 3_072)})), 4, family=fp.Categorical(256), bins=32)",
    ],
)
def test_trees_take_less_than_two_gigabytes(code):
    assert peak_memory(START + code) < 2 * GIB


def test_tables_that_would_not_fit_are_refused_with_their_size():
    X = np.random.default_rng(0).integers(0, 10_000, (50, 3)).astype(float)
    with pytest.raises(TooLargeError, match=r"would have .* probabilities.* Merge rare values"):
        fp.structures.chow_liu(X, family=fp.Categorical(10_000))
    with pytest.raises(DataError, match="Column 'x1' has 1,000,000,001 values"):
        fp.structures.chow_liu([[0, 1e9]])


def test_the_estimator_falls_back_to_structures_that_fit_and_says_so(monkeypatch):
    monkeypatch.setattr(mutual_information, "MAX_VARIABLES", 5)
    X = np.random.default_rng(0).integers(0, 2, (40, 6))
    density = fp.CircuitDensity(verbose=False).fit(X)
    assert "left out, for want of memory: Chow-Liu tree, " in density.summary_
    assert "hidden Chow-Liu tree" in density.summary_
    assert {candidate.structure for candidate in density.candidates_} == {"factorized", "mixture"}
    assert np.isfinite(density.score(X))
    with pytest.raises(TooLargeError, match="6 variables, and a tree is learnt of 5"):
        fp.CircuitDensity(structure="hclt", verbose=False).fit(X)


def test_wide_variables_are_chosen_for_without_a_state_for_each_value():
    X = np.random.default_rng(0).integers(0, 3_000, (60, 3))
    choice = choose(X, family=fp.Categorical(3_000), effort=1.0, progress=False)
    assert np.isfinite(choice.valid_nll)
    assert max(outcome.options.get("n_latents", 1) for outcome in choice.candidates) <= 48
