"""Self-contained HTML pages: text, tables, figures that can be turned, and data to take away, in one file without a network.

| part | made by |
|---|---|
| a page and its tabs | `Page(title, lead)`, `page.tab(name)` |
| text, headings | `.text(markdown)`, `.heading(title)` |
| a table | `.table(columns, rows)` with `Column` and `Cell` |
| plotly figures | `.figure(figure)`, `.figures({title: figure})` side by side |
| small pictures | `.pictures(rows)` |
| a file to save | `.download(name, content)` |
"""

from flatpc._extras import need

for _package in ("jinja2", "markdown_it", "matplotlib", "plotly", "PIL"):
    need(_package, "paper", "A page")

from flatpc.pages.html_tables import Cell, Column  # noqa: E402
from flatpc.pages.page import Blocks, Page  # noqa: E402

__all__ = ["Blocks", "Cell", "Column", "Page"]
