"""The sharpness penalty, the trace summed over rows, and its exact gradient without a graph.

    R(θ) = Σ_x Σ g(x)²,    ∇R = 2 Σ_x H_x g_x

one Hessian-vector product per row, whose direction is the row's own gradient. That direction has rank one in every dense block,
so nothing is kept per edge and row, and the cost is that of two to three plain gradients taken row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import flag, instance, wrong
from flatpc._typing import Array
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature.layout import Layout, check_space, share_of_sum
from flatpc.curvature.over_sources import sum_of_blocks
from flatpc.curvature.spaces import gradient_in
from flatpc.tables.sources import as_source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evidence import Evidence

PENALTY_SPACES = ("weights", "logits", "simplex", "logit-gradient")


@dataclass(frozen=True)
class Penalty:
    """A penalty and its gradient."""

    value: float
    """The penalty R."""
    gradient: dict[int, Array]
    """Node -> ∂R/∂θ if the space is "weights", its part along the simplex if it is "simplex", otherwise ∂R/∂z with θ = softmax(z)
    for every unit."""


def penalty(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    missing: str = "raise",
) -> Penalty:
    """`flatpc.curvature.trace` summed over rows (or its mean), and its gradient.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> found = fp.curvature.penalty(c, [[1]])
    >>> round(found.value, 6), found.gradient[1].round(6).tolist()  # 0.68/s² and -2 (0.2, 0.8) 0.68/s³ at s = 0.5
    (2.72, [[-2.176, -8.704]])

    Parameters
    ----------
    circuit
        A circuit without tied parameters.
    X
        Rows for it, or a source of rows.
    space
        `"weights"`: R = Σ g². `"logits"`: the exact trace in logits, R = Σ d² + 2 Σ θ d. `"simplex"`: the trace over directions
        that keep every unit's weights normalised, R = Σ (g - mean of g over the unit's edges)². `"logit-gradient"`: R = Σ d².
        The gradient is in the space's own coordinates: in θ, in logits, or in θ projected on normalised directions.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too.
    reduction
        `"sum"` over rows, or `"mean"`.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    Penalty
        `value` and `gradient`, node by node.

    Raises
    ------
    TiedParametersError, OptionError, DataError
        As `flatpc.curvature.trace` does.
    """
    check_space(space, PENALTY_SPACES)
    flag("include_inputs", include_inputs)
    how: dict[str, Any] = {"space": space, "include_inputs": include_inputs, "missing": missing}
    source = as_source(X)
    if source is None:
        rows = read_rows(circuit, X, missing)
        share, (value, gradient) = share_of_sum(reduction, len(rows)), _penalty(circuit, rows, **how)
    else:
        source = source.counted()
        share = share_of_sum(reduction, source.n_rows or 0)
        value, gradient = sum_of_blocks(source, _penalty, 2, check_circuit(circuit), **how)
    return Penalty(share * float(value), Layout(circuit, include_inputs).arrays(share * gradient))


def _penalty(circuit: Circuit, X: Any, space: str, include_inputs: bool, missing: str) -> tuple[Array, Array]:
    """Over all rows: the penalty, and its gradient `[P]`."""
    rows = read_rows(circuit, X, missing)
    Layout(circuit, include_inputs).refuse_ties("trace")
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    passes = Passes(Evaluator(circuit, "float64"), include_inputs, leaves=False)
    value, gradient = penalty_of_rows(passes, Evidence(passes.program, rows), np.arange(len(rows)), space=space)
    return np.array(value), gradient


def penalty_of_rows(
    passes: Passes,
    evidence: Evidence,
    rows: NDArray[np.int64],
    *,
    space: str = "weights",
    row_weights: Array | None = None,
) -> tuple[float, Array]:
    """`penalty` for some rows of prepared data, at the evaluator's present parameters; for training loops.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> from flatpc.curvature.passes import Passes
    >>> from flatpc.engine.numba.evaluator import Evaluator
    >>> from flatpc.engine.numba.evidence import Evidence
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> passes = Passes(Evaluator(c, "float64"), False)
    >>> evidence = Evidence(passes.program, np.array([[1.0], [0.0]]))
    >>> value, gradient = fp.curvature.penalties.penalty_of_rows(passes, evidence, np.array([0]))
    >>> round(value, 6), gradient.round(6).tolist()
    (2.72, [-2.176, -8.704])

    Parameters
    ----------
    passes
        `flatpc.curvature.passes.Passes(evaluator, include_inputs)`, made once. Parameters must not be tied.
    evidence
        The rows, prepared once.
    rows
        The numbers of the rows to use.
    space
        As for `penalty`.
    row_weights
        How often each of these rows counts; once by default.

    Returns
    -------
    tuple of a float and an array
        The penalty, and its gradient as a vector in the order of `passes.layout`; `passes.layout.arrays` makes a dict of it.

    Raises
    ------
    OptionError
        For an unknown space, row numbers that the evidence doesn't have, or negative weights.
    """
    check_space(space, PENALTY_SPACES)
    from flatpc.curvature.passes import HardRows

    rows = _checked_rows(passes, evidence, rows)
    if row_weights is not None and not _are_weights(row_weights, len(rows)):
        raise wrong("row_weights", row_weights, f"give {len(rows)} finite numbers of 0 or more, one for each row.")
    value, gradient, hard = 0.0, np.zeros(passes.layout.size), HardRows()
    for block in passes.blocks(evidence, rows, row_weights, shared=False):
        more, more_gradient = passes.penalty(block, space)
        value += more
        gradient += more_gradient
        hard.add(block)
    in_range = np.isfinite(value) and np.isfinite(gradient).all()
    if in_range and not hard:
        return value, gradient
    wide = passes.wide()
    X, counts = (hard.X, hard.counts) if in_range else (evidence.X[rows], row_weights)
    more_wide, gradient_wide, _ = wide.penalty(X, space, counts)
    found, found_gradient = float(more_wide.to_float()), gradient_in(space, passes.layout, wide.theta, gradient_wide).to_float()
    return (value + found, gradient + found_gradient) if in_range else (found, found_gradient)


def _checked_rows(passes: Any, evidence: Any, rows: Any) -> NDArray[np.int64]:
    """Row numbers that the evidence has: native code doesn't look."""
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evidence import Evidence

    instance("passes", passes, Passes, "flatpc.curvature.passes.Passes(evaluator)")
    instance("evidence", evidence, Evidence, "flatpc.engine.numba.evidence.Evidence(passes.program, X)")
    n = len(evidence.X)
    good = isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu"
    if not good or (len(rows) and not 0 <= rows.min() <= rows.max() < n):
        raise wrong("rows", rows, f"give an array of row numbers from 0 to {n - 1}.")
    return np.asarray(rows, np.int64)


def _are_weights(row_weights: Any, n: int) -> bool:
    good = isinstance(row_weights, np.ndarray) and row_weights.shape == (n,) and row_weights.dtype.kind == "f"
    return good and bool((np.isfinite(row_weights) & (row_weights >= 0)).all())
