"""Threads, forks and pools: whoever asks, and beside whatever else, gets the same bits, and nobody waits for ever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import pools
from tests.hostile.tally import Tally, how_many

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
WAYS = ("2 threads", "threads", "fork", "fork after use", "spawn", "joblib processes", "joblib threads")
NAMES = list(pools.CIRCUITS)[: how_many(1, 5)]


def _answers(way):
    """What a process of its own says; numba is to have several threads there, whatever this process has."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.pools", way, *NAMES], capture_output=True, text=True, timeout=pools.LIMIT + 60,
        env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def right():
    answers = {(name, question): digest for name, question, digest in _answers("1 thread")}
    assert len(answers) == len(NAMES) * len(pools.QUESTIONS)
    return answers


@pytest.mark.parametrize("way", WAYS)
def test_all_get_the_same_bits(way, right):
    answers = _answers(way)
    assert {(name, question) for name, question, _ in answers} == set(right)
    with Tally("threads, forks and pools") as tally:
        for name, question, digest in answers:
            with tally.case(f"{way}: {question} of {name}"):
                assert digest == right[name, question], "other bits"
