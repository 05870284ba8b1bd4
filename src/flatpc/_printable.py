"""Text that is safe where it goes: a terminal obeys control characters, a spreadsheet computes what looks like a formula."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# All but line feeds and tabs.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORMULA = r"^[=+\-@\t\r]"


def printable(text: str) -> str:
    r"""The text with control characters spelt out.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def without_formulas(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The frame with an apostrophe before texts and names that a spreadsheet would take for formulas, and where there were some.

    Those are what begins with =, +, -, @, a tab or a carriage return and is no number.
    """
    import polars as pl

    changed = []
    for series in frame.iter_columns():
        if series.dtype != pl.String:
            continue
        risky = series.str.contains(_FORMULA) & series.cast(pl.Float64, strict=False).is_null()
        if risky.any():
            changed.append(series.name)
            frame = frame.with_columns(pl.when(risky).then("'" + series).otherwise(series).alias(series.name))
    names = {name: "'" + name for name in frame.columns if re.match(_FORMULA, name)}
    return frame.rename(names), list(dict.fromkeys([*changed, *names]))
