"""What a person asks of a table: any column predicted from the others, probabilities of ranges, quantiles, and what is odd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from flatpc._messages import as_categorical
from flatpc._options import flag, number, wrong
from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.estimator.evidence import Evidence, read_events, refuse_densities
from flatpc.estimator.from_sources import over_blocks
from flatpc.estimator.imputing import log_conditional
from flatpc.estimator.uncertainty import answering
from flatpc.queries.conditionals import Conditional, conditional
from flatpc.queries.events import event_log_prob
from flatpc.tables.forms import TEMPORAL

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.curvature.posterior import Posterior
    from flatpc.tables.column import Column
    from flatpc.tables.columns import Columns
    from flatpc.tables.reading import RawTable


def _has_categories(density: Any) -> bool:
    """Whether there is a column whose categories have probabilities; scikit-learn's tools look before they ask.

    Raises `OptionError` if there is none in the table, which is then the cause of scikit-learn's `AttributeError`.
    """
    if not hasattr(density, "columns_"):
        return False
    if not any(column.is_discrete for column in density.columns_.columns):
        raise OptionError(
            "No column of the table has categories, so that predict_proba has no probabilities to give; ask predict."
        )
    return True


class Questions:
    """Questions about columns, in the terms of the table; `CircuitDensity` inherits them."""

    circuit_: Circuit
    columns_: Columns

    if TYPE_CHECKING:

        def _evidence(
            self, X: Any, missing: str | None = None, ignore: int | None = None, without: Iterable[int] = ()
        ) -> tuple[Evidence, RawTable]: ...

        def posterior(self, X: Any = None, *, prior: float = 0.5) -> Posterior: ...

        def _predictor(self, j: int) -> Circuit: ...

    # ---- one column -----------------------------------------------------------------------------------------------

    @over_blocks
    def predict(self, X: Any, column: str | int | None = None) -> Any:
        """The most probable category of a column, or the mean of its numbers, given the rest of each row.

        >>> import pandas as pd
        >>> import flatpc as fp
        >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 50, "wet": ["yes", "no"] * 50})
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False).fit(weather)
        >>> density.predict(weather[:2], "wet").tolist()
        ['yes', 'no']

        Parameters
        ----------
        X
            A table with the columns that were learnt, or all but the one that is asked for.
        column
            By name or position; None is the last one. Its own values in X are not looked at.

        Returns
        -------
        array
            `[N]`: categories, floats, or dates and times where the column has these.

        Raises
        ------
        OptionError
            For a column that is not there.
        DataError
            For a table that doesn't fit.
        """
        check_is_fitted(self)
        j = len(self.columns_.columns) - 1 if column is None else self.columns_.position(column)
        rows = self._evidence(X, ignore=j)[0].rows
        found = self.columns_.columns[j]
        if found.is_discrete:
            codes = log_conditional(self._predictor(j), rows, j, len(found.categories)).argmax(axis=1)
            return np.array(found.values, dtype=object if found.dtype == "text" or found.dtype in TEMPORAL else None)[codes]
        asked = np.where(np.arange(rows.shape[1]) == j, np.nan, rows)
        return found.shown(np.clip(np.asarray(self._predictor(j).expectation(asked))[:, j], *found.traits.bounds))

    @available_if(_has_categories)  # type: ignore[untyped-decorator]
    @over_blocks
    def predict_proba(
        self, X: Any, column: str | int | None = None, *, return_std: bool = False, interval: float | None = None
    ) -> Any:
        """The probability of each category of a column given the rest of each row.

        >>> import pandas as pd
        >>> import flatpc as fp
        >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 50, "wet": ["yes", "no"] * 50})
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False).fit(weather)
        >>> density.categories("wet"), int(density.predict_proba(weather[:1], "wet").argmax())
        (['no', 'yes'], 1)

        This is a classifier for any column, learnt once for all.

        Parameters
        ----------
        X
            A table with the columns that were learnt, or all but the one that is asked for.
        column
            A binary or categorical column, by name or position; None is the last one. Its own values in X are not looked at.
        return_std
            Whether standard errors of the probabilities are wanted too; see `CircuitDensity.posterior`. A warning says if they
            are guesses, as the fit is at no optimum.
        interval
            A level such as 0.9: both ends of an interval around each probability are wanted too, which lie between 0 and 1.

        Returns
        -------
        array or tuple
            `[N, categories]`, in the order of `categories(column)`; with `return_std`, standard errors after it; with `interval`,
            lower ends and upper ends after these.

        Raises
        ------
        OptionError
            For a column that is not there or has no categories; with `return_std` or `interval`, if the training rows are not
            known, or the column was tuned (`CircuitDensity.tune`): the posterior is that of the fit.
        DataError
            For a table that doesn't fit.
        """
        if column is None:
            column = max(j for j, each in enumerate(self.columns_.columns) if each.is_discrete)
        n_categories = len(self.categories(column))
        j = self.columns_.position(column)
        rows = self._evidence(X, ignore=j)[0].rows
        level = None if interval is None else number("interval", interval, 0.0, 1.0, above=True, below=True)
        if flag("return_std", return_std) or level is not None:
            if self._predictor(j) is not self.circuit_:
                raise OptionError(
                    f"Column {self.columns_.names[j]} was tuned, by its likelihood given the others, and error bars are those of "
                    f"the fit; ask for probabilities alone, or density.posterior().conditional_proba for those of the fit."
                )
            found = answering(self).conditional_proba(rows, j)  # type: ignore[arg-type]
            ends = () if level is None else found.interval(level, scale="logit")
            all_of_it = (found.value, *((found.error,) if return_std else ()), *ends)
            return tuple(each[:, :n_categories] for each in all_of_it)
        return np.asarray(np.exp(log_conditional(self._predictor(j), rows, j, n_categories)))

    def categories(self, column: str | int) -> list[Any]:
        """The categories of a binary or categorical column, in the order of `predict_proba`.

        >>> import flatpc as fp
        >>> fp.CircuitDensity(effort=0.1, verbose=False).fit([["a"], ["b"]] * 10).categories(0)
        ['a', 'b']

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
                f"Column {found.name!r} is {found.kind} and has no categories; use predict for its mean given the rest, "
                f"or learn it with {as_categorical(found.name)}."
            )
        return list(found.values)

    @over_blocks
    def quantile(self, X: Any, column: str | int, *, q: Any = 0.5) -> Any:
        """Quantiles of a column of numbers given the rest of each row: medians, or the ends of intervals.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [1, -2] + [0, 5]
        >>> density = fp.CircuitDensity(effort=1, verbose=False).fit(X)
        >>> low, high = density.quantile([[1.0, np.nan]], 1, q=[0.05, 0.95])[0]          # an interval of 90%
        >>> bool(low < 3 < high)
        True

        Parameters
        ----------
        X
            A table with the columns that were learnt, or all but the one that is asked for.
        column
            By name or position; its own values in X are not looked at.
        q
            A probability between 0 and 1, or several.

        Returns
        -------
        array
            `[N]`, or `[N, len(q)]` for several. It is a value of the column's own resolution, if it has one.

        Raises
        ------
        OptionError
            For a column that is not there, has categories, or a `q` that is no probability.
        DataError
            For a table that doesn't fit.
        """
        found = self._numbers(column)
        several = [number("q", each, 0.0, 1.0) for each in (q if np.ndim(q) else [q])]
        if not several:
            raise wrong("q", q, "give a probability, or a list of at least one.")
        given = self._given(X, column)
        out = np.stack([found.rounded(given.quantile(each)) for each in several], axis=1)
        return found.shown(out if np.ndim(q) else out[:, 0])

    @over_blocks
    def column_log_density(self, X: Any, column: str | int) -> Array:
        """The log-density, or log-probability, of a column's values given the rest of each row.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [1, -2] + [0, 5]
        >>> density = fp.CircuitDensity(effort=1, verbose=False).fit(X)
        >>> usual, odd = density.column_log_density([[1.0, 3.0], [1.0, 7.0]], 1)
        >>> bool(usual > odd)
        True

        Parameters
        ----------
        X
            A table with the columns that were learnt.
        column
            By name or position.

        Returns
        -------
        array
            `[N]`: log p(column | all others); 0 where its value is missing.

        Raises
        ------
        OptionError
            For a column that is not there.
        DataError
            For a table that doesn't fit.
        """
        check_is_fitted(self)
        j = self.columns_.position(column)
        evidence, _ = self._evidence(X)
        rest = np.where(np.arange(evidence.rows.shape[1]) == j, np.nan, evidence.rows)
        joint = self.circuit_.log_prob(evidence.rows, missing="marginalize")
        return np.asarray(joint - self.circuit_.log_prob(rest, missing="marginalize") + evidence.rare[:, j])

    # ---- events ---------------------------------------------------------------------------------------------------

    def probability(self, event: Mapping[str | int, Any], *, given: Any = None) -> Any:
        """The probability that columns have certain values or lie in certain ranges.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> X = np.random.default_rng(0).normal(size=(300, 1)) * [1, -2] + [0, 5]
        >>> density = fp.CircuitDensity(effort=1, verbose=False).fit(X)
        >>> bool(0.4 < density.probability({"x0": (None, 0.0)}) < 0.6)
        True
        >>> bool(density.probability({"x0": (None, 0.0)}, given={"x1": (6, 9)}) > 0.9)
        True

        Parameters
        ----------
        event
            Column -> a value, a list of values, or `(low, high)` of numbers: both ends belong to the range, and None is no end.
            In a column that was rounded, numbers stand for all that is rounded to them: ages from 30 to 40 are eleven.
        given
            What is known: a dict of the same form, or a table with the columns that were learnt, which may lack those of the
            event. None: nothing.

        Returns
        -------
        float or array
            The probability; `[N]` given a table.

        Raises
        ------
        OptionError
            For a column or category that is not there, a range whose ends are in the wrong order, or a value that has a density
            instead of a probability: one of a continuous column that was not rounded, unless it stands out.
        DataError
            For a table that doesn't fit, or conditions of probability zero.
        """
        check_is_fitted(self)
        events = read_events(self.columns_, event, "event")
        refuse_densities(self.circuit_, self.columns_, events)
        if given is None:
            return float(np.exp(event_log_prob(self.circuit_, events=events)[0]))
        if isinstance(given, Mapping):
            known = read_events(self.columns_, given, "given")
            for j in known.keys() & events.keys():
                raise OptionError(
                    f"Column {self.columns_.names[j]!r} is in event and in given; leave it out of one.", option="given"
                )
            condition = float(event_log_prob(self.circuit_, events=known)[0])
            if condition == -np.inf:
                raise OptionError("What is given has probability zero, so nothing can be said given it.", option="given")
            return float(np.exp(event_log_prob(self.circuit_, events={**known, **events})[0] - condition))
        rows = self._evidence(given, missing="marginalize", without=events)[0].rows
        rows[:, list(events)] = np.nan
        return np.exp(event_log_prob(self.circuit_, rows, events=events) - self.circuit_.log_prob(rows, missing="marginalize"))

    # ---- oddities -------------------------------------------------------------------------------------------------

    def _causes(self, evidence: Evidence) -> Array:
        """`[N, D]`: log p of the row with a column's most probable value in place of its own, less log p of the row."""
        rows, circuit = evidence.rows, self.circuit_
        own = np.asarray(circuit.log_prob(rows, missing="marginalize"))
        out = np.zeros_like(rows)
        for j, column in enumerate(self.columns_.columns):
            known = np.flatnonzero(~np.isnan(rows[:, j]) | (evidence.rare[:, j] < 0))
            if len(known) == 0:
                continue
            better = rows[known].copy()
            better[:, j] = self._best(column, rows[known], j)
            best = np.asarray(circuit.log_prob(better, missing="marginalize"))
            if column.rest:
                best[better[:, j] == len(column.categories) - 1] += column.log_share
            with np.errstate(invalid="ignore"):
                gain = best - own[known] - evidence.rare[known, j]
            out[known, j] = np.maximum(np.where(np.isnan(gain), 0.0, gain), 0.0)
        return out

    def _best(self, column: Column, rows: Array, j: int) -> Array:
        """The most probable value of a column given the rest."""
        asked = np.where(np.arange(rows.shape[1]) == j, np.nan, rows)
        if column.is_discrete:
            log_prob = log_conditional(self.circuit_, asked, j, len(column.categories))
            log_prob[:, -1] += column.log_share
            return np.asarray(log_prob.argmax(axis=1), np.float64)
        return conditional(self.circuit_, asked, variable=j).mode()

    def _numbers(self, column: str | int) -> Column:
        check_is_fitted(self)
        found = self.columns_.columns[self.columns_.position(column)]
        if found.is_discrete:
            raise OptionError(f"Column {found.name!r} is {found.kind} and has no quantiles; use predict_proba.", option="column")
        return found

    def _given(self, X: Any, column: str | int) -> Conditional:
        j = self.columns_.position(column)
        return conditional(self.circuit_, self._evidence(X, missing="marginalize", ignore=j)[0].rows, variable=j)
