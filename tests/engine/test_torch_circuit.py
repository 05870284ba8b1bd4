"""The differentiable circuit: derivatives to second order, in parameters and rows, and what happens at zero."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.engine.torch.module import TorchCircuit
from tests.engine import conformance
from tests.oracles import derivatives, evaluate, random_circuits

random = settings(max_examples=40)
# torch.func loads parts of torch that are written in its own deprecated language.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def functions(circuit, X):
    """Σ log p over possible rows as a function of all weights and inputs' parameters, by TorchCircuit and by the oracle."""
    net, oracle = TorchCircuit(circuit), derivatives.tensors(circuit)
    names = [(i, None) for i, p in net.parameters.items() if not isinstance(p, dict)]
    for i, p in net.parameters.items():
        # The oracle's powers have no second derivative at p = 0, so Binomial inputs take no part.
        if isinstance(p, dict) and not isinstance(circuit.nodes[i].family, fp.Indicator | fp.Binomial):
            names += [(i, name) for name in p]
    X = torch.tensor(X)

    def fill(values, base):
        out = {i: dict(p) if isinstance(p, dict) else p for i, p in base.items()}
        for (i, name), value in zip(names, values, strict=True):
            if name == "covariance":  # derivatives along covariances that are not symmetric mean nothing
                out[i][name] = (value + value.transpose(1, 2)) / 2
            elif name is not None:
                out[i][name] = value
            else:
                mask = circuit.nodes[i].mask if isinstance(circuit.nodes[i], fp.Sum) else None
                out[i] = value if mask is None else value * torch.tensor(mask)
        return out

    start = tuple(net.parameters[i] if name is None else net.parameters[i][name] for i, name in names)
    return (
        start,
        lambda *values: net.log_prob(X, fill(values, net.parameters)).sum(),
        lambda *values: derivatives.log_prob(circuit, fill(values, oracle), X).sum(),
    )


