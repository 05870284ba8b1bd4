"""One convention: the Hessian of the negative log-likelihood, summed over rows or their mean, in every function and space."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.curvature.layout import Layout
from flatpc.errors import OptionError
from tests.curvature.cases import assert_close


def _problem():
    X = np.random.default_rng(0).integers(0, 2, (7, 4)).astype(float)
    return fp.structures.hclt(X, n_latents=2).randomize(1), X


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("space", ["weights", "logits", "simplex"])
def test_one_convention(space, inputs):
    circuit, X = _problem()
    each = fp.curvature.trace(circuit, X, space=space, include_inputs=inputs)
    assert each.shape == (7,)
    for reduction, expected in (("sum", each.sum()), ("mean", each.mean())):
        options = {"space": space, "include_inputs": inputs, "reduction": reduction}
        H = fp.curvature.operator(circuit, X, **options)
        n = H.shape[0]
        assert fp.curvature.trace(circuit, X, **options) == pytest.approx(expected, rel=1e-12)
        assert np.trace(fp.curvature.hessian(circuit, X, **options)) == pytest.approx(expected, rel=1e-10)
        assert np.trace(H.matrix()) == pytest.approx(expected, rel=1e-10)
        assert fp.curvature.eigenvalues(circuit, X, n, **options).values.sum() == pytest.approx(expected, rel=1e-10)
        assert fp.curvature.penalty(circuit, X, **options).value == pytest.approx(expected, rel=1e-12)
        assert fp.curvature.breakdown(circuit, X, **options).total == pytest.approx(expected, rel=1e-12)
        diagonal = Layout(circuit, inputs).vector(fp.curvature.diagonal(circuit, X, **options))
        assert diagonal.sum() == pytest.approx(expected, rel=1e-10)
        density = fp.curvature.spectral_density(circuit, X, n_vectors=200, n_steps=2, **options)
        each_start = n * np.nansum(density.weights * np.nan_to_num(density.nodes), axis=1)
        assert abs(each_start.mean() - expected) < 4 * each_start.std() / np.sqrt(200)
        estimate = fp.curvature.hutchinson(H, 400)
        assert abs(estimate.value - expected) < 4 * estimate.standard_error + 1e-12
        exact = fp.curvature.hutch_pp(H, 3 * n)  # as many as there are dimensions: nothing is left to chance
        assert exact.value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradient_is_of_the_same_function(engine, reduction):
    """H is the change of the gradient: by differences, along weights that need not sum to 1."""
    circuit, X = _problem()
    H = fp.curvature.operator(circuit, X, reduction=reduction, engine=engine)
    flows = Layout(circuit).vector(circuit.flows(X).sums) / Layout(circuit).values
    assert_close(H.gradient, -flows / (1 if reduction == "sum" else len(X)), 1e-9)


def test_positive_at_a_mixture():
    """In the weights -∂² log p/∂θ² = (p_c / p)²."""
    coin = fp.Input(0, fp.Bernoulli(), 2)
    circuit = fp.Circuit([coin, fp.Sum((0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    X = [[1], [1]]
    assert_close(fp.curvature.hessian(circuit, X), 2 * np.outer([0.4, 1.6], [0.4, 1.6]), 1e-14)
    assert_close(fp.curvature.hessian(circuit, X, reduction="mean"), np.outer([0.4, 1.6], [0.4, 1.6]), 1e-14)
    assert_close(fp.curvature.diagonal(circuit, X)[1], [[0.32, 5.12]], 1e-14)


def test_unknown_reductions_are_refused():
    circuit, X = _problem()
    c = fp.curvature
    for ask in (c.trace, c.breakdown, c.diagonal, c.hessian, c.operator, c.penalty, c.eigenvalues, c.spectral_density):
        with pytest.raises(OptionError, match="reduction='total'"):
            ask(circuit, X, reduction="total")
        if ask is not c.trace:
            with pytest.raises(OptionError, match="'sum' or 'mean'"):
                ask(circuit, X, reduction="none")
