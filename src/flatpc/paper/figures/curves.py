"""Learning curves with sharpness, per fraction of the rows, with and without the penalty.

Einsum Networks by Adam on the eight manifolds, hidden Chow-Liu trees by EM on four binary benchmarks: the twelve data sets of the
paper's appendix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from flatpc.datasets import MANIFOLDS
from flatpc.paper.figures.panels import PLAIN, REGULARISED, SERIES, Panel, method_title, numbers, percent, static, title_of
from flatpc.paper.figures.runs import Run
from flatpc.paper.figures.runs import curves as learn
from flatpc.paper.figures.store import Found
from flatpc.paper.printed import FRACTIONS

TAB = "Curves"
TITLE = "Learning curves"
CAPTION = (
    "Train (dotted) and validation (solid) NLL and the sharpness of the training likelihood over the epochs, plain and "
    "regularised, one column for each fraction of the training rows. Sharpness is the exact trace in the weights, per row."
)
BINARY = ("baudio", "plants", "bnetflix", "accidents")
MANIFOLD_METHODS = ("plain", "mu=0.01", "adaptive")
BINARY_METHODS = ("plain", "mu=0.1")
COLOURS = {"plain": PLAIN, "mu=0.01": SERIES[1], "mu=0.1": REGULARISED, "adaptive": REGULARISED}


def pieces(quick: bool = False) -> dict[str, dict[str, Any]]:
    """One for each data set, fraction and model; small fractions first."""
    out: dict[str, dict[str, Any]] = {}
    for fraction in (0.05,) if quick else FRACTIONS:
        for dataset in ("spiral",) if quick else (*MANIFOLDS, *BINARY):
            for method in BINARY_METHODS if dataset in BINARY else MANIFOLD_METHODS:
                run = Run(dataset, fraction, method, epochs=40 if quick else None)
                out[f"{dataset} {percent(fraction)} {method}"] = {**run.configuration, "every": 10}
    return out


def compute(piece: Mapping[str, Any]) -> dict[str, Any]:
    """`{"train", "valid", "sharpness": {"epoch", "weights", "logits"}, "test", "stopped"}`, and what it is of."""
    run = Run.read(piece)
    return {"dataset": run.dataset, "fraction": run.fraction, "method": run.method, **learn(run, piece["every"])}


ByFraction = dict[float, dict[str, Any]]
"""Fraction -> method -> curves."""


def _by_dataset(found: Found) -> dict[str, ByFraction]:
    out: dict[str, ByFraction] = {}
    for data in found.values():
        out.setdefault(data["dataset"], {}).setdefault(data["fraction"], {})[data["method"]] = data
    return {name: dict(sorted(out[name].items())) for name in (*MANIFOLDS, *BINARY) if name in out}


def draw(found: Found) -> list[Panel]:
    """For each data set, NLLs above and sharpness below, by fraction."""
    return [Panel("", {title_of(name): _figure(by_fraction)}, height=470) for name, by_fraction in _by_dataset(found).items()]


def _series(data: Any) -> Iterator[tuple[str, list[int], list[float]]]:
    """`train` and `valid`, with epochs and NLLs."""
    for rows in ("train", "valid"):
        yield rows, list(range(1, len(data[rows]) + 1)), numbers(data[rows])


def _range(models: dict[str, Any]) -> tuple[float, float]:
    """Of NLLs after the first few epochs, beside whose fall nothing else would be seen."""
    losses = [loss for data in models.values() for _, _, curve in _series(data) for loss in curve[4:] if isfinite(loss)]
    margin = 0.05 * (max(losses) - min(losses))
    return min(losses) - margin, max(losses) + margin


def _figure(by_fraction: ByFraction) -> Any:
    from plotly.subplots import make_subplots

    titles = [f"{percent(fraction)} of the rows" for fraction in by_fraction]
    figure = make_subplots(
        2, len(by_fraction), shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.07, horizontal_spacing=0.045
    )
    for column, models in enumerate(by_fraction.values(), start=1):
        figure.update_yaxes(range=_range(models), row=1, col=column)
        for method, data in models.items():
            line = {"color": COLOURS[method], "width": 1.6}
            for rows, epochs, losses in _series(data):
                name = f"{method_title(method)}, {rows}"
                figure.add_scatter(
                    x=epochs, y=losses, mode="lines", line={**line, "dash": "dot" if rows == "train" else "solid"}, name=name,
                    legendgroup=name, showlegend=column == 1, row=1, col=column,
                )  # fmt: skip
            measured = data["sharpness"]
            figure.add_scatter(
                x=measured["epoch"], y=numbers(measured["weights"]), mode="lines+markers", marker_size=4, line=line,
                name=f"{method_title(method)}, sharpness", showlegend=False, row=2, col=column,
            )  # fmt: skip
    figure.update_yaxes(type="log", exponentformat="power", row=2)
    figure.update_yaxes(title_text="NLL", row=1, col=1)
    figure.update_yaxes(title_text="sharpness", row=2, col=1)
    figure.update_xaxes(title_text="epoch", row=2)
    figure.update_annotations(font_size=12)
    return figure.update_layout(legend={"orientation": "h", "x": 0, "y": 1.1, "yanchor": "bottom"}, margin={"t": 80})


def plot(found: Found) -> dict[str, Any]:
    """A picture for each data set."""
    return {name: _picture(name, by_fraction) for name, by_fraction in _by_dataset(found).items()}


def _picture(name: str, by_fraction: ByFraction) -> Any:
    figure = static(2.6 * len(by_fraction) + 0.8, 5)
    figure.suptitle(title_of(name))
    grid = figure.subplots(2, len(by_fraction), sharex="col", squeeze=False)
    for column, (fraction, models) in enumerate(by_fraction.items()):
        top, bottom = grid[:, column]
        for method, data in models.items():
            for rows, epochs, losses in _series(data):
                style = ":" if rows == "train" else "-"
                top.plot(epochs, losses, style, color=COLOURS[method], label=f"{method_title(method)}, {rows}")
            bottom.plot(data["sharpness"]["epoch"], numbers(data["sharpness"]["weights"]), ".-", color=COLOURS[method])
        top.set(title=f"{percent(fraction)} of the rows", ylim=_range(models))
        bottom.set(xlabel="epoch", yscale="log")
    grid[0, 0].set_ylabel("NLL")
    grid[1, 0].set_ylabel("sharpness")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    return figure
