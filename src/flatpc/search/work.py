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
    from collections.abc import Sequence

    from flatpc.engine.contract import Work
    from flatpc.families import Family

EFFORTS = {"quick": 5.0, "normal": 30.0, "thorough": 120.0}

# Fitted to hidden Chow-Liu trees with 4 to 64 latents over 16 to 1,556 variables, and to tables of mixed columns.
_FIT = 4e-3
_ENTRY = 3e-8
_NODE = 4e-5
_PASS = 2.2e-4
_CALL = 2.2e-4
_STEP = 5.3e-6
_MULTIPLICATION = 1.2e-10
_PAIR = 7e-7
_PAIR_ROW = 1e-9
_MIXED = 2e-2
_MIXED_ROW = 4e-6
_MIXED_PAIR = 7e-6
_MIXED_PAIR_ROW = 2e-10
_CELL = 5e-8
_MIXED_CELL = 5e-7
_JUDGED_CELL = 3e-7
_JUDGED_EDGE = 1.5e-3
_CLUSTER = 1e-7
_KERNEL = 6e-9
_TRIAL = 3.5e-4
_MAP = 3e-3
_MAP_VALUE = 1e-6


def read_effort(effort: Any) -> float:
    """Seconds of work.

    >>> read_effort("quick"), read_effort(12)
    (5.0, 12.0)
    """
    if isinstance(effort, str):
        return EFFORTS[choice("effort", effort, EFFORTS, also="a number of seconds of work")]
    return number("effort", effort, 0.0, what="choose 'quick', 'normal' or 'thorough', or give a number of seconds of work")


def of_setup(n_nodes: int, n_entries: int = 0) -> float:
    """What a call of `fit` takes before its first step, with so many entries of the rows."""
    return _FIT + _NODE * n_nodes + _ENTRY * n_entries


def of_trial(family: Family, n_values: int, n_units: int) -> float:
    """One step of EM of a column's family alone, by NumPy."""
    cost = family.cost
    return _TRIAL + _MULTIPLICATION * n_units * (n_values * (cost.density + cost.statistics) + cost.update)


def of_map(n_values: int) -> float:
    """A power is fitted to a column."""
    return _MAP + _MAP_VALUE * n_values


def of_passes(work: Work) -> float:
    """What its steps take, and its judging."""
    return _PASS * work.passes + _CALL * work.calls + _STEP * work.steps + _MULTIPLICATION * work.multiplications


def of_rows(n_passes: int, n_rows: int, n_edges: int, n_nodes: int) -> float:
    """Passes in which every row goes through every edge."""
    return n_passes * (_NODE * n_nodes + _MULTIPLICATION * n_rows * n_edges)


def of_tree(n_rows: int, n_variables: int, n_values: int = 0) -> float:
    """One Chow-Liu tree: all pairs of variables are counted, and of their values, as many as all variables have together."""
    return n_variables**2 * (_PAIR + _PAIR_ROW * n_rows) + n_values**2 * _CELL + _NODE * n_variables


def of_mixed_trees(n_rows: int, n_variables: int, n_values: int, n_trees: int) -> float:
    """A mixture of Chow-Liu trees by EM."""
    pairs = n_variables**2 * (_MIXED_PAIR + _MIXED_PAIR_ROW * n_rows) + n_values**2 * _MIXED_CELL
    return n_trees * (_MIXED + _MIXED_ROW * n_rows + pairs)


def of_kernels(n_rows: int, n_variables: int) -> float:
    """A kernel density is made, and judges a quarter as many rows as it has components."""
    return of_setup(n_variables) + _KERNEL * n_rows**2 * n_variables


def of_binned_tree(n_rows: int, families: Sequence[Family], bins: int, n_trees: int) -> float:
    """Trees of bins: all pairs are counted and compared, each edge has its smoothing chosen, and inputs are fitted."""
    sizes = [(family.n_categories or 0) if family.is_free_table else min(bins, n_rows) for family in families]
    tree = of_tree(n_rows, len(families), sum(sizes)) + _JUDGED_CELL * sum(sizes) ** 2 + _JUDGED_EDGE * len(families)
    numbers = [family for family in families if not family.is_free_table]
    fitted = sum(family.cost.statistics + (family.cost.update / max(n_rows, 1)) for family in numbers)
    return n_trees * (tree + of_setup(len(families)) + 2 * _MULTIPLICATION * n_rows * bins * fitted)


def of_clusters(n_rows: int, n_variables: int, n_clusters: int) -> float:
    """One clustering of the rows."""
    return _FIT + _CLUSTER * n_rows * n_variables * n_clusters
