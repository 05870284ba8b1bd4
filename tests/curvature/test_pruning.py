"""Pruning by curvature: against removing every edge, refits of a unit, and pruning by flow."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import flatpc as fp
from flatpc.errors import OptionError, TiedParametersError
from flatpc.structures.edit.pruning import without_least
from tests.oracles.random_circuits import circuits
from tests.oracles.random_circuits import rows as rows_of


def tree(n_latents=3, n_rows=200, epochs=30):
    rng = np.random.default_rng(0)
    X = (np.cumsum(rng.random((n_rows, 5)) < rng.choice([0.15, 0.8], (n_rows, 1)), axis=1) % 2).astype(float)
    start = fp.structures.hclt(X, n_latents, seed=0, init="random")
    options = {"batch_size": None, "epochs": epochs, "dtype": "float64", "progress": False}
    return fp.fit(start, X, method=fp.EM(1.0), **options).circuit, X


def without_edge(circuit, i, unit, edge):
    weights = circuit.parameters[i].copy()
    weights[unit, edge] = 0
    weights[unit] /= weights[unit].sum()
    return circuit.with_parameters({i: weights})


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_damage_is_what_removing_an_edge_loses(data):
    circuit = data.draw(circuits(max_variables=4))
    assume(not circuit.has_tied_parameters)
    rows = data.draw(rows_of(circuit, max_rows=5))
    rows = rows[np.isfinite(circuit.log_prob(rows, missing="marginalize"))]
    assume(len(rows) > 0)
    now = circuit.log_prob(rows, missing="marginalize").sum()
    for i, losses in fp.curvature.edge_losses(circuit, rows, missing="marginalize").items():
        theta = circuit.parameters[i]
        for unit, edge in np.argwhere((theta > 0) & (theta < 1 - 1e-9)):
            lost = now - without_edge(circuit, i, unit, edge).log_prob(rows, missing="marginalize").sum()
            assert losses[unit, edge] == pytest.approx(lost, rel=1e-6, abs=1e-8)


def test_surgeon_is_damage_less_what_the_others_win():
    """Against removing an edge of the root and maximising the likelihood over its other weights, by scipy."""
    rng = np.random.default_rng(1)
    n = 400
    kind = rng.choice(4, n, p=[0.4, 0.3, 0.25, 0.05])
    centres = rng.uniform(0.15, 0.85, (4, 6))
    X = (rng.random((n, 6)) < centres[kind]).astype(float)
    inputs = [fp.Input(v, fp.Bernoulli(), 4) for v in range(6)]
    nodes = [*inputs, fp.Product(tuple(range(6))), fp.Sum((6,))]
    start = fp.Circuit(nodes, {**{v: {"p": centres[:, v]} for v in range(6)}, 7: [[0.4, 0.3, 0.2, 0.1]]})
    parts = np.stack([start.with_parameters({7: row[None]}).log_prob(X) for row in np.eye(4)], axis=1)

    def best(kept):
        def objective(z):
            w = np.exp(z - z.max())
            return -np.log(np.exp(parts[:, kept]) @ (w / w.sum())).sum()

        found = minimize(objective, np.zeros(len(kept)), tol=1e-12)
        w = np.exp(found.x - found.x.max())
        return -found.fun, w / w.sum()

    top, weights = best([0, 1, 2, 3])
    circuit = start.with_parameters({7: weights[None]})
    losses = fp.curvature.edge_losses(circuit, X, how="surgeon")[7][0]
    damage = fp.curvature.edge_losses(circuit, X)[7][0]
    rare = int(np.argmin(weights))
    others = [c for c in range(4) if c != rare]
    exact, refitted = best(others)
    assert top - exact <= losses[rare] < 1.1 * (top - exact)
    assert losses[rare] < damage[rare]
    assert (losses <= damage).all()
    assert np.argmin(losses) == rare
    # The weights that are left are moved towards those of the refit.
    pruned = fp.curvature.prune(circuit, X, 0.25, how="surgeon").parameters[7][0]
    scaled = weights[others] / weights[others].sum()
    assert abs(pruned[others] - refitted).max() < 0.5 * abs(scaled - refitted).max()


@pytest.mark.parametrize("how", ["damage", "surgeon"])
def test_less_is_lost_than_by_flow(how):
    """Half of the edges of a fitted tree, and no unit without an edge; against the log-likelihood of the rows."""
    circuit, X = tree(6)
    by_flow = fp.structures.prune(circuit, X, 0.5)
    found = fp.curvature.prune(circuit, X, 0.5, how=how)
    assert found.n_edges == by_flow.n_edges
    assert found.log_prob(X).mean() > by_flow.log_prob(X).mean()
    for i, node in enumerate(found.nodes):
        if isinstance(node, fp.Sum):
            np.testing.assert_allclose(found.parameters[i].sum(axis=1), 1.0)
            assert (found.parameters[i][~node.mask] == 0).all() if node.mask is not None else True


def test_nothing_is_removed_for_nothing():
    circuit, X = tree(epochs=3)
    for how in ("damage", "surgeon"):
        np.testing.assert_allclose(fp.curvature.prune(circuit, X, 0.0, how=how).log_prob(X), circuit.log_prob(X), atol=1e-12)
    same = without_least(circuit, fp.curvature.edge_losses(circuit, X), 0.3)
    np.testing.assert_array_equal(fp.curvature.prune(circuit, X, 0.3).log_prob(X), same.log_prob(X))


def test_mistakes_are_named():
    circuit, X = tree(epochs=1)
    with pytest.raises(OptionError, match="how"):
        fp.curvature.prune(circuit, X, 0.5, how="flow")
    with pytest.raises(OptionError, match="fraction"):
        fp.curvature.prune(circuit, X, 1.0)
    chain = fp.structures.hmm(3, 2, family="bernoulli", homogeneous=True)
    with pytest.raises(TiedParametersError):
        fp.curvature.edge_losses(chain, [[0.0, 1.0, 0.0]])
