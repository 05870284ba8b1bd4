"""Trace and diagonal of the Hessian of the negative log-likelihood, exactly, from one backward pass per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import flag
from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Mixture, Sum, children_of
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature import spaces
from flatpc.curvature.layout import REDUCTIONS, Layout, check_space, share_of_sum
from flatpc.curvature.over_sources import sum_of_blocks, trace_of_source
from flatpc.queries.answers import give_back
from flatpc.tables.sources import as_source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature.passes import Block, Passes

TRACE_SPACES = ("weights", "logits", "simplex", "logit-gradient")


def trace(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "none",
    missing: str = "raise",
) -> Any:
    """The trace of the Hessian of the negative log-likelihood, `-Tr ∇² log p(x)`: of every row, or of all.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> fp.curvature.trace(c, [[1]]).round(6).tolist()  # (0.2² + 0.8²) / 0.5²
    [2.72]

    In the weights, p is linear in each, so that `∂² log p/∂θ² = -(∂ log p/∂θ)²` and the trace is a sum of squares, for any
    smooth and decomposable circuit; squares of a dense block factorise, and cost no more than its vectors of values.

    A row of probability zero has no derivatives and gives 0.

    Parameters
    ----------
    circuit
        A circuit without tied parameters.
    X
        Rows for it, or a source of rows.
    space
        `"weights"`: the numbers θ themselves, each free. `"logits"`: `θ = softmax(z)` for every unit; the trace there is
        `Σ d² + 2 Σ θ d` with `d = ∂ log p/∂z`, and may be negative. `"simplex"`: only directions that keep every unit's
        weights normalised. `"logit-gradient"`: `Σ d²`, which is not a trace, but what some authors report as one.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too; those of a Bernoulli, p(0) and p(1), as two.
    reduction
        `"none"`: every row's. `"sum"`, `"mean"`: of the rows' sum or mean, as in `hessian`, `operator` and `eigenvalues`.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    array or float
        `[N]`, a tensor if X is one; a float for `"sum"` and `"mean"`. In the weights and on the simplex never negative.

    Raises
    ------
    TiedParametersError
        If parameters are tied: then the trace is no sum of squares. `operator` and `hessian` are exact.
    OptionError
        For an unknown space or reduction.
    DataError
        For rows that are not the circuit's.
    """
    flag("include_inputs", include_inputs)
    source = as_source(X)
    if source is not None:
        check_circuit(circuit)
        return trace_of_source(circuit, source, space, include_inputs, reduction, missing)
    rows = read_rows(circuit, X, missing)
    share = share_of_sum(reduction, len(rows), ("none", *REDUCTIONS))
    out = np.zeros(len(rows))
    start = 0
    for block, by_step, _ in _squares(circuit, rows, space, include_inputs):
        end = start + len(block.where)
        out[start:end] = by_step.sum(axis=0)[block.where]
        start = end
    if reduction == "none":
        return give_back(out, X)
    with np.errstate(over="ignore"):
        return float(share * out.sum())


@dataclass(frozen=True)
class Breakdown:
    """Where the trace of the sum over rows, or of their mean, comes from."""

    total: float
    """The trace."""
    by_node: dict[int, float]
    """Node -> what its own parameters contribute."""
    by_layer: dict[int, float]
    """Layer -> what its nodes contribute. A node's layer is the largest number of Sums and Mixtures on a way from an input up to
    and including it; inputs are layer 0."""


def breakdown(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    missing: str = "raise",
) -> Breakdown:
    """The trace, node by node and layer by layer.

    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> found = fp.curvature.breakdown(c, [[1]])
    >>> round(found.total, 6), list(found.by_node)  # all of it comes from the sum
    (2.72, [1])

    Parameters
    ----------
    circuit, X, space, include_inputs
        As for `trace`.
    reduction
        `"sum"` over rows, or `"mean"`.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    Breakdown
        `total`, `by_node` and `by_layer`.

    Raises
    ------
    TiedParametersError, OptionError, DataError
        As `trace` does.
    """
    flag("include_inputs", include_inputs)
    how: dict[str, Any] = {"space": space, "include_inputs": include_inputs, "missing": missing}
    source = as_source(X)
    if source is None:
        rows = read_rows(circuit, X, missing)
        share, (by_place,) = share_of_sum(reduction, len(rows)), _by_node(circuit, rows, **how)
    else:
        check_circuit(circuit)
        source = source.counted()
        share = share_of_sum(reduction, source.n_rows or 0)
        (by_place,) = sum_of_blocks(source, _by_node, 1, circuit, **how)
    by_node = {i: share * float(value) for i, value in zip(Layout(circuit, include_inputs).shapes, by_place, strict=True)}
    layer = _layers(circuit)
    by_layer: dict[int, float] = {}
    for i, value in by_node.items():
        by_layer[layer[i]] = by_layer.get(layer[i], 0.0) + value
    return Breakdown(sum(by_node.values()), by_node, dict(sorted(by_layer.items())))


def _by_node(circuit: Circuit, X: Any, space: str, include_inputs: bool, missing: str) -> tuple[Array]:
    """`[nodes with parameters]`: what they contribute to the trace, over all rows."""
    by_step: Any = 0.0
    for block, found, passes in _squares(circuit, read_rows(circuit, X, missing), space, include_inputs):
        with np.errstate(over="ignore"):
            by_step = by_step + found @ block.asked
        step_of = passes.program.step_of
    return (np.array([float(by_step[step_of[i]]) for i in Layout(circuit, include_inputs).shapes]),)


def diagonal(
    circuit: Circuit,
    X: Any,
    *,
    space: str = "weights",
    include_inputs: bool = False,
    reduction: str = "sum",
    missing: str = "raise",
) -> dict[int, Array]:
    """The diagonal of the Hessian of the negative log-likelihood.

    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> fp.curvature.diagonal(c, [[1]])[1].round(6).tolist()  # 0.2² / 0.5² and 0.8² / 0.5²
    [[0.16, 2.56]]

    In the weights `Σ_x (∂ log p(x)/∂θ)²`: squared row by row, then added up. In logits `Σ_x d² - d (1 - 2θ)`. On the simplex the
    diagonal of the projected Hessian, `Σ_x (g - mean of g over the unit's edges)²`.

    Parameters
    ----------
    circuit
        A circuit without tied parameters.
    X
        Rows for it, or a source of rows.
    space
        `"weights"`, `"logits"` or `"simplex"`.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too.
    reduction
        `"sum"` over rows, or `"mean"`.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    dict
        Node -> array of the shape of its weights.

    Raises
    ------
    TiedParametersError, OptionError, DataError
        As `trace` does.
    """
    check_space(space)
    flag("include_inputs", include_inputs)
    how: dict[str, Any] = {"space": space, "include_inputs": include_inputs, "missing": missing}
    source = as_source(X)
    if source is None:
        rows = read_rows(circuit, X, missing)
        share, (found,) = share_of_sum(reduction, len(rows)), _diagonal(circuit, rows, **how)
    else:
        source = source.counted()
        share = share_of_sum(reduction, source.n_rows or 0)
        (found,) = sum_of_blocks(source, _diagonal, 1, check_circuit(circuit), **how)
    return Layout(circuit, include_inputs).arrays(share * found)


def _diagonal(circuit: Circuit, X: Any, space: str, include_inputs: bool, missing: str) -> tuple[Array]:
    """`[P]`, over all rows."""
    rows, layout = read_rows(circuit, X, missing), Layout(circuit, include_inputs)
    layout.refuse_ties("diagonal")
    from flatpc.curvature.passes import HardRows

    out, hard = np.zeros(layout.size), HardRows()
    for block, passes in _blocks(circuit, rows, include_inputs):
        out += passes.diagonal(block, space)
        hard.add(block)
    in_range = np.isfinite(out).all()
    if hard or not in_range:
        X, counts = (hard.X, hard.counts[:, None]) if in_range else (rows, 1.0)
        wide = passes.wide()
        each = spaces.diagonal(space, layout, wide.theta, wide.row_gradients(X))
        more = (each * counts).sum(0).to_float()
        out = out + more if in_range else more
    return (out,)


def _blocks(circuit: Circuit, rows: Array, include_inputs: bool) -> Iterator[tuple[Block, Passes]]:
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    passes = Passes(Evaluator(circuit, "float64"), include_inputs, leaves=False)
    evidence = Evidence(passes.program, rows)
    for block in passes.blocks(evidence, np.arange(len(rows)), None, shared=False):
        yield block, passes


def _squares(circuit: Circuit, rows: Array, space: str, include_inputs: bool) -> Iterator[tuple[Block, Array, Passes]]:
    """Blocks, with what each step contributes to the trace at each distinct row."""
    check_space(space, TRACE_SPACES)
    layout = Layout(circuit, include_inputs)
    layout.refuse_ties("trace")
    for block, passes in _blocks(circuit, rows, include_inputs):
        found = passes.squares(block, space)
        left = np.flatnonzero(block.unsettled | ~np.isfinite(found).all(axis=0))
        if len(left):
            wide = passes.wide()
            terms = spaces.squared(space, layout, wide.theta, wide.row_gradients(block.X[left]))
            found[:, left] = 0.0
            for i, start, end in zip(layout.shapes, layout.starts[:-1], layout.starts[1:], strict=True):
                found[passes.program.step_of[i], left] = terms[:, start:end].sum(1).to_float()
        yield block, found, passes


def _layers(circuit: Circuit) -> list[int]:
    out: list[int] = []
    for node in circuit.nodes:
        below = 0 if isinstance(node, Input) else max(out[c] for c in children_of(node))
        out.append(below + isinstance(node, Sum | Mixture))
    return out
