"""The trace formula against automatic differentiation: the same numbers over the epochs, and the time it takes by depth.

Autograd differentiates the torch engine twice, column by column, and shares nothing with the formula.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.paper.figures.panels import Panel, numbers, static
from flatpc.paper.figures.runs import Run
from flatpc.paper.figures.store import Found

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

TAB = "Trace"
TITLE = "The trace formula against autograd"
CAPTION = (
    "Left: an Einsum Network overfits 5% of the spiral's rows; its sharpness by the sum of squared gradients, and as the trace "
    "of autograd's full Hessian. Right: the time that either takes, on 16 rows, for deeper and deeper circuits over 32 variables."
)


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """The curve, and one for each depth."""
    run = Run("spiral", 0.05, epochs=20 if quick else 200)
    out: dict[str, dict[str, Any]] = {"spiral": {"kind": "epochs", **run.configuration, "every": 20 if quick else 5}}
    return out | {f"depth {depth}": {"kind": "depth", "depth": depth} for depth in ((1, 2) if quick else (1, 2, 3, 4, 5))}


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """`{"epoch", "ours", "autograd", "train", "valid"}`, or `{"depth", "weights", "ours_seconds", "autograd_seconds"}`."""
    return _epochs(piece) if piece["kind"] == "epochs" else _depth(int(piece["depth"]))


def autograd_trace(circuit: Circuit, X: Any) -> float:
    """-Tr of the Hessian of Σ log p(x) in the weights, from the whole matrix as autograd makes it."""
    import torch

    from flatpc.engine.torch.module import TorchCircuit

    net = TorchCircuit(circuit)
    weights = {i: p for i, p in net.parameters.items() if isinstance(p, torch.Tensor)}
    sizes = [p.numel() for p in weights.values()]
    rows = torch.tensor(X)

    def log_likelihood(theta: torch.Tensor) -> torch.Tensor:
        parts = zip(weights.items(), torch.split(theta, sizes), strict=True)
        return net.log_prob(rows, {i: part.reshape(p.shape) for (i, p), part in parts}).sum()

    start = torch.cat([p.reshape(-1) for p in weights.values()])
    H = torch.autograd.functional.hessian(log_likelihood, start, vectorize=True)  # type: ignore[no-untyped-call]
    return -float(torch.trace(H))


def _epochs(piece: Mapping[str, Any]) -> dict[str, Any]:
    from flatpc import curvature

    run = Run.read(piece)
    data = run.data()
    out: dict[str, Any] = {"epoch": [], "ours": [], "autograd": []}
    apart = [0.0]

    def watch(epoch: int, circuit: Callable[[], Circuit]) -> None:
        if epoch == 1 or epoch % piece["every"] == 0:
            now = circuit()
            ours, theirs = float(curvature.trace(now, data.train).mean()), autograd_trace(now, data.train) / len(data.train)
            for key, value in (("epoch", epoch), ("ours", ours), ("autograd", theirs)):
                out[key].append(value)
            apart.append(abs(ours - theirs) / theirs)

    history = run.learn(data, watch).history
    return out | {"train": history["train_nll"], "valid": history["valid_nll"], "largest_difference": max(apart)}


def _depth(depth: int) -> dict[str, Any]:
    from flatpc import curvature, structures

    circuit = structures.rat_spn(32, depth=depth, n_repetitions=1, n_sums=3, n_inputs=3, family="gaussian")
    X = np.random.default_rng(0).standard_normal((16, 32))
    ours = float(curvature.trace(circuit, X).sum())
    theirs = autograd_trace(circuit, X)
    return {
        "depth": depth,
        "weights": int(curvature.operator(circuit, X).shape[0]),
        "ours_seconds": _seconds(lambda: curvature.trace(circuit, X)),
        "autograd_seconds": _seconds(lambda: autograd_trace(circuit, X)),
        "difference": abs(ours - theirs) / theirs,
    }


def _seconds(call: Callable[[], Any]) -> float:
    """Of the processor, the best of five: what else the machine does is not counted."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def _depths(found: Found) -> dict[str, list[float]]:
    rows = [data for name, data in found.items() if name.startswith("depth")]
    return {key: [row[key] for row in rows] for key in ("depth", "weights", "ours_seconds", "autograd_seconds", "difference")}


