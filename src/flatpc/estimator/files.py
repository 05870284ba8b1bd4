"""A fitted estimator in a model file: circuit and columns as `model_files.py` keeps them, and what it says of itself."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.estimator.model_files import load_model, save_model
from flatpc.estimator.reports import Curvature
from flatpc.tables.columns import UNSEEN
from flatpc.tables.reading import MISSING

if TYPE_CHECKING:
    from flatpc.estimator.density import CircuitDensity

CONTAINERS = ("numpy", "torch", "pandas", "polars")
OPTIONS = {"missing": MISSING, "unseen": UNSEEN}
"""Parameters that matter after learning, and what they may be."""


def write(density: CircuitDensity, path: str | os.PathLike[str]) -> None:
    """Save what a fitted estimator needs to answer, and its reports."""
    about: dict[str, Any] = {name: getattr(density, name) for name in OPTIONS}
    about |= {"summary": density.summary_, "container": density.columns_.container}
    if getattr(density, "n_rows_", 0):
        about |= {"rows": density.n_rows_, "weight": density._weight}
    if hasattr(density, "curvature_"):
        about["curvature"] = asdict(density.curvature_)
    save_model(path, density.circuit_, density.columns_, about, getattr(density, "tuned_", {}))


def read(kind: type[CircuitDensity], path: str | os.PathLike[str]) -> CircuitDensity:
    """An estimator of the given class with what a file holds; what other programs wrote about the model is not asked for."""
    model = load_model(path)
    about = model.about
    density = kind(**{name: about[name] for name, choices in OPTIONS.items() if about.get(name) in choices})
    container = about.get("container")
    density.columns_ = replace(model.columns, container=container if container in CONTAINERS else "polars")
    density.kinds_ = density.columns_.kinds
    density.circuit_ = model.circuit
    density.candidates_, density.n_iter_, density.tuned_ = (), 0, model.tuned
    rows = about.get("rows", 0)
    density.n_rows_ = rows if type(rows) is int and rows > 0 else 0
    weight = about.get("weight")
    density._weight = weight if type(weight) is float and 0 < weight < math.inf else float(density.n_rows_)
    density.n_parameters_ = model.circuit.n_parameters
    density.n_free_parameters_ = model.circuit.n_free_parameters
    density.summary_ = str(about.get("summary", f"read from {os.fspath(path)}"))
    density.n_features_in_ = model.circuit.n_variables
    names = model.columns.names
    if names != tuple(f"x{j}" for j in range(len(names))):
        density.feature_names_in_ = np.array(names, dtype=object)
    _restore_curvature(density, about.get("curvature"))
    return density


def _restore_curvature(density: CircuitDensity, kept: object) -> None:
    # JSON has no whole numbers as keys.
    if isinstance(kept, dict) and set(kept) == {"sharpness", "by_layer", "n_rows"} and isinstance(kept["by_layer"], dict):
        layers = {int(layer): float(value) for layer, value in kept["by_layer"].items()}
        density._curvature = Curvature(float(kept["sharpness"]), layers, int(kept["n_rows"]))
