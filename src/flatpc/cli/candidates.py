"""Which models `flatpc fit` learns, how each one starts, and which of them it keeps."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Categorical, Family, Gaussian
from flatpc.cli.wording import in_options
from flatpc.errors import OptionError
from flatpc.learning.fitting import fit
from flatpc.learning.history import Row
from flatpc.learning.notes import LearningWarning
from flatpc.learning.selection import GRID
from flatpc.learning.sharpness import Sharpness

Array = NDArray[np.float64]
Mu = float | str

COUNTED = ("factorized", "chow-liu")
"""Structures whose parameters are counted from the rows; there is nothing to learn step by step."""
SIZES = {"hclt": (4, 16, 32), "rat-spn": (4, 10)}
"""States of a latent that are tried where validation rows can tell; else the second. Never more than a quarter of the rows."""
FIRST = 0.1
"""The μ with which sizes are compared."""
DEPTH = 3
"""The most cuts of a random region graph, unless told otherwise."""
FULL_BATCH = 2000
"""Rows up to which a step of EM takes them all."""


@dataclass(frozen=True)
class Settings:
    """What the user says of learning; None leaves it open."""

    structure: str = "auto"
    latents: int | None = None
    depth: int | None = None
    mu: Mu = "auto"
    method: str = "em"
    epochs: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    pseudocount: float | None = None
    patience: int | None = None
    budget: float | None = None
    seed: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the user has decided nothing but how long it may take."""
        return replace(self, budget=None, seed=0) == Settings()

    @property
    def most_epochs(self) -> int:
        """Of one model."""
        return 100 if self.epochs is None else self.epochs

    @property
    def most_patience(self) -> int:
        """Epochs without a better validation NLL; 0 for ever."""
        return 10 if self.patience is None else self.patience


@dataclass(frozen=True)
class Plan:
    """One model to learn."""

    structure: str
    latents: int = 0
    mu: Mu = 0.0
    title: str = ""

    def __str__(self) -> str:
        if self.title:
            return self.title
        mu = self.mu if isinstance(self.mu, str) else f"{self.mu:g}"
        return self.structure if self.structure in COUNTED else f"{self.structure}, {self.latents} latents, mu {mu}"


@dataclass(frozen=True)
class Candidate:
    """A plan and what came of it."""

    plan: Plan
    circuit: Circuit
    valid_nll: float
    """NaN without validation rows."""
    epochs: int = 0
    stopped: str = ""
    notes: tuple[str, ...] = ()
    weight: float = 0.0
    """Its share, if the model is an average of several."""


