"""`CircuitDensity`: density estimation with circuits behind scikit-learn's interface."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from flatpc._options import choice, flag, number, seed_number, whole_number
from flatpc._row_weights import read_weights
from flatpc._typing import Array
from flatpc.errors import OptionError, ShapeError
from flatpc.estimator import uncertainty
from flatpc.estimator.drawing import draw
from flatpc.estimator.evidence import Evidence, read_events, read_evidence, read_judges
from flatpc.estimator.files import read, write
from flatpc.estimator.from_sources import Reading, filled, over_blocks
from flatpc.estimator.imputing import HOW, fill
from flatpc.estimator.learning_on import LearningOn
from flatpc.estimator.questions import Questions
from flatpc.estimator.reports import Curvature, some_rows, summary
from flatpc.learning.regularizers.sharpness import Sharpness, is_auto
from flatpc.queries.streaming import log_prob_of, totals_of
from flatpc.search.choice import Choice
from flatpc.search.choosing import check_valid_weight, search
from flatpc.search.from_sources import learn_on
from flatpc.search.plans import Wishes
from flatpc.search.samples import Sample
from flatpc.tables.columns import UNSEEN, Columns, Encoding
from flatpc.tables.reading import MISSING, RawTable, read_raw
from flatpc.tables.sources import Source, as_source

if TYPE_CHECKING:
    from flatpc.curvature.posterior import Posterior


class CircuitDensity(Questions, LearningOn, DensityMixin, BaseEstimator):  # type: ignore[misc]
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

    A table is a NumPy array, a torch tensor, nested lists, or a pandas or polars frame. What learns from rows or answers row by
    row takes a source (`fp.tables.scan`), too, and reads some rows at a time. Each column is recognised as binary,
    categorical, count or continuous; `kinds` overrules that. `fp.choose` then tries models from independent columns to
    averages of hidden trees, and a line says what was chosen and why.

    Parameters
    ----------
    effort
        The most work to spend on the choice: `"quick"`, `"normal"` or `"thorough"`, about 5, 30 and 120 seconds on one core, or a
        number of such seconds. It is counted, not timed: one seed gives one model on all machines whose processors round alike.
    structure
        `"auto"` chooses among those that suit the columns: `"factorized"` (independent columns), `"kernels"` (a kernel density),
        `"binned_tree"` (a tree of columns in bins), `"chow_liu"`, `"tree_mixture"`, `"hclt"` (hidden Chow-Liu tree),
        `"mixture"`, `"rat_spn"`.
    n_latents
        Units of latents and inputs; `"auto"` tries several.
    mu
        Weight of the penalty on sharpness, in counts as in `fp.Sharpness`, or its `"mean-flow"`; `"auto"` tries several, and
        other regularisers.
    judge
        What models are judged by, as for `fp.choose`: `"auto"`, `"valid"`, `"cv"`, `"holdout"`, `"loo"` or `"evidence"`.
    average
        Whether the choice may be the average of several models.
    kinds
        Overrules what columns are recognised as: a kind for all, a list with one for each, or a dict by name or position.
    missing
        `"raise"` refuses missing values (None, NaN, null) in training and prediction; `"marginalize"` integrates them out.
    unseen
        Values that a column didn't have in training and that the model gives no probability: `"rare"` gives each a small one,
        half of that of one more among the training rows; `"raise"` refuses them; `"missing"` takes them for missing.
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
    n_parameters_
        How many numbers were learnt, as `Circuit.n_parameters` counts them.
    n_free_parameters_
        Those that can be chosen freely (`Circuit.n_free_parameters`); `aic` and `bic` count them.
    n_rows_
        Rows learnt from, those of `partial_fit` among them.
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
        judge: str = "auto",
        average: bool = True,
        kinds: Any = None,
        missing: str = "raise",
        unseen: str = "rare",
        time_budget: float | None = None,
        random_state: Any = 0,
        verbose: bool | int = True,
    ) -> None:
        self.effort = effort
        self.structure = structure
        self.n_latents = n_latents
        self.mu = mu
        self.judge = judge
        self.average = average
        self.kinds = kinds
        self.missing = missing
        self.unseen = unseen
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    # ---- learning -------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        valid: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        valid_weight: Any = None,
    ) -> CircuitDensity:
        """Learn from the rows of X.

        Parameters
        ----------
        X
            The table, or a source of rows such as `fp.tables.scan` makes: columns are recognised and models chosen by a sample of
            100,000 rows, and what is chosen is learnt on from all of them.
        y
            Ignored.
        valid
            Further rows to choose by; without them, rows of X judge in turn, or some are held back. Of a source, a sample of
            100,000 rows judges.
        groups
            One label for each row; rows of one group never judge a model that has learnt from others of it.
        sample_weight
            How often each row of X counts: one number of 0 or more per row. Whole numbers are the same as repeating rows, with
            all copies of a row in one group; only the kinds of columns are recognised from rows without weights. The sum is the
            number of rows by which sizes and smoothing are chosen, so give importance weights a mean of 1.
        valid_weight
            How often each row of `valid` counts.

        Returns
        -------
        CircuitDensity
            The estimator itself.

        Raises
        ------
        OptionError
            For an option out of its range, or `groups` or `sample_weight` with a source.
        DataError
            For a table that can't be read or learnt from.
        """
        options = self._options()
        source = as_source(X)
        if source is not None and not (groups is None and sample_weight is None):
            raise OptionError("groups and sample_weight are of rows in memory; leave them out for a source of rows.")
        table = self._read(X if source is None else source.sample(seed=options["seed"]), reset=True)
        weights = read_weights(sample_weight, len(table))
        self.columns_ = Columns.learn(table, self.kinds, sample_weight=weights, groups=groups)
        self.kinds_ = self.columns_.kinds
        for note in self.columns_.notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        # A value of a training row is seen by being there.
        rows = Sample.encoded(self.columns_, table, self.missing, weights, groups)
        check_valid_weight(valid, valid_weight)
        validation = as_source(valid)
        if validation is not None:
            valid = validation.sample(seed=options["seed"])
        judges, families = None, [column.families for column in self.columns_.columns]
        if valid is not None:
            judging, families = read_judges(self.columns_, self._read(valid, reset=False), self.missing, self.unseen)
            judges = Sample.read(judging, valid_weight)
        found = search(
            rows,
            families,
            valid=judges,
            missing="marginalize",
            names=self.columns_.names,
            **options,
        )
        if found.cut_short == "interrupted":
            # Whoever calls fit, such as a grid search, is to stop as well.
            raise KeyboardInterrupt
        if source is not None:
            coded = source.changed(Encoding(self.columns_, self.missing, self.unseen))
            found = learn_on(found, coded, seed=options["seed"], missing="marginalize")
        self._keep(found, rows)
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
            "effort": self.effort, "judge": self.judge, "wishes": Wishes(self.structure, n_latents), "average": self.average,
            "time_budget": self.time_budget, "seed": _seed(self.random_state), **given,
        }  # fmt: skip

    def _keep(self, choice: Choice, rows: Sample) -> None:
        self.circuit_ = choice.circuit
        self.n_rows_, self.tuned_ = choice.n_rows, {}
        self._weight = float(choice.n_rows) if rows.weights is None else rows.weight
        uncertainty.keep_rows(self, rows)
        self.candidates_ = choice.candidates
        self.n_iter_ = choice.best.epochs
        self.n_parameters_ = self.circuit_.n_parameters
        self.n_free_parameters_ = self.circuit_.n_free_parameters
        self._curvature = None
        self._curvature_rows = some_rows(rows)
        self.summary_ = summary(self.kinds_, choice)

    @property
    def curvature_(self) -> Curvature:
        """How sharp the likelihood is, `.sharpness` and `.by_layer`; measured when it is first asked for."""
        known: Curvature | None = getattr(self, "_curvature", None)
        if known is None:
            if not hasattr(self, "_curvature_rows"):
                raise AttributeError(f"{type(self).__name__} has no curvature_: it isn't fitted, or is from a file without it.")
            known = self._curvature = Curvature.at(self.circuit_, self._curvature_rows)
        return known

    def _say(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        if self.verbose > 1:
            console.print(self.columns_.show())
        console.print(f"CircuitDensity: {self.summary_}", highlight=False, markup=False, soft_wrap=True)

    def _read(self, X: Any, *, reset: bool, without: Iterable[int] = ()) -> RawTable:
        """The table's columns, after scikit-learn's checks of their number and names; it may lack those at `without`."""
        table = read_raw(X)
        if not reset:
            whole = table.with_gaps(self.columns_.names[j] for j in without)
            if set(whole.names) == set(self.columns_.names):
                return whole  # in any order: columns are matched by name
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except (ValueError, TypeError) as error:  # scikit-learn's words, about the number of columns or their names
            raise ShapeError(str(error)) from None
        return table

    def _evidence(
        self, X: Any, missing: str | None = None, ignore: int | None = None, without: Iterable[int] = ()
    ) -> tuple[Evidence, RawTable]:
        """Rows as the circuit reads them, and the table as it was given; it may lack the columns that are not looked at."""
        check_is_fitted(self)
        table = self._read(X, reset=False, without=without if ignore is None else (ignore, *without))
        return read_evidence(self.circuit_, self.columns_, table, missing or self.missing, self.unseen, ignore), table

    # ---- questions ------------------------------------------------------------------------------------------------

    def posterior(self, X: Any = None, *, prior: float = 0.5) -> Posterior:
        """The posterior around the fit, which error bars come from; see `fp.curvature.laplace`.

        After a fit with `sample_weight` it is that of as many rows as the weights add up to, drawn in proportion to them: with
        whole numbers, of the repeated rows.

        >>> import flatpc as fp
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False).fit([[0], [1], [1]] * 10)
        >>> density.posterior().structure
        'full'

        Parameters
        ----------
        X
            The table that the density was fitted to; not needed after `fit`, but for a density from a file.
        prior
            The Dirichlet prior of every weight.

        Returns
        -------
        Posterior
            Kept for later questions. `is_optimum` tells whether error bars can be relied on.

        Raises
        ------
        OptionError
            If no rows are known, as after `load`.
        DataError
            For a table that doesn't fit.
        """
        check_is_fitted(self)
        return uncertainty.posterior(self, None if X is None else self._evidence(X)[0].rows, prior)

    def score_samples(self, X: Any, *, return_std: bool = False) -> Any:
        """The log-likelihood of every row, log p(x), in the units of the table; missing values are integrated out if allowed.

        Parameters
        ----------
        X
            A table with the columns that were learnt.
        return_std
            Whether standard errors are wanted too: how much answers would vary with other training rows of the same kind. A
            warning says if they are guesses, as the fit is at no optimum.

        Returns
        -------
        array
            `[N]`; with `return_std`, two of them.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        OptionError
            With `return_std`, if the training rows are not known, as after `load`; call `posterior(X)` with them first.
        """
        if flag("return_std", return_std):
            return self._with_errors(X)
        source = self._source(X)
        if source is not None:
            return log_prob_of(self._reading(self.missing).likelihood(), source)
        evidence, _ = self._evidence(X)
        return np.asarray(self.circuit_.log_prob(evidence.rows, missing="marginalize") + evidence.rare.sum(axis=1))

    @over_blocks
    def _with_errors(self, X: Any) -> tuple[Array, Array]:
        evidence, _ = self._evidence(X)
        found = uncertainty.answering(self).log_prob(evidence.rows, missing="marginalize")
        return found.value + evidence.rare.sum(axis=1), found.error

    def _source(self, X: Any) -> Source | None:
        """A source of rows with the columns that were learnt; None if X is a table."""
        source = as_source(X)
        if source is None:
            return None
        check_is_fitted(self)
        if len(source.names) != self.n_features_in_:
            raise ShapeError(f"The source has {len(source.names)} columns; {self.n_features_in_} were learnt.")
        unknown = [name for name in source.names if name not in getattr(self, "feature_names_in_", source.names)]
        if unknown and source.names != tuple(f"x{j}" for j in range(len(source.names))):
            raise ShapeError(f"The source has the column {unknown[0]!r}, which was not learnt; give the columns of the fit.")
        return source

    def _reading(self, missing: str) -> Reading:
        return Reading(self.circuit_, self.columns_, missing, self.unseen)

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
        source = self._source(X)
        if source is not None:
            return totals_of(self._reading(self.missing).likelihood(), source).mean
        return float(self.score_samples(X).mean())

    @over_blocks
    def anomaly_score(self, X: Any, *, explain: bool = False) -> Any:
        """-log p(x), higher for stranger rows. Rows with missing values are judged by what they have.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [1, -2] + [0, 5]
        >>> density = fp.CircuitDensity(effort=1, verbose=False).fit(X)
        >>> scores, causes = density.anomaly_score([[0.0, 5.0], [0.0, 9.0]], explain=True)
        >>> bool(scores[1] > scores[0]), int(causes[1].argmax())
        (True, 1)

        Parameters
        ----------
        X
            A table with the columns that were learnt.
        explain
            Whether to tell which columns are the cause, too.

        Returns
        -------
        array or tuple
            `[N]`; with `explain`, also `[N, D]`: by how much the score of a row would fall if the column had its most probable
            value given the rest of the row. It doesn't depend on units. Columns are in the order in which they were learnt.

        Raises
        ------
        DataError
            For a table that doesn't fit, or missing values that `missing` doesn't allow.
        """
        if not flag("explain", explain):
            return -self.score_samples(X)
        evidence, _ = self._evidence(X)
        log_prob = self.circuit_.log_prob(evidence.rows, missing="marginalize") + evidence.rare.sum(axis=1)
        return -np.asarray(log_prob), self._causes(evidence)

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

    def sample(self, n_samples: int = 1, *, given: Any = None, random_state: Any = None) -> Any:
        """New rows, in a table like the one that was learnt from: of its types, within its bounds, at its resolution.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [1, -2] + [0, 5]
        >>> density = fp.CircuitDensity(effort=1, verbose=False).fit(X)
        >>> bool((density.sample(50, given={"x0": (1, 2)}, random_state=0)[:, 1] < 5).all())
        True

        Parameters
        ----------
        n_samples
            Number of rows; given a table, of each of its rows.
        given
            What is known: a dict of columns with a value, a list of values, or `(low, high)` of numbers; or a table with gaps,
            whose other values stay as they are.
        random_state
            Random seed; None draws anew each time.

        Returns
        -------
        array or frame
            Of the kind that was learnt from.

        Raises
        ------
        OptionError
            Unless `n_samples` is a positive whole number, and `given` speaks of columns and values that there are.
        DataError
            If what is given has probability zero.
        """
        check_is_fitted(self)
        n, rows, events, table = whole_number("n_samples", n_samples, 1), None, None, None
        if isinstance(given, Mapping):
            events = read_events(self.columns_, given, "given")
        elif given is not None:
            evidence, table = self._evidence(given, missing="marginalize")
            rows = evidence.rows
        return self.columns_.decode(draw(self.circuit_, self.columns_, n, _seed(random_state), rows, events), given=table)

    def impute(self, X: Any, *, how: str = "mean", random_state: Any = None) -> Any:
        """The table with its missing values filled in given each row's others; what is known stays as it is.

        Parameters
        ----------
        X
            A table with the columns that were learnt, or a source of such rows.
        how
            `"mean"`: the conditional mean of counts and continuous values, and the most probable category, each column by itself.
            `"mode"`: the most probable completion of the row as a whole, exact for Chow-Liu trees and independent columns and
            otherwise that of the most probable induced tree. `"draw"`: a draw from the conditional distribution.
        random_state
            Random seed; None draws anew each time.

        Returns
        -------
        array or frame
            Of the kind that was given. A column of integers stays one: what is filled in is rounded. For a source it is a source
            whose blocks are filled in when they are read: `for table in density.impute(source).blocks()`.

        Raises
        ------
        OptionError
            For another `how`.
        DataError
            For a table that doesn't fit.
        """
        choice("how", how, HOW)
        source = self._source(X)
        if source is not None:
            return filled(source, self._reading("marginalize"), how, _seed(random_state))
        evidence, table = self._evidence(X, missing="marginalize")
        return self.columns_.decode(fill(self.circuit_, self.columns_, evidence.rows, how, _seed(random_state)), like=table)

    # ---- files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file, which holds no code: circuit, columns, summary, and what was tuned.

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

    def __getstate__(self) -> Any:
        """Without the posterior, which is measured again when it is asked for."""
        return {name: value for name, value in super().__getstate__().items() if name != "_posterior"}

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
