"""Sources of rows: files, frames and collections that come in blocks."""

import os
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import flatpc as fp
from flatpc.errors import ColumnTypeError, DataError, ShapeError
from flatpc.tables.collections import RayPart
from flatpc.tables.sources import ArrayPart, Source
from flatpc.tables.sums import tree_of, tree_sum

NAMES = ["a", "b", "c"]


def table(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2, size=(n, 3))


def save(frame: pl.DataFrame, file: Path) -> None:
    {".parquet": frame.write_parquet, ".arrow": frame.write_ipc, ".csv": frame.write_csv}.get(
        file.suffix, lambda file: frame.write_csv(file, separator="\t")
    )(file)


def write(folder: Path, ending: str, parts=3, rows=50) -> np.ndarray:
    folder.mkdir(exist_ok=True)
    found = [table(rows + 7 * i, i) for i in range(parts)]
    for i, X in enumerate(found):
        save(pl.DataFrame(X, schema=NAMES), folder / f"{i}{ending}")
    return np.concatenate(found)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".tsv"])
def test_files_folders_and_patterns_give_the_same_rows(tmp_path, ending):
    X = write(tmp_path / "rows", ending)
    folder = fp.tables.scan(tmp_path / "rows", block_rows=16)
    pattern = fp.tables.scan(str(tmp_path / "rows" / f"*{ending}"))
    listed = fp.tables.scan(sorted((tmp_path / "rows").iterdir()))
    for source in (folder, pattern, listed):
        assert source.names == tuple(NAMES)
        assert np.array_equal(np.concatenate([block.to_numpy() for block in source.blocks()]), X)
    assert folder.counted().n_rows == len(X)
    assert all(len(block) <= 16 for block in folder.blocks())
    one = fp.tables.scan(tmp_path / "rows" / f"1{ending}", columns=["c", "a"])
    assert np.array_equal(np.concatenate([block.to_numpy() for block in one.blocks()]), table(57, 1)[:, [2, 0]])


def test_columns_are_matched_by_name(tmp_path):
    pl.DataFrame({"a": [1, 0], "b": [2, 3]}).write_parquet(tmp_path / "0.parquet")
    pl.DataFrame({"b": [5.5], "a": [1]}).write_parquet(tmp_path / "1.parquet")
    blocks = list(fp.tables.scan(tmp_path).blocks())
    assert [block.columns for block in blocks] == [["a", "b"]] * 2
    assert fp.tables.scan(tmp_path).sample(3)["b"].to_list() == [2.0, 3.0, 5.5]


def test_collections_of_other_libraries():
    torch, da, dd = pytest.importorskip("torch"), pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    import pandas as pd

    X = table(90)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(X)), batch_size=40)
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=4)
    lazy = pl.DataFrame(X, schema=NAMES).lazy().filter(pl.col("a") >= 0)
    for given, known in ((loader, 90), (da.from_array(X, chunks=(40, 2)), 90), (frame, None), (lazy, None), (X, 90)):
        source = fp.tables.source(given)
        assert source.n_rows == known
        assert source.counted().n_rows == 90
        assert np.array_equal(np.concatenate([np.asarray(block) for block in source.blocks()]), X)
    with pytest.raises(DataError, match="no tables of rows"):
        fp.tables.source(torch.utils.data.DataLoader(torch.arange(5), batch_size=2))


def test_errors_of_ray_are_ours():
    """`test_ray.py` has the real ones, where Ray is installed."""

    class Broken:
        def columns(self):
            return ["a"]

        def count(self):
            raise RuntimeError("no such disk")

        def iter_batches(self, **how):
            yield np.zeros((1, 1))
            raise KeyError("a worker died")

    part = RayPart(Broken())
    with pytest.raises(DataError, match="The Ray dataset can't be read: no such disk"):
        part.n_rows  # noqa: B018
    with pytest.raises(DataError, match="a worker died"):
        list(part.blocks())


