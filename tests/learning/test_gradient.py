"""Gradient learning: loss and gradients equal autograd's on the torch engine; SAM, clipping, adaptive μ, divergence."""

import math

import numpy as np
import pytest
import torch

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.torch.module import TorchCircuit
from flatpc.errors import DataError, TiedParametersError
from flatpc.learning import ASAM, SAM, LearningWarning
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps.gradient import Gradient
from tests.engine.conformance import circuits
from tests.learning.test_em import rows_for

SPACES = ("weights", "logits", "logit-gradient")
# A factorized circuit has no weights, so nothing to penalise; products of 40 take autograd long.
UNTIED = {
    name: circuit
    for name, circuit in sorted(circuits().items())
    if not circuit.has_tied_parameters and not name.startswith(("factorized", "wide_product"))
}
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)
UNTIED["masked"] = fp.Circuit(
    [
        fp.Input(0, fp.Gaussian(), 2),
        fp.Input(1, fp.Categorical(3), 2),
        fp.Product((0, 1), "kronecker"),
        fp.Sum((2,), 3, MASK),
        fp.Sum((2,), 3),
        fp.Mixture((3, 4)),
        fp.Sum((5,)),
    ]
)
UNTIED["bounded variances"] = fp.structures.rat_spn(2, 1, 2, 2, 2, family=fp.Gaussian(1e-4, 10.0))


def learner(circuit, X, regularizer=None, method=None):
    evaluator, method = Evaluator(circuit, "float64", 1), method or fp.Adam(0.1)
    return Gradient(evaluator, method, Regularizers.read(regularizer, method)), Evidence(evaluator.program, X)


