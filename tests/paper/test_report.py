"""The report, on results made up so that every number in it is known."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from scipy.stats import norm

import flatpc
from flatpc.datasets import manifold
from flatpc.paper import printed as paper
from flatpc.paper import protocols
from flatpc.paper.cells import Cell, Result
from flatpc.paper.claims import CLAIMS
from flatpc.paper.comparison import Comparison, Mean, degree_of_overfitting
from flatpc.paper.payoff import in_words, payoff
from flatpc.paper.report import as_latex, as_markdown, compare, report
from flatpc.paper.results import Results
from flatpc.paper.rivals import gain, rivals, standard_normal
from flatpc.paper.sheets import as_text, gain_sheets
from flatpc.paper.summary import claimed
from flatpc.paper.tables import FRACTIONS, TABLES
from flatpc.paper.text_tables import escape, latex, markdown


def result(table, dataset, fraction, trial, method, protocol="text", **metrics):
    cell = Cell(table, dataset, fraction, trial, method, protocol)
    return Result(cell, cell.key(TABLES[table].settings[protocol]), flatpc.__version__, 36.0, metrics)


def einsum(dataset, fraction, trial, method, train, valid, test, sharp, best=None, **more):
    metrics = {
        "train_nll": train, "valid_nll": valid, "test_nll": test, "sharpness_weights": 10 * sharp,
        "sharpness_logit-gradient": sharp, "best_valid_nll": best or valid, "best_test_nll": best or test,
    }  # fmt: skip
    return result("table1", dataset, fraction, trial, method, **metrics, **more)


RUNS = [
    # Two trials of spiral: validation chooses mu=0.1 in the first and adaptive in the second.
    einsum("spiral", 0.01, 0, "plain", -4.0, 8.0, 8.0, 2.0, best=3.5),
    einsum("spiral", 0.01, 0, "mu=0.1", 3.0, 4.0, 4.0, 0.5),
    einsum("spiral", 0.01, 0, "adaptive", 3.0, 5.0, 1.0, 0.1),
    einsum("spiral", 0.01, 1, "plain", 5.0, 10.0, 10.0, 2.0, best=3.0),
    einsum("spiral", 0.01, 1, "mu=0.1", 3.0, 7.0, 2.0, 0.5),
    einsum("spiral", 0.01, 1, "adaptive", 4.0, 6.0, 8.0, 1.0),
    # One trial of helix where the penalty does harm, and one that lacks a method and doesn't count.
    einsum("helix", 0.01, 0, "plain", 4.0, 4.0, 4.0, 2.0),
    einsum("helix", 0.01, 0, "mu=0.1", 5.0, 5.0, 5.0, 3.0),
    einsum("helix", 0.01, 0, "adaptive", 6.0, 6.0, 6.0, 3.0),
    einsum("helix", 0.01, 1, "plain", 4.0, 4.0, 4.0, 2.0),
    einsum("helix", 0.01, 1, "mu=0.1", 1.0, 1.0, 1.0, 3.0),
    # An error, and another protocol.
    Result(Cell("table1", "knotted", 0.01, 0, "plain", "text"), "k", flatpc.__version__, 1.0, {}, "broke"),
    einsum("pinwheel", 0.05, 0, "plain", 1.0, 2.0, 4.0, 1.0, protocol="code"),
    einsum("pinwheel", 0.05, 0, "mu=0.1", 1.0, 2.0, 3.0, 1.0, protocol="code"),
]


@pytest.fixture
def folder(tmp_path):
    results = Results(tmp_path / "results", "table1")
    for each in RUNS:
        results.add(each)
    return tmp_path / "results"


@pytest.fixture
def comparison(folder):
    return compare(folder)["table1"][0]


class TestComparison:
    def test_gains_by_hand(self, comparison):
        assert comparison.regularised == ("mu=0.1", "adaptive")
        assert comparison.gains("spiral", 0.01, "nll") == [50.0, 20.0]
        # Overfitting of 12/8, counted as 1, against 1/4; then 5/10 against 4/8.
        assert comparison.gains("spiral", 0.01, "dof") == [75.0, 0.0]
        assert comparison.gains("spiral", 0.01, "sharpness") == [75.0, 50.0]
        assert comparison.gains("spiral", 0.01, "log_sharpness") == pytest.approx([100 * math.log(4), 100 * math.log(2)])
        assert comparison.gains("spiral", 0.01, "dof_train") == pytest.approx([300 - 100 / 3, 0.0])
        assert comparison.gain("spiral", 0.01, "nll") == Mean(35.0, 15.0, 2)
        assert comparison.gains("helix", 0.01, "nll") == [-25.0]
        assert comparison.gain("knotted", 0.01, "nll") is None
        assert comparison.value("spiral", 0.01, "regularised", "test_nll") == Mean(6.0, 2.0, 2)

    def test_means_and_wins_over_what_was_run(self, comparison):
        assert comparison.mean_gain(0.01, "nll") == Mean(5.0, 30.0, 2)
        assert comparison.papers_mean_gain(0.01, "nll") == pytest.approx((62.11 + 32.38) / 2)
        assert comparison.wins(0.01, "nll") == (1, 2, 2)
        assert comparison.wins(0.05, "nll") == (0, 0, 0)
        assert comparison.mean_gain(0.05, "nll") is None
        assert len(comparison.missing()) == 8 * 5 - 2
        assert comparison.partial() == [("helix", 0.01), ("spiral", 0.01)]

    def test_it_says_among_which_methods_was_chosen_if_not_all_were_run(self, comparison):
        assert comparison.among == " (chosen among mu=0.1, adaptive only)"
        every = ("plain", *TABLES["table1"].choices["text"])
        assert Comparison(TABLES["table1"], [einsum("spiral", 1.0, 0, m, 1.0, 1.0, 1.0, 1.0) for m in every]).among == ""
        assert Comparison(TABLES["table1"], []).among == ""

    def test_gains_of_negative_nlls_keep_their_sign(self):
        runs = [
            einsum("spiral", 1.0, 0, "plain", -2.0, -1.0, -1.0, 1.0),
            einsum("spiral", 1.0, 0, "mu=0.1", -2.0, -2.0, -1.5, 1.0),
        ]
        assert Comparison(TABLES["table1"], runs).gains("spiral", 1.0, "nll") == [50.0]

    def test_degree_of_overfitting(self):
        assert degree_of_overfitting({"train_nll": 2.0, "test_nll": 4.0}) == 50
        assert degree_of_overfitting({"train_nll": -2.0, "test_nll": 1.0}) == 100
        assert degree_of_overfitting({"train_nll": -2.0, "test_nll": 1.0}, "train_nll") == 150

    def test_protocols_are_kept_apart(self, folder):
        text, code = compare(folder)["table1"]
        assert (text.protocol, code.protocol) == ("text", "code")
        assert code.gains("pinwheel", 0.05, "nll") == [25.0]
        assert text.gain("pinwheel", 0.05, "nll") is None
        assert (text.n_runs, code.n_runs) == (11, 2)
        assert (text.n_failed, code.n_failed) == (1, 0)
        assert text.seconds == pytest.approx(11 * 36)

    def test_what_has_failed_or_is_under_way_is_not_in_the_docs(self, folder):
        results = Results(folder, "table1")
        results.compact()
        results.add(einsum("twisted_eight", 0.5, 0, "plain", 1.0, 2.0, 4.0, 1.0))
        (text, _), (kept, _) = compare(folder)["table1"], compare(folder, kept=True)["table1"]
        assert (text.n_runs, text.n_failed) == (12, 1)
        assert (kept.n_runs, kept.n_failed) == (11, 0)

    def test_early_stopping_is_beside_the_last_epoch(self, comparison):
        found = rivals(comparison, "spiral", 0.01)
        assert found["plain"].value == 9.0
        assert found["plain, stopped early"].value == 3.25
        assert found["regularised"].value == 6.0
        assert found["N(0, I)"].value == pytest.approx(0.5 * 2 * (math.log(2 * math.pi) + 1))  # the entropy of a flat Gaussian

    def test_what_early_stopping_is_worth(self, comparison):
        """Paired by trial, then over data sets: spiral 1 - 3.5/8 and 1 - 3/10, helix nothing."""
        found = gain(comparison, 0.01, "plain, stopped early", "plain")
        spiral = 100 * ((1 - 3.5 / 8) + (1 - 3 / 10)) / 2
        assert found.value == pytest.approx(spiral / 2)
        assert found.error == pytest.approx(spiral / 2)
        assert gain(comparison, 0.01, "Chow-Liu", "plain") is None

    def test_a_choice_is_not_made_among_those_that_happen_to_have_been_stopped_early(self):
        """With μ = 0 among the choices, that would be the plain model under another name."""

        def run(method, valid, **more):
            metrics = {"train_nll": 1.0, "valid_nll": valid, "test_nll": valid, "sharpness_weights": 1.0, **more}
            return result("table2", "dna", 0.05, 0, method, "ours", **metrics)

        runs = [run("plain", 9.0, best_valid_nll=5.0, best_test_nll=5.0), run("mu=0.1", 6.0)]
        to_the_end = replace(TABLES["table2"], settings={"ours": protocols.HcltTable("ours", unit="counts")})
        comparison = Comparison(to_the_end, runs, "ours")
        assert "regularised, stopped early" not in rivals(comparison, "dna", 0.05)
        assert [row[0] for row in payoff(comparison)[1]][-1] == "regularised against plain stopped early"
        assert in_words(comparison).startswith("The regularised model after its last epoch against the plain one stopped early")
        assert payoff(comparison)[1][-1][2] == "−20.00: undecided"

    def test_what_is_always_stopped_early_is_compared_once(self):
        runs = [
            einsum("spiral", 0.05, trial, method, 1.0, test, test, 1.0, protocol="ours")
            for trial in (0, 1)
            for method, test in (("plain", 4.0), ("mu=0.1", 3.0))
        ]
        _, rows = payoff(Comparison(TABLES["table1"], runs, "ours"))
        assert [row[0] for row in rows] == ["regularised against plain, both stopped early"]
        assert rows[0][2].startswith("25.00")

    def test_the_standard_normal_on_standardised_rows(self):
        """Against its density on drawn rows."""
        for name in ("spiral", "helix"):
            rows = manifold(name, 3000, seed=5)
            assert standard_normal(name) == pytest.approx(-norm.logpdf(rows).sum(axis=1).mean(), rel=1e-12)

    def test_rivals_of_table_2_are_chosen_by_validation(self):
        def run(method, valid, test, **more):
            return result(
                "table2", "dna", 0.05, 0, method, train_nll=1.0, valid_nll=valid, test_nll=test, sharpness_weights=1.0, **more
            )

        runs = [
            run("plain", 9.0, 9.0, best_valid_nll=5.0, best_test_nll=5.5),
            run("mu=0.1", 8.0, 8.0),
            run("laplace=0.1", 7.0, 7.5, best_valid_nll=6.5, best_test_nll=6.0),
            run("laplace=1", 7.2, 6.5, best_valid_nll=6.0, best_test_nll=6.2),
            run("chow-liu", 8.5, 8.6),
        ]
        found = rivals(Comparison(TABLES["table2"], runs), "dna", 0.05)
        assert {name: mean.value for name, mean in found.items()} == {
            "plain": 9.0, "plain, stopped early": 5.5, "regularised": 8.0, "Laplace EM": 7.5, "Laplace EM, stopped early": 6.2,
            "Chow-Liu": 8.6,
        }  # fmt: skip


class TestClaims:
    def test_the_paper_makes_them(self):
        """Each holds of the paper's own numbers."""
        for claim in CLAIMS:
            assert len(claim.papers()) == len(claim.fractions)
            assert min(claim.papers()) > claim.above, claim.text

    def test_two_standard_errors_decide(self, comparison):
        found = {claim.text: claim.verdict(comparison) for claim in CLAIMS if claim.table == "table1"}
        # Spiral gains 35 and helix loses 25: 5 ± 30.
        assert found["has the better test NLL with 1% of the rows"] == "undecided"
        assert found["is less sharp at every fraction"] == "not run"

    def test_the_papers_mean_is_over_the_same_data_sets(self, comparison):
        claim = next(claim for claim in CLAIMS if claim.text == "has the better test NLL with 1% of the rows")
        assert claim.papers(comparison) == pytest.approx([(62.11 + 32.38) / 2])
        assert claim.papers() == pytest.approx([49.53], abs=0.005)
        assert claim.data_sets(comparison) == (2, 8)
        said = "**undecided**: 5.0 ± 30.0 (of 2 of 8 data sets, on which the paper has 47.2)"
        assert claimed(claim, comparison) == said + comparison.among

    def test_a_part_that_fails_refutes_the_whole(self):
        verdicts = self.verdicts(TABLES["table1"].datasets)
        assert verdicts["has the better test NLL with 1% of the rows"] == "confirmed"
        assert verdicts["has the better test NLL at every fraction"] == "refuted"

    def test_some_of_the_data_sets_decide_nothing(self):
        verdicts = self.verdicts(TABLES["table1"].datasets[:-1])
        assert verdicts["has the better test NLL with 1% of the rows"] == "undecided"
        assert verdicts["has the better test NLL at every fraction"] == "undecided"

    def verdicts(self, datasets):
        """The regularised model is better by 0.1 to 0.9 nats, and with all rows worse by 1."""
        runs = [
            einsum(dataset, fraction, 0, method, 1.0, 2.0, test, 1.0)
            for place, dataset in enumerate(datasets)
            for fraction in FRACTIONS
            for method, test in (("plain", 4.0), ("mu=0.1", 5.0 if fraction == 1.0 else 3.9 - 0.1 * place))
        ]
        found = Comparison(TABLES["table1"], runs)
        return {claim.text: claim.verdict(found) for claim in CLAIMS if claim.table == "table1"}


