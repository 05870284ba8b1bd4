"""Loss landscapes around what is learnt with and without the penalty, and the top of the Hessian's spectrum.

The paper's figure 1 shows a 2-D data set that it doesn't name (here: spiral), its appendix pinwheel and two_moons. Both models
are seen along the same filter-normalised directions in logits, and shown is by how much the loss rises. The regularised model is
the one that validation likes best: a flat landscape alone may be that of a single Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from flatpc.paper.figures.panels import PLAIN, REGULARISED, Panel, method_title, numbers, static, title_of
from flatpc.paper.figures.runs import Run
from flatpc.paper.figures.store import Found

TAB = "Landscapes"
TITLE = "Loss landscapes"
CAPTION = (
    "By how much the mean negative log-likelihood of the training rows rises around the model after its last epoch, plain and "
    "regularised (μ by validation NLL): along two random directions and along one, filter-normalised per sum unit; and the "
    "largest eigenvalues of the Hessian of the loss. Einsum Networks, 5% of the rows."
)
DATASETS = ("spiral", "pinwheel", "two_moons")
STRENGTHS = ("mu=0.0001", "mu=0.001", "mu=0.01", "mu=0.1", "adaptive")
RADIUS = 1.0
COLOURS = {"plain": PLAIN, "regularised": REGULARISED}


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each data set."""
    size = {"steps": 11, "line": 21, "eigenvalues": 5} if quick else {"steps": 31, "line": 61, "eigenvalues": 15}
    methods = {"methods": list(STRENGTHS[-1:] if quick else STRENGTHS)}
    runs = [Run(name, 0.05, epochs=30 if quick else 200) for name in (("two_moons",) if quick else DATASETS)]
    return {run.dataset: {**run.configuration, **methods, **size} for run in runs}


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """Both models of one data set: `{"steps", "line_steps", "plain": {...}, "regularised": {...}}`."""
    from flatpc import curvature

    out: dict[str, Any] = {}
    directions: Any = "random"
    along: Any = "random"
    for model, methods in (("plain", ["plain"]), ("regularised", piece["methods"])):
        runs = [replace(Run.read(piece), method=method) for method in methods]
        data = runs[0].data()
        learnt = {run.method: run.learn(data).circuit for run in runs}
        method = min(learnt, key=lambda name: -learnt[name].log_prob(data.valid).mean())
        circuit = learnt[method]
        surface = curvature.landscape(circuit, data.train, radius=RADIUS, n_steps=piece["steps"], directions=directions)
        line = curvature.landscape(
            circuit, data.train, data.valid, dimensions=1, radius=RADIUS, n_steps=piece["line"], directions=along
        )
        directions, along = surface.directions, line.directions  # the second model is seen along those of the first
        top = {
            space: curvature.eigenvalues(circuit, data.train, piece["eigenvalues"], space=space, reduction="mean").values
            for space in ("weights", "logits")
        }
        out |= {"steps": surface.steps, "line_steps": line.steps}
        out[model] = {
            "method": method,
            "surface": surface.train,
            "line": {"train": line.train, "valid": line.valid},
            "eigenvalues": top,
            "nll": {"train": -circuit.log_prob(data.train).mean(), "test": -circuit.log_prob(data.test).mean()},
            "trace": curvature.trace(circuit, data.train).mean(),
        }
    return out


