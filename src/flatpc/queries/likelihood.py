"""Log-likelihoods, marginal and conditional, and flows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import wrong
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.engine.contract import Flows, check_dtype
from flatpc.engine.precision import wide_enough
from flatpc.errors import ShapeError
from flatpc.queries.answers import answering, around, give_back, refuse_impossible, to_device
from flatpc.queries.streaming import Asked, flows_of, log_prob_of
from flatpc.tables.reading import is_torch
from flatpc.tables.sources import as_source

Mask = NDArray[np.bool_]


def log_prob(
    circuit: Circuit,
    X: Any,
    *,
    missing: str = "raise",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
    uncertainty: Any = None,
) -> Any:
    """Log-likelihood of every row.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))]
    >>> c = fp.Circuit(pair, {0: {"p": [0.5]}, 1: {"p": [0.25]}})
    >>> np.exp(fp.queries.log_prob(c, [[1, 1], [1, np.nan]], missing="marginalize")).round(3).tolist()
    [0.125, 0.5]

    Parameters
    ----------
    circuit
        The circuit.
    X
        A table `[N, D]` with a column for each variable: a NumPy array, nested lists, a pandas or polars frame, a torch tensor;
        or a source such as `fp.tables.scan("rows/*.parquet")` makes, of which a block is held at a time.
    missing
        `"raise"` refuses NaN; `"marginalize"` integrates NaN entries out.
    engine
        `"numba"` or `"torch"`. `"auto"` is numba, and torch for a tensor that requires gradients, for a tensor that is not on
        the CPU, and for another `device`.
    dtype
        `"float64"` or `"float32"`: the precision of the arithmetic. The answer is float64.
    device
        Where the torch engine computes: `"cpu"`, `"cuda"`, `"cuda:1"` or a `torch.device`. None is the device of X if X is a
        tensor, and else the CPU.
    uncertainty
        A posterior around the circuit, `fp.curvature.laplace(circuit, rows)`: the answer is an `fp.curvature.Estimate` then,
        value and standard error, computed in float64 on the CPU; another engine, dtype or device is refused.

    Returns
    -------
    array or tensor
        `[N]`: log p(x) for every row, `-inf` where the probability is zero. It is float64 and NumPy; for a torch tensor, a
        tensor on its device, which the torch engine keeps attached to the graph of a tensor that requires gradients.

    Raises
    ------
    DataError
        X can't be read, has the wrong number of columns, or holds values outside a family's support, or NaN with
        `missing="raise"`.
    OptionError
        An option is none of those above.
    DeviceError
        The device isn't there, or the engine is numba and the device not the CPU.
    """
    if uncertainty is not None:
        return around(circuit, uncertainty, engine, dtype, device).log_prob(X, missing=missing)
    source = as_source(X)
    if source is not None:
        check_circuit(circuit)
        return log_prob_of(Asked(circuit, missing, engine, dtype, device), source)
    rows = read_rows(circuit, X, missing)
    return _log_prob(circuit, X, rows, None, engine, dtype, device)


def conditional_log_prob(
    circuit: Circuit,
    X: Any,
    given: Any,
    *,
    missing: str = "raise",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
    uncertainty: Any = None,
) -> Any:
    """Log-likelihood of some variables given the others: log p(x_rest | x_given) = log p(x) - log p(x_given).

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))]
    >>> c = fp.Circuit(pair, {0: {"p": [0.5]}, 1: {"p": [0.25]}})
    >>> np.exp(fp.queries.conditional_log_prob(c, [[1, 1], [1, 0]], given=[0])).round(3).tolist()
    [0.25, 0.75]

    Parameters
    ----------
    circuit, X
        As for `log_prob`.
    given
        What is known: a boolean mask, `[D]` for all rows alike or `[N, D]`, or a list of variables.
    missing
        `"raise"` refuses NaN; with `"marginalize"`, NaN entries belong to neither side, and are integrated out of both.
    engine, dtype, device, uncertainty
        As for `log_prob`.

    Returns
    -------
    array or tensor
        `[N]`, as `log_prob` returns it.

    Raises
    ------
    DataError
        As for `log_prob`; and where p(x_given) is zero, so that there is no conditional distribution. It names the row.
    OptionError
        `given` names no variables of the circuit, or another option is none of those above.
    """
    if uncertainty is not None:
        return around(circuit, uncertainty, engine, dtype, device).conditional_log_prob(X, given, missing=missing)
    rows = read_rows(circuit, X, missing)
    known = read_given(given, rows.shape)
    evidence = _log_prob(circuit, X, rows, ~known, engine, dtype, device)
    refuse_impossible(_detached(evidence), np.arange(len(rows)))
    return _log_prob(circuit, X, rows, None, engine, dtype, device) - evidence


def flows(
    circuit: Circuit, X: Any, *, missing: str = "raise", engine: str = "auto", dtype: str = "float64", device: Any = None
) -> Flows:
    """Expected use of every edge and input, summed over rows.

    The flow of an edge with weight θ is `θ · ∂ Σ log p(x) / ∂θ`, the expected number of rows that use it.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": np.array([0.2, 0.8])}, 1: np.array([[0.5, 0.5]])})
    >>> fp.queries.flows(c, [[1], [1]]).sums[1].round(3).tolist()                           # 2 · 0.1 / 0.5, 2 · 0.4 / 0.5
    [[0.4, 1.6]]

    Parameters
    ----------
    circuit, X, missing, engine, dtype, device
        As for `log_prob`.

    Returns
    -------
    Flows
        `log_prob`, `sums` (node -> flow of every edge) and `inputs` (node -> its family's statistics). Arrays are NumPy,
        whatever X is.

    Raises
    ------
    DataError, OptionError
        As for `log_prob`.
    """
    source = as_source(X)
    if source is not None:
        check_circuit(circuit)
        return flows_of(Asked(circuit, missing, engine, dtype, device), source)
    rows = read_rows(circuit, X, missing)
    run, precision = answering(X, engine, dtype, device)
    return run.flows(circuit, rows, dtype=precision)


def _log_prob(circuit: Circuit, X: Any, rows: Array, hidden: Mask | None, engine: str, dtype: str, device: Any) -> Any:
    """Log p(x) with the `hidden` entries integrated out, as the kind of table that X is."""
    run, precision = answering(X, engine, dtype, device)
    if engine != "numba" and _wants_gradient(X):
        return _differentiable_log_prob(circuit, X, hidden, dtype, device)
    if hidden is not None:
        rows = np.where(hidden, np.nan, rows)
    return give_back(run.log_prob(circuit, rows, dtype=precision), X)


def _differentiable_log_prob(circuit: Circuit, X: Any, hidden: Mask | None, dtype: str, device: Any) -> Any:
    import torch

    from flatpc.engine.torch.module import TorchCircuit

    if hidden is not None:
        X = X.masked_fill(torch.from_numpy(hidden).to(X.device), torch.nan)
    precision = getattr(torch, wide_enough(circuit, check_dtype(dtype)))
    if device is None:
        device = "cpu" if X.device.type == "mps" else X.device  # as `answering` has it
    return to_device(TorchCircuit(circuit, precision, device).log_prob(X), X.device)


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
