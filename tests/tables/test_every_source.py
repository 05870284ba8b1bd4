"""Every kind of source at every door that takes rows: the answers are those for the same rows in memory.

`test_ray.py` has Ray's datasets, where Ray is installed.
"""

import numpy as np
import polars as pl
import pytest

import flatpc as fp

N, NAMES = 240, list("abcde")


def rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(N, 5))
    X[:, 1::2] = np.where(rng.random((N, 2)) < 0.85, X[:, :-1:2], X[:, 1::2])
    return X


X = rows()
CIRCUIT = fp.structures.hclt(X, 3)


SAVE = {"parquet": pl.DataFrame.write_parquet, "arrow": pl.DataFrame.write_ipc, "csv": pl.DataFrame.write_csv}


def _parts(folder, ending):
    folder.mkdir()
    for part in range(3):
        SAVE[ending](pl.DataFrame(X[part * 80 : (part + 1) * 80], schema=NAMES), folder / f"{part}.{ending}")
    return folder


def _file(place, ending):
    SAVE[ending](pl.DataFrame(X, schema=NAMES), place / f"rows.{ending}")
    return fp.tables.scan(place / f"rows.{ending}", block_rows=50)


def _dask_frame(place):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3, sort=False)


def _dask_array(place):
    return pytest.importorskip("dask.array").from_array(X, chunks=(70, 5))


def _loader(place):
    torch = pytest.importorskip("torch")
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(X)), batch_size=60)


KINDS = {
    **{f"{ending} file": lambda place, ending=ending: _file(place, ending) for ending in ("parquet", "arrow", "csv")},
    "folder": lambda place: fp.tables.scan(_parts(place / "rows", "parquet"), block_rows=50),
    "pattern": lambda place: fp.tables.scan(f"{_parts(place / 'rows', 'csv')}/*.csv", block_rows=50),
    "LazyFrame": lambda place: pl.DataFrame(X, schema=NAMES).lazy(),
    "Dask DataFrame": _dask_frame,
    "Dask Array": _dask_array,
    "DataLoader": _loader,
}


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    return KINDS[request.param](tmp_path)


def same_parameters(one, other, rtol=1e-9):
    assert one.nodes == other.nodes
    for i, expected in other.parameters.items():
        for name in expected if isinstance(expected, dict) else [...]:
            np.testing.assert_allclose(one.parameters[i][name], expected[name], rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("how", [{"method": fp.EM(1.0)}, {"method": fp.Adam(0.1)}], ids=["EM", "Adam"])
def test_fit(source, how):
    options = {"epochs": 3, "batch_size": None, "dtype": "float64", "progress": False, **how}
    one, other = (fp.fit(CIRCUIT, given, **options) for given in (source, X))
    np.testing.assert_allclose(one.history["train_nll"], other.history["train_nll"], rtol=1e-10)
    same_parameters(one.circuit, other.circuit)


def test_fit_by_batches_sees_every_row(source):
    learnt = fp.fit(CIRCUIT, source, epochs=20, batch_size=60, progress=False)
    in_memory = fp.fit(CIRCUIT, X, epochs=20, batch_size=60, progress=False)
    assert learnt.circuit.log_prob(X).mean() == pytest.approx(in_memory.circuit.log_prob(X).mean(), abs=0.02)


def test_questions_and_curvature(source):
    np.testing.assert_allclose(CIRCUIT.log_prob(source), CIRCUIT.log_prob(X), rtol=1e-12)
    np.testing.assert_allclose(fp.curvature.trace(CIRCUIT, source), fp.curvature.trace(CIRCUIT, X), rtol=1e-10)
    H, expected = (fp.curvature.operator(CIRCUIT, given) for given in (source, X))
    v = np.random.default_rng(0).standard_normal(H.shape[0])
    np.testing.assert_allclose(H @ v, expected @ v, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "build",
    [
        lambda given: fp.structures.hclt(given, 3),
        lambda given: fp.structures.chow_liu(given),
        lambda given: fp.structures.factorized(given),
        lambda given: fp.structures.hclt(given, 3, family="gaussian"),
    ],
    ids=["hclt", "chow_liu", "factorized", "gaussian"],
)
def test_structures(source, build):
    same_parameters(build(source), build(X))


def test_choose_and_the_estimator(source):
    found = fp.choose(source, effort=0.2, progress=False)
    independent = fp.structures.factorized(X).log_prob(X).mean()
    assert found.n_rows == N
    assert found.circuit.log_prob(X).mean() > independent + 0.3
    density = fp.CircuitDensity(effort=0.2).fit(source)
    assert density.score(source) > independent + 0.3
    assert density.score_samples(source).shape == (N,)
