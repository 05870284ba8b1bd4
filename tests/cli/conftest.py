"""Tables and models that the tests only read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import bits, people, run, with_holes

QUICK = ("--latents", 3, "--epochs", 5, "--mu", 0.1)


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, and a model of each kind."""
    folder = tmp_path_factory.mktemp("desk")
    people().write_csv(folder / "people.csv")
    people(60, seed=5).write_csv(folder / "others.csv")
    people().write_parquet(folder / "people.parquet")
    with_holes(people()).write_csv(folder / "holes.csv")
    np.savez(folder / "bits.npz", X=bits())
    np.savez(folder / "splits.npz", train=bits(80), valid=bits(30, seed=1), test=bits(40, seed=2))
    run("fit", folder / "people.csv", "-o", folder / "people.model", "--structure", "hclt", *QUICK)
    run("fit", folder / "splits.npz", "-o", folder / "bits.model", "--structure", "hclt", *QUICK)
    return folder
