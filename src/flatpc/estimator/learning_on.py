"""Learning on: a fitted density takes further rows, or is tuned to predict one column from the others."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import number, whole_number
from flatpc._typing import Array
from flatpc.errors import OptionError, ShapeError
from flatpc.estimator import uncertainty
from flatpc.estimator.reports import Curvature, columns_in_words, size_in_words, some_rows
from flatpc.learning.conditional import fit_conditional
from flatpc.learning.fitting import fit
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.steps.adam import Adam
from flatpc.learning.steps.em import EM
from flatpc.search.judging import splits
from flatpc.search.samples import Sample
from flatpc.tables.sources import as_source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from flatpc.circuit.circuit import Circuit
    from flatpc.estimator.evidence import Evidence
    from flatpc.tables.columns import Columns
    from flatpc.tables.reading import RawTable

PIECE = 1000
"""Rows that make one step."""


class LearningOn:
    """What a density learns after `fit`; `CircuitDensity` inherits it."""

    circuit_: Circuit
    columns_: Columns
    kinds_: Any
    n_rows_: int
    _weight: float
    tuned_: dict[int, Circuit]
    _posterior: Any

    if TYPE_CHECKING:

        def _evidence(
            self, X: Any, missing: str | None = None, ignore: int | None = None, without: Iterable[int] = ()
        ) -> tuple[Evidence, RawTable]: ...

        def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self: ...

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn on from further rows; the first call is `fit`.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False)
        >>> for day in range(3):
        ...     density = density.partial_fit(np.random.default_rng(day).integers(0, 2, size=(50, 2)))
        >>> density.n_rows_
        150

        The structure, the categories and the traits of columns stay; parameters move by a step of EM whose size is the share
        of the new rows among all so far. Of independent columns that is the fit to all rows; of others, near to one.

        Parameters
        ----------
        X
            A table with the columns that were learnt, or a source of such rows. Values that a column didn't have count as
            missing, unless `unseen="raise"`. Rows of a source are not kept: error bars are those of the rows before it.
        y
            Ignored.
        sample_weight
            How often each row of X counts, as in `fit`: one number of 0 or more per row.

        Returns
        -------
        CircuitDensity
            The estimator itself.

        Raises
        ------
        OptionError
            If it isn't known how many rows were learnt from, as of a model that `circuit.save` wrote; for weights that are none,
            or are given with a source.
        DataError
            For a table that doesn't fit.
        """
        if not hasattr(self, "circuit_"):
            return self.fit(X, sample_weight=sample_weight)
        if not getattr(self, "n_rows_", 0):
            raise OptionError(
                "It isn't known how many rows this model was learnt from, so that new ones can't be weighed; fit it."
            )
        source = as_source(X)
        if source is not None and sample_weight is not None:
            raise OptionError("sample_weight is of rows in memory; leave it out for a source of rows.", option="sample_weight")
        if source is None:
            new = Sample.read(self._evidence(X)[0].rows, sample_weight, "sample_weight")
            rows = new.X
            self._step_by_step(new)
            uncertainty.keep_more_rows(self, new)  # type: ignore[arg-type]
        else:
            blocks = source.changed(lambda block: self._evidence(block)[0].rows).blocks()
            first = next(blocks, None)
            if first is None:
                raise ShapeError("The source has no rows: all its parts are empty.")
            rows = first
            for block in chain([first], blocks):
                self._step_by_step(Sample(block))
            self._posterior = None
        self.tuned_ = {}
        self._curvature: Curvature | None = None
        self._curvature_rows = some_rows(Sample(rows))
        said = size_in_words(self.circuit_)
        self.summary_ = f"{columns_in_words(self.kinds_)}; learnt on to {self.n_rows_:,} rows; {said}."
        return self

    def _step_by_step(self, rows: Sample) -> None:
        """Steps of EM whose sizes are the shares of their rows among all so far."""
        for start in range(0, len(rows), PIECE):
            some = rows.some(slice(start, start + PIECE))
            self.n_rows_ += len(some)
            self._weight += some.weight
            step = fit(
                self.circuit_, some.X, method=EM(some.weight / self._weight), epochs=1, batch_size=None, dtype="float64",
                missing="marginalize", progress=False, sample_weight=some.weights,
            )  # fmt: skip
            self.circuit_ = step.circuit

    def tune(
        self,
        X: Any,
        column: str | int,
        *,
        valid: Any = None,
        mu: float = 0.0,
        step_size: float = 0.02,
        epochs: int = 50,
        random_state: int = 0,
    ) -> Self:
        """Tune a copy of the model to predict one column; `predict` and `predict_proba` of that column then ask the copy.

        >>> import pandas as pd
        >>> import flatpc as fp
        >>> weather = pd.DataFrame({"sky": ["grey", "blue"] * 50, "wet": ["yes", "no"] * 50})
        >>> density = fp.CircuitDensity(effort=0.1, verbose=False).fit(weather).tune(weather, "wet", epochs=2)
        >>> density.predict(weather[:2], "wet").tolist()
        ['yes', 'no']

        It minimises the mean of -log p(column | the rest) by Adam (`fp.learning.fit_conditional`). All other answers are those
        of the model as it was fitted.

        Parameters
        ----------
        X
            Rows to learn from, such as those of `fit`.
        column
            By name or position.
        valid
            Rows by which learning ends and the best epoch is chosen, which may be that before any; without them, a fifth of X.
        mu
            Weight of the penalty on sharpness, as in `fp.Sharpness`.
        step_size
            Of Adam.
        epochs
            At the most.
        random_state
            Of the order of rows, and of those held out.

        Returns
        -------
        CircuitDensity
            The estimator itself.

        Raises
        ------
        OptionError
            For an option out of its range, or a column that is not there.
        DataError
            For a table that doesn't fit.
        """
        rows = self._evidence(X)[0].rows
        j = self.columns_.position(column)
        seed = whole_number("random_state", random_state, 0)
        if valid is None:
            parts = splits(Sample(rows), None, "holdout", seed)
            train, judges = (parts[0].train.X, parts[0].valid.X) if parts else (rows, rows)
        else:
            train, judges = rows, self._evidence(valid)[0].rows
        weight = number("mu", mu, 0.0)
        found = fit_conditional(
            self.circuit_, _with(train, j), variable=j, valid=_with(judges, j), method=Adam(step_size), missing="marginalize",
            sharpness=Sharpness(mu=weight) if weight else None, epochs=epochs, seed=seed,
        )  # fmt: skip
        self.tuned_ = {**getattr(self, "tuned_", {}), j: found.circuit}
        return self

    def _predictor(self, j: int) -> Circuit:
        """The circuit that predicts a column."""
        tuned: dict[int, Circuit] = getattr(self, "tuned_", {})
        return tuned.get(j, self.circuit_)


def _with(rows: Array, j: int) -> Array:
    """Rows that have the column; all, if that leaves none to say so of."""
    known = ~np.isnan(rows[:, j])
    return rows[known] if known.any() else rows
