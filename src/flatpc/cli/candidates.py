"""Which models `flatpc fit` learns, how each one starts, and which of them it keeps."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.families import Bernoulli, Categorical, Family, Gaussian
from flatpc.errors import OptionError
from flatpc.learning.fitting import fit
from flatpc.learning.history import History, Row
from flatpc.learning.notes import LearningWarning
from flatpc.learning.selection import GRID
from flatpc.learning.sharpness import Sharpness

Array = NDArray[np.float64]
Mu = float | str

COUNTED = ("factorized", "chow-liu")
"""Structures whose parameters are counted from the rows; there is nothing to learn step by step."""
LATENTS = {"hclt": 32, "rat-spn": 10}
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
    epochs: int = 100
    batch_size: int | None = None
    step_size: float | None = None
    pseudocount: float | None = None
    patience: int = 10
    budget: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """One model to learn."""

    structure: str
    mu: Mu = 0.0

    def __str__(self) -> str:
        mu = self.mu if isinstance(self.mu, str) else f"{self.mu:g}"
        return self.structure if self.structure in COUNTED else f"{self.structure}, mu {mu}"


@dataclass(frozen=True)
class Candidate:
    """A plan and what came of it."""

    plan: Plan
    circuit: Circuit
    valid_nll: float
    """NaN without validation rows."""
    history: History = field(default_factory=History)
    best_epoch: int = 0
    stopped: str = ""
    notes: tuple[str, ...] = ()


def plans(settings: Settings, families: Sequence[Family], judged: bool) -> list[Plan]:
    """What to learn: one model for each μ in question and, if the structure is open, those that are counted."""
    tables = all(isinstance(family, Bernoulli | Categorical) for family in families)
    structure = settings.structure
    if structure == "chow-liu" and not tables:
        raise OptionError(
            "--structure chow-liu is for binary and categorical columns only; choose hclt or rat-spn for this table."
        )
    if structure in COUNTED:
        if settings.mu != "auto":
            raise OptionError(f"--mu is for models that are learnt step by step, and {structure} is counted; leave it out.")
        return [Plan(structure)]
    if settings.mu == "auto" and not judged:
        raise OptionError("--mu auto chooses by validation rows; give some with --valid, or a number such as --mu 0.1.")
    mus: Sequence[Mu] = GRID if settings.mu == "auto" else (settings.mu,)
    if structure != "auto":
        return [Plan(structure, mu) for mu in mus]
    continuous = all(isinstance(family, Gaussian) for family in families)
    learnt = [Plan("rat-spn" if continuous else "hclt", mu) for mu in mus]
    # Counting takes no time, and what learning can't beat is not worth having.
    counted = COUNTED if tables else COUNTED[:1]
    return [*(Plan(name) for name in counted if judged), *learnt]


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
        self._starts: dict[str, Circuit] = {}

    def learn(self, plan: Plan) -> Candidate:
        """A candidate; Ctrl-C ends it early, with what it has learnt so far."""
        start = self._start(plan.structure)
        if plan.structure in COUNTED:
            return Candidate(plan, start, self._valid_nll(start), stopped="counted")
        settings = self.settings
        with warnings.catch_warnings():
            # What they say is among the notes.
            warnings.simplefilter("ignore", LearningWarning)
            result = fit(
                start, self.train, valid=self.valid, method=settings.method, epochs=settings.epochs, **self._steps(),
                **self._pseudocount(), sharpness=Sharpness(mu=plan.mu) if plan.mu != 0 else None, seed=settings.seed,
                early_stopping=settings.patience if self.valid is not None and settings.patience else None,
                time_budget=None if math.isinf(self._end) else max(self._end - time.monotonic(), 1e-3),
                callbacks=[lambda row, _: self.watch(plan, row)], missing="marginalize", progress=False,
            )  # fmt: skip
        valid_nll = self._valid_nll(result.circuit)
        return Candidate(plan, result.circuit, valid_nll, result.history, result.best_epoch, result.stopped, tuple(result.notes))

    def _start(self, structure: str) -> Circuit:
        if structure not in self._starts:
            self._starts[structure] = self._build(structure)
        return self._starts[structure]

    def _build(self, structure: str) -> Circuit:
        from flatpc import structures
        from flatpc.estimator.starting import start_at_clusters

        settings, n = self.settings, self.train.shape[1]
        families = list(self.families)
        smoothing = 1.0 if settings.pseudocount is None else settings.pseudocount
        if structure == "factorized":
            return structures.factorized(self.train, families, smoothing)
        if structure == "chow-liu":
            return structures.chow_liu(self.train, smoothing, families)
        width = settings.latents or LATENTS[structure]
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
