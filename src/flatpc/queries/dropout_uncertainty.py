"""Tractable dropout inference (Ventola et al., 2023): how much p(x) varies when edges of sums are dropped at random, in one pass.

Every edge of a sum or mixture is kept with probability q = 1 - p, independently: S = Σ_c δ_c θ_c v_c. Means follow from

    E[S] = q Σ θ_c E[v_c],      E[Π v_c] = Π E[v_c]

and second moments from those of pairs. With M = E[v vᵀ] over the children's units of a sum node with weights W,

    E[s sᵀ] = q² W M Wᵀ + q (1-q) diag(W² diag M)

and those of a product are products of its children's, whose edges are different ones because their scopes are disjoint. Pairs
of nodes without a sum in common below them are independent. So it is exact wherever products that share sums cut a scope in
the same way, as in hidden Chow-Liu trees, hidden Markov models and RAT-SPNs. Others would need pairs that don't factorise; they
are refused unless `exact=False`, which takes different nodes for independent, as the formulas for trees do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import flag, number
from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Mixture, Product, Sum, children_of
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.errors import StructureError, TiedParametersError
from flatpc.queries.answers import answering

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

_NUMBERS = 1 << 24
"""Second moments that are held at once."""


@dataclass(frozen=True)
class DropoutUncertainty:
    """Moments of p(x) under dropout, row by row."""

    log_mean: Array
    """`[N]`: log E[p(x)]."""
    relative_variance: Array
    """`[N]`: Var[p(x)] / E[p(x)]², which doesn't underflow; 0 where p(x) is 0 anyway."""

    @property
    def mean(self) -> Array:
        """E[p(x)]."""
        return np.exp(self.log_mean)

    @property
    def variance(self) -> Array:
        """Var[p(x)]."""
        return np.exp(2 * self.log_mean) * self.relative_variance


