"""Models learnt by the protocols of the tables, watched along the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc.datasets import DEBD, load_debd, manifold_splits
from flatpc.datasets.splits import Splits
from flatpc.paper.protocols import EINSUM, HCLT
from flatpc.paper.training import learn_einsum, learn_hclt

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.fitting import Fit

ROWS_OF_SHARPNESS = 500
"""Sharpness is a mean over so many training rows at most, the first ones."""


@dataclass(frozen=True)
class Run:
    """One model to learn: an Einsum Network by Adam on a manifold, or a hidden Chow-Liu tree by EM on a binary benchmark."""

    dataset: str
    fraction: float
    method: str = "plain"
    """`plain`, `mu=0.1` (or another number), `adaptive` (Adam) or `mean-flow` (EM)."""
    trial: int = 0
    epochs: int | None = None
    """Instead of the protocol's."""
    latents: int | None = None
    protocol: str = "text"

    @classmethod
    def read(cls, configuration: Mapping[str, Any]) -> Run:
        """The run of a configuration."""
        return cls(**{field.name: configuration[field.name] for field in fields(cls)})

    @property
    def is_binary(self) -> bool:
        """Whether the data set is one of the binary benchmarks."""
        return self.dataset in DEBD

    @property
    def settings(self) -> Any:
        """Of the protocol."""
        return (HCLT if self.is_binary else EINSUM)[self.protocol]

    def data(self) -> Splits:
        """Its rows."""
        whole = load_debd(self.dataset) if self.is_binary else manifold_splits(self.dataset, seed=self.trial)
        return whole.fraction(self.fraction, how=self.settings.subset, seed=self.trial)

    @property
    def configuration(self) -> dict[str, Any]:
        """All that its numbers depend on."""
        return {**asdict(self), "settings": asdict(self.settings)}

    def learn(self, data: Splits, watch: Callable[[int, Callable[[], Circuit]], None] | None = None) -> Fit:
        """Learn it; `watch` is called after every epoch, with a function that returns the circuit."""
        callbacks = [] if watch is None else [lambda row, circuit: watch(row["epoch"], circuit)]
        chosen: dict[str, Any] = {"epochs": self.epochs, "callbacks": callbacks}
        if self.is_binary:
            return learn_hclt(data, self.method, self.settings, self.trial, n_latents=self.latents, **chosen)
        return learn_einsum(data, self.method, self.settings, self.trial, **chosen)


def sharpness(circuit: Circuit, train: Any, space: str = "weights") -> float:
    """The mean trace over the first training rows."""
    from flatpc import curvature

    return float(np.mean(curvature.trace(circuit, train[:ROWS_OF_SHARPNESS], space=space)))


def curves(run: Run, every: int) -> dict[str, Any]:
    """NLLs of every epoch, and sharpness after the first and every `every`-th, in the weights and as squared logit gradients."""
    data = run.data()
    measured: dict[str, list[float]] = {"epoch": [], "weights": [], "logits": []}

    def watch(epoch: int, circuit: Callable[[], Circuit]) -> None:
        if epoch == 1 or epoch % every == 0:
            now = circuit()
            measured["epoch"].append(epoch)
            measured["weights"].append(sharpness(now, data.train))
            measured["logits"].append(sharpness(now, data.train, "logit-gradient"))

    result = run.learn(data, watch)
    history = {"train": result.history["train_nll"], "valid": result.history["valid_nll"]}
    return {**history, "sharpness": measured, "test": _nll(result.circuit, data.test), "stopped": result.stopped}


def final(run: Run) -> dict[str, Any]:
    """The numbers after the last epoch."""
    data = run.data()
    result = run.learn(data)
    train, test = _nll(result.circuit, data.train), _nll(result.circuit, data.test)
    return {
        "train": train,
        "valid": _nll(result.circuit, data.valid),
        "test": test,
        "best_valid": result.best_nll,
        "overfitting": overfitting(train, test),
        "sharpness": sharpness(result.circuit, data.train),
    }


def overfitting(train: float, test: float) -> float:
    """The degree of overfitting in percent; negative where test rows are likelier than those learnt from.

    >>> overfitting(2.0, 2.5)
    25.0
    """
    return 100 * (test - train) / abs(train)


def _nll(circuit: Circuit, rows: Any) -> float:
    return -float(np.mean(circuit.log_prob(rows)))
