"""A circuit as a differentiable torch function of its parameters and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flatpc.engine.torch.layers import Layer, State, build
from flatpc.engine.torch.layout import Taking, fold

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

NodeTensors = Tensor | dict[str, Tensor]

# The share of a probability that may be lost to underflow. A row that may have lost more is evaluated again: in float64,
# and if that isn't enough either, with a scale for every unit.
_TOLERANCE = {torch.float32: 1e-8, torch.float64: 1e-17}
_SEPARATE_NUMBERS = 1 << 22


class TorchCircuit:
    """`log p(x)`, differentiable (twice and more) in parameters and in rows of Gaussian variables.

    >>> import numpy as np, torch
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": np.array([0.2, 0.8])}, 1: np.array([[0.5, 0.5]])})
    >>> f = TorchCircuit(c)
    >>> w = f.parameters[1].requires_grad_()
    >>> f.log_prob(torch.tensor([[1.0]]), {1: w}).backward()
    >>> w.grad                                                                           # p / (w · p)
    tensor([[0.4000, 1.6000]], dtype=torch.float64)

    `parameters` maps the node that owns them to a tensor (Sum, Mixture) or a dict of tensors (Input), as
    `circuit.parameters` does, but tied nodes are left out. Weights have the given `dtype`; inputs' parameters are
    float64 always. They are free variables here: nothing is normalised, and derivatives are taken in each of them, edges
    that a mask removes excepted (those stay 0).

    The structure is kept, not the circuit: later parameters are handed to `log_prob`.
    """

    def __init__(self, circuit: Circuit, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> None:
        circuit.check_structure()
        self.dtype = dtype
        self.device = torch.device(device)
        self.layers = _layers(circuit, self.device)
        self.parameters = self.read_parameters(circuit)

    def read_parameters(self, circuit: Circuit) -> dict[int, NodeTensors]:
        """The parameters of a circuit with this structure, as tensors."""
        out: dict[int, NodeTensors] = {}
        for i, value in circuit.parameters.items():
            if circuit.owners[i] != i:
                continue
            if isinstance(value, dict):
                out[i] = {name: torch.tensor(array, device=self.device) for name, array in value.items()}
            else:
                out[i] = torch.tensor(value, dtype=self.dtype, device=self.device)
        return out

    def __call__(self, X: Tensor, parameters: Mapping[int, Any] | None = None) -> Tensor:
        return self.log_prob(X, parameters)

    def log_prob(self, X: Tensor, parameters: Mapping[int, Any] | None = None) -> Tensor:
        """`[N]` log-likelihoods of `X [N, D]`, NaN being missing.

        `parameters` replaces those of some or all owners. A row of probability 0 has `-inf` and gradient 0.
        """
        given = self.parameters if parameters is None else {**self.parameters, **parameters}
        return self._log_prob(X.to(self.device), given, self.dtype)

    def _log_prob(self, X: Tensor, parameters: Mapping[int, Any], dtype: torch.dtype) -> Tensor:
        state = self.shared(X, self.stack(parameters, dtype), dtype)
        v, s = state.v[-1][0, :, 0], state.s[-1][0]
        unsure = self.unsure(state)
        if torch.is_grad_enabled() and state.faint:
            unsure = unsure | torch.stack(state.faint).any(0)
        out = _log(torch.where(unsure, torch.zeros_like(v), v), s)
        rows = unsure.nonzero().squeeze(-1)
        if len(rows) == 0:
            return out
        if dtype != torch.float64:
            again = self._log_prob(X[rows], parameters, torch.float64)
        else:
            stacked = self.stack(parameters, dtype)
            blocks = torch.split(rows, self.separate_rows())
            again = torch.cat([self.root(self.separate(X[block], stacked)) for block in blocks])
        return out.index_put((rows,), again)

    # ---- the parts that the engine uses too ------------------------------------------------------------------------

    def stack(self, parameters: Mapping[int, Any], dtype: torch.dtype) -> list[Any]:
        """Each layer's parameters side by side, the weights in `dtype`."""
        stacked = [layer.stack(parameters) for layer in self.layers]
        return [a.to(dtype) if isinstance(a, Tensor) else a for a in stacked]

    def shared(
        self,
        X: Tensor,
        stacked: list[Any],
        dtype: torch.dtype,
        narrow: torch.dtype | None = None,
        plan: Taking | None = None,
    ) -> State:
        """Values with one scale per node and row."""
        state = State(dtype, narrow, plan)
        for layer, parameters in zip(self.layers, stacked, strict=True):
            layer.shared(state, X, parameters)
        return state

    def separate(
        self,
        X: Tensor,
        stacked: list[Any],
        then: Callable[[State], None] | None = None,
        use: dict[int, Tensor] | None = None,
    ) -> State:
        """Values with one scale per unit, in float64; `then` is called after each layer, `use` goes into the state."""
        state = State(torch.float64, use=use or {})
        for layer, parameters in zip(self.layers, stacked, strict=True):
            layer.separate(state, X, parameters)
            if then is not None:
                then(state)
        return state

    def unsure(self, state: State) -> Tensor:
        """`[N]`: rows whose probability may have suffered from underflow."""
        return state.e[-1][0] > _TOLERANCE[state.dtype] * state.v[-1].detach()[0, :, 0]

    def root(self, state: State) -> Tensor:
        """`[N]` log-likelihoods after `separate`."""
        return _log(state.v[-1][0, :, 0], state.s[-1][0, :, 0])

    def separate_rows(self) -> int:
        """Rows at a time for `separate`, so that its largest tensor holds about 4 million numbers."""
        return max(1, _SEPARATE_NUMBERS // max(layer.largest() for layer in self.layers))


def _log(v: Tensor, s: Tensor) -> Tensor:
    """`log v + s`, and -inf with gradient 0 where v is 0."""
    positive = v > 0
    return torch.where(positive, torch.where(positive, v, 1.0).double().log() + s, -torch.inf)


def _layers(circuit: Circuit, device: torch.device) -> list[Layer]:
    """The layers of a circuit; they depend on its structure only, so circuits with other parameters share them."""
    # `with_parameters` hands the instance's attributes on to the new circuit, as it does with cached properties.
    kept: dict[torch.device, list[Layer]] = circuit.__dict__.setdefault("_torch_layers", {})
    if device not in kept:
        kept[device] = [build(circuit, group, device) for group in fold(circuit)]
        met: list[set[int]] = [set() for _ in kept[device]]
        for layer in reversed(kept[device]):  # as flows go down
            for take in layer.takes:
                take.mark_first(met)
    return kept[device]
