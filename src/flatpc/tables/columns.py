"""Columns of a table as variables of a circuit: learnt once, then rows become numbers and numbers rows.

>>> import numpy as np
>>> table = np.array([["red", 1.5], ["blue", 2.5], ["red", 0.25], ["green", 3.25]], dtype=object)
>>> columns = Columns.learn(table)
>>> columns.kinds
{'x0': 'categorical', 'x1': 'continuous'}
>>> columns.encode(table)[0]
array([2. , 1.5])
>>> columns.decode(np.array([[0.0, 9.0]])).tolist()
[['blue', 9.0]]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._messages import DROP, Message, Option
from flatpc._options import choice, shown
from flatpc._printable import printable
from flatpc._row_weights import read_weights
from flatpc._typing import Array
from flatpc.errors import DataError, OptionError, ShapeError, SupportError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.negative_binomial import NegativeBinomial
from flatpc.families.poisson import Poisson
from flatpc.tables.agreement import sort_in_words
from flatpc.tables.alike import common_values
from flatpc.tables.filling import fill_in, new_table
from flatpc.tables.forms import (
    SECONDS_PER_DAY,
    TEMPORAL,
    WRITTEN,
    Form,
    bounds_of_type,
    kind_of_moments,
    number_of,
    number_of_text,
    step_of_moments,
)
from flatpc.tables.reading import MISSING, DType, RawColumn, RawTable, read_matrix, read_raw, refuse_infinite, refuse_missing
from flatpc.tables.recognition import (
    MAX_CATEGORIES,
    MAX_TEXTS,
    Kind,
    Overrides,
    frequent_texts,
    numbers_rows,
    read_overrides,
    recognize,
)
from flatpc.tables.suiting import suitable_counts, suitable_numbers
from flatpc.tables.traits import Traits

if TYPE_CHECKING:
    from rich.table import Table

UNSEEN = ("rare", "raise", "missing")
"""What may be done with values that a column didn't have in training."""
OTHER = "other"
"""What a category of rare texts is called, with a sign more if that is a frequent text."""
RARE = 1e-3
"""The probability of such a value, of a column that doesn't say how many it had."""


class UnseenCategoryError(SupportError):
    """A value of a binary or categorical column that the training rows don't have."""


