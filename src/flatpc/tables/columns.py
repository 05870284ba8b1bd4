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

from flatpc._messages import DROP, Message, some_of
from flatpc._options import choice, shown
from flatpc._printable import printable
from flatpc._row_groups import read_groups
from flatpc._row_weights import read_weights
from flatpc._typing import Array
from flatpc.errors import DataError, OptionError, ShapeError
from flatpc.families.base import Family
from flatpc.tables.alike import common_values
from flatpc.tables.column import Column
from flatpc.tables.column_learning import learn_column
from flatpc.tables.filling import fill_in, new_table
from flatpc.tables.following import following
from flatpc.tables.going_along import rounded_numbers
from flatpc.tables.reading import MISSING, RawColumn, RawTable, read_matrix, read_raw, refuse_missing
from flatpc.tables.recognition import Kind, Overrides, numbers_rows, read_overrides, recognize_numbers

if TYPE_CHECKING:
    from rich.table import Table

UNSEEN = ("rare", "raise", "missing")
"""What may be done with values that a column didn't have in training."""


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
    labels: Any = field(default=None, compare=False, repr=False)
    """What a pandas frame calls its columns: text, numbers or several levels of them; no file keeps it."""

    @staticmethod
    def learn(X: Any, kinds: Overrides = None, *, sample_weight: Any = None, groups: Any = None) -> Columns:
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
        groups
            One label for each row; what is told by rows of one group is judged by those of others.

        Returns
        -------
        Columns
            Which encode and decode such tables.

        Raises
        ------
        DataError
            For a table or groups that can't be read, or values that don't go with a kind.
        OptionError
            For an unknown kind or column.
        """
        table = X if isinstance(X, RawTable) else read_raw(X)
        weights = read_weights(sample_weight, len(table))
        labels = read_groups(groups, len(table), None if weights is None else weights > 0)
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
        alike = common_values([raw for raw in table.columns if raw.name not in said], weights, labels)
        open_ones = [raw for raw in table.columns if raw.name not in said and raw.name not in alike]
        recognised = recognize_numbers(open_ones, labels)
        along = rounded_numbers(open_ones, recognised)
        follow = following([raw for raw in table.columns if raw.name not in alike], labels) - set(said)
        learnt = []
        for raw in table.columns:
            of_others = alike.get(raw.name), along.get(raw.name), raw.name in follow
            learnt.append(learn_column(raw, said.get(raw.name), *of_others, weights, labels, recognised.get(raw.name)))
        names = getattr(table.native, "columns", None) if table.container == "pandas" else None
        return Columns(tuple(learnt), table.container, notes, names)

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
            By name or position; a number that is the name of a column stands for that column.

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
        if isinstance(column, int | np.integer) and not isinstance(column, bool):
            if str(column) in self.names:  # frames may have numbers for names
                return self.names.index(str(column))
            if 0 <= column < len(self.columns):
                return int(column)
        raise OptionError(f"There is no column {shown(column)}; the columns are {some_of(self.names)}.", option="column")

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

    def decode(
        self, rows: Array, like: RawTable | None = None, container: str | None = None, given: RawTable | None = None
    ) -> Any:
        """Rows of codes and numbers as a table of names and numbers, whole ones in a column of integers.

        Parameters
        ----------
        rows
            `[N, D]`: codes and numbers.
        like
            A table whose gaps to fill: what is not missing there stays as it is.
        container
            What to make: `"numpy"`, `"torch"`, `"pandas"`, `"polars"`; by default what was learnt from.
        given
            A table with gaps that rows were drawn for, all of its rows once or several times: what is known there stays.

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
        if given is not None:
            values = [column.kept(v, raw) for column, v, raw in zip(self.columns, values, self.matched(given), strict=True)]
        wanted = container or self.container
        if wanted != self.container:
            return new_table(self.names, values, wanted)
        kept = [(column.form, column.values) for column in self.columns]
        return new_table(self.names, values, wanted, kept, self.labels)

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
            values = some_of(names, 6) + (f" ({len(names)})" if len(names) > 6 else "")
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
