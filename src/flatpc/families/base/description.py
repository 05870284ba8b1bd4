"""What a family is, which of the methods it defines, and the error for those that it doesn't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast
from weakref import WeakKeyDictionary

from flatpc.errors import FamilyError

if TYPE_CHECKING:
    from flatpc.families.base.family import Family


class Cost(NamedTuple):
    """Multiplications of numbers that take about as long, so that a search knows what it spends.

    >>> import flatpc as fp
    >>> fp.Hurdle((0.0,), fp.Gamma()).cost.update > fp.Gaussian().cost.update
    True
    """

    density: float = 300.0
    """As the log-density of a value in a unit, by NumPy."""
    statistics: float = 300.0
    """As the statistics of one."""
    update: float = 1000.0
    """As the update of a unit."""


class Description:
    """What a family is: names and shapes of its numbers, and the methods that it defines."""

    names: ClassVar[tuple[str, ...]] = ()
    """The names of the parameters."""
    statistic_names: ClassVar[tuple[str, ...]] = ()
    """The names of the statistics, in the order in which they are kept."""
    learnable: ClassVar[bool] = True
    """Whether learning changes the parameters."""
    discrete: ClassVar[bool] = True
    """Whether `log_density` is the logarithm of a probability, not of a density."""
    n_variables: ClassVar[int] = 1
    """How many variables a density is over."""
    native: ClassVar[str | None] = None
    """The numba engine's formula of this density: `"gaussian"`, `"binomial"`, `"poisson"`; None: it asks the family."""
    n_beyond_largest: ClassVar[int | None] = None
    """For a family whose option `n` data can tell: by how much it exceeds a column's largest value. None for all others."""
    cost: ClassVar[Cost] = Cost()
    """Roughly what its answers cost."""

    @property
    def n_categories(self) -> int | None:
        """How many values a variable of this family takes (0, 1, ..., n-1); None if infinitely many."""
        return None

    @property
    def inner(self) -> Family | None:
        """The family that this one is made of, its option `family`: rounded and mapped numbers have one. None for all others."""
        found = getattr(self, "family", None)
        return cast("Family", found) if isinstance(found, Description) else None

    @property
    def can_rescale(self) -> bool:
        """Whether `rescaled` can be asked: of this family, and of the one that it is made of."""
        return self.defines("rescaled") and (self.inner is None or self.inner.can_rescale)

    @property
    def is_table(self) -> bool:
        """Whether engines look densities up in `table(parameters)`; see `flatpc.families.Finite`."""
        return False

    @property
    def is_free_table(self) -> bool:
        """Whether every table of probabilities is one of its densities, so that the table may be learnt in its place."""
        return False

    @property
    def n_redundant(self) -> int:
        """How many of a unit's numbers follow from its others; here: one of each row of a table, which adds up to 1."""
        return sum(len(shape) == 2 for shape in self.parameter_shapes(1).values())

    @property
    def trials(self) -> int:
        """The whole number that the native formula of a binomial takes."""
        return 0

    @classmethod
    def for_parameters(cls, values: Sequence[Any]) -> Family:
        """The family of which these are the parameters of a unit, for structures that name a family by a word.

        >>> import flatpc as fp
        >>> fp.Categorical.for_parameters([[0.2, 0.3, 0.5]]), fp.Gaussian.for_parameters([0.0, 1.0]).names
        (Categorical(n=3), ('mean', 'variance'))

        Parameters
        ----------
        values
            A value for each of `names`.

        Returns
        -------
        Family
            Here the one with default options, whatever the values are.

        Raises
        ------
        OptionError
            If they leave open which one it is.
        """
        return cast("Family", cls())

    def parameter_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter: the units come first.

        >>> import flatpc as fp
        >>> fp.Categorical(3).parameter_shapes(width=4)
        {'p': (4, 3)}

        Parameters
        ----------
        width
            Number of units.

        Returns
        -------
        dict
            Name -> shape.
        """
        return dict.fromkeys(self.names, (width,))

    def statistic_shapes(self, width: int) -> dict[str, tuple[int, ...]]:
        """The shape of each of the `statistics`: the units come first.

        >>> import flatpc as fp
        >>> fp.Poisson().statistic_shapes(width=4)
        {'count': (4,), 'sum': (4,)}

        Parameters
        ----------
        width
            Number of units.

        Returns
        -------
        dict
            Name -> shape.
        """
        return dict.fromkeys(self.statistic_names, (width,))

    # ---- what it defines --------------------------------------------------------------------------------------------

    def defines(self, *methods: str) -> bool:
        """Whether its class, or one that it inherits from, defines all of these methods.

        >>> import flatpc as fp
        >>> fp.Gaussian().defines("cdf", "quantile"), fp.Gaussian().defines("table")
        (True, False)

        Parameters
        ----------
        methods
            Names of methods.

        Returns
        -------
        bool
            False if `Family` itself is where one of them comes from.
        """
        return all(not _is_base(home(type(self), method)) for method in methods)

    def follows(self, method: str, of: str) -> bool:
        """Whether a method is defined, and no subclass has changed `of`, which it restates, without it.

        >>> import flatpc as fp
        >>> fp.Gaussian().follows("torch_log_density", of="log_density")
        True

        Parameters
        ----------
        method
            The name of a method.
        of
            The name of the method that it restates.

        Returns
        -------
        bool
            Whether one can be asked in place of the other.
        """
        mine = type(self).__mro__
        return self.defines(method) and mine.index(home(type(self), method)) <= mine.index(home(type(self), of))

    @property
    def native_formula(self) -> str | None:
        """`native`, unless a subclass has changed the density or its statistics."""
        homes = {home(type(self), name) for name in ("native", "log_density", "statistics")}
        return self.native if len(homes) == 1 else None

    def lacks(self, method: str) -> FamilyError:
        """The error of a family that doesn't define a method.

        >>> import flatpc as fp
        >>> str(fp.Gaussian().lacks("table"))[:22]
        'Gaussian has no table;'

        Parameters
        ----------
        method
            The name of the method.

        Returns
        -------
        FamilyError
            To be raised; it says how to define the method.
        """
        kind = type(self).__name__
        return FamilyError(f"{kind} has no {method}; define `{method}` in class {kind} (see flatpc.Family.{method}).")

    def require(self, purpose: str, *methods: str) -> None:
        """Check that all methods which a purpose needs are defined.

        >>> import flatpc as fp
        >>> fp.Gaussian().require("A range", "cdf")

        Parameters
        ----------
        purpose
            What needs them, for the message.
        methods
            Names of methods.

        Raises
        ------
        FamilyError
            If one of them is not defined.
        """
        absent = [method for method in methods if not self.defines(method)]
        if absent:
            kind, listed = type(self).__name__, ", ".join(f"`{method}`" for method in absent)
            raise FamilyError(f"{purpose} needs {listed} of {kind}, which doesn't define {'them' if absent[1:] else 'it'}.")


_homes: WeakKeyDictionary[type, dict[str, type]] = WeakKeyDictionary()


def home(kind: type, name: str) -> type:
    """The class among its ancestors that says what an attribute is."""
    known = _homes.setdefault(kind, {})
    if name not in known:
        known[name] = next(base for base in kind.__mro__ if name in base.__dict__)
    return known[name]


def _is_base(kind: type) -> bool:
    """Whether a class is `Family` or one of those that it is made of."""
    return kind.__module__.startswith("flatpc.families.base.")
