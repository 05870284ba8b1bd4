"""The four kinds of vector node. A node of width K is K scalar units that share a scope.

Nodes refer to their children by index into the circuit's tuple of nodes; children come before parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, instance, put, several, whole_number, wrong
from flatpc.errors import OptionError, StructureError
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


@dataclass(frozen=True, init=False, repr=False)
class Input:
    """`width` densities of one family over one variable, or over several of a family that is multivariate.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> fp.Input(variable=0, family=fp.Gaussian(), width=3).width
    3
    >>> pair, X = fp.Input(variables=(0, 3), family=fp.MultivariateGaussian(2)), np.zeros((9, 5))
    >>> X[:, pair.columns].shape, X[pair.place(np.array([7, 8]))].shape
    ((9, 2), (2, 2))

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
    variables
        In place of `variable`: the numbers of as many different variables as the family is over, in its order.

    Raises
    ------
    OptionError
        For a field of the wrong type or out of its range, or a number of variables that is not the family's.
    """

    variables: tuple[int, ...]
    family: Family
    width: int
    tie: int | None

    def __init__(
        self,
        variable: int | None = None,
        family: Family | None = None,
        width: int = 1,
        tie: int | None = None,
        *,
        variables: Sequence[int] | None = None,
    ) -> None:
        put(self, family=instance("Input: family", family, Family, "a family, such as flatpc.Bernoulli()"))
        put(self, variables=_variables(variable, variables, self.family), width=width, tie=tie)
        _whole(self, width=1, tie=0)

    @property
    def variable(self) -> int:
        """The number of its variable; `StructureError` if there are several."""
        if len(self.variables) > 1:
            raise StructureError(f"{self} has no single variable; ask for its `variables`.")
        return self.variables[0]

    @property
    def columns(self) -> int | list[int]:
        """Index of its columns: `X[:, node.columns]` is what its family takes, `[N]`, or `[N, d]` over d variables."""
        return self.variables[0] if self.family.n_variables == 1 else list(self.variables)

    def place(self, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Index of what its family takes of some rows: `X[node.place(rows)]`.

        Parameters
        ----------
        rows
            `[n]`: numbers of rows.

        Returns
        -------
        tuple
            Two indices.
        """
        return (rows, self.variables[0]) if self.family.n_variables == 1 else np.ix_(rows, np.array(self.variables))

    def __repr__(self) -> str:
        which = f"variable={self.variables[0]}" if len(self.variables) == 1 else f"variables={self.variables}"
        return f"Input({which}, family={self.family!r}, width={self.width}, tie={self.tie})"


def _variables(variable: Any, variables: Any, family: Family) -> tuple[int, ...]:
    """The checked numbers of variables, of which one of the two options tells."""
    n = family.n_variables
    if variables is None:
        if n > 1:
            raise wrong("Input: variable", variable, f"{family} is over {n} variables; give `variables`, a tuple of {n} numbers.")
        return (whole_number("Input: variable", variable),)
    if variable is not None:
        raise wrong("Input: variable", variable, "give `variable` or `variables`, not both.")
    name = "Input: variables"
    found = tuple(whole_number(name, v) for v in several(name, variables, "a tuple of numbers of variables"))
    if len(found) != n or len(set(found)) != n:
        raise wrong(name, variables, f"give {n} different number{'s' if n > 1 else ''}, as {family} is over {n}.")
    return found


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
