"""What every engine can do. Engines take rows that `circuit.rows.read_rows` has checked; NaN is a missing value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from numpy.typing import NDArray

from flatpc._extras import need
from flatpc._options import choice, shown, wrong
from flatpc._typing import Array, Ints
from flatpc.errors import DeviceError, OptionError
from flatpc.families.base import Statistics

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.engine.numba._kernels.columns import Rule
    from flatpc.engine.numba.program import Program

Dtype = Literal["float32", "float64"]
Arithmetic = Literal["float32", "float64", "bfloat16"]
"""Of learning. bfloat16: matrix products in it, all else in float32."""


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


class Evidence(Protocol):
    """Rows that an evaluator has prepared."""

    X: Array
    """`[N, D]`, not to be changed."""

    def __len__(self) -> int: ...


@dataclass
class Work:
    """What the passes of an evaluator have done, counted: the same on every machine and for any number of threads."""

    passes: int = 0
    steps: int = 0
    """Steps of the program, once for each pass."""
    multiplications: float = 0.0
    calls: int = 0
    """Of families, for their densities, statistics and updates."""

    def count(self, steps: int, multiplications: float, calls: int) -> None:
        """Add one pass."""
        self.passes += 1
        self.steps += steps
        self.multiplications += multiplications
        self.calls += calls


@dataclass
class Gradients:
    """Of log-likelihood and penalty, summed over rows; arrays are flat, as the evaluator packs parameters, and inputs are given
    by sufficient statistics.
    """

    numbers: Array
    """Log-likelihood, penalty."""
    weights: NDArray[Any]
    inputs: Array
    penalty_weights: NDArray[Any]
    penalty_inputs: Array

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All of them, to be added up over processes."""
        return self.numbers, self.weights, self.inputs, self.penalty_weights, self.penalty_inputs


class Penalises(Protocol):
    """Evaluates likelihood and penalty together, at an evaluator's present parameters (`flatpc.curvature.penalised`)."""

    def gradients(self, evidence: Any, rows: Ints, weights: Array | None = None, *, value: bool = False) -> Gradients:
        """Of the rows; the penalty itself, which a step doesn't need, only if its `value` is wanted.

        `weights` has one number for each row of the evidence: how often it counts.
        """


class Evaluator(Protocol):
    """A circuit that is learnt: its parameters in two flat arrays, which a learner changes, and passes over rows.

    `flatpc.engine.flat` knows where in the arrays each node's parameters lie, whichever engine makes the passes.
    """

    engine: str
    """The name of the engine that makes the passes."""
    circuit: Circuit
    """As it was when learning began."""
    program: Program
    dtype: Dtype
    """Of weights and gradients."""
    arithmetic: Arithmetic
    """The same, or bfloat16 if matrix products are in that."""
    n_threads: int
    weights: NDArray[Any]
    """All weights of sums and mixtures, in `dtype`."""
    inputs: Array
    """Tables and parameters of all inputs."""
    work: Work

    def evidence(self, X: Array) -> Any:
        """Rows as the other methods take them."""

    def log_prob(self, evidence: Any) -> Array:
        """`[N]`: log-likelihoods at the present parameters."""

    def statistics(self, evidence: Any, rows: Ints, row_weights: Array | None = None) -> tuple[Array, NDArray[Any], Array]:
        """Log-likelihoods of the rows; gradients of all weights and statistics of all inputs, flat and summed over rows."""

    def em_step(self, evidence: Any, rows: Ints, rule: Rule, row_weights: Array | None = None) -> tuple[float, Array]:
        """An E-step over the rows and the M-step of all weights: the mean log-likelihood before it, and inputs' statistics."""

    def weight_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[units, edges]`, a view of a flat array in the layout of the weights."""

    def input_views(self, flat: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Owner -> `[rows, units]`, a view of a flat array in the layout of the inputs."""


ENGINES = ("numba", "torch")
DTYPES = ("float32", "float64")


def get_engine(name: str = "auto", device: Any = None) -> Engine:
    """The engine called `name`, on a device; `"auto"` is numba on the CPU, and torch on any other device."""
    if _engine_for(name, device) == "numba":
        from flatpc.engine.numba.engine import NumbaEngine

        return NumbaEngine()
    from flatpc.engine.torch.engine import TorchEngine

    return TorchEngine("cpu" if device is None else device)


def get_evaluator(
    circuit: Circuit,
    *,
    engine: str = "numba",
    device: Any = None,
    dtype: Arithmetic = "float64",
    n_threads: int | None = None,
    memory: int | None = None,
) -> Evaluator:
    """What learns the circuit's parameters, on the engine that `get_engine` would take.

    `memory` bounds the work buffers of the numba engine, in bytes; None leaves it at its usual gibibyte.
    """
    if _engine_for(engine, device) == "numba":
        from flatpc.engine.numba import evaluator as native

        if dtype == "bfloat16":
            raise OptionError(
                "dtype='bfloat16' with engine='numba', which has float32 and float64; leave dtype out, or choose engine='torch'.",
                option="dtype",
            )
        return native.Evaluator(circuit, dtype, n_threads, native.DEFAULT_MEMORY if memory is None else memory)
    from flatpc.engine.torch.evaluator import TorchEvaluator

    return TorchEvaluator(circuit, dtype, "cpu" if device is None else device)


def _engine_for(name: str, device: Any) -> str:
    """The engine of this name for this device, or an error if it can't be had."""
    choice("engine", name, ("auto", *ENGINES))
    on_cpu = device is None or _kind_of(device) == "cpu"
    if name == "numba" and not on_cpu:
        raise DeviceError(
            f"device={shown(str(device))} with engine='numba', which computes on the CPU; leave device out, or choose "
            f"engine='torch'.",
            option="device",
        )
    if name != "torch" and on_cpu:
        return "numba"
    need("torch", "torch", "engine='torch'" if on_cpu else f"device={shown(str(device))}")
    return "torch"


def _kind_of(device: Any) -> str:
    """`"cuda"` of `"cuda:1"` or of the torch device of that name."""
    kind = device.partition(":")[0] if isinstance(device, str) else getattr(device, "type", None)
    if not isinstance(kind, str) or isinstance(device, type):
        raise wrong("device", device, "give 'cpu', 'cuda', 'cuda:1' or a torch.device.")
    return kind


def check_dtype(dtype: str) -> Dtype:
    """`dtype` if it is one of ours."""
    return "float32" if choice("dtype", dtype, DTYPES) == "float32" else "float64"


def check_arithmetic(dtype: str) -> Arithmetic:
    """`dtype` if it is one to learn in."""
    return "bfloat16" if choice("dtype", dtype, (*DTYPES, "bfloat16")) == "bfloat16" else check_dtype(dtype)
