"""Devices beside the CPU: the same numbers where there is one, and where there is none an error that says what to do."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.contract import get_evaluator
from flatpc.errors import DeviceError
from flatpc.queries.answers import to_device
from tests.engine.conformance import circuits

torch = pytest.importorskip("torch")

CIRCUITS = circuits()
HAS_MPS = torch.backends.mps.is_available()
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")
mps = pytest.mark.skipif(not HAS_MPS, reason="there is no MPS device on this machine: it is not one of Apple's")


def ask(circuit, X, **how):
    return circuit.log_prob(X, **how)


def learn(circuit, X, **how):
    return fp.fit(circuit, X, epochs=1, progress=False, **how)


def step(circuit, X, **how):
    return fp.learning.EMStep(circuit, n_rows=len(X), **how)


@pytest.mark.parametrize("do", [ask, learn, step])
@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("mps", r"device='mps'; Apple's MPS has no float64, .* Take 'cpu'.*, or leave device out\."),
        (
            "cuda:99",
            r"'cuda:99'; with float64 there is 'cpu'.* Leave device out, or install a torch that has the device\.",
        ),
        ("xpu:7", r"device='xpu:7'; with float64 there is 'cpu'.* Leave device out"),
    ],
)
def test_a_device_that_can_t_be_used_is_refused_with_the_remedy(do, engine, device, message):
    circuit = CIRCUITS["hclt-bernoulli"]
    with pytest.raises(DeviceError, match=message) as caught:
        do(circuit, circuit.sample(5, seed=0), engine=engine, device=device)
    assert caught.value.option == "device"


def test_answers_go_back_to_apple_devices_in_float32(monkeypatch):
    """Which have no float64: torch would refuse."""
    sent = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: sent.append((self.dtype, device)))
    for device in ("mps", "cuda"):
        to_device(torch.ones(3, dtype=torch.float64), torch.device(device))
    assert sent == [(torch.float32, torch.device("mps")), (torch.float64, torch.device("cuda"))]


@mps
def test_rows_on_mps_are_answered_there():
    circuit = CIRCUITS["hclt-bernoulli"]
    X = circuit.sample(20, seed=0)
    rows = torch.tensor(X, dtype=torch.float32, device="mps")
    found = circuit.log_prob(rows)
    assert (found.device.type, found.dtype) == ("mps", torch.float32)
    np.testing.assert_allclose(found.cpu(), circuit.log_prob(X), rtol=1e-6)
    normal = CIRCUITS["rat_spn-gaussian"]
    rows = torch.tensor(normal.sample(5, seed=0), dtype=torch.float32, device="mps", requires_grad=True)
    assert torch.autograd.grad(normal.log_prob(rows).sum(), rows)[0].abs().sum() > 0


@cuda
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", ["every_node-categorical", "hclt-bernoulli", "rat_spn-gaussian", "hmm_homogeneous-poisson"])
def test_statistics_on_cuda_are_those_of_the_cpu(name, dtype):
    from flatpc.engine.torch.products import largest_error

    circuit = CIRCUITS[name]
    X = circuit.sample(40, seed=1)
    found, expected = [], []
    for device, precision, out in (("cuda", dtype, found), ("cpu", "float64", expected)):
        evaluator = get_evaluator(circuit, engine="torch", device=device, dtype=precision)
        log_prob, gradient, _ = evaluator.statistics(evaluator.evidence(X), np.arange(len(X)))
        out += [log_prob, gradient * evaluator.weights]
    tolerance = {"float64": 1e-10, "float32": 1e-4, "bfloat16": np.expm1(5 * largest_error(circuit)) + 1e-4}[dtype]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@cuda
def test_sub_rows_are_shared_on_cuda(monkeypatch):
    from flatpc.engine.torch import sharing

    circuit = CIRCUITS["hclt-categorical"]
    X = circuit.sample(200, seed=1)
    ends = []
    for numbering in (-1.0, np.inf):
        monkeypatch.setattr(sharing, "NUMBERING", numbering)
        monkeypatch.setattr(sharing, "FEWEST_ROWS", 1)
        learnt = fp.fit(circuit, X, engine="torch", device="cuda", dtype="float64", epochs=2, progress=False)
        ends.append(learnt.circuit.log_prob(X))
    np.testing.assert_allclose(*ends, rtol=1e-10)
