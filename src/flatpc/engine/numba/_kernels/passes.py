"""The two passes over a batch. What few circuits need is called by address (`loops.py`)."""

from flatpc.engine.numba._kernels.adjoints import (
    ADD_GRADIENT,
    ADJOINTS,
    COLLECT_SCALARS,
    DESCEND_SCALARS,
    FROM_KRONECKER,
    FROM_SUM,
    deal_with_weights,
    from_kronecker,
    from_sum,
    pull,
    push,
)
from flatpc.engine.numba._kernels.collect import add_gradient, add_statistics
from flatpc.engine.numba._kernels.columns import (
    ADJOINT_ROWS,
    ALONE,
    BARE,
    DENSE_SUM,
    FORMULA_INPUT,
    GENERAL_INPUT,
    HADAMARD,
    INLINED,
    JOIN,
    KIND,
    KRONECKER,
    MIXTURE,
    SCALAR_SUM,
    SCALED,
    TABLE_INPUT,
    WIDTH,
    Structure,
)
from flatpc.engine.numba._kernels.factor_rows import new_index
from flatpc.engine.numba._kernels.input_values import evaluate_formula, evaluate_table
from flatpc.engine.numba._kernels.loops import Loops, collect, collect_run, descend_run, evaluate, evaluate_run, pass_
from flatpc.engine.numba._kernels.product_values import evaluate_hadamard, evaluate_kronecker
from flatpc.engine.numba._kernels.scalar_adjoints import collect_scalars, descend_scalars
from flatpc.engine.numba._kernels.scalar_values import evaluate_hadamard_scalar
from flatpc.engine.numba._kernels.scalars import evaluate_scalars
from flatpc.engine.numba._kernels.sum_values import evaluate_dense_sum, evaluate_join, evaluate_mixture
from flatpc.engine.numba._kernels.threads import ring
from flatpc.engine.numba._kernels.tickets import finish, hand_in, take, wait_above, wait_below
from flatpc.engine.numba._kernels.update import solved
from flatpc.engine.numba._kernels.work_items import DESCEND, INPUT_BLOCK, ROWS_PER_ITEM, WEIGHT_BLOCK, WEIGHTS

SCALARS, HADAMARD_SCALAR = SCALAR_SUM, JOIN + 1
"""Scalar steps are evaluated in runs, except for a product that a dense sum has inlined."""
UPWARD = Loops(
    {
        TABLE_INPUT: evaluate_table,
        FORMULA_INPUT: evaluate_formula,
        HADAMARD: evaluate_hadamard,
        KRONECKER: evaluate_kronecker,
        DENSE_SUM: evaluate_dense_sum,
        SCALARS: evaluate_scalars,
        MIXTURE: evaluate_mixture,
        JOIN: evaluate_join,
        HADAMARD_SCALAR: evaluate_hadamard_scalar,
    }
)
DOWNWARD = Loops(
    {
        FROM_KRONECKER: from_kronecker,
        FROM_SUM: from_sum,
        DESCEND_SCALARS: descend_scalars,
        COLLECT_SCALARS: collect_scalars,
        ADD_GRADIENT: add_gradient,
    }
)
SOLVERS = Loops({0: solved})


def upward_loops(structure: Structure) -> frozenset[int]:
    """Which of `UPWARD` a program needs; values of GENERAL inputs are there before the pass: `general_inputs.py`."""
    kind, inlined = structure.steps[:, KIND], structure.steps[:, INLINED]
    scalar = (structure.steps[:, WIDTH] == 1) & ((kind == TABLE_INPUT) | (kind == HADAMARD) | (kind == SCALAR_SUM))
    needed = set(kind[~scalar].tolist()) - {GENERAL_INPUT}
    if scalar.any():
        needed.add(SCALARS)
    if scalar[inlined[inlined >= 0]].any():
        needed.add(HADAMARD_SCALAR)
    return frozenset(needed)


def downward_loops(structure: Structure) -> frozenset[int]:
    """Which of `DOWNWARD` a program needs."""
    kind, width = structure.steps[:, KIND], structure.steps[:, WIDTH]
    sums = (kind == SCALAR_SUM) | (kind == MIXTURE)
    bare = structure.steps[:, BARE].any()
    needed = {
        FROM_KRONECKER: (kind == KRONECKER).any(),
        FROM_SUM: (sums | (kind == JOIN)).any(),
        DESCEND_SCALARS: bare,
        COLLECT_SCALARS: bare or (width[kind <= GENERAL_INPUT] == 1).any(),
        ADD_GRADIENT: (sums | ((kind == DENSE_SUM) & (structure.steps[:, ALONE] == 0))).any(),
    }
    return frozenset(number for number, is_needed in needed.items() if is_needed)


