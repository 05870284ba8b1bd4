"""The page of the demo: a tab for each example, and one that says how to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import flatpc as fp
from flatpc.pages.demo import FLAT, PLAIN, SIDE, Comparison, findings
from flatpc.pages.html_tables import Column
from flatpc.pages.page import Blocks, Page
from flatpc.pages.plots import density_maps, eigenvalue_bars, learning_curves, sharpness_curves, spectral_densities, surfaces

LEAD = """The same circuit is learnt twice from the same few rows and the same start: plainly, and with a penalty on the exact
curvature of its likelihood. Everything on this page was computed on your machine a moment ago, in one run with one seed."""

READING = """
- **NLL** is the mean negative log-likelihood per row, in nats; lower is better. For continuous data it is that of a density and
  can be negative.
- **overfitting** is the paper's degree of overfitting between training and test rows, 100 · |test − train| / |train|. Where the
  training NLL is near 0 or negative the percentage says little; the column *test − train* is the same gap in nats.
- **sharpness** is the trace of the Hessian of the negative log-likelihood in all sum weights, per training row: exact, by
  `fp.curvature.trace`.
- **stopped early** is the model of the epoch with the best validation NLL. It needs validation rows, and here it has many more of
  them than training rows; a comparison without it would flatter the penalty.
- **epochs** and **seconds** lead up to that model; the seconds include measuring sharpness every fifth epoch, but not
  compiling the kernels, which happens once.
- **Loss landscapes** walk away from each solution along the same two random, filter-normalised directions in logits and show how
  far the loss rises above the solution's own. Axes and colours are the same for both; a surface is cut off at four times the
  height of the other.
- **Spectra** are those of the Hessian of the mean negative log-likelihood over the training rows, in the weights: the largest
  eigenvalues by Lanczos iteration, and the density of all by stochastic Lanczos quadrature.

One run is an illustration, not evidence, and these two examples were picked: data, start, sizes and the strength μ of the penalty
come from dozens of settings that were tried with an eye on the test NLL. Where the plain model overfitted badly, the penalty
narrowed the gap. Against the plain model *stopped early* it won in some, such as the spiral here, and lost in others: the same
Einsum Network from a start that ignores the data, or bars with μ in counts. `flatpc reproduce` compares over many data
sets and seeds, and `fp.search.select` chooses μ by validation rows.
"""


def write_page(compared: list[Comparison], path: Path, *, quick: bool = False) -> Path:
    """Compute what the page shows beyond the tables, and write it."""
    page = Page("Sharp and flat circuits", LEAD, footer=f"Made by flatpc {fp.__version__}.")
    for comparison in compared:
        _tell(page.tab(comparison.example.title), comparison, quick)
    page.tab("How to read this").text(READING)
    return page.write(path)


def _tell(tab: Blocks, comparison: Comparison, quick: bool) -> None:
    example, runs = comparison.example, comparison.runs
    data = example.data
    circuits = {name: run.circuit for name, run in runs.items()}
    histories = {name: run.history for name, run in runs.items()}
    tab.text(example.about)
    _tabulate(tab, comparison)
    tab.text(findings(comparison.models))

    tab.heading("Learning")
    curves = {"Likelihood": learning_curves(histories), "Sharpness": sharpness_curves(histories)}
    tab.figures(curves, note="Dashed: training rows; solid: validation rows, with a dot at the best epoch.")

    if data.train.shape[1] == 2:
        tab.heading("Density")
        note = "Orange dots: training rows; white specks: test rows. Both maps have one scale, cut off 10 nats below the top."
        maps = density_maps({_long(name): circuit for name, circuit in circuits.items()}, data.train, data.test)
        tab.figures(maps, note=note, height=430)
    else:
        tab.heading("Samples and guesses")
        _draw_pictures(tab, comparison)

    tab.heading("Loss landscape")
    found: dict[str, fp.curvature.Landscape] = {}
    directions: Any = "random"
    for name, circuit in circuits.items():
        surface = fp.curvature.landscape(circuit, data.train, n_steps=7 if quick else 25, directions=directions)
        found[_long(name)] = surface
        directions = surface.directions  # the second circuit is seen along the same ones
    tab.figures(surfaces(found), height=440, linked=True, note="Loss over the training rows. Drag to turn; both turn together.")

    tab.heading("Hessian spectrum")
    k, n_vectors, n_steps = (5, 1, 10) if quick else (15, 4, 40)
    top, density = {}, {}
    for name, circuit in circuits.items():
        top[name] = fp.curvature.eigenvalues(circuit, data.train, k, reduction="mean", tolerance=1e-4)
        options: Any = {"reduction": "mean", "n_vectors": n_vectors, "n_steps": n_steps}
        density[name] = fp.curvature.spectral_density(circuit, data.train, **options)
    tab.figures({"Largest eigenvalues": eigenvalue_bars(top), "Density of all eigenvalues": spectral_densities(density)})


def _tabulate(tab: Blocks, comparison: Comparison) -> None:
    columns: list[Column | str] = [
        "model",
        Column("train NLL", ".3f"),
        Column("valid NLL", ".3f"),
        Column("test NLL", ".3f", best="min"),
        Column("test − train", ".3f", best="min", hint="nats per row"),
        Column("overfitting, %", ",.0f", hint="100 · |test − train| / |train|"),
        Column("sharpness", ",.0f", best="min", hint="trace of the Hessian per training row"),
        Column("epochs"),
        Column("seconds", ".1f"),
    ]
    rows = [
        [m.name, m.train_nll, m.valid_nll, m.test_nll, m.test_nll - m.train_nll, m.overfitting, m.sharpness, m.epochs, m.seconds]
        for m in comparison.models
    ]
    tab.table(columns, rows, file=f"{comparison.example.data.name}.csv")


def _draw_pictures(tab: Blocks, comparison: Comparison) -> None:
    data, n = comparison.example.data, 12

    def as_pictures(rows: Any) -> Any:
        return np.asarray(rows).reshape(-1, SIDE, SIDE)

    hidden = data.test[:n].copy()
    hidden[:, SIDE * SIDE // 2 :] = np.nan
    rows = {"training rows": as_pictures(data.train[:n])}
    for name, run in comparison.runs.items():
        rows[f"drawn from the {name} circuit"] = as_pictures(run.circuit.sample(n, seed=0))
    rows["test rows, lower half hidden"] = as_pictures(hidden)
    for name, run in comparison.runs.items():
        rows[f"the {name} circuit's mean given the upper half"] = as_pictures(run.circuit.expectation(hidden))
    rows["what was hidden"] = as_pictures(data.test[:n])
    tab.pictures(rows, pixel=7)


def _long(name: str) -> str:
    return {PLAIN: "Plain", FLAT: "Sharpness-aware"}[name]