def rise(model: Any) -> Any:
    """`[n, n]`: the loss less that of the model itself."""
    losses = np.array([numbers(row) for row in model["surface"]])
    return losses - losses[len(losses) // 2, len(losses) // 2]


def _range(data: Any) -> tuple[float, float]:
    """Of both models, up to the 95th percentile: beyond it one corner would hide the shape of the rest."""
    rises = np.stack([rise(data[model]) for model in COLOURS])
    return float(np.nanmin(rises)), float(np.nanpercentile(rises, 95))


def draw(found: Found) -> list[Panel]:
    """Surfaces that turn together, contours, lines and eigenvalues."""
    panels = []
    for name, data in found.items():
        title = title_of(name)
        surfaces = {f"{title}, {model}": _surface(data, data[model]) for model in COLOURS}
        panels.append(Panel(title, surfaces, linked=True, note=_summary(data)))
        panels.append(Panel("", {f"{title}, {model}, from above": _contour(data, data[model]) for model in COLOURS}))
        panels.append(Panel("", {f"{title}, along a line": _lines(data), f"{title}, eigenvalues": _bars(data)}, height=320))
    return panels


def _surface(data: Any, model: Any) -> Any:
    import plotly.graph_objects as go

    low, high = _range(data)
    z = np.clip(rise(model).T, None, high)
    figure = go.Figure(go.Surface(x=data["steps"], y=data["steps"], z=z, cmin=low, cmax=high))
    axes = {"xaxis_title": "first direction", "yaxis_title": "second direction"}
    return figure.update_layout(scene={**axes, "zaxis": {"title": "rise of NLL", "range": [low, high]}})


def _contour(data: Any, model: Any) -> Any:
    import plotly.graph_objects as go

    low, high = _range(data)
    levels = {"start": low, "end": high, "size": (high - low) / 20}
    figure = go.Figure(go.Contour(x=data["steps"], y=data["steps"], z=rise(model).T, zmin=low, zmax=high, contours=levels))
    marker = {"symbol": "cross-thin-open", "size": 10, "color": "white"}
    figure.add_scatter(x=[0], y=[0], mode="markers", marker=marker, showlegend=False, name="the model")
    return figure.update_layout(
        xaxis={"title": "first direction", "constrain": "domain"},
        yaxis={"title": "second direction", "scaleanchor": "x", "constrain": "domain"},
    )


def _lines(data: Any) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for model, colour in COLOURS.items():
        for rows, dash in (("train", "solid"), ("valid", "dot")):
            figure.add_scatter(
                x=data["line_steps"], y=numbers(data[model]["line"][rows]), mode="lines", name=f"{model}, {rows}",
                line={"color": colour, "dash": dash},
            )  # fmt: skip
    return figure.update_layout(xaxis_title="step along a random direction", yaxis_title="NLL")


def _bars(data: Any) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    low, high = np.log10(_eigenvalue_range(data))
    for model, colour in COLOURS.items():
        values = data[model]["eigenvalues"]["weights"]
        figure.add_bar(x=list(range(1, len(values) + 1)), y=values, name=model, marker_color=colour)
    vertical = {"title": "eigenvalue in the weights", "type": "log", "exponentformat": "power", "dtick": 1, "range": [low, high]}
    return figure.update_layout(barmode="group", xaxis={"title": "largest first", "dtick": 2}, yaxis=vertical)


def _eigenvalue_range(data: Any) -> tuple[float, float]:
    """Down to a ten-thousandth of the largest: what is below is no curvature to speak of."""
    top = max(value for model in COLOURS for value in data[model]["eigenvalues"]["weights"])
    return top / 1e4, 2 * top


def _summary(data: Any) -> str:
    def of(model: Any) -> str:
        nll, top = model["nll"], {space: values[0] for space, values in model["eigenvalues"].items()}
        learnt = f"{method_title(model['method'])}, " if "method" in model else ""
        return (
            f"{learnt}train NLL {nll['train']:.2f}, test NLL {nll['test']:.2f}, trace {model['trace']:.3g}, "
            f"largest eigenvalue {top['weights']:.3g} in the weights and {top['logits']:.3g} in the logits"
        )

    return "  \n".join(f"{model.capitalize()}: {of(data[model])}." for model in COLOURS)


def plot(found: Found) -> dict[str, Any]:
    """A picture for each data set: one row per model, as in the paper's appendix."""
    return {name: _picture(name, data) for name, data in found.items()}


def _picture(name: str, data: Any) -> Any:
    figure = static(13, 6)
    figure.suptitle(title_of(name))
    low, high = _range(data)
    lines = np.array([numbers(data[model]["line"][rows]) for model in COLOURS for rows in ("train", "valid")])
    x, y = np.meshgrid(data["steps"], data["steps"], indexing="ij")
    for row, (model, colour) in enumerate(COLOURS.items()):
        of = data[model]
        z = np.clip(rise(of), low, high)
        axes = figure.add_subplot(2, 4, 4 * row + 1)
        for rows, style in (("train", "-"), ("valid", ":")):
            axes.plot(data["line_steps"], numbers(of["line"][rows]), style, color=colour, label=rows)
        axes.set(xlabel="step", ylabel=f"{model}\nNLL", ylim=(np.nanmin(lines), np.nanmax(lines)))
        axes.legend(frameon=False)
        axes = figure.add_subplot(2, 4, 4 * row + 2, projection="3d")
        axes.plot_surface(x, y, z, cmap="viridis", vmin=low, vmax=high)
        axes.set(zlim=(low, high))
        axes = figure.add_subplot(2, 4, 4 * row + 3)
        drawn = axes.contourf(x, y, z, levels=np.linspace(low, high, 21), cmap="viridis")
        axes.plot(0, 0, "w+")
        axes.set_aspect("equal")
        figure.colorbar(drawn, ax=axes, ticks=np.linspace(0, high, 5), format="%.1f", label="rise of NLL")
        axes = figure.add_subplot(2, 4, 4 * row + 4)
        values = of["eigenvalues"]["weights"]
        axes.bar(range(1, len(values) + 1), values, color=colour)
        axes.set(yscale="log", ylim=_eigenvalue_range(data), xlabel="eigenvalue", ylabel="in the weights")
    return figure