@dataclass(frozen=True)
class Column:
    """One column of a table as a variable of a circuit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> from flatpc.tables.reading import read_raw
    >>> table = [["red"], ["blue"], ["red"]]
    >>> colour = fp.tables.Columns.learn(table).columns[0]
    >>> colour.kind, colour.categories, colour.encode(read_raw(table).columns[0], "raise")
    ('binary', ('blue', 'red'), array([1., 0., 1.]))
    >>> colour.decode(np.array([0.0]))
    ['blue']
    """

    name: str
    """Its name, `x0`, `x1`, ... in a table without names."""
    kind: Kind
    """`"binary"`, `"categorical"`, `"count"` or `"continuous"`."""
    dtype: DType
    """What its values are: `"text"`, `"integer"`, `"float"`, `"boolean"`, `"date"`, `"datetime"`, `"time"` or `"duration"`."""
    why: str
    """What it was recognised by."""
    categories: tuple[Any, ...] = ()
    """What the codes 0, 1, ... of a binary or categorical column stand for."""
    traits: Traits = field(default_factory=Traits)
    """Resolution, atoms and bounds of numbers."""
    rare: float = RARE
    """The probability of any value that it didn't have in training: half of that of one more among as many."""
    form: Form = field(default_factory=Form)
    """How its values are written in the table: types, time zones, digits."""
    other: bool = False
    """Whether the last category is for all texts that are not among the frequent ones."""
    suitable: tuple[Family, ...] = field(default=(), compare=False)
    """What `families` are, if not the usual one of its kind; no file keeps it, as what was chosen is in the circuit."""

    @property
    def families(self) -> tuple[Family, ...]:
        """Distributions that suit the column by its data, the default first; in the units of encoded rows."""
        return self.suitable or (self._usual(),)

    def _usual(self) -> Family:
        if self.kind == "continuous":
            return Gaussian()
        if self.kind == "count":
            return NegativeBinomial()
        return Bernoulli() if len(self.categories) == 2 else Categorical(len(self.categories))

    @property
    def family(self) -> Family:
        """The default among `families`."""
        return self.families[0]

    @property
    def values(self) -> tuple[Any, ...]:
        """The categories as the table has them: dates and times where it has these."""
        return tuple(self.form.restored(self.dtype, self.categories)) if self.dtype in TEMPORAL else self.categories

    @property
    def is_discrete(self) -> bool:
        """Whether it has categories."""
        return self.kind in ("binary", "categorical")

    def encode(self, raw: RawColumn, unseen: str) -> Array:
        """Codes or numbers, NaN where missing.

        Parameters
        ----------
        raw
            The column as it was read; `Columns.encode` reads and encodes a whole table.
        unseen
            Values that the column didn't have in training: `"raise"` refuses them, `"missing"` and `"rare"` give NaN.

        Returns
        -------
        array
            `[N]`.

        Raises
        ------
        DataError
            For values of another kind than were learnt, or not allowed.
        """
        raw = self._without_text(raw)
        now, then = sort_in_words(raw.dtype), sort_in_words(self.dtype)
        raw = _same_unit(raw, self.dtype)
        if now != then and not raw.missing.all():
            raise DataError(f"{raw.label} holds {now}, but {then} when it was learnt; give the same kind of values.")
        if not self.is_discrete:
            return self._numbers(raw, unseen)
        known = ~raw.missing
        out = np.full(len(raw.values), np.nan)
        if self.dtype == "text":
            code = {category: float(i) for i, category in enumerate(self.categories)}
            rest = len(self.categories) - 1.0 if self.other else np.nan
            out[known] = [code.get(value, rest) for value in raw.values[known]]
        else:
            refuse_infinite(raw.values[:, None], [raw.label])
            values = np.array(self.categories, dtype=np.float64)
            order = np.argsort(values)  # levels have an order of their own
            at = order[np.minimum(np.searchsorted(values[order], raw.values), len(values) - 1)]
            out = np.where(values[at] == raw.values, at, np.nan)
        strange = known & np.isnan(out)
        if unseen == "raise" and strange.any():
            row = int(np.flatnonzero(strange)[0])
            known_values = [str(value) if self.dtype in TEMPORAL else repr(value) for value in self.values]
            listed = ", ".join(known_values[:8]) + (", ..." if len(known_values) > 8 else "")
            value = raw.values[row] if self.dtype == "text" else float(raw.values[row])
            given = str(self.shown(np.array([value]))[0]) if self.dtype in TEMPORAL else repr(_plain(value))
            rare, absent = Option("unseen", "rare"), Option("unseen", "missing")
            raise UnseenCategoryError(
                Message(
                    f"{raw.label} has the value {given} in row {row}, which it didn't have in training ({listed}). "
                    f"Correct it, or pass {rare} to give such values a small probability, or {absent}.",
                    rare,
                    absent,
                )
            )
        return out

    def rounded(self, x: Array) -> Array:
        """Numbers rounded to the column's resolution and kept within its bounds; atoms stay as they are.

        >>> import numpy as np
        >>> import flatpc as fp
        >>> weight = fp.tables.Columns.learn([[0.5], [1.5], [2.0], [1.5], [0.5]] * 4).columns[0]
        >>> weight.rounded(np.array([-0.3, 1.3])).tolist()
        [0.0, 1.5]

        Parameters
        ----------
        x
            `[N]`: numbers.

        Returns
        -------
        array
            `[N]`.
        """
        traits = self.traits
        out = x
        if traits.resolution > 0:
            digits = next((d for d in range(12) if abs(traits.resolution * 10**d - round(traits.resolution * 10**d)) < 1e-6), 12)
            steps = np.round((x - traits.origin) / traits.resolution)
            nearest = np.round(traits.origin + traits.resolution * steps, max(digits, 6) if traits.origin else digits)
            out = np.where(np.isin(x, traits.atoms), x, nearest)
        return np.clip(out, *traits.bounds)

    def number(self, value: Any) -> float:
        """A value of the table as the model's number.

        >>> from datetime import date
        >>> import flatpc as fp
        >>> born = fp.tables.Columns.learn([[date(1970, 1, 2)], [date(1980, 1, 1)], [date(1990, 5, 9)]]).columns[0]
        >>> born.number(date(1970, 1, 3))
        2.0

        Parameters
        ----------
        value
            A number; or a date, time or duration for a column of such.

        Returns
        -------
        float
            NaN if it is neither.
        """
        if self.dtype in TEMPORAL:
            return number_of(self.dtype, value)
        try:
            return np.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            return np.nan

    def shown(self, numbers: Array) -> Any:
        """Numbers of the model as people have them: dates and times where the column has these, otherwise as they are.

        >>> from datetime import date
        >>> import numpy as np
        >>> import flatpc as fp
        >>> born = fp.tables.Columns.learn([[date(1970, 1, 2)], [date(1980, 1, 1)], [date(1990, 5, 9)]]).columns[0]
        >>> born.shown(np.array([1.0]))
        array([datetime.date(1970, 1, 2)], dtype=object)

        Parameters
        ----------
        numbers
            Of any shape.

        Returns
        -------
        array
            Of the same shape.
        """
        if self.dtype not in TEMPORAL:
            return numbers
        out = np.empty(numbers.size, dtype=object)
        out[:] = self.form.restored(self.dtype, numbers.ravel().tolist())
        return out.reshape(numbers.shape)

    def _without_text(self, raw: RawColumn) -> RawColumn:
        """Dates and times that are text, as in a csv file, as numbers where the column has dates and times."""
        if raw.dtype != "text" or self.dtype not in WRITTEN:
            return raw
        out = np.full(len(raw.values), np.nan)
        for row in np.flatnonzero(~raw.missing):
            out[row] = number_of_text(self.dtype, raw.values[row], self.form.zone)
            if np.isnan(out[row]):
                sort = sort_in_words(self.dtype)
                said = f"{raw.label} holds {shown(raw.values[row])} in row {row}, but {sort} when it was learnt"
                raise DataError(f"{said}; give {sort}, or text like {WRITTEN[self.dtype]}.")
        return replace(raw, dtype=self.dtype, values=out)

    def _numbers(self, raw: RawColumn, unseen: str) -> Array:
        out = np.array(raw.values, dtype=np.float64)
        refuse_infinite(out[:, None], [raw.label])
        if self.kind == "count" and unseen == "raise":
            Poisson().check(out, raw.label)
        return out

    def decode(self, codes: Array, whole: bool = False) -> list[Any]:
        """Categories for codes; dates and Decimals where the table has these; numbers, counts as whole ones if they are whole.

        Parameters
        ----------
        codes
            `[N]`: codes or numbers, without NaN.
        whole
            Whether to round all numbers.

        Returns
        -------
        list
            Values as they are in the table.
        """
        return self.form.restored(self.dtype, self._values(codes, whole))

    def _values(self, codes: Array, whole: bool) -> list[Any]:
        if self.is_discrete:
            return [self.categories[int(code)] for code in codes]
        if whole:
            return [round(code) for code in codes.tolist()]
        if self.kind == "count" and (codes == np.floor(codes)).all():
            return list(codes.astype(np.int64).tolist())
        return list(codes.tolist())


