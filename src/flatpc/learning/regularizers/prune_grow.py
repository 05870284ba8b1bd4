"""Learn, prune, grow, and learn again (Dang, Liu and Van den Broeck, 2022)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flatpc._options import number, put, whole_number
from flatpc.learning.run.history import History
from flatpc.structures.edit.compacting import compact
from flatpc.structures.edit.growing import grow
from flatpc.structures.edit.pruning import prune, share_of_edges

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.fitting import Fit


@dataclass(frozen=True)
class PruneGrow:
    """Between equal parts of the epochs, prune and grow; the last part refines the last structure.

    Parameters
    ----------
    fraction
        Of edges that are pruned.
    noise
        On the weights of copies.
    rounds
        How often; each doubles the units that are still in use.
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

    def run(self, fit: Callable[..., Fit], circuit: Circuit, X: Any, options: dict[str, Any]) -> Fit:
        """All parts; `options` are those of `fit`. Each part has a checkpoint and a log of its own, numbered from 0."""
        epochs, n = whole_number("epochs", options["epochs"], 0), self.rounds + 1
        done: list[Fit] = []
        for part in range(n):
            if done:
                seed = options["seed"] + part
                pruned = prune(done[-1].circuit, X, self.fraction, missing=options["missing"])
                circuit = grow(compact(pruned), self.noise, seed)
            mine = {**options, "epochs": epochs // n + (part >= n - epochs % n)}
            mine |= {name: f"{options[name]}.{part}" for name in ("checkpoint", "log") if options[name] is not None}
            if options["time_budget"] is not None:
                mine["time_budget"] = max(options["time_budget"] - _seconds(done), 1e-9)
            done.append(fit(circuit, X, **mine))
            if done[-1].stopped not in ("epochs", "early stopping"):
                break
        return self._joined(done, options["early_stopping"] is not None)

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
