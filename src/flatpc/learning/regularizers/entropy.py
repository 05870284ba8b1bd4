"""Entropy regularisation (Liu and Van den Broeck, 2021): maximise the mean log-likelihood plus τ times the circuit's entropy.

The joint entropy of variables and latent choices is a sum over units: with t(n) the top-down probability of unit n,

    H = Σ_n t(n) · (-Σ_c θ_nc log θ_nc)

and of a deterministic circuit it is the entropy of p(x). Given flows F over N rows, each unit maximises

    Σ_c F_nc log θ_nc + τ N t(n) · (-Σ_c θ_nc log θ_nc [+ Σ_c θ_nc H_c])

where the term in brackets, H_c being the entropy below child c, is there with `children=True`. Units are updated from the root
down, so that t(n) is that of the new weights above and H_c that of the old weights below: with it every update maximises the
whole objective in the unit's own weights, and EM climbs. Without it a unit is blind to how uncertain its children are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import flag, number, put
from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Sum
from flatpc.engine import flat
from flatpc.engine.contract import Evaluator
from flatpc.errors import OptionError, TiedParametersError
from flatpc.learning._kernels.entropy import maximise_units
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.steps.em import EM
from flatpc.learning.steps.inputs import Group, update_inputs
from flatpc.learning.steps.m_step import Batch
from flatpc.learning.steps.method import Method
from flatpc.learning.steps.topdown import below, entropies, hand_down, root_probability


@dataclass(frozen=True)
class Entropy(Regularizer):
    """Reward entropy.

    Parameters
    ----------
    tau
        Nats of log-likelihood per row that a nat of entropy is worth.
    children
        Whether the entropies of a unit's children count, too.
    inputs
        Whether Bernoulli and categorical inputs are regularised, too.

    Raises
    ------
    OptionError
        If an option is of the wrong type or out of range.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.Entropy(tau=0.01)
    Entropy(tau=0.01, children=False, inputs=True)
    """

    tau: float = 0.001
    children: bool = False
    inputs: bool = True

    def __post_init__(self) -> None:
        put(
            self,
            tau=number("Entropy: tau", self.tau, 0.0, what="it is 0 or a positive number"),
            children=flag("Entropy: children", self.children),
            inputs=flag("Entropy: inputs", self.inputs),
        )

    def m_step(self, evaluator: Evaluator, groups: Sequence[Group]) -> EntropyStep:
        """From the root down."""
        return EntropyStep(self, evaluator, groups)

    def check(self, method: Method, judged: bool) -> None:
        """Its own update takes the top-down probabilities of units into account already."""
        if isinstance(method, EM) and method.anemone:
            raise OptionError("Entropy and EM(anemone=True) both say how far a unit moves; leave one out.")


class EntropyStep:
    """The M-step of all parameters."""

    def __init__(self, entropy: Entropy, evaluator: Evaluator, groups: Sequence[Group]) -> None:
        if evaluator.circuit.has_tied_parameters:
            raise TiedParametersError(
                "Entropy regularisation updates each unit on its own, but some nodes share parameters; "
                "build the circuit without ties, or leave the regulariser out."
            )
        self.entropy, self.evaluator = entropy, evaluator
        self.mu = 0.0
        self._rest = [group for group in groups if not (entropy.inputs and group.is_table)]
        self._tables = {
            i
            for i, node in enumerate(evaluator.circuit.nodes)
            if entropy.inputs and isinstance(node, Input) and node.family.is_free_table
        }

    def update(self, gradient: NDArray[Any], statistics: Array, batch: Batch, alpha: float) -> None:
        """New weights and inputs."""
        pseudocount, input_pseudocount = batch.pseudocount, batch.input_pseudocount
        circuit, evaluator = self.evaluator.circuit, self.evaluator
        uncertain = entropies(evaluator) if self.entropy.children else [np.zeros(width) for width in circuit.widths]
        weights, gradients = evaluator.weight_views(evaluator.weights), evaluator.weight_views(gradient)
        tables, counts = evaluator.input_views(evaluator.inputs), evaluator.input_views(statistics)
        probability = root_probability(circuit)
        worth = self.entropy.tau * batch.weight
        for i in reversed(range(len(circuit.nodes))):
            node = circuit.nodes[i]
            if i in weights:
                mask = node.mask if isinstance(node, Sum) else None
                flows = np.multiply(gradients[i], weights[i], dtype=np.float64)
                if pseudocount:
                    flows += (
                        pseudocount / flows.shape[1] if mask is None else mask * pseudocount / mask.sum(axis=1, keepdims=True)
                    )
                ends = np.ascontiguousarray(below(circuit, i, uncertain))
                _maximise(flows, ends, worth * probability[i], mask, weights[i], alpha)
            elif i in self._tables:
                flows = counts[i].T + input_pseudocount / len(counts[i])
                _maximise(flows, np.zeros(flows.shape), worth * probability[i], None, tables[i].T, alpha)
            hand_down(circuit, i, weights.get(i, _NONE), probability)
        update_inputs(
            self._rest, statistics, evaluator.inputs,
            kind=flat.PLAIN, mu=0.0, unit=None, pseudocount=input_pseudocount, alpha=alpha, share=batch.share,
        )  # fmt: skip


_NONE = np.empty((0, 0))
_ALL = np.ones((0, 0), np.bool_)


def _maximise(flows: Array, ends: Array, b: Array, mask: NDArray[np.bool_] | None, to: NDArray[Any], alpha: float) -> None:
    # Kernels are compiled for contiguous float64 arrays; weights may be neither.
    new = np.array(to, np.float64, order="C")
    maximise_units(np.ascontiguousarray(flows), ends, b, _ALL if mask is None else mask.copy(), new, alpha)
    to[:] = new
