"""Learn, prune, grow, and learn again (Dang, Liu and Van den Broeck, 2022)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flatpc import queries
from flatpc._options import number, put, whole_number
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import get_engine
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.run.history import History
from flatpc.learning.steps.rows import TrainingRows
from flatpc.structures.edit.compacting import compact
from flatpc.structures.edit.growing import grow
from flatpc.structures.edit.pruning import share_of_edges, without_least
from flatpc.tables.sources import as_source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.fitting import Fit
    from flatpc.learning.settings import Settings


@dataclass(frozen=True)
class PruneGrow(Regularizer):
    """Between equal parts of the epochs, prune and grow; the last part refines the last structure.

    Parameters
    ----------
    fraction
        Share of the edges that are pruned.
    noise
        Relative size of the noise on the weights of copies.
    rounds
        Number of rounds; each doubles the units that are still in use.

    Raises
    ------
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.PruneGrow(rounds=2)
    PruneGrow(fraction=0.75, noise=0.1, rounds=2)
    """

    fraction: float = 0.75
    noise: float = 0.1
    rounds: int = 1

    def __post_init__(self) -> None:
        put(
            self,
            fraction=share_of_edges("PruneGrow: fraction", self.fraction),
            noise=number("PruneGrow: noise", self.noise, 0.0, what="it is 0 or a positive number"),
            rounds=whole_number("PruneGrow: rounds", self.rounds, 1),
        )

    def around(self, learn: Callable[[Circuit, Any, Settings], Fit], circuit: Circuit, X: Any, settings: Settings) -> Fit:
        """All parts. Each has a checkpoint and a log of its own, numbered from 0."""
        epochs, n = settings.epochs, self.rounds + 1
        source = as_source(X)
        rows = None if source else TrainingRows.read(read_rows(circuit, X, settings.missing), settings.sample_weight)
        done: list[Fit] = []
        for part in range(n):
            if done:
                flows = (
                    get_engine().flows(done[-1].circuit, rows.X, weights=rows.weights)
                    if rows is not None
                    else queries.flows(done[-1].circuit, source, missing=settings.missing)
                )
                pruned = without_least(done[-1].circuit, flows.sums, self.fraction)
                circuit = grow(compact(pruned), noise=self.noise, seed=settings.seed + part)
            stopping, limit = settings.stopping, settings.stopping.time_budget
            if limit is not None:
                stopping = replace(stopping, time_budget=max(limit - _seconds(done), 1e-9))
            mine = epochs // n + (part >= n - epochs % n)
            done.append(learn(circuit, X, replace(settings, epochs=mine, stopping=stopping, run=settings.run.part(part))))
            if done[-1].stopped not in ("epochs", "early stopping"):
                break
        return self._joined(done, settings.stopping.patience is not None)

    def _joined(self, done: list[Fit], best: bool) -> Fit:
        """The last part, or the best one if the best is wanted, with the history of all."""
        history, first = History(), [0]
        for part in done:
            before = _seconds(done[: len(first) - 1])
            history += [{**row, "epoch": row["epoch"] + first[-1], "seconds": row["seconds"] + before} for row in part.history]
            first.append(first[-1] + len(part.history))
        top = min(range(len(done)), key=lambda i: done[i].best_nll) if done[-1].best_epoch else len(done) - 1
        chosen = done[top] if best else done[-1]
        return replace(
            done[-1],
            circuit=chosen.circuit,
            history=history,
            best_epoch=done[top].best_epoch + first[top] if done[top].best_epoch else 0,
            best_nll=done[top].best_nll,
            best_circuit=done[top].best_circuit,
            notes=list(dict.fromkeys(note for part in done for note in part.notes)),
        )


def _seconds(parts: list[Fit]) -> float:
    return sum(float(part.history[-1]["seconds"]) for part in parts if part.history)