class TestTextTables:
    def test_markdown_and_latex_hold_the_same(self, comparison):
        head, rows = as_text(gain_sheets(comparison)[0])
        assert head == ["data set", "1%", "5%", "10%", "50%", "100%"]
        (spiral,) = (row for row in rows if row[0] == "spiral")
        assert spiral[1] == "35.00 ± 15.00 (62.11)"
        assert spiral[2] == "not run (34.03)"
        assert rows[-1][:3] == ["better on", "1 (2) of 2", "not run"]
        table = markdown(head, rows).splitlines()
        assert len(table) == 2 + len(rows)
        assert len({line.count("|") for line in table}) == 1
        assert r"35.00 $\pm$ 15.00 (62.11)" in latex(head, rows)

    def test_escapes(self):
        assert escape("two_moons, 5% & −1") == r"two\_moons, 5\% \& $-$1"

    def test_all_tables_are_there(self, folder):
        comparisons = compare(folder)
        titles = re.findall("^## (.*)$", as_markdown(comparisons), re.M)
        assert len(titles) == len(set(titles)) == 2 * (4 + 4) + 3 + 4  # table 1 under two protocols, table 2 under one
        assert as_latex(comparisons).count(r"\begin{tabular}") == len(titles)

    def test_rows_of_latex_fit_their_columns(self, folder):
        for table in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", as_latex(compare(folder)), re.S):
            columns, body = table
            lines = [line for line in body.splitlines() if line.endswith(r"\\")]
            assert len(lines) > 8
            assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}


