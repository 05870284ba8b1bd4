"""The paper's tables as declared grids of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatpc.datasets import DEBD, MANIFOLDS
from flatpc.errors import OptionError
from flatpc.paper import judges, more_rows, people, protocols, simple_densities, without_validation
from flatpc.paper.cells import Cell, Metrics
from flatpc.paper.never_lose import CONTENDERS, Options, never_lose_cell
from flatpc.paper.training import einsum_cell, hclt_cell
from flatpc.paper.uses import cells as uses
from flatpc.paper.uses.page import USES


def _grid(*strengths: float) -> tuple[str, ...]:
    return tuple(f"mu={mu}" for mu in strengths)


GRID = _grid(0.01, 0.05, 0.1, 0.5, 1.0)
"""The text's."""
DECADES = ("plain", *_grid(0.0001, 0.001, 0.01, 0.1, 1.0))
"""Ours, with no penalty at all among them."""
CHOICES = {
    "table1": {
        "text": (*GRID, "adaptive"),
        "code": (*_grid(0.01, 0.1, 0.5, 1.0), "adaptive"),
        "ours": (*DECADES, "adaptive"),
    },
    "table2": {"text": (*GRID, "mean-flow"), "code": GRID, "ours": (*DECADES, "mean-flow")},
}
LAPLACE = ("laplace=0.01", "laplace=0.1", "laplace=1")
RIVALS = {"table1": simple_densities.NAMES, "table2": (*LAPLACE, "factorized", "chow-liu")}
"""Of all protocols."""
OURS = {"table1": ("default",), "table2": ()}
"""What the protocol `ours` has besides."""
SAME = {"table1": simple_densities.NAMES, "table2": ("factorized", "chow-liu")}
"""Methods whose runs `text` and `ours` have in common: the same rows, and nothing in which the two differ."""
FRACTIONS = (0.01, 0.05, 0.1, 0.5, 1.0)
TRIALS = range(5)


@dataclass(frozen=True)
class Table:
    """A grid data set × fraction × trial × method, and what runs one of its cells."""

    name: str
    title: str
    run: Callable[[Cell, Any], Metrics]
    settings: dict[str, Any]
    """Protocols by name."""
    datasets: tuple[str, ...]
    methods: dict[str, tuple[str, ...]]
    """By protocol."""
    choices: dict[str, tuple[str, ...]]
    """By protocol: the methods among which validation NLL chooses the regularised model; `plain` among them is μ = 0."""
    quick: dict[str, Any]
    """What `--quick` restricts the grid to."""
    fractions: tuple[float, ...] = FRACTIONS
    trials: tuple[int, ...] = tuple(TRIALS)
    n_threads: int = 1
    """Of one run."""
    tolerance: float = 1e-3
    """By how much an NLL may differ when a cell is run again, relative to it or, where that is small, to 1."""
    tolerances: dict[str, float] = field(default_factory=dict)
    """Of methods that make more of a rounding error, as another processor has: what they choose may then be another model."""
    places: frozenset[tuple[str, float]] | None = None
    """The pairs of data set and fraction that are run; None is for all of them."""
    timed: tuple[str, ...] = ()
    """Methods that do as much as they can within a time, so that other machines get other numbers."""
    same: tuple[str, ...] = ()
    """Methods that the protocols `text` and `ours` do alike, so that one run counts for both."""
    missing: Callable[[Cell], str] | None = None
    """Which package a cell needs that is not installed, and how to get it, or nothing; such cells are skipped."""
    compared: tuple[str, ...] = ("train_nll", "valid_nll", "test_nll")
    """Numbers that are compared when a cell is run again; sharpness has a heavy tail, in which a rounding error may be seen."""

    def cells(
        self,
        protocol: str = "text",
        *,
        datasets: Sequence[str] | None = None,
        fractions: Sequence[float] | None = None,
        trials: Sequence[int] | None = None,
        methods: Sequence[str] | None = None,
    ) -> list[Cell]:
        """Trial by trial, so that what is cut short is complete for the first ones; small fractions first."""
        if protocol not in self.settings:
            raise OptionError(f"{self.name} has no protocol {protocol!r}; choose one of {', '.join(self.settings)}.")
        chosen = [
            _chosen("data set", datasets, self.datasets),
            _chosen("fraction", fractions, self.fractions),
            _chosen("trial", trials, self.trials),
            _chosen("method", methods, self.methods[protocol]),
        ]
        return list(self._cells(protocol, *chosen))

    def twin(self, cell: Cell) -> Cell | None:
        """The cell of another protocol whose run is the same, if there is one."""
        other = {"text": "ours", "ours": "text"}.get(cell.protocol)
        return replace(cell, protocol=other) if other is not None and cell.method in self.same else None

    def _cells(
        self, protocol: str, datasets: Sequence[str], fractions: Sequence[float], trials: Sequence[int], methods: Sequence[str]
    ) -> Iterator[Cell]:
        for trial in trials:
            for fraction in fractions:
                for dataset in datasets:
                    if self.places is not None and (dataset, fraction) not in self.places:
                        continue
                    for method in methods:
                        yield Cell(self.name, dataset, fraction, trial, method, protocol)


def _chosen(what: str, wanted: Sequence[Any] | None, known: tuple[Any, ...]) -> Sequence[Any]:
    if wanted is None:
        return known
    for value in wanted:
        if value not in known:
            raise OptionError(f"Unknown {what} {value!r}; choose among {', '.join(map(str, known))}.")
    return wanted


def _methods(name: str, protocol: str) -> tuple[str, ...]:
    more = OURS[name] if protocol == "ours" else ()
    return tuple(dict.fromkeys(("plain", *CHOICES[name][protocol], *RIVALS[name], *more)))