@dataclass(frozen=True)
class Columns:
    """All columns of a table, in order: rows become numbers, and numbers rows.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> table = np.array([["red", 1.5], ["blue", 2.5], ["red", 0.25], ["green", 3.25]], dtype=object)
    >>> columns = fp.tables.Columns.learn(table)
    >>> columns.kinds
    {'x0': 'categorical', 'x1': 'continuous'}
    >>> columns.encode(table)[0]
    array([2. , 1.5])
    >>> columns.decode(np.array([[0.0, 9.0]])).tolist()
    [['blue', 9.0]]
    >>> columns.position("x1"), columns.show().row_count
    (1, 2)
    """

    columns: tuple[Column, ...]
    """The columns."""
    container: str = "numpy"
    """What the table was: rows are decoded into the same."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What looks like a mistake, but need not be one."""

    @staticmethod
    def learn(X: Any, kinds: Overrides = None, *, sample_weight: Any = None) -> Columns:
        """Kinds and categories from a table.

        Parameters
        ----------
        X
            A NumPy array, a torch tensor, nested lists, or a pandas or polars frame.
        kinds
            Overrules what is recognised: a kind for all columns, a list with one for each, or a dict by name or position.
        sample_weight
            How often each row counts: one number of 0 or more per row. Which families suit a column is told by all weights; its
            kind, its categories and traits such as rounding are told by the rows of positive weight, each once.

        Returns
        -------
        Columns
            Which encode and decode such tables.

        Raises
        ------
        DataError
            For a table that can't be read, or values that don't go with a kind.
        OptionError
            For an unknown kind or column.
        """
        table = X if isinstance(X, RawTable) else read_raw(X)
        weights = read_weights(sample_weight, len(table))
        if weights is not None:
            table, weights = table.some(weights > 0), weights[weights > 0]
        said = read_overrides(kinds, table.names)
        notes = tuple(
            Message(
                f"{raw.label} counts the rows from {raw.values[0]:.0f} to {raw.values[-1]:.0f}, as an index does; "
                f"{DROP} unless it is a variable.",
                DROP,
            )
            for raw in table.columns
            if table.native is not None and numbers_rows(raw)
        )
        alike = common_values([raw for raw in table.columns if raw.name not in said], weights)
        learnt = tuple(_learn(raw, said.get(raw.name), alike.get(raw.name), weights) for raw in table.columns)
        return Columns(learnt, table.container, notes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each column by name."""
        return {column.name: column.kind for column in self.columns}

    @property
    def families(self) -> list[Family]:
        """The default family of each column in order, as structures take them."""
        return [column.family for column in self.columns]

    def position(self, column: str | int) -> int:
        """Where a column stands.

        Parameters
        ----------
        column
            By name or position.

        Returns
        -------
        int
            Its position, from 0.

        Raises
        ------
        OptionError
            If there is no such column.
        """
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(self.columns):
            return int(column)
        listed = ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")
        raise OptionError(f"There is no column {shown(column)}; the columns are {listed}.", option="column")

    def encode(self, X: Any, missing: str = "raise", unseen: str = "raise", ignore: int | None = None) -> Array:
        """Rows as circuits read them: codes of categories, numbers, and NaN for missing values.

        Parameters
        ----------
        X
            A table with these columns.
        missing
            `"raise"` refuses missing values; `"marginalize"` lets them through as NaN.
        unseen
            `"raise"` refuses values that a binary or categorical column didn't have in training; `"missing"` and `"rare"` make
            them NaN, whatever `missing` says.
        ignore
            A column, by position, that is not looked at: all NaN.

        Returns
        -------
        array
            `[N, D]`, float64.

        Raises
        ------
        DataError
            For a table with other columns or values, or missing ones that are not allowed.
        OptionError
            For an option out of its range.
        """
        choice("missing", missing, MISSING)
        choice("unseen", unseen, UNSEEN)
        ignore = None if ignore is None else self.position(ignore)
        table = X if isinstance(X, RawTable) else read_raw(X)
        out = np.empty((len(table), len(self.columns)))
        for j, (column, raw) in enumerate(zip(self.columns, self.matched(table), strict=True)):
            if j == ignore:
                out[:, j] = np.nan
                continue
            raw.check()
            if missing == "raise":
                refuse_missing(raw.missing[:, None], [raw.label])
            out[:, j] = column.encode(raw, unseen)
        return out

    def matched(self, table: RawTable) -> tuple[RawColumn, ...]:
        """The table's columns in the order of these: by name, where it has all of their names, otherwise as they stand.

        >>> import pandas as pd
        >>> import flatpc as fp
        >>> from flatpc.tables.reading import read_raw
        >>> columns = fp.tables.Columns.learn(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
        >>> [raw.name for raw in columns.matched(read_raw(pd.DataFrame({"b": [3], "a": [1]})))]
        ['a', 'b']

        Parameters
        ----------
        table
            As it was read.

        Returns
        -------
        tuple
            One for each column.

        Raises
        ------
        ShapeError
            For another number of columns.
        """
        if len(table.columns) != len(self.columns):
            raise ShapeError(f"The table has {len(table.columns)} columns; {len(self.columns)} were learnt.")
        if table.names == self.names or set(table.names) != set(self.names):
            return table.columns
        by_name = {raw.name: raw for raw in table.columns}
        return tuple(by_name[name] for name in self.names)

    def decode(self, rows: Array, like: RawTable | None = None, container: str | None = None) -> Any:
        """Rows of codes and numbers as a table of names and numbers, whole ones in a column of integers.

        Parameters
        ----------
        rows
            `[N, D]`: codes and numbers.
        like
            A table whose gaps to fill: what is not missing there stays as it is.
        container
            What to make: `"numpy"`, `"torch"`, `"pandas"`, `"polars"`; by default what was learnt from.

        Returns
        -------
        array or frame
            The table.

        Raises
        ------
        DataError
            For another number of columns, or a code that no category has; NaN is none.
        """
        rows = self._checked(rows)
        if like is not None:
            place = {raw.name: at for at, raw in enumerate(like.columns)}
            pairs = enumerate(zip(self.columns, self.matched(like), strict=True))
            new = {place[raw.name]: column.decode(rows[:, j], raw.dtype == "integer") for j, (column, raw) in pairs}
            return fill_in(like, new)
        values = [column.decode(rows[:, j], column.dtype == "integer") for j, column in enumerate(self.columns)]
        wanted = container or self.container
        kept = [(column.form, column.categories) for column in self.columns] if wanted == self.container else None
        return new_table(self.names, values, wanted, kept)

    def _checked(self, rows: Any) -> Array:
        """Rows of which every value stands for something."""
        is_matrix = isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype == np.float64
        out: Array = rows if is_matrix else read_matrix(rows)[0]
        if out.shape[1] != len(self.columns):
            raise ShapeError(f"The rows have {out.shape[1]} columns; {len(self.columns)} were learnt.")
        for column, codes in zip(self.columns, out.T, strict=True):
            if column.dtype == "float" and not column.is_discrete:
                continue
            allowed = np.isin(codes, np.arange(len(column.categories))) if column.is_discrete else np.isfinite(codes)
            if not allowed.all():
                row = int(np.flatnonzero(~allowed)[0])
                wanted = f"a code from 0 to {len(column.categories) - 1}" if column.is_discrete else "a finite number"
                raise DataError(f"Column {column.name!r} has {codes[row]:g} in row {row}; give {wanted}.")
        return out

    def show(self) -> Table:
        """A rich table of names, kinds, reasons and categories.

        Returns
        -------
        rich.table.Table
            To be printed by rich.
        """
        from rich.table import Table
        from rich.text import Text

        out = Table("column", "kind", "recognised by", "values")
        for column in self.columns:
            names = [str(value) for value in column.values]
            values = ", ".join(names[:6]) + (f", ... ({len(names)})" if len(names) > 6 else "")
            # As text: a name such as "height [cm]" is no markup.
            out.add_row(Text(printable(column.name)), column.kind, column.why, Text(printable(values)))
        return out


def kinds(X: Any, *, overrides: Overrides = None) -> dict[str, Kind]:
    """The kind of every column by name, as `Columns.learn` sees it.

    >>> import flatpc as fp
    >>> fp.tables.kinds([[0, 1.5, "a"], [1, 2.5, "b"], [1, 0.5, "c"]])
    {'x0': 'binary', 'x1': 'continuous', 'x2': 'categorical'}

    Parameters
    ----------
    X
        A NumPy array, a torch tensor, nested lists, or a pandas or polars frame.
    overrides
        Overrules what is recognised: a kind for all columns, a list with one for each, or a dict by name or position.

    Returns
    -------
    dict
        Name -> `"binary"`, `"categorical"`, `"count"` or `"continuous"`.

    Raises
    ------
    DataError
        For a table that can't be read, or values that don't go with a kind.
    OptionError
        For an unknown kind or column.
    """
    return Columns.learn(X, overrides).kinds


def _dated(raw: RawColumn, said: Kind | None) -> RawColumn:
    """Dates and times that are text, as in csv files, as numbers; few different ones only if `said` is continuous."""
    if raw.dtype != "text" or raw.levels or said not in (None, "continuous"):
        return raw
    texts = set(raw.values[~raw.missing])
    kind = kind_of_moments(texts) if said is not None or len(texts) > MAX_CATEGORIES else ""
    if not kind:
        return raw
    numbers = {text: number_of_text(kind, text) for text in texts}
    return replace(raw, dtype=kind, values=np.array([numbers.get(text, np.nan) for text in raw.values]))


def _learn(raw: RawColumn, said: Kind | None, alike: range | None = None, weights: Array | None = None) -> Column:
    raw.check()
    raw = _dated(raw, said)
    known = raw.values[~raw.missing]
    if raw.dtype != "text":
        refuse_infinite(raw.values[:, None], [raw.label])
    n_known = float(len(known) if weights is None else weights[~raw.missing].sum())
    how: dict[str, Any] = {"rare": 1 / (2 * (n_known + 1)), "form": raw.form}
    if alike is not None:
        why = f"like other columns from {alike[0]} to {alike[-1]}"
        return Column(raw.name, "categorical", raw.dtype, why, tuple(alike), **how)
    kind, why = (said, "said so") if said is not None and len(known) else recognize(raw)
    if kind in ("count", "continuous"):
        if raw.dtype == "text":
            raise DataError(f"{raw.label} holds text such as {known[0]!r}, so it can't be {kind}; choose binary or categorical.")
        if kind == "count":
            Poisson().check(raw.values, raw.label)
        traits = _traits(raw)
        suitable = suitable_counts if kind == "count" else suitable_numbers
        return Column(raw.name, kind, raw.dtype, why, traits=traits, suitable=suitable(raw.values, traits, weights), **how)
    categories = _categories(raw, known)
    if said is None and raw.dtype == "text" and not raw.levels and len(categories) > MAX_TEXTS:
        frequent = frequent_texts(known)
        rest = OTHER
        while rest in frequent:
            rest += "_"
        return Column(raw.name, kind, raw.dtype, why, (*frequent, rest), other=True, **how)
    if kind == "binary" and len(categories) > 2:
        raise DataError(f"{raw.label} has {len(categories)} different values, so it can't be binary; choose categorical.")
    return Column(raw.name, kind, raw.dtype, why, categories, **how)


def _traits(raw: RawColumn) -> Traits:
    """Those that the values show; their type knows more of dates, and of whole numbers that take few bytes."""
    traits = Traits.of(raw.values)
    if raw.dtype in TEMPORAL:
        step = traits.resolution or step_of_moments(raw.dtype, raw.values)
        if raw.dtype != "duration":
            # 1970 is no bound of dates.
            last = SECONDS_PER_DAY - (step or 1e-6)
            traits = replace(traits, bounds=(0.0, last) if raw.dtype == "time" else (-np.inf, np.inf))
        return replace(traits, resolution=step)
    low, high = bounds_of_type(raw.form.native)
    return replace(traits, bounds=(max(low, traits.bounds[0]), min(high, traits.bounds[1])))


def _same_unit(raw: RawColumn, dtype: DType) -> RawColumn:
    """Dates as datetimes, or datetimes as dates: containers differ in what they make of a date."""
    if {raw.dtype, dtype} != {"date", "datetime"}:
        return raw
    return replace(raw, values=raw.values * SECONDS_PER_DAY if dtype == "datetime" else raw.values / SECONDS_PER_DAY)


def _categories(raw: RawColumn, known: NDArray[Any]) -> tuple[Any, ...]:
    if raw.levels:
        return raw.levels
    if raw.dtype == "text":
        return tuple(sorted(set(known)))
    if raw.dtype == "boolean":
        return (False, True)
    distinct = np.unique(known)
    if set(distinct) <= {0.0, 1.0}:
        distinct = np.array([0.0, 1.0])
    elif (distinct == np.floor(distinct)).all() and distinct[-1] - distinct[0] < MAX_CATEGORIES and len(distinct) > 2:
        # A gap is a value that was not seen yet: of marks from 1 to 6, nobody may have got a 5.
        distinct = np.arange(distinct[0], distinct[-1] + 1)
    return tuple(_plain(value) for value in distinct.tolist())


def _plain(value: Any) -> Any:
    """3 rather than 3.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class Encoding:
    """What makes blocks of a source rows of codes and numbers; plain data, so that it can be sent to another machine."""

    columns: Columns
    missing: str
    unseen: str

    def __call__(self, block: Any) -> Array:
        """The block's columns, by name where it has names."""
        names = list(self.columns.names)
        named = hasattr(block, "columns") and set(names) <= {str(name) for name in block.columns}
        return self.columns.encode(block[names] if named else block, self.missing, self.unseen)
