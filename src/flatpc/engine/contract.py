"""What every engine can do. Engines take rows that `circuit.rows.read_rows` has checked; NaN is a missing value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from flatpc._extras import need
from flatpc._options import choice, shown, wrong
from flatpc.errors import DeviceError
from flatpc.families.base import Statistics

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

Array = NDArray[np.float64]
Dtype = Literal["float32", "float64"]


@dataclass(frozen=True)
class Flows:
    """Expected use of every part of the circuit, given the rows.

    A row with probability zero has no posterior and adds nothing to `sums` and `inputs`; its `log_prob` is `-inf`.
    Nodes that are tied are added up at the node that owns the parameters.
    """

    log_prob: Array
    """`[N]`: log-likelihood of every row."""
    sums: dict[int, Array]
    """Sum and Mixture nodes -> flow of every edge, of the shape of the weights, summed over rows: θ · ∂ Σ log p / ∂θ."""
    inputs: dict[int, Statistics]
    """Input nodes -> their family's sufficient statistics, rows weighted by flow."""


class Engine(Protocol):
    """Evaluates circuits. All results are float64, whatever the `dtype` of the arithmetic; none is ever NaN."""

    name: str

    def log_prob(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> Array:
        """`[N]`: log-likelihood of each row, `-inf` where the probability is zero."""

    def flows(self, circuit: Circuit, X: Array, *, weights: Array | None = None, dtype: Dtype = "float64") -> Flows:
        """Log-likelihoods and flows; `weights [N]` count rows more or less than once."""

    def unit_values(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        """For each node `[N, K]`: the logarithm of every unit's value."""

    def unit_flows(self, circuit: Circuit, X: Array, *, dtype: Dtype = "float64") -> list[Array]:
        """For each node `[N, K]`: every unit's flow, row by row."""

    def log_densities(self, circuit: Circuit, X: Array) -> dict[int, Array]:
        """For each Input `[N, K]`: the log-density of every unit, 0 where the value is missing; in float64 always."""


ENGINES = ("numba", "torch")
DTYPES = ("float32", "float64")


def get_engine(name: str = "auto", device: Any = None) -> Engine:
    """The engine called `name`, on a device; `"auto"` is numba on the CPU, and torch on any other device."""
    choice("engine", name, ("auto", *ENGINES))
    on_cpu = device is None or _kind_of(device) == "cpu"
    if name == "numba" and not on_cpu:
        raise DeviceError(
            f"device={shown(str(device))} with engine='numba', which computes on the CPU; leave device out, or choose "
            f"engine='torch'.",
            option="device",
        )
    if name != "torch" and on_cpu:
        from flatpc.engine.numba.engine import NumbaEngine

        return NumbaEngine()
    need("torch", "torch", "engine='torch'" if on_cpu else f"device={shown(str(device))}")
    from flatpc.engine.torch.engine import TorchEngine

    return TorchEngine("cpu" if device is None else device)


def _kind_of(device: Any) -> str:
    """`"cuda"` of `"cuda:1"` or of the torch device of that name."""
    kind = device.partition(":")[0] if isinstance(device, str) else getattr(device, "type", None)
    if not isinstance(kind, str) or isinstance(device, type):
        raise wrong("device", device, "give 'cpu', 'cuda', 'cuda:1' or a torch.device.")
    return kind


def check_dtype(dtype: str) -> Dtype:
    """`dtype` if it is one of ours."""
    return "float32" if choice("dtype", dtype, DTYPES) == "float32" else "float64"