def test_errors_of_what_makes_rows_are_ours():
    """A data set, a function of a LazyFrame and one of a Dask partition that fail, each as its author let it."""
    torch, dd = pytest.importorskip("torch"), pytest.importorskip("dask.dataframe")
    import pandas as pd

    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            if i > 3:
                raise OSError("the disk is gone")
            return torch.zeros(2)

    def broken(frame):
        return pl.DataFrame({"a": [1 / 0]})

    def half(frame):
        if len(frame) == 3:
            raise KeyError("lost")
        return frame

    loader = torch.utils.data.DataLoader(Broken(), batch_size=2)
    lazy = pl.LazyFrame({"a": [1, 2]}).map_batches(broken, schema={"a": pl.Float64})
    frame = dd.from_pandas(pd.DataFrame({"a": range(7)}), npartitions=2).map_partitions(half, meta={"a": int})
    for given, words, cause in (
        (loader, "The DataLoader can't be read: OSError: the disk is gone", OSError),
        (lazy, "The LazyFrame can't be collected: .*ZeroDivisionError", None),
        (frame, "partition 1 can't be computed: KeyError: 'lost'", KeyError),
    ):
        with pytest.raises(DataError, match=words) as caught:
            list(fp.tables.source(given).blocks())
        assert isinstance(caught.value.__cause__, cause or Exception)
    with pytest.raises(DataError, match="The LazyFrame can't be collected"):
        fp.tables.source(pl.LazyFrame({"a": [1]}).select("b"))


def test_samples_are_fair_and_by_seed(tmp_path):
    """Each of 200 rows is in a sample of 50 with probability 1/4, whether or not the source knows its size."""
    pl.DataFrame({"i": range(200)}).write_parquet(tmp_path / "0.parquet")
    pl.DataFrame({"i": range(200)}).write_csv(tmp_path / "1.csv")
    for name in ("0.parquet", "1.csv"):
        source = fp.tables.scan(tmp_path / name, block_rows=30)
        found = [source.sample(50, seed=seed)["i"].to_numpy() for seed in range(200)]
        assert all(len(np.unique(one)) == 50 and (np.diff(one) > 0).all() for one in found)
        assert np.array_equal(source.sample(50, seed=3)["i"], found[3])
        share = np.bincount(np.concatenate(found), minlength=200) / 200
        assert abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 200)
        assert len(source.sample(1000)) == 200


def test_tree_sums_have_one_shape():
    shape = lambda n: tree_of([str(i) for i in range(n)], lambda x, y: f"({x}{y})")  # noqa: E731
    assert shape(5) == "(((01)(23))4)"
    for n in (1, 2, 3, 6, 7, 8, 13):
        x = np.random.default_rng(n).standard_normal(n) * 10.0 ** np.arange(n)
        (streamed,) = tree_sum((np.array(value),) for value in x)
        assert streamed == tree_of(list(x), lambda a, b: a + b)


def test_a_file_that_is_not_there_or_not_a_table(tmp_path):
    for path, words in ((tmp_path / "no.parquet", "There is no file"), (f"{tmp_path}/*.parquet", "check the pattern")):
        with pytest.raises(DataError, match=words):
            fp.tables.scan(path)
    with pytest.raises(DataError, match="no files that end in"):
        fp.tables.scan(tmp_path)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(DataError, match=r"bad\.parquet can't be read"):
        fp.tables.scan(tmp_path / "bad.parquet")
    (tmp_path / "rows.txt").write_text("1")
    with pytest.raises(DataError, match="save it as one of these"):
        fp.tables.scan(tmp_path / "rows.txt")


