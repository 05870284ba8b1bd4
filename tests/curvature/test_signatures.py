"""Kernels are compiled once for all tables: read-only ones, as pandas gives them, are no type of their own."""

import sys

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import flatpc as fp


def _compiled():
    """How many specialisations each native loop has."""
    out = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("flatpc.") and "._kernels" in name:
            found = {f"{name}.{k}": f for k, f in vars(module).items() if isinstance(f, Dispatcher)}
            out |= {k: len(f.signatures) for k, f in found.items()}
    return out


def _ask(circuit, X):
    fp.curvature.trace(circuit, X)
    fp.curvature.diagonal(circuit, X)
    fp.curvature.penalty(circuit, X)
    fp.curvature.hessian(circuit, X, method="columns")
    circuit.log_prob(X)
    circuit.flows(X)


@pytest.mark.parametrize("n_variables", [1, 3])
def test_read_only_rows_compile_nothing(n_variables):
    X = np.random.default_rng(0).integers(0, 2, (30, n_variables)).astype(float)
    nodes = [fp.Input(v, fp.Bernoulli(), 2) for v in range(n_variables)]
    if n_variables > 1:
        nodes.append(fp.Product(tuple(range(n_variables))))
    circuit = fp.Circuit([*nodes, fp.Sum((len(nodes) - 1,))]).randomize(0)
    _ask(circuit, X)
    before = _compiled()
    assert before["flatpc.curvature._kernels.squares.squares"] >= 1
    fixed = X.copy()
    fixed.flags.writeable = False
    _ask(circuit, fixed)
    assert _compiled() == before
