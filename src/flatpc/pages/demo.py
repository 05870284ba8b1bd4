"""The demo: two small data sets, each learnt with and without sharpness-aware learning, told as a table and a page.

`run("demo")` prints the tables and writes `demo/report.html`; `make demo` and `flatpc demo` call it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import flatpc as fp
from flatpc._typing import Array
from flatpc.datasets import Splits, manifold_splits
from flatpc.learning import Fit, degree_of_overfitting

if TYPE_CHECKING:
    from rich.console import Console


PLAIN, FLAT = "plain", "sharpness-aware"
SIDE = 8
FLIPPED = 0.05


@dataclass(frozen=True)
class Example:
    """Rows, a circuit to start from, and how it is learnt."""

    title: str
    about: str
    data: Splits
    circuit: fp.Circuit
    sharpness: fp.Sharpness
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """One line of the table."""

    run: str
    name: str
    circuit: fp.Circuit
    epochs: int
    seconds: float
    train_nll: float
    valid_nll: float
    test_nll: float
    overfitting: float
    sharpness: float


@dataclass(frozen=True)
class Comparison:
    """An example, the two runs over it, and four models: the last and the best epoch of each."""

    example: Example
    runs: dict[str, Fit]
    models: list[Model]


def spiral(quick: bool = False) -> Example:
    """A two-armed spiral in the plane: 50 training rows for an Einsum Network."""
    data = manifold_splits("spiral", seed=0, fraction=0.05)
    width = 4 if quick else 10
    circuit = fp.structures.rat_spn(2, depth=1, n_repetitions=width, n_sums=width, n_inputs=width).randomize(0, X=data.train)
    return Example(
        "Spiral",
        f"Points on a two-armed spiral with a little noise: {len(data.train)} to learn from, {len(data.valid):,} to validate "
        f"and {len(data.test):,} to test. The model is an Einsum Network with Gaussian inputs and {circuit.n_parameters:,} "
        "parameters, learnt by Adam.",
        data,
        circuit,
        fp.Sharpness(mu=0.03),
        {"method": fp.Adam(0.05), "epochs": 10 if quick else 200},
    )


def bars(quick: bool = False) -> Example:
    """Noisy pictures of bars: 100 training rows of 64 bits for a hidden Chow-Liu tree."""
    # Of five seeds, the one with the median difference between the penalty and the plain model stopped early.
    data = Splits("bars", *(bar_pictures(n, seed) for seed, n in enumerate((100, 500, 500), start=20)))
    circuit = fp.structures.hclt(data.train, n_latents=4 if quick else 16, seed=2)
    return Example(
        "Bars",
        f"Black-and-white pictures of {SIDE} by {SIDE} pixels that hold one lying or standing bar, each pixel flipped with "
        f"probability {FLIPPED}: {len(data.train)} to learn from, {len(data.valid)} to validate and {len(data.test)} to test. "
        f"The model is a hidden Chow-Liu tree with {circuit.n_parameters:,} parameters, learnt by EM.",
        data,
        circuit,
        fp.Sharpness(mu=0.1, unit="mean-flow", inputs=True),
        {"method": fp.EM(0.3), "epochs": 10 if quick else 100, "batch_size": None},
    )


EXAMPLES: tuple[Callable[[bool], Example], ...] = (spiral, bars)


def bar_pictures(n: int, seed: int) -> Array:
    """`[n, 64]` bits: a bar two pixels thick, lying or standing, with noise."""
    rng = np.random.default_rng(seed)
    bits = np.zeros((n, SIDE, SIDE), dtype=bool)
    for picture in bits:
        start, lies = rng.integers(0, SIDE - 1), rng.random() < 0.5
        (picture if lies else picture.T)[start : start + 2] = True
    return (bits ^ (rng.random(bits.shape) < FLIPPED)).reshape(n, -1).astype(np.float64)


def learn(example: Example, sharpness: fp.Sharpness | None, sharpness_every: int = 5, **changes: Any) -> Fit:
    """One run over the example."""
    run = fp.learning.Run(sharpness_every=sharpness_every)
    options = {"valid": example.data.valid, "run": run, "progress": False, "dtype": "float64", **example.options, **changes}
    return fp.fit(example.circuit, example.data.train, sharpness=sharpness, **options)


def compare(example: Example) -> Comparison:
    """Learn the example's circuit twice from the same start, and measure the last and the best epoch of each."""
    settings = {PLAIN: None, FLAT: example.sharpness}
    for sharpness in settings.values():  # compiles what isn't compiled yet, so that neither run is charged for it
        learn(example, sharpness, epochs=1, sharpness_every=1)
    runs = {name: learn(example, sharpness) for name, sharpness in settings.items()}
    models = []
    for name, run in runs.items():
        models.append(measure(name, name, run.circuit, len(run.history), run, example.data))
        models.append(measure(name, f"{name}, stopped early", run.best_circuit, run.best_epoch, run, example.data))
    return Comparison(example, runs, models)


