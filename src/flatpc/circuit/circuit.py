"""The circuit: an immutable structure of vector nodes with parameters that are replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from flatpc._options import choice, flag, seed_number, several, whole_number
from flatpc.circuit import properties
from flatpc.circuit.checks import check_masks_and_ties, check_root
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.circuit.parameters import NodeParameters, check_indices, checked_parameters, freeze, random_parameters
from flatpc.circuit.questions import Questions
from flatpc.circuit.scopes import (
    check_order,
    check_supports,
    check_used,
    compute_scopes,
    compute_widths,
    decomposability_error,
    smoothness_error,
)
from flatpc.circuit.unavailable import unavailable
from flatpc.errors import StructureError
from flatpc.families.base import Family
from flatpc.families.initialize import SCHEMES


class Circuit(Questions):
    """A smooth and decomposable probabilistic circuit.

    Two biased coins, thrown together, the pair of them chosen by a fair one:

    >>> import numpy as np
    >>> import flatpc as fp
    >>> nodes = [fp.Input(0, fp.Bernoulli(), width=2), fp.Input(1, fp.Bernoulli(), width=2), fp.Product((0, 1)), fp.Sum((2,))]
    >>> biased = {"p": np.array([0.2, 0.8])}
    >>> c = fp.Circuit(nodes, {0: biased, 1: biased, 3: np.array([[0.5, 0.5]])})
    >>> c
    Circuit(2 variables, 6 parameters, 6 edges: 2 Input, 1 Product, 1 Sum)
    >>> c.weight_shape(c.root)
    (1, 2)
    >>> c.check_structure()

    Questions, in which NaN is what isn't known:

    >>> np.exp(c.log_prob([[1, 1], [1, np.nan]], missing="marginalize")).round(3).tolist()       # (0.2² + 0.8²) / 2, 1/2
    [0.34, 0.5]
    >>> np.exp(c.conditional_log_prob([[1, 1]], given=[0])).round(3).tolist()                   # 0.34 / 0.5
    [0.68]
    >>> c.conditional_proba([[1, np.nan]], variable=1).round(3).tolist()
    [[0.32, 0.68]]
    >>> c.expectation([[1, np.nan]]).round(3).tolist(), c.variance([[1, np.nan]]).round(4).tolist()
    ([[1.0, 0.68]], [[0.0, 0.2176]])
    >>> c.mpe([[1, np.nan]]).values.tolist()
    [[1.0, 1.0]]
    >>> c.sample(5, given=[1, np.nan], seed=0).shape
    (5, 2)
    >>> c.flows([[1, 1]]).sums[c.root].round(3).tolist()                                         # 0.04 / 0.68, 0.64 / 0.68
    [[0.059, 0.941]]
    >>> c.dropout_uncertainty([[1, 1]], p=0.5).mean.round(3).tolist()                            # half of 0.34
    [0.17]

    Nothing is changed in place. Other parameters make another circuit:

    >>> other = c.with_parameters({3: np.array([[0.9, 0.1]])})
    >>> np.exp(other.log_prob([[1, 1]])).round(3).tolist(), c.randomize(seed=1).n_parameters
    ([0.1], 6)
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     other.save(f"{folder}/coins.safetensors")
    ...     fp.load(f"{folder}/coins.safetensors").n_edges
    6

    Parameters
    ----------
    nodes
        In topological order, children first; the last one is the root, has width 1, and all others are below it.
    parameters
        Node index -> weights (Sum, Mixture) or the family's named arrays (Input). A node that is tied to another one
        may be left out. Left out altogether, parameters are drawn at random with seed 0.
    strict
        False allows structures that are not smooth or not decomposable, to be looked at; engines refuse them.

    Raises
    ------
    StructureError
        The nodes don't make a circuit; `SmoothnessError` and `DecomposabilityError` are of this kind.
    ParameterError
        Parameters are missing, have the wrong shape, or are out of range.
    OptionError
        `nodes` is no list of nodes, or `strict` neither True nor False.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        parameters: Mapping[int, Any] | None = None,
        *,
        strict: bool = True,
    ) -> None:
        self.nodes: tuple[Node, ...] = several("nodes", nodes, "a list of nodes")
        check_order(self.nodes)
        check_supports(self.nodes)
        self.widths: tuple[int, ...] = tuple(compute_widths(self.nodes))
        self.scopes: tuple[int, ...] = tuple(compute_scopes(self.nodes))
        check_root(self)
        check_masks_and_ties(self)
        if flag("strict", strict):
            self.check_structure()
        check_used(self.nodes)
        if parameters is None:
            self.parameters = freeze(random_parameters(self, np.random.default_rng(0), "exponential", None), self.owners)
        else:
            self.parameters = freeze(checked_parameters(self, parameters), self.owners)

    # ---- structure ------------------------------------------------------------------------------------------------

    def check_structure(self) -> None:
        """Raise unless the circuit is smooth and decomposable.

        Raises
        ------
        SmoothnessError
            The children of a sum have different scopes.
        DecomposabilityError
            The children of a product share a variable.
        """
        error = smoothness_error(self.nodes, self.scopes) or decomposability_error(self.nodes, self.scopes)
        if error is not None:
            raise error

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """The node whose parameters each node uses, which is itself unless it is tied."""
        out: list[int] = []
        for i, node in enumerate(self.nodes):
            tie = None if isinstance(node, Product) else node.tie
            out.append(i if tie is None else out[tie])
        return tuple(out)

    def weight_shape(self, i: int) -> tuple[int, int]:
        """Shape of the weights of a Sum or Mixture.

        Parameters
        ----------
        i
            The node's index.

        Returns
        -------
        tuple
            Units and edges.

        Raises
        ------
        StructureError
            The node is an Input or a Product, and has no weights.
        OptionError
            There is no such node.
        """
        node = self.nodes[whole_number("i", i, 0, len(self.nodes) - 1)]
        if isinstance(node, Sum):
            return node.width, sum(self.widths[c] for c in node.children)
        if isinstance(node, Mixture):
            return self.widths[i], len(node.children)
        raise StructureError(f"Node {i} ({type(node).__name__}) has no weights.")

    @property
    def root(self) -> int:
        """The index of the root, which is the last node."""
        return len(self.nodes) - 1

    @property
    def n_variables(self) -> int:
        """How many variables the circuit is over."""
        return self.scopes[-1].bit_count()

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The family of each variable (of its first input)."""
        return tuple(kinds[0] for kinds in self.families_of_variables)

    @cached_property
    def families_of_variables(self) -> tuple[tuple[Family, ...], ...]:
        """All families of each variable's inputs, in the order in which they first occur.

        Of an input over several variables it is the family of that variable alone.
        """
        found: dict[int, list[Family]] = {v: [] for v in range(self.n_variables)}
        for node in self.nodes:
            if isinstance(node, Input):
                for position, v in enumerate(node.variables):
                    family = node.family.marginal_family(position)
                    if family not in found[v]:
                        found[v].append(family)
        return tuple(tuple(kinds) for kinds in found.values())

    @cached_property
    def n_parameters(self) -> int:
        """How many numbers are learnt, which are weights of edges that exist and parameters of inputs; tied ones count once."""
        total = 0
        for i, node in enumerate(self.nodes):
            if isinstance(node, Product) or self.owners[i] != i:
                continue
            if isinstance(node, Input):
                if node.family.learnable:
                    shapes = node.family.parameter_shapes(node.width).values()
                    total += sum(int(np.prod(shape)) for shape in shapes)
            elif isinstance(node, Sum) and node.mask is not None:
                total += int(node.mask.sum())
            else:
                total += int(np.prod(self.weight_shape(i)))
        return total

    @cached_property
    def n_free_parameters(self) -> int:
        """How many numbers can be chosen freely; weights and tables have one less than their entries for each unit.

        >>> import flatpc as fp
        >>> circuit = fp.structures.rat_spn(2, depth=0, n_repetitions=1, n_inputs=3)
        >>> circuit.n_free_parameters                                       # 3 · 2 Gaussians of 2 numbers, 3 weights
        14
        """
        total = self.n_parameters
        for i, node in enumerate(self.nodes):
            if isinstance(node, Product) or self.owners[i] != i:
                continue
            if not isinstance(node, Input):
                total -= self.widths[i]
            elif node.family.learnable:
                total -= node.width * node.family.n_redundant
        return total

    @cached_property
    def n_edges(self) -> int:
        """Edges between scalar units."""
        total = 0
        for i, node in enumerate(self.nodes):
            if isinstance(node, Sum):
                total += int(np.prod(self.weight_shape(i))) if node.mask is None else int(node.mask.sum())
            elif isinstance(node, Product | Mixture):
                total += self.widths[i] * len(node.children)
        return total

    @cached_property
    def is_smooth(self) -> bool:
        """Whether the children of every sum have the same scope."""
        return smoothness_error(self.nodes, self.scopes) is None

    @cached_property
    def is_decomposable(self) -> bool:
        """Whether the children of every product have disjoint scopes."""
        return decomposability_error(self.nodes, self.scopes) is None

    @cached_property
    def is_structured_decomposable(self) -> bool:
        """Whether, moreover, one vtree serves every product."""
        return self.is_decomposable and properties.is_structured_decomposable(self.nodes, self.scopes)

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether at most one child of every sum unit is positive at a time; False may mean that no proof was found."""
        return properties.is_deterministic(self)

    @cached_property
    def is_tree(self) -> bool:
        """Whether every scalar unit has at most one parent."""
        return properties.is_tree(self.nodes, self.widths)

    @cached_property
    def has_tied_parameters(self) -> bool:
        """Whether two nodes share parameters."""
        return any(owner != i for i, owner in enumerate(self.owners))

    @cached_property
    def unavailable(self) -> dict[str, tuple[Family, ...]]:
        """What can't be asked of it, or raises an error: question -> families of inputs that don't define what it takes.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> apart, together = (fp.structures.mixture(X, 2, blocks=blocks) for blocks in (None, "all"))
        >>> apart.unavailable, list(together.unavailable)
        ({}, ['uncertainty of expectation'])
        """
        return unavailable(node.family for node in self.nodes if isinstance(node, Input))

    def __repr__(self) -> str:
        kinds = {kind: sum(isinstance(n, kind) for n in self.nodes) for kind in (Input, Product, Sum, Mixture)}
        parts = ", ".join(f"{count} {kind.__name__}" for kind, count in kinds.items() if count)
        return f"Circuit({self.n_variables} variables, {self.n_parameters:,} parameters, {self.n_edges:,} edges: {parts})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pickled arrays come back writable; a circuit's are not."""
        self.__dict__.update(state)
        freeze({i: self.parameters[i] for i in set(self.owners) if i in self.parameters}, self.owners)
        for node in self.nodes:
            if isinstance(node, Sum) and node.mask is not None:
                node.mask.flags.writeable = False

    # ---- parameters -----------------------------------------------------------------------------------------------

    def with_parameters(self, parameters: Mapping[int, Any]) -> Circuit:
        """The same structure with other parameters.

        Parameters
        ----------
        parameters
            As for `Circuit`; nodes that are left out keep theirs.

        Returns
        -------
        Circuit
            A new one; this one stays as it is.

        Raises
        ------
        ParameterError
            Parameters have the wrong shape, are out of range, or are of a node that has none.
        """
        complete = {i: self.parameters[i] for i in self.parameters if self.owners[i] == i}
        check_indices(self, parameters)
        complete.update(parameters)
        return self._replace(freeze(checked_parameters(self, complete), self.owners))

    def randomize(self, seed: int = 0, *, X: Any = None, scheme: str = "exponential") -> Circuit:
        """The same structure with random parameters.

        Parameters
        ----------
        seed
            Random seed.
        X
            Rows. With them, families that can start from data do: means and variances of Gaussian inputs come from k-means.
        scheme
            How weights are drawn: `"exponential"`, `"uniform"`, `"dirichlet"` or `"einsum"`.

        Returns
        -------
        Circuit
            A new one; this one stays as it is.

        Raises
        ------
        OptionError
            `seed` is no seed, or `scheme` no scheme.
        DataError
            As for `log_prob`, with NaN allowed.
        """
        rng, scheme = np.random.default_rng(seed_number(seed)), choice("scheme", scheme, SCHEMES)
        rows = None
        if X is not None:
            from flatpc.circuit.rows import read_rows

            rows = read_rows(self, X, missing="marginalize")
        return self._replace(freeze(random_parameters(self, rng, scheme, rows), self.owners))

    def _replace(self, parameters: dict[int, NodeParameters]) -> Circuit:
        new = object.__new__(Circuit)
        new.__dict__.update(self.__dict__)
        # What depends on parameters is computed anew; what depends on structure is kept.
        new.__dict__.pop("is_deterministic", None)
        new.parameters = parameters
        return new

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the circuit to one safetensors file; `flatpc.load` reads it back bit for bit.

        Parameters
        ----------
        path
            Where to. A file that is there is replaced in one step.

        Raises
        ------
        WriteError
            The file can't be written.
        """
        from flatpc.circuit.files import save

        save(self, path)
