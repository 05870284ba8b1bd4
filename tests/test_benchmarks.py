"""What benchmarks record: numbers as they were measured, kept piece by piece, measured again when the code has changed."""

import json
import sys

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import against, record


def test_pieces_are_kept_one_by_one(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    record.measure("engine", "one", lambda: {"ratio": 1 / 3, "rows": {200: 2.0}}, path)
    record.measure("engine", "two", lambda: {"ratio": 2}, path)
    record.measure("engine", "none", lambda: None, path)
    assert record.numbers(path) == {"engine.one": {"ratio": 0.3333, "rows": {"200": 2.0}}, "engine.two": {"ratio": 2}}
    assert record.is_measured("engine", "one", path)
    assert not record.is_measured("engine", "none", path)
    monkeypatch.setattr(record, "digest", lambda section: "changed")
    assert not record.is_measured("engine", "one", path)
    assert len(path.read_text().splitlines()) == 4  # a piece a line


def test_it_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    from benchmarks import learning

    path, ran = tmp_path / "results.json", []

    def stopped():
        ran.append("second")
        raise KeyboardInterrupt

    pieces = {"first": lambda: ran.append("first") or {"n": 1}, "second": stopped}
    monkeypatch.setattr(learning, "PIECES", pieces)
    for name in ("measure", "is_measured"):
        function = getattr(record, name)
        monkeypatch.setattr(record, name, lambda *given, function=function: function(*given, path))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "learning", "--record"])
    with pytest.raises(KeyboardInterrupt):
        benchmarks.main()
    pieces["second"] = lambda: ran.append("second again") or {"n": 2}
    benchmarks.main()
    assert ran == ["first", "second", "second again"]
    assert "learning.first is recorded" in capsys.readouterr().out


def test_what_is_committed_can_be_read():
    for name, piece in record.read().items():
        section, _, _ = name.partition(".")
        assert section in benchmarks.SECTIONS
        assert set(piece) == {"numbers", "seconds", "code", "machine"}
        assert json.dumps(piece["numbers"])


def test_a_version_is_measured_in_a_process_of_its_own():
    version = against.Version(against.HERE / "src")
    try:
        assert 0 < version.seconds("log_prob, scalar DAG, float64") < 10
    finally:
        version.close()