def _paper_table(name: str, title: str, run: Callable[[Cell, Any], Metrics], settings: dict[str, Any], **options: Any) -> Table:
    methods = {protocol: _methods(name, protocol) for protocol in settings}
    return Table(name, title, run, settings, methods=methods, choices=CHOICES[name], same=SAME[name], **options)


TABLES = {
    "table1": _paper_table(
        "table1", "Einsum Networks by Adam on the manifolds", einsum_cell,
        {name: protocols.EinsumTable(**vars(how)) for name, how in protocols.EINSUM.items()},
        datasets=tuple(sorted(MANIFOLDS)),
        quick={"datasets": ("spiral", "two_moons", "helix"), "fractions": (0.01, 0.05), "trials": (0, 1),
               "methods": ("plain", "mu=0.01", "mu=0.1", "adaptive", "kde")},
        tolerance=0.02,  # steps of Adam with a rate of 0.1 make much of a rounding error
    ),
    "table2": _paper_table(
        "table2", "Hidden Chow-Liu trees by EM on the binary benchmarks", hclt_cell,
        {name: protocols.HcltTable(**vars(how)) for name, how in protocols.HCLT.items()},
        datasets=tuple(sorted(DEBD)),
        quick={"datasets": ("nltcs", "plants", "dna"), "fractions": (0.01, 0.05), "trials": (0, 1),
               "methods": ("plain", "mu=0.1", "mu=1.0", "laplace=0.1", "factorized", "chow-liu")},
    ),
    "never-lose": Table(
        "never-lose", "Our default against simple models and rivals on the binary benchmarks", never_lose_cell,
        {"text": Options(), "code": Options(subset="first")}, tuple(sorted(DEBD)),
        {"text": CONTENDERS, "code": CONTENDERS}, {"text": ("sharpness",), "code": ("sharpness",)},
        {"datasets": ("nltcs",), "fractions": FRACTIONS[:3], "trials": (0,), "methods": CONTENDERS},
        timed=("default",),
    ),
    "full-data": Table(
        "full-data", "Our default with all rows of the binary benchmarks, two threads and two minutes for each", never_lose_cell,
        {"text": Options(time_budget=120.0, n_threads=2)}, tuple(sorted(DEBD)), {"text": ("default",)}, {"text": ()},
        {"datasets": ("nltcs",), "fractions": (1.0,), "trials": (0,), "methods": ("default",)},
        fractions=(1.0,), trials=(0,), n_threads=2, timed=("default",),
    ),
    "without-validation": Table(
        "without-validation", "Our default without validation rows, against simple models that are cross-validated",
        without_validation.run_cell, {"text": without_validation.Settings()}, tuple(sorted(DEBD)),
        {"text": without_validation.CONTENDERS}, {"text": ()},
        {"datasets": ("nltcs",), "fractions": without_validation.FRACTIONS, "trials": (without_validation.TRIAL,),
         "methods": without_validation.CONTENDERS},
        fractions=without_validation.FRACTIONS, trials=(without_validation.TRIAL,),
        places=frozenset(without_validation.PLACES),
    ),
    "tables": Table(
        "tables", "Our default on mixed and continuous tables, against mixtures, kernel densities, LearnSPN and a flow",
        people.run_cell, {"text": people.Settings()}, people.TABLES, {"text": people.METHODS}, {"text": ()},
        {"datasets": ("sklearn/iris", "sklearn/wine", "spiral"), "fractions": (1.0,), "trials": (0,),
         "methods": ("independent", "mixture", "kde", "default")},
        fractions=(1.0,), trials=people.TRIALS, timed=("flow",), missing=people.missing,
        tolerances=dict.fromkeys(("mixture", "mixture-floored", "default"), 0.02),
    ),
    "uses": Table(
        "uses", "What people do with a model of a table: gaps filled, classes predicted, rows made up, odd ones found",
        uses.run_cell, {"text": uses.Settings()}, tuple(uses.CLASSES), {"text": uses.METHODS}, {"text": ()},
        {"datasets": ("sklearn/wine",), "fractions": (1.0,), "trials": (0,),
         "methods": ("default", "tuned", "neighbours", "boosting", "isolation-forest")},
        fractions=(1.0,), trials=uses.TRIALS, missing=uses.missing,
        tolerance=0.02, tolerances=dict.fromkeys(("default", "samples", "tuned", "one-class"), 0.1),  # of as few as 36 test rows
        compared=tuple(use.metric for use in USES),
    ),
    "more-rows": Table(
        "more-rows", "Our default on diamonds, learnt from more and more rows", more_rows.run_cell,
        {"text": more_rows.Settings()}, (more_rows.TABLE,), {"text": more_rows.METHODS}, {"text": ()},
        {"datasets": (more_rows.TABLE,), "fractions": (1.0,), "trials": (0,), "methods": more_rows.METHODS[:1]},
        fractions=(1.0,), trials=more_rows.TRIALS, missing=more_rows.missing, compared=("test_nll", "bounded_nll"),
    ),
    "judges": Table(
        "judges", "Judges of models without validation rows", judges.run_cell, {"text": judges.Settings()}, tuple(sorted(DEBD)),
        {"text": judges.JUDGES}, {"text": ()},
        {"datasets": ("nltcs",), "fractions": judges.FRACTIONS, "trials": (judges.TRIAL,), "methods": judges.JUDGES},
        fractions=judges.FRACTIONS, trials=(judges.TRIAL,),
    ),
}  # fmt: skip


def table(name: str) -> Table:
    """The declared table of this name."""
    if name not in TABLES:
        raise OptionError(f"Unknown experiment {name!r}; choose one of {', '.join(TABLES)}.")
    return TABLES[name]
