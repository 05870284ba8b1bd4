"""Who answers, in which kind of table, blocks of rows that fit in memory, and evidence that can't be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, wrong
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.engine.contract import ENGINES, Dtype, Engine, check_dtype, get_engine
from flatpc.errors import DataError
from flatpc.tables.reading import is_torch

Indices = NDArray[np.int64]

BLOCK_BYTES = 1 << 28
"""What a query keeps of a block of rows at a time (256 MiB), beside the engine's own buffers and the answer."""


def answering(X: Any, engine: str, dtype: str, device: Any) -> tuple[Engine, Dtype]:
    """The engine that answers a question about X, on the device that is named or else on that of X, and its precision."""
    engine, precision = choice("engine", engine, ("auto", *ENGINES)), check_dtype(dtype)
    # Apple's devices have no float64; their tensors are evaluated on the CPU unless torch is asked for.
    if device is None and engine != "numba" and is_torch(X) and (engine == "torch" or X.device.type != "mps"):
        device = X.device
    return get_engine(engine, device), precision


class Uncertainty(Protocol):
    """What error bars come from: `flatpc.curvature.laplace` makes one."""

    circuit: Circuit

    def log_prob(self, X: Any, *, missing: str) -> Any: ...

    def conditional_log_prob(self, X: Any, given: Any, *, missing: str) -> Any: ...

    def conditional_proba(self, X: Any, variable: int, *, missing: str) -> Any: ...

    def expectation(self, X: Any, *, missing: str) -> Any: ...


def around(circuit: Circuit, uncertainty: Any, engine: str, dtype: str, device: Any) -> Uncertainty:
    """What was given as `uncertainty`, if it belongs to this circuit and no other engine, precision or device is asked for."""
    if getattr(uncertainty, "circuit", None) is not circuit:
        raise wrong("uncertainty", uncertainty, "give what fp.curvature.laplace returns for this very circuit.")
    why = "with uncertainty= answers are computed in float64 on the CPU, by the numba engine; leave it out."
    if choice("engine", engine, ("auto", *ENGINES)) not in ("auto", "numba"):
        raise wrong("engine", engine, why)
    if check_dtype(dtype) != "float64":
        raise wrong("dtype", dtype, why)
    if device is not None and str(device) != "cpu":
        raise wrong("device", device, why)
    found: Uncertainty = uncertainty
    return found


def give_back(answer: Array, X: Any) -> Any:
    """`answer` as a tensor on X's device if X is a torch tensor, as it is otherwise."""
    if not is_torch(X):
        return answer
    import torch

    return to_device(torch.from_numpy(answer), X.device)


def to_device(answer: Any, device: Any) -> Any:
    """A tensor of answers on a device; in float32 on Apple's, which have no float64."""
    return (answer.float() if device.type == "mps" else answer).to(device)


def row_blocks(n: int, bytes_per_row: int) -> Iterator[slice]:
    """Slices of `range(n)` whose rows need `BLOCK_BYTES` or less; one row at the least."""
    size = max(1, BLOCK_BYTES // max(1, bytes_per_row))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def bytes_of_units(circuit: Circuit) -> int:
    """Memory of one float64 for every unit of the circuit."""
    return 8 * sum(circuit.widths)


def refuse_impossible(log_prob: Array, row_numbers: Indices) -> None:
    """Raise for the first row whose evidence has probability zero: it has no posterior."""
    impossible = np.flatnonzero(np.isneginf(log_prob))
    if len(impossible):
        raise DataError(
            f"The known values of row {row_numbers[impossible[0]]} have probability zero, so nothing can be said given them. "
            f"Drop the row, or fit with a pseudocount so that no value is impossible."
        )
