"""Multivariate Gaussian inputs against scipy, scikit-learn, conditioning written out, and automatic differentiation."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture

import flatpc as fp
from flatpc.errors import FamilyError, OptionError, ParameterError, StructureError
from flatpc.search.floors import with_floor
from flatpc.search.plans import FLOORS
from flatpc.search.scaling import Scaling, in_users_units
from tests.oracles.evaluate import log_prob as by_hand


def covariances(width, d, seed=0):
    root = np.random.default_rng(seed).normal(size=(width, d, d))
    return root @ root.swapaxes(1, 2) + 0.3 * np.eye(d)


class TestMultivariateGaussian(fp.testing.MultivariateFamilySuite):
    family = fp.MultivariateGaussian(3)
    parameters: ClassVar = {"mean": np.random.default_rng(1).normal(size=(2, 3)), "covariance": covariances(2, 3)}

    def maximum_likelihood(self, x):
        return {"mean": x.mean(axis=0)[None], "covariance": np.cov(x.T, bias=True)[None]}


class TestFloorOfEach(fp.testing.MultivariateFamilySuite):
    """Floors that differ, and bind: EM ends at the largest likelihood among covariances above them."""

    family = fp.MultivariateGaussian(2, (0.05, 4.0))
    parameters: ClassVar = {"mean": [[0.0, 1.0], [2.0, 2.0]], "covariance": [[[1.0, 0.9], [0.9, 5.0]], [[2.0, 1.0], [1.0, 6.0]]]}


class TestLowRank(fp.testing.MultivariateFamilySuite):
    family = fp.MultivariateGaussian(4, rank=1)
    parameters: ClassVar = {
        "mean": np.random.default_rng(1).normal(size=(2, 4)),
        "loadings": np.random.default_rng(2).normal(size=(2, 4, 1)),
        "noise": np.random.default_rng(3).uniform(0.3, 1.5, size=(2, 4)),
    }


def test_low_rank_ends_at_the_likelihood_of_factor_analysis():
    """The limit of EM has the likelihood of scikit-learn's FactorAnalysis, and is the same density up to a rotation."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(300, 6)) * rng.uniform(0.3, 1.0, 6) + 5.0
    family = fp.MultivariateGaussian(6, 1e-9, rank=2)
    p = family.initialize_from(X, 1, rng, "uniform")
    for _ in range(1500):
        p = family.update(p, family.statistics(p, X, np.ones((len(X), 1))))
    rival = FactorAnalysis(2, svd_method="lapack", tol=1e-12, max_iter=20_000).fit(X)
    np.testing.assert_allclose(family.log_density(p, X).mean(), rival.score(X), rtol=1e-8)
    np.testing.assert_allclose(family.covariance(p)[0], rival.get_covariance(), rtol=1e-3, atol=1e-3)


def test_a_posterior_says_what_it_has_not():
    X = MIXED.sample(60, seed=1)
    posterior = fp.curvature.laplace(MIXED, X)
    assert (posterior.log_prob(X[:3]).error > 0).all()
    unknown = np.where(np.arange(6) == 4, np.nan, X[:3])
    with pytest.raises(FamilyError, match="has no error bar in closed form"):
        posterior.expectation(unknown)
    drawn = posterior.ask(lambda circuit: circuit.expectation(unknown)[:, 4], n=20)
    assert (drawn.error > 0).all()


WIDTH = 3
MIXED = fp.Circuit(
    [
        fp.Input(variables=(3, 0, 4), family=fp.MultivariateGaussian(3), width=WIDTH),
        fp.Input(1, fp.Categorical(3), WIDTH),
        fp.Input(variables=(2, 5), family=fp.MultivariateGaussian(2), width=WIDTH),
        fp.Product((0, 1, 2)),
        fp.Sum((3,)),
    ]
).with_parameters({0: {"mean": np.random.default_rng(1).normal(size=(WIDTH, 3)), "covariance": covariances(WIDTH, 3)}})


