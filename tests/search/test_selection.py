"""Choosing μ: all candidates are reported, the best by validation NLL is chosen, processes change nothing."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.search import select

RNG = np.random.default_rng(0)
ROWS = (RNG.random((330, 6)) < RNG.choice([0.2, 0.8], (330, 1))).astype(float)
X, V = ROWS[:30], ROWS[30:]
CIRCUIT = fp.structures.hclt(X, 8)
OPTIONS = {"epochs": 15, "method": fp.EM(step_size=0.5), "progress": False}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_best_of_the_grid(n_jobs, tmp_path):
    grid = [0.0, 0.1, 1.0, "mean-flow"]
    chosen = select(CIRCUIT, X, valid=V, grid=grid, n_jobs=n_jobs, run=tmp_path / "run", **OPTIONS)
    assert [candidate.mu for candidate in chosen.candidates] == grid
    for candidate in chosen.candidates:
        alone = fp.fit(CIRCUIT, X, valid=V, sharpness=fp.Sharpness(mu=candidate.mu), **OPTIONS).circuit
        np.testing.assert_array_equal(candidate.result.circuit.log_prob(V), alone.log_prob(V))
        assert candidate.valid_nll == -alone.log_prob(V).mean()
    assert chosen.best.valid_nll == min(candidate.valid_nll for candidate in chosen.candidates)
    assert chosen.mu != 0.0
    assert chosen.circuit is chosen.best.result.circuit
    assert len(list(tmp_path.iterdir())) == 4


def test_other_fields_are_kept_and_warm_starts_follow_each_other():
    sharpness = fp.Sharpness(update="cubic", inputs=True)
    chosen = select(CIRCUIT, X, valid=V, grid=[0.5, 0.1], sharpness=sharpness, warm=True, **OPTIONS)
    first = fp.fit(CIRCUIT, X, sharpness=fp.Sharpness(mu=0.5, update="cubic", inputs=True), **OPTIONS).circuit
    second = fp.fit(first, X, sharpness=fp.Sharpness(mu=0.1, update="cubic", inputs=True), **OPTIONS).circuit
    np.testing.assert_allclose(chosen.candidates[1].result.circuit.log_prob(V), second.log_prob(V), rtol=1e-12)


def test_an_empty_grid():
    with pytest.raises(OptionError, match="grid"):
        select(CIRCUIT, X, valid=V, grid=[])