def _note(found: Found) -> str:
    worst = max([found["spiral"]["largest_difference"] if "spiral" in found else 0.0, *_depths(found)["difference"]])
    return f"Largest relative difference between the two: {worst:.1e}."


def draw(found: Found) -> list[Panel]:
    """Value over epochs, time over depth."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figures = {}
    if "spiral" in found:
        data = found["spiral"]
        figure = make_subplots(specs=[[{"secondary_y": True}]])
        epochs = list(range(1, len(data["train"]) + 1))
        for rows, dash in (("train", "dot"), ("valid", "solid")):
            figure.add_scatter(
                x=epochs, y=numbers(data[rows]), mode="lines", name=f"{rows} NLL", line={"color": "#8a93a3", "dash": dash}
            )
        figure.add_scatter(x=data["epoch"], y=data["autograd"], mode="markers", name="trace, autograd", secondary_y=True,
                           marker={"symbol": "circle-open", "size": 11, "color": "#e07b28", "line": {"width": 2}})  # fmt: skip
        figure.add_scatter(x=data["epoch"], y=data["ours"], mode="lines+markers", name="trace, formula", secondary_y=True,
                           line={"color": "#3a7bd5"}, marker={"size": 5})  # fmt: skip
        figure.update_yaxes(title_text="NLL", secondary_y=False)
        figure.update_yaxes(title_text="trace per row", secondary_y=True, showgrid=False, tickmode="auto")
        figures["the same numbers"] = figure.update_layout(xaxis_title="epoch", margin_r=60)
    depths = _depths(found)
    if depths["depth"]:
        figure = go.Figure()
        hover = [f"{n} weights" for n in depths["weights"]]
        for key, name, colour in (("autograd_seconds", "autograd", "#e07b28"), ("ours_seconds", "formula", "#3a7bd5")):
            figure.add_scatter(x=depths["depth"], y=depths[key], mode="lines+markers", name=name, line_color=colour, text=hover)
        figure.update_layout(
            xaxis={"title": "depth", "dtick": 1},
            yaxis={"title": "seconds of the processor", "type": "log", "exponentformat": "power"},
        )
        figures["a fraction of the time"] = figure
    return [Panel("", figures, note=_note(found))]


def plot(found: Found) -> dict[str, Any]:
    """One picture."""
    figure = static(10, 3.8)
    left, right = figure.subplots(1, 2)
    if "spiral" in found:
        data = found["spiral"]
        epochs = range(1, len(data["train"]) + 1)
        left.plot(epochs, numbers(data["train"]), ":", color="0.5", label="train NLL")
        left.plot(epochs, numbers(data["valid"]), "-", color="0.5", label="valid NLL")
        left.set(xlabel="epoch", ylabel="NLL")
        other = left.twinx()
        other.plot(data["epoch"], data["autograd"], "o", mfc="none", color="#e07b28", label="trace, autograd")
        other.plot(data["epoch"], data["ours"], ".-", color="#3a7bd5", label="trace, formula")
        other.set_ylabel("trace per row")
        handles = [line for axes in (left, other) for line in axes.get_lines()]
        left.legend(handles, [str(line.get_label()) for line in handles], frameon=False, fontsize=8)
    depths = _depths(found)
    right.plot(depths["depth"], depths["autograd_seconds"], "o-", color="#e07b28", label="autograd")
    right.plot(depths["depth"], depths["ours_seconds"], "o-", color="#3a7bd5", label="formula")
    right.set(xlabel="depth", ylabel="seconds of the processor", yscale="log", xticks=depths["depth"])
    right.legend(frameon=False)
    return {"trace": figure}
