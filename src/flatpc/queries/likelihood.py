"""Log-likelihoods, marginal and conditional, and flows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, wrong
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.rows import read_rows
from flatpc.engine.contract import ENGINES, Flows, check_dtype, get_engine
from flatpc.errors import ShapeError
from flatpc.queries.answers import Array, give_back, refuse_impossible
from flatpc.tables.reading import is_torch

Mask = NDArray[np.bool_]


def log_prob(circuit: Circuit, X: Any, missing: str = "raise", *, engine: str = "auto", dtype: str = "float64") -> Any:
    """`[N]`: log p(x) for every row; `-inf` where the probability is zero.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))]
    >>> c = fp.Circuit(pair, {0: {"p": [0.5]}, 1: {"p": [0.25]}})
    >>> np.exp(fp.queries.log_prob(c, [[1, 1], [1, np.nan]], missing="marginalize")).round(3).tolist()
    [0.125, 0.5]

    Parameters
    ----------
    missing
        `"raise"` refuses NaN; `"marginalize"` integrates NaN entries out.
    engine
        `"numba"` or `"torch"`. `"auto"` is numba, and torch for a tensor that requires gradients: on the torch engine the
        answer to a tensor that requires gradients stays attached to its graph.
    """
    rows = read_rows(circuit, X, missing)
    return _log_prob(circuit, X, rows, None, engine, dtype)


def conditional_log_prob(
    circuit: Circuit,
    X: Any,
    given: Any,
    missing: str = "raise",
    *,
    engine: str = "auto",
    dtype: str = "float64",
) -> Any:
    """`[N]`: log p(x_rest | x_given) = log p(x) - log p(x_given).

    `given` is a boolean mask, `[D]` for all rows alike or `[N, D]`, or a list of variables. NaN is refused unless
    `missing="marginalize"`: then NaN entries belong to neither side, and are integrated out of both. Where p(x_given) is
    zero there is no conditional distribution: `DataError`, naming the row.
    """
    rows = read_rows(circuit, X, missing)
    known = read_given(given, rows.shape)
    evidence = _log_prob(circuit, X, rows, ~known, engine, dtype)
    refuse_impossible(_detached(evidence), np.arange(len(rows)))
    return _log_prob(circuit, X, rows, None, engine, dtype) - evidence


def flows(circuit: Circuit, X: Any, missing: str = "raise", *, engine: str = "auto", dtype: str = "float64") -> Flows:
    """Expected use of every edge and input, summed over rows: see `flatpc.engine.contract.Flows`.

    The flow of an edge with weight θ is `θ · ∂ Σ log p(x) / ∂θ`, the expected number of rows that use it. Arrays are NumPy,
    whatever X is.
    """
    rows = read_rows(circuit, X, missing)
    return get_engine(engine).flows(circuit, rows, dtype=check_dtype(dtype))


def _log_prob(circuit: Circuit, X: Any, rows: Array, hidden: Mask | None, engine: str, dtype: str) -> Any:
    """Log p(x) with the `hidden` entries integrated out, as the kind of table that X is."""
    if choice("engine", engine, ("auto", *ENGINES)) != "numba" and _wants_gradient(X):
        return _differentiable_log_prob(circuit, X, hidden, dtype)
    if hidden is not None:
        rows = np.where(hidden, np.nan, rows)
    return give_back(get_engine(engine).log_prob(circuit, rows, dtype=check_dtype(dtype)), X)


def _differentiable_log_prob(circuit: Circuit, X: Any, hidden: Mask | None, dtype: str) -> Any:
    import torch

    from flatpc.engine.torch.module import TorchCircuit

    if hidden is not None:
        X = X.masked_fill(torch.from_numpy(hidden).to(X.device), torch.nan)
    return TorchCircuit(circuit, getattr(torch, check_dtype(dtype)), X.device).log_prob(X)


def _wants_gradient(X: Any) -> bool:
    if not is_torch(X) or not X.requires_grad:
        return False
    import torch

    return torch.is_grad_enabled()


def _detached(answer: Any) -> Array:
    return np.asarray(answer.detach().cpu() if is_torch(answer) else answer)


def read_given(given: Any, shape: tuple[int, ...]) -> Mask:
    """`given` as a mask of the rows' shape."""
    n_variables = shape[1]
    try:
        named = np.asarray(given.detach().cpu() if is_torch(given) else given)
    except (ValueError, TypeError, RuntimeError):
        named = np.array(None)
    if named.dtype == bool:
        if named.shape not in ((n_variables,), shape):
            raise ShapeError(
                f"given is a mask of shape {named.shape}; it should be ({n_variables},) for all rows alike, or {shape}."
            )
        return np.broadcast_to(named, shape)
    if named.ndim != 1 or (named.size and named.dtype.kind not in "iu"):
        raise wrong("given", given, "give a boolean mask or a list of variables, such as given=[0, 2] to name two of them.")
    variables = named.astype(np.int64)
    outside = variables[(variables < 0) | (variables >= n_variables)]
    if len(outside):
        raise wrong("given", given, f"the circuit's variables are 0 to {n_variables - 1}, and {outside[0]} is none of them.")
    mask = np.zeros(n_variables, dtype=bool)
    mask[variables] = True
    return np.broadcast_to(mask, shape)