def test_other_columns_are_refused_by_name(tmp_path):
    pl.DataFrame({"a": [1], "b": [2]}).write_parquet(tmp_path / "0.parquet")
    pl.DataFrame({"a": [1], "c": [2]}).write_parquet(tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet has no column 'b'.*same columns"):
        fp.tables.scan(tmp_path)
    pl.DataFrame({"a": [1], "b": [2], "c": [2]}).write_parquet(tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet has a column 'c'.*columns="):
        fp.tables.scan(tmp_path)
    assert fp.tables.scan(tmp_path, columns=["a"]).n_rows == 2
    parts = (ArrayPart(pl.DataFrame({"a": [0]}), 0), ArrayPart(pl.DataFrame({"b": [0]}), 1))
    with pytest.raises(DataError, match="rows 1 to 1: it has no column 'a'"):
        list(Source(parts, ("a",)).blocks())


DAY = pl.Series([date(2020, 1, 1), date(2020, 1, 2)])


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([0, 1], ["x", "y"], "holds text, and numbers in"),
        (["x", "y"], [0.5, 1.0], "holds numbers, and text in"),
        ([0, 1], DAY, "holds (dates|text), and numbers in"),  # a csv has dates as text
    ],
)
def test_other_types_are_refused_with_the_file(tmp_path, ending, first, second, words):
    for i, column in enumerate((first, second)):
        save(pl.DataFrame({"a": [1, 0], "b": column}), tmp_path / f"{i}{ending}")
    message = rf"1\{ending}: Column 'b' {words} .*0\{ending}; give a column one type"
    with pytest.raises(ColumnTypeError, match=message):
        fp.tables.scan(tmp_path)
    assert fp.tables.scan(tmp_path, columns=["a"]).counted().n_rows == 4


def test_other_zones_are_other_types(tmp_path):
    moment = DAY.cast(pl.Datetime("us"))
    pl.DataFrame({"a": moment}).write_parquet(tmp_path / "0.parquet")
    pl.DataFrame({"a": DAY}).write_parquet(tmp_path / "1.parquet")
    assert fp.tables.scan(tmp_path).sample(9)["a"].to_list() == 2 * moment.to_list()
    pl.DataFrame({"a": moment.dt.replace_time_zone("Europe/Rome")}).write_parquet(tmp_path / "1.parquet")
    with pytest.raises(ColumnTypeError, match=r"1\.parquet: Column 'a' holds dates in the time zone Europe/Rome, and dates in"):
        fp.tables.scan(tmp_path)


def test_numbers_of_any_width_and_columns_without_values_agree(tmp_path):
    columns = [[1, 0], [0.5, None], [True, False], [None, None], pl.Series([3, 4], dtype=pl.UInt8)]
    for i, column in enumerate(columns):
        pl.DataFrame({"a": [i, i], "b": column}).write_parquet(tmp_path / f"{i}.parquet")
    pl.DataFrame({"a": [5, 5], "b": [None, None]}).write_csv(tmp_path / "5.csv")
    pl.DataFrame(schema={"a": pl.Int64, "b": pl.String}).write_parquet(tmp_path / "6.parquet")
    found = fp.tables.scan(tmp_path).sample(99)
    assert found["b"].to_list() == [1, 0, 0.5, None, 1, 0, None, None, 3, 4, None, None]
    texts = [pl.Series(["x"], dtype=pl.Categorical), pl.Series(["y"], dtype=pl.Enum(["y"])), pl.Series(["z"])]
    source = Source(tuple(ArrayPart(pl.DataFrame({"a": column}), i) for i, column in enumerate(texts)), ("a",))
    assert source.sample(9)["a"].to_list() == ["x", "y", "z"]


def test_other_types_of_partitions_are_refused_by_name():
    dd = pytest.importorskip("dask.dataframe")
    import dask
    import pandas as pd

    frames = [pd.DataFrame({"a": [0, 1], "b": pd.Series(column, dtype=object)}) for column in ([0, 1], ["x", "y"])]
    meta = frames[0].head(0)
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_map(lambda i: frames[i], [0, 1], meta=meta)
    for ask in (lambda: fp.tables.source(frame).sample(9), lambda: fp.CircuitDensity(verbose=False).fit(frame)):
        with pytest.raises(ColumnTypeError, match="partition 1: Column 'b' holds text, and numbers in partition 0"):
            ask()
    rows = [np.array([[0, value]], dtype=object) for value in (1, "x", None)]
    parts = tuple(ArrayPart(one, i) for i, one in enumerate(rows))
    with pytest.raises(ColumnTypeError, match="rows 1 to 1: Column 'x1' holds text, and numbers in rows 0 to 0"):
        Source(parts, ("x0", "x1")).sample(9)
    assert len(Source((parts[0], parts[2]), ("x0", "x1")).sample(9)) == 2


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_files_that_change_while_they_are_read(tmp_path, ending):
    write(tmp_path, ending)
    source = fp.tables.scan(tmp_path)
    (tmp_path / f"1{ending}").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=rf"1\{ending} can't be read"):
        list(source.blocks())
    (tmp_path / "elsewhere").rename(tmp_path / f"1{ending}")
    assert sum(map(len, source.blocks())) == 171
    os.utime(tmp_path / f"1{ending}", ns=(1, 1))
    with pytest.raises(DataError, match=rf"1\{ending} was changed after it was found"):
        list(source.blocks())