class Autograd:
    """The same objective through torch, from leaves that are the unconstrained parameters of each node."""

    def __init__(self, circuit):
        self.circuit, self.net = circuit, TorchCircuit(circuit)
        self.leaves = {}
        for i, value in self.net.parameters.items():
            node = circuit.nodes[i]
            if not isinstance(node, fp.Input):
                self.leaves[i] = torch.log(value.clamp(min=1e-30))
            elif isinstance(node.family, fp.Bernoulli):
                self.leaves[i] = torch.log(torch.stack([1 - value["p"], value["p"]], dim=1).clamp(min=1e-30))
            elif isinstance(node.family, fp.Categorical):
                self.leaves[i] = torch.log(value["p"].clamp(min=1e-30))
            elif isinstance(node.family, fp.Gaussian):
                least, most = node.family.min_variance, node.family.max_variance
                above = value["variance"] - least
                z = torch.log(above) / 2 if most is None else torch.logit(above / (most - least))
                self.leaves[i] = torch.stack([value["mean"], z])
            elif isinstance(node.family, fp.Poisson):
                self.leaves[i] = torch.log(value["rate"] - node.family.min_rate)
            elif isinstance(node.family, fp.Binomial):
                self.leaves[i] = torch.logit(value["p"])
        for leaf in self.leaves.values():
            leaf.requires_grad_()

    def parameters(self):
        out = {}
        for i, z in self.leaves.items():
            node = self.circuit.nodes[i]
            if not isinstance(node, fp.Input):
                mask = getattr(node, "mask", None)
                out[i] = torch.softmax(z if mask is None else z.masked_fill(~torch.tensor(mask), -math.inf), dim=1)
            elif isinstance(node.family, fp.Bernoulli):
                out[i] = {"p": torch.softmax(z, dim=1)[:, 1]}
            elif isinstance(node.family, fp.Categorical):
                out[i] = {"p": torch.softmax(z, dim=1)}
            elif isinstance(node.family, fp.Gaussian):
                least, most = node.family.min_variance, node.family.max_variance
                above = torch.exp(2 * z[1]) if most is None else torch.sigmoid(z[1]) * (most - least)
                out[i] = {"mean": z[0], "variance": least + above}
            elif isinstance(node.family, fp.Poisson):
                out[i] = {"rate": node.family.min_rate + torch.exp(z)}
            elif isinstance(node.family, fp.Binomial):
                out[i] = {"p": torch.sigmoid(z)}
        return out

    def loss(self, X, space=None):
        """Mean NLL and mean penalty, differentiable in the leaves."""
        parameters = self.parameters()
        log_prob = self.net.log_prob(torch.tensor(X), parameters)
        penalty = torch.zeros((), dtype=torch.float64)
        weights = {i: p for i, p in parameters.items() if isinstance(p, torch.Tensor)}
        for row in log_prob if space else ():
            found = torch.autograd.grad(row, list(weights.values()), create_graph=True, materialize_grads=True, allow_unused=True)
            for (i, theta), g in zip(weights.items(), found, strict=True):
                mask = getattr(self.circuit.nodes[i], "mask", None)
                g = g if mask is None else g * torch.tensor(mask)
                if space == "weights":
                    penalty = penalty + (g * g).sum()
                    continue
                d = theta * (g - (theta * g).sum(dim=1, keepdim=True))
                penalty = penalty + (d * d).sum()
                if space == "logits":
                    penalty = penalty + 2 * (theta * d).sum()
        return -log_prob.mean(), penalty / len(X)

    def gradient(self, loss):
        found = torch.autograd.grad(
            loss, list(self.leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return dict(zip(self.leaves, found, strict=True))


def by_node(made, z):
    """A flat gradient as arrays in the shape of the leaves."""
    from flatpc.engine.numba import packing

    circuit, program = made.evaluator.circuit, made.evaluator.program
    n = program.n_weights
    out = dict(packing.unpack_weights(circuit, program, z[:n]))
    for i, (offset, shape) in program.input_blocks.items():
        node = circuit.nodes[i]
        block = z[n + offset : n + offset + shape[0] * shape[1]].reshape(shape)[:, : node.width]
        if isinstance(node.family, fp.Bernoulli | fp.Categorical):
            out[i] = block.T
        elif isinstance(node.family, fp.Gaussian):
            out[i] = block[:2]
        else:
            out[i] = block[0]
    return out


@pytest.mark.parametrize("name", UNTIED)
@pytest.mark.parametrize("space", SPACES)
def test_loss_and_gradients_are_autograds(name, space):
    circuit = UNTIED[name].randomize(4)
    X = rows_for(circuit, 7)
    X[2] = X[5]
    made, evidence = learner(circuit, X, fp.Sharpness(mu=0.3, space=space))
    numbers, likelihood, penalty = made.gradients(evidence, np.arange(7), value=True)
    oracle = Autograd(circuit)
    nll, expected = oracle.loss(X, space)
    assert -numbers[0] == pytest.approx(float(nll.detach()), rel=1e-9)
    assert numbers[1] == pytest.approx(float(expected.detach()), rel=1e-9, abs=1e-12)
    for loss, found in ((nll, likelihood), (expected, penalty)):
        wanted = oracle.gradient(loss)
        size = max(float(g.abs().max()) for g in wanted.values())
        for i, g in by_node(made, found).items():
            if i in wanted:
                np.testing.assert_allclose(g, wanted[i].numpy(), rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize("name", [name for name, circuit in circuits().items() if circuit.has_tied_parameters])
def test_plain_gradients_with_ties(name):
    circuit = circuits()[name].randomize(4)
    X = rows_for(circuit, 6)
    X[0, 0] = np.nan
    made, evidence = learner(circuit, X)
    numbers, likelihood, _ = made.gradients(evidence, np.arange(6))
    oracle = Autograd(circuit)
    nll, _ = oracle.loss(X)
    assert -numbers[0] == pytest.approx(float(nll.detach()), rel=1e-9)
    wanted = oracle.gradient(nll)
    for i, g in by_node(made, likelihood).items():
        np.testing.assert_allclose(g, wanted[i].numpy(), rtol=1e-9, atol=1e-10)
    with pytest.raises(TiedParametersError):
        fp.fit(circuit, rows_for(circuit, 6), method="adam", sharpness=fp.Sharpness(mu=0.1), progress=False)


def _poles():
    """Two units, inputs of all families, and a middle row of which two variables contradict one unit each, by a factor e^-20000.

    The contradictions are so nearly equal that both units have a share of the row.
    """
    poles = {"mean": np.array([100.0, -100.0]), "variance": np.array([1.0, 1.0])}
    families = [fp.Gaussian(), fp.Gaussian(), fp.Categorical(3), fp.Bernoulli(), fp.Poisson(), fp.Binomial(5)]
    inputs = [fp.Input(v, family, 2) for v, family in enumerate(families)]
    circuit = fp.Circuit(
        [*inputs, fp.Product(tuple(range(6))), fp.Sum((6,), 2), fp.Sum((6,), 2), fp.Mixture((7, 8)), fp.Sum((9,))]
    )
    X = np.array([[100.0, 99.0, 0, 1, 2, 3], [100.0, -99.997, 1, 0, 1, 4], [-101.0, -100.0, 2, 1, 0, 1]])
    return circuit.randomize(1).with_parameters({0: poles, 1: poles}), X


@pytest.mark.parametrize("space", SPACES)
def test_rows_that_linear_arithmetic_can_not_hold(space):
    """What weights and inputs get from both terms is autograd's still."""
    circuit, X = _poles()
    made, evidence = learner(circuit, X, fp.Sharpness(mu=0.3, space=space))
    (block,) = made._penalised.passes.blocks(evidence, np.arange(3), None, shared=False)
    np.testing.assert_array_equal(block.unsettled, [False, True, False])
    numbers, likelihood, penalty = made.gradients(evidence, np.arange(3), value=True)
    oracle = Autograd(circuit)
    nll, expected = oracle.loss(X, space)
    np.testing.assert_allclose(numbers, [-float(nll.detach()), float(expected.detach())], rtol=1e-9)
    for loss, found in ((nll, likelihood), (expected, penalty)):
        wanted = oracle.gradient(loss)
        for i, g in by_node(made, found).items():
            np.testing.assert_allclose(g, wanted[i].numpy(), rtol=1e-9, atol=1e-9)
    # The middle row has a say: without it, inputs would get another gradient.
    alone = by_node(made, made.gradients(evidence, np.array([1]))[2])
    assert all(abs(alone[i]).max() > 1e-3 for i in range(6))


def spiral(n=60, seed=0):
    return fp.datasets.manifold("spiral", n, seed=seed)


@pytest.mark.parametrize("method", [fp.Adam(0.05), fp.SGD(0.1)])
@pytest.mark.parametrize("sharpness", [None, fp.Sharpness(mu=0.01), fp.Sharpness(mu=0.1, space="logits")])
def test_learning_lowers_the_objective(method, sharpness):
    X = spiral(100)
    circuit = fp.structures.rat_spn(2, 1, 3, 4, 4)
    result = fp.fit(circuit, X, method=method, epochs=30, sharpness=sharpness, progress=False)
    before, after = (objective(c, X, sharpness) for c in (circuit, result.circuit))
    assert result.stopped == "epochs"
    assert after < before - 0.1


def objective(circuit, X, sharpness):
    made, evidence = learner(circuit, X, sharpness)
    numbers, _, _ = made.gradients(evidence, np.arange(len(X)), value=True)
    return -numbers[0] + (sharpness.mu if sharpness else 0) * numbers[1]


def test_one_sgd_step_by_hand():
    """It is z ← z - rate · gradient, and the gradient's length is cut to `clip`."""
    circuit = fp.structures.rat_spn(2, 1, 2, 3, 3)
    X = spiral(20)
    for clip in (None, 1e-3):
        made, evidence = learner(circuit, X, method=fp.SGD(0.1, clip=clip))
        before = made.z.copy()
        _, gradient, _ = made.gradients(evidence, np.arange(20))
        length = np.linalg.norm(gradient)
        assert length > 1e-3
        made.step(evidence, np.arange(20), 0.0)
        step = -0.1 * gradient * (1 if clip is None else clip / length)
        np.testing.assert_allclose(made.z - before, step, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("ascent", [SAM(0.3), ASAM(0.3)])
def test_sam_takes_the_gradient_uphill(ascent):
    circuit = fp.structures.rat_spn(2, 1, 2, 3, 3)
    X = spiral(20)
    made, evidence = learner(circuit, X, ascent, fp.SGD(0.1))
    z = made.z.copy()
    _, g, _ = made.gradients(evidence, np.arange(20))
    size = np.abs(z) + 0.01 if isinstance(ascent, ASAM) else 1.0
    uphill = 0.3 * size**2 * g / np.linalg.norm(size * g)
    other, _ = learner(circuit, X)
    other.unconstrained.write(z + uphill)
    _, there, _ = other.gradients(evidence, np.arange(20))
    made.step(evidence, np.arange(20), 0.0)
    np.testing.assert_allclose(made.z, z - 0.1 * there, rtol=1e-9, atol=1e-14)


def test_adaptive_mu_balances_the_gradients():
    circuit = fp.structures.rat_spn(2, 1, 2, 3, 3)
    X = spiral(20)
    made, evidence = learner(circuit, X, fp.Sharpness(mu="adaptive", kappa=1.1, scale=0.5, max_overfitting=30))
    rows = np.arange(20)
    _, likelihood, penalty = made.gradients(evidence, rows)
    ratio = np.linalg.norm(likelihood) / np.linalg.norm(penalty)
    made.step(evidence, rows, 0.0)
    assert made.mu == pytest.approx(0.5 * ratio, rel=1e-12)
    made.end_epoch(2.0, 2.4)
    assert made.mu == pytest.approx(0.5 * ratio * 1.1**20, rel=1e-12)
    _, likelihood, penalty = made.gradients(evidence, rows)
    made.step(evidence, rows, 0.5)
    made.end_epoch(2.0, 12.0)
    assert made.mu == pytest.approx(0.5 * 1.1**30 * np.linalg.norm(likelihood) / np.linalg.norm(penalty), rel=1e-12)


def test_the_released_rule_goes_by_which_way_the_nlls_moved():
    circuit = fp.structures.rat_spn(2, 1, 2, 3, 3)
    X = spiral(140)
    made, evidence = learner(circuit, X, fp.Sharpness(mu="adaptive", space="logit-gradient", rule="released"))
    n = made.unconstrained.n_weights
    batches = [np.arange(start, start + 20) for start in range(0, 140, 20)]

    def ratio(batches):
        found = [made.gradients(evidence, rows)[1:] for rows in batches]
        return np.divide(*(np.median([np.linalg.norm(each[k][:n]) for each in found]) for k in (0, 1)))

    expected = 0.01 * ratio(batches[:1])
    epochs = [
        (3.0, 3.0, 0.01),  # nothing to compare with
        (2.5, 2.9, 0.01),  # both fall
        (2.0, 2.9, 0.01),  # the validation NLL stays
        (1.8, 3.0, 1.05 ** (100 * 1.2 / 3.0)),  # the one falls, the other rises
        (1.0, -0.5, 0.01),
        (0.5, 0.1, 1.05**100),  # counted up to 100%
        (0.6, 0.0, 1.0),  # the one rises, the other falls
    ]
    for train, valid, factor in epochs:
        for i, rows in enumerate(batches):
            made.step(evidence, rows, 0.0)
            assert i or made.mu == pytest.approx(expected, rel=1e-12)
        expected = factor * ratio(batches[:5])
        made.end_epoch(train, valid)
        assert made.mu == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("method", [fp.Adam(), fp.SGD(), fp.SGD(momentum=0.3)])
def test_steps_are_those_of_torch(method):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(50)
    theirs = torch.tensor(z.copy())
    adam = isinstance(method, fp.Adam)
    optimizer = torch.optim.Adam([theirs], 0.1) if adam else torch.optim.SGD([theirs], 0.1, momentum=method.momentum)
    memory = {}
    for _ in range(100):
        gradient = rng.standard_normal(50) * 10.0 ** rng.integers(-9, 3, 50)
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
        method.move(z, gradient, 0.1, memory)
    np.testing.assert_allclose(z, theirs.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "options",
    [{"method": fp.Adam(step_size=0.3)}, {"method": fp.EM(step_size=0.5)}, {"method": fp.EM(step_size=0.5, anemone=True)}],
)
def test_variances_stay_within_their_bounds(options):
    circuit = fp.structures.rat_spn(2, 1, 2, 3, 3, family=fp.Gaussian(0.5, 2.0))
    for X, towards in ((np.zeros((50, 2)), 0.5), (10 * spiral(50), 2.0)):  # narrower than the floor, wider than the bound
        learnt = fp.fit(circuit, X, epochs=50, progress=False, **options).circuit
        found = np.concatenate([p["variance"] for p in learnt.parameters.values() if isinstance(p, dict)])
        assert ((found >= 0.5) & (found <= 2.0)).all()
        assert abs(np.median(found) - towards) < 0.2


def test_a_diverging_run_keeps_the_last_good_parameters():
    X = spiral(100)
    circuit = fp.structures.rat_spn(2, 1, 3, 4, 4)
    options = {"batch_size": None, "progress": False}
    good = fp.fit(circuit, X, epochs=3, method=fp.SGD(step_size=0.01), **options).circuit
    for epochs in (6, 4):  # found out by the next step, or, as there is none, at the end
        rate = fp.learning.stages({0.0: 0.01, 3 / epochs: 1e200})
        with pytest.warns(LearningWarning, match="Lower step_size"):
            result = fp.fit(circuit, X, epochs=epochs, method=fp.SGD(step_size=rate), **options)
        assert result.stopped == "diverged"
        assert "Lower step_size" in result.notes[-1]
        np.testing.assert_array_equal(result.circuit.log_prob(X), good.log_prob(X))


def test_impossible_rows_are_refused():
    circuit = fp.Circuit([fp.Input(0, fp.Indicator(3), 2), fp.Sum((0,))], {0: {"value": [0, 1]}, 1: [[0.5, 0.5]]})
    with pytest.raises(DataError, match="probability 0 from the start"):
        fp.fit(circuit, [[0], [2]], method="adam", progress=False)
