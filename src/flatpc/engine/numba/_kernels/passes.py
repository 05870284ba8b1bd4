"""The two passes over a batch."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from flatpc.engine.numba._kernels.adjoints import ADJOINTS, deal_with_weights, pull, push
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
    SCALAR_SUM,
    SCALED,
    TABLE_INPUT,
    WIDTH,
)
from flatpc.engine.numba._kernels.factor_rows import new_index
from flatpc.engine.numba._kernels.scalar_adjoints import collect_scalars, descend_scalars
from flatpc.engine.numba._kernels.scalars import evaluate_scalars
from flatpc.engine.numba._kernels.threads import ring
from flatpc.engine.numba._kernels.tickets import finish, hand_in, take, wait_above, wait_below
from flatpc.engine.numba._kernels.values import (
    evaluate_dense_sum,
    evaluate_formula,
    evaluate_hadamard,
    evaluate_hadamard_scalar,
    evaluate_join,
    evaluate_kronecker,
    evaluate_mixture,
    evaluate_scalar_sum,
    evaluate_table,
)
from flatpc.engine.numba._kernels.work_items import DESCEND, INPUT_BLOCK, ROWS_PER_ITEM, WEIGHT_BLOCK, WEIGHTS


class Owners(NamedTuple):
    """Which steps use a block of parameters, in order: one step unless parameters are tied."""

    weight_ptr: NDArray[np.int64]
    weight_step: NDArray[np.int64]
    input_ptr: NDArray[np.int64]
    input_step: NDArray[np.int64]


@njit(cache=True, nogil=True, boundscheck=False)
def forward(P, B, work, W, T, V, E, L, t, n_threads, progress, bell):
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
            i = evaluate_scalars(P, B, W, T, V, E, L, index, work.item, i + 1, last)
            if i >= last:
                break
            s, lo, hi = work.item[i, 1], work.item[i, 2], work.item[i, 3]
            if P.steps[s, INLINED] >= 0:
                s = P.steps[s, INLINED]
            while True:
                kind = P.steps[s, KIND]
                if kind == HADAMARD and P.steps[s, WIDTH] > 1:
                    evaluate_hadamard(P, B, V, E, L, s, lo, hi)
                elif kind == HADAMARD:
                    evaluate_hadamard_scalar(P, B, V, E, L, s, lo, hi)
                elif kind == DENSE_SUM:
                    evaluate_dense_sum(P, B, W, V, E, L, s, lo, hi)
                elif kind == TABLE_INPUT:
                    evaluate_table(P, B, T, V, E, L, s, lo, hi)
                elif kind == FORMULA_INPUT:
                    evaluate_formula(P, B, T, V, E, L, s, lo, hi)
                elif kind == GENERAL_INPUT:  # its values are there already: `general_inputs.py`
                    pass
                elif kind == SCALAR_SUM:
                    evaluate_scalar_sum(P, B, W, V, E, L, s, lo, hi)
                elif kind == KRONECKER:
                    evaluate_kronecker(P, B, V, E, L, s, lo, hi)
                elif kind == JOIN:
                    evaluate_join(P, B, V, E, L, s, lo, hi)
                else:
                    evaluate_mixture(P, B, W, V, E, L, s, lo, hi)
                if s == work.item[i, 1]:
                    break
                s = work.item[i, 1]
        if n_threads > 1:
            hand_in(progress, ticket)
        ticket = take(progress)
    if n_threads > 1:
        finish(progress, len(work.ptr) - 1, t)


@njit(cache=True, nogil=True, boundscheck=False)
def backward(P, B, work, owners, W, T, V, E, A, root_flow, shared, mode, FL, ST, rule, t, n_threads, progress, bell):
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
                run = descend_scalars(P, B, W, V, A, index, work.item, i, last)
            elif (what == INPUT_BLOCK and P.steps[owners.input_step[owners.input_ptr[s]], WIDTH] == 1) or (
                what == WEIGHT_BLOCK and not B.at[owners.weight_step[owners.weight_ptr[s]], SCALED]
            ):
                run = collect_scalars(P, B, owners, V, A, FL, ST, work.item, i, last)
            if run > i:
                i = run - 1
                continue
            if what == DESCEND:
                pull(P, B, W, V, E, A, root_flow, shared, s, lo, hi)
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
                        add_gradient(P, B, V, E, A, FL, owners.weight_step[q])
        if n_threads > 1:
            hand_in(progress, ticket)
        ticket = take(progress)
    if n_threads > 1:
        finish(progress, len(work.ptr) - 1, t)