def test_files_that_are_damaged_while_they_are_learnt_from(tmp_path):
    """Their time and size are those of before, so that reading alone can find it."""
    pl.DataFrame(table(3_000), schema=NAMES).write_parquet(tmp_path / "0.parquet", compression="uncompressed")
    source = fp.tables.scan(tmp_path)
    circuit = fp.structures.hclt(source, 2)
    content, before = bytearray((tmp_path / "0.parquet").read_bytes()), os.stat(tmp_path / "0.parquet")
    content[4:400] = b"\xff" * 396
    (tmp_path / "0.parquet").write_bytes(content)
    os.utime(tmp_path / "0.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match=r"0\.parquet can't be read"):
        fp.fit(circuit, source, epochs=1, progress=False)


def test_empty_parts_are_left_out_and_nothing_but_them_is_refused(tmp_path):
    pl.DataFrame({"a": [1, 0]}).write_parquet(tmp_path / "0.parquet")
    pl.DataFrame({"a": []}, schema={"a": pl.Int64}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"a": []}, schema={"a": pl.Int64}).write_csv(tmp_path / "2.csv")
    assert fp.tables.scan(tmp_path).counted().n_rows == 2
    for file in ("1.parquet", "2.csv"):
        with pytest.raises(ShapeError, match="no rows"):
            fp.tables.scan(tmp_path / file).counted()
        with pytest.raises(ShapeError, match="no rows"):
            fp.tables.scan(tmp_path / file).sample(5)


@pytest.mark.parametrize("kind", ["dask", "csv"])
def test_whatever_sums_over_rows_leaves_empty_parts_out(tmp_path, kind):
    X = table(60)
    if kind == "dask":
        dd = pytest.importorskip("dask.dataframe")
        import pandas as pd

        frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(k=np.arange(60)), npartitions=3)
        source = fp.tables.source(frame[(frame.k < 20) | (frame.k >= 40)][NAMES])
        assert [sum(map(len, source.blocks_of(part))) for part in source.parts] == [20, 0, 20]
        X, nothing = np.concatenate([X[:20], X[40:]]), frame[frame.k < 0][NAMES]
    else:
        pl.DataFrame(X[:20], schema=NAMES).write_csv(tmp_path / "0.csv")
        pl.DataFrame(schema=NAMES).write_csv(tmp_path / "1.csv")
        pl.DataFrame(X[40:], schema=NAMES).write_csv(tmp_path / "2.csv")
        source, X = fp.tables.scan(tmp_path), np.concatenate([X[:20], X[40:]])
        nothing = fp.tables.scan(tmp_path / "1.csv")
    builds = (
        fp.structures.chow_liu,
        lambda rows: fp.structures.hclt(rows, 2, family="categorical"),
        lambda rows: fp.structures.hclt(rows, 2),
        lambda rows: fp.structures.factorized(rows, family="categorical"),
    )
    for build in builds:
        circuit, other = build(source), build(X)
        assert circuit.nodes == other.nodes
        np.testing.assert_allclose(circuit.log_prob(source), other.log_prob(X), rtol=1e-12)
        with pytest.raises(ShapeError, match="no rows"):
            build(nothing)
    np.testing.assert_allclose(fp.curvature.trace(circuit, source), fp.curvature.trace(circuit, X), rtol=1e-12)
    how = {"method": fp.EM(1.0), "batch_size": None, "epochs": 2, "progress": False}
    one, other = (fp.fit(builds[2](X), rows, **how).history["train_nll"] for rows in (source, X))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    assert fp.choose(source, effort=0.1, progress=False).n_rows == 40


