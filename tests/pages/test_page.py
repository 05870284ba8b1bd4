"""Pages as text: structure, escaping, tables, data that can be saved."""

import base64
import io
import json
import os
import re

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from flatpc.errors import OptionError, ShapeError
from flatpc.pages import Cell, Column, Page
from flatpc.pages.html_tables import Table, csv_of

from .cases import everything


def texts(columns, rows, **options):
    return [[cell.text for cell in row] for row in Table.of(columns, rows, **options).rows]


def test_plotly_is_there_once_and_only_when_something_is_drawn():
    drawn = everything().html()
    assert drawn.count("plotly.js v") == 1
    assert len(Page("Words", "Nothing else.").html()) < 20_000


def test_nothing_is_fetched():
    """No element names an address outside the page, and the page's own policy forbids all requests."""
    html = re.sub(r"<script>.*?</script>", "", everything().html(), flags=re.DOTALL)
    assert set(re.findall(r'(?:src|href)="(?!data:|#)([^"]*)"', html)) == set()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    assert policy[1].startswith("default-src 'none'")
    assert "connect-src" not in policy[1]


def test_text_of_users_is_escaped():
    nasty = '<b onclick="x">&\'</script>'
    page = Page(nasty, nasty)
    tab = page.tab(nasty)
    tab.heading(nasty).text(nasty).table([nasty], [[Cell(nasty, hint=nasty)]], caption=nasty)
    tab.figure(go.Figure(go.Scatter(y=[1], name=nasty)), title=nasty, note=nasty).download(nasty, b"x")
    html = re.sub(r"<script>.*?</script>", "", page.html(), flags=re.DOTALL)
    assert "<b " not in html
    assert html.count("</script>") == 1  # that of the figure's own data


def test_figures_carry_their_data_and_no_template():
    figure = go.Figure(go.Scatter(y=[1.0, np.nan, 3.0], name="a</script>b"))
    html = Page("p").figure(figure).html()
    data = re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    assert data
    content = json.loads(data[1])
    assert content["data"][0]["name"] == "a</script>b"
    assert "template" not in content["layout"]


def test_numbers_are_formatted_by_column():
    columns = ["name", Column("x", ".2f"), Column("n", ",d")]
    rows = [["a", -1.234, 12345], ["b", -0.001, None], ["c", float("nan"), "not run"], ["d", Cell(2.0, "2.0 ± 0.1"), 1]]
    assert texts(columns, rows) == [["a", "−1.23", "12,345"], ["b", "0.00", "–"], ["c", "–", "not run"], ["d", "2.0 ± 0.1", "1"]]


@pytest.mark.parametrize(("best", "bold"), [("min", [False, True, True]), ("max", [True, False, False])])
def test_the_best_is_bold_and_so_is_what_prints_the_same(best, bold):
    table = Table.of([Column("x", ".1f", best=best)], [[3.0], [1.01], [0.99]])
    assert [bool(row[0].bold) for row in table.rows] == bold


def test_nothing_is_best_where_there_is_nothing_to_compare():
    for values in ([1.0], [1.0, None], [1.0, float("inf")], [2.0, 2.0]):
        table = Table.of([Column("x", best="min")], [[value] for value in values])
        assert not any(row[0].bold for row in table.rows)


def test_a_cell_can_overrule_its_column():
    table = Table.of([Column("x", best="min")], [[Cell(1.0, bold=False)], [Cell(2.0, bold=True)]])
    assert [row[0].bold for row in table.rows] == [False, True]


def test_groups_span_their_columns():
    table = Table.of(["a", Column("b", group="g"), Column("c", group="g"), Column("d", group="h")], [["x", 1, 2, 3]])
    assert table.groups == [("", 1), ("g", 2), ("h", 1)]
    assert table.looks == ["", "number line", "number", "number line"]
    assert Table.of(["a"], [["x"]]).groups == []
    assert Table.of(["short", "long"], [["x", "x" * 31], ["y", "y"]]).looks == ["", "prose"]


def test_saved_numbers_have_full_precision():
    table = Table.of(["a", Column("b", ".1f", group="g")], [["x, y", 1 / 3], ["z", None]])
    assert csv_of(table) == 'a,g b\n"x, y",0.3333333333333333\nz,\n'
    html = Page("p").table(["a", Column("b", ".1f")], [["x", 1 / 3]], file="t.csv").html()
    link = re.search(r'download="t.csv" href="data:[^,]*,([^"]*)"', html)
    assert link
    assert base64.b64decode(link[1]) == b"a,b\nx,0.3333333333333333\n"


def test_pictures_are_exact():
    html = Page("p").pictures({"one": np.array([[[0.0, 1.0], [0.5, np.nan]]])}).html()
    data = re.search(r"data:image/png;base64,([^\"]*)", html)
    assert data
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data[1]))))
    assert pixels.tolist() == [[[255] * 3, [0] * 3], [[127] * 3, [224, 123, 40]]]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (
            lambda page: page.table(["a", "b"], [[1, 2], [1]]),
            ShapeError,
            "Row 1 of the table has 1 cells, but there are 2 columns",
        ),
        (lambda page: page.table(["a"], [[Cell(1, note="x")]]), OptionError, "Row 0 refers to note 'x'; give its text in notes="),
        (lambda page: (page.tab("A b"), page.tab("a-b")), OptionError, "has a tab #a-b already"),
        (lambda page: page.pictures({"p": np.zeros((8, 8))}), ShapeError, r"'p' have shape \(8, 8\); give \[n, height, width\]"),
        (lambda page: page.table([Column("a", best="least")], []), OptionError, "choose 'min', 'max' or None"),
        (lambda page: page.table(["a"], [[Cell(1, tone="good")]]), OptionError, "choose 'better', 'worse' or none"),
    ],
)
def test_mistakes_are_named(make, error, says):
    with pytest.raises(error, match=says):
        make(Page("p"))


def test_writing_replaces_as_a_whole(tmp_path, monkeypatch):
    path = Page("first").write(tmp_path / "new" / "page.html")
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        Page("second").write(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


def test_the_same_page_is_the_same_bytes():
    assert everything().html() == everything().html()
