"""Which sharpness predicts overfitting? Models of several strengths of the penalty and lengths of training, all measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc import curvature
from flatpc._typing import Array
from flatpc.curvature.layout import Layout
from flatpc.curvature.row_flows import blocks, row_flows
from flatpc.datasets import DEBD
from flatpc.paper.figures.panels import REGULARISED, SERIES, Panel, percent, static, title_of
from flatpc.paper.figures.runs import Run
from flatpc.paper.figures.store import Found
from flatpc.paper.text_tables import markdown

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

TAB = "Measures"
TITLE = "Which sharpness predicts overfitting"
CAPTION = (
    "Hidden Chow-Liu trees of 16 latents learnt by EM, and Einsum Networks by Adam, each with four strengths of the penalty "
    "and after three numbers of epochs. Left: Spearman's ρ between a measure of the model on its training rows and test less "
    "train NLL, within a cell over models (mean over cells, and each cell), and over all models of hidden trees. Right: the gap "
    "against the weighted trace, which is in the same unit."
)
METHODS = ("plain", "mu=0.01", "mu=0.1", "mu=1.0")
EPOCHS = (10, 30, 100)
PLACES = {
    "nltcs": (0.01, 0.05), "plants": (0.01, 0.05), "jester": (0.01, 0.05), "tretail": (0.01,), "dna": (0.05, 0.1),
    "bnetflix": (0.01,), "spiral": (0.05,), "two_moons": (0.05,), "helix": (0.05,),
}  # fmt: skip
MEASURES = {
    "trace": "trace in the weights", "simplex": "trace on the simplex", "logits": "trace in logits",
    "top": "largest eigenvalue, simplex", "per flow": "Σ θ g² per unit flow", "weighted": "weighted trace",
    "tic": "Takeuchi (TIC)",
}  # fmt: skip
"""Of which the logarithm of the trace has the ranks of the trace."""


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each data set and fraction."""
    places = {"nltcs": (0.01,)} if quick else PLACES
    latents, epochs = (4, (2, 4, 8)) if quick else (16, EPOCHS)
    return {
        f"{name} {percent(fraction)}": {"dataset": name, "fraction": fraction, "latents": latents, "epochs": epochs}
        for name, several in places.items()
        for fraction in several
    }


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """`train`, `test` and every measure: one number for each model of the cell."""
    out: dict[str, list[float]] = {name: [] for name in ("train", "test", *MEASURES)}
    for method in METHODS:
        run = Run(piece["dataset"], piece["fraction"], method, epochs=max(piece["epochs"]), latents=piece["latents"])
        data = run.data()
        kept: list[Circuit] = []

        def keep(epoch: int, circuit: Callable[[], Circuit], kept: list[Circuit] = kept) -> None:
            if epoch in piece["epochs"]:
                kept.append(circuit())

        run.learn(data, keep)
        for circuit in kept:
            found = measure(circuit, data.train)
            found |= {
                "train": -float(np.mean(circuit.log_prob(data.train))),
                "test": -float(np.mean(circuit.log_prob(data.test))),
            }
            for name, value in found.items():
                out[name].append(value)
    return out


def measure(circuit: Circuit, rows: Array) -> dict[str, float]:
    """Every measure of a model, per row; of the weights of sums and of binary and categorical inputs."""
    options: dict[str, Any] = {"include_inputs": True}
    spaces = {"trace": "weights", "simplex": "simplex", "logits": "logits"}
    found = {name: curvature.trace(circuit, rows, space=space, reduction="mean", **options) for name, space in spaces.items()}
    top = curvature.eigenvalues(circuit, rows, k=1, space="simplex", reduction="mean", **options)
    weighted = curvature.weighted_trace(circuit, rows, reduction="mean")
    return {
        **found,
        "top": float(top.values[0]),
        "per flow": weighted + _squared_units(circuit, rows),
        "weighted": weighted,
        "tic": curvature.takeuchi(circuit, rows, prior=0.0, n_draws=2, n_steps=4).value,
    }


def _squared_units(circuit: Circuit, rows: Array) -> float:
    """The mean over rows of Σ_n F_n² / ΣF_n, by which Σ θ g² per unit flow is above the weighted trace."""
    layout = Layout(circuit, True)
    first = np.diff(layout.row, prepend=-1) > 0
    squares, total = np.zeros((2, int(first.sum())))
    for part in blocks(layout, rows):
        units = layout.row_sums(row_flows(layout, part))[:, first]
        squares += (units**2).sum(axis=0)
        total += units.sum(axis=0)
    return float((squares[total > 0] / total[total > 0]).sum() / len(rows))


