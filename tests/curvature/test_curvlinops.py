"""The Hessian as another library computes it from the torch engine's function."""

import numpy as np
import pytest
import torch

import flatpc as fp
from flatpc.engine.torch.module import TorchCircuit
from tests.curvature.cases import assert_close

curvlinops = pytest.importorskip("curvlinops", reason="needs curvlinops (pip install -c constraints.txt curvlinops-for-pytorch)")


class _Model(torch.nn.Module):
    def __init__(self, circuit):
        super().__init__()
        self.net = TorchCircuit(circuit)
        self.nodes = [i for i, p in self.net.parameters.items() if isinstance(p, torch.Tensor)]
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(self.net.parameters[i]) for i in self.nodes])

    def forward(self, X):
        return self.net.log_prob(X, dict(zip(self.nodes, self.weights, strict=True)))


class _NegativeSum(torch.nn.Module):
    reduction = "sum"

    def forward(self, log_prob, target):
        return -log_prob.sum()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_hessian_of_the_torch_engine():
    X = np.random.default_rng(0).integers(0, 2, (12, 5)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=3)
    model = _Model(circuit)
    rows = torch.tensor(X)
    operator = curvlinops.HessianLinearOperator(
        model, _NegativeSum(), list(model.parameters()), [(rows, torch.zeros(len(X)))], check_deterministic=False
    )
    v = np.random.default_rng(1).standard_normal(operator.shape[0])
    found = operator @ torch.tensor(v)
    assert_close(found.detach().numpy(), fp.curvature.operator(circuit, X) @ v, 1e-9)
