"""Mistakes: each ends with its exit code and one or two lines that name the culprit and say what to do. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from tests.cli.running import Answer, bits, names, people


@dataclass(frozen=True)
class Mistake:
    """What is typed, in a folder with the files of `files` and of the desk; and what the message must say."""

    typed: str
    says: tuple[str, ...]
    code: int = 1


FIT = "fit {desk}/people.csv -o model"
QUICK = "--latents 2 --epochs 2 --mu 0.1"

MISTAKES = {
    # ---- tables
    "no such file": Mistake("fit nowhere.csv -o model", ("nowhere.csv", "check the name")),
    "unknown ending": Mistake("fit notes.txt -o model", ("notes.txt", ".csv", ".parquet", "save it as")),
    "a folder for a table": Mistake("fit folder.csv -o model", ("folder.csv",)),
    "empty csv": Mistake("fit empty.csv -o model", ("empty.csv", "empty")),
    "csv of a header": Mistake("fit header.csv -o model", ("header.csv", "0 rows", "at least one")),
    "ragged csv": Mistake("fit ragged.csv -o model", ("ragged.csv", "line 3 has 3 values, and the first line 2")),
    "csv that is not text": Mistake("fit binary.csv -o model", ("binary.csv", "not UTF-8", "save it again")),
    "a folder with odd files": Mistake("fit . -o model", ("binary.csv is not UTF-8",)),
    "dates as text": Mistake("fit dates.csv -o model", ("'when'", "dates as text", "--drop", "--kind when=cat", "2020-01-31")),
    "a word among numbers": Mistake("fit word.csv -o model", ("'x'", "text such as 'n.a.'", "replace")),
    "two columns of one name": Mistake("fit twice.csv -o model", ("twice.csv", "'a'", "rename")),
    "damaged parquet": Mistake("fit damaged.parquet -o model", ("damaged.parquet", "can't be read as parquet")),
    "damaged npz": Mistake("fit damaged.npz -o model", ("damaged.npz", "can't be read as an npz")),
    "npz of one dimension": Mistake("fit line.npz -o model", ("line.npz", "two dimensions")),
    "npz of several tables": Mistake("fit several.npz -o model", ("several.npz", "call the table X")),
    "a column of identifiers": Mistake("fit names.csv -o model", ("'who'", "300 different texts", "--kind who=categorical")),
    "a column without values": Mistake("fit void.csv -o model --missing marginalize", ("'b'", "only missing", "--drop")),
    "infinite number": Mistake("fit infinite.csv -o model", ("'x'", "inf", "row 1", "replace")),
    "missing values": Mistake("fit {desk}/holes.csv -o model", ("Column", "row", "--missing marginalize")),
    # ---- data sets
    "unknown data set": Mistake("fit nowhere -o model", ("nowhere", "flatpc datasets")),
    "misspelt data set": Mistake("fit nltsc -o model", ("nltsc", "did you mean nltcs?")),
    "no network": Mistake("fit nltcs -o model", ("nltcs", "FLATPC_DATA")),
    "a file without splits": Mistake("score {desk}/people.model {desk}/people.csv --split test", ("people.csv", "--split")),
    # ---- options of fit
    "mu below zero": Mistake(f"{FIT} --mu -1", ("--mu -1", "0 or more")),
    "mu not a number": Mistake(f"{FIT} --mu strong", ("--mu strong", "auto")),
    "mu NaN": Mistake(f"{FIT} --mu nan", ("--mu nan", "finite")),
    "mu of the other method": Mistake(f"{FIT} --mu adaptive --structure hclt", ("--mu adaptive", "adam", "mean-flow")),
    "auto with nothing to judge by": Mistake(f"{FIT} --valid 0", ("--valid", "--structure hclt")),
    "epochs of no structure": Mistake(f"{FIT} --epochs 3", ("--epochs trains one structure", "--structure hclt")),
    "unknown effort": Mistake(f"{FIT} --effort lots", ("'--effort': 'lots' is not", "thorough"), 2),
    "drop an unknown column": Mistake(f"{FIT} --drop shoe", ("--drop shoe", "age, smoker")),
    "weights that are text": Mistake(f"{FIT} --weights smoker", ("--weights smoker", "holds text", "0 or more")),
    "weights of an unknown column": Mistake(f"{FIT} --weights shoe", ("--weights shoe", "age, smoker")),
    "drop all columns": Mistake("fit one.csv -o model --drop a --drop b", ("--drop leaves no column", "keep")),
    "rat_spn as in Python": Mistake(f"{FIT} --structure rat_spn", ("rat_spn", "rat-spn"), 2),
    "mu where there is nothing to learn": Mistake(f"{FIT} --structure factorized --mu 1", ("--mu", "factorized", "leave it out")),
    "no latents": Mistake(f"{FIT} --latents 0", ("--latents", "1"), 2),
    "unknown structure": Mistake(f"{FIT} --structure tree", ("--structure", "tree", "hclt"), 2),
    "chow-liu of numbers": Mistake(f"{FIT} --structure chow-liu", ("chow-liu", "hclt")),
    "unknown method": Mistake(f"{FIT} --method newton", ("--method", "newton", "adam"), 2),
    "no epochs": Mistake(f"{FIT} --epochs 0", ("--epochs", "1"), 2),
    "step of EM above one": Mistake(f"{FIT} --step-size 2", ("--step-size 2", "at most 1")),
    "pseudocount below zero": Mistake(f"{FIT} --pseudocount -1", ("--pseudocount -1", "0 or a positive")),
    "pseudocount of gradient learning": Mistake(
        f"{FIT} --structure hclt --method adam {QUICK} --pseudocount 1", ("pseudocount", "--method em", "leave it out")
    ),
    "validation share above one": Mistake(f"{FIT} --valid 1.5", ("--valid 1.5", "less than 1")),
    "no validation file": Mistake(f"{FIT} --valid judges.csv", ("judges.csv", "check the name")),
    "validation rows without a column": Mistake(f"{FIT} --valid narrow.csv", ("narrow.csv", "'height'")),
    "fraction of nothing": Mistake(f"{FIT} --fraction 0", ("--fraction 0", "greater than 0")),
    "budget below zero": Mistake(f"{FIT} --time-budget -5", ("--time-budget -5", "positive")),
    "seed not whole": Mistake(f"{FIT} --seed 1.5", ("--seed", "integer"), 2),
    "unknown kind": Mistake(f"{FIT} --kind age=spectral", ("--kind", "'spectral'", "continuous")),
    "kind of an unknown column": Mistake(f"{FIT} --kind shoe=count", ("--kind", "'shoe'", "age, smoker")),
    "kind without a column": Mistake(f"{FIT} --kind continuous", ("--kind continuous", "--kind age=continuous")),
    "text for numbers": Mistake(f"{FIT} --kind smoker=continuous", ("'smoker'", "text such as", "choose binary")),
    "numbers that are no counts": Mistake(f"{FIT} --kind height=count", ("'height'", "row")),
    "no output": Mistake("fit {desk}/people.csv", ("--output",), 2),
    "no folder for the output": Mistake("fit {desk}/people.csv -o away/model", ("away", "create it")),
    "output is a folder": Mistake("fit {desk}/people.csv -o folder.csv", ("folder.csv is a folder", "name of a file")),
    "output is there": Mistake("fit {desk}/people.csv -o notes.txt", ("notes.txt", "--force")),
    "unknown option": Mistake(f"{FIT} --sharpness 1", ("--sharpness", "flatpc fit --help"), 2),
    "unknown command": Mistake("learn people.csv", ("learn", "flatpc --help"), 2),
    # ---- models
    "no such model": Mistake("score nowhere.model {desk}/people.csv", ("nowhere.model", "check the name")),
    "not a model": Mistake("score notes.txt {desk}/people.csv", ("notes.txt", "not a model file", "flatpc fit")),
    "damaged model": Mistake("sample damaged.model", ("damaged.model", "damaged or cut off", "Restore")),
    "a table for a model": Mistake("curvature {desk}/people.csv {desk}/people.csv", ("people.csv", "not a model file")),
    "a column is missing": Mistake("score {desk}/people.model narrow.csv", ("'height'", "It has age", "empty where unknown")),
    "a column too many": Mistake("score {desk}/people.model wide.csv", ("wide.csv", "'shoe'", "--ignore-extra")),
    "an array of numbers for text": Mistake(
        "score {desk}/people.model {desk}/bits.npz", ("bits.npz", "'smoker'", "text when it was learnt")
    ),
    "an array that is too wide": Mistake("score {desk}/bits.model wide.npz", ("wide.npz has 7 columns", "the model has 5")),
    "unseen category": Mistake("score {desk}/people.model mauve.csv --unseen raise", ("'mauve'", "row 2", "--unseen missing")),
    "text where numbers were": Mistake(
        "score {desk}/people.model words.csv", ("words.csv", "'height'", "numbers when it was learnt")
    ),
    "missing values to score": Mistake("score {desk}/people.model {desk}/holes.csv", ("holes.csv", "--missing marginalize")),
    # ---- questions
    "no samples": Mistake("sample {desk}/people.model -n 0", ("-n", "1"), 2),
    "seed below zero": Mistake("sample {desk}/people.model --seed -1", ("--seed", "0"), 2),
    "unknown ending of an output": Mistake("sample {desk}/people.model -o rows.xlsx", ("rows.xlsx", ".csv", ".parquet")),
    "text in an archive of numbers": Mistake("sample {desk}/people.model -o rows.npz", ("rows.npz", "'smoker'", ".csv")),
    "given nothing": Mistake("sample {desk}/people.model --given smoker", ("--given smoker", "--given age=VALUE")),
    "given an unknown column": Mistake("sample {desk}/people.model --given shoe=1", ("'shoe'", "age, smoker")),
    "given an unknown value": Mistake("sample {desk}/people.model --given smoker=maybe", ("smoker=maybe", "no, yes")),
    "given text for a number": Mistake("sample {desk}/people.model --given age=old", ("age=old", "number")),
    "given a count below zero": Mistake("sample {desk}/people.model --given visits=-1", ("visits", "-1")),
    "unknown way to impute": Mistake("impute {desk}/people.model {desk}/holes.csv --how guess", ("--how", "guess", "mode"), 2),
    "output without a table": Mistake("score {desk}/people.model {desk}/people.csv -o s.csv", ("--output", "--per-row")),
    "even number of steps": Mistake("landscape {desk}/bits.model {desk}/bits.npz -o l.png --steps 4", ("--steps 4", "odd")),
    "no radius": Mistake("landscape {desk}/bits.model {desk}/bits.npz -o l.png --steps 3 --radius 0", ("radius", "positive")),
    "landscape of unknown form": Mistake("landscape {desk}/bits.model {desk}/bits.npz -o l.gif", ("l.gif", ".html", ".png")),
    "landscape without weights": Mistake("landscape flat.model {desk}/bits.npz -o l.png", ("flat.model has no weights",)),
    "unknown space": Mistake("curvature {desk}/bits.model {desk}/bits.npz --space time", ("--space", "time", "logits"), 2),
    # ---- the demo and the paper
    "demo into a file": Mistake("demo --folder notes.txt", ("notes.txt", "--folder")),
    "unknown experiment": Mistake("reproduce table9", ("table9", "table1", "figure-")),
    "unknown protocol": Mistake("reproduce table1 --protocol rumour", ("rumour", "text", "code")),
    "unknown data set of a table": Mistake("reproduce table1 --datasets spiral,nltcs", ("nltcs", "spiral")),
    "unknown fraction of a table": Mistake("reproduce table1 --fractions 0.3", ("0.3", "0.01", "0.5")),
    "fractions that are no numbers": Mistake("reproduce table1 --fractions half", ("--fractions half", "numbers")),
    "trials that are no whole numbers": Mistake("reproduce table1 --trials 0.5", ("--trials 0.5", "numbers")),
    "unknown method of a table": Mistake("reproduce table1 --methods mu=7", ("mu=7", "adaptive")),
    "part of a figure": Mistake("reproduce figure-trace --trials 0", ("figure-trace", "--trials", "tables")),
    "results in a file": Mistake("reproduce table1 --folder notes.txt", ("notes.txt", "--folder")),
    "budget of nothing": Mistake("reproduce table1 --budget 0", ("--budget 0", "positive")),
    "no results": Mistake("report nowhere", ("nowhere", "flatpc reproduce")),
    "results that can't be read": Mistake("report spoilt", ("table1.csv", "remove it or restore it")),
    "report of unknown form": Mistake("report spoilt -o report.docx", ("report.docx", ".html")),
}  # fmt: skip


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory, desk: Path) -> Path:
    """A folder of things that are wrong in one way each."""
    folder = tmp_path_factory.mktemp("spoilt")
    table = people(20)
    (folder / "notes.txt").write_text("no table, and no model")
    (folder / "folder.csv").mkdir()
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    (folder / "one.csv").write_text("a,b\nx,2\n")
    (folder / "void.csv").write_text("a,b\n" + "1,\n0,\n" * 9)
    (folder / "infinite.csv").write_text("x\n1.5\ninf\n2.5\n")
    days = [date(2020, 1, 1) + timedelta(i) for i in range(30)]
    pl.DataFrame({"when": days, "a": [0, 1] * 15}).write_parquet(folder / "dates.parquet")
    german = [day.strftime("%d.%m.%Y") for day in days]
    pl.DataFrame({"when": german, "a": [0, 1] * 15}).write_csv(folder / "dates.csv")
    pl.DataFrame({"x": [*map(str, range(29)), "n.a."], "a": [0, 1] * 15}).write_csv(folder / "word.csv")
    pl.DataFrame({"who": [f"name {i}" for i in range(300)], "a": [0, 1] * 150}).write_csv(folder / "names.csv")
    (folder / "damaged.parquet").write_bytes((desk / "people.parquet").read_bytes()[:-40])
    (folder / "damaged.npz").write_bytes((desk / "bits.npz").read_bytes()[:50])
    np.savez(folder / "line.npz", X=np.arange(5))
    np.savez(folder / "several.npz", a=np.eye(3), b=np.eye(3))
    np.savez(folder / "wide.npz", X=np.zeros((4, 7)))
    table.drop("height").write_csv(folder / "narrow.csv")
    table.with_columns(shoe=pl.lit(42)).write_csv(folder / "wide.csv")
    colours = table["colour"].to_list()
    colours[2] = "mauve"
    table.with_columns(colour=pl.Series(colours)).write_csv(folder / "mauve.csv")
    table.with_columns(height=pl.lit("tall")).write_csv(folder / "words.csv")
    model = bytearray((desk / "people.model").read_bytes())
    model[-3] ^= 1
    (folder / "damaged.model").write_bytes(model)
    fp.structures.factorized(bits()).save(folder / "flat.model")
    (folder / "spoilt").mkdir()
    (folder / "spoilt" / "table1.csv").write_text("dataset,trial\nspiral,first\n")
    return folder


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str, desk: Path, spoilt: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(spoilt)
    # Without a folder of data, without a cache, and without a way out to the network.
    monkeypatch.delenv("FLATPC_DATA", raising=False)
    monkeypatch.setenv("FLATPC_CACHE", str(tmp_path))
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)  # between attempts to download
    before = names(spoilt)
    mistake = MISTAKES[name]
    answer = Answer(*mistake.typed.format(desk=desk).split())
    assert answer.code == mistake.code, answer.err
    lines = answer.err.rstrip("\n").splitlines()
    assert 1 <= len(lines) <= 2, answer.err
    assert lines[-1 if mistake.code == 1 else 0].startswith("Error: ")
    for text in mistake.says:
        assert text in answer.err
    assert "Traceback" not in answer.err
    assert names(spoilt) == before


def test_there_are_enough_of_them() -> None:
    assert len(MISTAKES) >= 25


def test_standard_output_of_a_mistake_with_json_is_empty(desk: Path) -> None:
    for typed in ("fit {desk}/holes.csv -o {desk}/never --json", "score {desk}/people.model {desk}/holes.csv --json"):
        answer = Answer(*typed.format(desk=desk).split())
        assert answer.code == 1
        assert answer.out == ""


def test_the_desk_is_as_it_was(desk: Path) -> None:
    """The mistakes are made in the table of the test, not in the models they use."""
    assert fp.load(desk / "people.model").n_variables == 5
