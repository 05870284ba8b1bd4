"""Tables as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from flatpc.errors import ShapeError

_SPECIAL = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$"}
_SYMBOLS = {"±": r"$\pm$", "−": "$-$", "Δ": r"$\Delta$", "–": "--", "μ": r"$\mu$"}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int | None = 1) -> str:
    """A Markdown table; all columns but the first `texts` are aligned to the right, none for None.

    >>> print(markdown(["data", "NLL"], [["spiral", "2.31"]]))
    | data | NLL |
    |---|---:|
    | spiral | 2.31 |
    """
    _check(head, rows)
    left = len(head) if texts is None else texts
    lines = [_line(head), "|" + "---|" * left + "---:|" * (len(head) - left), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def latex(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    r"""A LaTeX table for the package `booktabs`.

    >>> print(latex(["data", "NLL"], [["two_moons", "2.31 ± 0.02"]]).splitlines()[4])
    two\_moons & 2.31 $\pm$ 0.02 \\
    """
    _check(head, rows)
    lines = [r"\begin{tabular}{l" + "r" * (len(head) - 1) + "}", r"\toprule", _row(head), r"\midrule", *map(_row, rows)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if caption:
        lines = [r"\begin{table*}", r"\centering", rf"\caption{{{escape(caption)}}}", r"\footnotesize", *lines, r"\end{table*}"]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text as LaTeX reads it."""
    return "".join(_SPECIAL.get(c, _SYMBOLS.get(c, c)) for c in text)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"


def _check(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for i, row in enumerate(rows):
        if len(row) != len(head):
            raise ShapeError(f"Row {i} of the table has {len(row)} cells, but the head has {len(head)}.")
