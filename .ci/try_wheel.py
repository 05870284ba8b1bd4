"""What a wheel must do in an environment with nothing else in it: learn a small table and answer, without the heavy packages."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import flatpc as fp

HEAVY = ("torch", "matplotlib", "plotly")

assert Path(fp.__file__).is_relative_to(sys.prefix), f"this is not the wheel: {fp.__file__}"
installed = [name for name in HEAVY if find_spec(name)]
assert not installed, f"the wheel brings {', '.join(installed)}; they belong to extras"

rng = np.random.default_rng(0)
table = np.column_stack([rng.integers(0, 2, 200), rng.normal(size=200), rng.lognormal(size=200)])
density = fp.CircuitDensity(effort="quick", random_state=0).fit(table)
assert density.kinds_["x0"] == "binary"
assert np.isfinite(density.score(table))
assert density.sample(3).shape == (3, 3)
