"""What the numbers mean: kinds of step, and the columns of the two tables that kernels read.

Tables rather than one array per attribute: every array is some ten machine words in each call between kernels, and
compiling calls with dozens of arrays takes minutes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TABLE_INPUT, FORMULA_INPUT, GENERAL_INPUT, HADAMARD, KRONECKER, DENSE_SUM, SCALAR_SUM, MIXTURE, JOIN = range(9)
GAUSSIAN, BINOMIAL, POISSON = range(3)

(
    KIND,
    WIDTH,
    STRIDE,  # distance between a step's rows
    SCOPE,  # index of the step's scope among the distinct scopes
    CHILD,  # its children are child[CHILD:CHILD_END]
    CHILD_END,
    PARENT,  # its parents are parent[PARENT:PARENT_END]
    PARENT_END,
    WEIGHT,  # where its weights start
    TABLE,  # where an input's table or parameters start
    VARIABLE,
    CATEGORIES,  # values in a table; trials of a binomial
    FORMULA,  # GAUSSIAN, BINOMIAL or POISSON
    INLINED,  # the product that a dense sum computes itself, or -1
    ALONE,  # 1 for a dense sum that shares its weights with nobody
    BARE,  # 1 for a scalar step that only scalar sums and products use: no scales are written unless one is needed
    N_COLUMNS,
) = range(17)

VALUE, ROW, ROWS, ADJOINT, ADJOINT_ROWS, SCALED, N_PLACES = range(7)


LARGEST = 2**31 - 1
"""Tables have 32 bits, because irregular circuits spend their time fetching them: no array may have more entries than this."""


class Structure(NamedTuple):
    """The program as kernels read it."""

    steps: NDArray[np.int32]
    """`[steps, N_COLUMNS]`."""
    child: NDArray[np.int32]
    parent: NDArray[np.int32]
    """`[edges, 2]`: a parent, and which of its children the step is."""


class Batch(NamedTuple):
    """A batch as kernels read it: B rows, S scopes."""

    X: NDArray[np.float64]
    """All rows of the data set `[N, D]`."""
    rows: NDArray[np.int64]
    """`[B]`: which of them are in the batch."""
    share: NDArray[np.int32]
    """`[2, S, B]`: `share[0, s, b]` is the number of row b's sub-row in scope s, `share[1, s, u]` a row that has sub-row u."""
    at: NDArray[np.int32]
    """`[steps, N_PLACES]`: where a step's values and per-row numbers start, its number of sub-rows; the same for
    adjoints; and whether its scales and losses are written: where not, they are 0 and -inf."""


class Owners(NamedTuple):
    """Which steps use a block of parameters, in order: one step unless parameters are tied."""

    weight_ptr: NDArray[np.int64]
    weight_step: NDArray[np.int64]
    input_ptr: NDArray[np.int64]
    input_step: NDArray[np.int64]


class Rule(NamedTuple):
    """How weights are updated (`update.py`); `mu` has one entry per step."""

    kind: int
    mu: NDArray[np.float64]
    pseudocount: float
    alpha: float
    allowed: NDArray[np.uint8]
    """Empty, or for every weight whether its edge exists."""
    solver: int = 0
    """The address of `update.solved`, which penalised updates need."""