class Plans:
    """What to learn, one after another: models that are counted, then sizes, then values of μ for the best size."""

    def __init__(self, settings: Settings, families: Sequence[Family], n_rows: int, judged: bool) -> None:
        tables = all(isinstance(family, Bernoulli | Categorical) for family in families)
        self.structure, self.mu = settings.structure, settings.mu
        self.counted: tuple[str, ...] = ()
        self.sizes: tuple[int, ...] = ()
        if self.structure == "chow-liu" and not tables:
            raise OptionError(
                "--structure chow-liu is for binary and categorical columns only; choose hclt or rat-spn for this table."
            )
        if self.structure in COUNTED:
            if self.mu != "auto":
                raise OptionError(f"--mu is for what is learnt step by step, and {self.structure} is counted; leave it out.")
            self.counted = (self.structure,)
            return
        if self.mu == "auto" and not judged:
            raise OptionError("--mu auto chooses by validation rows; give some with --valid, or a number such as --mu 0.1.")
        if self.structure == "auto":
            self.structure = "rat-spn" if all(isinstance(family, Gaussian) for family in families) else "hclt"
            # Counting takes no time, and what learning can't beat is not worth having.
            self.counted = () if not judged else COUNTED if tables else COUNTED[:1]
        sizes = SIZES[self.structure] if judged else SIZES[self.structure][1:2]
        fitting = sorted({min(size, max(2, n_rows // 4)) for size in sizes})
        self.sizes = (settings.latents,) if settings.latents else tuple(fitting)

    def __len__(self) -> int:
        return len(self.counted) + len(self.sizes) + (len(GRID) - 1 if self.sizes and self.mu == "auto" else 0)

    def __call__(self, done: Sequence[Candidate]) -> Iterator[Plan]:
        """The plans; `done` grows meanwhile."""
        yield from (Plan(name) for name in self.counted)
        first = FIRST if self.mu == "auto" else self.mu
        yield from (Plan(self.structure, size, first) for size in self.sizes)
        if self.sizes and self.mu == "auto":
            best = best_of([candidate for candidate in done if candidate.plan.latents]).plan
            yield from (replace(best, mu=mu) for mu in GRID if mu != FIRST)


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """By validation NLL, the first of equals; the last one that has been learnt if there is nothing to judge by."""
    judged = [candidate for candidate in candidates if not math.isnan(candidate.valid_nll)]
    return min(judged, key=lambda candidate: candidate.valid_nll) if judged else candidates[-1]


class Learner:
    """Learns one plan after another from the same rows, in units in which continuous columns have mean 0 and variance 1."""

    def __init__(
        self,
        settings: Settings,
        train: Array,
        valid: Array | None,
        families: Sequence[Family],
        watch: Callable[[Plan, Row], None],
    ) -> None:
        self.settings, self.train, self.valid, self.families = settings, train, valid, families
        self.watch = watch
        self._end = math.inf if settings.budget is None else time.monotonic() + settings.budget
        self._starts: dict[tuple[str, int], Circuit] = {}

    def learn(self, plan: Plan) -> Candidate:
        """A candidate; Ctrl-C ends it early, with what it has learnt so far."""
        start = self._start(plan.structure, plan.latents)
        if plan.structure in COUNTED:
            return Candidate(plan, start, self._valid_nll(start), stopped="counted")
        settings = self.settings
        with warnings.catch_warnings():
            # What they say is among the notes.
            warnings.simplefilter("ignore", LearningWarning)
            result = fit(
                start, self.train, valid=self.valid, method=settings.method, epochs=settings.most_epochs, **self._steps(),
                **self._pseudocount(), sharpness=Sharpness(mu=plan.mu) if plan.mu != 0 else None, seed=settings.seed,
                early_stopping=settings.most_patience if self.valid is not None and settings.most_patience else None,
                time_budget=None if math.isinf(self._end) else max(self._end - time.monotonic(), 1e-3),
                callbacks=[lambda row, _: self.watch(plan, row)], missing="marginalize", progress=False,
            )  # fmt: skip
        valid_nll = self._valid_nll(result.circuit)
        notes = tuple(in_options(note) for note in result.notes)
        return Candidate(plan, result.circuit, valid_nll, len(result.history), result.stopped, notes)

    def _start(self, structure: str, width: int) -> Circuit:
        if (structure, width) not in self._starts:
            self._starts[structure, width] = self._build(structure, width)
        return self._starts[structure, width]

    def _build(self, structure: str, width: int) -> Circuit:
        from flatpc import structures
        from flatpc.estimator.starting import start_at_clusters

        settings, n = self.settings, self.train.shape[1]
        families = list(self.families)
        smoothing = 1.0 if settings.pseudocount is None else settings.pseudocount
        if structure == "factorized":
            return structures.factorized(self.train, families, smoothing)
        if structure == "chow-liu":
            return structures.chow_liu(self.train, smoothing, families)
        pseudocount = self._pseudocount().get("pseudocount", 0.0)
        if structure == "hclt":
            made = structures.hclt(self.train, width, families, seed=settings.seed)
            return start_at_clusters(made, self.train, settings.seed, pseudocount)
        depth = settings.depth if settings.depth is not None else min(DEPTH, max(1, int(math.log2(n))))
        made = structures.rat_spn(n, depth, n_sums=width, n_inputs=width, family=families, seed=settings.seed)
        if all(isinstance(family, Gaussian) for family in families):
            # A cut pairs all units of its halves, so that each variable is clustered on its own.
            return made.randomize(settings.seed, X=self.train)
        return start_at_clusters(made, self.train, settings.seed, pseudocount)

    def _steps(self) -> dict[str, Any]:
        """Few rows: all of them at every step of EM, which then climbs with each; else batches and smaller steps."""
        settings = self.settings
        few = settings.method == "em" and len(self.train) <= FULL_BATCH and settings.batch_size is None
        step_size = 1.0 if few else 0.3 if settings.method == "em" else 0.1
        batch_size = settings.batch_size if settings.batch_size is not None else None if few else 200
        return {"batch_size": batch_size, "step_size": step_size if settings.step_size is None else settings.step_size}

    def _pseudocount(self) -> dict[str, Any]:
        if self.settings.pseudocount is not None:
            return {"pseudocount": self.settings.pseudocount}
        # A tenth of a row keeps values possible that training never had.
        return {"pseudocount": 0.1} if self.settings.method == "em" else {}

    def _valid_nll(self, circuit: Circuit) -> float:
        return math.nan if self.valid is None else -float(np.mean(circuit.log_prob(self.valid, missing="marginalize")))
