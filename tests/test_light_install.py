"""What works without the extras: a process in which their packages can't be found."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
HEAVY = ("torch", "matplotlib", "plotly", "jinja2", "markdown_it", "PIL", "optuna")

PROGRAM = f"""
import sys
import importlib.abc
import importlib.util

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {HEAVY!r} else find(name, package)
sys.meta_path.insert(0, Hidden())

import numpy as np
import flatpc as fp

X = np.random.default_rng(0).integers(0, 2, (120, 4)).astype(float)
density = fp.CircuitDensity(effort=0.1, verbose=False).fit(X)
assert np.isfinite(density.score(X))
circuit = fp.structures.hclt(X, n_latents=2)
for method in ("em", "adam", "sgd"):
    result = fp.fit(circuit, X, method=method, epochs=1, sharpness=fp.Sharpness(mu=0.1), progress=False)
    assert np.isfinite(result.history["train_nll"]).all()
assert np.isfinite(fp.curvature.trace(circuit, X)).all()
for ask, extra in (
    (lambda: circuit.log_prob(X, engine="torch"), "torch"),
    (lambda: fp.fit(circuit, X, run=fp.learning.Run(distributed=True)), "torch"),
    (lambda: fp.curvature.landscape(circuit, X, n_steps=3).plot(), "plots"),
    (lambda: __import__("flatpc.pages"), "paper"),
    (lambda: __import__("flatpc.paper"), "paper"),
):
    try:
        ask()
    except fp.FlatpcError as error:
        assert type(error).__name__ == "MissingPackageError", error
        assert f"flatpc[{{extra}}]" in str(error), error
    else:
        raise AssertionError(f"flatpc[{{extra}}] was not asked for")
assert not [name for name in {HEAVY!r} if name in sys.modules]
"""


def test_learning_and_curvature_work_without_the_extras_and_the_rest_names_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def test_the_base_install_names_none_of_them() -> None:
    needed = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {line.split(">")[0] for line in needed}
    assert not names & {"torch", "matplotlib", "plotly", "jinja2", "markdown-it-py", "pillow", "optuna"}
