"""`sample_weight` of `fit`: whole numbers are repeated rows, for every way of learning; and what is refused."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.learning import SAM, Dropout, Entropy, HyperWeights, Laplace, PruneGrow, Softening

RNG = np.random.default_rng(0)
BITS = (RNG.random((40, 5)) < RNG.choice([0.2, 0.8], (40, 1))).astype(float)
NUMBERS = fp.datasets.manifold("spiral", 40)
TIMES = RNG.integers(0, 4, 40)
V = (RNG.random((30, 5)) < 0.5).astype(float)
TREE = fp.structures.hclt(BITS, 4)
CHOW_LIU = fp.structures.chow_liu(BITS, smoothing=1.0)
GRID = fp.structures.rat_spn(2, 1, 3, 3, 3)

WAYS = {
    "em": (TREE, BITS, {}),
    "em, a full step": (TREE, BITS, {"method": fp.EM(1.0)}),
    "em, gaussian": (GRID, NUMBERS, {}),
    "em, laplace": (TREE, BITS, {"regularizer": Laplace(0.7)}),
    "em, sharpness": (TREE, BITS, {"sharpness": fp.Sharpness(mu=0.3, inputs=True)}),
    "em, exact cubic": (TREE, BITS, {"sharpness": fp.Sharpness(mu=0.01, update="cubic", multiplier="exact")}),
    "em, mean flow": (TREE, BITS, {"sharpness": fp.Sharpness(mu="mean-flow", inputs=True)}),
    "em, momentum and anemone": (TREE, BITS, {"method": fp.EM(momentum=0.5, anemone=True), "regularizer": Laplace(0.3)}),
    "em, entropy": (TREE, BITS, {"regularizer": Entropy(0.1, children=True)}),
    "em, softening": (TREE, BITS, {"regularizer": Softening(0.9, toward="marginals")}),
    "em, softening of a deterministic circuit": (CHOW_LIU, BITS, {"regularizer": Softening(0.9, toward="marginals")}),
    "em, dropout of edges": (TREE, BITS, {"regularizer": Dropout(0.0, 0.2)}),
    "em, pruning": (TREE, BITS, {"regularizer": PruneGrow(0.3)}),
    "adam": (GRID, NUMBERS, {"method": "adam"}),
    "adam, sharpness": (GRID, NUMBERS, {"method": "adam", "sharpness": fp.Sharpness(mu=0.1)}),
    "adam, adaptive": (TREE, BITS, {"method": "adam", "sharpness": fp.Sharpness(mu="adaptive"), "valid": V}),
    "adam, released": (TREE, BITS, {"method": "adam", "sharpness": fp.Sharpness(mu="adaptive", rule="released"), "valid": V}),
    "adam, generated weights": (TREE, BITS, {"method": "adam", "regularizer": HyperWeights(2, 3)}),
    "sgd, sam": (GRID, NUMBERS, {"method": fp.SGD(0.01), "regularizer": SAM()}),
}


@pytest.mark.parametrize("name", WAYS)
def test_whole_numbers_are_repeated_rows(name):
    circuit, X, options = WAYS[name]
    common = {"epochs": 4, "batch_size": None, "dtype": "float64", "run": fp.learning.Run(sharpness_every=4), "progress": False}
    weighted = fp.fit(circuit, X, sample_weight=TIMES, **common, **options)
    repeated = fp.fit(circuit, np.repeat(X, TIMES, axis=0), **common, **options)
    plain = fp.fit(circuit, X, **common, **options)
    for column in ("train_nll", "valid_nll", "sharpness", "mu"):
        np.testing.assert_allclose(weighted.history[column], repeated.history[column], rtol=1e-10, atol=1e-12)
    found, expected = weighted.circuit.log_prob(X), repeated.circuit.log_prob(X)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert abs(plain.circuit.log_prob(X) - expected).max() > 1e-4  # weights make a difference


def test_rows_that_float32_can_not_settle_are_weighted_too():
    """Rows so far out that their densities underflow take another way through the engine."""
    X = np.concatenate([NUMBERS, 1e3 + NUMBERS[:3]])
    times = np.concatenate([TIMES, [2, 0, 3]])
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        for method in (fp.EM(), fp.SGD(1e-8)):
            options = {"epochs": 1, "batch_size": None, "dtype": dtype, "method": method, "progress": False}
            weighted = fp.fit(GRID, X, sample_weight=times, **options)
            repeated = fp.fit(GRID, np.repeat(X, times, axis=0), **options)
            np.testing.assert_allclose(weighted.history["train_nll"], repeated.history["train_nll"], rtol=tolerance)
            np.testing.assert_allclose(weighted.circuit.log_prob(X), repeated.circuit.log_prob(X), rtol=tolerance)


def test_batches_count_by_their_weight():
    """Batches of one half: weights of 2 and 1 in place of repeated rows, in the same order."""
    X, times = BITS[:20], np.full(20, 2.0)
    options = {"epochs": 3, "batch_size": 5, "dtype": "float64", "progress": False, "regularizer": Laplace(0.5)}
    twice = fp.fit(TREE, X, sample_weight=times, **options)
    # Counts of 0.5 in data of 40 rows are as many as 0.25 in data of 20.
    once = fp.fit(TREE, X, **{**options, "regularizer": Laplace(0.25)})
    np.testing.assert_allclose(twice.circuit.log_prob(X), once.circuit.log_prob(X), rtol=1e-10)
    np.testing.assert_allclose(twice.history["train_nll"], once.history["train_nll"], rtol=1e-10)


def test_weights_of_one_are_none():
    options = {"epochs": 2, "batch_size": 7, "progress": False}
    same, plain = (fp.fit(TREE, BITS, sample_weight=w, **options).circuit for w in (np.ones(40, int), None))
    np.testing.assert_array_equal(same.log_prob(BITS), plain.log_prob(BITS))


def test_a_checkpoint_knows_its_weights(tmp_path):
    path = tmp_path / "run"
    options = {"batch_size": 7, "progress": False}
    whole = fp.fit(TREE, BITS, sample_weight=TIMES, epochs=4, **options)
    fp.fit(TREE, BITS, sample_weight=TIMES, epochs=2, run=path, **options)
    with pytest.raises(OptionError, match="sample_weight"):
        fp.fit(TREE, BITS, sample_weight=2 * TIMES, epochs=4, run=path, **options)
    resumed = fp.fit(TREE, BITS, sample_weight=TIMES, epochs=4, run=path, **options)
    np.testing.assert_array_equal(resumed.circuit.log_prob(BITS), whole.circuit.log_prob(BITS))


@pytest.mark.parametrize(("weights", "words"), [
    (np.ones(39), "39 numbers"),
    (np.zeros(40), "all weights are zero"),
    (np.full(40, 1e308), "number 0 is 1e[+]308; those above 0 are from"),
    (np.full(40, 1e-30), "number 0 is 1e-30"),
    (np.where(np.arange(40) == 3, -1.0, 1.0), "number 3 is -1"),
    (np.where(np.arange(40) == 5, np.nan, 1.0), "number 5 is nan"),
    (np.where(np.arange(40) == 5, np.inf, 1.0), "number 5 is inf"),
    (np.ones((40, 1)), "one number"),
    (2.0, "one number"),
    ("balanced", "one number"),
    (["a"] * 40, "one number"),
    (np.ones(40, complex), "one number"),
    ({0: 1.0}, "one number"),
])  # fmt: skip
def test_wrong_weights(weights, words):
    with pytest.raises(OptionError, match=words) as caught:
        fp.fit(TREE, BITS, sample_weight=weights, progress=False)
    assert caught.value.option == "sample_weight"
