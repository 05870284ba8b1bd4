"""`fit`: learn a circuit's parameters from rows."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import (
    choice,
    count,
    file_path,
    flag,
    function,
    number,
    seconds,
    seed_number,
    several,
    thread_count,
    whole_number,
)
from flatpc.circuit.rows import MISSING, check_circuit, read_rows
from flatpc.engine.contract import check_dtype
from flatpc.engine.numba.evaluator import Evaluator, Work
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.precision import wide_enough
from flatpc.errors import FlatpcError, OptionError
from flatpc.learning.loop import Callback, Learner, Loop, Plan
from flatpc.learning.regularizers.dropout import Dropout
from flatpc.learning.regularizers.hyper_weights import Generated
from flatpc.learning.regularizers.sharpness import Sharpness, check_sharpness, is_auto
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.checkpoint import fingerprint
from flatpc.learning.run.distributed import Workers, connect
from flatpc.learning.run.history import History
from flatpc.learning.run.notes import notes_on
from flatpc.learning.run.schedules import Schedule, as_schedule, check_range
from flatpc.learning.steps.em import EM

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

METHODS = ("em", "adam", "sgd")
_MOMENTUM = "it is the share of the past in the averaged flows, from 0 to less than 1"
_CLIP = "it is the largest norm of a gradient, a positive number, or None"
WORTH_THREADS = 5e6
"""Edges times rows of a step below which handing work to a second thread takes longer than the work."""


@dataclass(frozen=True)
class Fit:
    """What `fit` returns."""

    circuit: Circuit
    history: History
    """One row per epoch; `history["valid_nll"]` is a column."""
    stopped: str
    """Why it ended: `epochs`, `early stopping`, `time budget`, `interrupted`, `diverged` or `callback`."""
    best_epoch: int
    """The epoch with the lowest validation NLL; 0 without validation rows."""
    best_nll: float
    best_circuit: Circuit
    """The circuit after that epoch; without validation rows the same as `circuit`."""
    notes: list[str]
    """What was noticed about the data and the run."""
    work: Work = field(default_factory=Work)
    """What the passes over training and validation rows did, counted."""


def fit(
    circuit: Circuit,
    X: Any,
    *,
    valid: Any = None,
    method: str = "em",
    epochs: int = 100,
    batch_size: int | None = 200,
    step_size: float | Schedule = 0.1,
    pseudocount: float = 0.0,
    input_pseudocount: float | None = None,
    sharpness: Sharpness | str | None = None,
    regularizer: Any = None,
    momentum: float = 0.0,
    anemone: bool = False,
    clip: float | None = None,
    seed: int = 0,
    early_stopping: int | None = None,
    time_budget: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1,
    sharpness_every: int = 0,
    callbacks: Sequence[Callback] = (),
    log: str | os.PathLike[str] | None = None,
    progress: bool = True,
    missing: str = "raise",
    dtype: str = "float64",
    n_threads: int | None = None,
    distributed: bool = False,
) -> Fit:
    """Learn the parameters of `circuit` from the rows `X`, starting from those it has.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> result = fp.fit(fp.structures.hclt(X, n_latents=3), X, epochs=5, batch_size=None, step_size=1.0, progress=False)
    >>> nll = result.history["train_nll"]
    >>> bool((np.diff(nll) < 0).all())          # full-batch EM gets better with every step
    True

    Parameters
    ----------
    circuit, X, valid
        Where to start, training rows, and rows by which to judge.
    method
        `"em"`, or gradient descent with `"adam"` or `"sgd"` on unconstrained parameters.
    epochs, batch_size
        Passes over the rows, and rows per step; None takes all of them at once.
    step_size
        EM: the α of θ ← (1-α)θ + αθ̃, from 0 to 1; otherwise the learning rate. A number or a schedule.
    pseudocount, input_pseudocount
        EM: counts added to each sum unit and to each unit of an input, spread over its edges or values, as if seen in the whole
        data set. Inputs take the same as sums unless told otherwise.
    sharpness
        A penalty on the curvature; None learns plainly; `"auto"` tries several strengths, and none, for a fifth of the epochs
        each and takes what validation likes best.
    regularizer
        One of `fp.learning.regularizers.NAMES`, by name or with its options (`fp.learning.Laplace(0.1, on="inputs")`), or a
        list of those that go together. `fp.Sharpness` can be among them. `"auto"` tries several, like `sharpness="auto"`.
    momentum
        EM: the M-step uses flows averaged over about 1 / (1 - momentum) batches; from 0 to less than 1.
    anemone
        EM: scale the step of every unit by the flow that the batch brings it, relative to what the model expects.
    clip
        Gradient learning: the largest norm of a gradient; None leaves gradients as they are.
    seed
        Of the order of rows, and of all that regularisers draw.
    early_stopping
        Stop after so many epochs without a better validation NLL and return the best model.
    time_budget
        Stop after so many seconds.
    checkpoint, checkpoint_every
        A file that holds the run after every so many epochs. If it is there, the run goes on from it and ends with the
        same bits as one that was never interrupted.
    sharpness_every
        Record the exact sharpness of the training likelihood every so many epochs; 0 never.
    callbacks
        Called after every epoch with the row of the history and a function that returns the circuit; one that returns True
        stops the run.
    log
        A file that gets one line of JSON per epoch.
    missing
        `"raise"`, or `"marginalize"` to learn from rows with NaN.
    dtype, n_threads
        Of the arithmetic of weights; results don't depend on the number of threads.
    distributed
        Share every batch among the processes started by torchrun.
    """
    check_circuit(circuit)
    method, missing, dtype = choice("method", method, METHODS), choice("missing", missing, MISSING), check_dtype(dtype)
    epochs, seed, n_threads = whole_number("epochs", epochs, 0), seed_number(seed), thread_count(n_threads)
    batch_size = None if batch_size is None else whole_number("batch_size", batch_size, 1)
    early_stopping = None if early_stopping is None else whole_number("early_stopping", early_stopping, 1)
    checkpoint_every = whole_number("checkpoint_every", checkpoint_every, 1)
    sharpness_every = whole_number("sharpness_every", sharpness_every, 0)
    pseudocount = count("pseudocount", pseudocount)
    input_pseudocount = None if input_pseudocount is None else count("input_pseudocount", input_pseudocount)
    momentum = number("momentum", momentum, 0.0, 1.0, below=True, what=_MOMENTUM)
    clip = None if clip is None else number("clip", clip, 0.0, above=True, what=_CLIP)
    time_budget = None if time_budget is None else seconds("time_budget", time_budget)
    checkpoint = None if checkpoint is None else file_path("checkpoint", checkpoint)
    log = None if log is None else file_path("log", log)
    callbacks = [function("callbacks", callback) for callback in several("callbacks", callbacks, "a list of functions")]
    anemone, distributed, progress = flag("anemone", anemone), flag("distributed", distributed), flag("progress", progress)
    given = dict(locals())
    if is_auto(sharpness) or is_auto(regularizer):
        from flatpc.learning.regularizers.auto import fit_auto

        return fit_auto(fit, given)
    patience = early_stopping
    if patience is not None and valid is None:
        raise OptionError("early_stopping judges by validation rows; pass valid=...", option="early_stopping")
    chosen = Regularizers.read(regularizer, method)
    if chosen.recipe is not None:
        rest = [part for part in chosen.parts if part is not chosen.recipe]
        del given["circuit"], given["X"]
        return chosen.recipe.run(fit, circuit, X, {**given, "regularizer": rest})
    rows = read_rows(circuit, X, missing)
    judges = None if valid is None else _read_valid(circuit, valid, missing)
    workers = connect() if distributed else Workers()
    size = min(batch_size or len(rows), len(rows))
    if n_threads is None and circuit.n_edges * size < WORTH_THREADS:
        n_threads = 1
    evaluator = Evaluator(circuit, wide_enough(circuit, dtype), n_threads)
    options = {
        "method": method, "batch_size": batch_size, "step_size": step_size, "pseudocount": pseudocount,
        "input_pseudocount": input_pseudocount, "sharpness": sharpness, "regularizer": regularizer, "clip": clip,
        "momentum": momentum, "anemone": anemone,
        "seed": seed, "early_stopping": patience, "dtype": dtype, "processes": workers.n,
    }  # fmt: skip
    learner = _learner(evaluator, rows, judges is not None, workers, options)
    plan = Plan(
        epochs, size, seed, patience, patience is not None,
        math.inf if time_budget is None else time_budget, checkpoint, checkpoint_every, log,
        callbacks, sharpness_every, progress,
    )  # fmt: skip
    identity = {} if checkpoint is None else fingerprint(circuit, rows, judges, options)
    prepared = None if judges is None else Evidence(evaluator.program, judges)
    loop = Loop(learner, plan, Evidence(evaluator.program, rows), prepared, workers, identity)
    loop.run(notes_on(circuit, rows, batch_size))
    state = loop.state
    return Fit(
        loop.result(), state.history, state.stopped, state.best_epoch, state.best_nll, loop.best(), state.notes, evaluator.work
    )


def _read_valid(circuit: Circuit, valid: Any, missing: str) -> NDArray[np.float64]:
    try:
        return read_rows(circuit, valid, missing)
    except FlatpcError as error:
        raise type(error)(f"Validation rows: {error}") from None


def _learner(evaluator: Evaluator, rows: NDArray[np.float64], judged: bool, workers: Workers, options: dict[str, Any]) -> Learner:
    method = options["method"]
    step_size = as_schedule("step_size", options["step_size"])
    chosen = _regularizers(options, judged)
    collect = chosen.collect(evaluator, rows, options["seed"], workers.rank)
    if method == "em":
        if options["clip"] is not None:
            raise OptionError("clip is for gradient learning; leave it out with method='em'.")
        check_range("step_size", step_size, 0.0, 1.0, open_low=True, remedy="EM averages old and new parameters.")
        if isinstance(chosen.flows, Dropout) and chosen.flows.sums > 0 and any(step_size(t / 100) >= 1 for t in range(100)):
            raise OptionError("With step_size=1 EM would delete each edge that Dropout leaves out of a batch; take 0.5 or less.")
        if chosen.entropy is not None and options["anemone"]:
            raise OptionError("Entropy and anemone=True both say how far a unit moves; leave one out.")
        return EM(
            evaluator, len(rows), step_size=step_size, pseudocount=chosen.pseudocount,
            input_pseudocount=chosen.input_pseudocount, sharpness=chosen.sharpness, workers=workers, collect=collect,
            entropy=chosen.entropy, momentum=options["momentum"], anemone=options["anemone"],
        )  # fmt: skip
    for name in ("momentum", "anemone"):
        if options[name]:
            raise OptionError(f"{name} is for method='em'; leave it out with method={method!r}.")
    check_range("step_size", step_size, 0.0, math.inf, open_low=True)
    from flatpc.learning.steps.gradient import Gradient

    made = None if chosen.generator is None else Generated(chosen.generator, evaluator, options["seed"])
    return Gradient(evaluator, method, step_size, chosen.sharpness, options["clip"], chosen.ascent, workers, collect, made)


def _regularizers(options: dict[str, Any], judged: bool) -> Regularizers:
    """All regularisers of a run, those that have an option of their own included."""
    method, sharpness = options["method"], options["sharpness"]
    chosen = Regularizers.read(options["regularizer"], method)
    if sharpness is not None:
        check_sharpness(sharpness)
        if chosen.sharpness is not None:
            raise OptionError("Sharpness is given twice, by sharpness= and by regularizer=; leave one out.")
        chosen = chosen.add(sharpness)
    chosen.check(method)
    if chosen.sharpness is not None:
        chosen.sharpness.check_method(method)
        if chosen.sharpness.mu == "adaptive" and not judged:
            raise OptionError("mu='adaptive' measures overfitting by validation rows; pass valid=...")
    return _with_counts(chosen, method, options["pseudocount"], options["input_pseudocount"])


def _with_counts(chosen: Regularizers, method: str, pseudocount: float, inputs: float | None) -> Regularizers:
    inputs = pseudocount if inputs is None else inputs
    if not (pseudocount or inputs):
        return chosen
    if method != "em":
        raise OptionError(f"pseudocount is for method='em'; leave it out with method={method!r}.")
    if chosen.pseudocount or chosen.input_pseudocount:
        raise OptionError("Pseudocounts are given twice, by pseudocount= and by Laplace; leave one out.")
    return replace(chosen, pseudocount=pseudocount, input_pseudocount=inputs)
