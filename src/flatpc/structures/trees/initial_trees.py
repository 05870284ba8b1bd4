"""Where hidden Chow-Liu trees start from: the tree itself, its marginals, or nowhere in particular.

A hidden tree contains the Chow-Liu tree: let every state of a latent stand for one value of its variable. With state k
standing for the value a(k), and n(a) states standing for a,

    p(x_v | z_v = k) = [x_v = a(k)],    p(z_v = j | z_parent = i) = p(x_v = a(j) | x_parent = a(i)) / n(a(j)),

a leaf, which hangs on its parent's latent, has p(x_v | z_parent = i) = p(x_v | x_parent = a(i)). States that stand for
the same value are alike and EM would keep them so; `noise` tells them apart.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from flatpc._options import choice, number, wrong
from flatpc._typing import Array
from flatpc.families.initialize import random_simplex
from flatpc.structures.trees.tree_models import TreeModel

INITS = ("random", "chow-liu", "marginals")


def check_init(init: str, noise: float) -> None:
    """Raise unless both are known."""
    choice("init", init, INITS)
    number("noise", noise, 0.0, 1.0, what="it is the share of chance in the first parameters, from 0 to 1")


class Start:
    """First parameters of one hidden tree with `width` states: of its inputs, and of the sums over its latents."""

    def __init__(self, model: TreeModel, width: int, init: str, noise: float, rng: np.random.Generator) -> None:
        self.model, self.width, self.init, self.noise, self.rng = model, width, init, noise, rng
        self.values = [np.arange(width) % table.shape[1] for table in model.tables]
        """For each variable, the value that each state of its latent stands for."""
        largest = max(table.shape[1] for table in model.tables)
        if init == "chow-liu" and largest > width:
            raise wrong(
                "n_latents",
                width,
                f"a variable has {largest} values, and a start from the Chow-Liu tree takes a state for each. "
                f"Give {largest} or more, or choose init='marginals'.",
            )

    def emissions(self, v: int, is_leaf: bool) -> Array:
        """`[states, values]`: p(x_v | z), z being v's own latent, or its parent's for a leaf."""
        table = self.model.tables[v]
        if self.init == "marginals":
            return self._shaken(np.broadcast_to(self.marginals[v], (self.width, table.shape[1])))
        parent = self.model.tree.parent[v]
        if is_leaf and parent >= 0:
            return self._shaken(table[self.values[parent]])
        return self._shaken(np.eye(table.shape[1])[self.values[v]])

    def transitions(self, v: int) -> Array:
        """`[states of the parent's latent, states of v's]`; one row for the root."""
        parent = self.model.tree.parent[v]
        if self.init == "marginals":
            return random_simplex((self.width if parent >= 0 else 1, self.width), self.rng, "exponential")
        table = self.model.tables[v]
        states = np.bincount(self.values[v], minlength=table.shape[1])
        rows = (table / states)[:, self.values[v]]
        return self._shaken(rows if parent < 0 else rows[self.values[parent]])

    @cached_property
    def marginals(self) -> list[Array]:
        """For each variable p(x_v)."""
        out: list[Any] = [None] * len(self.model.tables)
        for v in self.model.tree.order:
            parent = self.model.tree.parent[v]
            out[v] = self.model.tables[v][0] if parent < 0 else out[parent] @ self.model.tables[v]
        return out

    def _shaken(self, rows: Array) -> Array:
        """(1 - noise) of the rows and noise of random ones."""
        if self.noise == 0:
            return np.array(rows)
        return np.asarray((1 - self.noise) * rows + self.noise * random_simplex(rows.shape, self.rng, "exponential"))