def rows_with_gaps(n=60, seed=0, share=0.35):
    X = MIXED.sample(n, seed=seed)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_log_likelihood_is_that_of_scipy(engine):
    X = rows_with_gaps()
    np.testing.assert_allclose(MIXED.log_prob(X, missing="marginalize", engine=engine), by_hand(MIXED, X), rtol=1e-12, atol=1e-12)
    single = MIXED.log_prob(X, missing="marginalize", engine=engine, dtype="float32")
    np.testing.assert_allclose(single, by_hand(MIXED, X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_conditionals_are_those_of_scipy(engine):
    X = MIXED.sample(20, seed=3)
    known = X.copy()
    known[:, [0, 2, 4]] = np.nan
    found = MIXED.conditional_log_prob(X, given=[1, 3, 5], engine=engine)
    np.testing.assert_allclose(found, by_hand(MIXED, X) - by_hand(MIXED, known), rtol=1e-10, atol=1e-11)


def one_unit(seed=2, d=4):
    mean, covariance = np.random.default_rng(seed).normal(size=(1, d)), covariances(1, d, seed)
    nodes = [fp.Input(variables=range(d), family=fp.MultivariateGaussian(d))]
    return fp.Circuit(nodes, {0: {"mean": mean, "covariance": covariance}}), mean[0], covariance[0]


def conditioned(mean, covariance, row):
    """Mean and covariance of the unknown entries, by the precision matrix."""
    u, o = np.isnan(row), ~np.isnan(row)
    precision = np.linalg.inv(covariance)
    inverse = np.linalg.inv(precision[np.ix_(u, u)])
    return mean[u] - inverse @ precision[np.ix_(u, o)] @ (row[o] - mean[o]), inverse


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_moments_modes_and_samples_given_known_entries(engine):
    """Against the formula by precisions; samples by Mahalanobis distances, level 1e-4."""
    circuit, mean, covariance = one_unit()
    row = np.array([0.3, np.nan, np.nan, -1.0])
    wanted, left = conditioned(mean, covariance, row)
    np.testing.assert_allclose(circuit.expectation([row], engine=engine)[0, 1:3], wanted, rtol=1e-10)
    np.testing.assert_allclose(circuit.variance([row], engine=engine)[0], [0, left[0, 0], left[1, 1], 0], rtol=1e-10)
    done = circuit.mpe([row], engine=engine)
    np.testing.assert_allclose(done.values[0], [0.3, *wanted, -1.0], rtol=1e-10)
    assert done.exact
    np.testing.assert_allclose(done.log_prob, stats.multivariate_normal(mean, covariance).logpdf(done.values[0]), rtol=1e-12)
    drawn = circuit.sample(4000, given=row, seed=5, engine=engine)
    np.testing.assert_array_equal(drawn[:, [0, 3]], np.tile([0.3, -1.0], (4000, 1)))
    rest = drawn[:, 1:3] - wanted
    distance = np.einsum("ni,ij,nj->n", rest, np.linalg.inv(left), rest)
    assert stats.kstest(distance, "chi2", args=(2,)).pvalue > 1e-4
    whole = circuit.sample(4000, seed=6) - mean
    assert stats.kstest(np.einsum("ni,ij,nj->n", whole, np.linalg.inv(covariance), whole), "chi2", args=(4,)).pvalue > 1e-4


def test_expectations_of_a_mixture_are_those_of_its_samples():
    """Within 4 standard errors of 20,000 completions."""
    row = np.array([0.4, np.nan, np.nan, 0.7, np.nan, 1.1])
    drawn = MIXED.sample(20_000, given=row, seed=1)
    mean, variance = MIXED.expectation([row])[0], MIXED.variance([row])[0]
    unknown = np.isnan(row)
    error = drawn.std(axis=0)[unknown] / np.sqrt(len(drawn))
    assert (abs(drawn.mean(axis=0)[unknown] - mean[unknown]) < 4 * error).all()
    squares = (drawn - mean) ** 2
    assert (abs(squares.mean(axis=0) - variance)[unknown] < 4 * squares.std(axis=0)[unknown] / np.sqrt(len(drawn))).all()


def test_gradients_by_torch_are_those_of_gradient():
    """∂ log p / ∂(mean, covariance) by automatic differentiation, against expected statistics, with unknown entries."""
    X = rows_with_gaps(40)
    net_parameters = MIXED.parameters[0]
    from flatpc.engine.torch.module import TorchCircuit

    net = TorchCircuit(MIXED)
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in net_parameters.items()}
    net.log_prob(torch.tensor(X), {0: leaves}).sum().backward()
    found = MIXED.flows(X, missing="marginalize").inputs[0]
    inverse = np.linalg.inv(net_parameters["covariance"])
    np.testing.assert_allclose(leaves["mean"].grad, np.einsum("kij,kj->ki", inverse, found["deviation"]), rtol=1e-9, atol=1e-9)
    spare = found["squares"] - found["count"][:, None, None] * net_parameters["covariance"]
    wanted = inverse @ spare @ inverse / 2
    grad = leaves["covariance"].grad.numpy()
    np.testing.assert_allclose((grad + grad.swapaxes(1, 2)) / 2, wanted, rtol=1e-9, atol=1e-9)


def test_derivatives_in_rows():
    X = torch.tensor(MIXED.sample(5, seed=2), requires_grad=True)
    MIXED.log_prob(X, engine="torch")
    from flatpc.engine.torch.module import TorchCircuit

    net = TorchCircuit(MIXED)
    net.log_prob(X).sum().backward()
    for j in (0, 2, 3, 4, 5):
        up, down = X.detach().numpy().copy(), X.detach().numpy().copy()
        up[:, j] += 1e-5
        down[:, j] -= 1e-5
        np.testing.assert_allclose(X.grad[:, j], (by_hand(MIXED, up) - by_hand(MIXED, down)) / 2e-5, rtol=1e-5, atol=1e-6)


def test_em_is_that_of_scikit_learn():
    """After each of eight steps from the same start: weights, means, covariances and likelihood to 1e-8."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3)) + 3 * rng.normal(size=3) for _ in range(3)])
    nodes = [fp.Input(variables=(0, 1, 2), family=fp.MultivariateGaussian(3, 1e-12), width=3), fp.Sum((0,))]
    circuit = fp.Circuit(nodes).randomize(1, X=X)
    start = circuit.parameters
    rival = GaussianMixture(
        3, reg_covar=0.0, weights_init=start[1][0], means_init=start[0]["mean"],
        precisions_init=np.linalg.inv(start[0]["covariance"]), max_iter=1, warm_start=True, tol=0.0,
    )  # fmt: skip
    for _ in range(8):
        with pytest.warns(UserWarning, match="converge"):
            rival.fit(X)
        learnt = fp.fit(circuit, X, epochs=1, batch_size=None, method=fp.EM(1.0), dtype="float64", progress=False)
        circuit = learnt.circuit
        np.testing.assert_allclose(circuit.parameters[1][0], rival.weights_, rtol=1e-8)
        np.testing.assert_allclose(circuit.parameters[0]["mean"], rival.means_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(circuit.parameters[0]["covariance"], rival.covariances_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(circuit.log_prob(X), rival.score_samples(X), rtol=1e-8, atol=1e-8)


def test_em_with_unknown_entries_ends_where_the_gradient_is_none():
    """For one Gaussian: the limit of EM has no gradient of the likelihood of the known entries."""
    circuit, _, _ = one_unit(d=3)
    X = circuit.sample(60, seed=1)
    X[np.random.default_rng(3).random(X.shape) < 0.3] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    family, p = circuit.nodes[0].family, {"mean": np.zeros((1, 3)), "covariance": np.eye(3)[None]}
    for _ in range(400):
        p = family.update(p, family.statistics(p, X, np.ones((len(X), 1))))
    gradient = family.gradient(p, family.statistics(p, X, np.ones((len(X), 1))))
    assert max(abs(value).max() for value in gradient.values()) < 1e-8 * len(X)


@pytest.mark.parametrize("method", [fp.Adam(0.01), fp.SGD(0.005), fp.EM(0.3, momentum=0.5), fp.EM(0.3, anemone=True)])
def test_other_methods_learn(method):
    X = rows_with_gaps(200)
    start = MIXED.randomize(0, X=X)
    learnt = fp.fit(start, X, epochs=10, batch_size=50, method=method, missing="marginalize", progress=False).circuit
    before, after = (np.mean(c.log_prob(X, missing="marginalize")) for c in (start, learnt))
    assert after > before + 0.1


def test_variances_stay_above_the_floor():
    """In every direction, in EM and in gradient descent, of rows on a line."""
    t = np.random.default_rng(0).normal(size=(100, 1))
    X = t @ np.array([[1.0, -2.0, 0.5]])
    for method in (fp.EM(1.0), fp.Adam(0.1)):
        circuit = fp.Circuit([fp.Input(variables=(0, 1, 2), family=fp.MultivariateGaussian(3, 0.01))])
        learnt = fp.fit(circuit, X, epochs=50, batch_size=None, method=method, dtype="float64", progress=False).circuit
        values = np.linalg.eigvalsh(learnt.parameters[0]["covariance"][0])
        assert values[0] >= 0.01 * (1 - 1e-9)
        assert values[0] < 0.02


def test_randomize_finds_clusters():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 2)) * 0.1 + centre for centre in ((0, 0), (5, 5), (0, 9))])
    X[0, 0] = np.nan
    nodes = [fp.Input(variables=(0, 1), family=fp.MultivariateGaussian(2), width=3), fp.Sum((0,))]
    found = fp.Circuit(nodes).randomize(0, X=X).parameters[0]
    order = np.lexsort(found["mean"].round().T)
    np.testing.assert_allclose(found["mean"][order], [[0, 0], [5, 5], [0, 9]], atol=0.3)
    np.testing.assert_array_equal(found["covariance"], found["covariance"].swapaxes(1, 2))


def test_curvature_is_that_of_differences():
    """The trace in the sum weights: as for other inputs."""
    X = MIXED.sample(4, seed=9)
    weights, h = MIXED.parameters[4], 1e-4
    total = 0.0
    for c in range(WIDTH):
        ends = []
        for move in (-h, 0.0, h):
            shifted = weights[0].copy()
            shifted[c] += move
            joint = np.stack([by_hand(MIXED.with_parameters({4: np.eye(WIDTH)[k : k + 1]}), X) for k in range(WIDTH)], axis=1)
            ends.append(np.log(np.exp(joint) @ shifted).sum())
        total -= (ends[0] - 2 * ends[1] + ends[2]) / h**2
    np.testing.assert_allclose(fp.curvature.trace(MIXED, X, reduction="sum"), total, rtol=1e-5)


def test_what_has_no_answer_raises():
    family = fp.MultivariateGaussian(2)
    assert not family.defines("cdf")
    with pytest.raises(FamilyError, match="has no cdf"):
        family.cdf({"mean": np.zeros((1, 2)), "covariance": np.eye(2)[None]}, np.zeros((1, 2)))
    node = fp.Input(variables=(1, 0), family=family)
    with pytest.raises(StructureError, match="no single variable"):
        _ = node.variable


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variable": 0, "family": fp.MultivariateGaussian(2)}, "over 2 variables; give `variables`"),
        ({"variables": (0, 1), "family": fp.Gaussian()}, "1 different number"),
        ({"variables": (0, 0), "family": fp.MultivariateGaussian(2)}, "2 different numbers"),
        ({"variables": (0, 1, 2), "family": fp.MultivariateGaussian(2)}, "2 different numbers"),
        ({"variables": (0, -1), "family": fp.MultivariateGaussian(2)}, "whole number"),
        ({"variable": 0, "variables": (0, 1), "family": fp.MultivariateGaussian(2)}, "not both"),
        ({"variables": 3, "family": fp.MultivariateGaussian(2)}, "tuple"),
    ],
)
def test_wrong_variables_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        fp.Input(**options)


@pytest.mark.parametrize(
    "given", [{"n_variables": 1}, {"n_variables": 2, "min_variance": 0.0}, {"n_variables": 2, "min_variance": (1.0,)}]
)
def test_wrong_options_are_refused(given):
    with pytest.raises(OptionError):
        fp.MultivariateGaussian(**given)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 0.0], [0.0, 0.0]], "variances positive"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite"),
    ],
)
def test_wrong_covariances_are_refused(covariance, message):
    nodes = [fp.Input(variables=(0, 1), family=fp.MultivariateGaussian(2))]
    with pytest.raises(ParameterError, match=message):
        fp.Circuit(nodes, {0: {"mean": [[0.0, 0.0]], "covariance": [covariance]}})


def test_scopes_names_and_copies_follow():
    node = fp.Input(variables=(3, 1), family=fp.MultivariateGaussian(2), width=2)
    assert eval(repr(node), {"Input": fp.Input, "MultivariateGaussian": fp.MultivariateGaussian}) == node
    assert dataclasses.replace(node, width=5).variables == (3, 1)
    assert hash(node) == hash(dataclasses.replace(node))
    assert repr(fp.Input(0, fp.Bernoulli())) == "Input(variable=0, family=Bernoulli(), width=1, tie=None)"
    assert MIXED.scopes[:3] == (0b011001, 0b000010, 0b100100)
    assert [type(family).__name__ for family in MIXED.families] == [
        "Gaussian",
        "Categorical",
        "Gaussian",
        "Gaussian",
        "Gaussian",
        "Gaussian",
    ]
    assert MIXED.n_free_parameters == WIDTH * (3 + 6 + 2 + 2 + 3) + WIDTH - 1
    assert MIXED.is_tree
    assert not MIXED.is_deterministic


def test_a_block_next_to_single_inputs_over_the_same_variables():
    """A sum over a block and over independent columns: scopes are equal, families differ."""
    nodes = [
        fp.Input(variables=(1, 0), family=fp.MultivariateGaussian(2)), fp.Input(0, fp.Gaussian()), fp.Input(1, fp.Gaussian()),
        fp.Product((1, 2)), fp.Sum((0, 3)),
    ]  # fmt: skip
    circuit = fp.Circuit(nodes).randomize(3)
    X = np.array([[0.1, -0.4], [np.nan, 2.0], [1.0, np.nan], [0.1, 1e200]])
    for engine in ("numba", "torch"):
        np.testing.assert_allclose(circuit.log_prob(X, missing="marginalize", engine=engine), by_hand(circuit, X), rtol=1e-12)


def test_far_rows_are_impossible_and_never_nan():
    circuit, _, _ = one_unit()
    X = np.array([[1e300, -1e300, 1e300, 0.0], [1e5, 0.0, 0.0, 0.0]])
    for engine in ("numba", "torch"):
        found = circuit.log_prob(X, engine=engine)
        assert found[0] == -np.inf
        assert np.isfinite(found[1])


@pytest.mark.parametrize("rank", [None, 1])
def test_learning_in_other_units(rank):
    """In the user's units log-densities are lower by Σ log scale, and floors hold in their units too."""
    family = fp.MultivariateGaussian(2, 0.01, rank)
    circuit = fp.Circuit([fp.Input(variables=(1, 0), family=family, width=2), fp.Sum((0,))])
    scaling = Scaling(np.array([5.0, -2.0]), np.array([3.0, 0.5]))
    users = in_users_units(circuit, scaling)
    X = np.array([[4.0, -2.5], [6.0, -1.0], [np.nan, -1.5]])
    wanted = of_full_covariances(circuit, scaling.apply(X)) - scaling.log_volume(X)
    np.testing.assert_allclose(users.log_prob(X, missing="marginalize"), wanted, rtol=1e-12)
    assert users.nodes[0].family == fp.MultivariateGaussian(2, (0.01 * 0.25, 0.01 * 9.0), rank)
    raised = with_floor(fp.Circuit([fp.Input(variables=(1, 0), family=family.with_floor(FLOORS[0]))]), 0.3, [True, True])
    assert raised.nodes[0].family.floor == 0.3


def of_full_covariances(circuit, X):
    """Densities by scipy, from covariances whatever they are made of."""
    family, p = circuit.nodes[0].family, circuit.parameters[0]
    full = {"mean": p["mean"], "covariance": family.covariance(p)}
    node = dataclasses.replace(circuit.nodes[0], family=fp.MultivariateGaussian(family.n_variables))
    return by_hand(fp.Circuit([node, *circuit.nodes[1:]], {0: full, 1: circuit.parameters[1]}), X)


def test_a_batch_counts_for_its_share_of_the_pooled_rows():
    """Where the rows are the same ones twice, a step by one half is a step by both."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)) @ [[1.0, 0.9], [0.0, 0.3]]
    start = fp.structures.mixture(x, 3, pooled=20.0)

    def stepped(n_rows, *parts):
        step = fp.learning.EMStep(start, n_rows=n_rows, method=fp.EM(1.0), dtype="float64")
        step.apply(step.accumulate(np.vstack(parts)))
        return step.circuit.parameters[0]

    both, half, alone = stepped(160, x, x), stepped(160, x), stepped(80, x)
    for name, value in both.items():
        np.testing.assert_allclose(half[name], value, rtol=1e-12)
    assert abs(alone["covariance"] - both["covariance"]).max() > 1e-3  # of 80 rows, 20 are more


def test_pooled_covariances_are_drawn_to_the_common_one():
    rng = np.random.default_rng(0)
    x, flow = rng.normal(size=(60, 2)), rng.random((60, 3))
    start = fp.MultivariateGaussian(2).initialize(3, rng, "uniform")
    own = fp.MultivariateGaussian(2, 1e-9).update(start, fp.MultivariateGaussian(2).statistics(start, x, flow))
    family = fp.MultivariateGaussian(2, 1e-9, pooled=5.0)
    found = family.update(start, family.statistics(start, x, flow))
    count = flow.sum(axis=0)
    common = np.average(own["covariance"], axis=0, weights=count)
    for k in range(3):
        wanted = (count[k] * own["covariance"][k] + 5.0 * common) / (count[k] + 5.0)
        np.testing.assert_allclose(found["covariance"][k], wanted, rtol=1e-12)
    np.testing.assert_allclose(found["mean"], own["mean"], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Learning diverged")  # Adam's steps are too short or too long for such units
@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("method", [fp.EM(1.0), fp.Adam(0.1)], ids=["em", "adam"])
@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize("scale", [1e6, 1e8, 1e12])
def test_columns_that_add_up_are_learnt_at_any_scale(scale, rank, method, engine):
    x = np.random.default_rng(0).normal(size=(200, 2)) * scale
    x = np.c_[x, x.sum(axis=1)]
    circuit = fp.Circuit([fp.Input(variables=(0, 1, 2), family=fp.MultivariateGaussian(3, rank=rank))])
    for start in (circuit, circuit.randomize(0, X=x)):
        learnt = fp.fit(start, x, method=method, epochs=5, batch_size=None, dtype="float64", progress=False, engine=engine)
        assert np.isfinite(learnt.circuit.log_prob(x, engine=engine)).all()
        fp.Circuit(learnt.circuit.nodes, learnt.circuit.parameters)  # these pass their checks


def test_covariances_that_rounding_spoils_are_refused():
    loadings = np.array([[[1e9], [1e9]]])
    units = {"mean": np.zeros((1, 2)), "loadings": loadings, "noise": np.full((1, 2), 1e-4)}
    family = fp.MultivariateGaussian(2, rank=1)
    with pytest.raises(ParameterError, match="unit 0 is not positive definite; raise its noise"):
        fp.Circuit([fp.Input(variables=(0, 1), family=family)], {0: units})
    with pytest.raises(ParameterError, match="raise min_variance"):
        family.log_density(units, np.zeros((1, 2)))
    with pytest.raises(ParameterError, match="raise min_variance"):
        family.torch_log_density(
            {name: torch.tensor(value[None, None]) for name, value in units.items()}, torch.zeros(1, 1, 1, 2)
        )
