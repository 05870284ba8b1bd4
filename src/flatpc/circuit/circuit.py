"""The circuit: an immutable structure of vector nodes with parameters that are replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, flag, seed_number, several, whole_number
from flatpc.circuit import properties
from flatpc.circuit.nodes import Input, Mixture, Node, Product, Sum
from flatpc.circuit.scopes import (
    check_order,
    check_supports,
    check_used,
    compute_scopes,
    compute_widths,
    decomposability_error,
    describe,
    smoothness_error,
)
from flatpc.errors import ParameterError, StructureError
from flatpc.families.base import SIMPLEX_TOLERANCE, Family
from flatpc.families.initialize import SCHEMES, random_simplex

if TYPE_CHECKING:
    from flatpc.engine.contract import Flows
    from flatpc.queries.dropout_uncertainty import DropoutUncertainty
    from flatpc.queries.mpe import Completion

Array = NDArray[np.float64]
NodeParameters = Array | dict[str, Array]


class Circuit:
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
        self._check_root()
        self._check_masks_and_ties()
        if flag("strict", strict):
            self.check_structure()
        check_used(self.nodes)
        if parameters is None:
            self.parameters = _freeze(self._random(np.random.default_rng(0), "exponential", None), self.owners)
        else:
            self.parameters = _freeze(self._checked(parameters), self.owners)

    # ---- structure ------------------------------------------------------------------------------------------------

    def _check_root(self) -> None:
        if self.widths[-1] != 1:
            raise StructureError(
                f"The last node is the root and must have width 1, not {self.widths[-1]}; add a Sum of width 1 on top."
            )
        scope = self.scopes[-1]
        if scope != (1 << scope.bit_length()) - 1:
            absent = ((1 << scope.bit_length()) - 1) & ~scope
            raise StructureError(
                f"The root has no input over the variables {describe(absent)}; number the variables 0, 1, 2, ... without gaps."
            )

    def _check_masks_and_ties(self) -> None:
        for i, node in enumerate(self.nodes):
            if isinstance(node, Sum) and node.mask is not None:
                shape = self.weight_shape(i)
                if node.mask.shape != shape:
                    raise StructureError(f"Node {i} (Sum): the mask has shape {node.mask.shape}, the weights {shape}.")
                empty = np.flatnonzero(~node.mask.any(axis=1))
                if len(empty):
                    raise StructureError(
                        f"Node {i} (Sum): the mask removes all edges of unit {empty[0]}; "
                        f"leave each unit one edge or drop the unit."
                    )
            tie = None if isinstance(node, Product) else node.tie
            if tie is not None:
                self._check_tie(i, tie)

    def _check_tie(self, i: int, tie: int) -> None:
        node = self.nodes[i]
        if not 0 <= tie < i:
            raise StructureError(f"Node {i} is tied to node {tie}; it can only share the parameters of an earlier node.")
        other = self.nodes[tie]
        fits = type(other) is type(node)
        if fits and isinstance(node, Input) and isinstance(other, Input):
            fits = (node.family, node.width) == (other.family, other.width)
        elif fits:
            fits = self.weight_shape(i) == self.weight_shape(tie)
            if fits and isinstance(node, Sum) and isinstance(other, Sum):
                a, b = node.mask, other.mask
                fits = (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
        if not fits:
            raise StructureError(f"Node {i} is tied to node {tie}, which has other parameters (kind, family, shape or mask).")

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
        """All families of each variable's inputs, in the order in which they first occur."""
        found: dict[int, list[Family]] = {v: [] for v in range(self.n_variables)}
        for node in self.nodes:
            if isinstance(node, Input) and node.family not in found[node.variable]:
                found[node.variable].append(node.family)
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
        simplices = 0
        for i, node in enumerate(self.nodes):
            if isinstance(node, Product) or self.owners[i] != i:
                continue
            if not isinstance(node, Input):
                simplices += self.widths[i]
            elif node.family.learnable:
                # A table has one row on the simplex for each unit.
                simplices += sum(shape[0] for shape in node.family.parameter_shapes(node.width).values() if len(shape) == 2)
        return self.n_parameters - simplices

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
        """Whether at most one child of every sum unit is positive at a time (`properties.is_deterministic`)."""
        return properties.is_deterministic(self)

    @cached_property
    def is_tree(self) -> bool:
        """Whether every scalar unit has at most one parent."""
        return properties.is_tree(self.nodes, self.widths)

    @cached_property
    def has_tied_parameters(self) -> bool:
        """Whether two nodes share parameters."""
        return any(owner != i for i, owner in enumerate(self.owners))

    def __repr__(self) -> str:
        kinds = {kind: sum(isinstance(n, kind) for n in self.nodes) for kind in (Input, Product, Sum, Mixture)}
        parts = ", ".join(f"{count} {kind.__name__}" for kind, count in kinds.items() if count)
        return f"Circuit({self.n_variables} variables, {self.n_parameters:,} parameters, {self.n_edges:,} edges: {parts})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pickled arrays come back writable; a circuit's are not."""
        self.__dict__.update(state)
        _freeze({i: self.parameters[i] for i in set(self.owners) if i in self.parameters}, self.owners)
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
        self._check_indices(parameters)
        complete.update(parameters)
        return self._replace(_freeze(self._checked(complete), self.owners))

    def randomize(self, seed: int = 0, *, X: Any = None, scheme: str = "exponential") -> Circuit:
        """The same structure with random parameters.

        Parameters
        ----------
        seed
            Random seed.
        X
            Rows. With them, families that can start from data do: means and variances of Gaussian inputs come from k-means.
        scheme
            How weights are drawn: one of `flatpc.families.initialize.SCHEMES`.

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
        return self._replace(_freeze(self._random(rng, scheme, rows), self.owners))

    def _replace(self, parameters: dict[int, NodeParameters]) -> Circuit:
        new = object.__new__(Circuit)
        new.__dict__.update(self.__dict__)
        # What depends on parameters is computed anew; what depends on structure is kept.
        new.__dict__.pop("is_deterministic", None)
        new.parameters = parameters
        return new

    def _random(self, rng: np.random.Generator, scheme: str, rows: Array | None) -> dict[int, NodeParameters]:
        out: dict[int, NodeParameters] = {}
        for i, node in enumerate(self.nodes):
            if isinstance(node, Product) or self.owners[i] != i:
                continue
            if isinstance(node, Input):
                if rows is None:
                    out[i] = node.family.initialize(node.width, rng, scheme)
                else:
                    out[i] = node.family.initialize_from(rows[:, node.variable], node.width, rng, scheme)
            else:
                mask = node.mask if isinstance(node, Sum) else None
                out[i] = random_simplex(self.weight_shape(i), rng, scheme, mask)
        return out

    def _check_indices(self, parameters: Mapping[int, Any]) -> None:
        if not isinstance(parameters, Mapping):
            raise ParameterError(f"Parameters are a dict from node index to arrays, not a {type(parameters).__name__}.")
        for i in parameters:
            if not isinstance(i, int | np.integer) or not 0 <= i < len(self.nodes) or isinstance(self.nodes[i], Product):
                raise ParameterError(f"Parameters were given for node {i!r}, which has none.")

    def _checked(self, parameters: Mapping[int, Any]) -> dict[int, NodeParameters]:
        """Parameters of the owners, as float64 arrays, or an error that says what is wrong with them."""
        self._check_indices(parameters)
        out: dict[int, NodeParameters] = {}
        for i, node in enumerate(self.nodes):
            if isinstance(node, Product):
                continue
            owner = self.owners[i]
            if i not in parameters:
                if owner == i:
                    raise ParameterError(f"Node {i} ({type(node).__name__}) has no parameters.")
                continue
            if isinstance(node, Input):
                value: NodeParameters = _checked_input(i, node, parameters[i])
            else:
                value = self._checked_weights(i, parameters[i])
            if owner == i:
                out[i] = value
            elif not _same(value, out[owner]):
                raise ParameterError(f"Node {i} is tied to node {owner} but was given other parameters.")
        return out

    def _checked_weights(self, i: int, given: Any) -> Array:
        node = self.nodes[i]
        where = f"Node {i} ({type(node).__name__})"
        weights = _as_array(given, where)
        shape = self.weight_shape(i)
        if weights.shape != shape:
            raise ParameterError(f"{where}: the weights have shape {weights.shape}; they should have {shape}.")
        if not np.isfinite(weights).all() or (weights < 0).any():
            bad = weights[~(np.isfinite(weights) & (weights >= 0))].ravel()[0]
            raise ParameterError(f"{where}: the weights hold {bad:g}; weights are finite and not negative.")
        if isinstance(node, Sum) and node.mask is not None and weights[~node.mask].any():
            raise ParameterError(f"{where}: an edge that the mask removes has a weight; set it to 0.")
        total = weights.sum(axis=1)
        if (abs(total - 1) > SIMPLEX_TOLERANCE).any():
            unit = int(np.argmax(abs(total - 1)))
            raise ParameterError(
                f"{where}: the weights of unit {unit} sum to {total[unit]:.9g}, not 1; divide each row by its sum."
            )
        return weights

    # ---- questions ------------------------------------------------------------------------------------------------

    def log_prob(
        self, X: Any, *, missing: str = "raise", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Any:
        """Log-likelihood of every row; see `flatpc.queries.log_prob`.

        Parameters
        ----------
        X
            Rows: a table with a column for each variable.
        missing
            `"raise"` refuses NaN; `"marginalize"` integrates NaN entries out.
        engine, dtype, device
            Who computes, how precisely and where; as for `flatpc.queries.log_prob`.

        Returns
        -------
        array or tensor
            `[N]`: log p(x), `-inf` where the probability is zero; a tensor if X is one.

        Raises
        ------
        DataError, OptionError
            X or an option is not as it should be.
        """
        from flatpc import queries

        return queries.log_prob(self, X, missing=missing, engine=engine, dtype=dtype, device=device)

    def conditional_log_prob(
        self, X: Any, given: Any, *, missing: str = "raise", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Any:
        """Log p(x_rest | x_given); see `flatpc.queries.conditional_log_prob`.

        Parameters
        ----------
        X
            Rows.
        given
            What is known: a boolean mask, `[D]` or `[N, D]`, or a list of variables.
        missing, engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N]`.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where p(x_given) is zero.
        """
        from flatpc import queries

        return queries.conditional_log_prob(self, X, given, missing=missing, engine=engine, dtype=dtype, device=device)

    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        seed: int = 0,
        missing: str = "marginalize",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
    ) -> Any:
        """Rows drawn from the circuit, or completions of given ones; see `flatpc.queries.sample`.

        Parameters
        ----------
        n
            How many rows, or how many completions of every given row.
        given
            A table in which NaN is unknown, or one row.
        seed
            Random seed: the same one gives the same rows.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN in `given`.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[n, D]`; for a table `given`, `[n, M, D]`.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.sample(self, n, given=given, seed=seed, missing=missing, engine=engine, dtype=dtype, device=device)

    def mpe(
        self, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Completion:
        """NaN entries completed with most probable values; see `flatpc.queries.mpe`.

        Parameters
        ----------
        X
            Rows; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        Completion
            The rows, their log-likelihoods, and whether no completion is more probable.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.mpe(self, X, missing=missing, engine=engine, dtype=dtype, device=device)

    def expectation(
        self, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Any:
        """NaN entries filled with their means given the rest; see `flatpc.queries.expectation`.

        Parameters
        ----------
        X
            Rows; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N, D]`.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.expectation(self, X, missing=missing, engine=engine, dtype=dtype, device=device)

    def variance(
        self, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Any:
        """Variances of NaN entries given the rest; see `flatpc.queries.variance`.

        Parameters
        ----------
        X
            Rows; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N, D]`, 0 where X is known.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.variance(self, X, missing=missing, engine=engine, dtype=dtype, device=device)

    def flows(self, X: Any, *, missing: str = "raise", engine: str = "auto", dtype: str = "float64", device: Any = None) -> Flows:
        """Expected use of every edge and input, summed over rows; see `flatpc.queries.flows`.

        Parameters
        ----------
        X, missing, engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        Flows
            Log-likelihoods, flows of edges and statistics of inputs, as NumPy arrays.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`.
        """
        from flatpc import queries

        return queries.flows(self, X, missing=missing, engine=engine, dtype=dtype, device=device)

    def dropout_uncertainty(
        self,
        X: Any,
        *,
        p: float = 0.1,
        exact: bool = True,
        missing: str = "raise",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
    ) -> DropoutUncertainty:
        """Mean and variance of p(x) when edges are dropped at random; see `flatpc.queries.dropout_uncertainty`.

        Parameters
        ----------
        X
            Rows.
        p
            The probability that an edge is dropped, from 0 to less than 1.
        exact
            False takes different nodes for independent, which is right for trees.
        missing, engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        DropoutUncertainty
            The moments, row by row.

        Raises
        ------
        TiedParametersError, StructureError
            The circuit has no closed form for it.
        DataError, OptionError
            As for `log_prob`.
        """
        from flatpc import queries

        return queries.dropout_uncertainty(self, X, p=p, exact=exact, missing=missing, engine=engine, dtype=dtype, device=device)

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


