"""Several families for each unit: the mixture is what it says, and learning tells which family a unit is."""

import numpy as np
import pytest
from scipy import stats

import flatpc as fp
from flatpc.circuit.nodes import Mixture


def two_kinds(n=2000, seed=0):
    """Rows of two clusters: normal ones on the left, exponential ones on the right."""
    rng = np.random.default_rng(seed)
    left = rng.random(n) < 0.5
    return np.column_stack([np.where(left, rng.normal(-9, 1, n), rng.exponential(2, n)) for _ in range(2)])


def start(X, **options):
    return fp.structures.mix_families(
        fp.structures.mixture(X, 2, blocks=None), families={0: fp.Exponential(), 1: "exponential"}, **options
    )


def test_units_learn_which_family_they_are():
    X = two_kinds()
    learnt = fp.fit(start(X), X, epochs=400, batch_size=None, dtype="float64", progress=False).circuit
    for i, node in enumerate(learnt.nodes):
        if isinstance(node, Mixture):
            np.testing.assert_allclose(np.sort(np.asarray(learnt.parameters[i]), axis=None), [0, 0, 1, 1], atol=0.1)
    test = two_kinds(seed=1)
    truth = np.log(0.5 * np.prod(stats.norm.pdf(test, -9, 1), axis=1) + 0.5 * np.prod(stats.expon.pdf(test, scale=2), axis=1))
    gaussians = fp.fit(fp.structures.mixture(X, 2, blocks=None), X, epochs=40, progress=False).circuit
    assert abs(learnt.log_prob(test).mean() - truth.mean()) < 0.01
    assert gaussians.log_prob(test).mean() < truth.mean() - 0.3


def test_likelihoods_are_those_of_the_formula_on_both_engines():
    X = two_kinds(60)
    before = fp.structures.mixture(X, 2, blocks=None)
    after = start(X, share=0.3, seed=3)
    inputs = [(i, node) for i, node in enumerate(after.nodes) if isinstance(node, fp.Input)]
    logs = {}
    for i, node in inputs:
        x = X[:, node.variable]
        with np.errstate(all="ignore"):
            found = np.where(node.family.outside(x)[:, None], -np.inf, node.family.log_density(after.parameters[i], np.abs(x)))
            found = found if node.family != fp.Gaussian() else node.family.log_density(after.parameters[i], x)
        logs.setdefault(node.variable, []).append(found)
    units = sum(np.log(0.7 * np.exp(a) + 0.3 * np.exp(b)) for a, b in logs.values())
    wanted = np.log(np.exp(units) @ np.asarray(before.parameters[3])[0])
    for engine in ("numba", "torch"):
        np.testing.assert_allclose(after.log_prob(X, engine=engine), wanted, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_em_never_lowers_the_likelihood(seed):
    X = two_kinds(300, seed)
    tree = fp.structures.hclt(X, 3, family="gaussian", seed=seed)
    both = fp.structures.mix_families(tree, families={0: [fp.StudentT(), fp.Logistic(), "exponential"]}, seed=seed)
    learnt = fp.fit(both, X, epochs=25, batch_size=None, dtype="float64", progress=False)
    assert (np.diff(learnt.history["train_nll"]) <= 1e-9).all()


def test_ties_stay_ties():
    shared = [fp.Input(0, fp.Gaussian(), 2), fp.Input(1, fp.Gaussian(), 2, tie=0), fp.Product((0, 1)), fp.Sum((2,))]
    units = {"mean": [0.0, 5.0], "variance": [1.0, 2.0]}
    circuit = fp.Circuit(shared, {0: units, 3: [[0.4, 0.6]]})
    both = fp.structures.mix_families(circuit, families={0: fp.StudentT(), 1: fp.StudentT()})
    assert [getattr(node, "tie", None) for node in both.nodes] == [None, None, None, 0, 1, 2, None, None]
    X = np.random.default_rng(0).normal(size=(50, 2))
    learnt = fp.fit(both, X, epochs=2, progress=False).circuit
    np.testing.assert_array_equal(learnt.log_prob(X), learnt.log_prob(X[:, ::-1]))


def test_what_is_no_further_family_changes_nothing():
    X = two_kinds(100)
    circuit = fp.structures.mixture(X, 2, blocks=None)
    same = fp.structures.mix_families(circuit, families={1: fp.Gaussian()})
    np.testing.assert_array_equal(same.log_prob(X), circuit.log_prob(X))
    assert len(same.nodes) == len(circuit.nodes)


@pytest.mark.parametrize(
    ("families", "said"),
    [({7: fp.StudentT()}, "column 7"), ({0: fp.Poisson()}, "densities"), ({0: fp.MultivariateGaussian(2)}, "one variable"),
     ({0: 3}, "families"), ({}, "families"), ({"a": fp.StudentT()}, "families"), (None, "families")],
)  # fmt: skip
def test_wrong_families_are_refused(families, said):
    X = two_kinds(100)
    with pytest.raises(fp.FlatpcError, match=said):
        fp.structures.mix_families(fp.structures.mixture(X, 2, blocks=None), families=families)
    with pytest.raises(fp.FlatpcError, match="shared with other columns"):
        fp.structures.mix_families(fp.structures.mixture(X, 2), families={0: fp.StudentT()})


def test_a_search_tries_them():
    rng = np.random.default_rng(0)
    left = rng.random(900) < 0.5
    X = np.column_stack([np.where(left, rng.normal(-9, 1, 900), 3 + rng.standard_t(1.2, 900)) for _ in range(3)])
    density = fp.CircuitDensity(effort=6, structure="mixture", n_latents=4, verbose=False, random_state=0).fit(X[:600])
    mixed = [c for c in density.candidates_ if "several families to a unit" in c.name]
    assert mixed
    assert np.isfinite(density.score_samples(X[600:])).all()
    assert np.isfinite(density.sample(100, random_state=0)).all()
