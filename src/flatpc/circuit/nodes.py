"""The four kinds of vector node. A node of width K is K scalar units that share a scope.

Nodes refer to their children by index into the circuit's tuple of nodes; children come before parents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, instance, put, several, whole_number, wrong
from flatpc.errors import OptionError
from flatpc.families.base import Family

Kind = Literal["hadamard", "kronecker"]
KINDS = ("hadamard", "kronecker")


def _whole(node: object, **least: int) -> None:
    """Turn the named fields into Python ints, which don't overflow as scopes do with NumPy's."""
    for name, smallest in least.items():
        value = getattr(node, name)
        if value is not None or name != "tie":
            put(node, **{name: whole_number(f"{type(node).__name__}: {name}", value, smallest)})


def _whole_children(node: Product | Sum | Mixture) -> None:
    name = f"{type(node).__name__}: children"
    children = several(name, node.children, "a tuple of indices of nodes")
    try:
        put(node, children=tuple(whole_number(name, c) for c in children))
    except OptionError:
        raise wrong(name, node.children, "give a tuple of indices of nodes.") from None


def _mask(given: Any) -> NDArray[np.bool_]:
    try:
        mask = np.array(given)
    except (ValueError, TypeError, RuntimeError):
        mask = np.array(None)
    if mask.ndim != 2 or mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise wrong("Sum: mask", given, "give a table of True and False, of the shape of the weights.")
    mask = mask.astype(bool)
    mask.flags.writeable = False
    return mask


@dataclass(frozen=True)
class Input:
    """`width` densities of one family over one variable.

    >>> import flatpc as fp
    >>> fp.Input(variable=0, family=fp.Gaussian(), width=3).width
    3

    Parameters
    ----------
    variable
        Number of the variable, from 0.
    family
        A family, such as `fp.Bernoulli()`.
    width
        Number of units.
    tie
        Index of an earlier Input whose parameters this one shares.

    Raises
    ------
    OptionError
        For a field of the wrong type or out of its range.
    """

    variable: int
    family: Family
    width: int = 1
    tie: int | None = None

    def __post_init__(self) -> None:
        _whole(self, variable=0, width=1, tie=0)
        instance("Input: family", self.family, Family, "a family, such as flatpc.Bernoulli()")


@dataclass(frozen=True)
class Product:
    """Entry-wise (`hadamard`) product of children of equal width, or all pairs of entries (`kronecker`).

    >>> import flatpc as fp
    >>> fp.Product(children=(0, 1)).kind
    'hadamard'

    The units of a Kronecker product are ordered as `numpy.kron` orders them: the last child's unit runs fastest.

    Parameters
    ----------
    children
        Indices of nodes over different variables.
    kind
        `"hadamard"` or `"kronecker"`.

    Raises
    ------
    OptionError
        For a field of the wrong type or out of its range.
    """

    children: tuple[int, ...]
    kind: Kind = "hadamard"

    def __post_init__(self) -> None:
        _whole_children(self)
        choice("Product: kind", self.kind, KINDS)


@dataclass(frozen=True, eq=False)
class Sum:
    """Weighted sums, `W · concat(children)`; each row of `W [width, Σ child widths]` lies on the simplex.

    >>> import flatpc as fp
    >>> fp.Sum(children=(0, 1), width=4).width
    4

    Parameters
    ----------
    children
        Indices of nodes over the same variables.
    width
        Number of units.
    mask
        Of the shape of `W`: False where an edge is absent. By default there are all edges.
    tie
        Index of an earlier Sum whose weights this one shares.

    Raises
    ------
    OptionError
        For a field of the wrong type or out of its range.
    """

    children: tuple[int, ...]
    width: int = 1
    mask: NDArray[np.bool_] | None = field(default=None)
    tie: int | None = None

    def __post_init__(self) -> None:
        _whole_children(self)
        _whole(self, width=1, tie=0)
        if self.mask is not None:
            put(self, mask=_mask(self.mask))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sum):
            return NotImplemented
        if (self.mask is None) != (other.mask is None):
            return False
        same_mask = self.mask is None or other.mask is None or np.array_equal(self.mask, other.mask)
        return (self.children, self.width, self.tie) == (other.children, other.width, other.tie) and same_mask

    def __hash__(self) -> int:
        return hash((self.children, self.width, self.tie))


@dataclass(frozen=True)
class Mixture:
    """Entry-wise convex mix of children of equal width; weights `[width, number of children]`, rows on the simplex.

    >>> import flatpc as fp
    >>> fp.Mixture(children=(0, 1)).children
    (0, 1)

    Parameters
    ----------
    children
        Indices of nodes over the same variables.
    tie
        Index of an earlier Mixture whose weights this one shares.

    Raises
    ------
    OptionError
        For a field of the wrong type or out of its range.
    """

    children: tuple[int, ...]
    tie: int | None = None

    def __post_init__(self) -> None:
        _whole_children(self)
        _whole(self, tie=0)


Node = Input | Product | Sum | Mixture
"""Any of the four kinds of node, for type hints."""


def children_of(node: Node) -> tuple[int, ...]:
    """The node's children; none for an Input."""
    return () if isinstance(node, Input) else node.children
