"""The paper's tables as declared grids of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flatpc.data import DEBD, MANIFOLDS
from flatpc.errors import OptionError
from flatpc.experiments import protocols
from flatpc.experiments.cells import Cell, Metrics
from flatpc.experiments.never_lose import CONTENDERS, Options, never_lose_cell
from flatpc.experiments.training import einsum_cell, hclt_cell

GRID = tuple(f"mu={mu}" for mu in (0.01, 0.05, 0.1, 0.5, 1.0))
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
    methods: tuple[str, ...]
    regularised: tuple[str, ...]
    """Methods among which validation NLL chooses the regularised model."""
    quick: dict[str, Any]
    """What `--quick` restricts the grid to."""
    fractions: tuple[float, ...] = FRACTIONS
    trials: tuple[int, ...] = tuple(TRIALS)
    n_threads: int = 1
    """Of one run."""

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
        protocols.check_name(protocol)
        chosen = [
            _chosen("data set", datasets, self.datasets),
            _chosen("fraction", fractions, self.fractions),
            _chosen("trial", trials, self.trials),
            _chosen("method", methods, self.methods),
        ]
        return list(self._cells(protocol, *chosen))

    def _cells(
        self, protocol: str, datasets: Sequence[str], fractions: Sequence[float], trials: Sequence[int], methods: Sequence[str]
    ) -> Iterator[Cell]:
        for trial in trials:
            for fraction in fractions:
                for dataset in datasets:
                    for method in methods:
                        yield Cell(self.name, dataset, fraction, trial, method, protocol)


def _chosen(what: str, wanted: Sequence[Any] | None, known: tuple[Any, ...]) -> Sequence[Any]:
    if wanted is None:
        return known
    for value in wanted:
        if value not in known:
            raise OptionError(f"Unknown {what} {value!r}; choose among {', '.join(map(str, known))}.")
    return wanted


TABLES = {
    "table1": Table(
        "table1", "Einsum Networks by Adam on the manifolds", einsum_cell, dict(protocols.EINSUM), tuple(sorted(MANIFOLDS)),
        ("plain", *GRID, "adaptive"), (*GRID, "adaptive"),
        {"datasets": ("spiral", "two_moons", "helix"), "fractions": (0.01, 0.05), "trials": (0, 1),
         "methods": ("plain", "mu=0.01", "mu=0.1", "adaptive")},
    ),
    "table2": Table(
        "table2", "Hidden Chow-Liu trees by EM on the binary benchmarks", hclt_cell, dict(protocols.HCLT), tuple(sorted(DEBD)),
        ("plain", *GRID, "mean-flow", "laplace=0.01", "laplace=0.1", "laplace=1", "factorized", "chow-liu"), (*GRID, "mean-flow"),
        {"datasets": ("nltcs", "plants", "dna"), "fractions": (0.01, 0.05), "trials": (0, 1),
         "methods": ("plain", "mu=0.1", "mu=1.0", "laplace=0.1", "factorized", "chow-liu")},
    ),
    "never-lose": Table(
        "never-lose", "Our default against simple models and rivals on the binary benchmarks", never_lose_cell,
        {"text": Options(), "code": Options(subset="first")}, tuple(sorted(DEBD)), CONTENDERS, ("sharpness",),
        {"datasets": ("nltcs",), "fractions": FRACTIONS[:3], "trials": (0,), "methods": CONTENDERS},
    ),
    "full-data": Table(
        "full-data", "Our default with all rows of the binary benchmarks, two threads and two minutes for each", never_lose_cell,
        {name: Options(time_budget=120.0, n_threads=2) for name in protocols.NAMES}, tuple(sorted(DEBD)),
        ("default",), (),
        {"datasets": ("nltcs",), "fractions": (1.0,), "trials": (0,), "methods": ("default",)},
        fractions=(1.0,), trials=(0,), n_threads=2,
    ),
}  # fmt: skip


def table(name: str) -> Table:
    """The declared table of this name."""
    if name not in TABLES:
        raise OptionError(f"Unknown experiment {name!r}; choose one of {', '.join(TABLES)}.")
    return TABLES[name]
