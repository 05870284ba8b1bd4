"""Larger models overfit more and are sharper: hidden Chow-Liu trees on a Gaussian mixture, by latent size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flatpc.paper.figures.panels import SERIES, Panel, percent, static
from flatpc.paper.figures.runs import overfitting
from flatpc.paper.figures.store import Found

TAB = "Capacity"
TITLE = "Capacity, overfitting and sharpness"
CAPTION = (
    "Hidden Chow-Liu trees with Gaussian inputs learnt by EM from 10%, 25% and 50% of 1000 rows of a Gaussian mixture. Left: "
    "overfitting, the gap between test and train NLL, against the number of latent states; right: overfitting and sharpness at "
    "50%. The paper divides the gap by the train NLL, which means little here: that of the largest models crosses 0."
)
FRACTIONS = (0.1, 0.25, 0.5)
GAP = "test less train NLL"
LATENTS = (2, 4, 8, 16, 32, 64, 128)


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each fraction, latent size and trial."""
    latents, trials, epochs = ((2, 8), 1, 20) if quick else (LATENTS, 3, 100)
    return {
        f"{percent(fraction)} {n} trial {trial}": {"fraction": fraction, "latents": n, "seed": trial, "epochs": epochs}
        for trial in range(trials)
        for n in latents
        for fraction in FRACTIONS
    }


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """Train and test NLL, their relative gap in percent, sharpness, and the NLL of the true density."""
    from flatpc import curvature, fit, structures
    from flatpc.datasets.gaussian_mixture import GaussianMixture, gaussian_mixture_splits

    data = gaussian_mixture_splits(seed=piece["seed"], fraction=piece["fraction"])
    start = structures.hclt(data.train, n_latents=piece["latents"], family="gaussian", seed=piece["seed"])
    circuit = fit(
        start, data.train, epochs=piece["epochs"], batch_size=200, seed=piece["seed"], dtype="float64", progress=False
    ).circuit
    train, test = (-float(circuit.log_prob(rows).mean()) for rows in (data.train, data.test))
    return {
        "fraction": piece["fraction"],
        "latents": piece["latents"],
        "train": train,
        "test": test,
        "overfitting": overfitting(train, test),
        "sharpness": float(curvature.trace(circuit, data.train).mean()),
        "truth": -float(GaussianMixture.draw().log_prob(data.test).mean()),
    }


def summary(found: Found, fraction: float, key: str) -> dict[str, list[float]]:
    """Means and standard errors over trials by latent size, for one fraction; `gap` is test less train NLL."""
    rows = [{**data, "gap": data["test"] - data["train"]} for data in found.values() if data["fraction"] == fraction]
    latents = sorted({row["latents"] for row in rows})
    trials = [[row[key] for row in rows if row["latents"] == n] for n in latents]
    errors = [float(np.std(each, ddof=1) / len(each) ** 0.5) if len(each) > 1 else 0.0 for each in trials]
    return {"latents": latents, "mean": [float(np.mean(each)) for each in trials], "error": errors}


def _fractions(found: Found) -> list[float]:
    return sorted({data["fraction"] for data in found.values()})


def draw(found: Found) -> list[Panel]:
    """Overfitting by fraction; overfitting and sharpness at the largest."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    axis = {"title": "latent states", "type": "log", "tickvals": LATENTS}
    left = go.Figure()
    for fraction, colour in zip(_fractions(found), SERIES, strict=False):
        data = summary(found, fraction, "gap")
        left.add_scatter(
            x=data["latents"], y=data["mean"], error_y={"type": "data", "array": data["error"]}, mode="lines+markers",
            name=f"{percent(fraction)} of the rows", line_color=colour,
        )  # fmt: skip
    left.update_layout(xaxis=axis, yaxis_title=GAP)
    right = make_subplots(specs=[[{"secondary_y": True}]])
    fraction = _fractions(found)[-1]
    for key, name, colour, second in (
        ("sharpness", "sharpness per row", "#3a7bd5", False),
        ("gap", GAP, "#c2518b", True),
    ):
        data = summary(found, fraction, key)
        right.add_scatter(
            x=data["latents"], y=data["mean"], mode="lines+markers", name=name, line_color=colour, secondary_y=second
        )
        right.update_yaxes(title_text=name, secondary_y=second, showgrid=not second, tickmode="auto")
    right.update_layout(xaxis=axis, margin_r=60)
    return [Panel("", {"overfitting grows with capacity": left, f"and sharpness with it, at {percent(fraction)}": right})]


def plot(found: Found) -> dict[str, Any]:
    """One picture."""
    figure = static(10, 3.8)
    left, right = figure.subplots(1, 2)
    for fraction, colour in zip(_fractions(found), SERIES, strict=False):
        data = summary(found, fraction, "gap")
        left.errorbar(data["latents"], data["mean"], data["error"], fmt="o-", capsize=2, color=colour, label=percent(fraction))
    left.set(xscale="log", xlabel="latent states", ylabel=GAP)
    left.set_xticks(LATENTS, [str(n) for n in LATENTS])
    left.minorticks_off()
    left.legend(frameon=False)
    other = right.twinx()
    fraction = _fractions(found)[-1]
    for axes, key, name, colour in (
        (right, "sharpness", "sharpness per row", "#3a7bd5"),
        (other, "gap", GAP, "#c2518b"),
    ):
        data = summary(found, fraction, key)
        axes.plot(data["latents"], data["mean"], "o-", color=colour)
        axes.set_ylabel(f"{name} ({percent(fraction)} of the rows)", color=colour)
        axes.minorticks_off()
    right.set(xscale="log", xlabel="latent states")
    right.set_xticks(LATENTS, [str(n) for n in LATENTS])
    right.minorticks_off()
    return {"latents": figure}
