"""The M-step: new parameters from the flows of a batch. The plain one, those of `Sharpness`, and a way to write your own.

A batch of B rows stands for N/B times as much data. For the M-step to stay the same when all flows are scaled by s = B/N,
pseudocounts scale with s, and μ with s (λ = 1, renormalised), with 1 (exact λ, quadratic) or with 1/s (exact λ, cubic): in terms
of φ = λθ the exact equations are the renormalised ones with λμ and λ²μ for μ, and λ grows with the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flatpc._typing import Array
from flatpc.circuit.nodes import Sum
from flatpc.engine import flat
from flatpc.engine.contract import Evaluator
from flatpc.engine.flat import Rule
from flatpc.errors import ParameterError
from flatpc.learning.steps.inputs import Group, update_inputs
from flatpc.learning.steps.layers import Layers

if TYPE_CHECKING:
    from flatpc.learning.regularizers.sharpness import Sharpness

Solve = Callable[[Array, Array, float], Any]

KINDS = {
    ("quadratic", "renormalize"): flat.QUADRATIC,
    ("cubic", "renormalize"): flat.CUBIC,
    ("quadratic", "exact"): flat.QUADRATIC_EXACT,
    ("cubic", "exact"): flat.CUBIC_EXACT,
}


@dataclass(frozen=True)
class Batch:
    """What an M-step knows of a batch besides its flows."""

    weight: float
    """Rows, or the sum of their weights."""
    share: float
    """Of the whole data set."""
    pseudocount: float
    input_pseudocount: float
    progress: float


class MStep(Protocol):
    """Puts new parameters in the place of the evaluator's."""

    mu: float
    """The μ of the last step, averaged over layers."""

    def update(self, gradient: NDArray[Any], statistics: Array, batch: Batch, alpha: float) -> None:
        """From flow / weight of all weights and the statistics of all inputs; α is the step."""


class KernelStep:
    """The plain update, or one of those of `Sharpness`, in native code."""

    def __init__(self, evaluator: Evaluator, groups: Sequence[Group], sharpness: Sharpness | None = None) -> None:
        self.evaluator, self.groups, self.sharpness = evaluator, groups, sharpness
        self.mu = 0.0
        self._kind = KINDS[sharpness.update, sharpness.multiplier] if sharpness else flat.PLAIN
        self._layers = Layers(evaluator.circuit, evaluator.program)
        self._allowed = flat.pack_masks(evaluator.circuit, evaluator.program)

    @property
    def fuses(self) -> bool:
        """Whether flows can be used up as soon as they are there: μ doesn't depend on all of them."""
        return self.sharpness is None or not self.sharpness.relative

    def rule(self, batch: Batch, alpha: float) -> Rule:
        """The update of all weights, for a pass that uses flows up."""
        self.mu = self._mu(batch)
        return self._rule(np.full(self.evaluator.program.n_steps, self.mu), batch, alpha)

    def update(self, gradient: NDArray[Any], statistics: Array, batch: Batch, alpha: float) -> None:
        """New weights and inputs."""
        per_layer = np.full(self._layers.n_layers, self._mu(batch))
        if self.sharpness and self.sharpness.relative:
            per_layer *= self._unit(*self._layers.mean_flow(gradient, self.evaluator.weights))
        self.mu = float(per_layer.mean()) if len(per_layer) else 0.0
        rule = self._rule(self._layers.per_step(per_layer), batch, alpha)
        program, weights = self.evaluator.program, self.evaluator.weights
        flat.update_weights(program, weights, gradient, rule, n_threads=self.evaluator.n_threads)
        self.update_inputs(statistics, batch, alpha)

    def update_inputs(self, statistics: Array, batch: Batch, alpha: float) -> None:
        """New inputs alone."""
        regularised = self.sharpness is not None and self.sharpness.inputs
        update_inputs(
            self.groups, statistics, self.evaluator.inputs,
            kind=self._kind if regularised else flat.PLAIN,
            mu=self._mu(batch) if regularised else 0.0,
            unit=self._unit if self.sharpness is not None and self.sharpness.relative else None,
            pseudocount=batch.input_pseudocount, alpha=alpha, share=batch.share,
        )  # fmt: skip

    def _mu(self, batch: Batch) -> float:
        """μ for a batch with this share of the data, or in units of the mean flow."""
        if self.sharpness is None:
            return 0.0
        mu = self.sharpness.schedule(batch.progress)
        as_it_is = self.sharpness.relative or self.sharpness.unit == "batch-counts"
        if as_it_is or self._kind == flat.QUADRATIC_EXACT:
            return mu
        return mu / batch.share if self._kind == flat.CUBIC_EXACT else mu * batch.share

    def _unit(self, edge: Any, node: Any) -> Any:
        """The unit of a relative μ where edges and units have these mean flows."""
        power = {flat.QUADRATIC_EXACT: 1, flat.CUBIC_EXACT: 2}.get(self._kind, 0)
        return edge / np.maximum(node, np.finfo(np.float64).tiny) ** power

    def _rule(self, mu: Array, batch: Batch, alpha: float) -> Rule:
        return Rule(self._kind, mu, batch.pseudocount, alpha, self._allowed)


class SolvedStep:
    """An update that a function solves, block by block; inputs are updated plainly."""

    fuses = False

    def __init__(self, name: str, solve: Solve, evaluator: Evaluator, groups: Sequence[Group]) -> None:
        self.name, self.solve, self.evaluator, self.groups = name, solve, evaluator, groups
        self.mu = 0.0

    def update(self, gradient: NDArray[Any], statistics: Array, batch: Batch, alpha: float) -> None:
        """New weights and inputs."""
        evaluator = self.evaluator
        gradients = evaluator.weight_views(gradient)
        for i, weights in evaluator.weight_views(evaluator.weights).items():
            node = evaluator.circuit.nodes[i]
            mask = node.mask if isinstance(node, Sum) and node.mask is not None else np.ones(weights.shape, np.bool_)
            old = weights.astype(np.float64)
            flows = gradients[i] * old + mask * batch.pseudocount / mask.sum(axis=1, keepdims=True)
            weights[:] = (1 - alpha) * old + alpha * self._checked(flows, old, mask, batch.share)
        update_inputs(
            self.groups, statistics, evaluator.inputs,
            kind=flat.PLAIN, mu=0.0, unit=None, pseudocount=batch.input_pseudocount, alpha=alpha, share=batch.share,
        )  # fmt: skip

    def _checked(self, flows: Array, old: Array, mask: NDArray[np.bool_], share: float) -> Array:
        """What the function found, normalised; a unit that it gives no weight keeps the old ones."""
        found = np.asarray(self.solve(flows.copy(), old.copy(), share), np.float64)
        if found.shape != old.shape or not np.isfinite(found).all() or (found < 0).any():
            raise ParameterError(
                f"{self.name}.solve returned an array of shape {found.shape} for weights of shape {old.shape}, or numbers that "
                f"are negative or not finite; return one weight of 0 or more for each edge."
            )
        found = found * mask
        total = found.sum(axis=1, keepdims=True)
        return np.where(total > 0, found / np.where(total > 0, total, 1.0), old)