@random
@given(data=st.data())
def test_first_and_second_derivatives_equal_plain_autograd(data):
    """Weights and probabilities of exactly 0, masks, ties and zero units are among the random circuits."""
    circuit = data.draw(random_circuits.circuits(max_variables=4, max_width=3, families="all"))
    X = data.draw(random_circuits.rows(circuit, max_rows=3))
    X = X[np.isfinite(evaluate.log_prob(circuit, X))]
    start, mine, oracle = functions(circuit, X)
    if not start or not len(X):
        return
    everything = tuple(range(len(start)))
    found = torch.func.grad(mine, everything)(*start)
    expected = torch.func.grad(oracle, everything)(*start)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    # Beside a density of 1e9 a small second derivative is a difference of large numbers.
    largest = max(float(g.detach().abs().max()) for g in expected if g.numel())
    expected = torch.autograd.functional.hessian(oracle, start)
    for hessian in (torch.autograd.functional.hessian(mine, start), torch.func.hessian(mine, everything)(*start)):
        torch.testing.assert_close(hessian, expected, rtol=1e-7, atol=1e-7 + 1e-14 * largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("evidence", conformance.EVIDENCE)
@pytest.mark.parametrize("case", conformance.circuits())
def test_gradients_are_never_nan(case, evidence, dtype):
    """And a row of probability 0 has gradient 0 throughout."""
    circuit, X, values, _, _ = conformance.situation(case, evidence)
    net = TorchCircuit(circuit, dtype)
    leaves = [t for p in net.parameters.values() for t in (p.values() if isinstance(p, dict) else (p,))]
    for leaf in leaves:
        leaf.requires_grad_()
    rows = torch.tensor(X)
    out = net(rows)
    assert not out.isnan().any()
    gradients = torch.autograd.grad(out.sum(), leaves, allow_unused=True, materialize_grads=True)
    assert all(g.isfinite().all() for g in gradients)
    zero = np.isneginf(values[-1][:, 0])
    if zero.any():
        gradients = torch.autograd.grad(net(rows[torch.tensor(zero)]).sum(), leaves, allow_unused=True, materialize_grads=True)
        assert not any(g.any() for g in gradients)


def test_gradient_of_rows_equals_finite_differences():
    circuit = fp.structures.rat_spn(3, 1, 4, 3, 3, family="gaussian")
    X = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    net = TorchCircuit(circuit)
    assert torch.autograd.gradcheck(net, (X,))
    assert torch.autograd.gradgradcheck(net, (X,))


def test_derivatives_of_binomial_probabilities_at_the_border():
    """P = Σ_k w_k C(3, x) p_k^x (1 - p_k)^(3 - x), so ∂ log P / ∂p_k at p_k = 0 is 3 w_k / P for x = 1, else 0 or -3 w_k / P."""
    circuit = fp.Circuit(
        [fp.Input(0, fp.Binomial(3), 2), fp.Sum((0,))], {0: {"p": np.array([0.0, 0.5])}, 1: np.array([[0.25, 0.75]])}
    )
    net = TorchCircuit(circuit)

    def f(p, x):
        return net.log_prob(torch.tensor([[x]]), {0: {"p": p}}).sum()

    p = net.parameters[0]["p"]
    for x, first, binomial in ((0.0, -3 * 0.25, 0.25 + 0.75 / 8), (1.0, 3 * 0.25, 0.75 * 3 / 8), (2.0, 0.0, 0.75 * 3 / 8)):
        gradient = torch.func.grad(f)(p, x)
        torch.testing.assert_close(gradient[0].item(), first / binomial, rtol=1e-12, atol=1e-12)
        # At x = 2 the second derivative of C(3, 2) p² (1 - p) is 6 there; at x = 0 and 1 it is 6 and -12.
        second = {0.0: 6.0, 1.0: -12.0, 2.0: 6.0}[x] * 0.25 / binomial - (first / binomial) ** 2
        torch.testing.assert_close(torch.func.hessian(f)(p, x)[0, 0].item(), second, rtol=1e-12, atol=1e-12)


def test_parameters_can_be_replaced_in_part():
    circuit = conformance.every_node(fp.Bernoulli())
    net, other = TorchCircuit(circuit), circuit.randomize(5)
    X = torch.tensor(evaluate.assignments(circuit))
    changed = net.read_parameters(other)
    conformance.close(net(X, changed).numpy(), evaluate.log_prob(other, X.numpy()), 1e-12)
    mixed = circuit.with_parameters({5: other.parameters[5]})
    conformance.close(net(X, {5: changed[5]}).numpy(), evaluate.log_prob(mixed, X.numpy()), 1e-12)


def test_masked_edges_have_no_gradient():
    circuit = conformance.every_node(fp.Bernoulli())
    net = TorchCircuit(circuit)
    weights = net.parameters[10].requires_grad_()
    net(torch.tensor([[1.0, 0.0, 1.0]])).sum().backward()
    assert not weights.grad[~torch.tensor(circuit.nodes[10].mask)].any()
    assert weights.grad.any()


def test_importing_flatpc_leaves_torch_alone():
    code = "import sys, flatpc; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_blocks_of_rows_change_nothing(monkeypatch):
    from flatpc.engine.torch import engine as torch_engine
    from flatpc.engine.torch import module as torch_circuit

    circuit, X, values, units, (sums, inputs) = conformance.situation("hmm-gaussian", "outliers")
    monkeypatch.setattr(torch_engine, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(torch_circuit, "_SEPARATE_NUMBERS", 1)
    engine = torch_engine.TorchEngine()
    tolerance = conformance.slack(values, "float64")
    conformance.close(engine.log_prob(circuit, X), values[-1][:, 0], 1e-10)
    conformance.close_flows(engine.flows(circuit, X), sums, inputs, tolerance)
    for found, flow in zip(engine.unit_flows(circuit, X), units, strict=True):
        conformance.close(found, flow, tolerance)


def test_a_weight_of_zero_keeps_its_derivative_though_its_unit_is_zero():
    """A mixture that puts all its weight on an impossible child: its other weight still has a derivative."""
    nodes = [
        fp.Input(0, fp.Categorical(3)), fp.Input(0, fp.Indicator(3)), fp.Mixture((0, 1)), fp.Input(1, fp.Categorical(2)),
        fp.Product((3, 2)), fp.Input(0, fp.Categorical(3)), fp.Product((3, 5)), fp.Sum((4, 6)),
    ]  # fmt: skip
    p = np.array([[0.1, 0.5, 0.4]])
    parameters = {
        0: {"p": p}, 1: {"value": np.array([1.0])}, 2: np.array([[0.0, 1.0]]), 3: {"p": np.array([[0.3, 0.7]])}, 5: {"p": p},
        7: np.array([[0.6, 0.4]]),
    }  # fmt: skip
    circuit = fp.Circuit(nodes, parameters)
    net = TorchCircuit(circuit)
    found = torch.func.grad(lambda w: net.log_prob(torch.tensor([[2.0, 1.0]], dtype=torch.float64), {2: w}).sum())(
        net.parameters[2]
    )
    # log(0.7 (0.6 · 0.4 w + 0.4 · 0.4)) by w, at 0
    torch.testing.assert_close(found, torch.tensor([[0.24 / 0.16, 0.0]], dtype=torch.float64), rtol=1e-12, atol=1e-12)
