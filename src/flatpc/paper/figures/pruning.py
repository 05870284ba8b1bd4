"""Parameters against lost likelihood: edges pruned by flow and by curvature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc import curvature, structures
from flatpc.learning import EM, Laplace, fit
from flatpc.paper.figures.panels import SERIES, Panel, percent, static, title_of
from flatpc.paper.figures.runs import Run
from flatpc.paper.figures.store import Found

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

TAB = "Pruning"
TITLE = "Edges pruned by flow and by curvature"
CAPTION = (
    "Test NLL of hidden Chow-Liu trees of 16 latents, less that of the whole tree, without the edges of sums that are worth "
    "least: by flow, by what losing the edge costs (damage), and the same where the unit's other weights move (surgeon). Above "
    "as pruned, below after five epochs of EM."
)
WAYS = ("flow", "damage", "surgeon")
FRACTIONS = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
PLACES = {"nltcs": 0.1, "plants": 0.1}
TUNED = 5
"""Epochs after pruning."""


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each data set."""
    places, latents, epochs = ({"nltcs": 0.05}, 4, 5) if quick else (PLACES, 16, 50)
    return {
        f"{name} {percent(fraction)}": {"dataset": name, "fraction": fraction, "latents": latents, "epochs": epochs}
        for name, fraction in places.items()
    }


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """Of the whole tree and, for each way, of the pruned ones: edges, train and test NLL, and that after learning on."""
    data = Run(piece["dataset"], piece["fraction"]).data()
    start = structures.hclt(data.train, piece["latents"], init="random")
    whole = _learnt(start, data.train, piece["epochs"])
    out: dict[str, Any] = {"whole": _numbers(whole, whole, data)}
    for way in WAYS:
        found = []
        for fraction in FRACTIONS:
            if way == "flow":
                pruned = structures.prune(whole, data.train, fraction)
            else:
                pruned = curvature.prune(whole, data.train, fraction, how=way)
            found.append(_numbers(pruned, _learnt(pruned, data.train, TUNED), data))
        out[way] = {name: [each[name] for each in found] for name in found[0]}
    return out


def _learnt(circuit: Circuit, rows: Any, epochs: int) -> Circuit:
    """By EM over all rows; a little smoothing, so that no value becomes impossible."""
    options: dict[str, Any] = {"regularizer": Laplace(0.1), "n_threads": 1, "progress": False}
    return fit(circuit, rows, method=EM(1.0), batch_size=None, epochs=epochs, **options).circuit


def _numbers(circuit: Circuit, tuned: Circuit, data: Any) -> dict[str, float]:
    found = {name: -float(np.mean(circuit.log_prob(rows))) for name, rows in (("train", data.train), ("test", data.test))}
    weights = [circuit.parameters[i] for i, node in enumerate(circuit.nodes) if hasattr(node, "mask")]
    edges = sum(int((np.asarray(each) > 0).sum()) for each in weights)
    return {"edges": edges, **found, "tuned": -float(np.mean(tuned.log_prob(data.test)))}


def lost(piece: Mapping[str, Any], way: str, name: str = "test") -> Any:
    """Nats per test row above the whole tree's, for each fraction that is pruned."""
    return np.asarray(piece[way][name], float) - piece["whole"]["test"]


def draw(found: Found) -> list[Panel]:
    """For each data set, as pruned and after learning on."""
    import plotly.graph_objects as go

    panels = {}
    for name, piece in found.items():
        for title, which in (("as pruned", "test"), (f"after {TUNED} epochs", "tuned")):
            shown = go.Figure()
            for way, colour in zip(WAYS, SERIES, strict=False):
                shown.add_scatter(x=piece[way]["edges"], y=lost(piece, way, which), name=way, line={"color": colour})
            shown.update_layout(xaxis={"title": "edges left", "type": "log"}, yaxis={"title": "test NLL above the whole tree's"})
            panels[f"{title_of(name)}, {title}"] = shown
    return [Panel("", panels, height=360)]


def plot(found: Found) -> dict[str, Any]:
    """One picture: a row for each way of looking, a column for each data set."""
    figure = static(3.8 * len(found), 6)
    axes = figure.subplots(2, len(found), squeeze=False)
    for column, (name, piece) in enumerate(found.items()):
        for row, (title, which) in enumerate((("as pruned", "test"), (f"after {TUNED} epochs of EM", "tuned"))):
            axis = axes[row, column]
            for way, colour, marker in zip(WAYS, SERIES, "os^", strict=False):
                axis.plot(piece[way]["edges"], lost(piece, way, which), f"{marker}-", color=colour, label=way, markersize=4)
            axis.axhline(0, color="0.6", linewidth=0.8)
            axis.set_yscale("symlog", linthresh=0.1)
            axis.set_ylim(bottom=2 * min(-0.02, *(lost(piece, way, which).min() for way in WAYS)))
            axis.set(xscale="log", title=f"{title_of(name)}, {title}", xlabel="edges of sums left")
        axes[0, column].legend(frameon=False)
    for row in range(2):
        axes[row, 0].set_ylabel("test NLL above the whole tree's")
    return {"pruning": figure}
