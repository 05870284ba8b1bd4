"""`CircuitDensity`: density estimation with circuits behind scikit-learn's interface."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from flatpc._options import choice, number, seed_number, whole_number
from flatpc.errors import OptionError, ShapeError
from flatpc.estimator.files import read, write
from flatpc.estimator.imputing import STRATEGIES, fill, log_conditional
from flatpc.estimator.reports import Curvature, facts, summary
from flatpc.learning.regularizers.sharpness import Sharpness, is_auto
from flatpc.search.choice import Choice
from flatpc.search.choosing import search
from flatpc.search.plans import Wishes
from flatpc.search.repeating import repeated
from flatpc.tables.columns import UNSEEN, Columns
from flatpc.tables.reading import MISSING, RawTable, read_raw

Array = NDArray[np.float64]


class CircuitDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """The density of a table, learnt as a probabilistic circuit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [1, -2] + [0, 5]
    >>> density = fp.CircuitDensity(effort=1, verbose=False).fit(X)
    >>> density.kinds_
    {'x0': 'continuous', 'x1': 'continuous'}
    >>> bool(density.score(X) > density.score(X + [0, 5]))       # mean log-likelihood
    True
    >>> density.impute([[1.0, np.nan]]).round().tolist()          # its conditional mean
    [[1.0, 3.0]]
    >>> density.score_samples(X).shape, density.anomaly_score(X).shape, density.sample(3, random_state=0).shape
    ((200,), (200,), (3, 2))
    >>> density.aic(X) < density.bic(X)
    True

    A table is a NumPy array, a torch tensor, nested lists, or a pandas or polars frame. Each column is recognised as binary,
    categorical, count or continuous (`flatpc.tables.recognition`). `fp.choose` then tries models from independent columns to
    averages of hidden trees, and a line says what was chosen and why.

    Parameters
    ----------
    effort
        Work to spend on the choice: `"quick"`, `"normal"` or `"thorough"`, about 5, 30 and 120 seconds on one core, or a number
        of such seconds. It is counted, not timed, so that one seed gives one model on every machine.
    structure
        `"auto"` chooses among those that suit the columns: `"factorized"` (independent columns), `"chow_liu"`,
        `"tree_mixture"`, `"hclt"` (hidden Chow-Liu tree), `"mixture"`, `"rat_spn"`.
    n_latents
        Units of latents and inputs; `"auto"` tries several.
    mu
        Weight of the penalty on sharpness, in counts as in `fp.Sharpness`, or its `"mean-flow"`; `"auto"` tries several, and
        other regularisers.
    average
        Whether the choice may be the average of several models.
    kinds
        Overrules what columns are recognised as: a kind for all, a list with one for each, or a dict by name or position.
    missing
        `"raise"` refuses missing values (None, NaN, null) in training and prediction; `"marginalize"` integrates them out.
    unseen
        Values that a binary or categorical column didn't have in training: `"raise"` refuses them, `"missing"` takes them for
        missing.
    time_budget
        A limit in seconds of the clock, for those who can't wait; None has none. Where it ends the search, the summary says so.
    random_state
        Of the splits, the starting points and the order of rows: an int, a NumPy RandomState or Generator, or None for chance.
    verbose
        Whether `fit` says, in one line on stderr, what was chosen and why; 2 also shows the columns.

    Attributes
    ----------
    circuit_
        The `fp.Circuit` over the columns as `columns_.encode(X)` gives them: codes of categories, and numbers in their own units.
    columns_, kinds_
        The columns with their categories, and their kinds by name.
    summary_
        What was chosen and why.
    candidates_
        All that was tried, best first: `.name`, `.valid_nll`, `.weight` (its share of what was chosen), `.epochs`, `.work`.
    curvature_
        How sharp the likelihood is: `.sharpness`, `.by_layer`.
    n_parameters_
        How many numbers were learnt, as `Circuit.n_parameters` counts them.
    n_free_parameters_
        Those that can be chosen freely (`Circuit.n_free_parameters`); `aic` and `bic` count them.
    n_features_in_, feature_names_in_
        As in scikit-learn; names only if all of the table's are text.
    """

    def __init__(
        self,
        *,
        effort: str | float = "normal",
        structure: str = "auto",
        n_latents: int | str = "auto",
        mu: float | str = "auto",
        average: bool = True,
        kinds: Any = None,
        missing: str = "raise",
        unseen: str = "raise",
        time_budget: float | None = None,
        random_state: Any = 0,
        verbose: bool | int = True,
    ) -> None:
        self.effort = effort
        self.structure = structure
        self.n_latents = n_latents
        self.mu = mu
        self.average = average
        self.kinds = kinds
        self.missing = missing
        self.unseen = unseen
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    # ---- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, valid: Any = None, groups: Any = None, sample_weight: Any = None) -> CircuitDensity:
        """Learn from the rows of X.

        Parameters
        ----------
        X
            The table.
        y
            Ignored.
        valid
            Further rows to choose by; without them, rows of X judge in turn, or some are held back.
        groups
            One label for each row; rows of one group never judge a model that has learnt from others of it.
        sample_weight
            How often each row of X counts, in whole numbers. It is the same as repeating rows, with all copies of a row in one
            group.

        Returns
        -------
        CircuitDensity
            The estimator itself.
        """
        options = self._options()
        table = self._read(X, reset=True)
        self.columns_ = Columns.learn(table, self.kinds)
        self.kinds_ = self.columns_.kinds
        for note in self.columns_.notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        # A value of a training row is seen by being there.
        encoded, groups = repeated(self.columns_.encode(table, self.missing), sample_weight, groups)
        judges = None if valid is None else self._rows(valid)[0]
        found = search(
            encoded,
            self.columns_.families,
            valid=judges,
            groups=groups,
            missing="marginalize",
            names=self.columns_.names,
            **options,
        )
        if found.cut_short == "interrupted":
            # Whoever calls fit, such as a grid search, is to stop as well.
            raise KeyboardInterrupt
        self._keep(found, encoded)
        if self.verbose:
            self._say()
        return self

    def _options(self) -> dict[str, Any]:
        choice("missing", self.missing, MISSING)
        choice("unseen", self.unseen, UNSEEN)
        if not isinstance(self.verbose, bool | np.bool_):
            whole_number("verbose", self.verbose, 0)
        n_latents = None if is_auto(self.n_latents) else whole_number("n_latents", self.n_latents, 1)
        given = {} if is_auto(self.mu) else {"regularizer": None, "sharpness": _sharpness(self.mu)}
        return {
            "effort": self.effort, "wishes": Wishes(self.structure, n_latents), "average": self.average,
            "time_budget": self.time_budget, "seed": _seed(self.random_state), **given,
        }  # fmt: skip

    def _keep(self, choice: Choice, rows: Array) -> None:
        self.circuit_ = choice.circuit
        self.candidates_ = choice.candidates
        self.n_iter_ = choice.best.epochs
        self.n_parameters_ = self.circuit_.n_parameters
        self.n_free_parameters_ = self.circuit_.n_free_parameters
        self.curvature_ = Curvature.of(self.circuit_, rows)
        self.summary_ = summary(self.kinds_, choice, facts(self.circuit_, self.curvature_))

    def _say(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        if self.verbose > 1:
            console.print(self.columns_.show())
        console.print(f"CircuitDensity: {self.summary_}", highlight=False, markup=False, soft_wrap=True)

    def _read(self, X: Any, *, reset: bool) -> RawTable:
        """The table's columns, after scikit-learn's checks of their number and names."""
        table = read_raw(X)
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except (ValueError, TypeError) as error:  # scikit-learn's words, about the number of columns or their names
            raise ShapeError(str(error)) from None
        return table

    def _rows(self, X: Any, missing: str | None = None, ignore: int | None = None) -> tuple[Array, RawTable]:
        """Rows as the circuit reads them, and the table as it was given."""
        check_is_fitted(self)
        table = self._read(X, reset=False)
        return self.columns_.encode(table, missing or self.missing, self.unseen, ignore=ignore), table

    # ---- questions ------------------------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """The log-likelihood of every row, log p(x), in the units of the table; missing values are integrated out if allowed.

        Parameters
        ----------
        X
            A table with the columns that were learnt.

        Returns
        -------
        array
            `[N]`.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        """
        rows, _ = self._rows(X)
        return np.asarray(self.circuit_.log_prob(rows, missing="marginalize"))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows, as `GaussianMixture` has it (`KernelDensity` has the total).

        Parameters
        ----------
        X
            A table with the columns that were learnt.
        y
            Ignored.

        Returns
        -------
        float
            In nats per row.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        """
        return float(self.score_samples(X).mean())

    def anomaly_score(self, X: Any) -> Array:
        """-log p(x), higher for stranger rows. Rows with missing values are judged by what they have.

        Parameters
        ----------
        X
            A table with the columns that were learnt.

        Returns
        -------
        array
            `[N]`.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        """
        return -self.score_samples(X)

    def bic(self, X: Any) -> float:
        """-2 Σ log p(x) + k log N with k = `n_free_parameters_`: the lower the better.

        Parameters
        ----------
        X
            A table with the columns that were learnt.

        Returns
        -------
        float
            The Bayesian information criterion.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        """
        score = self.score_samples(X)
        return float(-2 * score.sum() + self.n_free_parameters_ * np.log(len(score)))

    def aic(self, X: Any) -> float:
        """-2 Σ log p(x) + 2k with k = `n_free_parameters_`: the lower the better.

        Parameters
        ----------
        X
            A table with the columns that were learnt.

        Returns
        -------
        float
            Akaike's information criterion.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        """
        return float(-2 * self.score_samples(X).sum() + 2 * self.n_free_parameters_)

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """New rows, in a table like the one that was learnt from, with whole numbers where it has integers.

        Parameters
        ----------
        n_samples
            Number of rows.
        random_state
            Random seed; None draws anew each time.

        Returns
        -------
        array or frame
            Of the kind that was learnt from.

        Raises
        ------
        OptionError
            Unless `n_samples` is a positive whole number.
        """
        check_is_fitted(self)
        rows = self.circuit_.sample(whole_number("n_samples", n_samples, 1), seed=_seed(random_state))
        return self.columns_.decode(rows)

    def impute(self, X: Any, *, strategy: str = "mean", random_state: Any = None) -> Any:
        """The table with its missing values filled in given each row's others; what is known stays as it is.

        Parameters
        ----------
        X
            A table with the columns that were learnt.
        strategy
            `"mean"`: the conditional mean of counts and continuous values, and the most probable category, each column by itself.
            `"mpe"`: the most probable completion of the row as a whole, exact for Chow-Liu trees and independent columns and
            otherwise that of the most probable induced tree. `"sample"`: a draw from the conditional distribution.
        random_state
            Random seed; None draws anew each time.

        Returns
        -------
        array or frame
            Of the kind that was given. A column of integers stays one: what is filled in is rounded.

        Raises
        ------
        OptionError
            For an unknown strategy.
        DataError
            For a table that doesn't fit.
        """
        choice("strategy", strategy, STRATEGIES)
        rows, table = self._rows(X, missing="marginalize")
        return self.columns_.decode(fill(self.circuit_, self.columns_, rows, strategy, _seed(random_state)), like=table)

    def conditional_proba(self, X: Any, column: str | int) -> Array:
        """The probability of each category of a column given the rest of each row.

        >>> import pandas as pd
        >>> import flatpc as fp
        >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 50, "wet": ["yes", "no"] * 50})
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False).fit(weather)
        >>> density.categories("wet"), int(density.conditional_proba(weather[:1], "wet").argmax())
        (['no', 'yes'], 1)

        This is a classifier for any column, learnt once for all.

        Parameters
        ----------
        X
            A table with the columns that were learnt.
        column
            A binary or categorical column, by name or position. Its own values in X are not looked at.

        Returns
        -------
        array
            `[N, categories]`, in the order of `categories(column)`.

        Raises
        ------
        OptionError
            For a column that is not there or has no categories.
        DataError
            For a table that doesn't fit.
        """
        n_categories = len(self.categories(column))
        j = self.columns_.position(column)
        rows, _ = self._rows(X, ignore=j)
        return np.asarray(np.exp(log_conditional(self.circuit_, rows, j, n_categories)))

    def categories(self, column: str | int) -> list[Any]:
        """The categories of a binary or categorical column, in the order of `conditional_proba`.

        Parameters
        ----------
        column
            By name or position.

        Returns
        -------
        list
            The values as they are in the table.

        Raises
        ------
        OptionError
            For a column that is not there or has no categories.
        """
        check_is_fitted(self)
        found = self.columns_.columns[self.columns_.position(column)]
        if not found.is_discrete:
            raise OptionError(
                f"Column {found.name!r} is {found.kind} and has no categories; use impute for its mean given the rest, "
                f"or learn it with kinds={{{found.name!r}: 'categorical'}}."
            )
        return list(found.categories)

    # ---- files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file, which holds no code: circuit, columns and summary, not the candidates.

        >>> import tempfile
        >>> import flatpc as fp
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False).fit([[0], [1], [1]] * 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     density.save(f"{folder}/coin.model")
        ...     again = fp.CircuitDensity.load(f"{folder}/coin.model")
        >>> again.score([[1]]) == density.score([[1]])
        True

        `CircuitDensity.load` and the commands of `flatpc` read it.

        Parameters
        ----------
        path
            The file; an old one is replaced.

        Raises
        ------
        WriteError
            If it can't be written.
        """
        check_is_fitted(self)
        write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CircuitDensity:
        """The density in a file that `save`, `flatpc fit` or `circuit.save` wrote, ready to be asked.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        CircuitDensity
            Fitted.

        Raises
        ------
        FileFormatError
            For a file that is damaged, of an unknown version, or no model.
        """
        return read(cls, path)

    def __sklearn_tags__(self) -> Any:
        """Missing values are welcome if they are marginalised."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalize"
        tags.input_tags.categorical = True
        return tags


def _sharpness(mu: Any) -> Sharpness | None:
    if isinstance(mu, str):
        return Sharpness(mu=choice("mu", mu, ("auto", "mean-flow"), also="a number of 0 or more"))
    weight = number("mu", mu, 0.0, what="choose 'auto', 'mean-flow' or a number of 0 or more")
    return None if weight == 0 else Sharpness(mu=weight)


def _seed(random_state: Any) -> int:
    """A seed from what scikit-learn allows as a random state; an int is its own seed."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return seed_number(random_state, "random_state")
