"""One cell of the comparison, on a small table: all contenders, plain numbers, the same twice."""

import pickle

import numpy as np
import pytest

import flatpc as fp
from flatpc.datasets.splits import Splits
from flatpc.errors import OptionError
from flatpc.paper.never_lose import CONTENDERS, Options, compare, run_cell


def splits(n_rows=120):
    rng = np.random.default_rng(0)
    flips = rng.random((3 * n_rows, 6)) < rng.choice([0.1, 0.9], (3 * n_rows, 1))
    rows = (np.cumsum(flips, axis=1) % 2).astype(float)
    return Splits("made", rows[:n_rows], rows[n_rows : 2 * n_rows], rows[2 * n_rows :])


def test_every_contender_has_its_numbers():
    data, options = splits(), Options(n_latents=4, rounds=1, epochs=4, time_budget=0.5)
    found = compare(data, 0, options)
    assert set(found) == {"rows", *(f"{kind}_{name}" for kind in ("test", "valid", "seconds") for name in CONTENDERS)}
    assert all(type(value) is float and np.isfinite(value) for value in found.values())
    smoothings = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    trees = [fp.structures.chow_liu(data.train, smoothing=s, family="bernoulli") for s in smoothings]
    best = min(trees, key=lambda tree: -tree.log_prob(data.valid).mean())
    assert found["test_chow_liu"] == pytest.approx(-best.log_prob(data.test).mean(), abs=1e-9)
    # The default has all simple models among its candidates, and is judged by the same rows.
    assert found["valid_default"] <= min(found["valid_factorized"], found["valid_chow_liu"]) + 0.05
    again = compare(data, 0, options)
    assert {k: v for k, v in again.items() if "seconds" not in k} == {k: v for k, v in found.items() if "seconds" not in k}


def test_options_travel_and_contenders_are_checked():
    assert pickle.loads(pickle.dumps((run_cell, Options())))[1] == Options()
    with pytest.raises(OptionError, match="'magic'"):
        compare(splits(), 0, Options(), ["magic"])