def _as_array(given: Any, where: str) -> Array:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ParameterError(f"{where}: parameters must be arrays of numbers, not {type(given).__name__}.") from None


def _checked_input(i: int, node: Input, given: Any) -> dict[str, Array]:
    where = f"Node {i} (Input over variable {node.variable}, {node.family})"
    shapes = node.family.parameter_shapes(node.width)
    if not isinstance(given, Mapping) or set(given) != set(shapes):
        raise ParameterError(f"{where}: parameters are a dict with the keys {', '.join(shapes)}.")
    out = {}
    for name, shape in shapes.items():
        out[name] = _as_array(given[name], where)
        if out[name].shape != shape:
            raise ParameterError(f"{where}: {name} has shape {out[name].shape}; it should have {shape}.")
    node.family.check_parameters(out, where)
    return out


def _same(a: NodeParameters, b: NodeParameters) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(np.array_equal(a[name], b[name]) for name in a)
    return not isinstance(a, dict) and not isinstance(b, dict) and np.array_equal(a, b)


def _freeze(owned: dict[int, NodeParameters], owners: Sequence[int]) -> dict[int, NodeParameters]:
    """Read-only arrays, and for tied nodes the owner's own arrays."""
    for value in owned.values():
        for array in value.values() if isinstance(value, dict) else (value,):
            array.flags.writeable = False
    return {i: owned[owner] for i, owner in enumerate(owners) if owner in owned}
