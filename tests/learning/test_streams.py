"""Learning from sources of rows: the same objective as in memory, by seed, resumable at any batch, within bounds of memory."""

import subprocess
import sys
import textwrap

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.engine import clock
from flatpc.errors import DataError, OptionError, ShapeError
from flatpc.learning.run import feeding, memory
from tests.peak_memory import GIB, peak_memory

N = 700


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(N, 6))
    rows[:, 1] = rows[:, 0]
    return rows


@pytest.fixture(scope="module")
def circuit(X):
    return fp.structures.hclt(X, 3)


@pytest.fixture
def folder(X, tmp_path):
    for i in range(4):
        pl.DataFrame(X[i::4], schema=list("abcdef")).write_parquet(tmp_path / f"{i}.parquet")
    return tmp_path


def same(one, other):
    for i, value in one.parameters.items():
        for name in value if isinstance(value, dict) else [slice(None)]:
            np.testing.assert_array_equal(value[name], other.parameters[i][name])


@pytest.mark.parametrize("method", [fp.EM(step_size=1.0), fp.EM(0.5, momentum=0.5), fp.Adam(0.1), fp.SGD(0.1)])
@pytest.mark.parametrize("sharp", [False, True])
def test_all_rows_at_once_are_those_in_memory(folder, X, circuit, method, sharp, monkeypatch):
    """Pieces of 64 rows add up to what one batch of all rows gives."""
    monkeypatch.setattr(memory, "WINDOW_ROWS", 64)
    how = {"method": method, "batch_size": None, "epochs": 3, "dtype": "float64", "progress": False}
    if sharp:
        how["sharpness"] = fp.Sharpness(mu=0.1)
    one = fp.fit(circuit, fp.tables.scan(folder, block_rows=50), valid=fp.tables.source(X[:90], block_rows=40), **how)
    other = fp.fit(circuit, np.concatenate([X[i::4] for i in range(4)]), valid=X[:90], **how)
    for column in ("train_nll", "valid_nll"):
        np.testing.assert_allclose(one.history[column], other.history[column], rtol=1e-10)
    for i, value in other.circuit.parameters.items():
        for name in value if isinstance(value, dict) else [slice(None)]:
            np.testing.assert_allclose(one.circuit.parameters[i][name], value[name], rtol=1e-7, atol=1e-10)


