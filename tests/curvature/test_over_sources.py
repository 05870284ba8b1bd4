"""Curvature of rows that come from a source is that of the same rows in memory: sums over blocks."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import ColumnTypeError, DataError, TiedParametersError

N = 230


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, size=(N, 4)).astype(float)
    rows[:, 1] = np.where(rng.random(N) < 0.8, rows[:, 0], rows[:, 1])
    rows[rng.random(rows.shape) < 0.05] = np.nan
    return rows


@pytest.fixture(scope="module")
def circuit(X):
    start = fp.structures.hclt(np.nan_to_num(X), 3, family="categorical", seed=1)
    how = {"method": fp.EM(1.0), "batch_size": None, "epochs": 30, "dtype": "float64", "missing": "marginalize"}
    return fp.fit(start, X, progress=False, **how).circuit


@pytest.fixture(scope="module")
def source(X):
    return fp.tables.source(X, block_rows=40)


def close(one, other, rtol=1e-9, atol=1e-9):
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in other:
            close(one[key], other[key], rtol, atol)
    else:
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


M = {"missing": "marginalize"}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("include_inputs", [False, True])
@pytest.mark.parametrize("space", ["weights", "logits", "simplex"])
def test_sums(circuit, X, source, space, include_inputs, reduction):
    how = {"space": space, "include_inputs": include_inputs, "reduction": reduction, **M}
    one, other = (fp.curvature.penalty(circuit, rows, **how) for rows in (source, X))
    close(one.value, other.value)
    close(one.gradient, other.gradient)
    one, other = (fp.curvature.breakdown(circuit, rows, **how) for rows in (source, X))
    close(one.total, other.total)
    close(one.by_node, other.by_node)
    close(one.by_layer, other.by_layer)
    for ask in (fp.curvature.diagonal, fp.curvature.hessian):
        close(ask(circuit, source, **how), ask(circuit, X, **how))


def test_the_hessian_of_a_tree_has_its_closed_form(X):
    rows = np.nan_to_num(X)
    tree = fp.structures.mixture(rows, 2, family="categorical", seed=0)
    assert tree.is_tree
    close(*(fp.curvature.hessian(tree, each, method="tree") for each in (fp.tables.source(rows, block_rows=40), rows)))


@pytest.mark.parametrize("how", ["damage", "surgeon"])
def test_edges(circuit, X, source, how):
    close(*(fp.curvature.edge_losses(circuit, rows, how=how, **M) for rows in (source, X)))
    one, other = (fp.curvature.prune(circuit, rows, 0.4, how=how, **M) for rows in (source, X))
    assert one.nodes == other.nodes
    close(one.log_prob(X, **M), other.log_prob(X, **M))


@pytest.mark.parametrize("include_inputs", [False, True])
def test_weighted_traces(circuit, X, source, include_inputs):
    for reduction in ("none", "sum", "mean"):
        how = {"prior": 0.5, "include_inputs": include_inputs, "reduction": reduction, **M}
        close(*(fp.curvature.weighted_trace(circuit, rows, **how) for rows in (source, X)))


@pytest.mark.parametrize("structure", ["full", "operator", "block", "diagonal"])
@pytest.mark.parametrize("include_inputs", [False, True])
def test_posteriors(circuit, X, source, structure, include_inputs):
    one, other = (
        fp.curvature.laplace(circuit, rows, structure=structure, include_inputs=include_inputs, **M) for rows in (source, X)
    )
    assert one.damping == other.damping
    assert np.isclose(one.gap, other.gap, rtol=1e-5, atol=1e-9)
    found, expected = (post.log_prob(X[:20], **M) for post in (one, other))
    close(found.value, expected.value)
    close(found.error, expected.error, rtol=1e-5)


def test_evidence_and_optimism(circuit, X, source):
    for structure in ("full", "complete"):
        close(*(fp.curvature.evidence(circuit, rows, structure=structure, **M) for rows in (source, X)))
    exact = [fp.curvature.takeuchi(circuit, rows, n_draws=None, **M) for rows in (source, X)]
    close(exact[0].value, exact[1].value)
    assert exact[0].n_products == exact[1].n_products == N
    for n_steps in (None, 5):
        draws = [fp.curvature.takeuchi(circuit, rows, n_draws=64, n_steps=n_steps, **M) for rows in (source, X)]
        # Other signs, drawn block by block: within five standard errors.
        assert abs(draws[0].value - draws[1].value) < 5 * np.hypot(draws[0].standard_error, draws[1].standard_error)


def test_landscapes(circuit, X, source):
    how = {"dimensions": 1, "n_steps": 5, **M}
    one, other = (fp.curvature.landscape(circuit, rows, X[:50], **how) for rows in (source, X))
    close(one.train, other.train)
    close(one.valid, other.valid)
    close(*(fp.curvature.landscape(circuit, X[:50], rows, **how).valid for rows in (source, X)))


def test_what_takes_rows_in_memory_says_so(X, source, circuit):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    gaussian = fp.structures.mixture(rows, 2, family="gaussian", seed=0)
    blocks = fp.tables.source(rows, block_rows=20)
    with pytest.raises(ColumnTypeError, match=r"include_inputs=False to hold them still, or fp.tables.source\(X\).sample"):
        fp.curvature.laplace(gaussian, blocks)
    still = [fp.curvature.laplace(gaussian, each, include_inputs=False).log_prob(rows).error for each in (blocks, rows)]
    close(*still)
    post = fp.curvature.laplace(circuit, X, **M)
    with pytest.raises(ColumnTypeError, match="comes in blocks, and this needs a table in memory"):
        post.log_prob(source, **M)
    with pytest.raises(DataError, match="missing"):
        fp.curvature.penalty(circuit, source)
    with pytest.raises(TiedParametersError):
        fp.curvature.diagonal(fp.structures.hmm(4, 2, homogeneous=True), fp.tables.source(np.zeros((9, 4)), block_rows=4))
