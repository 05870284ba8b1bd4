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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import choice, shown
from flatpc._printable import printable
from flatpc.errors import DataError, OptionError, ShapeError, SupportError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.poisson import Poisson
from flatpc.tables.filling import fill_in, new_table
from flatpc.tables.reading import MISSING, DType, RawColumn, RawTable, read_raw, refuse_infinite, refuse_missing
from flatpc.tables.recognition import MAX_CATEGORIES, Kind, Overrides, numbers_rows, read_overrides, recognize

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
UNSEEN = ("raise", "missing")


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
    """What its values are: `"text"`, `"integer"`, `"float"` or `"boolean"`."""
    why: str
    """What it was recognised by."""
    categories: tuple[Any, ...] = ()
    """What the codes 0, 1, ... of a binary or categorical column stand for."""

    @property
    def family(self) -> Family:
        """The distribution of an input over this column."""
        if self.kind == "continuous":
            return Gaussian()
        if self.kind == "count":
            return Poisson()
        return Bernoulli() if len(self.categories) == 2 else Categorical(len(self.categories))

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
            What values are that the column didn't have in training: `"raise"` or `"missing"`.

        Returns
        -------
        array
            `[N]`.

        Raises
        ------
        DataError
            For values of another kind than were learnt, or not allowed.
        """
        if (raw.dtype == "text") != (self.dtype == "text") and not raw.missing.all():
            now, then = ("text", "numbers") if raw.dtype == "text" else ("numbers", "text")
            raise DataError(f"{raw.label} holds {now}, but {then} when it was learnt; give the same kind of values.")
        if not self.is_discrete:
            return self._numbers(raw)
        known = ~raw.missing
        out = np.full(len(raw.values), np.nan)
        if self.dtype == "text":
            code = {category: float(i) for i, category in enumerate(self.categories)}
            out[known] = [code.get(value, np.nan) for value in raw.values[known]]
        else:
            values = np.array(self.categories, dtype=np.float64)
            at = np.minimum(np.searchsorted(values, raw.values), len(values) - 1)
            out = np.where(values[at] == raw.values, at, np.nan)
        strange = known & np.isnan(out)
        if unseen == "raise" and strange.any():
            row = int(np.flatnonzero(strange)[0])
            listed = ", ".join(repr(category) for category in self.categories[:8]) + (", ..." if len(self.categories) > 8 else "")
            value = raw.values[row] if self.dtype == "text" else float(raw.values[row])
            raise UnseenCategoryError(
                f"{raw.label} has the value {_plain(value)!r} in row {row}, which it didn't have in training ({listed}). "
                f"Correct it, or pass unseen='missing' to treat such values as missing."
            )
        return out

    def _numbers(self, raw: RawColumn) -> Array:
        out = np.array(raw.values, dtype=np.float64)
        refuse_infinite(out[:, None], [raw.label])
        if self.kind == "count":
            Poisson().check(out, raw.label)
        return out

    def decode(self, codes: Array, whole: bool = False) -> list[Any]:
        """Categories for codes; numbers as they are, and counts as whole numbers if they are whole.

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
    def learn(X: Any, kinds: Overrides = None) -> Columns:
        """Kinds and categories from a table.

        Parameters
        ----------
        X
            A NumPy array, a torch tensor, nested lists, or a pandas or polars frame.
        kinds
            Overrules what is recognised: a kind for all columns, a list with one for each, or a dict by name or position.

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
        said = read_overrides(kinds, table.names)
        notes = tuple(
            f"{raw.label} counts the rows from {raw.values[0]:.0f} to {raw.values[-1]:.0f}, as an index does; "
            f"drop it unless it is a variable."
            for raw in table.columns
            if table.native is not None and numbers_rows(raw)
        )
        return Columns(tuple(_learn(raw, said.get(raw.name)) for raw in table.columns), table.container, notes)

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
        """The family of each column in order, as structures take them."""
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
            `"raise"` refuses values that a binary or categorical column didn't have in training; `"missing"` takes them for
            missing, whatever `missing` says.
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
        if len(table.columns) != len(self.columns):
            raise ShapeError(f"The table has {len(table.columns)} columns; {len(self.columns)} were learnt.")
        out = np.empty((len(table), len(self.columns)))
        for j, (column, raw) in enumerate(zip(self.columns, table.columns, strict=True)):
            if j == ignore:
                out[:, j] = np.nan
                continue
            raw.check()
            if missing == "raise":
                refuse_missing(raw.missing[:, None], [raw.label])
            out[:, j] = column.encode(raw, unseen)
        return out

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
        """
        if like is not None:
            pairs = enumerate(zip(self.columns, like.columns, strict=True))
            return fill_in(like, {j: column.decode(rows[:, j], raw.dtype == "integer") for j, (column, raw) in pairs})
        values = [column.decode(rows[:, j], column.dtype == "integer") for j, column in enumerate(self.columns)]
        return new_table(self.names, values, container or self.container)

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
            names = [str(category) for category in column.categories]
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


def _learn(raw: RawColumn, said: Kind | None) -> Column:
    raw.check()
    known = raw.values[~raw.missing]
    if raw.dtype != "text":
        refuse_infinite(raw.values[:, None], [raw.label])
    kind, why = (said, "said so") if said is not None and len(known) else recognize(raw)
    if kind in ("count", "continuous"):
        if raw.dtype == "text":
            raise DataError(f"{raw.label} holds text such as {known[0]!r}, so it can't be {kind}; choose binary or categorical.")
        if kind == "count":
            Poisson().check(raw.values, raw.label)
        return Column(raw.name, kind, raw.dtype, why)
    categories = _categories(raw, known)
    if kind == "binary" and len(categories) > 2:
        raise DataError(f"{raw.label} has {len(categories)} different values, so it can't be binary; choose categorical.")
    return Column(raw.name, kind, raw.dtype, why, categories)


def _categories(raw: RawColumn, known: NDArray[Any]) -> tuple[Any, ...]:
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
