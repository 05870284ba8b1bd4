"""Ctrl-C while `choose` searches: it ends at once, with the best of what it has found."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from flatpc.search import choose, training

ROWS = (np.random.default_rng(0).random((300, 6)) < np.random.default_rng(1).choice([0.2, 0.8], (300, 1))).astype(float)


@pytest.mark.parametrize("valid", [None, ROWS[200:]])
def test_ctrl_c_ends_the_search(monkeypatch: pytest.MonkeyPatch, valid: Any) -> None:
    runs = []
    real = training.run

    def interrupted(*arguments: Any, **options: Any) -> Any:
        runs.append(arguments[3])
        if runs[-1].epochs > 1:  # a signal after the last step comes too late for a run of one
            options["callbacks"] = [lambda row, _: signal.raise_signal(signal.SIGINT)]
        return real(*arguments, **options)

    monkeypatch.setattr(training, "run", interrupted)
    choice = choose(ROWS[:200], valid=valid, effort=60, progress=False)
    assert [run.epochs > 1 for run in runs].index(True) == len(runs) - 1
    assert choice.cut_short == "interrupted"
    assert choice.valid_nll <= min(candidate.valid_nll for candidate in choice.candidates)
    if valid is not None:
        assert -choice.circuit.log_prob(valid).mean() == pytest.approx(choice.valid_nll, abs=1e-9)


def test_otherwise_it_says_so() -> None:
    assert not choose(ROWS[:100], effort=0.5, progress=False).cut_short