def test_identity_follows_the_contents(tmp_path):
    write(tmp_path, ".parquet")
    one = fp.tables.scan(tmp_path).identity()
    os.utime(tmp_path / "1.parquet", ns=(1, 1))
    assert fp.tables.scan(tmp_path).identity() == one
    pl.DataFrame(1 - table(57, 1), schema=NAMES).write_parquet(tmp_path / "1.parquet")
    assert fp.tables.scan(tmp_path).identity() != one


def test_structures_from_a_source_are_those_of_its_rows(tmp_path):
    X = np.random.default_rng(0).integers(0, 3, size=(400, 5))
    X[:, 1] = X[:, 0]
    X[399, 4] = 7  # a value that no sample need have
    pl.DataFrame(X, schema=list("abcde")).write_parquet(tmp_path / "0.parquet")
    source = fp.tables.scan(tmp_path, block_rows=60)
    for build in (
        lambda rows: fp.structures.hclt(rows, 4, family="categorical"),
        lambda rows: fp.structures.hclt(rows, 8, family="categorical", init="chow-liu", n_trees=2),
        lambda rows: fp.structures.chow_liu(rows),
        lambda rows: fp.structures.factorized(rows, family="categorical"),
        lambda rows: fp.structures.factorized(rows, family="gaussian"),
        lambda rows: fp.structures.hclt(rows, 3, family="gaussian"),
    ):
        one, other = build(source), build(X)
        assert one.nodes == other.nodes
        for i, value in other.parameters.items():
            for name in value if isinstance(value, dict) else [slice(None)]:
                np.testing.assert_allclose(one.parameters[i][name], value[name], rtol=1e-12, atol=1e-15)


def test_queries_and_curvature_of_a_source_are_those_of_its_rows():
    X = table(200)
    circuit = fp.structures.hclt(X, 3)
    source = fp.tables.source(X, block_rows=30)
    np.testing.assert_array_equal(circuit.log_prob(source), circuit.log_prob(X))
    one, other = fp.queries.flows(circuit, source), fp.queries.flows(circuit, X)
    for i, flow in other.sums.items():
        np.testing.assert_allclose(one.sums[i], flow, rtol=1e-12)
    np.testing.assert_allclose(fp.curvature.trace(circuit, source), fp.curvature.trace(circuit, X), rtol=1e-12)
    for reduction in ("sum", "mean"):
        how = {"reduction": reduction}
        assert np.isclose(fp.curvature.trace(circuit, source, **how), fp.curvature.trace(circuit, X, **how), rtol=1e-12)
        for space in ("weights", "logits", "simplex"):
            H, G = (fp.curvature.operator(circuit, rows, space=space, **how) for rows in (source, X))
            v = np.random.default_rng(0).standard_normal(H.shape[0])
            np.testing.assert_allclose(H @ v, G @ v, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(H.gradient, G.gradient, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(H.matrix(), G.matrix(), rtol=1e-9, atol=1e-9)


def test_a_scanned_csv_is_what_read_table_makes_of_it(tmp_path):
    (tmp_path / "a.csv").write_text("a;b;c;d;e\n1,5; 1;x ;?;1\n-2;2 ; y; NA;\n3,25; NA;NA;;3\n")
    scanned, table = fp.tables.scan(tmp_path / "a.csv"), fp.tables.read_table(tmp_path / "a.csv").rows
    assert scanned.sample(9).equals(table)
    assert table["a"].to_list() == [1.5, -2.0, 3.25]
    assert table["b"].to_list() == [1, 2, None]
    assert table["c"].to_list() == ["x", "y", None]
    assert scanned.sample(9).schema["d"] == table.schema["d"]


def test_arrow_files_are_tables(tmp_path):
    frame = pl.DataFrame({"a": [1, None], "b": ["x", "y"]})
    for ending in ("arrow", "ipc", "feather"):
        frame.write_ipc(tmp_path / f"a.{ending}")
        assert fp.tables.read_table(tmp_path / f"a.{ending}").rows.equals(frame)
    (tmp_path / "bad.arrow").write_bytes(b"no table")
    with pytest.raises(DataError, match=r"bad\.arrow can't be read as Arrow"):
        fp.tables.read_table(tmp_path / "bad.arrow")
