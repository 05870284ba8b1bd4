"""One call of `flatpc fit`: read the rows, learn, save, measure, show."""

from __future__ import annotations

import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

from flatpc._messages import about
from flatpc._writing import cant_write, check_target
from flatpc.circuit.circuit import Circuit
from flatpc.cli.application import say, spelled
from flatpc.cli.output import console, number, show_table
from flatpc.cli.progress import Bar
from flatpc.cli.sources import aligned, read_columns, read_source, weights_of, without
from flatpc.errors import FlatpcError
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.search.checkpoints import Checkpoints
from flatpc.search.choosing import search
from flatpc.search.from_sources import learn_on
from flatpc.search.one_model import Told, train_as_told
from flatpc.search.plans import Wishes
from flatpc.search.samples import Sample
from flatpc.tables import scan
from flatpc.tables.columns import Columns, Encoding
from flatpc.tables.sources import Source as Scanned

SHOWN = 14
"""Candidates that are shown, at the most, beside what was chosen."""
COLUMNS = 40
"""Columns that are shown one by one, at the most."""


class Run:
    """Rows by role, and what is learnt from them."""

    def __init__(
        self, data: str, wishes: Wishes, told: Told | None, mu: float | str, effort: str, judge: str,
        time_budget: float | None, seed: int, valid: str | None, own_valid: bool, fraction: float, kinds: dict[str | int, str],
        drop: list[str], weights: str | None, missing: str, unseen: str, checkpoint: Path | None, quiet: bool,
    ) -> None:  # fmt: skip
        self._missing, self._unseen, self._quiet, self._weights = missing, unseen, quiet, weights
        self._drop = drop if weights is None else [*drop, weights]
        self._wishes, self._told, self._mu, self._effort, self._judge = wishes, told, mu, effort, judge
        self._time_budget, self._seed, self._checkpoint = time_budget, seed, checkpoint
        source = read_source(data, seed, fraction, whole="" if weights is None else "--weights")
        whole = read_columns(source.train, source.name)
        counted = None if weights is None else weights_of(whole, weights, source.name)
        table = without(whole, self._drop, source.name)
        self.columns = Columns.learn(table, kinds or None, sample_weight=counted)
        self._scanned = None if source.scanned is None else scan(data, columns=self.columns.names)
        if not quiet:
            _show_columns(self.columns)
            for note in self.columns.notes:
                say(f"Note: {spelled(note, {'--drop'})}")
        self.train = Sample.encoded(self.columns, table, missing, counted)
        self.valid: Sample | None = None
        if valid is not None:
            other = read_source(valid)
            if other.scanned is not None and (other.scanned.counted().n_rows or 0) > len(other.train):
                say(f"Note: of the rows of {valid}, a sample of {len(other.train):,} judges.")
            self.valid = self._encoded(other.valid if other.valid is not None else other.train, valid)
        elif own_valid and source.valid is not None:
            self.valid = self._encoded(source.valid, f"{data}, validation rows")
        self.test = None if source.test is None else self._encoded(source.test, f"{data}, test rows")

    def _encoded(self, rows: Any, name: str) -> Sample:
        """Rows to judge by; where they have the column of weights, as often as it says."""
        try:
            table = read_columns(rows, name)
            counted = self._weights if self._weights in table.names else None
            weights = None if counted is None else weights_of(table, counted, name)
            table = without(table, [column for column in self._drop if column in table.names], name)
            coded = self.columns.encode(aligned(table, self.columns, name), self._missing, self._unseen)
            return Sample.of(coded, weights)
        except FlatpcError as error:
            raise about(name, error) from None

    # ---- learning -------------------------------------------------------------------------------------------------

    def learn(self, output: Path) -> None:
        """Choose a model and save it; Ctrl-C or the time budget ends with the best so far."""
        from flatpc.estimator.model_files import save_model

        begin = time.monotonic()
        common: dict[str, Any] = {
            "valid": self.valid, "seed": self._seed, "time_budget": self._time_budget, "names": self.columns.names,
            "checkpoints": self._checkpoints(),
        }  # fmt: skip
        with Bar() as bar:
            if self._told is not None:
                self.choice = train_as_told(
                    self.train, self.columns.families, self._wishes, self._told, watch=bar.watch, **common
                )
            else:
                penalty: dict[str, Any] = {} if self._mu == "auto" else {"regularizer": None, "sharpness": _sharpness(self._mu)}
                self.choice = search(
                    self.train, [column.families for column in self.columns.columns], effort=self._effort,
                    judge=self._judge, wishes=self._wishes, missing="marginalize",
                    watch=bar.watch, **common, **penalty,
                )  # fmt: skip
        # Before anything else is computed: from here on what was learnt is safe.
        save_model(output, self.choice.circuit, self.columns, self._about())
        if self._scanned is not None:
            self._learn_on(self._scanned, output)
            save_model(output, self.choice.circuit, self.columns, self._about())
        self.seconds = time.monotonic() - begin

    def _learn_on(self, scanned: Scanned, output: Path) -> None:
        """The choice, learnt on from all rows."""
        coded = scanned.changed(Encoding(self.columns, self._missing, self._unseen))
        try:
            self.choice = learn_on(self.choice, coded, seed=self._seed, missing="marginalize", **self._on_the_way())
        except FlatpcError:
            say(f"Wrote {output}: the model of a sample of {self.choice.n_rows:,} rows. It could not be learnt on from all rows:")
            raise

    def _on_the_way(self) -> dict[str, Any]:
        """A checkpoint of the last epoch, which is over all rows and long, and its bar."""
        run = {} if self._checkpoint is None else {"run": self._checkpoint / "all-rows.ckpt"}
        return {**run, "progress": not self._quiet}

    def _checkpoints(self) -> Checkpoints | None:
        if self._checkpoint is None:
            return None
        try:
            self._checkpoint.mkdir(exist_ok=True)
        except OSError as error:
            raise cant_write(self._checkpoint, error) from None
        check_target(self._checkpoint / "any")
        return Checkpoints(self._checkpoint)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.choice.cut_short == "interrupted"

    def _about(self) -> dict[str, Any]:
        import flatpc

        best = self.choice.best
        return {
            "flatpc": flatpc.__version__,
            "summary": self.choice.why,
            "structure": best.structure.replace("_", "-"),
            "latents": best.n_latents,
            "mu": best.mu,
            "method": "em" if self._told is None else self._told.method,
            "epochs": best.epochs,
            "seed": self._seed,
            "missing": self._missing,
            "unseen": self._unseen,
            "train_rows": len(self.train) if self._scanned is None else self.choice.n_rows,
            "valid_rows": self.choice.n_judges,
        }

    # ---- what came of it ------------------------------------------------------------------------------------------

    def measure(self, output: Path) -> dict[str, Any]:
        """Everything there is to say of the result, as plain data."""
        from flatpc.estimator.reports import Curvature
        from flatpc.learning.run.history import degree_of_overfitting

        circuit = self.choice.circuit
        # Rows that were held back judged a model that had not seen them; the one that is kept may have.
        losses = {
            "train": nll(circuit, self.train),
            "valid": self.choice.valid_nll if self.valid is None else nll(circuit, self.valid),
            "test": nll(circuit, self.test),
        }
        return {
            "model": output,
            **self._about(),
            "free_parameters": circuit.n_free_parameters,
            "columns": [
                {"name": c.name, "kind": c.kind, "why": c.why, "categories": list(c.values)} for c in self.columns.columns
            ],
            "nll": losses,
            "overfitting_percent": degree_of_overfitting(losses["train"], losses["valid"]),
            "sharpness": Curvature.of(circuit, self.train).sharpness,
            "stopped": self.choice.cut_short,
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "candidates": [
                {
                    "structure": c.structure.replace("_", "-"),
                    "latents": c.n_latents,
                    "mu": c.mu,
                    "model": c.name,
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
                tried.append((f"{candidate.name}{mark}", epochs, number(candidate.valid_nll)))
            show_table("Candidates", tried, ("model", "epochs", "valid NLL"))
        rows = [(f"{name} NLL", number(value)) for name, value in found["nll"].items() if not math.isnan(value)]
        if not math.isnan(found["overfitting_percent"]):
            rows.append(("overfitting", f"{found['overfitting_percent']:.2f}%"))
        rows.append(("sharpness (trace per row)", number(found["sharpness"], 2)))
        rows.append(("free parameters", f"{found['free_parameters']:,}"))
        rows.append(("seconds", f"{found['seconds']:.1f}"))
        show_table("The model", rows)
        why = self.choice.why
        say(f"{why[0].upper()}{why[1:]}.")
        if self.choice.cut_short:
            ended = "Interrupted" if self.interrupted else f"Out of time (--time-budget {self._time_budget:g})"
            say(f"{ended}: the model is the best so far.")
        say(f"Wrote {found['model']}.")


def nll(circuit: Circuit, rows: Sample | None) -> float:
    """Mean over the rows; NaN without."""
    return math.nan if rows is None else -rows.mean(circuit.log_prob(rows.X, missing="marginalize"))


def _sharpness(mu: float | str) -> Sharpness | None:
    return None if mu == 0 else Sharpness(mu=mu)


def _show_columns(columns: Columns) -> None:
    if len(columns.columns) <= COLUMNS:
        console().print(columns.show())
        return
    kinds = Counter(columns.kinds.values())
    console().print(f"{len(columns.columns):,} columns: {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}")
