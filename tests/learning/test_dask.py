"""Learning on Dask workers: the same bits whatever their number, and if one of them is killed."""

import os
import signal
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

pytest.importorskip("distributed", reason="distributed is not installed; pip install flatpc[dask]")

import flatpc as fp
from flatpc.errors import ClusterError, DataError, OptionError
from flatpc.tables.clusters import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

HOW = {"epochs": 2, "batch_size": None, "method": fp.EM(step_size=1.0), "progress": False}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    X = np.random.default_rng(0).integers(0, 2, size=(600, 6))
    X[:, 1] = X[:, 0]
    pl.DataFrame(X, schema=list("abcdef")).write_parquet(folder / "0.parquet")
    return fp.tables.scan(folder, block_rows=70)


@pytest.fixture(scope="module")
def circuit(rows):
    return fp.structures.hclt(rows, 3)


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def same(one, other):
    for i, value in one.parameters.items():
        for name in value if isinstance(value, dict) else [slice(None)]:
            np.testing.assert_array_equal(value[name], other.parameters[i][name])


class Killing(Cluster):
    """Kills a worker, once, when its parts have been handed out."""

    def _submitted(self, *arguments):
        found = super()._submitted(*arguments)
        if not getattr(self, "killed", False):
            self.killed = True
            pids = self.client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        return found


@pytest.mark.parametrize(
    "how",
    [HOW, {**HOW, "method": fp.Adam(0.1), "sharpness": fp.Sharpness(mu=0.1)}, {**HOW, "method": "em", "batch_size": 150}],
    ids=["em", "adam with penalty", "mini-batches"],
)
def test_workers_give_the_bits_of_one_process(rows, circuit, client, how):
    """One process adds up the same parts in the same order, whoever works on them."""
    many = fp.fit(circuit, rows.on(client), **how)
    alone = fp.fit(circuit, replace(rows, cluster=Here()), **how)
    same(alone.circuit, many.circuit)
    np.testing.assert_array_equal(alone.history["train_nll"], many.history["train_nll"])


def test_a_worker_that_is_killed_changes_no_bit(rows, circuit, client):
    lost = Killing(client)
    found = fp.fit(circuit, replace(rows, cluster=lost), **HOW)
    assert lost.killed
    same(found.circuit, fp.fit(circuit, replace(rows, cluster=Here()), **HOW).circuit)


class Here:
    """A cluster that is this process: parts and sums are the same, but nothing is sent anywhere."""

    def add_up(self, work, source, order, fixed, shared):
        return source.on(None).add_up(work, fixed, shared, order)

    def map(self, work, source, order, fixed, shared):
        return list(source.on(None).map(work, fixed, shared, order))


def test_queries_curvature_and_structures_on_workers(rows, circuit, client):
    there = rows.on(client)
    np.testing.assert_array_equal(circuit.log_prob(there), circuit.log_prob(rows))
    assert fp.curvature.trace(circuit, there, reduction="sum") == fp.curvature.trace(circuit, rows, reduction="sum")
    H, G = fp.curvature.operator(circuit, there), fp.curvature.operator(circuit, rows)
    v = np.random.default_rng(0).standard_normal(H.shape[0])
    np.testing.assert_array_equal(H @ v, G @ v)
    one, other = fp.curvature.penalty(circuit, there), fp.curvature.penalty(circuit, rows)
    assert one.value == other.value
    np.testing.assert_array_equal(fp.curvature.hessian(circuit, there), fp.curvature.hessian(circuit, rows))
    for node, found in fp.curvature.diagonal(circuit, there).items():
        np.testing.assert_array_equal(found, fp.curvature.diagonal(circuit, rows)[node])
    for ask in (fp.curvature.weighted_trace, fp.curvature.evidence, lambda *a: fp.curvature.breakdown(*a).total):
        np.testing.assert_array_equal(ask(circuit, there), ask(circuit, rows))
    post = [fp.curvature.laplace(circuit, source).log_prob(rows.sample(5)) for source in (there, rows)]
    np.testing.assert_array_equal(post[0].error, post[1].error)
    same(fp.structures.hclt(there, 3), circuit)


def test_dask_collections_are_worked_on_where_they_are(rows, circuit, client):
    import dask.array as da
    import dask.dataframe as dd

    table = rows.sample(600)
    array = da.from_array(table.to_numpy(), chunks=(70, 6))
    frame = dd.from_pandas(table.to_pandas(), npartitions=5)
    for given in (array, frame, frame[frame["a"] >= 0].persist()):
        there = fp.tables.source(given).on(client)
        learnt = fp.fit(circuit, there, **HOW).circuit
        np.testing.assert_allclose(learnt.log_prob(rows), fp.fit(circuit, rows, **HOW).circuit.log_prob(rows), rtol=1e-4)
    empty = fp.tables.source(frame[frame["a"] > 5]).on(client)
    with pytest.raises(DataError, match="no rows"):
        fp.fit(circuit, empty, **HOW)


