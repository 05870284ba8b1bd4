"""What every family of input distributions can be asked. The rest of the library asks, and never looks at a family's class.

A family is a small immutable description; its parameters live in the circuit, one entry per unit, as named arrays of
float64 with the unit on the first axis. `docs/how-to/your-own-family.md` shows how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from flatpc.errors import FamilyError, ParameterError, SupportError

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]
Statistics = dict[str, Array]

SIMPLEX_TOLERANCE = 1e-6
LARGEST_EXPONENT = 600.0
"""Exponents of unconstrained maps stay below, so that even a run that diverges has finite parameters."""


@dataclass(frozen=True)
class Family:
    """Base class of all families of input distributions.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import flatpc as fp
    >>> @dataclass(frozen=True)
    ... class Laplace(fp.Family):
    ...     names = ("mean", "scale")
    ...     discrete = False
    ...
    ...     def log_density(self, parameters, x):
    ...         mean, scale = parameters["mean"], parameters["scale"]
    ...         return -abs(x[:, None] - mean) / scale - np.log(2 * scale)
    >>> circuit = fp.Circuit([fp.Input(0, Laplace())], {0: {"mean": [0.0], "scale": [1.0]}})
    >>> circuit.log_prob([[3.0]]).round(3).tolist()
    [-3.693]

    A subclass has to define `names` and `log_density`; each further method opens what needs it. What is asked of a family that
    doesn't define it raises `FamilyError`. Options of a family are fields of a frozen dataclass: they make families equal or
    different, and are saved in files.

    Arrays have N rows (values of the variable) and K units. No engine hands a missing value to a family: it is integrated out
    before.

    - Likelihoods, marginals and conditionals, on both engines, need `log_density`.
    - Checks of rows and of parameters: `outside` and `support`, `check_parameters`.
    - Random starts: `initialize`. Starts from data: `initialize_from`.
    - EM: `statistics`, `statistic_names`, `update`. With steps below 1 or momentum: `interpolate`, `restate`, where the
      defaults are wrong.
    - Adam and SGD: `unconstrain`, `constrain`, `gradient`, `statistics`.
    - `Circuit.sample`: `sample` or `quantile`.
    - `mpe`, `expectation`, `variance` and entropies: `mode`, `mean`, `variance`, `entropy`.
    - Probabilities of ranges: `cdf`, `quantile`.
    - Gradients in rows and parameters by torch: `torch_log_density`.
    - Learning in other units than the user's: `rescaled`.
    """

    names: ClassVar[tuple[str, ...]] = ()
    """The names of the parameters."""
    statistic_names: ClassVar[tuple[str, ...]] = ()
    """The names of the statistics, in the order in which they are kept."""
    learnable: ClassVar[bool] = True
    """Whether learning changes the parameters."""
    discrete: ClassVar[bool] = True
    """Whether `log_density` is the logarithm of a probability, not of a density."""
    native: ClassVar[str | None] = None
    """The numba engine's formula of this density: `"gaussian"`, `"binomial"`, `"poisson"`; None: it asks the family."""

    @property
    def n_categories(self) -> int | None:
        """How many values a variable of this family takes (0, 1, ..., n-1); None if infinitely many."""
        return None

    @property
    def is_table(self) -> bool:
        """Whether engines look densities up in `table(parameters)`; see `flatpc.families.Finite`."""
        return False

    @property
    def is_free_table(self) -> bool:
        """Whether every table of probabilities is one of its densities, so that the table may be learnt in its place."""
        return False

    @property
    def trials(self) -> int:
        """The whole number that the native formula of a binomial takes."""
        return 0

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

    # ---- what it allows ---------------------------------------------------------------------------------------------

    def check_parameters(self, parameters: Parameters, where: str) -> None:
        """Check that every value is in range; here: that it is finite.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().check_parameters({"p": np.array([0.5])}, "Node 0")

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        where
            What the message begins with.

        Raises
        ------
        ParameterError
            For the first value that is not.
        """
        for name, values in parameters.items():
            if not np.isfinite(values).all():
                raise ParameterError(f"{where}: every {name} must be a finite number.")

    def outside(self, x: Array) -> NDArray[np.bool_]:
        """Which values are outside the support; here: infinite ones.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().outside(np.array([0.0, 0.5, np.nan])).tolist()
        [False, True, False]

        Parameters
        ----------
        x
            `[N]`: values; NaN where missing.

        Returns
        -------
        array
            `[N]`, of bool; a missing value is never outside.
        """
        return np.isinf(x)

    def support(self) -> str:
        """The values allowed, in words.

        >>> import flatpc as fp
        >>> fp.Poisson().support()
        'the whole numbers 0, 1, 2, ...'

        Returns
        -------
        str
            To be read after "allows only".
        """
        return "finite numbers"

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value allowed, or infinities; a sample is never outside."""
        n = self.n_categories
        return (-np.inf, np.inf) if n is None else (0.0, n - 1.0)

    def check(self, x: Array, column: str) -> None:
        """Check that all values are in the support.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().check(np.array([0.0, 3.0]), "Column 0")

        Parameters
        ----------
        x
            `[N]`: values; NaN where missing.
        column
            The name of the column, for the message.

        Raises
        ------
        SupportError
            For the first value outside the support.
        """
        bad = self.outside(x)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise SupportError(
                f"{column} has the value {x[row]:g} in row {row}, but {self} allows only {self.support()}. "
                f"Recode the column or use another family."
            )

    # ---- density ----------------------------------------------------------------------------------------------------

    def log_density(self, parameters: Parameters, x: Array) -> Array:
        """The logarithm of each unit's density at each value.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().log_density({"rate": np.array([1.0, 2.0])}, np.array([0.0])).tolist()
        [[-1.0, -2.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values; NaN where missing.

        Returns
        -------
        array
            `[N, K]`, `-inf` where the density is 0.
        """
        raise self.lacks("log_density")

    def table(self, parameters: Parameters) -> Array:
        """The probabilities of all values, of families over finitely many.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().table({"p": np.array([0.25])}).tolist()
        [[0.75, 0.25]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K, n]`.
        """
        raise self.lacks("table")

    def from_table(self, table: Array) -> dict[str, Array]:
        """The parameters with this table, of a family with `is_free_table`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().from_table(np.array([[0.75, 0.25]]))["p"].tolist()
        [0.25]

        Parameters
        ----------
        table
            `[K, n]`: rows on the simplex.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("from_table")

    # ---- where learning starts --------------------------------------------------------------------------------------

    def initialize(self, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Gaussian().initialize(2, np.random.default_rng(0), "uniform")["variance"].tolist()
        [1.0, 1.0]

        Parameters
        ----------
        width
            Number of units.
        rng
            Source of random numbers.
        spread
            Scheme by which points of a simplex are drawn, such as `"exponential"`; see `Circuit.randomize`.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("initialize")

    def initialize_from(self, x: Array, width: int, rng: np.random.Generator, spread: str) -> dict[str, Array]:
        """Random parameters for a variable that has the values `x`; here: without looking at them.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> x = np.array([0.0, 0.1, 5.0, 5.1])
        >>> sorted(fp.Gaussian().initialize_from(x, 2, np.random.default_rng(0), "uniform")["mean"].round(2).tolist())
        [0.05, 5.05]

        Parameters
        ----------
        x
            `[N]`: values; NaN where missing.
        width
            Number of units.
        rng
            Source of random numbers.
        spread
            Scheme by which points of a simplex are drawn, such as `"exponential"`; see `Circuit.randomize`.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        return self.initialize(width, rng, spread)

    # ---- EM ---------------------------------------------------------------------------------------------------------

    def statistics(self, parameters: Parameters, x: Array, flow: Array) -> Statistics:
        """What `update` and `gradient` need to know of weighted values.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> x, flow = np.array([2.0, 4.0]), np.array([[1.0], [0.5]])
        >>> fp.Poisson().statistics({"rate": np.array([1.0])}, x, flow)
        {'count': array([1.5]), 'sum': array([4.])}

        Linear in `flow`, so that they add up over rows, batches and machines. They belong to the `parameters` at which they are
        taken, and may depend on them: a family that is no exponential family gives the expected statistics of one step of an
        inner EM, or sums of derivatives for a Newton step.

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values; NaN where missing.
        flow
            `[N, K]`: the weight of each value for each unit. It may be negative, in the gradient of a penalty.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("statistics")

    def update(self, parameters: Parameters, statistics: Statistics, pseudocount: float = 0.0) -> dict[str, Array]:
        """Parameters that maximise, or at least raise, Σ flow · log density; a unit without flow keeps its own.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"rate": np.array([1.0])}
        >>> fp.Poisson().update(units, {"count": np.array([2.0]), "sum": np.array([6.0])})
        {'rate': array([3.])}

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        statistics
            What `statistics` returns, or a sum of such.
        pseudocount
            Number of additional observations, spread evenly over the values of a family that has finitely many.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("update")

    def interpolate(self, old: Parameters, new: Parameters, step: float | Array) -> dict[str, Array]:
        """Parameters between `old` (step 0) and `new` (step 1).

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().interpolate({"rate": np.array([1.0])}, {"rate": np.array([3.0])}, 0.5)
        {'rate': array([2.])}

        Here: their average, which is right for *mean parameters* of an exponential family (probabilities, a mean, a rate): then
        no step lowers the expected log-likelihood.

        Parameters
        ----------
        old, new
            Name -> array with the units first.
        step
            One number, or `[K]`.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        out = {}
        for name, value in old.items():
            share = np.reshape(step, np.shape(step) + (1,) * (value.ndim - np.ndim(step)))
            out[name] = (1 - share) * value + share * new[name]
        return out

    def restate(self, statistics: Statistics, old: Parameters, new: Parameters) -> Statistics:
        """Statistics taken at `old` as if taken at `new`, for averages over steps; here: unchanged, as sufficient ones are.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> taken = {"count": np.array([2.0]), "sum": np.array([6.0])}
        >>> fp.Poisson().restate(taken, {"rate": np.array([1.0])}, {"rate": np.array([3.0])}) == taken
        True

        Parameters
        ----------
        statistics
            What `statistics` returns, or a sum of such.
        old, new
            Name -> array with the units first.

        Returns
        -------
        dict
            Statistics of the same names and shapes.
        """
        return statistics

    def count(self, statistics: Statistics) -> Array:
        """The flow that has gone into statistics; here: the one called `"count"`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().count({"counts": np.array([[2.0, 1.0]])}).tolist()
        [3.0]

        Parameters
        ----------
        statistics
            What `statistics` returns, or a sum of such.

        Returns
        -------
        array
            `[K]`.
        """
        if "count" not in statistics:
            raise self.lacks("count")
        return statistics["count"]

    # ---- gradients --------------------------------------------------------------------------------------------------

    def unconstrain(self, parameters: Parameters) -> dict[str, Array]:
        """Numbers without constraints, of the names and shapes of the parameters; what `constrain` takes back.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> family, units = fp.Poisson(), {"rate": np.array([2.0])}
        >>> family.constrain(family.unconstrain(units))["rate"].round(6).tolist()
        [2.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("unconstrain")

    def constrain(self, free: Parameters) -> dict[str, Array]:
        """Parameters from numbers without constraints.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Poisson().constrain({"rate": np.array([0.0])})["rate"].round(3).tolist()
        [1.0]

        Parameters
        ----------
        free
            What `unconstrain` returns, or any numbers of these shapes.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("constrain")

    def gradient(self, parameters: Parameters, statistics: Statistics) -> dict[str, Array]:
        """Σ flow · ∂ log density / ∂z, z being `unconstrain(parameters)`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units, taken = {"rate": np.array([2.0])}, {"count": np.array([2.0]), "sum": np.array([6.0])}
        >>> fp.Poisson().gradient(units, taken)["rate"].round(3).tolist()
        [2.0]

        Linear in the statistics. A family whose statistics don't tell may add its score to them.

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        statistics
            Statistics taken at these parameters.

        Returns
        -------
        dict
            Name -> array with the units first.
        """
        raise self.lacks("gradient")

    # ---- answers ----------------------------------------------------------------------------------------------------

    def mode(self, parameters: Parameters) -> Array:
        """The most probable value of each unit.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().mode(units).tolist()
        [1.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("mode")

    def mean(self, parameters: Parameters) -> Array:
        """The mean of each unit.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().mean(units).tolist()
        [1.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("mean")

    def variance(self, parameters: Parameters) -> Array:
        """The variance of each unit.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().variance(units).tolist()
        [4.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("variance")

    def entropy(self, parameters: Parameters) -> Array:
        """The entropy of each unit, in nats; of a density the differential entropy.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> fp.Bernoulli().entropy({"p": np.array([0.5])}).round(3).tolist()
        [0.693]

        Parameters
        ----------
        parameters
            Name -> array with the units first.

        Returns
        -------
        array
            `[K]`.
        """
        raise self.lacks("entropy")

    def cdf(self, parameters: Parameters, x: Array) -> Array:
        """The probability of values up to and with `x`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().cdf(units, np.array([1.0])).tolist()
        [[0.5]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        x
            `[N]`: values.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("cdf")

    def quantile(self, parameters: Parameters, q: Array) -> Array:
        """The smallest value whose cdf is at least `q`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().quantile(units, np.array([0.5])).tolist()
        [[1.0]]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        q
            `[N]`: probabilities.

        Returns
        -------
        array
            `[N, K]`.
        """
        raise self.lacks("quantile")

    def sample(self, parameters: Parameters, units: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """One value for each entry of `units`, drawn from that unit's density; here: by its quantiles.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> p = {"p": np.array([0.0, 1.0])}
        >>> fp.Bernoulli().sample(p, np.array([0, 1, 1]), np.random.default_rng(0)).tolist()
        [0.0, 1.0, 1.0]

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        units
            `[n]`: numbers of units.
        rng
            Source of random numbers.

        Returns
        -------
        array
            `[n]`.
        """
        if not self.defines("quantile"):
            raise self.lacks("sample")
        out, u = np.empty(len(units)), rng.random(len(units))
        for unit in np.unique(units):
            mine = units == unit
            out[mine] = self.quantile({name: value[unit : unit + 1] for name, value in parameters.items()}, u[mine])[:, 0]
        return out

    def rescaled(self, parameters: Parameters, shift: float, scale: float) -> tuple[Family, dict[str, Array]]:
        """Family and parameters of `shift + scale · z` if these are those of z.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> units = {"mean": np.array([1.0]), "variance": np.array([4.0])}
        >>> fp.Gaussian().rescaled(units, shift=10.0, scale=2.0)[1]
        {'mean': array([12.]), 'variance': array([16.])}

        Parameters
        ----------
        parameters
            Name -> array with the units first.
        shift, scale
            The numbers of the formula.

        Returns
        -------
        tuple
            The family, whose options may change too, and the parameters.
        """
        raise self.lacks("rescaled")

    @property
    def floor(self) -> float | None:
        """The least variance that learning allows; None if the family sets none."""
        return None

    @property
    def chosen_floor(self) -> float:
        """The same, if it is not the one that the family has by default; otherwise 0."""
        return 0.0

    def with_floor(self, floor: float) -> Family:
        """The family with another floor of its variance; here: the same, as it has none.

        >>> import flatpc as fp
        >>> fp.Gaussian().with_floor(0.5).floor
        0.5

        Parameters
        ----------
        floor
            The least variance that learning allows.

        Returns
        -------
        Family
            With that floor.
        """
        return self

    # ---- torch ------------------------------------------------------------------------------------------------------

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """`log_density` by torch, differentiable.

        >>> import torch
        >>> import flatpc as fp
        >>> rate, x = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[0.0]]])
        >>> fp.Poisson().torch_log_density({"rate": rate}, x).tolist()
        [[[-1.0, -2.0]]]

        Without it the torch engine asks `log_density`: values are the same, and derivatives in the family's parameters or in
        `x` raise `FamilyError`.

        Parameters
        ----------
        parameters
            Name -> tensor `[n, 1, K, ...]`.
        x
            `[n, B, 1]`: values of n variables.

        Returns
        -------
        tensor
            `[n, B, K]`.
        """
        raise self.lacks("torch_log_density")

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """`table` by torch; without it the torch engine asks `table`.

        >>> import torch
        >>> import flatpc as fp
        >>> fp.Bernoulli().torch_table({"p": torch.tensor([[0.25]])}).tolist()
        [[[0.75, 0.25]]]

        Parameters
        ----------
        parameters
            Name -> tensor `[n, K, ...]`.

        Returns
        -------
        tensor
            `[n, K, V]`.
        """
        raise self.lacks("torch_table")

    def torch_density(self, parameters: Mapping[str, Any], x: Any) -> tuple[Any, Any]:
        """The density as `mantissa · exp(scale)` with the scale detached; here: from its logarithm.

        >>> import torch
        >>> import flatpc as fp
        >>> rate, x = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[0.0]]])
        >>> mantissa, scale = fp.Poisson().torch_density({"rate": rate}, x)
        >>> mantissa.tolist(), scale.tolist()
        ([[[1.0, 1.0]]], [[[-1.0, -2.0]]])

        To be defined where a density has derivatives although its logarithm has none: at a probability of 0.

        Parameters
        ----------
        parameters
            Name -> tensor `[n, 1, K, ...]`.
        x
            `[n, B, 1]`: values of n variables.

        Returns
        -------
        tuple of tensors
            Mantissa and scale, `[n, B, K]`.
        """
        import torch

        log = self.torch_log_density(parameters, x)
        possible = log.detach().isfinite()
        log = torch.where(possible, log, 0.0)
        scale = log.detach()
        return torch.where(possible, (log - scale).exp(), 0.0), scale

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """`statistics` by torch; without it the torch engine asks `statistics`.

        >>> import torch
        >>> import flatpc as fp
        >>> rate, x, flow = torch.tensor([[1.0]]), torch.tensor([[2.0, 4.0]]), torch.tensor([[[1.0], [0.5]]])
        >>> fp.Poisson().torch_statistics({"rate": rate}, x, flow)["sum"].tolist()
        [[4.0]]

        Parameters
        ----------
        parameters
            Name -> tensor `[n, K, ...]`.
        x
            `[n, B]`: values of n variables.
        flow
            `[n, B, K]`: their weights.

        Returns
        -------
        dict
            Name -> tensor `[n, K, ...]`.
        """
        raise self.lacks("torch_statistics")

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
        return all(_home(type(self), method) is not Family for method in methods)

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
        return self.defines(method) and mine.index(_home(type(self), method)) <= mine.index(_home(type(self), of))

    @property
    def native_formula(self) -> str | None:
        """`native`, unless a subclass has changed the density or its statistics."""
        homes = {_home(type(self), name) for name in ("native", "log_density", "statistics")}
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


def _home(kind: type, name: str) -> type:
    """The class among its ancestors that says what an attribute is."""
    known = _homes.setdefault(kind, {})
    if name not in known:
        known[name] = next(base for base in kind.__mro__ if name in base.__dict__)
    return known[name]


# ---- what several families use ----------------------------------------------------------------------------------------


def masked(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """X with NaN replaced by 0, and where it was observed."""
    seen = ~np.isnan(x)
    return np.where(seen, x, 0.0), seen


def check_probability(p: Array, where: str) -> None:
    """Raise unless all entries are probabilities."""
    if not ((p >= 0) & (p <= 1)).all():
        bad = p[~((p >= 0) & (p <= 1))].ravel()[0]
        raise ParameterError(f"{where}: p holds {bad:g}; probabilities lie between 0 and 1.")


def ratio(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    """The quotient, and `otherwise` where the denominator is not positive."""
    out = np.array(otherwise, dtype=np.float64)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out


def count_and_sum(x: Array, flow: Array) -> Statistics:
    """`{"count", "sum"}`: flow, and flow times value, over the values that are not missing."""
    value, seen = masked(x)
    flow = np.where(seen[:, None], flow, 0.0)
    return {"count": flow.sum(axis=0), "sum": value @ flow}