def correlations(found: Found) -> dict[str, dict[str, Any]]:
    """Measure -> Spearman's ρ with the gap: `within` each cell, their mean, and over all hidden trees."""
    from scipy.stats import spearmanr

    gaps = {name: np.subtract(piece["test"], piece["train"]) for name, piece in found.items()}
    trees = [name for name in found if name.split()[0] in DEBD]
    out = {}
    for measure in MEASURES:
        within = {name: float(spearmanr(piece[measure], gaps[name]).statistic) for name, piece in found.items()}
        pooled = [np.concatenate([np.asarray(values) for values in each]) for each in (
            [found[name][measure] for name in trees], [gaps[name] for name in trees],
        )] if trees else [np.zeros(0)] * 2  # fmt: skip
        overall = float(spearmanr(*pooled).statistic) if len(pooled[0]) > 2 else float("nan")
        out[measure] = {"within": within, "mean": float(np.mean(list(within.values()))), "overall": overall}
    return out


def factors(found: Found) -> dict[str, dict[str, float]]:
    """Cell -> medians over its models: how many times the weighted trace the `gap` is, and Takeuchi's optimism (`tic`).

    The second is what the missing information is worth, as measured; if it is all that the weighted trace lacks, both agree.
    """
    out = {}
    for name, piece in found.items():
        weighted = np.asarray(piece["weighted"])
        tops = {"gap": np.subtract(piece["test"], piece["train"]), "tic": np.asarray(piece["tic"])}
        out[name] = {top: float(np.median(values / weighted)) for top, values in tops.items()}
    return out


def as_markdown(found: Found) -> str:
    """The factors of every cell, and how far one tells the other."""
    from scipy.stats import spearmanr

    if not found:
        return "Not run yet; `flatpc reproduce figure-measures` does.\n"
    each = factors(found)
    rows = [[name, f"{f['gap']:.2f}", f"{f['tic']:.2f}", f"{f['gap'] / f['tic']:.2f}"] for name, f in each.items()]
    head = ("cell", "gap over weighted trace", "Takeuchi over weighted trace", "gap over Takeuchi")
    gap, tic = (np.array([f[name] for f in each.values()]) for name in ("gap", "tic"))
    near = int(np.sum(np.abs(np.log(gap / tic)) <= np.log(1.25)))
    told = f"Medians over the models of each cell. The two factors are within 25% of each other in {near} of {len(each)} cells"
    if len(each) > 2:
        told += f", and Spearman's ρ between them is {spearmanr(gap, tic).statistic:.2f}".replace("-", "−")
    return f"{markdown(head, rows)}\n\n{told}.\n"


def draw(found: Found) -> list[Panel]:
    """Correlations, and the gap against the weighted trace."""
    import plotly.graph_objects as go

    bars, scatter = go.Figure(), go.Figure()
    ranks = correlations(found)
    names = [MEASURES[measure] for measure in ranks]
    bars.add_bar(x=names, y=[each["mean"] for each in ranks.values()], name="within a cell", marker_color=REGULARISED)
    bars.add_bar(x=names, y=[each["overall"] for each in ranks.values()], name="over all", marker_color=SERIES[1])
    for name, piece in found.items():
        scatter.add_scatter(x=piece["weighted"], y=np.subtract(piece["test"], piece["train"]), mode="markers", name=name)
    scatter.update_layout(xaxis={"title": "weighted trace", "type": "log"}, yaxis={"title": "test − train NLL", "type": "log"})
    return [Panel("", {"Spearman's ρ with the gap": bars.update_layout(yaxis={"range": [-1, 1]}), "gap": scatter}, height=420)]


def plot(found: Found) -> dict[str, Any]:
    """One picture."""
    ranks = correlations(found)
    figure = static(12, 5)
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
    places = np.arange(len(ranks))
    left.barh(places - 0.2, [each["mean"] for each in ranks.values()], 0.38, color=REGULARISED, label="within a cell, mean")
    left.barh(places + 0.2, [each["overall"] for each in ranks.values()], 0.38, color=SERIES[1], label="over all hidden trees")
    dots = [(value, place - 0.2) for place, each in zip(places, ranks.values(), strict=True) for value in each["within"].values()]
    left.plot(*zip(*dots, strict=True), "k.", markersize=4, label="within each cell")
    left.set_yticks(places, [MEASURES[measure] for measure in ranks])
    left.invert_yaxis()
    left.set(xlabel="Spearman's ρ with test − train NLL", xlim=(-1.02, 1.02))
    left.legend(frameon=False, loc="lower left")
    for i, (name, piece) in enumerate(found.items()):
        dataset, fraction = name.split()
        marker = "os^"[i // len(SERIES)]
        gap, label = np.subtract(piece["test"], piece["train"]), f"{title_of(dataset)} {fraction}"
        right.plot(piece["weighted"], gap, marker, color=SERIES[i % len(SERIES)], markersize=4, label=label)
    low, high = right.get_xlim()
    ends = np.array([max(low, 0.02), high])
    right.plot(ends, ends, "k--", linewidth=1)
    right.plot(ends, 3 * ends, "k:", linewidth=1)
    right.set(
        xscale="log",
        yscale="log",
        xlabel="weighted trace; lines: gap 1 and 3 times it",
        ylabel="test − train NLL",
    )
    right.legend(frameon=False, fontsize=8, ncols=2, handletextpad=0.1, columnspacing=0.8, borderaxespad=0.1)
    return {"measures": figure}
