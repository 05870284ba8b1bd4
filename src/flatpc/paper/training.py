"""Learn one cell's model and measure it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc import curvature, learning, structures
from flatpc.datasets import load_debd, manifold_splits
from flatpc.datasets.splits import Splits
from flatpc.errors import OptionError
from flatpc.families.gaussian import Gaussian
from flatpc.paper import simple_densities
from flatpc.paper.cells import Cell, Metrics
from flatpc.paper.protocols import Einsum, EinsumTable, Hclt, HcltTable
from flatpc.search.choosing import choose

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.fitting import Fit

Callback = Callable[[Any, Callable[[], "Circuit"]], Any]
"""Called after every epoch with its row of the history and a function that returns the circuit."""
_NLLS = ("train_nll", "valid_nll", "test_nll")
RIVALS = {"factorized": structures.factorized, "chow-liu": structures.chow_liu}


def einsum_start(n_variables: int, settings: Einsum, seed: int) -> Circuit:
    """An Einsum Network before it has learnt anything."""
    family = Gaussian(settings.min_variance, settings.max_variance)
    circuit = structures.rat_spn(
        n_variables, settings.depth, n_repetitions=settings.n_repetitions, n_sums=settings.n_sums,
        n_inputs=settings.n_inputs, family=family, seed=seed,
    )  # fmt: skip
    return circuit.randomize(seed, scheme=settings.start)


def einsum_cell(cell: Cell, settings: EinsumTable) -> Metrics:
    """An Einsum Network learnt by Adam, μ being a number of `mu=` or `adaptive`; or something that it should beat."""
    data = manifold_splits(cell.dataset, seed=cell.trial).fraction(cell.fraction, how=settings.subset, seed=cell.trial)
    if cell.method in simple_densities.NAMES:
        return simple_densities.simple_density(cell.method, data, cell.trial, settings.densities)
    if cell.method == "default":
        chosen = choose(
            data.train,
            valid=data.valid,
            family="gaussian",
            effort=settings.effort,
            seed=cell.trial,
            n_threads=1,
            progress=False,
        )
        return _nlls(chosen.circuit, data)
    result = learn_einsum(data, cell.method, settings, cell.trial)
    return _measure(result, data, settings, ("weights", "logits", "logit-gradient"), len(data.train), judged=True)


def learn_einsum(
    data: Splits, method: str, settings: Einsum, trial: int, *, epochs: int | None = None, callbacks: Sequence[Callback] = ()
) -> Fit:
    """An Einsum Network by Adam, `method` being `plain`, `mu=0.1` (or another number) or `adaptive`."""
    return learning.fit(
        einsum_start(data.train.shape[1], settings, trial), data.train, valid=data.valid,
        method=learning.Adam(settings.step_size, settings.clip), epochs=epochs or settings.epochs,
        batch_size=settings.batch_size, sharpness=_sharpness(method, space=settings.space, rule=settings.rule),
        stopping=settings.patience, run=learning.Run(callbacks=callbacks), seed=trial, progress=False, n_threads=1,
        dtype="float64",
    )  # fmt: skip


def hclt_cell(cell: Cell, settings: HcltTable) -> Metrics:
    """A hidden Chow-Liu tree learnt by EM, or one of the simple things it should beat."""
    data = _binary(cell.dataset).fraction(cell.fraction, how=settings.subset, seed=cell.trial)
    if cell.method in RIVALS:
        return _simple(RIVALS[cell.method], data, settings.smoothings)
    judged = settings.patience is not None or cell.method == "plain" or _number(cell.method, "laplace=") is not None
    result = learn_hclt(data, cell.method, settings, cell.trial, judged=judged)
    return _measure(result, data, settings, ("weights",), settings.sharpness_rows, judged=judged)


def learn_hclt(
    data: Splits,
    method: str,
    settings: Hclt,
    trial: int,
    *,
    judged: bool = True,
    epochs: int | None = None,
    n_latents: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> Fit:
    """A hidden Chow-Liu tree by EM, `method` being `plain`, `mu=0.1`, `mean-flow` or `laplace=0.1`.

    `judged` says whether validation rows are looked at after every epoch, which what is to be stopped early needs.
    """
    rows = data.train
    if settings.tree_rows is not None:
        rows = rows[np.random.default_rng(trial).permutation(len(rows))[: settings.tree_rows]]
    laplace = _number(method, "laplace=")
    return learning.fit(
        structures.hclt(rows, n_latents=n_latents or settings.n_latents, seed=trial), data.train,
        valid=data.valid if judged else None,
        method=learning.EM(settings.step_size), epochs=epochs or settings.epochs, batch_size=settings.batch_size,
        regularizer=learning.Laplace(settings.input_pseudocount, "inputs") if laplace is None else learning.Laplace(laplace),
        sharpness=None if laplace is not None else _sharpness(method, _share(len(data.train), settings), unit=settings.unit),
        stopping=settings.patience, run=learning.Run(callbacks=callbacks), seed=trial, progress=False, n_threads=1,
        dtype="float32",
    )  # fmt: skip


def _share(n_rows: int, settings: Hclt) -> float:
    """By what μ is multiplied.

    The authors' code measures sharpness after every epoch and leaves behind twice the flows of the last batch it saw, a random
    one, to which those of the next epoch are added. An M-step depends on flows and μ in proportion, so that μ counts for less.
    """
    if settings.leftover is None:
        return 1.0
    last = n_rows % settings.leftover or settings.leftover
    return n_rows / (n_rows + 2 * last)


def _sharpness(method: str, share: float = 1.0, **options: Any) -> learning.Sharpness | None:
    if method == "plain":
        return None
    if method == "mean-flow":
        return learning.Sharpness(mu=method)
    if method == "adaptive":
        return learning.Sharpness(mu=method, **options)
    mu = _number(method, "mu=")
    if mu is None:
        raise OptionError(f"Unknown method {method!r}; choose plain, mu=NUMBER, adaptive or mean-flow.")
    return learning.Sharpness(mu=mu * share, **options)


def _number(method: str, prefix: str) -> float | None:
    return float(method[len(prefix) :]) if method.startswith(prefix) else None


def _measure(
    result: Fit, data: Splits, settings: Einsum | Hclt, spaces: tuple[str, ...], sharpness_rows: int, *, judged: bool
) -> Metrics:
    """NLLs of the protocol's model and, if epochs were judged, of the one that validation likes best; sharpness in each space."""
    rows = data.train[:sharpness_rows]

    def measured(circuit: Circuit, spaces: Sequence[str]) -> Metrics:
        traces = {f"sharpness_{space}": float(np.mean(curvature.trace(circuit, rows, space=space))) for space in spaces}
        return _nlls(circuit, data) | traces

    found = measured(result.circuit, spaces)
    if judged:
        same = settings.patience is not None
        stopped = found if same else measured(result.best_circuit, ["weights"])
        best = {f"best_{name}": stopped[name] for name in (*_NLLS, "sharpness_weights")}
        found = {**found, **best, "best_epoch": float(result.best_epoch)}
    return found


def _nlls(circuit: Circuit, data: Splits) -> Metrics:
    splits = zip(_NLLS, (data.train, data.valid, data.test), strict=True)
    return {name: -float(np.mean(circuit.log_prob(rows))) for name, rows in splits}


def _simple(make: Any, data: Splits, smoothings: Sequence[float]) -> Metrics:
    """The best smoothing by validation NLL; both splits may hold values that training never had."""
    candidates = [make(data.train, family="bernoulli", smoothing=smoothing) for smoothing in smoothings]
    judged = [_nlls(circuit, data) for circuit in candidates]
    chosen = min(range(len(judged)), key=lambda i: judged[i]["valid_nll"])
    return {**judged[chosen], "smoothing": smoothings[chosen]}


@lru_cache(maxsize=2)
def _binary(name: str) -> Splits:
    return load_debd(name)