def dropout_uncertainty(
    circuit: Circuit,
    X: Any,
    *,
    p: float = 0.1,
    exact: bool = True,
    missing: str = "raise",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
) -> DropoutUncertainty:
    """Mean and variance of p(x) when each edge of a sum is dropped with probability `p`, in closed form.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": np.array([0.2, 0.8])}, 1: np.array([[0.5, 0.5]])})
    >>> found = fp.queries.dropout_uncertainty(c, [[1]], p=0.5)
    >>> found.mean, found.variance                        # (0.1 + 0.4) / 2, (0.1² + 0.4²) / 4
    (array([0.25]), array([0.0425]))

    Parameters
    ----------
    circuit, X
        As for `log_prob`; the circuit's weights must not be tied.
    p
        The probability that an edge is dropped, from 0 to less than 1.
    exact
        False takes different nodes for independent, which is right for trees.
    missing, engine, dtype, device
        As for `log_prob`. The engine gives the densities of inputs; moments are computed by NumPy, in float64.

    Returns
    -------
    DropoutUncertainty
        The moments of p(x), row by row, as NumPy arrays.

    Raises
    ------
    TiedParametersError
        Some sums share weights.
    StructureError
        Products that share sums cut a scope in different ways, and `exact` is True.
    DataError, OptionError
        As for `log_prob`; and if `p` is not a probability less than 1.
    """
    p = number("p", p, 0.0, 1.0, below=True, what="it is the probability that an edge is dropped, from 0 to less than 1")
    flag("exact", exact)
    check_circuit(circuit).check_structure()
    if any(owner != i and not isinstance(circuit.nodes[i], Input) for i, owner in enumerate(circuit.owners)):
        raise TiedParametersError("Dropout inference drops each edge on its own, but some sums share weights; untie them first.")
    rows = read_rows(circuit, X, missing)
    run, _ = answering(X, engine, dtype, device)
    size = max(1, _NUMBERS // sum(width * width for width in circuit.widths))
    parts = [
        _Moments(circuit, run.log_densities(circuit, rows[start : start + size]), 1 - p, exact).root()
        for start in range(0, len(rows), size)
    ]
    return DropoutUncertainty(*(np.concatenate(values) for values in zip(*parts, strict=True)))


class _Moments:
    """Moments of a block of rows. Values of node i are in units of exp(scale[i]), one scale per row."""

    def __init__(self, circuit: Circuit, log_densities: dict[int, Array], q: float, exact: bool) -> None:
        self.circuit, self.q, self.exact = circuit, q, exact
        self.sums = _sums_below(circuit)
        self.mean: list[Array] = []
        self.scale: list[Array] = []
        self._pairs: dict[tuple[int, int], Array] = {}
        for i, node in enumerate(circuit.nodes):
            if isinstance(node, Input):
                log_value = log_densities[i]
                self._append(np.exp(log_value - _largest(log_value)[:, None]), _largest(log_value))
            else:
                self._append(*self._mean(i))
        for i in _reachable(circuit):
            # From below, so that no recursion is as deep as the circuit.
            self.pair(i, i)

    def root(self) -> tuple[Array, Array]:
        """Log mean and relative variance of the root."""
        i = self.circuit.root
        mean, second = self.mean[i][:, 0], self.pair(i, i)[:, 0, 0]
        with np.errstate(divide="ignore"):
            log_mean = np.log(mean) + self.scale[i]
        relative = np.divide(second, mean**2, out=np.ones_like(mean), where=mean > 0) - 1
        return log_mean, np.maximum(relative, 0.0)

    def _append(self, value: Array, scale: Array) -> None:
        value, log_largest = _rescaled(value)
        self.mean.append(value)
        self.scale.append(scale + log_largest)

    # ---- means ----------------------------------------------------------------------------------------------------

    def _common(self, children: tuple[int, ...]) -> Array:
        """A scale for children whose values are added."""
        return np.asarray(np.max([self.scale[c] for c in children], axis=0))

    def _in(self, c: int, scale: Array) -> Array:
        """What turns values in units of a child's scale into values in units of this one `[N]`."""
        return np.exp(self.scale[c] - scale)

    def _mean(self, i: int) -> tuple[Array, Array]:
        node = self.circuit.nodes[i]
        assert not isinstance(node, Input)
        if isinstance(node, Product):
            return self._product(node)
        scale = self._common(node.children)
        values = [self.mean[c] * self._in(c, scale)[:, None] for c in node.children]
        weights = self._weights(i)
        if isinstance(node, Sum):
            return self.q * np.concatenate(values, axis=1) @ weights.T, scale
        return self.q * np.einsum("nkc,kc->nk", np.stack(values, axis=2), weights), scale

    def _product(self, node: Product) -> tuple[Array, Array]:
        """Rescaled after every factor: a product of hundreds would underflow."""
        value, scale = self.mean[node.children[0]], self.scale[node.children[0]]
        for c in node.children[1:]:
            factor = self.mean[c]
            value = (
                (value[:, :, None] * factor[:, None, :]).reshape(len(value), -1) if node.kind == "kronecker" else value * factor
            )
            value, log_largest = _rescaled(value)
            scale = scale + self.scale[c] + log_largest
        return value, scale

    def _weights(self, i: int) -> Array:
        weights = self.circuit.parameters[i]
        assert isinstance(weights, np.ndarray)
        return weights

    # ---- second moments -------------------------------------------------------------------------------------------

    def pair(self, i: int, j: int) -> Array:
        """`[N, units of i, units of j]`: E[v_i v_jᵀ] in units of exp(scale[i] + scale[j])."""
        if i < j:
            return self.pair(j, i).transpose(0, 2, 1)
        if (i, j) not in self._pairs:
            self._pairs[i, j] = self._pair(i, j)
        return self._pairs[i, j]

    def _pair(self, i: int, j: int) -> Array:
        node, other = self.circuit.nodes[i], self.circuit.nodes[j]
        if not self.sums[i] & self.sums[j] or (i != j and not self.exact):
            return self.mean[i][:, :, None] * self.mean[j][:, None, :]
        if isinstance(node, Sum | Mixture):
            return self._sum_with_itself(i, node) if i == j else self._sum_with(i, j, node)
        assert isinstance(node, Product)
        # A product of one child is that child, and may hold the other node.
        if len(node.children) == 1:
            (c,) = node.children
            return self.pair(c, c if i == j else j)
        if isinstance(other, Product) and len(other.children) == 1:
            return self.pair(i, other.children[0])
        if isinstance(other, Sum | Mixture):
            return self._sum_with(j, i, other).transpose(0, 2, 1)
        assert isinstance(other, Product)
        return self._products(i, j, node, other)

    def _sum_with(self, i: int, j: int, node: Sum | Mixture) -> Array:
        """A sum and a node that doesn't hold the sum's own edges."""
        scale = self.scale[i]
        below = [self.pair(c, j) * self._in(c, scale)[:, None, None] for c in node.children]
        if isinstance(node, Sum):
            return np.asarray(self.q * self._weights(i) @ np.concatenate(below, axis=1))
        return np.asarray(self.q * np.einsum("nkjc,kc->nkj", np.stack(below, axis=3), self._weights(i)))

    def _sum_with_itself(self, i: int, node: Sum | Mixture) -> Array:
        W, q, scale = self._weights(i), self.q, self.scale[i]
        factor = [self._in(c, scale)[:, None, None] for c in node.children]
        grid = [
            [self.pair(c, d) * factor[a] * factor[b] for b, d in enumerate(node.children)] for a, c in enumerate(node.children)
        ]
        if isinstance(node, Sum):
            M = np.concatenate([np.concatenate(row, axis=2) for row in grid], axis=1)
            out = q * q * W @ M @ W.T
            own = np.einsum("ncc->nc", M) @ (W**2).T
        else:
            M = np.stack([np.stack(row, axis=3) for row in grid], axis=3)  # [N, k, l, c, d]
            out = q * q * np.einsum("nklcd,kc,ld->nkl", M, W, W)
            own = np.einsum("nkkcc,kc->nk", M, W**2)
        at = np.arange(out.shape[1])
        out[:, at, at] += q * (1 - q) * own
        return np.asarray(out)

    def _products(self, i: int, j: int, node: Product, other: Product) -> Array:
        """Products of the same scope, cut in the same way: children of one scope make pairs."""
        scopes = self.circuit.scopes
        partner = {scopes[c]: c for c in other.children}
        if sorted(scopes[c] for c in node.children) != sorted(partner):
            raise StructureError(
                f"The products {i} and {j} share sums but cut their scope in different ways, so that their covariance has no "
                f"closed form; pass exact=False to take them for independent."
            )
        pairs = [self.pair(c, partner[scopes[c]]) for c in node.children]
        scale = sum(self.scale[c] for c in (*node.children, *other.children)) - self.scale[i] - self.scale[j]
        if (node.kind, other.kind) == ("hadamard", "hadamard"):
            out = pairs[0]
            for factor in pairs[1:]:
                out, log_largest = _rescaled(out * factor)
                scale = scale + log_largest
        else:
            letters = iter("abcdefghijklmopqrstuvwxyzABCDEFGHIJKLMOPQRSTUVWXYZ")
            mine, theirs = _axes(node, letters), _axes(other, letters)
            terms = ",".join(f"n{mine[c]}{theirs[partner[scopes[c]]]}" for c in node.children)
            order = "".join(dict.fromkeys([*(mine[c] for c in node.children), *(theirs[d] for d in other.children)]))
            widths = self.circuit.widths
            out = np.einsum(f"{terms}->n{order}", *pairs, optimize=True).reshape(-1, widths[i], widths[j])
        return np.asarray(np.exp(scale)[:, None, None] * out)


def _axes(node: Product, letters: Any) -> dict[int, str]:
    """A letter for each child's units; a Hadamard product has one for all."""
    if node.kind == "hadamard":
        one = next(letters)
        return dict.fromkeys(node.children, one)
    return {c: next(letters) for c in node.children}


def _rescaled(value: Array) -> tuple[Array, Array]:
    """Each row divided by its largest entry, and that entry's logarithm; rows of zeros as they are."""
    largest = value.reshape(len(value), -1).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    return value / safe.reshape(-1, *[1] * (value.ndim - 1)), np.log(safe)


def _largest(log_value: Array) -> Array:
    largest = log_value.max(axis=1)
    return np.asarray(np.where(np.isfinite(largest), largest, 0.0))


def _sums_below(circuit: Circuit) -> list[int]:
    """Each node's sums and mixtures, itself included, as bits."""
    out: list[int] = []
    for i, node in enumerate(circuit.nodes):
        bits = 0 if isinstance(node, Input | Product) else 1 << i
        for c in children_of(node):
            bits |= out[c]
        out.append(bits)
    return out


def _reachable(circuit: Circuit) -> list[int]:
    """All nodes that the root uses, children first."""
    used = {circuit.root}
    for i in reversed(range(len(circuit.nodes))):
        if i in used:
            used.update(children_of(circuit.nodes[i]))
    return sorted(used)
