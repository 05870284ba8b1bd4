"""`Page`: what goes on a page, in order, and the one file it becomes."""

from __future__ import annotations

import base64
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from flatpc._writing import replace_file
from flatpc.errors import OptionError
from flatpc.pages.html_tables import Column, Table, csv_of
from flatpc.pages.pictures import Pictures


@dataclass(frozen=True)
class Block:
    """One thing on a page; `kind` names the macro of `assets/blocks.html` that writes it."""

    kind: str
    content: Any


class Blocks:
    """A run of blocks, one below the other: the top of a page, or one of its tabs. Every method returns the run itself."""

    def __init__(self, name: str = "", anchor: str = "") -> None:
        self.name = name
        self.anchor = anchor
        self.blocks: list[Block] = []

    def _add(self, kind: str, content: Any) -> Blocks:
        self.blocks.append(Block(kind, content))
        return self

    def heading(self, title: str) -> Blocks:
        """A heading, which `#tab-title` links to."""
        return self._add("heading", {"title": title, "anchor": "-".join(filter(None, (self.anchor, anchor_of(title))))})

    def text(self, markdown: str) -> Blocks:
        """Paragraphs and lists in Markdown; HTML in it is shown as typed."""
        return self._add("text", as_html(markdown))

    def table(
        self,
        columns: Sequence[Column | str],
        rows: Sequence[Sequence[Any]],
        *,
        caption: str = "",
        notes: Mapping[str, str] | None = None,
        sortable: bool = True,
        file: str | None = None,
    ) -> Blocks:
        """A table; a cell is None, text, a number or a `Cell`.

        Parameters
        ----------
        notes
            What stands below: mark (as in `Cell(note="a")`) and text.
        sortable
            Whether a click on the head of a column sorts by it.
        file
            A name, such as `"results.csv"`, under which the numbers can be saved in full precision.
        """
        made = Table.of(columns, rows, caption, notes, sortable)
        self._add("table", made)
        return self.download(file, csv_of(made)) if file else self

    def figure(self, figure: Any, *, title: str = "", note: str = "", height: int = 380) -> Blocks:
        """One plotly figure over the whole width, drawn when it comes into view."""
        return self.figures({title: figure}, note=note, height=height)

    def figures(self, figures: Mapping[str, Any], *, note: str = "", height: int = 380, linked: bool = False) -> Blocks:
        """Plotly figures by title, side by side where there is room.

        Parameters
        ----------
        note
            Markdown below them.
        height
            Of each, in pixels; less on a screen that is narrower than that.
        linked
            Whether 3-D figures are turned together.
        """
        drawn = [{"title": title, "json": _figure_json(figure)} for title, figure in figures.items()]
        return self._add("figures", {"figures": drawn, "note": as_html(note), "height": height, "linked": linked})

    def pictures(self, rows: Mapping[str, Any], *, note: str = "", pixel: int = 6) -> Blocks:
        """Rows of small grey pictures by title, each `[n, height, width]` from 0 (white) to 1 (black); NaN is orange."""
        drawn = [Pictures.of(title, values, pixel) for title, values in rows.items()]
        return self._add("pictures", {"rows": drawn, "note": as_html(note)})

    def download(self, name: str, content: str | bytes, label: str = "") -> Blocks:
        """A link that saves `content`, which is inside the page, as the file `name`."""
        data = content.encode() if isinstance(content, str) else content
        size = f"{len(data) / 1000:.0f} kB" if len(data) >= 1000 else f"{len(data)} bytes"
        encoded = base64.b64encode(data).decode()
        return self._add("download", {"name": name, "label": label or name, "size": size, "data": encoded})


class Page(Blocks):
    """One self-contained page.

    >>> import tempfile
    >>> import plotly.graph_objects as go
    >>> from flatpc.pages import Cell, Column, Page
    >>> page = Page("Two models", "Learnt from the *same* rows.")
    >>> numbers = page.tab("Numbers")
    >>> columns = ["model", Column("test NLL", ".2f", best="min")]
    >>> _ = numbers.table(columns, [["plain", 2.514], ["flat", Cell(2.381, note="a")]], notes={"a": "stopped early"})
    >>> shapes = page.tab("Shapes")
    >>> surface = go.Figure(go.Surface(z=[[0, 1], [1, 2]]))
    >>> _ = shapes.figures({"plain": surface, "flat": surface}, linked=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = page.write(f"{folder}/two.html")
    ...     path.stat().st_size > 1e6                   # plotly.js is inside
    True

    What is added to the page itself comes before the tabs; a page without tabs is one run of blocks.
    """

    def __init__(self, title: str, lead: str = "", *, footer: str = "") -> None:
        super().__init__()
        self.title = title
        self.lead = lead
        self.footer = footer
        self.tabs: list[Blocks] = []

    def tab(self, name: str) -> Blocks:
        """A new tab, which `#name` links to."""
        anchor = anchor_of(name)
        if anchor in {tab.anchor for tab in self.tabs}:
            raise OptionError(f"The page has a tab #{anchor} already; choose another name than {name!r}.")
        self.tabs.append(Blocks(name, anchor))
        return self.tabs[-1]

    def html(self) -> str:
        """The page as text."""
        from plotly.offline import get_plotlyjs

        drawn = any(block.kind == "figures" for run in (self, *self.tabs) for block in run.blocks)
        text: str = _template().render(
            page=self,
            lead=as_html(self.lead),
            footer=as_html(self.footer),
            css=Markup(_asset("page.css")),
            script=Markup(_asset("page.js")),
            plotly=Markup(get_plotlyjs()) if drawn else None,
        )
        return text

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; at any moment there is the old file or the new one. Folders are made as needed."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, self.html().encode())
        return path


def anchor_of(title: str) -> str:
    """What a link to a title says after `#`.

    >>> anchor_of("Δ NLL, 5% of the rows")
    'δ-nll-5-of-the-rows'
    """
    return re.sub(r"[^\w]+", "-", unicodedata.normalize("NFKC", title).lower()).strip("-") or "part"


def as_html(markdown: str) -> Markup:
    """Markdown as HTML.

    >>> print(as_html("As *good*, <b>").strip())
    <p>As <em>good</em>, &lt;b&gt;</p>
    """
    return Markup(_markdown().render(markdown))


def _figure_json(figure: Any) -> Markup:
    from plotly.io.json import to_json_plotly

    content = figure.to_dict()
    content["layout"].pop("template", None)  # the page has its own
    # "<" could end the script element that holds the JSON.
    return Markup(to_json_plotly(content).replace("<", "\\u003c"))


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "typographer": False})


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent / "assets")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("page.html")


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text()
