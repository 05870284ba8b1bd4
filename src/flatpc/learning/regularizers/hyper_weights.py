"""HyperSPN (Shih, Sadigh and Ermon, 2021): a small network generates the weights of a large circuit.

Each block of weights (a sector) has an embedding e of few dimensions; one hidden layer is shared by all blocks, and blocks of one
shape share a head:

    logits of a block = V tanh(A e + a) + c

So blocks are points of a surface of low dimension: weights are shared softly. Learnt are e, A, a, V, c, and the parameters of the
inputs as before. The weights that the circuit starts with are not used: they lie on no such surface.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import put, whole_number
from flatpc._typing import Array
from flatpc.engine.contract import Evaluator
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.steps.method import Method
from flatpc.learning.steps.unconstrained import Unconstrained

Shape = tuple[int, int]


@dataclass(frozen=True)
class HyperWeights(Regularizer):
    """Generate the sums' weights from low-dimensional embeddings.

    Parameters
    ----------
    dimension
        Number of dimensions of the embedding of each block of weights.
    hidden
        Number of units of the hidden layer.

    Raises
    ------
    OptionError
        If one of them is not a positive whole number.

    Examples
    --------
    >>> import flatpc as fp
    >>> fp.learning.HyperWeights(dimension=3)
    HyperWeights(dimension=3, hidden=20)
    """

    dimension: int = 5
    hidden: int = 20

    def __post_init__(self) -> None:
        for name in ("dimension", "hidden"):
            put(self, **{name: whole_number(f"HyperWeights: {name}", getattr(self, name), 1)})

    def unconstrained(self, evaluator: Evaluator, seed: int) -> Generated:
        """The network's parameters, and those of inputs."""
        return Generated(self, evaluator, seed)

    def objection(self, other: Regularizer, method: Method) -> str:
        """A generator starts at random."""
        return "a generator starts anew, and would forget what is pruned and grown" if other.defines("around") else ""


class Generated(Unconstrained):
    """The vector z: embeddings, hidden layer, heads, and then the inputs' entries as in `Unconstrained`."""

    def __init__(self, options: HyperWeights, evaluator: Evaluator, seed: int) -> None:
        super().__init__(evaluator)
        self._plain = Unconstrained(evaluator)
        self._seed = seed
        self.blocks: dict[Shape, list[int]] = defaultdict(list)
        """Shape -> the blocks that have it, by the node that owns them; embeddings are in this order."""
        for i, view in evaluator.weight_views(evaluator.weights).items():
            self.blocks[view.shape[0], view.shape[1]].append(i)
        d, h = options.dimension, options.hidden
        self._shapes: dict[str, tuple[int, ...]] = {"A": (h, d), "a": (h,)}
        for shape, blocks in self.blocks.items():
            size = shape[0] * shape[1]
            self._shapes |= {f"e {shape}": (len(blocks), d), f"V {shape}": (size, h), f"c {shape}": (size,)}
        self.n_generator = sum(int(np.prod(shape)) for shape in self._shapes.values())
        self._n_inputs = evaluator.program.n_inputs
        self.size = self.n_generator + self._n_inputs
        self._z = np.zeros(self.size)

    def parts(self, z: Array) -> dict[str, Array]:
        """Views of the generator's parameters in a vector of the size of z, by name."""
        out, start = {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            out[name] = z[start : start + size].reshape(shape)
            start += size
        return out

    def read(self) -> Array:
        """Inputs as they are; a generator at random, whose logits are of order one."""
        z = np.zeros(self.size)
        rng = np.random.default_rng(self._seed)
        for name, part in self.parts(z).items():
            if name[0] == "e":
                part[:] = rng.standard_normal(part.shape)
            elif part.ndim == 2:
                part[:] = rng.standard_normal(part.shape) / np.sqrt(part.shape[1])
        z[self.n_generator :] = self._plain.read()[self.n_weights :]
        return z

    def write(self, z: Array) -> None:
        """Give the evaluator the weights that z generates, and its inputs."""
        self._z = z.copy()
        logits = np.zeros(self.n_weights + self._n_inputs)
        logits[self.n_weights :] = z[self.n_generator :]
        views, parts = self.evaluator.weight_views(logits[: self.n_weights]), self.parts(z)
        for shape, blocks in self.blocks.items():
            made = self._hidden(parts, shape) @ parts[f"V {shape}"].T + parts[f"c {shape}"]
            for i, row in zip(blocks, made, strict=True):
                views[i][:] = row.reshape(shape)
        self._plain.write(logits)

    def _hidden(self, parts: dict[str, Array], shape: Shape) -> Array:
        return np.asarray(np.tanh(parts[f"e {shape}"] @ parts["A"].T + parts["a"]))

    def add_gradient(self, out: Array, factor: float, weights: NDArray[Any], statistics: Array) -> None:
        """Add `factor` times the gradient in z: that in the logits, taken back through the network."""
        logits = np.zeros(self.n_weights + self._n_inputs)
        self._plain.add_gradient(logits, factor, weights, statistics)
        out[self.n_generator :] += logits[self.n_weights :]
        views = self.evaluator.weight_views(logits[: self.n_weights])
        parts, to = self.parts(self._z), self.parts(out)
        for shape, blocks in self.blocks.items():
            g = np.stack([views[i].ravel() for i in blocks])
            hidden = self._hidden(parts, shape)
            to[f"V {shape}"] += g.T @ hidden
            to[f"c {shape}"] += g.sum(axis=0)
            before = (g @ parts[f"V {shape}"]) * (1 - hidden**2)
            to["A"] += before.T @ parts[f"e {shape}"]
            to["a"] += before.sum(axis=0)
            to[f"e {shape}"] += before @ parts["A"]
