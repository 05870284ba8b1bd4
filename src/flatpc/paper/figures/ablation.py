"""What the strength of the penalty does: μ from 0 upward on 5% of dna."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flatpc.paper.figures.panels import REGULARISED, SERIES, Panel, static
from flatpc.paper.figures.runs import Run, final
from flatpc.paper.figures.store import Found

TAB = "Strength"
TITLE = "The strength of the penalty"
CAPTION = (
    "A hidden Chow-Liu tree with 100 latents, learnt by sharpness-aware EM from 5% of dna, 80 rows: validation NLL, degree of "
    "overfitting and sharpness after the last epoch against μ. Bars are standard errors over trials; the dashed line is the "
    "lowest validation NLL on the way, which early stopping would have kept."
)
MUS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
QUANTITIES = {"valid": "validation NLL", "overfitting": "degree of overfitting, %", "sharpness": "sharpness per row"}


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each μ and trial."""
    mus, trials, size = ((0.0, 0.1, 1.0), 1, (10, 15)) if quick else (MUS, 3, (100, 100))
    latents, epochs = size
    return {
        f"mu {mu:g} trial {trial}": {
            **Run("dna", 0.05, f"mu={mu}" if mu else "plain", trial, epochs, latents).configuration,
            "mu": mu,
        }
        for trial in range(trials)
        for mu in mus
    }


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers after the last epoch."""
    return {"mu": piece["mu"], **final(Run.read(piece))}


def summary(found: Found) -> dict[str, list[float]]:
    """`mu`, and mean and standard error (0 for one trial) of each quantity."""
    mus = sorted({data["mu"] for data in found.values()})
    out: dict[str, list[float]] = {"mu": mus}
    for key in (*QUANTITIES, "best_valid"):
        trials = [[data[key] for data in found.values() if data["mu"] == mu] for mu in mus]
        out[key] = [float(np.mean(each)) for each in trials]
        out[f"{key}_error"] = [float(np.std(each, ddof=1) / len(each) ** 0.5) if len(each) > 1 else 0.0 for each in trials]
    return out


def _places(mus: list[float]) -> tuple[list[int], list[str]]:
    """Evenly spaced, for μ = 0 has no place on a logarithmic axis."""
    return list(range(len(mus))), [f"{mu:g}" for mu in mus]


def draw(found: Found) -> list[Panel]:
    """Three figures over μ."""
    import plotly.graph_objects as go

    data = summary(found)
    x, labels = _places(data["mu"])
    figures = {}
    for key, name in QUANTITIES.items():
        figure = go.Figure()
        errors = {"type": "data", "array": data[f"{key}_error"]}
        figure.add_scatter(x=x, y=data[key], error_y=errors, mode="lines+markers", line_color=REGULARISED, name="last epoch")
        if key == "valid":
            line = {"color": SERIES[1], "dash": "dash"}
            figure.add_scatter(x=x, y=data["best_valid"], mode="lines", line=line, name="best epoch")
        figures[name] = figure.update_layout(xaxis={"title": "μ", "tickvals": x, "ticktext": labels, "tickangle": -45})
    return [Panel("", figures, height=340)]


def plot(found: Found) -> dict[str, Any]:
    """One picture."""
    data = summary(found)
    x, labels = _places(data["mu"])
    figure = static(12, 3.6)
    for axes, (key, name) in zip(figure.subplots(1, 3), QUANTITIES.items(), strict=True):
        axes.errorbar(x, data[key], data[f"{key}_error"], fmt="o-", color=REGULARISED, capsize=2, label="last epoch")
        if key == "valid":
            axes.plot(x, data["best_valid"], "--", color=SERIES[1], label="best epoch")
            axes.legend(frameon=False)
        axes.set(xlabel="μ", ylabel=name)
        axes.set_xticks(x, labels, rotation=45)
    return {"ablation": figure}
