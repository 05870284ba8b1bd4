"""The paper's figures as experiments: each is computed as plain data, kept, and drawn from what was kept.

| figure | in the paper | module |
|---|---|---|
| `figure-landscape` | figure 1, and the appendix's landscapes of pinwheel and two_moons | `landscape` |
| `figure-curves` | the appendix's learning curves of twelve data sets | `curves` |
| `figure-trace` | trace formula against autograd, value and time | `trace` |
| `figure-ablation` | the ablation over μ on dna | `ablation` |
| `figure-latents` | the appendix's motivation: overfitting and sharpness by latent size | `latents` |
| `figure-datasets` | the appendix's picture of the eight manifolds | `datasets` |
| `figure-measures` | none: which measure of sharpness goes with overfitting | `measures` |
| `figure-pruning` | none: edges pruned by flow and by curvature | `pruning` |
| `mnist` | none: bits per dimension of images, samples, completed halves, digits told apart | `mnist` |

A module has `TITLE`, the shorter `TAB`, `CAPTION`, `pieces(quick)` (what to compute, by name), `compute(piece)` (plain data),
`draw(found)` (plotly) and `plot(found)` (matplotlib pictures by name). One whose pieces take long has `compute(piece, work)`: a
folder in which it keeps what a run that was killed goes on from.
"""

from __future__ import annotations

import math
import time
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from flatpc.errors import OptionError
from flatpc.paper.figures.panels import Panel
from flatpc.paper.figures.store import Found, complete, read, stale

FIGURES = (
    "figure-landscape",
    "figure-curves",
    "figure-trace",
    "figure-ablation",
    "figure-latents",
    "figure-datasets",
    "figure-measures",
    "figure-pruning",
    "mnist",
)

__all__ = ["FIGURES", "Panel", "compute", "draw", "figure", "is_quick", "load", "missing", "plot"]


def figure(name: str) -> Any:
    """The module of a figure.

    >>> figure("figure-ablation").TITLE
    'The strength of the penalty'
    """
    if name not in FIGURES:
        raise OptionError(f"There is no figure {name!r}; choose one of {', '.join(FIGURES)}.")
    return import_module(f"flatpc.paper.figures.{name.removeprefix('figure-')}")


def compute(name: str, folder: str | Path, *, quick: bool = False, budget: float = math.inf, progress: bool = True) -> Found:
    """Compute what is missing of a figure, and keep it in `folder/figures`; after `budget` seconds no further piece is begun."""
    from rich.console import Console
    from rich.progress import track

    module = figure(name)
    takes_a_folder = len(signature(module.compute).parameters) > 1
    return complete(
        _path(name, folder, quick),
        module.pieces(quick),
        partial(module.compute, work=Path(folder) / "work") if takes_a_folder else module.compute,
        deadline=time.monotonic() + budget,
        track=lambda names: track(names, name, disable=not progress, console=Console(stderr=True)),
    )


def load(name: str, folder: str | Path) -> Found:
    """What is there of a figure: in full, or else its quick version, or else nothing."""
    figure(name)
    return read(_path(name, folder, False)) or read(_path(name, folder, True))


def is_quick(name: str, folder: str | Path) -> bool:
    """Whether only the quick version is there."""
    return not _path(name, folder, False).is_file() and _path(name, folder, True).is_file()


def missing(name: str, folder: str | Path) -> list[str]:
    """The pieces of the full figure that are not there yet, or only as an earlier configuration had them."""
    return stale(_path(name, folder, False), figure(name).pieces())


def draw(name: str, found: Found) -> list[Panel]:
    """Interactive figures."""
    return list(figure(name).draw(found))


def plot(name: str, found: Found) -> dict[str, Any]:
    """Matplotlib figures by name."""
    return dict(figure(name).plot(found))


def _path(name: str, folder: str | Path, quick: bool) -> Path:
    return Path(folder) / "figures" / f"{name.removeprefix('figure-')}{'-quick' if quick else ''}.json"
