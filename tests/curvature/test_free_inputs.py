"""Parameters of Gaussian and other inputs in the posterior: against automatic differentiation, closed forms and differences."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.curvature.free_inputs import derivatives as asked_derivatives
from flatpc.curvature.log_posterior import LogPosterior
from flatpc.curvature.posterior_solvers import _unit_blocks
from flatpc.engine.torch.module import TorchCircuit
from flatpc.errors import TiedParametersError
from flatpc.families.differences import derivatives, flat, named
from tests.oracles.random_circuits import circuits
from tests.oracles.random_circuits import rows as rows_of


def by_torch(around, rows):
    """-Σ log p over possible rows as a function of the posterior's coordinates, written with torch alone."""
    circuit = around.circuit
    net = TorchCircuit(circuit, torch.float64, "cpu")
    X = torch.tensor(rows)

    def loss(move):
        parameters = {}
        for i in around.layout.shapes:
            theta = torch.tensor(around.layout.arrays(around.theta)[i])
            logits = torch.where(theta > 0, theta.log(), -torch.inf) + move[around.part_of(i)].reshape(theta.shape)
            table = torch.softmax(logits, dim=1)
            node = circuit.nodes[i]
            if not isinstance(node, fp.Input):
                parameters[i] = table
            else:
                parameters[i] = {"p": table[:, 1] if isinstance(node.family, fp.Bernoulli) else table}
        for i, each in around.free.items():
            free = each.family.unconstrain(each.parameters)
            z = torch.tensor(flat(free)) + torch.einsum(
                "kqr,kr->kq", torch.tensor(each.roots), move[each.part].reshape(each.shape)
            )
            if isinstance(each.family, fp.Gaussian):
                parameters[i] = {"mean": z[:, 0], "variance": each.family.min_variance + (2 * z[:, 1]).exp()}
            elif isinstance(each.family, fp.MultivariateGaussian):
                d = each.family.n_variables
                L = z[:, d:].reshape(-1, d, d)
                L = torch.tril(L, -1) + torch.diag_embed(torch.diagonal(L, dim1=1, dim2=2).exp())
                covariance = L @ L.transpose(1, 2) + torch.diag(torch.tensor(each.family.floors.copy()))
                parameters[i] = {"mean": z[:, :d], "covariance": covariance}
            elif isinstance(each.family, fp.Binomial):
                parameters[i] = {"p": torch.sigmoid(z[:, 0])}
            else:
                parameters[i] = {"rate": each.family.min_rate + z[:, 0].exp()}
        found = net.log_prob(X, parameters)
        return -torch.where(torch.isneginf(found), 0.0, found).sum()

    return loss


def around_of(circuit, rows):
    return LogPosterior(circuit, rows, alpha=0.5)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_hessian_with_inputs_is_that_of_automatic_differentiation(data):
    circuit = data.draw(circuits(max_variables=3, max_width=3, families="all"))
    rows = data.draw(rows_of(circuit, max_rows=5))
    rows = rows[np.isfinite(circuit.log_prob(rows, missing="marginalize"))]
    assume(len(rows) > 0)
    around = around_of(circuit, rows)
    assume(around.free and 0 < around.size < 40)
    loss, zero = by_torch(around, rows), torch.zeros(around.size, dtype=torch.float64)
    expected = np.nan_to_num(torch.autograd.functional.hessian(loss, zero).numpy())
    tolerance = {"rtol": 1e-6, "atol": 1e-7 * max(1.0, abs(expected).max())}
    np.testing.assert_allclose(around.hessian_matrix(), expected, **tolerance)
    slope = np.nan_to_num(torch.autograd.functional.jacobian(loss, zero).numpy())
    np.testing.assert_allclose(-around.gradients(rows).sum(axis=0), slope, rtol=1e-7, atol=1e-8 * max(1.0, abs(slope).max()))
    try:
        blocks = _unit_blocks(around)
    except TiedParametersError:
        return
    A = expected + around.information(np.eye(around.size), prior=True)
    for part, found in blocks:
        k, n = found.shape[:2]
        mine = A[part, part].reshape(k, n, k, n)
        np.testing.assert_allclose(found, mine[np.arange(k), :, np.arange(k), :], **tolerance)


