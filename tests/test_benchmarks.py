"""What benchmarks record: numbers as they were measured, kept piece by piece, measured again when the code has changed."""

import json
import sys

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import against, record, scaling


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


def test_a_small_record_does_not_pass_for_a_full_one(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    for scale, known in ((0.02, {0.01: True, 0.02: True, 1.0: False}), (1.0, {0.02: True, 1.0: True})):
        monkeypatch.setattr(record, "SCALE", scale)
        record.measure("scaling", "files", lambda: {"rows": 1}, path)
        assert record.read(path)["scaling.files"]["scale"] == scale
        for asked, passes in known.items():
            monkeypatch.setattr(record, "SCALE", asked)
            assert record.is_measured("scaling", "files", path) is passes
    monkeypatch.setattr(record, "SCALE", 0.02)
    record.measure("scaling", "files", lambda: {"rows": 2}, path)
    assert record.read(path)["scaling.files"]["scale"] == 1.0  # the smaller one doesn't take its place
    assert record.numbers(path)["scaling.files"] == {"rows": 1}
    record.measure("engine", "steps", lambda: {"rows": 1}, path)
    assert "scale" not in record.read(path)["engine.steps"]


@pytest.mark.parametrize("folder", ["tables", "queries", "families", "learning", "engine"])
def test_code_that_is_timed_changes_the_digest(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "HERE", tmp_path / "benchmarks")
    for name in ("benchmarks", *(f"src/flatpc/{each}" for each in record.TIMED)):
        (tmp_path / name).mkdir(parents=True)
    for name in ("scaling", "clock"):
        (tmp_path / "benchmarks" / f"{name}.py").write_text("")
    before = record.digest("scaling")
    (tmp_path / "src" / "flatpc" / folder / "new.py").write_text("n = 1")
    assert record.digest("scaling") != before


# ---- the model of clusters --------------------------------------------------------------------------------------------------


def test_the_model_says_what_was_measured_of_workers():
    """Calibrated by one worker, it foretells two, which it hasn't seen."""
    found = record.numbers()["scaling.workers"]
    one, two = (found["seconds"][count] for count in ("1", "2"))
    client = found.get("handing out", 0.05 * one)
    model = scaling.Machine.measured(found["rows"], found["edges"], one - client, client, found.get("seconds per task", 1e-3))
    assert model.step(found["rows"], found["edges"], 1) == pytest.approx(one, rel=0.15)
    assert model.step(found["rows"], found["edges"], 2) == pytest.approx(two, rel=0.25)


def test_one_scheduler_hands_out_all_tasks():
    machine = scaling.Machine(1e-12, seconds_per_task=1e-3)
    tasks = {n: machine.parts(1e9, 1e8, n)["tasks"] for n in (1, 64, 4096)}
    assert len(set(tasks.values())) == 1
    assert tasks[1] == pytest.approx(2 * 1e9 / 16_384 * 1e-3, rel=1e-4)
    assert machine.step(1e9, 1e8, 4096) > tasks[1]


@pytest.mark.parametrize("name", scaling.CLUSTERS)
def test_what_saturates_first_follows_from_the_model(name):
    _, machine = scaling.CLUSTERS[name]
    most, then = machine.saturation(1e9, 1e8)
    for n_workers, longest in ((most, "passes"), (most + 1, then)):
        parts = machine.parts(1e9, 1e8, n_workers)
        assert max(parts, key=parts.get) == longest
    assert then in ("tasks", "network")


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


def test_pieces_are_chosen_by_name(monkeypatch, capsys):
    from benchmarks import learning

    ran = []
    monkeypatch.setattr(learning, "PIECES", {name: lambda name=name: ran.append(name) for name in ("one", "two", "three")})
    monkeypatch.setattr(sys, "argv", ["benchmarks", "learning.three", "learning.one"])
    benchmarks.main()
    assert ran == ["three", "one"]
    for wrong, words in (("learning.four", "no piece 'four' in learning; choose from one, two, three"), ("sleep", "no section")):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "learning", wrong])
        with pytest.raises(SystemExit):
            benchmarks.main()
        assert words in capsys.readouterr().err
    assert ran == ["three", "one"], "nothing is measured before all names are known"


def test_what_is_committed_can_be_read():
    for name, piece in record.read().items():
        section, _, _ = name.partition(".")
        assert section in benchmarks.SECTIONS
        assert set(piece) - {"scale"} == {"numbers", "seconds", "code", "machine"}
        assert json.dumps(piece["numbers"])


def test_a_version_is_measured_in_a_process_of_its_own():
    version = against.Version(against.HERE / "src")
    try:
        assert 0 < version.seconds("log_prob, scalar DAG, float64") < 10
    finally:
        version.close()


def test_steps_on_cuda_are_measured_or_it_is_said_why_not(capsys, monkeypatch):
    torch = pytest.importorskip("torch")
    from benchmarks import gpu

    monkeypatch.setattr(gpu, "data_sets", lambda: {"generated": gpu.generated_rows(4, 50)})
    found = gpu.cuda()
    said = capsys.readouterr().out
    if torch.cuda.is_available():
        assert found["generated"]["flatpc"] > 0
    else:
        assert found is None
        assert "no CUDA device" in said
    assert "PyJuice" in said


def test_sharing_is_timed_beside_plain_steps(capsys, monkeypatch):
    pytest.importorskip("torch")
    from benchmarks import gpu

    monkeypatch.setattr(gpu, "has_data", lambda: True)
    monkeypatch.setattr(gpu, "train_rows", lambda name: gpu.generated_rows(30, 900).astype(float))
    monkeypatch.setattr(gpu, "LATENTS", 64)
    monkeypatch.setattr("flatpc.engine.torch.sharing.CALLING", 0)
    monkeypatch.setattr(gpu, "best", lambda *steps, clock: [step() and 1.0 for step in steps])
    assert gpu.shared(("generated",), (100, 900)) == {"generated": {100: 1.0, 900: 1.0}}
    few, many = capsys.readouterr().out.splitlines()
    assert "not chosen" in few
    assert "(chosen)" in many


def test_a_step_by_torch_is_one_of_em():
    pytest.importorskip("torch")
    from benchmarks import gpu

    step = gpu._our_step(gpu.generated_rows(4, 50), 3, "cpu")
    values = [step() for _ in range(5)]
    assert values == sorted(values)
