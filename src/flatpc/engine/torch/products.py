"""Matrix products in bfloat16, all else in float32: how they are made, what they may cost, and where they are safe.

bfloat16 has the range of float32, so that nothing underflows which wouldn't anyway, and 8 bits, so that rounding changes a number
by a share of at most u = 2⁻⁸. A product rounds both factors and its result. Values, weights and flows are never negative: nothing
cancels, and a sum is off by no larger a share than its terms. An induced tree with m sums is off by at most 3m such factors, and
so is the probability, which is a sum of induced trees:

    |log p - log p in bfloat16| ≤ 3 m log 1/(1 - u)

The flow of an edge is a quotient of two such sums, and is rounded again on its way down: its logarithm is off by at most five
times as much. These are the worst cases; roundings go up and down, and mostly undo each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatpc.circuit.nodes import Input, Mixture, Sum

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

UNIT_ROUNDOFF = 2.0**-8
SUMS_PER_VARIABLE = 2
"""On an induced tree: with more, products stay in float32. Hidden Chow-Liu trees have up to one, region graphs up to two."""
_LARGEST = 2.0**126


def multiply(a: Tensor, b: Tensor, narrow: torch.dtype | None) -> Tensor:
    """`a @ b`, of batches of matrices, with factors and result rounded to `narrow`; None leaves them as they are."""
    if narrow is None:
        return torch.bmm(a, b)
    # The largest numbers of float32 would be rounded to infinity.
    return torch.bmm(a.clamp(max=_LARGEST).to(narrow), b.to(narrow)).to(a.dtype)


def is_safe(circuit: Circuit) -> bool:
    """Whether products may be in bfloat16: the bound is then at most 0.024 nats for each variable."""
    return most_sums(circuit) <= SUMS_PER_VARIABLE * circuit.n_variables


def largest_error(circuit: Circuit) -> float:
    """The bound on the error of a log-likelihood."""
    return 3 * most_sums(circuit) * -math.log1p(-UNIT_ROUNDOFF)


def most_sums(circuit: Circuit) -> int:
    """Sums on the induced tree that has most of them; mixtures, which are no matrix products, don't count."""
    most: list[int] = []
    for node in circuit.nodes:
        if isinstance(node, Input):
            most.append(0)
        elif isinstance(node, Sum | Mixture):
            most.append(isinstance(node, Sum) + max(most[c] for c in node.children))
        else:
            most.append(sum(most[c] for c in node.children))
    return most[-1]
