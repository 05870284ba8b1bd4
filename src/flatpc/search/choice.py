"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flatpc.search.plans import NAMES

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


@dataclass(frozen=True)
class Outcome:
    """One candidate of a search, and how it did."""

    name: str
    """What it is, in words."""
    structure: str
    """The name of its structure, such as `"hclt"`."""
    options: dict[str, Any]
    """The structure's options."""
    regularizer: tuple[Any, ...]
    """The regularisers that it was trained with."""
    valid_nll: float
    """Mean over the judges, in the units of the table."""
    work: float
    """Work that it took, in seconds of effort."""
    epochs: int
    """Number of epochs of training; 0 for a model that is counted."""
    weight: float
    """Its share of the average; 0 if it isn't part of what was chosen."""
    floor: float | None = None
    """The least variance of its Gaussian inputs, where columns have variance 1; None if nothing was said of it."""

    @property
    def n_latents(self) -> int:
        """Number of states of a latent; 0 for a model that is counted."""
        return int(self.options.get("n_latents", 0))

    @property
    def mu(self) -> float | str:
        """Weight of the penalty on sharpness; 0 without one."""
        return next((part.mu for part in self.regularizer if hasattr(part, "mu")), 0.0)


@dataclass(frozen=True)
class Choice:
    """What `fp.choose` returns: the model that was chosen, and all that was tried.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 3))
    >>> choice = fp.choose(X, effort=0.1, progress=False)
    >>> choice.circuit.n_variables, choice.table().splitlines()[0].split()
    (3, ['valid', 'NLL', 'weight', 'epochs', 'work', 'candidate'])
    """

    circuit: Circuit
    """The model."""
    chosen: tuple[Outcome, ...]
    """The model, or those whose average it is, largest weight first."""
    candidates: tuple[Outcome, ...]
    """All of them, best first."""
    valid_nll: float
    """Of the choice, on the rows by which it was chosen; NaN if there were none."""
    judge: str
    """Which rows it was chosen by."""
    n_judges: int
    """Number of these rows."""
    n_rows: int
    """Number of rows that it was learnt from."""
    refitted: bool
    """Whether the circuit was fitted again to all rows."""
    left_out: tuple[str, ...] = ()
    """Structures that there was no memory for."""
    cut_short: str = ""
    """`"interrupted"` by Ctrl-C, `"time budget"`, or nothing."""
    work: float = 0.0
    """Work of the search, in seconds of effort; the same on every machine."""
    seconds: float = 0.0
    """Time that it took, by the clock."""

    @property
    def best(self) -> Outcome:
        """The model with the largest weight."""
        return self.chosen[0]

    @property
    def name(self) -> str:
        """What was chosen."""
        return " & ".join(outcome.name for outcome in self.chosen)

    @property
    def why(self) -> str:
        """What was chosen and why, in one line."""
        if not self.n_judges:
            return f"{self.best.name}: too few rows ({self.n_rows}) to compare it with others"
        again = f"; fitted again to all {self.n_rows:,} rows" if self.refitted else ""
        again += f"; left out, for want of memory: {', '.join(self.left_out)}" if self.left_out else ""
        by = f"{-self.valid_nll:.3f} nats per row on {self.n_judges:,} {self.judge}"
        simple = [c for c in self.candidates if not c.epochs and c.structure == "factorized"]
        against = f" ({NAMES['factorized']}: {-simple[0].valid_nll:.3f})" if simple and simple[0] is not self.best else ""
        if len(self.chosen) > 1:
            alone = f", the best alone {-self.candidates[0].valid_nll:.3f}"
            return f"average of {len(self.chosen)} of {len(self.candidates)} models, {by}{alone}{against}{again}"
        if len(self.candidates) == 1:
            return f"{self.best.name}: {by}{again}"
        return f"{self.best.name}: best of {len(self.candidates)} with {by}{against}{again}"

    def table(self) -> str:
        """All candidates as text, best first.

        Returns
        -------
        str
            A line for each.
        """
        lines = [f"{'valid NLL':>10}  {'weight':>6}  {'epochs':>6}  {'work':>7}  candidate"]
        for c in self.candidates:
            lines.append(f"{c.valid_nll:10.4f}  {c.weight:6.2f}  {c.epochs:6d}  {c.work:7.2f}  {c.name}")
        return "\n".join(lines)
