"""One call of `flatpc fit`: read the rows, learn, save, measure, show."""

from __future__ import annotations

import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.cli import choosing
from flatpc.cli.application import say
from flatpc.cli.candidates import Candidate, Learner, Plans, Settings, best_of
from flatpc.cli.output import console, number, show_table
from flatpc.cli.progress import Bar
from flatpc.cli.sources import aligned, read_columns, read_source
from flatpc.data.columns import Columns
from flatpc.errors import DataError, FlatpcError
from flatpc.estimator.scaling import Scaling, in_users_units
from flatpc.learning.history import degree_of_overfitting

Array = NDArray[np.float64]

SHARE = 0.2
"""Of the rows by which models are judged, where the data has none for it."""
SHOWN = 10
"""Candidates that are shown, at the most."""
COLUMNS = 40
"""Columns that are shown one by one, at the most."""
SHARPNESS_ROWS = 2000
"""Sharpness is a mean over so many training rows at most, the first ones."""


class Run:
    """Rows by role, and what is learnt from them."""

    def __init__(
        self, data: str, settings: Settings, valid: str | None, share: float | None, fraction: float, kinds: dict[str | int, str],
        missing: str, unseen: str, quiet: bool,
    ) -> None:  # fmt: skip
        self.candidates: list[Candidate] = []
        self.settings, self._missing, self._unseen, self._quiet = settings, missing, unseen, quiet
        source = read_source(data, settings.seed, fraction)
        table = read_columns(source.train, source.name)
        self.columns = Columns.learn(table, kinds or None)
        if not quiet:
            _show_columns(self.columns)
        rows = self.columns.encode(table, missing)
        self.train, self.valid = rows, None
        if valid is not None:
            other = read_source(valid)
            self.valid = self._encoded(other.valid if other.valid is not None else other.train, valid)
        elif share is None and source.valid is not None:
            self.valid = self._encoded(source.valid, f"{data}, validation rows")
        elif share != 0:
            self.train, self.valid = _cut(rows, SHARE if share is None else share, settings.seed, data)
        self.test = None if source.test is None else self._encoded(source.test, f"{data}, test rows")
        continuous = np.array([column.kind == "continuous" for column in self.columns.columns])
        self.scaling = Scaling.learn(self.train, continuous, self.columns.names)

    def _encoded(self, rows: Any, name: str) -> Array:
        try:
            return self.columns.encode(aligned(read_columns(rows, name), self.columns, name), self._missing, self._unseen)
        except FlatpcError as error:
            raise type(error)(str(error) if name in str(error) else f"{name}: {error}") from None

    # ---- learning -------------------------------------------------------------------------------------------------

    def learn(self, output: Path) -> None:
        """Learn every candidate and save the best one; Ctrl-C or the time budget ends with the best so far."""
        from flatpc.data.model_files import save_model

        begin = time.monotonic()
        families = self.columns.families
        train, valid = self.scaling.apply(self.train), None if self.valid is None else self.scaling.apply(self.valid)
        if choosing.is_for(self.settings, families, valid is not None):
            self.candidates, self.chosen = choosing.search(self.settings, train, valid, families, self._quiet)
            self.left_out, self.interrupted = 0, self.chosen.stopped == "interrupted"
        else:
            self._try_all(train, valid)
        self.circuit = in_users_units(self.chosen.circuit, self.scaling)
        self.seconds = time.monotonic() - begin
        # Before anything else is computed: from here on what was learnt is safe.
        save_model(output, self.circuit, self.columns, self._about())

    def _try_all(self, train: Array, valid: Array | None) -> None:
        families = self.columns.families
        plans = Plans(self.settings, families, len(self.train), self.valid is not None)
        self.candidates = []
        with Bar(len(plans), self.settings.most_epochs, self.volume) as bar:
            learner = Learner(self.settings, train, valid, families, bar.watch)
            try:
                for plan in plans(self.candidates):
                    bar.begin(plan)
                    self.candidates.append(learner.learn(plan))
                    if self.candidates[-1].stopped in ("interrupted", "time budget"):
                        break
                self.interrupted = self.candidates[-1].stopped == "interrupted"
            except KeyboardInterrupt:  # between two models, while nothing is learnt
                if not self.candidates:
                    raise
                self.interrupted = True
        self.left_out = len(plans) - len(self.candidates)
        self.chosen = best_of(self.candidates)

    @property
    def volume(self) -> float:
        """What NLLs in the user's units are larger by, on average over the training rows."""
        return float(self.scaling.log_volume(self.train).mean())

    def _about(self) -> dict[str, Any]:
        import flatpc

        return {
            "flatpc": flatpc.__version__,
            "structure": self.chosen.plan.structure,
            "latents": self.chosen.plan.latents,
            "mu": self.chosen.plan.mu,
            "method": self.settings.method,
            "epochs": self.chosen.epochs,
            "seed": self.settings.seed,
            "train_rows": len(self.train),
            "valid_rows": 0 if self.valid is None else len(self.valid),
        }

    # ---- what came of it ------------------------------------------------------------------------------------------

    def measure(self, output: Path) -> dict[str, Any]:
        """Everything there is to say of the result, as plain data."""
        from flatpc.curvature import trace
        from flatpc.estimator.reports import free_parameters

        splits = {"train": self.train, "valid": self.valid, "test": self.test}
        nll = {name: _nll(self.circuit, rows) for name, rows in splits.items()}
        sharpness = float(np.mean(trace(self.circuit, self.train[:SHARPNESS_ROWS], missing="marginalize")))
        return {
            "model": output,
            **self._about(),
            "free_parameters": free_parameters(self.circuit),
            "columns": [
                {"name": c.name, "kind": c.kind, "why": c.why, "categories": list(c.categories)} for c in self.columns.columns
            ],
            "nll": nll,
            "overfitting_percent": degree_of_overfitting(nll["train"], nll["valid"]),
            "sharpness": sharpness,
            "stopped": self.chosen.stopped,
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "candidates": [
                {
                    "structure": c.plan.structure,
                    "latents": c.plan.latents,
                    "mu": c.plan.mu,
                    "valid_nll": c.valid_nll + self._valid_volume(),
                    "epochs": c.epochs,
                    "weight": c.weight or float(c is self.chosen),
                }
                for c in self.candidates
            ],
            "notes": list(self.chosen.notes),
        }

    def _valid_volume(self) -> float:
        return math.nan if self.valid is None else float(self.scaling.log_volume(self.valid).mean())

    def show(self, found: dict[str, Any]) -> None:
        """The same for people."""
        if len(self.candidates) > 1:
            tried = []
            for candidate, numbers in list(zip(self.candidates, found["candidates"], strict=True))[:SHOWN]:
                epochs = str(candidate.epochs) if candidate.epochs else "counted"
                share = numbers["weight"]
                mark = "" if not share else " (chosen)" if share == 1 else f" (weight {share:.2f})"
                tried.append((f"{candidate.plan}{mark}", epochs, number(numbers["valid_nll"])))
            show_table("Candidates", tried, ("model", "epochs", "valid NLL"))
        rows = [(f"{name} NLL", number(value)) for name, value in found["nll"].items() if not math.isnan(value)]
        if not math.isnan(found["overfitting_percent"]):
            rows.append(("overfitting", f"{found['overfitting_percent']:.2f}%"))
        rows.append(("sharpness (trace per row)", number(found["sharpness"], 2)))
        rows.append(("free parameters", f"{found['free_parameters']:,}"))
        rows.append(("seconds", f"{found['seconds']:.1f}"))
        show_table(str(self.chosen.plan), rows)
        for note in found["notes"]:
            say(f"Note: {note}")
        if self.interrupted or self.left_out:
            why = "Interrupted" if self.interrupted else "Out of time"
            left = (
                f"; {self.left_out} of {self.left_out + len(self.candidates)} candidates were not tried" if self.left_out else ""
            )
            say(f"{why}: the model is the best so far{left}.")
        say(f"Wrote {found['model']}.")


def _show_columns(columns: Columns) -> None:
    if len(columns.columns) <= COLUMNS:
        console().print(columns.show())
        return
    kinds = Counter(columns.kinds.values())
    console().print(f"{len(columns.columns):,} columns: {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}")


def _cut(rows: Array, share: float, seed: int, name: str) -> tuple[Array, Array]:
    """Training and validation rows, drawn by seed."""
    n = max(1, round(share * len(rows)))
    if n >= len(rows):
        raise DataError(
            f"{name} has {len(rows)} rows, too few to set {share:.0%} apart; give other rows with --valid FILE, or "
            f"--valid 0 --mu 0.1 to do without."
        )
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows[np.sort(order[n:])], rows[np.sort(order[:n])]


def _nll(circuit: Any, rows: Array | None) -> float:
    return math.nan if rows is None else -float(np.mean(circuit.log_prob(rows, missing="marginalize")))