class Page(HTMLParser):
    """Cells of all tables, and addresses that a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.rows, self.fetched, self.tabs, self._text = [], [], [], None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.fetched += [attributes[key] for key in ("src", "href") if key in attributes]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._text = []
        if attributes.get("role") == "tab":
            self._text = []

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self._text is not None:
            self.rows[-1].append(("".join(self._text)).strip())
            self._text = None
        if tag == "button" and self._text is not None and not self.rows:
            self.tabs.append("".join(self._text).strip())

    def handle_data(self, data):
        if self._text is not None:
            self._text.append(data)


def test_report(folder, tmp_path):
    path = report(folder, tmp_path / "out" / "report.html")
    assert {each.name for each in path.parent.iterdir()} == {"report.html", "report.md", "report.tex"}
    text = path.read_text()
    page = Page()
    page.feed(text)
    assert all(address.startswith(("#", "data:")) for address in page.fetched)
    spiral = [row for row in page.rows if row and row[0] == "spiral"]
    assert any(row[1:4] == ["62.11", "35.00 ± 15.00b", "−27.11"] for row in spiral)  # note b: 2 of 5 trials
    assert any(row[4:6] == ["34.03", "not run"] for row in spiral)
    assert "flatpc reproduce table1 --datasets knotted" in text
    assert "flatpc reproduce table1 --protocol code" in text
    assert "flatpc reproduce figure-curves" in text
    assert str(paper.GPU_HOURS) in text
    assert "as the authors&#39; code does" in text
    assert "misspelt option" in text


def test_only_what_is_beyond_two_standard_errors_has_a_colour(tmp_path):
    """At 1% spiral gains 35 percent and helix loses 25, which is 5 ± 30; at 5% both gain 25."""
    results = Results(tmp_path / "results", "table1")
    gains = {("spiral", 0.01): 35.0, ("helix", 0.01): -25.0, ("spiral", 0.05): 25.0, ("helix", 0.05): 25.0}
    for (dataset, fraction), percent in gains.items():
        results.add(einsum(dataset, fraction, 0, "plain", 1.0, 10.0, 10.0, 1.0))
        results.add(einsum(dataset, fraction, 0, "mu=0.1", 1.0, 10.0, 10.0 - percent / 10, 1.0))
    text = report(tmp_path / "results", tmp_path / "report.html").read_text()
    first = text.index("ΔNLL")
    row = text[first : text.index("</tr>", text.index("as the text says", first))]
    assert re.findall(r'<td class="([^"]*)"[^>]*>([^<]*± [^<]*)<sup>(.)', row) == [
        ("number  ", "5.00 ± 30.00", "a"),
        ("number  better", "25.00 ± 0.00", "a"),
    ]
    assert "<dt>a</dt><dd>2 of 8 data sets</dd>" in text
    assert re.search(r'<td class=" *better"[^>]*>25.00 ± 0.00: pays<', text)
    assert re.search(r'<td class=" *"[^>]*>5.00 ± 30.00: undecided<', text)


def test_a_report_of_nothing_names_every_command(tmp_path):
    text = report(tmp_path / "none", tmp_path / "report.html").read_text()
    for command in ("table1", "table2", "figure-landscape", "figure-curves", "figure-trace", "figure-ablation", "figure-latents"):
        assert f"flatpc reproduce {command}" in text


def test_mean():
    assert Mean.of([]) is None
    assert math.isnan(Mean.of([1.0]).error)
    assert Mean.of([1.0]).text() == "1.00"
    assert Mean(-2.0, 0.5, 3).text(1) == "−2.0 ± 0.5"