@pass_
def forward(P, B, work, loops, W, T, V, E, L, t, n_threads, progress, bell):
    """Fill V, E and L for every step of the batch."""
    ring(bell, t, n_threads)
    index = new_index(len(B.rows))
    ticket = take(progress)
    while ticket < len(work.ptr) - 1:
        if n_threads > 1:
            wait_below(P, work, progress, ticket)
        last = work.ptr[ticket + 1]
        i = work.ptr[ticket] - 1
        while i + 1 < last:
            i += 1
            if loops[SCALARS] != 0:
                i = evaluate_run(loops[SCALARS], P, B, W, T, V, E, L, index, work.item, i, last)
                if i >= last:
                    break
            s, lo, hi = work.item[i, 1], work.item[i, 2], work.item[i, 3]
            inlined = P.steps[s, INLINED]
            if inlined >= 0:
                number = HADAMARD if P.steps[inlined, WIDTH] > 1 else HADAMARD_SCALAR
                evaluate(loops[number], P, B, W, T, V, E, L, inlined, lo, hi)
            if P.steps[s, KIND] != GENERAL_INPUT:
                evaluate(loops[P.steps[s, KIND]], P, B, W, T, V, E, L, s, lo, hi)
        if n_threads > 1:
            hand_in(progress, ticket)
        ticket = take(progress)
    if n_threads > 1:
        finish(progress, len(work.ptr) - 1, t)


@pass_
def backward(P, B, work, loops, owners, W, T, V, E, A, root_flow, shared, mode, FL, ST, rule, t, n_threads, progress, bell):
    """Fill A, and unless mode is ADJOINTS deal with weights and inputs as well."""
    ring(bell, t, n_threads)
    index = new_index(len(B.rows))
    ticket = take(progress)
    while ticket < len(work.ptr) - 1:
        if n_threads > 1:
            wait_above(P, work, owners, progress, ticket)
        last = work.ptr[ticket + 1]
        i = work.ptr[ticket] - 1
        while i + 1 < last:
            i += 1
            what, s, lo, hi = work.item[i, 0], work.item[i, 1], work.item[i, 2], work.item[i, 3]
            if mode == ADJOINTS and what != DESCEND:
                continue
            run = i
            if what == DESCEND and shared and P.steps[s, BARE] and not B.at[s, SCALED]:
                run = descend_run(loops[DESCEND_SCALARS], P, B, W, V, A, index, work.item, i, last)
            elif (what == INPUT_BLOCK and P.steps[owners.input_step[owners.input_ptr[s]], WIDTH] == 1) or (
                what == WEIGHT_BLOCK and not B.at[owners.weight_step[owners.weight_ptr[s]], SCALED]
            ):
                run = collect_run(loops[COLLECT_SCALARS], P, B, owners, V, A, FL, ST, work.item, i, last)
            if run > i:
                i = run - 1
                continue
            if what == DESCEND:
                pull(P, B, W, V, E, A, loops, root_flow, shared, s, lo, hi)
                if P.steps[s, KIND] == DENSE_SUM:
                    push(P, B, W, V, A, shared, s, lo, hi)
                    # With few rows the weights are dealt with while they are in cache.
                    if mode != ADJOINTS and P.steps[s, ALONE] and B.at[s, ADJOINT_ROWS] <= ROWS_PER_ITEM:
                        what, lo, hi = WEIGHTS, 0, P.steps[s, WIDTH]
            if what == WEIGHTS:
                deal_with_weights(P, B, W, V, A, FL, mode, rule, s, lo, hi)
            elif what == INPUT_BLOCK:
                for q in range(owners.input_ptr[s], owners.input_ptr[s + 1]):
                    if P.steps[owners.input_step[q], KIND] != GENERAL_INPUT:
                        add_statistics(P, B, T, A, ST, owners.input_step[q])
            elif what == WEIGHT_BLOCK:
                for q in range(owners.weight_ptr[s], owners.weight_ptr[s + 1]):
                    if not P.steps[owners.weight_step[q], ALONE]:
                        collect(loops[ADD_GRADIENT], P, B, V, E, A, FL, owners.weight_step[q])
        if n_threads > 1:
            hand_in(progress, ticket)
        ticket = take(progress)
    if n_threads > 1:
        finish(progress, len(work.ptr) - 1, t)
