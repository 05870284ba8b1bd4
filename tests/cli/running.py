"""How the tests type commands, and tables to type them about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from typer.testing import CliRunner

from flatpc.cli import app


class Answer:
    """What a command printed and how it ended."""

    def __init__(self, *arguments: object) -> None:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="flatpc")
        self.code, self.out, self.err = done.exit_code, done.stdout, done.stderr
        self.error = done.exception

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON value and nothing else."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def run(*arguments: object) -> Answer:
    """A command that ends well."""
    answer = Answer(*arguments)
    assert answer.code == 0, f"{answer.code}\n{answer.out}\n{answer.err}"
    return answer


def people(n: int = 120, seed: int = 0) -> pl.DataFrame:
    """Columns of every kind, of which each says something about the others."""
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.4
    return pl.DataFrame(
        {
            "age": np.round(np.clip(rng.normal(40 + 20 * old, 8), 18, 95)).astype(int),
            "smoker": np.where(rng.random(n) < 0.2 + 0.5 * old, "yes", "no"),
            "colour": rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2]),
            "visits": rng.poisson(2 + 6 * old),
            "height": np.round(rng.normal(172, 9, n), 1),
        }
    )


def bits(n: int = 80, d: int = 5, seed: int = 0) -> np.ndarray:
    """Binary rows in two clusters."""
    rng = np.random.default_rng(seed)
    return (rng.random((n, d)) < rng.choice([0.2, 0.8], (n, 1))).astype(np.uint8)


def with_holes(frame: pl.DataFrame, seed: int = 1) -> pl.DataFrame:
    """The frame with a tenth of its values missing."""
    rng = np.random.default_rng(seed)
    holes = {name: pl.Series(rng.random(frame.height) < 0.1) for name in frame.columns}
    return frame.with_columns([pl.when(where).then(None).otherwise(pl.col(name)).alias(name) for name, where in holes.items()])


def names(folder: Path) -> set[str]:
    """What is in a folder."""
    return {path.name for path in folder.iterdir()}