def test_what_goes_wrong_on_a_worker_names_the_part(rows, circuit, client, tmp_path):
    pl.DataFrame({name: [0, 1] for name in "abcdef"}).write_parquet(tmp_path / "0.parquet")
    pl.DataFrame({name: [0, 7] for name in "abcdef"}).write_parquet(tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet: Column 'a'"):
        circuit.log_prob(fp.tables.scan(tmp_path).on(client))
    with pytest.raises(OptionError, match=r"learn here: source\.on\(None\)"):
        fp.fit(circuit, rows.on(client), regularizer=fp.learning.Dropout(0.1), epochs=1, progress=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda good: good.rename(columns={"b": "z"}), "it has no column 'b'"),
        (lambda good: good.assign(z=1), "it has a column 'z'"),
        (lambda good: good.assign(b="x"), "Column 'b' holds 'x' in row 0"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_partitions_with_other_columns_or_types_are_named(rows, circuit, client, change, words, there):
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    good = rows.sample(50).to_pandas()
    parts = [dask.delayed(part) for part in (good, change(good))]
    frame = dd.from_delayed(parts, meta=good.iloc[:0], verify_meta=False)
    source = fp.tables.source(frame).on(client if there else None)
    for ask in (circuit.log_prob, lambda given: fp.fit(circuit, given, **HOW)):
        with pytest.raises(DataError, match=f"partition 1: .*{words}"):
            ask(source)


@pytest.mark.parametrize("there", [False, True])
def test_empty_partitions_add_nothing(rows, circuit, client, there):
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    good = rows.sample(50).to_pandas()
    learnt = []
    for parts in ([good[:30], good[30:]], [good[:30], good[:0], good[30:], good[:0]]):
        frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=good.iloc[:0])
        learnt.append(fp.fit(circuit, fp.tables.source(frame).on(client if there else None), **HOW))
    np.testing.assert_allclose(*(one.history["train_nll"] for one in learnt), rtol=1e-12)


def test_a_scheduler_that_ends_loses_nothing(rows, circuit, tmp_path):
    from distributed import Client, LocalCluster

    how = {**HOW, "epochs": 4}
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50) as cluster:
        there = rows.on(Client(cluster, set_as_default=False))

        def end(row, _):
            if row["epoch"] == 2:
                cluster.close()

        with pytest.raises(ClusterError, match=r"can't be reached any more.*from a checkpoint learning goes on"):
            fp.fit(circuit, there, run=fp.learning.Run(checkpoint=tmp_path / "run", callbacks=[end]), **how)
    went_on = fp.fit(circuit, replace(rows, cluster=Here()), run=tmp_path / "run", **how)
    same(fp.fit(circuit, replace(rows, cluster=Here()), **how).circuit, went_on.circuit)


def test_a_scheduler_that_is_not_there(rows, monkeypatch):
    from flatpc.tables import clusters

    monkeypatch.setattr(clusters, "PATIENCE", "1s")
    with pytest.raises(ClusterError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:1; start one with `dask scheduler`"):
        rows.on("tcp://127.0.0.1:1")
    with pytest.raises(OptionError, match="give 'dask'"):
        rows.on(3)


def test_candidates_on_dask_through_joblib(rows, circuit, client):
    """Sweeps go where joblib's backend sends them, and come back with the numbers of this process."""
    import joblib

    X = rows.sample(600).to_numpy().astype(float)
    how = {"valid": X[400:], "grid": (0.0, 1.0), "epochs": 2}
    with client.as_current(), joblib.parallel_config(backend="dask", client=client):
        there = fp.search.select(circuit, X[:400], **how)
    here = fp.search.select(circuit, X[:400], n_jobs=1, **how)
    assert [one.valid_nll for one in there.candidates] == [one.valid_nll for one in here.candidates]


def test_a_partition_that_cant_be_computed_is_named(client, circuit):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    def broken(frame):
        if len(frame) and frame["a"].iloc[0] == 40:
            raise OSError("the disk is gone")
        return frame * 0

    frame = pd.DataFrame({name: range(60) for name in "abcdef"})
    source = fp.tables.source(dd.from_pandas(frame, npartitions=3).map_partitions(broken, meta=frame)).on(client)
    for ask in (
        lambda: circuit.log_prob(source),
        lambda: fp.curvature.trace(circuit, source, reduction="sum"),
        lambda: fp.fit(circuit, source, epochs=1, progress=False),
    ):
        with pytest.raises(DataError, match="partition 2 can't be computed: OSError: the disk is gone") as caught:
            ask()
        assert isinstance(caught.value.__cause__, OSError)
