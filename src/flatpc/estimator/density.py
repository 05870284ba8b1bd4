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

from flatpc._options import choice, count, number, seconds, seed_number, whole_number
from flatpc.data.columns import MISSING, UNSEEN, Columns
from flatpc.data.raw import RawTable, read_raw
from flatpc.errors import OptionError, ShapeError
from flatpc.estimator.choosing import Choice, choose
from flatpc.estimator.files import read, write
from flatpc.estimator.imputing import STRATEGIES, fill, log_conditional
from flatpc.estimator.plans import STRUCTURES, Options
from flatpc.estimator.reports import Curvature, facts, free_parameters, summary
from flatpc.estimator.searching import SEARCHES, search
from flatpc.learning.sharpness import is_auto

Array = NDArray[np.float64]


class CircuitDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """The density of a table, learnt as a probabilistic circuit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [1, -2] + [0, 5]
    >>> density = fp.CircuitDensity(verbose=False).fit(X)
    >>> density.kinds_
    {'x0': 'continuous', 'x1': 'continuous'}
    >>> bool(density.score(X) > density.score(X + [0, 5]))       # mean log-likelihood
    True
    >>> density.impute([[1.0, np.nan]]).round().tolist()          # its conditional mean
    [[1.0, 3.0]]

    A table is a NumPy array, a torch tensor, nested lists, or a pandas or polars frame. Each column is recognised as binary,
    categorical, count or continuous (`flatpc.data.recognition`). Several circuits, sharpness-aware and plain, are fitted to most
    of the rows; the best on the rest is fitted again to all, and a line says which one it is and why.

    Parameters
    ----------
    structure
        `"auto"` chooses among those that suit the columns: `"factorized"` (independent columns), `"chow_liu"`, `"hclt"` (hidden
        Chow-Liu tree), `"mixture"`, `"rat_spn"`.
    n_latents
        Units of latents and inputs; `"auto"` tries a few or more, according to the number of rows.
    mu
        Weight of the penalty on sharpness, in counts as in `fp.Sharpness`, or its `"mean-flow"`; `"auto"` chooses among 0, 0.1,
        0.3 and 1.
    kinds
        Overrules what columns are recognised as: a kind for all, a list with one for each, or a dict by name or position.
    missing
        `"raise"` refuses missing values (None, NaN, null) in training and prediction; `"marginalize"` integrates them out.
    unseen
        Values that a binary or categorical column didn't have in training: `"raise"` refuses them, `"missing"` takes them for
        missing.
    pseudocount
        Counts added to each input unit of binary and categorical columns, so that no value of them is impossible; `"auto"` begins
        with 0.3 and tries smaller ones.
    validation_fraction
        Share of rows, drawn at random, by which models are compared and learning is stopped; up to 300 rows this is done three
        times, with other rows held back. With fewer than ten rows none are.
    epochs, patience
        The most steps over all rows, and how many may pass without a better validation likelihood.
    search
        `"quick"` compares a handful of models (`flatpc.estimator.choosing`). `"thorough"`, for tables of binary and categorical
        columns, leaves the choice to `fp.learning.choose`, which tries many more within the `time_budget` and may average the
        best; it decides on the structure, its size and the regulariser itself.
    time_budget
        Seconds that `fit` should take; past half of them no further model is tried. None takes as long as it takes, and gives
        the same model on a slow machine as on a fast one.
    random_state
        Of the split, the starting points and the order of rows: an int, a NumPy RandomState or Generator, or None for chance.
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
        All that was tried: `.plan`, `.valid_nll`, `.weight` (1 for what was chosen), `.circuit`, `.history`. A thorough search
        keeps neither circuits nor histories.
    history_
        Of the chosen model while it was judged, one row per epoch (`fp.learning.History`), with continuous columns in units of
        their standard deviations; empty for a model that is counted.
    curvature_
        How sharp the likelihood is: `.sharpness`, `.by_layer`.
    n_parameters_
        Free parameters: for each sum unit one less than its edges, for each input unit those of its family.
    n_features_in_, feature_names_in_
        As in scikit-learn; names only if all of the table's are text.
    """

    def __init__(
        self,
        *,
        structure: str = "auto",
        n_latents: int | str = "auto",
        mu: float | str = "auto",
        kinds: Any = None,
        missing: str = "raise",
        unseen: str = "raise",
        pseudocount: float | str = "auto",
        validation_fraction: float = 0.2,
        epochs: int = 200,
        patience: int = 10,
        search: str = "quick",
        time_budget: float | None = 30.0,
        random_state: Any = 0,
        verbose: bool | int = True,
    ) -> None:
        self.structure = structure
        self.n_latents = n_latents
        self.mu = mu
        self.kinds = kinds
        self.missing = missing
        self.unseen = unseen
        self.pseudocount = pseudocount
        self.validation_fraction = validation_fraction
        self.epochs = epochs
        self.patience = patience
        self.search = search
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    # ---- learning -------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> CircuitDensity:
        """Learn from the rows of X; `y` is ignored."""
        options = self._options()
        table = self._read(X, reset=True)
        self.columns_ = Columns.learn(table, self.kinds)
        self.kinds_ = self.columns_.kinds
        for note in self.columns_.notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        # A value of a training row is seen by being there.
        encoded = self.columns_.encode(table, self.missing)
        families = self.columns_.families
        if self.search == "thorough":
            choice = search(encoded, families, options)
        else:
            choice = choose(encoded, families, options, names=self.columns_.names)
        if choice.cut_short == "interrupted":
            # Whoever calls fit, such as a grid search, is to stop as well.
            raise KeyboardInterrupt
        self._keep(choice, encoded)
        if self.verbose:
            self._say()
        return self

    def _options(self) -> Options:
        choice("missing", self.missing, MISSING)
        choice("unseen", self.unseen, UNSEEN)
        choice("search", self.search, SEARCHES)
        if not isinstance(self.verbose, bool | np.bool_):
            whole_number("verbose", self.verbose, 0)
        return Options(
            structure=choice("structure", self.structure, ("auto", *STRUCTURES)),
            n_latents=None if is_auto(self.n_latents) else whole_number("n_latents", self.n_latents, 1),
            mu=_mu(self.mu),
            pseudocount=None if is_auto(self.pseudocount) else count("pseudocount", self.pseudocount),
            validation_fraction=number(
                "validation_fraction", self.validation_fraction, 0.0, 1.0, below=True, what="it is 0 or more and less than 1"
            ),
            epochs=whole_number("epochs", self.epochs, 1),
            patience=whole_number("patience", self.patience, 1),
            time_budget=None if self.time_budget is None else seconds("time_budget", self.time_budget),
            seed=_seed(self.random_state),
        )

    def _keep(self, choice: Choice, rows: Array) -> None:
        self.circuit_ = choice.circuit
        self.candidates_ = choice.candidates
        self.history_ = choice.best.history
        self.n_iter_ = choice.best.epochs
        self.n_parameters_ = free_parameters(self.circuit_)
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
        except ValueError as error:  # scikit-learn's words, about the number of columns or their names
            raise ShapeError(str(error)) from None
        return table

    def _rows(self, X: Any, missing: str | None = None, ignore: int | None = None) -> tuple[Array, RawTable]:
        """Rows as the circuit reads them, and the table as it was given."""
        check_is_fitted(self)
        table = self._read(X, reset=False)
        return self.columns_.encode(table, missing or self.missing, self.unseen, ignore=ignore), table

    # ---- questions ------------------------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """`[N]`: log p(x) of every row, in the units of the table; missing values are integrated out if allowed."""
        rows, _ = self._rows(X)
        return np.asarray(self.circuit_.log_prob(rows, missing="marginalize"))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows, as `GaussianMixture` has it (`KernelDensity` has the total); `y` is ignored."""
        return float(self.score_samples(X).mean())

    def anomaly_score(self, X: Any) -> Array:
        """`[N]`: -log p(x), higher for stranger rows. Rows with missing values are judged by what they have."""
        return -self.score_samples(X)

    def bic(self, X: Any) -> float:
        """-2 Σ log p(x) + k log N with k = `n_parameters_`: the lower the better."""
        score = self.score_samples(X)
        return float(-2 * score.sum() + self.n_parameters_ * np.log(len(score)))

    def aic(self, X: Any) -> float:
        """-2 Σ log p(x) + 2k with k = `n_parameters_`: the lower the better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self.n_parameters_)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """New rows, in a table like the one that was learnt from, with whole numbers where it has integers.

        `random_state` None draws anew each time.
        """
        check_is_fitted(self)
        rows = self.circuit_.sample(whole_number("n_samples", n_samples, 1), seed=_seed(random_state))
        return self.columns_.decode(rows)

    def impute(self, X: Any, strategy: str = "mean", random_state: Any = None) -> Any:
        """The table with its missing values filled in given each row's others; what is known stays as it is.

        A column of integers stays one: what is filled in is rounded.

        Parameters
        ----------
        strategy
            `"mean"`: the conditional mean of counts and continuous values, and the most probable category, each column by itself.
            `"mpe"`: the most probable completion of the row as a whole, exact for Chow-Liu trees and independent columns and
            otherwise that of the most probable induced tree. `"sample"`: a draw from the conditional distribution.
        random_state
            Of the draw; None draws anew each time.
        """
        choice("strategy", strategy, STRATEGIES)
        rows, table = self._rows(X, missing="marginalize")
        return self.columns_.decode(fill(self.circuit_, self.columns_, rows, strategy, _seed(random_state)), like=table)

    def conditional_proba(self, X: Any, column: str | int) -> Array:
        """`[N, categories]`: the probability of each category of a column given the rest of each row.

        The column's own values in X are not looked at; `categories(column)` names the answer's columns. This is a classifier for
        any column, learnt once for all.

        Parameters
        ----------
        column
            A binary or categorical column, by name or position.
        """
        n_categories = len(self.categories(column))
        j = self.columns_.position(column)
        rows, _ = self._rows(X, ignore=j)
        return np.asarray(np.exp(log_conditional(self.circuit_, rows, j, n_categories)))

    def categories(self, column: str | int) -> list[Any]:
        """The categories of a binary or categorical column, in the order of `conditional_proba`."""
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

        `CircuitDensity.load` and the commands of `flatpc` read it.
        """
        check_is_fitted(self)
        write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CircuitDensity:
        """The density in a file that `save`, `flatpc fit` or `circuit.save` wrote, ready to be asked."""
        return read(cls, path)

    def __sklearn_tags__(self) -> Any:
        """Missing values are welcome if they are marginalised."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalize"
        tags.input_tags.categorical = True
        return tags


def _mu(mu: Any) -> float | str | None:
    if isinstance(mu, str):
        return None if choice("mu", mu, ("auto", "mean-flow"), also="a number of 0 or more") == "auto" else str(mu)
    return number("mu", mu, 0.0, what="choose 'auto', 'mean-flow' or a number of 0 or more")


def _seed(random_state: Any) -> int:
    """A seed from what scikit-learn allows as a random state; an int is its own seed."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(np.iinfo(np.int32).max))
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    return seed_number(random_state, "random_state")
