"""Threads, forks and pools: whoever asks, and beside whatever else, gets the same bits, and nobody waits for ever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import pools
from tests.hostile.tally import LONG, Tally, how_many

# Forks first, while the process has no threads.
WAYS = ("fork", "1 thread", "2 threads", "threads", "joblib threads", "fork after use", "joblib processes")


def _answers(n, ways):
    """Way, circuit, question and digest of each answer, from a process that has two threads, whatever this one has."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.pools", str(n), *ways], capture_output=True, text=True,
        env={**os.environ, "NUMBA_NUM_THREADS": "2"}, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_all_get_the_same_bits():
    ways, n = (*WAYS, "spawn") if LONG else WAYS, how_many(1, len(pools.CIRCUITS))
    with Tally("threads, forks and pools") as tally:
        answers = _answers(n, ways)
        right = {(name, question): digest for way, name, question, digest in answers if way == "1 thread"}
        assert len(right) == n * len(pools.QUESTIONS)
        for way in ways:
            others = [(name, question, digest) for by, name, question, digest in answers if by == way]
            assert {(name, question) for name, question, _ in others} == set(right)
            for name, question, digest in others if way != "1 thread" else ():
                with tally.case(f"{way}: {question} of {name}"):
                    assert digest == right[name, question], "other bits"
