"""The usual way, as a yardstick: one EM step of a hidden Chow-Liu tree, dense, level by level, in PyTorch.

Every latent of a level is one slice of a batched matrix product over all rows; values are linear with one log-scale per
node and row; sums take the quadratic update. Nothing is shared between rows.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray

from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input, Product, Sum


class DenseTree:
    """The latents of an HCLT over binary variables, arranged by level."""

    def __init__(self, circuit: Circuit) -> None:
        nodes = circuit.nodes
        sums = [i for i, node in enumerate(nodes) if isinstance(node, Sum)]
        slot = {i: n for n, i in enumerate(sums)}
        leaves = [i for i, node in enumerate(nodes) if isinstance(node, Input)]
        leaf_slot = {i: n for n, i in enumerate(leaves)}
        self.width = max(circuit.widths)
        level: dict[int, int] = {}
        self.sum_children: list[list[int]] = []
        self.leaf_children: list[list[int]] = []
        for i in sums:
            product = nodes[nodes[i].children[0]]  # type: ignore[union-attr]
            assert isinstance(product, Product)
            self.sum_children.append([slot[c] for c in product.children if c in slot])
            self.leaf_children.append([leaf_slot[c] for c in product.children if c in leaf_slot])
            level[slot[i]] = 1 + max((level[c] for c in self.sum_children[-1]), default=-1)
        by_level: dict[int, list[int]] = defaultdict(list)
        for n, depth in level.items():
            by_level[depth].append(n)
        self.levels = [by_level[depth] for depth in sorted(by_level)]
        self.variables = torch.tensor([nodes[i].variable for i in leaves])  # type: ignore[union-attr]
        self.weights = torch.zeros(len(sums), self.width, self.width)
        for i in sums:
            weights = torch.tensor(np.asarray(circuit.parameters[i]), dtype=torch.float32)
            self.weights[slot[i], : weights.shape[0]] = weights
        p = torch.tensor(np.stack([circuit.parameters[i]["p"] for i in leaves]), dtype=torch.float32)  # type: ignore[index]
        self.tables = torch.stack([1 - p, p], dim=1)
        self.rounds = [
            (list(self._rounds(ns, self.leaf_children)), list(self._rounds(ns, self.sum_children))) for ns in self.levels
        ]

    def _rounds(self, nodes: list[int], children: list[list[int]]):  # type: ignore[no-untyped-def]
        """The first child of every node that has one, then the second, ...: (position in the level, child)."""
        t = 0
        while some := [(at, children[n][t]) for at, n in enumerate(nodes) if len(children[n]) > t]:
            yield torch.tensor([at for at, _ in some]), torch.tensor([c for _, c in some])
            t += 1

    def step(self, rows: NDArray[np.float64], mu: float, alpha: float) -> tuple[float, torch.Tensor]:
        """Mean log-likelihood and new weights."""
        x = torch.from_numpy(rows.astype(np.int64)).t()[self.variables]
        n, k, b = len(self.weights), self.width, x.shape[1]
        inputs = self.tables.gather(1, x[:, :, None].expand(-1, -1, k))
        values, scale = torch.empty(n, b, k), torch.zeros(n, b)
        products: list[torch.Tensor] = []
        for nodes, (leaf_rounds, sum_rounds) in zip(self.levels, self.rounds, strict=True):
            p, s = torch.ones(len(nodes), b, k), torch.zeros(len(nodes), b)
            for source, rounds in ((inputs, leaf_rounds), (values, sum_rounds)):
                for at, child in rounds:
                    p[at] *= source[child]
                    if source is values:
                        s[at] += scale[child]
                    top = p[at].amax(-1, keepdim=True)
                    p[at] /= top
                    s[at] += top.squeeze(-1).log()
            products.append(p)
            values[nodes] = torch.bmm(p, self.weights[nodes].transpose(1, 2))
            scale[nodes] = s
        likelihood = values[-1, :, 0]
        adjoints, new = torch.zeros(n, b, k), self.weights.clone()
        adjoints[-1, :, 0] = 1 / likelihood
        for nodes, (_, sum_rounds), p in zip(self.levels[::-1], self.rounds[::-1], products[::-1], strict=True):
            w, g = self.weights[nodes], adjoints[nodes]
            flow = torch.bmm(g.transpose(1, 2), p).mul_(w)
            down = torch.bmm(g, w).mul_(p)
            for at, child in sum_rounds:
                adjoints[child] = down[at] / values[child]
            flow = flow + torch.sqrt(flow * flow + 4 * mu * flow)
            new[nodes] = (1 - alpha) * w + alpha * flow / flow.sum(-1, keepdim=True).clamp_min(1e-30)
        return float((likelihood.log() + scale[-1]).mean()), new
