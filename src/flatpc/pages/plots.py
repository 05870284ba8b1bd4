"""Plotly figures of learning and curvature, several models in each; the page gives them their colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._typing import Array

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature import Eigenvalues, Landscape, SpectralDensity
    from flatpc.learning import History


COLORS = ("#e07b28", "#3a7bd5", "#8e6bbf", "#2f9e79", "#c2518b", "#8a8f3c")
"""One per model, readable on light and on dark."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_HOVER = "%{x}: %{y:.3f}"


def learning_curves(histories: Mapping[str, History]) -> Any:
    """Train (dashed) and validation (solid) NLL by epoch; a dot marks the best epoch."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for color, (name, history) in zip(COLORS, histories.items(), strict=False):
        for split, dash in (("train", "dash"), ("valid", "solid")):
            nll = history[f"{split}_nll"]
            line = {"color": color, "dash": dash, "width": 2}
            label = f"{name}, {'validation' if split == 'valid' else split}"
            figure.add_scatter(x=history["epoch"], y=nll, name=label, mode="lines", line=line, hovertemplate=_HOVER)
        best = int(np.argmin(history["valid_nll"]))
        at = {"x": [best + 1], "y": [history["valid_nll"][best]]}
        figure.add_scatter(**at, mode="markers", marker={"color": color, "size": 9}, showlegend=False, hovertemplate=_HOVER)
    return figure.update_layout(xaxis_title="epoch", yaxis_title="mean negative log-likelihood")


def sharpness_curves(histories: Mapping[str, History]) -> Any:
    """The exact trace per training row by epoch, where it was recorded."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for color, (name, history) in zip(COLORS, histories.items(), strict=False):
        known = np.isfinite(history["sharpness"])
        x, y = history["epoch"][known], history["sharpness"][known]
        line = {"color": color, "width": 2}
        figure.add_scatter(x=x, y=y, name=name, mode="lines", line=line, hovertemplate="%{x}: %{y:.1f}")
    figure.update_yaxes(type="log", tickvals=(ticks := _round_numbers()), ticktext=[f"{tick:,g}" for tick in ticks])
    return figure.update_layout(xaxis_title="epoch", yaxis_title="sharpness per row")


def surfaces(landscapes: Mapping[str, Landscape], split: str = "train", *, top: float | None = None) -> dict[str, Any]:
    """How far the loss rises above the solution's own, one 3-D figure per model, with common axes and colours.

    Parameters
    ----------
    split
        `"train"` or `"valid"`.
    top
        Where surfaces are cut off; by default where the highest one ends, but at most four times where the lowest one does,
        which would lie on the ground otherwise.
    """
    from plotly import graph_objects as go

    rises = {name: _rise(getattr(found, split)) for name, found in landscapes.items()}
    peaks = [float(np.nanmax(rise)) for rise in rises.values()]
    top = top or min(max(peaks), 4 * min(peaks))
    low = min(0.0, *(float(np.nanmin(rise)) for rise in rises.values()))
    figures = {}
    for name, rise in rises.items():
        steps = landscapes[name].steps
        surface = go.Surface(
            # plotly's z has one row per y, the landscape one per x.
            x=steps, y=steps, z=np.minimum(rise, top).T, cmin=low, cmax=top,
            contours={"z": {"show": True, "start": low, "end": top, "size": (top - low) / 12, "color": "rgba(255,255,255,.35)"}},
            hovertemplate="%{x:.2f}, %{y:.2f}: %{z:.3f}<extra></extra>",
        )  # fmt: skip
        dot = go.Scatter3d(
            x=[0],
            y=[0],
            z=[0],
            mode="markers",
            marker={"color": "#e23b3b", "size": 4},
            hovertemplate="the solution<extra></extra>",
        )
        scene = {"xaxis_title": "first", "yaxis_title": "second", "zaxis_title": "rise", "zaxis_range": [low, top]}
        figures[name] = go.Figure([surface, dot]).update_layout(scene=scene, showlegend=False)
    return figures


