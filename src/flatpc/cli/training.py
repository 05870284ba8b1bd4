"""One call of `flatpc fit`: read the rows, learn, save, measure, show."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc.cli.application import say
from flatpc.cli.output import console, number, show_table
from flatpc.cli.progress import Bar
from flatpc.cli.sources import aligned, read_columns, read_source, without
from flatpc.cli.wording import in_options
from flatpc.data.columns import Columns
from flatpc.errors import FlatpcError
from flatpc.estimator.plans import Options

Array = NDArray[np.float64]

SHOWN = 14
"""Candidates that are shown, at the most, beside what was chosen."""
COLUMNS = 40
"""Columns that are shown one by one, at the most."""


class Run:
    """Rows by role, and what is learnt from them."""

    def __init__(
        self, data: str, options: Options, valid: str | None, own_valid: bool, fraction: float, kinds: dict[str | int, str],
        drop: list[str], missing: str, unseen: str, search: str, quiet: bool,
    ) -> None:  # fmt: skip
        self._missing, self._unseen, self._drop, self._search, self._quiet = missing, unseen, drop, search, quiet
        source = read_source(data, options.seed, fraction)
        table = without(read_columns(source.train, source.name), drop, source.name)
        self.options = options
        self.columns = Columns.learn(table, kinds or None)
        if not quiet:
            _show_columns(self.columns)
            for note in self.columns.notes:
                say(f"Note: {in_options(note)}")
        self.train = self.columns.encode(table, missing)
        self.valid = None
        if valid is not None:
            other = read_source(valid)
            self.valid = self._encoded(other.valid if other.valid is not None else other.train, valid)
        elif own_valid and source.valid is not None:
            self.valid = self._encoded(source.valid, f"{data}, validation rows")
        self.test = None if source.test is None else self._encoded(source.test, f"{data}, test rows")

    def _encoded(self, rows: Any, name: str) -> Array:
        try:
            table = read_columns(rows, name)
            table = without(table, [column for column in self._drop if column in table.names], name)
            return self.columns.encode(aligned(table, self.columns, name), self._missing, self._unseen)
        except FlatpcError as error:
            raise type(error)(str(error) if name in str(error) else f"{name}: {error}") from None

    # ---- learning -------------------------------------------------------------------------------------------------

    def learn(self, output: Path) -> None:
        """Choose a model and save it; Ctrl-C or the time budget ends with the best so far."""
        from flatpc.data.model_files import save_model
        from flatpc.estimator.choosing import choose
        from flatpc.estimator.searching import search

        begin = time.monotonic()
        families = self.columns.families
        if self._search == "thorough":
            progress = not self._quiet and sys.stderr.isatty()
            self.choice = search(self.train, families, self.options, valid=self.valid, progress=progress)
        else:
            with Bar() as bar:
                self.choice = choose(
                    self.train, families, self.options, valid=self.valid, watch=bar.watch, names=self.columns.names
                )
        self.seconds = time.monotonic() - begin
        # Before anything else is computed: from here on what was learnt is safe.
        save_model(output, self.choice.circuit, self.columns, self._about())

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.choice.cut_short == "interrupted"

    def _about(self) -> dict[str, Any]:
        import flatpc

        plan = self.choice.best.plan
        return {
            "flatpc": flatpc.__version__,
            "summary": self.choice.why,
            "structure": plan.structure.replace("_", "-"),
            "latents": plan.n_latents if plan.is_learnt else 0,
            "mu": plan.mu,
            "method": self.options.method,
            "epochs": self.choice.best.epochs,
            "seed": self.options.seed,
            "missing": self._missing,
            "unseen": self._unseen,
            "train_rows": len(self.train),
            "valid_rows": self.choice.n_judges,
        }

    # ---- what came of it ------------------------------------------------------------------------------------------

    def measure(self, output: Path) -> dict[str, Any]:
        """Everything there is to say of the result, as plain data."""
        from flatpc.estimator.reports import Curvature, free_parameters
        from flatpc.estimator.trying import nll
        from flatpc.learning.history import degree_of_overfitting

        circuit = self.choice.circuit
        # Rows that were held back judged a model that had not seen them; the one that is kept may have.
        losses = {
            "train": nll(circuit, self.train),
            "valid": self.choice.best.valid_nll if self.valid is None else nll(circuit, self.valid),
            "test": nll(circuit, self.test),
        }
        return {
            "model": output,
            **self._about(),
            "free_parameters": free_parameters(circuit),
            "columns": [
                {"name": c.name, "kind": c.kind, "why": c.why, "categories": list(c.categories)} for c in self.columns.columns
            ],
            "nll": losses,
            "overfitting_percent": degree_of_overfitting(losses["train"], losses["valid"]),
            "sharpness": Curvature.of(circuit, self.train).sharpness,
            "stopped": self.choice.best.stopped,
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "candidates": [
                {
                    "structure": c.plan.structure.replace("_", "-"),
                    "latents": c.plan.n_latents if c.plan.is_learnt else 0,
                    "mu": c.plan.mu,
                    "model": str(c.plan),
                    "valid_nll": c.valid_nll,
                    "epochs": c.epochs,
                    "weight": c.weight,
                }
                for c in self.choice.candidates
            ],
        }

    def show(self, found: dict[str, Any]) -> None:
        """The same for people."""
        if len(self.choice.candidates) > 1:
            tried = []
            for place, candidate in enumerate(self.choice.candidates):
                if place >= SHOWN and not candidate.weight:
                    continue
                epochs = str(candidate.epochs) if candidate.epochs else "counted"
                share = candidate.weight
                mark = "" if not share else " (chosen)" if share == 1 else f" (weight {share:.2f})"
                tried.append((f"{candidate.plan}{mark}", epochs, number(candidate.valid_nll)))
            show_table("Candidates", tried, ("model", "epochs", "valid NLL"))
        rows = [(f"{name} NLL", number(value)) for name, value in found["nll"].items() if not math.isnan(value)]
        if not math.isnan(found["overfitting_percent"]):
            rows.append(("overfitting", f"{found['overfitting_percent']:.2f}%"))
        rows.append(("sharpness (trace per row)", number(found["sharpness"], 2)))
        rows.append(("free parameters", f"{found['free_parameters']:,}"))
        rows.append(("seconds", f"{found['seconds']:.1f}"))
        show_table("The model", rows)
        why = in_options(self.choice.why)
        say(f"{why[0].upper()}{why[1:]}.")
        if self.choice.cut_short:
            ended = "Interrupted" if self.interrupted else f"Out of time (--budget {self.options.time_budget:g})"
            say(f"{ended}: the model is the best so far.")
        say(f"Wrote {found['model']}.")


def _show_columns(columns: Columns) -> None:
    if len(columns.columns) <= COLUMNS:
        console().print(columns.show())
        return
    kinds = Counter(columns.kinds.values())
    console().print(f"{len(columns.columns):,} columns: {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}")
