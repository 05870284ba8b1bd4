"""The M-step of all weights, from their gradients."""

from __future__ import annotations

from typing import Any

from flatpc.engine.numba._kernels import collect, passes
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.threads import run
from flatpc.engine.numba._kernels.update import PLAIN
from flatpc.engine.numba.program import Program

_ALL_SOLVERS = frozenset({0})


def solvable(rule: Rule, dtype: str) -> Rule:
    """The same rule with what its update needs to be solved, compiled for weights of this precision."""
    if rule.kind == PLAIN:
        return rule
    return Rule(*rule[:-1], int(passes.SOLVERS.table(_ALL_SOLVERS, dtype)[0]))


def update_weights(
    program: Program, weights: Any, gradient: Any, rule: Rule, *, n_threads: int = 1, everything: bool = True
) -> None:
    """Change weights in place and use gradients up: of every block, or only of those that a fused pass leaves."""
    rule = solvable(rule, str(weights.dtype))
    run(collect.update_weights, n_threads, program.structure, program.owners, weights, gradient, rule, everything)