def eigenvalue_bars(spectra: Mapping[str, Eigenvalues]) -> Any:
    """The largest eigenvalues of each model, largest first."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for color, (name, found) in zip(COLORS, spectra.items(), strict=False):
        ranks = np.arange(1, len(found.values) + 1)
        figure.add_bar(x=ranks, y=found.values, name=name, marker_color=color, hovertemplate="number %{x}: %{y:.3g}")
    return figure.update_layout(xaxis_title="rank", yaxis_title="eigenvalue", bargap=0.25)


def spectral_densities(densities: Mapping[str, SpectralDensity]) -> Any:
    """The share of all eigenvalues by size, on a logarithmic scale: most are near 0, and the tail is what curves."""
    from plotly import graph_objects as go

    figure = go.Figure()
    highest = 0.0
    for color, (name, found) in zip(COLORS, densities.items(), strict=False):
        highest = max(highest, float(found.density.max()))
        line = {"color": color, "width": 2}
        figure.add_scatter(x=found.grid, y=found.density, name=name, mode="lines", line=line, hovertemplate="%{x:.2f}: %{y:.2g}")
    top = float(np.ceil(np.log10(highest)))
    powers = np.arange(top - 6, top + 1, 2)
    labels = [f"10{str(int(power)).translate(_RAISED)}" for power in powers]
    figure.update_yaxes(type="log", range=[top - 7, top], tickvals=10.0**powers, ticktext=labels)
    return figure.update_layout(xaxis_title="eigenvalue", yaxis_title="density")


def density_maps(circuits: Mapping[str, Circuit], train: Array, test: Array, *, n_grid: int = 120) -> dict[str, Any]:
    """Log-densities over the plane, with training rows (dots) and test rows (specks), in common colours."""
    from plotly import graph_objects as go

    every = np.concatenate([train, test])
    margin = 0.12 * np.ptp(every, axis=0)
    axes = [np.linspace(low, high, n_grid) for low, high in zip(every.min(0) - margin, every.max(0) + margin, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    maps = {name: circuit.log_prob(grid).reshape(n_grid, n_grid) for name, circuit in circuits.items()}
    high = max(float(np.quantile(values, 0.998)) for values in maps.values())
    low = high - 10.0
    figures = {}
    for name, values in maps.items():
        heat = go.Heatmap(
            x=axes[0], y=axes[1], z=np.clip(values, low, high), zmin=low, zmax=high, zsmooth="best",
            colorbar={"title": {"text": "log p", "side": "right"}}, hovertemplate="%{x:.2f}, %{y:.2f}: %{z:.1f}<extra></extra>",
        )  # fmt: skip
        specks = go.Scatter(
            x=test[:, 0], y=test[:, 1], mode="markers", name="test rows",
            marker={"size": 2, "color": "rgba(255,255,255,.5)"}, hoverinfo="skip",
        )  # fmt: skip
        dots = go.Scatter(
            x=train[:, 0], y=train[:, 1], mode="markers", name="training rows",
            marker={"size": 6, "color": COLORS[0], "line": {"color": "white", "width": 1}}, hoverinfo="skip",
        )  # fmt: skip
        figure = go.Figure([heat, specks, dots]).update_layout(showlegend=False)
        figure.update_xaxes(range=[axes[0][0], axes[0][-1]], showgrid=False, constrain="domain")
        figure.update_yaxes(range=[axes[1][0], axes[1][-1]], showgrid=False, scaleanchor="x", constrain="domain")
        figures[name] = figure
    return figures


def _round_numbers() -> list[float]:
    """1, 2, 5, 10, 20, ... for logarithmic axes."""
    return [digit * 10.0**power for power in range(-3, 10) for digit in (1, 2, 5)]


def _rise(loss: Array) -> Array:
    middle = tuple(n // 2 for n in loss.shape)
    return np.where(np.isfinite(loss), loss - loss[middle], np.nan)
