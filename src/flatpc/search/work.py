"""Work: what a search may spend, counted so that it is the same on every machine.

The unit is the second of one core of the machine on which the constants below were fitted, so that an effort of 30 takes about
half a minute on a machine like it. Nothing is measured by a clock: the passes of an evaluator count themselves
(`flatpc.engine.contract.Work`), and what is spent on structures follows from the numbers of rows and variables. One seed
therefore gives one model, on a slow machine and on a fast one, on one thread and on two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatpc._options import choice, number

if TYPE_CHECKING:
    from flatpc.engine.contract import Work

EFFORTS = {"quick": 5.0, "normal": 30.0, "thorough": 120.0}

# Fitted to hidden Chow-Liu trees with 4 to 64 latents over 16 to 1,556 variables.
_FIT = 4e-3
_NODE = 4e-5
_STEP = 5.3e-6
_MULTIPLICATION = 1.2e-10
_PAIR = 7e-7
_PAIR_ROW = 1e-9
_CLUSTER = 3e-8


def read_effort(effort: Any) -> float:
    """Seconds of work.

    >>> read_effort("quick"), read_effort(12)
    (5.0, 12.0)
    """
    if isinstance(effort, str):
        return EFFORTS[choice("effort", effort, EFFORTS, also="a number of seconds of work")]
    return number("effort", effort, 0.0, what="choose 'quick', 'normal' or 'thorough', or give a number of seconds of work")


def of_setup(n_nodes: int) -> float:
    """What a call of `fit` takes before its first step."""
    return _FIT + _NODE * n_nodes


def of_passes(work: Work) -> float:
    """What its steps take, and its judging."""
    return _STEP * work.steps + _MULTIPLICATION * work.multiplications


def of_rows(n_passes: int, n_rows: int, n_edges: int, n_nodes: int) -> float:
    """Passes in which every row goes through every edge."""
    return n_passes * (_NODE * n_nodes + _MULTIPLICATION * n_rows * n_edges)


def of_tree(n_rows: int, n_variables: int) -> float:
    """One Chow-Liu tree: all pairs of variables are counted."""
    return n_variables**2 * (_PAIR + _PAIR_ROW * n_rows) + _NODE * n_variables


def of_clusters(n_rows: int, n_variables: int, n_clusters: int) -> float:
    """One clustering of the rows."""
    return _FIT + _CLUSTER * n_rows * n_variables * n_clusters
