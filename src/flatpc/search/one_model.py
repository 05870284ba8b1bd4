"""One model, trained as a user says: nothing is searched for but, if asked, the weight of the penalty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._messages import Message, Option
from flatpc.engine import clock
from flatpc.errors import OptionError
from flatpc.families import Family
from flatpc.learning.fitting import Fit, fit
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.run.options import Run
from flatpc.learning.run.stopping import Stopping
from flatpc.learning.steps.adam import Adam
from flatpc.learning.steps.em import EM
from flatpc.learning.steps.sgd import SGD
from flatpc.search.checkpoints import Checkpoints
from flatpc.search.choice import Choice, Outcome
from flatpc.search.floors import with_first_floor
from flatpc.search.judging import Split
from flatpc.search.plans import SIZES, Plan, Wishes, check_wishes
from flatpc.search.samples import Sample
from flatpc.search.scaling import Scaling, in_users_units

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.run.history import Row


FULL_BATCH = 2000
"""Rows up to which an EM step takes them all, unless told otherwise."""
LATENTS = 16


@dataclass(frozen=True)
class Told:
    """How to train; None leaves it to us."""

    method: str = "em"
    epochs: int = 200
    batch_size: int | None = None
    step_size: float | None = None
    pseudocount: float | None = None
    """Of inputs."""
    mu: float | str = "auto"
    patience: int = 10
    """Epochs without a better validation NLL; 0 for ever."""
    share: float = 0.2
    """Of the rows, held back to judge by where no validation rows are given; 0 for none."""

    def options(self, n_rows: int) -> dict[str, Any]:
        """Of `fit`. Few rows: all of them at every step of EM, which then climbs with each; else batches and smaller steps."""
        if self.method != "em":
            descent = {"adam": Adam, "sgd": SGD}[self.method]
            if self.pseudocount:
                em, given = Option("method", "em"), Option("method", self.method)
                raise OptionError(Message(f"A pseudocount is for {em}; leave it out with {given}.", em, given))
            return {"batch_size": self.batch_size or 200, "method": descent(self.step_size or 0.1)}
        full = n_rows <= FULL_BATCH and self.batch_size is None
        return {
            "batch_size": None if full else self.batch_size or FULL_BATCH // 2,
            "method": EM(self.step_size or (1.0 if full else 0.3)),
            "regularizer": Laplace(0.3 if self.pseudocount is None else self.pseudocount, on="inputs"),
        }


def train_as_told(
    rows: Sample, families: Sequence[Family], wishes: Wishes, told: Told, *, valid: Sample | None = None, seed: int = 0,
    time_budget: float | None = None, names: Sequence[str] | None = None, watch: Callable[[str, float], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Choice:  # fmt: skip
    """Build the structure that is wished for and train it; missing values are integrated out."""
    check_wishes(wishes, families)
    if wishes.structure not in SIZES:
        raise OptionError("Only 'hclt', 'mixture' and 'rat_spn' are trained step by step; name one of them as the structure.")
    began = clock.now()
    scaling = Scaling.learn(rows.X, families, names, weights=rows.weights)
    own = scaling.apply_to(rows)
    split = Split(own, scaling.apply_to(valid)) if valid is not None else _hold_back(own, told.share, seed)
    depth = {} if wishes.depth is None or wishes.structure != "rat_spn" else {"depth": wishes.depth}
    size = {"n_latents": LATENTS if wishes.n_latents is None else wishes.n_latents}
    plan = Plan(wishes.structure, {**size, **depth}, trained=True, clustered=wishes.structure != "rat_spn")
    kinds = with_first_floor(families, scaling)
    limit = None if time_budget is None else began + time_budget

    def train(data: Split, told: Told) -> Fit:
        callbacks = (lambda row, _: watch(_line(plan, row), min(row["epoch"] / told.epochs, 1.0)),) if watch is not None else ()
        judged = len(data.valid) > 0
        left = None if limit is None else max(limit - clock.now(), 1e-3)
        circuit = plan.build(data.train, kinds, seed)
        more = {} if checkpoints is None else checkpoints.options(circuit, data.train, data.valid, 1, told=told, seed=seed)
        return fit(
            circuit, data.train.X, sample_weight=data.train.weights, valid=data.valid.X if judged else None,
            valid_weight=data.valid.weights if judged else None, epochs=told.epochs, seed=seed,
            sharpness=_sharpness(told.mu, judged), missing="marginalize", dtype="float64", progress=False,
            stopping=Stopping((told.patience or None) if judged else None, left), run=Run(callbacks=callbacks, **more),
            **told.options(len(data.train)),
        )  # fmt: skip

    result = train(split, told)
    cut_short = result.stopped if result.stopped in ("interrupted", "time budget") else ""
    circuit = result.best_circuit if result.best_epoch else result.circuit
    epochs = result.best_epoch or len(result.history)
    # The adaptive penalty looks at validation rows as it goes; without them there is none.
    refitted = valid is None and bool(len(split.valid)) and not cut_short and told.mu not in ("adaptive", "auto")
    if refitted:
        circuit = train(Split(own, own.some(slice(0))), replace(told, epochs=max(epochs, 1))).circuit
    return _choice(plan, told, result, circuit, split, scaling, len(rows), valid is not None, refitted, cut_short, epochs, began)


def _choice(
    plan: Plan, told: Told, result: Fit, circuit: Circuit, split: Split, scaling: Scaling, n_rows: int, given: bool,
    refitted: bool, cut_short: str, epochs: int, began: float,
) -> Choice:  # fmt: skip
    judged = len(split.valid) > 0
    volume = split.valid.mean(scaling.log_volume(split.valid.X)) if judged else 0.0
    nll = result.best_nll + volume if judged and result.best_epoch else math.nan
    mu = f", μ = {told.mu}" if told.mu != 0 else ""
    only = Outcome(
        f"{plan.name}{mu}", plan.structure, plan.options, (Sharpness(mu=told.mu),) if told.mu not in (0, "auto") else (),
        nll, 0.0, epochs, 1.0,
    )  # fmt: skip
    return Choice(
        in_users_units(circuit, scaling), (only,), (only,), nll, "validation rows" if given else "held-out rows",
        len(split.valid), n_rows, refitted, (), cut_short, 0.0, clock.now() - began,
    )  # fmt: skip


def _hold_back(rows: Sample, share: float, seed: int) -> Split:
    n = min(round(share * len(rows)), len(rows) - 1)
    order = np.random.default_rng(seed).permutation(len(rows))
    return Split(rows.some(np.sort(order[n:])), rows.some(np.sort(order[:n])))


def _sharpness(mu: float | str, judged: bool) -> Any:
    if mu == "auto":
        return "auto" if judged else None
    return None if mu == 0 else Sharpness(mu=mu)


def _line(plan: Plan, row: Row) -> str:
    return f"{plan.name}  epoch {row['epoch']}"
