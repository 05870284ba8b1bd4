"""One column of a table as a variable of a circuit: what it is, and how its values become numbers and numbers values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatpc._messages import Message, Option, some_of
from flatpc._options import shown
from flatpc._typing import Array
from flatpc.errors import DataError, SupportError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.categorical import Categorical
from flatpc.families.gaussian import Gaussian
from flatpc.families.negative_binomial import NegativeBinomial
from flatpc.families.poisson import Poisson
from flatpc.tables.agreement import sort_in_words
from flatpc.tables.forms import SECONDS_PER_DAY, TEMPORAL, WRITTEN, Form, number_of, number_of_text
from flatpc.tables.reading import DType, RawColumn, refuse_infinite
from flatpc.tables.recognition import Kind
from flatpc.tables.traits import Traits

RARE = 1e-3
"""The probability of a value that training rows don't have, of a column that doesn't say how many it had."""


DIGEST = 8
"""Bytes by which a rare text is known again."""


def digest(text: str) -> bytes:
    """By which a rare text is known again.

    >>> digest("Ulm").hex()
    '19bbad3f5a5f1ee9'
    """
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


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
    rest: bytes = field(default=b"", repr=False)
    """Digests of these texts, in order; none if it isn't known which they were."""
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
    def listed(self) -> str:
        """The first of these for a message."""
        return some_of([str(value) if self.dtype in TEMPORAL else repr(value) for value in self.values])

    @property
    def log_share(self) -> float:
        """The log-probability of one of the texts that share the last category, on average; 0 if they are not known."""
        return -math.log(len(self.rest) / DIGEST) if self.rest else 0.0

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
        if unseen == "raise":
            refuse_unseen(self, raw, known & np.isnan(out))
        return out

    def is_new(self, raw: RawColumn) -> NDArray[np.bool_]:
        """Which texts are of the last category, but weren't among those that share it in training.

        >>> import polars as pl
        >>> import flatpc as fp
        >>> from flatpc.tables.reading import read_raw
        >>> towns = pl.DataFrame({"town": ["Ulm"] * 400 + [f"t{i}" for i in range(300)]})
        >>> town = fp.tables.Columns.learn(towns).columns[0]
        >>> town.is_new(read_raw(pl.DataFrame({"town": ["Ulm", "t7", "new"]})).columns[0]).tolist()
        [False, False, True]

        Parameters
        ----------
        raw
            The column as it was read.

        Returns
        -------
        array
            `[N]`; none of them if it isn't known which texts there were.
        """
        if not self.rest or raw.dtype != "text":
            return np.zeros(len(raw.values), np.bool_)
        texts = sorted({value for value in raw.values if value is not None} - set(self.categories))
        seen = np.isin(np.frombuffer(b"".join(map(digest, texts)), ">u8"), np.frombuffer(self.rest, ">u8"))
        new = {text for text, known in zip(texts, seen, strict=True) if not known}
        return np.array([value in new for value in raw.values], np.bool_)

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

    def kept(self, values: list[Any], raw: RawColumn) -> list[Any]:
        """Decoded values, with what is known of them as it was given: a text of the last category, or one that was never seen.

        >>> import polars as pl
        >>> import flatpc as fp
        >>> from flatpc.tables.reading import read_raw
        >>> town = fp.tables.Columns.learn(pl.DataFrame({"town": ["Ulm", "Bonn"] * 4})).columns[0]
        >>> town.kept(["Ulm", "Ulm"], read_raw(pl.DataFrame({"town": ["Rom", None]})).columns[0])
        ['Rom', 'Ulm']

        Parameters
        ----------
        values
            `[n · N]`: for all rows, n times one after the other.
        raw
            The column as it was read, N values with gaps.

        Returns
        -------
        list
            Values as they are in the table.
        """
        rows = np.flatnonzero(~raw.missing)
        if len(rows) == 0:
            return values
        known = _same_unit(self._without_text(raw), self.dtype).values[rows]
        said = known.tolist()
        if self.dtype != "text" and (self.is_discrete or self.kind == "count"):
            said = [plain(number) for number in said]
        elif self.dtype == "integer":
            said = [round(number) for number in said]
        given = dict(zip(rows.tolist(), self.form.restored(self.dtype, said), strict=True))
        n, out = len(raw.values), list(values)
        for i, value in enumerate(values):
            if i % n in given and given[i % n] != value:
                out[i] = given[i % n]
        return out

    def _values(self, codes: Array, whole: bool) -> list[Any]:
        if self.is_discrete:
            return [self.categories[int(code)] for code in codes]
        if whole:
            return [round(code) for code in codes.tolist()]
        if self.kind == "count" and (codes == np.floor(codes)).all():
            return list(codes.astype(np.int64).tolist())
        return list(codes.tolist())


def refuse_unseen(column: Column, raw: RawColumn, strange: NDArray[np.bool_]) -> None:
    """Raise for the first of values that the column didn't have in training, which are where `strange` is true."""
    if not strange.any():
        return
    row = int(np.flatnonzero(strange)[0])
    value = raw.values[row] if column.dtype == "text" else float(raw.values[row])
    given = str(column.shown(np.array([value]))[0]) if column.dtype in TEMPORAL else repr(plain(value))
    rare, absent = Option("unseen", "rare"), Option("unseen", "missing")
    raise UnseenCategoryError(
        Message(
            f"{raw.label} has the value {given} in row {row}, which it didn't have in training ({column.listed}). "
            f"Correct it, or pass {rare} to give such values a small probability, or {absent}.",
            rare,
            absent,
        )
    )


def _same_unit(raw: RawColumn, dtype: DType) -> RawColumn:
    """Dates as datetimes, or datetimes as dates: containers differ in what they make of a date."""
    if {raw.dtype, dtype} != {"date", "datetime"}:
        return raw
    return replace(raw, values=raw.values * SECONDS_PER_DAY if dtype == "datetime" else raw.values / SECONDS_PER_DAY)


def plain(value: Any) -> Any:
    """3 rather than 3.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
