"""`regularizer=`: which ones there are, and which go together.

A regulariser has its say in one place of a step. Two of one place would overrule each other and are refused.

| place | regularisers |
|---|---|
| the flows of rows | `Softening`, `Dropout` |
| counts | `Laplace` |
| the M-step's equation, or the gradient's penalty | `Sharpness`, `Entropy` |
| the parameters that are learnt | `HyperWeights` |
| the structure, between parts of a run | `PruneGrow` |
| the point at which a gradient is taken | `SAM`, `ASAM` |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import wrong
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.errors import OptionError
from flatpc.learning.regularizers.dropout import Dropout, Dropped
from flatpc.learning.regularizers.entropy import Entropy
from flatpc.learning.regularizers.hyper_weights import HyperWeights
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.prune_grow import PruneGrow
from flatpc.learning.regularizers.sam import ASAM, SAM
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.regularizers.softening import Drawn, Softened, Softening
from flatpc.learning.steps.collect import Collect

Array = NDArray[np.float64]

NAMES: dict[str, type[Any]] = {
    "asam": ASAM,
    "dropout": Dropout,
    "entropy": Entropy,
    "hyper-weights": HyperWeights,
    "laplace": Laplace,
    "prune-grow": PruneGrow,
    "sam": SAM,
    "sharpness": Sharpness,
    "softening": Softening,
}
GRADIENT_ONLY = (SAM, ASAM, HyperWeights)
EM_ONLY = (Laplace, Entropy)

Regularizer = Laplace | Softening | Dropout | Entropy | Sharpness | PruneGrow | HyperWeights | SAM | ASAM


@dataclass(frozen=True)
class Regularizers:
    """Regularisers by their place in a step."""

    pseudocount: float = 0.0
    input_pseudocount: float = 0.0
    sharpness: Sharpness | None = None
    entropy: Entropy | None = None
    ascent: SAM | ASAM | None = None
    flows: Softening | Dropout | None = None
    generator: HyperWeights | None = None
    recipe: PruneGrow | None = None
    parts: tuple[Regularizer, ...] = ()

    @classmethod
    def read(cls, given: Any, method: str) -> Regularizers:
        """What a user gave: None, a name, a regulariser, or several of them; checked against each other and the method."""
        several = given if isinstance(given, list | tuple) else () if given is None else (given,)
        out = cls()
        for part in several:
            out = out.add(_one(part, method))
        return out

    def add(self, part: Regularizer) -> Regularizers:
        """With one more; an error if it doesn't go with those that are there."""
        for other in self.parts:
            _check_pair(other, part)
        return replace(self._placed(part), parts=(*self.parts, part))

    def check(self, method: str) -> None:
        """Raise if a gradient would need flows that there are none of."""
        if method == "em" or self.flows is None:
            return
        name = type(self.flows).__name__
        if self.sharpness is not None:
            raise OptionError(f"{name} and Sharpness go together with method='em' only; leave one out with method={method!r}.")
        if self.ascent is not None and isinstance(self.flows, Softening) and self.flows.draws is not None:
            raise OptionError(
                f"{name} with draws and {type(self.ascent).__name__} can't be combined: two gradients are compared, and new rows "
                f"change the objective in between; leave draws out."
            )

    def collect(self, evaluator: Evaluator, X: Array, seed: int, rank: int) -> Collect | None:
        """The E-step, if it isn't the plain one."""
        if self.flows is None:
            return None
        if isinstance(self.flows, Dropout):
            return Dropped(self.flows, evaluator, seed, rank)
        drawn = self.flows.draws is not None
        return Drawn(self.flows, evaluator, X, seed, rank) if drawn else Softened(self.flows, evaluator, X)

    def _placed(self, part: Regularizer) -> Regularizers:
        if isinstance(part, Laplace):
            return replace(
                self,
                pseudocount=self.pseudocount + part.of_sums,
                input_pseudocount=self.input_pseudocount + part.of_inputs,
            )
        if isinstance(part, Sharpness):
            return replace(self, sharpness=part)
        if isinstance(part, Entropy):
            return replace(self, entropy=part)
        if isinstance(part, Softening | Dropout):
            return replace(self, flows=part)
        if isinstance(part, PruneGrow):
            return replace(self, recipe=part)
        if isinstance(part, HyperWeights):
            return replace(self, generator=part)
        return replace(self, ascent=part)


def _one(part: Any, method: str) -> Regularizer:
    if isinstance(part, str):
        if part not in NAMES:
            raise wrong("regularizer", part, f"choose one of {', '.join(sorted(NAMES))}, or give one with options.")
        part = NAMES[part]()
    if not isinstance(part, Regularizer):
        if isinstance(part, type) and part in NAMES.values():
            raise wrong("regularizer", part, f"give an instance, such as fp.learning.{part.__name__}().")
        known = ", ".join(sorted(kind.__name__ for kind in NAMES.values()))
        raise wrong("regularizer", part, f"give one of {known} from fp.learning, its name, or a list of them.")
    name = type(part).__name__
    if isinstance(part, EM_ONLY) and method != "em":
        raise OptionError(f"{name} changes the M-step of EM; leave it out with method={method!r}.")
    if isinstance(part, GRADIENT_ONLY) and method == "em":
        raise OptionError(f"{name} is for gradient learning; leave it out with method='em', or choose 'adam' or 'sgd'.")
    return part


PLACES: tuple[tuple[str, tuple[type[Any], ...]], ...] = (
    ("both say where the gradient is taken", (SAM, ASAM)),
    ("both put an equation of their own into the M-step", (Sharpness, Entropy)),
    ("both change the flows of rows", (Softening, Dropout)),
    ("both change the structure", (PruneGrow,)),
    ("both generate the weights", (HyperWeights,)),
    ("a generator starts anew, and would forget what is pruned and grown", (HyperWeights, PruneGrow)),
    ("two gradients are compared, and dropout changes the objective in between", (Dropout, SAM, ASAM)),
)


def _check_pair(one: Regularizer, other: Regularizer) -> None:
    if isinstance(one, Laplace) and isinstance(other, Laplace) and (one.on == other.on or "all" in (one.on, other.on)):
        raise OptionError("Two Laplace regularisers for the same units; give one for 'sums' and one for 'inputs'.")
    for reason, kinds in PLACES:
        if isinstance(one, kinds) and isinstance(other, kinds):
            names = " and ".join(sorted((type(one).__name__, type(other).__name__)))
            raise OptionError(f"{names} can't be combined: {reason}; leave one out.")
