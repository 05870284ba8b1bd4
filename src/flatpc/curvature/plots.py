"""Drawings of landscapes. Losses that are infinite, where a move makes a row impossible, are left out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice

if TYPE_CHECKING:
    from flatpc.curvature.landscapes import Landscape

_COLORS = "viridis"


def plot(landscape: Landscape, kind: str = "auto", *, title: str | None = None, limits: tuple[float, float] | None = None) -> Any:
    """A matplotlib figure of a landscape, train and validation side by side.

    Each panel shows its own range of losses unless `limits` fix one for all, as it takes to compare circuits.
    """
    # Without pyplot: nothing is registered, shown or kept, and no backend is chosen for the user.
    from matplotlib.figure import Figure

    allowed = ("line",) if landscape.dimensions == 1 else ("contour", "surface")
    kind = choice("kind", kind, ("auto", *allowed))
    kind = allowed[0] if kind == "auto" else kind
    surfaces = {"train": _finite(landscape.train)}
    if landscape.valid is not None:
        surfaces["validation"] = _finite(landscape.valid)
    low, high = limits or (
        min(float(np.nanmin(s)) for s in surfaces.values()),
        max(float(np.nanmax(s)) for s in surfaces.values()),
    )
    panels = 1 if kind == "line" else len(surfaces)
    figure = Figure(figsize=(5.2 * panels, 4.2), layout="constrained")
    if title:
        figure.suptitle(title)
    if kind == "line":
        axes = figure.subplots()
        for name, loss in surfaces.items():
            axes.plot(landscape.steps, loss, label=name)
        axes.set(xlabel="step along the direction", ylabel="mean negative log-likelihood", ylim=limits)
        axes.axvline(0.0, color="0.8", zorder=0)
        axes.legend(frameon=False)
        return figure
    for column, (name, loss) in enumerate(surfaces.items(), start=1):
        low, high = limits or (float(np.nanmin(loss)), float(np.nanmax(loss)))
        _draw(figure, landscape, kind, (panels, column), name, loss, low, high)
    return figure


def _draw(
    figure: Any, landscape: Landscape, kind: str, place: tuple[int, int], name: str, loss: Any, low: float, high: float
) -> None:
    panels, column = place
    axes = figure.add_subplot(1, panels, column, projection="3d" if kind == "surface" else None)
    # The first index of the losses is the first direction, which is drawn from left to right.
    across, along = np.meshgrid(landscape.steps, landscape.steps, indexing="ij")
    shown = np.ma.masked_invalid(np.clip(loss, low, high))
    if kind == "surface":
        axes.plot_surface(across, along, shown, cmap=_COLORS, vmin=low, vmax=high, rcount=60, ccount=60)
        axes.set(zlim=(low, high), zlabel="mean NLL")
    else:
        levels = np.linspace(low, high, 25)
        drawn = axes.contourf(across, along, shown, levels=levels, cmap=_COLORS, extend="both")
        axes.contour(across, along, shown, levels=levels, colors="k", linewidths=0.3, alpha=0.5)
        axes.plot(0.0, 0.0, "w+", markersize=8)
        axes.set_aspect("equal")
        figure.colorbar(drawn, ax=axes, label="mean negative log-likelihood", format="%.2f")
    axes.set(title=name, xlabel="first direction", ylabel="second direction")


def interactive(landscape: Landscape) -> Any:
    """A plotly figure of a landscape: lines, or surfaces that can be turned."""
    graph_objects = import_module("plotly.graph_objects")
    figure = graph_objects.Figure()
    surfaces = {"train": landscape.train} | ({} if landscape.valid is None else {"validation": landscape.valid})
    for i, (name, loss) in enumerate(surfaces.items()):
        if landscape.dimensions == 1:
            figure.add_scatter(x=landscape.steps, y=_finite(loss), name=name, mode="lines")
        else:
            # plotly's z has one row per y.
            z = _finite(loss).T
            figure.add_surface(
                x=landscape.steps, y=landscape.steps, z=z, name=name, showscale=i == 0, opacity=0.9, showlegend=True
            )
    if landscape.dimensions == 1:
        figure.update_layout(xaxis_title="step along the direction", yaxis_title="mean negative log-likelihood")
    else:
        titles = {"xaxis_title": "first direction", "yaxis_title": "second direction", "zaxis_title": "mean NLL"}
        figure.update_layout(scene=titles)
    return figure


def _finite(loss: Any) -> Any:
    return np.where(np.isfinite(loss), loss, np.nan)