def test_every_row_is_learnt_from_once_in_every_epoch(X, circuit, monkeypatch):
    """Windows of 64 rows, batches of 20: none is lost or taken twice, order and batches depend on seed and epoch."""
    monkeypatch.setattr(memory, "WINDOW_ROWS", 64)
    numbered = np.column_stack([np.arange(N), X[:, 1:]])
    counting = fp.structures.factorized(numbered, family=[fp.Poisson(), *[fp.Bernoulli()] * 5])
    source = fp.tables.source(numbered, block_rows=25)
    evaluator = feeding.get_evaluator(counting)

    def order(epoch, seed=0, skip=0):
        feed = feeding.Streamed(source, counting, evaluator, "raise", 20, seed)
        return [batch.evidence.X[batch.rows, 0].astype(int).tolist() for batch in feed.batches(epoch, skip)]

    batches = order(0)
    assert sorted(row for batch in batches for row in batch) == list(range(N))
    assert {len(batch) for batch in batches} == {20}
    assert batches == order(0)
    assert batches != order(1)
    assert batches != order(0, seed=1)
    for skip in (1, 3, 5, 34):
        assert order(0, skip=skip) == batches[skip:]
    # Rows of several blocks meet in one batch.
    assert len({row // 25 for row in batches[0]}) > 2


def test_mini_batches_learn_as_well_as_in_memory(folder, X, circuit):
    how = {"epochs": 15, "batch_size": 50, "progress": False}
    one = fp.fit(circuit, fp.tables.scan(folder, block_rows=30), **how).history["train_nll"][-1]
    assert abs(one - fp.fit(circuit, X, **how).history["train_nll"][-1]) < 0.02


@pytest.mark.parametrize("method", ["em", fp.EM(0.3, momentum=0.9), "adam"])
@pytest.mark.parametrize("source", [True, False])
def test_a_run_goes_on_in_the_middle_of_an_epoch_with_equal_bits(folder, X, circuit, tmp_path, method, source, monkeypatch):
    monkeypatch.setattr(memory, "WINDOW_ROWS", 128)
    rows = fp.tables.scan(folder, block_rows=60) if source else X
    how = {"method": method, "epochs": 3, "batch_size": 30, "valid": X[:50], "progress": False}
    whole = fp.fit(circuit, rows, **how)
    run = fp.learning.Run(checkpoint=tmp_path / "run.ckpt", checkpoint_seconds=0.0)
    # The clock runs out at the thirtieth batch, in the second epoch.
    now, times = clock.now, iter(range(10**9))
    monkeypatch.setattr(clock, "now", lambda: float(next(times)))
    limit = fp.learning.Stopping(time_budget=150.0)
    cut = fp.fit(circuit, rows, run=run, stopping=limit, **how)
    monkeypatch.setattr(clock, "now", now)
    assert cut.stopped == "time budget"
    assert 0 < len(cut.history) < 3
    again = fp.fit(circuit, rows, run=run, **how)
    same(again.circuit, whole.circuit)
    for column in ("train_nll", "valid_nll", "mu"):
        np.testing.assert_array_equal(again.history[column], whole.history[column])


def test_a_killed_run_goes_on_with_equal_bits(folder, circuit, tmp_path):
    script = textwrap.dedent(f"""
        import os, signal
        import flatpc as fp
        from flatpc.learning.run import checkpoint
        circuit = fp.load({str(tmp_path / "start")!r})
        write = checkpoint.write
        def written(path, state, identity):
            write(path, state, identity)
            if state.epoch == 1 and state.batches == 5:
                os.kill(os.getpid(), signal.SIGKILL)
        checkpoint.write = written
        run = fp.learning.Run(checkpoint={str(tmp_path / "run.ckpt")!r}, checkpoint_seconds=0.0)
        fp.fit(circuit, fp.tables.scan({str(folder)!r}, block_rows=60), epochs=3, batch_size=50, run=run, progress=False)
    """)
    circuit.save(tmp_path / "start")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr
    rows = fp.tables.scan(str(folder / "*.parquet"), block_rows=60)
    how = {"epochs": 3, "batch_size": 50, "progress": False}
    same(fp.fit(circuit, rows, run=tmp_path / "run.ckpt", **how).circuit, fp.fit(circuit, rows, **how).circuit)


def test_rows_that_go_away_lose_nothing(folder, circuit, tmp_path):
    """The checkpoint has what was learnt before a file went away; with the file back the run ends as if nothing had been."""
    source = fp.tables.scan(str(folder / "*.parquet"), block_rows=60)
    how = {"epochs": 3, "batch_size": 50, "progress": False}
    whole = fp.fit(circuit, source, **how)
    hidden = []

    def hide(row, circuit):
        if row["epoch"] == 1 and not hidden:
            hidden.append((folder / "2.parquet").rename(folder / "away"))

    run = fp.learning.Run(checkpoint=tmp_path / "run.ckpt", callbacks=[hide])
    with pytest.raises(DataError, match=r"2\.parquet can't be read"):
        fp.fit(circuit, source, run=run, **how)
    hidden[0].rename(folder / "2.parquet")
    again = fp.fit(circuit, source, run=run, **how)
    same(again.circuit, whole.circuit)
    pl.read_parquet(folder / "2.parquet").select((pl.all() - 1).abs()).write_parquet(folder / "2.parquet")
    with pytest.raises(OptionError, match="different here: training rows"):
        fp.fit(circuit, fp.tables.scan(str(folder / "*.parquet"), block_rows=60), run=tmp_path / "run.ckpt", **how)


def test_options_that_don_t_go_with_a_source(folder, X, circuit):
    source = fp.tables.scan(folder)
    with pytest.raises(OptionError, match="sample_weight counts rows in memory"):
        fp.fit(circuit, source, sample_weight=np.ones(N), progress=False)
    with pytest.raises(ShapeError, match="The source has 5 columns, but the circuit is over 6"):
        fp.fit(circuit, fp.tables.scan(folder, columns=list("abcde")), progress=False)
    with pytest.raises(DataError, match=r"Validation rows: .*no rows"):
        fp.fit(circuit, source, valid=pl.DataFrame(X, schema=list("abcdef")).lazy().filter(pl.col("a") > 1), progress=False)


def test_a_loader_that_shuffles_has_no_checkpoint(X, circuit, tmp_path):
    """Its order is its own, so that what is left of an epoch can't be known."""
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(X))
    load = torch.utils.data.DataLoader
    how = {"epochs": 2, "progress": False}
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), 40, drop_last=False)
    for shuffled in (load(data, batch_size=40, shuffle=True), load(data, batch_sampler=batches)):
        assert np.isfinite(fp.fit(circuit, shuffled, **how).history["train_nll"]).all()
        for rows in ({"X": shuffled}, {"X": X, "valid": shuffled}):
            with pytest.raises(OptionError, match=r"shuffles rows .* without shuffle=True \(flatpc shuffles by its seed\)"):
                fp.fit(circuit, **rows, run=tmp_path / "a.ckpt", **how)
        assert not (tmp_path / "a.ckpt").exists()
    plain = load(data, batch_size=40)
    one = fp.fit(circuit, plain, run=tmp_path / "a.ckpt", **how)
    same(one.circuit, fp.fit(circuit, plain, **how).circuit)


def test_regularisers_work_on_sources(folder, X, circuit):
    source = fp.tables.scan(folder, block_rows=60)
    for regularizer in (fp.learning.Dropout(0.1), fp.learning.PruneGrow(rounds=1), fp.learning.Laplace(1.0), "softening"):
        found = fp.fit(circuit, source, regularizer=regularizer, epochs=4, progress=False)
        assert np.isfinite(found.history["train_nll"]).all()
        assert found.history["train_nll"][-1] < found.history["train_nll"][0]


def test_memory_stays_within_its_bound(tmp_path):
    """A million rows of 30 columns take 240 MB as float64; fitted, scored and sampled, far less beyond what 20,000 rows take."""
    rng = np.random.default_rng(0)
    for name, files, rows in (("small", 1, 20_000), ("large", 4, 250_000)):
        (tmp_path / name).mkdir()
        for i in range(files):
            frame = pl.DataFrame(rng.integers(0, 2, size=(rows, 30), dtype=np.uint8), schema=[f"x{j}" for j in range(30)])
            frame.write_parquet(tmp_path / name / f"{i}.parquet")
    script = textwrap.dedent("""
        import sys
        import flatpc as fp
        from flatpc.queries.streaming import Asked, totals_of
        rows = fp.tables.scan(sys.argv[1])
        circuit = fp.structures.hclt(rows, 2)
        found = fp.fit(circuit, rows, epochs=1, batch_size=10_000, n_threads=1, progress=False).circuit
        assert totals_of(Asked(found), rows).n_rows == rows.n_rows
        found.sample(1000)
    """)
    small, large = (peak_memory(script, tmp_path / name) for name in ("small", "large"))
    assert large < GIB
    assert large - small < 160 << 20