def measure(run: str, name: str, circuit: fp.Circuit, epochs: int, fit: Fit, data: Splits) -> Model:
    """The numbers of one model; its seconds are those of the run up to its epoch."""
    train, valid, test = (-float(circuit.log_prob(rows).mean()) for rows in (data.train, data.valid, data.test))
    sharpness = float(fp.curvature.trace(circuit, data.train).mean())
    seconds = float(fit.history["seconds"][epochs - 1])
    return Model(run, name, circuit, epochs, seconds, train, valid, test, degree_of_overfitting(train, test), sharpness)


def findings(models: list[Model]) -> str:
    """What the numbers say, whichever way they fall, in Markdown.

    The first two models are the plain ones, last and best epoch; the third is the regularised one's last epoch.
    """
    plain, stopped, flat = models[:3]
    gap, flat_gap = plain.test_nll - plain.train_nll, flat.test_nll - flat.train_nll
    words = [
        f"After its last epoch the plain model is {gap:.2f} nats worse on test rows than on training rows, the "
        f"sharpness-aware one {flat_gap:.2f}; its test NLL is {_than(flat.test_nll, plain.test_nll)}, {flat.test_nll:.2f} "
        f"instead of {plain.test_nll:.2f}.",
        f"Stopping the plain model at its best validation epoch, {stopped.epochs}, gives {stopped.test_nll:.2f}; the "
        f"sharpness-aware model, which needed no validation rows to stop by, is {_than(flat.test_nll, stopped.test_nll)} than "
        f"that by {abs(flat.test_nll - stopped.test_nll):.2f}. Its sharpness is {flat.sharpness:,.0f}; that of the stopped one "
        f"is {stopped.sharpness:,.0f}, that of the plain one {plain.sharpness:,.0f}.",
    ]
    return "\n\n".join(words)


def _than(ours: float, theirs: float) -> str:
    return "better" if ours < theirs else "worse"


def run(folder: str | os.PathLike[str] = "demo", *, quick: bool = False, console: Console | None = None) -> Path:
    """Learn, print the tables, and write the page and the models into `folder`; returns the page's path.

    `quick` takes models so small and runs so short that nothing is learnt: it is for trying out the page.
    """
    from rich.console import Console

    from flatpc.compile_kernels import compile_kernels
    from flatpc.pages.demo_page import write_page

    compile_kernels()
    console = console or Console()
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    compared = []
    for make in EXAMPLES:
        example = make(quick)
        with console.status(f"{example.title}: learning without and with the penalty"):
            comparison = compare(example)
        compared.append(comparison)
        console.print(_printed(comparison))
        for name, each in comparison.runs.items():
            each.circuit.save(home / f"{example.data.name}-{name}.safetensors")
    with console.status("Loss landscapes, spectra and the page"):
        path = write_page(compared, home / "report.html", quick=quick)
    console.print(f"Open [bold]{path}[/bold] in a browser: learning curves, loss landscapes, Hessian spectra and samples.")
    console.print(f"The circuits are beside it; flatpc.load({str(home / 'spiral-plain.safetensors')!r}) reads one.")
    return path


def _printed(comparison: Comparison) -> Any:
    """The table, narrow enough for a terminal of 80 columns."""
    from rich import box
    from rich.table import Table

    example, models = comparison.example, comparison.models
    title = f"{example.title}: mean NLL after learning from {len(example.data.train)} rows"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("model")
    for head in ("train", "valid", "test", "overfit", "sharpness", "epoch", "time"):
        table.add_column(head, justify="right")
    best = min(models, key=lambda model: model.test_nll)
    for model in models:
        test = f"[bold]{model.test_nll:.3f}[/bold]" if model is best else f"{model.test_nll:.3f}"
        overfit, sharpness = f"{model.overfitting:,.0f}%", f"{model.sharpness:,.0f}"
        numbers = (f"{model.train_nll:.3f}", f"{model.valid_nll:.3f}", test, overfit, sharpness)
        table.add_row(model.name.replace(f"{model.run}, ", "  "), *numbers, str(model.epochs), f"{model.seconds:.1f} s")
    return table
