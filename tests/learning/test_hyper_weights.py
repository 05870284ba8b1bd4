"""Generated weights: the network written in torch gives the same weights, loss and gradients."""

import numpy as np
import pytest
import torch

import flatpc as fp
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.torch.module import TorchCircuit
from flatpc.errors import OptionError
from flatpc.learning import SAM, HyperWeights
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps import model
from flatpc.learning.steps.gradient import Gradient
from tests.learning.test_em import rows_for
from tests.learning.test_gradient import UNTIED

NAMES = [name for name in UNTIED if name.startswith(("masked", "hclt", "rat_spn-gaussian", "poon_domingos-bernoulli"))]


def learner(circuit, X, *regularizers):
    evaluator, method = Evaluator(circuit, "float64", 1), fp.Adam(0.05)
    parts = [part for part in regularizers if part is not None]
    return Gradient(evaluator, method, Regularizers.read(parts, method), seed=3), Evidence(evaluator.program, X)


def network(circuit, made, z):
    """Leaves and, made from them, the weights of every sum."""
    leaves = {name: torch.tensor(part, requires_grad=True) for name, part in made.unconstrained.parts(z).items()}
    weights = {}
    for shape, blocks in made.unconstrained.blocks.items():
        for number, i in enumerate(blocks):
            hidden = torch.tanh(leaves["A"] @ leaves[f"e {shape}"][number] + leaves["a"])
            logits = (leaves[f"V {shape}"] @ hidden + leaves[f"c {shape}"]).reshape(shape)
            mask = getattr(circuit.nodes[i], "mask", None)
            weights[i] = torch.softmax(logits if mask is None else logits.masked_fill(~torch.tensor(mask), -torch.inf), dim=1)
    return leaves, weights


@pytest.mark.parametrize("sharpness", [None, fp.Sharpness(mu=0.3)])
@pytest.mark.parametrize("name", NAMES)
def test_weights_loss_and_gradients_are_autograds(name, sharpness):
    circuit = UNTIED[name]
    X = rows_for(circuit, 7)
    made, evidence = learner(circuit, X, HyperWeights(3, 4), sharpness)
    for _ in range(2):
        leaves, weights = network(circuit, made, made.z)
        now = model.to_circuit(made.evaluator)
        for i, w in weights.items():
            np.testing.assert_allclose(now.parameters[i], w.detach(), rtol=1e-12)
        inputs = {i: {k: torch.tensor(v) for k, v in p.items()} for i, p in now.parameters.items() if isinstance(p, dict)}
        log_prob = TorchCircuit(circuit).log_prob(torch.tensor(X), {**inputs, **weights})
        penalty = 0.0
        if sharpness:
            for row in log_prob:
                found = torch.autograd.grad(
                    row, list(weights.values()), create_graph=True, materialize_grads=True, allow_unused=True
                )
                for i, g in zip(weights, found, strict=True):
                    mask = getattr(circuit.nodes[i], "mask", None)
                    penalty = penalty + ((g if mask is None else g * torch.tensor(mask)) ** 2).sum() / len(X)
        numbers, likelihood, flat = made.gradients(evidence, np.arange(7), value=sharpness is not None)
        assert numbers[0] == pytest.approx(log_prob.mean().item(), rel=1e-10)
        for loss, z in ((-log_prob.mean(), likelihood), (penalty, flat))[: 1 + (sharpness is not None)]:
            found = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
            for part, g in zip(made.unconstrained.parts(z).values(), found, strict=True):
                np.testing.assert_allclose(part, g, rtol=1e-8, atol=1e-10)
        made.step(evidence, np.arange(7), 0.0)


def test_inputs_learn_as_before():
    circuit = UNTIED["rat_spn-gaussian"]
    X = rows_for(circuit, 9)
    made, evidence = learner(circuit, X, HyperWeights(2, 3))
    before = model.to_circuit(made.evaluator)
    plain = Gradient(Evaluator(before, "float64", 1), fp.Adam(0.05))
    for i, value in circuit.parameters.items():
        if isinstance(value, dict):
            np.testing.assert_allclose(before.parameters[i]["mean"], value["mean"], rtol=1e-12)
    _, g, _ = made.gradients(evidence, np.arange(9))
    _, expected, _ = plain.gradients(evidence, np.arange(9))
    n = made.evaluator.program.n_inputs
    np.testing.assert_allclose(g[-n:], expected[-n:], rtol=1e-9, atol=1e-12)


def test_it_learns_with_far_fewer_parameters():
    rng = np.random.default_rng(0)
    X = (rng.random((200, 8)) < rng.choice([0.2, 0.8], (200, 1))).astype(float)
    circuit = fp.structures.rat_spn(8, 2, 6, 6, 6, family="bernoulli")
    made, _ = learner(circuit, X, HyperWeights(2, 3))
    weights = sum(p.size for p in circuit.parameters.values() if not isinstance(p, dict))
    assert made.unconstrained.n_generator < 0.6 * weights
    options = {"method": fp.Adam(step_size=0.05), "epochs": 15, "batch_size": 50, "progress": False}
    result = fp.fit(circuit, X, regularizer=HyperWeights(2, 3), **options)
    assert result.history["train_nll"][-1] < result.history["train_nll"][0] - 0.2
    both = fp.fit(circuit, X, regularizer=["hyper-weights", SAM()], **options)
    assert both.history["train_nll"][-1] < both.history["train_nll"][0]
    seeds = [fp.fit(circuit, X, regularizer="hyper-weights", **{**options, "epochs": 1, "seed": s}).circuit for s in (1, 1, 2)]
    np.testing.assert_array_equal(seeds[0].log_prob(X), seeds[1].log_prob(X))
    assert not np.array_equal(seeds[0].log_prob(X), seeds[2].log_prob(X))


def test_bad_input():
    for wrong in ({"dimension": 0}, {"hidden": 1.5}):
        with pytest.raises(OptionError, match="HyperWeights"):
            HyperWeights(**wrong)
    circuit = UNTIED["masked"]
    with pytest.raises(OptionError, match="gradient learning"):
        fp.fit(circuit, rows_for(circuit), regularizer="hyper-weights", progress=False)
    with pytest.raises(OptionError, match="starts anew"):
        fp.fit(circuit, rows_for(circuit), method="adam", regularizer=["hyper-weights", "prune-grow"], progress=False)
