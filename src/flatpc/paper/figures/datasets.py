"""The eight manifolds as points: the appendix's picture of the synthetic data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatpc.datasets import MANIFOLDS, manifold_splits
from flatpc.paper.figures.panels import PLAIN, REGULARISED, Panel, static, title_of
from flatpc.paper.figures.store import Found

TAB = "Data"
TITLE = "The eight manifolds"
CAPTION = (
    "Test rows of the synthetic data, standardised: five curves in three dimensions and three sets in two. The paper names and "
    "pictures them but gives no formulas; ours are drawn after the pictures, so that gains on them can be compared, not digits."
)
COLUMNS = 5


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each data set."""
    return {name: {"dataset": name, "rows": 100 if quick else 400, "seed": 0} for name in MANIFOLDS}


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """`{"points": one list for each dimension, "train", "valid", "test": how many rows these have}`."""
    data = manifold_splits(piece["dataset"], seed=piece["seed"])
    sizes = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test)}
    return {"points": [[round(float(x), 3) for x in column] for column in data.test[: piece["rows"]].T], **sizes}


def _by_dimension(found: Found, dimensions: int) -> dict[str, list[list[float]]]:
    return {name: data["points"] for name, data in found.items() if len(data["points"]) == dimensions}


def draw(found: Found) -> list[Panel]:
    """Curves that can be turned, and flat sets."""
    import plotly.graph_objects as go

    panels = []
    for name, points in _by_dimension(found, 3).items():
        x, y, z = points
        figure = go.Figure(go.Scatter3d(x=x, y=y, z=z, mode="markers", marker={"size": 2, "color": REGULARISED}))
        panels.append((title_of(name), figure))
    for name, points in _by_dimension(found, 2).items():
        x, y = points
        figure = go.Figure(go.Scatter(x=x, y=y, mode="markers", marker={"size": 4, "color": PLAIN}))
        panels.append((title_of(name), figure.update_layout(yaxis={"scaleanchor": "x"})))
    return [Panel("", dict(panels[start : start + 3])) for start in range(0, len(panels), 3)]


def plot(found: Found) -> dict[str, Any]:
    """One picture, as in the paper: three dimensions above, two below."""
    figure = static(11, 4.8)
    for row, dimensions in enumerate((3, 2)):
        for column, (name, points) in enumerate(_by_dimension(found, dimensions).items()):
            place = row * COLUMNS + column + 1
            axes = figure.add_subplot(2, COLUMNS, place, projection="3d" if dimensions == 3 else None)
            axes.scatter(*points, s=2, color=REGULARISED if dimensions == 3 else PLAIN)
            axes.set_title(title_of(name), fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])
            if dimensions == 3:
                axes.set_zticks([])
            else:
                axes.set_aspect("equal")
    return {"datasets": figure}