FAMILIES = {
    "bounded gaussian": (fp.Gaussian(max_variance=9.0), {"mean": [0.5, -3.0], "variance": [2.0, 0.3]}),
    "gaussian": (fp.Gaussian(), {"mean": [0.5, -3.0], "variance": [2.0, 0.3]}),
    "poisson": (fp.Poisson(), {"rate": [2.0, 0.5]}),
    "binomial": (fp.Binomial(7), {"p": [0.2, 0.9]}),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_in_closed_form_are_those_of_differences(name):
    family, parameters = FAMILIES[name]
    units = {key: np.array(value) for key, value in parameters.items()}
    x = family.sample(units, np.repeat([0, 1], 20), np.random.default_rng(0))
    for found, expected in zip(family.derivatives(units, x), derivatives(family, units, x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * abs(found).max())


@pytest.mark.parametrize(
    "family", [fp.StudentT(), fp.Gamma(), fp.Beta(), fp.LogNormal(), fp.NegativeBinomial(), fp.Exponential()]
)
def test_differences_are_the_gradients_that_learning_uses(family):
    """Second derivatives are checked by differences of exact gradients, to 1e-5 of the largest."""
    rng = np.random.default_rng(1)
    units = family.initialize(3, rng, "uniform")
    x = family.sample(units, np.repeat([0, 1, 2], 10), rng)
    first, second = asked_derivatives(family, units, x)
    free = family.unconstrain(units)
    z = flat(free)

    def exact(at, row):
        p = family.constrain(named(at, free))
        return flat(family.gradient(p, family.statistics(p, x[row : row + 1], np.ones((1, 3)))))

    for row in range(0, len(x), 7):
        np.testing.assert_allclose(first[row], exact(z, row), rtol=1e-6, atol=1e-7)
        for j in range(z.shape[1]):
            move = np.zeros(z.shape)
            move[:, j] = 1e-4
            slope = (exact(z + move, row) - exact(z - move, row)) / 2e-4
            np.testing.assert_allclose(second[row][:, :, j], slope, rtol=1e-4, atol=1e-5 * max(1.0, abs(second).max()))


def test_a_gaussian_has_the_textbook_errors():
    """Var mean = v/N, Var log σ = 1/(2N); log p at the mean varies through log σ alone."""
    x = np.random.default_rng(0).normal(2000.0, 50.0, (400, 1))
    mean, variance = float(x.mean()), float(x.var())
    circuit = fp.Circuit([fp.Input(0, fp.Gaussian())], {0: {"mean": [mean], "variance": [variance]}})
    for structure in ("full", "block", "operator"):
        post = fp.curvature.laplace(circuit, x, structure=structure)
        assert post.is_optimum
        np.testing.assert_allclose(post.expectation([[np.nan]]).error, np.sqrt(variance / 400), rtol=1e-5)
        np.testing.assert_allclose(post.log_prob([[mean]]).error, np.sqrt(1 / 800), rtol=1e-5)
        away = mean + 2 * np.sqrt(variance)
        np.testing.assert_allclose(post.log_prob([[away]]).error, np.sqrt(4 / 400 + 9 / 800), rtol=1e-5)
    # A prior worth as many rows again halves the variance.
    sure = fp.curvature.laplace(circuit, x, input_prior=400.0)
    np.testing.assert_allclose(sure.log_prob([[mean]]).error, np.sqrt(1 / 1600), rtol=0.05)


def test_a_variance_at_its_floor_stays():
    circuit = fp.Circuit(
        [fp.Input(0, fp.Gaussian(min_variance=0.5), 2), fp.Sum((0,))],
        {0: {"mean": [0.0, 3.0], "variance": [0.5, 1.0]}, 1: [[0.4, 0.6]]},
    )
    rows = np.random.default_rng(0).normal(1, 2, (50, 1))
    post = fp.curvature.laplace(circuit, rows)
    drawn = post.draw(3)
    assert all(each.parameters[0]["variance"][0] == 0.5 for each in drawn)
    assert drawn[0].parameters[0]["variance"][1] != 1.0


def test_means_vary_as_those_of_draws():
    """Gradients of means of missing values against differences, for tied, discrete and Gaussian inputs."""
    nodes = [
        fp.Input(0, fp.Gaussian(), 2), fp.Input(1, fp.Gaussian(), 2, tie=0), fp.Input(2, fp.Categorical(3), 2),
        fp.Input(3, fp.Poisson(), 2),
        fp.Product((0, 1, 2, 3)), fp.Sum((4,)),
    ]  # fmt: skip
    circuit = fp.Circuit(
        nodes,
        {
            0: {"mean": [-1.0, 2.0], "variance": [1.0, 0.5]},
            2: {"p": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]},
            3: {"rate": [1.0, 4.0]},
            5: [[0.3, 0.7]],
        },
    )
    rows = circuit.sample(60, seed=1)
    around = LogPosterior(circuit, rows, alpha=0.5)
    asked = rows[:4].copy()
    asked[0, :2] = asked[1, 2:] = asked[2, [0, 3]] = np.nan
    asked[3] = np.nan
    post = fp.curvature.laplace(circuit, rows)
    found = post.expectation(asked)
    np.testing.assert_allclose(found.value, circuit.expectation(asked), rtol=1e-12)
    assert (found.error[~np.isnan(asked)] == 0).all()
    pulled = found.answer.pull(slice(0, 16))
    for entry in range(around.size):
        ends = []
        for reach in (-1e-5, 1e-5):
            move = np.zeros(around.size)
            move[entry] = reach
            ends.append(around.circuit_at(move).expectation(asked).ravel())
        np.testing.assert_allclose(pulled[:, entry], (ends[1] - ends[0]) / 2e-5, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(pulled @ np.zeros(around.size), 0.0)
