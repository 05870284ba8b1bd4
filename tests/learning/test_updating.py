"""`forget` and `learn`: against counting again, and against fits without the rows."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError


def chain(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.empty((n, 5))
    X[:, 0] = rng.integers(0, 3, n)
    for v in range(1, 5):
        X[:, v] = np.where(rng.random(n) < 0.6, X[:, v - 1], rng.integers(0, 3, n))
    return X


def counted(tree, X, alpha=0.5):
    """One step of EM of a circuit whose sums tell their parts apart is counting, and all there is."""
    flows = tree.flows(X)
    found = dict(flows.sums)
    for i, node in enumerate(tree.nodes):
        if isinstance(node, fp.Input) and node.family.learnable:
            found[i] = flows.inputs[i]["counts"]
    parameters = {}
    for i, flow in found.items():
        node = tree.nodes[i]
        mask = getattr(node, "mask", None)
        counts = flow + alpha * (np.ones(flow.shape) if mask is None else mask)
        theta = counts / counts.sum(axis=1, keepdims=True)
        parameters[i] = node.family.from_table(theta) if isinstance(node, fp.Input) else theta
    return tree.with_parameters(parameters)


@pytest.mark.parametrize("way", ["forget", "learn"])
def test_counted_models_end_where_counting_again_does(way):
    X = chain()
    tree = fp.structures.chow_liu(X)
    assert tree.is_deterministic
    if way == "forget":
        tree = counted(tree, X)
        found, left = fp.learning.forget(tree, X, np.arange(40)), X[40:]
    else:
        tree = counted(tree, X[:200])
        found, left = fp.learning.learn(tree, X[:200], X[200:]), X
    again = counted(tree, left)
    np.testing.assert_allclose(found.circuit.log_prob(left).sum(), again.log_prob(left).sum(), atol=1e-6)
    assert found.gap < 1e-6
    assert found.steps <= 2
    # The certificate of the old circuit is about what was won.
    assert 0.5 * found.won < found.start < 2 * found.won


def mixture(seed=0):
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, (300, 1))
    X = rng.normal(np.where(side == 0, [0.0, 1.0, -1.0], [4.0, -3.0, 3.0]), 1.0)
    return fp.structures.rat_spn(3, depth=1, n_repetitions=1, n_sums=2, n_inputs=2, family="gaussian").randomize(0, X=X), X


def test_latent_models_end_no_worse_than_a_refit():
    """EM over all rows for 1,500 epochs, from the same circuit, with the same prior."""
    start, X = mixture()
    fitted = fp.learning.learn(start, X[:200], X[200:], pseudocount=1.0, steps=60).circuit
    found = fp.learning.forget(fitted, X, np.arange(30), pseudocount=1.0)
    assert found.gap < 1e-6
    assert found.start > 100 * found.gap
    options = {"method": fp.EM(step_size=1.0), "regularizer": fp.learning.Laplace(1.0), "dtype": "float64"}
    refit = fp.fit(fitted, X[30:], batch_size=None, epochs=1500, progress=False, **options).circuit
    np.testing.assert_allclose(found.circuit.log_prob(X[30:]).sum(), refit.log_prob(X[30:]).sum(), atol=1e-3)


def test_mistakes_are_named():
    X = chain(50)
    tree = fp.structures.chow_liu(X)
    for rows in ([50], [-1], [0.5], "all", np.ones(3, bool)):
        with pytest.raises(OptionError, match="rows"):
            fp.learning.forget(tree, X, rows)
    with pytest.raises(OptionError, match="left"):
        fp.learning.forget(tree, X, np.ones(50, bool))
