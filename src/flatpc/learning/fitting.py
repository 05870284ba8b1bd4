"""`fit`: learn a circuit's parameters from rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flatpc._messages import VALID, Message, Option, about
from flatpc._options import choice, flag, moved, seed_number, thread_count, whole_number
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.engine import clock
from flatpc.engine.contract import Work, check_arithmetic, get_evaluator
from flatpc.errors import FlatpcError, OptionError, ParameterError, ShapeError
from flatpc.learning.loop import Loop, Plan
from flatpc.learning.regularizers.sharpness import Sharpness, check_sharpness, is_auto
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.checkpoint import State, fingerprint
from flatpc.learning.run.distributed import Workers, connect
from flatpc.learning.run.feeding import Feed, InMemory, Judges, JudgesInMemory, JudgesOfSource, Streamed
from flatpc.learning.run.history import History, degree_of_overfitting
from flatpc.learning.run.memory import MEMORY
from flatpc.learning.run.notes import notes_on
from flatpc.learning.run.options import Run, read_run
from flatpc.learning.run.stopping import Stopping, read_stopping
from flatpc.learning.settings import Settings
from flatpc.learning.steps.method import Method, read_method
from flatpc.learning.steps.rows import TrainingRows
from flatpc.tables.reading import MISSING
from flatpc.tables.sources import Source, as_source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

AFTER_AN_EPOCH = ("epochs", "early stopping", "callback")
"""Reasons to end after which the circuit is that of the last row of the history."""
WORTH_THREADS = 5e6
"""Edges times rows of a step below which handing work to a second thread takes longer than the work."""
_METHOD = "an option of the method: method=fp.EM({}=...), fp.Adam(...) or fp.SGD(...)"
_LAPLACE = "a regulariser: regularizer=fp.learning.Laplace(...), with on='inputs' for inputs alone"
MOVED = {
    **{name: _METHOD.format(name) for name in ("step_size", "momentum", "anemone")},
    "clip": "an option of the method: method=fp.Adam(clip=...) or fp.SGD(clip=...)",
    **dict.fromkeys(("pseudocount", "input_pseudocount"), _LAPLACE),
    "early_stopping": "stopping=fp.learning.Stopping(patience=...)",
    "time_budget": "stopping=fp.learning.Stopping(time_budget=...)",
    **{
        name: f"run=fp.learning.Run({name}=...)"
        for name in ("checkpoint", "checkpoint_every", "sharpness_every", "callbacks", "log", "distributed")
    },
}
"""Options of earlier versions, and where they are now."""


@dataclass(frozen=True)
class Fit:
    """What `fit` returns."""

    circuit: Circuit
    """What was learnt: after the last epoch, or after the best one if there is a patience."""
    history: History
    """One row per epoch; `history["valid_nll"]` is a column."""
    stopped: str
    """Why it ended: `epochs`, `early stopping`, `time budget`, `interrupted`, `diverged` or `callback`."""
    best_epoch: int
    """The epoch with the lowest validation NLL; 0 without validation rows."""
    best_nll: float
    """The validation NLL of that epoch; infinite without validation rows."""
    best_circuit: Circuit
    """The circuit after that epoch; without validation rows the same as `circuit`."""
    notes: list[str]
    """What was noticed about the data and the run."""
    work: Work = field(default_factory=Work)
    """What the passes over training and validation rows did, counted."""


@moved(MOVED)
def fit(
    circuit: Circuit,
    X: Any,
    *,
    valid: Any = None,
    sample_weight: Any = None,
    valid_weight: Any = None,
    method: str | Method = "em",
    epochs: int = 100,
    batch_size: int | None = 200,
    regularizer: Any = None,
    sharpness: Sharpness | str | None = None,
    stopping: int | Stopping | None = None,
    run: str | os.PathLike[str] | Run | None = None,
    seed: int = 0,
    missing: str = "raise",
    engine: str = "auto",
    device: Any = None,
    dtype: str = "float32",
    n_threads: int | None = None,
    progress: bool = True,
) -> Fit:
    """Learn the parameters of `circuit` from the rows `X`, starting from those it has.

    Parameters
    ----------
    circuit
        Where to start; it is not changed.
    X
        Rows to learn from: a table, or a source that is read in blocks, such as `fp.tables.scan("rows/*.parquet")` makes. How
        a source is shuffled and what memory it takes is told in `docs/scaling.md`.
    valid
        Rows to judge by, after every epoch: a table or a source. Optional.
    sample_weight
        How often each row of `X` counts: one number of 0 or more per row. Learning with whole numbers is the same as
        repeating rows. None counts each row once.
    valid_weight
        How often each validation row counts in the mean that judges; as `sample_weight`.
    method
        `"em"`, `"adam"`, `"sgd"`, `"newton"` or `"natural-gradient"`, or one of them with options: `fp.EM(step_size=0.3)`,
        `fp.Adam(...)`, `fp.SGD(...)`, `fp.Newton(...)`, `fp.NaturalGradient(...)`.
    epochs
        Passes over the rows.
    batch_size
        Rows per step; None takes all of them at once, as Newton's method always does.
    regularizer
        One of `fp.learning.regularizer_names()`, or one with its options (`fp.learning.Laplace(0.1, on="inputs")`), or a list
        of those that go together. `"auto"` tries several, and none, for a fifth of the epochs each and takes what validation
        likes best.
    sharpness
        Short for `fp.Sharpness(...)` among the regularisers; `"auto"` tries several strengths, like `regularizer="auto"`.
    stopping
        When to end before all epochs are done: epochs without a better validation NLL, or `fp.learning.Stopping(...)`.
    run
        What is written and called on the way: the path of a checkpoint, or `fp.learning.Run(...)`.
    seed
        Random seed, of the order of rows and of all that regularisers draw.
    missing
        `"raise"`, or `"marginalize"` to learn from rows with NaN.
    engine, device
        `"auto"` is `"numba"` on the CPU, the fastest there, and `"torch"` on any other device, such as `device="cuda"`. With
        torch, flows are computed on the device, and the small rest of a step on the CPU.
    dtype
        `"float32"`: values and weights in single precision, which is faster, and whatever that can't settle in float64: rows
        that underflow, circuits with tiny weights, and the whole run if a unit loses all its weights. `"float64"`: all in double
        precision. `"bfloat16"`, with torch only: matrix products in half precision, for GPUs that are faster at it, all else in
        float32; `docs/engine.md` has its bounds. The validation NLL of the last and of the best epoch is judged in float64 in any
        case.
    n_threads
        Threads to use; None decides by the size of a step. Results don't depend on it. Torch has a setting of its own.
    progress
        Show a progress bar, on a terminal.

    Returns
    -------
    Fit
        The circuit, the history of the run, and why it ended. Ctrl-C ends a run with the best circuit so far.

    Raises
    ------
    OptionError
        If an option is wrong, or two don't go together.
    DataError
        If rows can't be read, don't suit the circuit, or have missing values that `missing` doesn't allow.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=3)
    >>> result = fp.fit(circuit, X, method=fp.EM(step_size=1.0), epochs=5, batch_size=None, progress=False)
    >>> bool((np.diff(result.history["train_nll"]) < 0).all())          # full-batch EM gets better with every step
    True
    """
    check_circuit(circuit)
    how = read_method(method)
    settings = Settings(
        valid=valid,
        sample_weight=sample_weight,
        valid_weight=valid_weight,
        method=how,
        epochs=whole_number("epochs", epochs, 0),
        batch_size=None if batch_size is None else whole_number("batch_size", batch_size, 1),
        regularizers=Regularizers(),
        stopping=read_stopping(stopping),
        run=read_run(run),
        seed=seed_number(seed),
        missing=choice("missing", missing, MISSING),
        engine=engine,
        device=device,
        dtype=check_arithmetic(dtype),
        n_threads=thread_count(n_threads),
        progress=flag("progress", progress),
    )
    if is_auto(sharpness) or is_auto(regularizer):
        from flatpc.learning.regularizers.auto import fit_auto

        return fit_auto(_learn, circuit, X, settings, regularizer, sharpness)
    chosen = Regularizers.read(regularizer, how)
    if sharpness is not None:
        check_sharpness(sharpness)
        if chosen.penalty is not None:
            raise OptionError("Sharpness is given twice, by sharpness= and by regularizer=; leave one out.")
        chosen = Regularizers.read([*chosen.parts, sharpness], how)
    return _learn(circuit, X, replace(settings, regularizers=chosen))


def _learn(circuit: Circuit, X: Any, settings: Settings) -> Fit:
    """A run, or several parts of one if a regulariser wants it so."""
    around = settings.regularizers.that_defines("around")
    if around is None:
        return _run(circuit, X, settings)
    rest = Regularizers(tuple(part for part in settings.regularizers.parts if part is not around))
    return around.around(_learn, circuit, X, replace(settings, regularizers=rest))


def _run(circuit: Circuit, X: Any, settings: Settings) -> Fit:
    """One run; again in float64 if a unit lost all its weights to the limits of float32."""
    began = clock.now()
    try:
        return _once(circuit, X, settings)
    except ParameterError:
        if settings.dtype == "float64":
            raise
    stopping, run = settings.stopping, settings.run
    if stopping.time_budget is not None:
        stopping = replace(stopping, time_budget=max(stopping.time_budget - (clock.now() - began), 1e-3))
    if run.checkpoint is not None:
        # The file of the first attempt stays: a run that is resumed comes to the same end, and goes on from the second file.
        run = replace(run, checkpoint=f"{os.fspath(run.checkpoint)}.float64")
    result = _once(circuit, X, replace(settings, dtype="float64", stopping=stopping, run=run))
    return replace(result, notes=[*result.notes, "A unit lost all its weights in float32, so all was learnt in float64."])


def _once(circuit: Circuit, X: Any, settings: Settings) -> Fit:
    if settings.stopping.patience is not None and settings.valid is None:
        patience = Option("patience", text="Stopping(patience=...)")
        raise OptionError(Message(f"{patience} judges by validation rows; pass {VALID}", patience, VALID), option="stopping")
    method, regularizers = settings.method, settings.regularizers
    regularizers.check(method, settings.valid is not None)
    source = _read_source(circuit, X, settings.sample_weight)
    rows = None if source is not None else TrainingRows.read(read_rows(circuit, X, settings.missing), settings.sample_weight)
    n_rows = len(rows.X) if rows is not None else (source and source.n_rows) or 0
    valid = None if settings.valid is None else _read_valid(circuit, settings.valid, settings.missing, settings.valid_weight)
    if valid is None and settings.valid_weight is not None:
        raise OptionError("valid_weight counts validation rows; pass valid=..., or leave it out.", option="valid_weight")
    workers = connect() if settings.run.distributed else Workers()
    if method.exact and source is not None:
        raise OptionError(f"method={method.name!r} takes all rows at once; give rows that are in memory.")
    size = n_rows if method.exact else min(settings.batch_size or n_rows, n_rows)
    n_threads = settings.n_threads
    if n_threads is None and circuit.n_edges * size < WORTH_THREADS:
        n_threads = 1
    evaluator = get_evaluator(
        circuit, engine=settings.engine, device=settings.device, n_threads=n_threads,
        dtype="float64" if method.exact else settings.dtype,
        memory=None if source is None else MEMORY,
    )  # fmt: skip
    feed: Feed
    if rows is not None:
        feed = InMemory(rows, evaluator, size, settings.seed)
    else:
        assert source is not None
        feed = Streamed(
            source, circuit, evaluator, settings.missing, size, settings.seed, settings.engine, settings.device,
            sampled=regularizers.that_defines("collect") is not None,
        )  # fmt: skip
    learner = method.learner(evaluator, feed.rows, regularizers, workers, settings.seed)
    judges: Judges | None = None
    if valid is not None:
        judges = (
            JudgesOfSource(valid, circuit, settings.missing) if isinstance(valid, Source) else JudgesInMemory(valid, evaluator)
        )
    plan = Plan(settings.epochs, settings.stopping, settings.run, settings.progress)
    options = {**settings.identity(), "sample_weight": feed.rows.weights, "processes": workers.n}
    if judges is not None and judges.weights is not None:
        options["valid_weight"] = judges.weights
    identity = {}
    if settings.run.checkpoint is not None:
        learnt_from = feed.rows.X if source is None else source.identity()
        identity = fingerprint(circuit, learnt_from, None if judges is None else judges.identity(), options)
    loop = Loop(learner, plan, feed, judges, workers, identity)
    loop.run(notes_on(circuit, feed.rows.X, n_rows, settings.batch_size))
    state, best = loop.state, loop.best()
    history, best_nll = state.history, state.best_nll
    if judges is not None and evaluator.dtype == "float32":
        last = loop.circuit() if state.stopped in AFTER_AN_EPOCH else None
        history, best_nll = _judged(state, judges, last, best)
    if not settings.epochs:
        return Fit(circuit, history, state.stopped, 0, best_nll, circuit, state.notes, evaluator.work)
    return Fit(loop.result(), history, state.stopped, state.best_epoch, best_nll, best, state.notes, evaluator.work)


def _judged(state: State, judges: Judges, last: Circuit | None, best: Circuit) -> tuple[History, float]:
    """The history with the validation NLL of its last and its best epoch in float64, and that of the best."""
    history = History(dict(row) for row in state.history)
    ends = {} if last is None or not history else {len(history): last}
    if state.best_epoch:
        ends[state.best_epoch] = best
    for epoch, circuit in ends.items():
        row = history[epoch - 1]
        row["valid_nll"] = -judges.mean_log_prob(circuit)
        row["overfitting"] = degree_of_overfitting(row["train_nll"], row["valid_nll"])
    return history, history[state.best_epoch - 1]["valid_nll"] if state.best_epoch else state.best_nll


def _read_source(circuit: Circuit, X: Any, weights: Any, option: str = "sample_weight") -> Source | None:
    """X as a source that knows how many rows it has; None if it is a table."""
    found = as_source(X)
    if found is None:
        return None
    if weights is not None:
        raise OptionError(f"{option} counts rows in memory; repeat rows of a source instead.", option=option)
    if len(found.names) != circuit.n_variables:
        raise ShapeError(
            f"The source has {len(found.names)} columns, but the circuit is over {circuit.n_variables} variables; "
            f"give one column for each variable, in order: fp.tables.scan(..., columns=[...])."
        )
    return found.counted()


def _read_valid(circuit: Circuit, valid: Any, missing: str, weights: Any) -> TrainingRows | Source:
    try:
        source = _read_source(circuit, valid, weights, "valid_weight")
        return source if source is not None else TrainingRows.read(read_rows(circuit, valid, missing), weights, "valid_weight")
    except FlatpcError as error:
        raise about("Validation rows", error) from None
