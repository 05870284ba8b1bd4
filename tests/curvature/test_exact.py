"""Trace, diagonal, H·v and the penalty's gradient against twice (or three times) differentiating a plain torch function."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.curvature.layout import Layout
from flatpc.curvature.penalties import penalty_of_rows
from flatpc.errors import MissingValueError, OptionError, TiedParametersError
from tests.curvature.cases import assert_close, problems
from tests.curvature.oracle import Oracle

TOLERANCE = 1e-9
UNTIED = {"ties": False}


@settings(max_examples=60, deadline=None)
@given(problems(**UNTIED), st.booleans())
def test_trace_and_diagonal_in_weights(problem, inputs):
    circuit, X = problem
    g = Oracle(circuit, X, inputs).row_gradients().detach().numpy()
    found = fp.curvature.trace(circuit, X, include_inputs=inputs, missing="marginalize")
    assert_close(found, (g**2).sum(axis=1), TOLERANCE)
    diagonal = fp.curvature.diagonal(circuit, X, include_inputs=inputs, missing="marginalize")
    assert_close(Layout(circuit, inputs).vector(diagonal), (g**2).sum(axis=0), TOLERANCE)


@settings(max_examples=30, deadline=None)
@given(problems(**UNTIED), st.booleans())
def test_diagonal_is_the_hessians(problem, inputs):
    circuit, X = problem
    layout = Layout(circuit, inputs)
    options = {"include_inputs": inputs, "missing": "marginalize"}
    for space in ("weights", "logits", "simplex"):
        H, scale = _reference(circuit, X, inputs, space)
        found = layout.vector(fp.curvature.diagonal(circuit, X, space=space, **options))
        assert abs(found - np.diag(H)).max(initial=0.0) <= TOLERANCE * scale
        trace = fp.curvature.trace(circuit, X, space=space, **options).sum()
        assert abs(trace - np.trace(H)) <= TOLERANCE * scale * max(1, len(H))


@settings(max_examples=60, deadline=None)
@given(problems(), st.booleans(), st.sampled_from(["weights", "logits", "simplex"]), st.sampled_from(["numba", "torch"]))
def test_product(problem, inputs, space, engine):
    """Tied parameters included."""
    circuit, X = problem
    operator = fp.curvature.operator(circuit, X, space=space, include_inputs=inputs, engine=engine, missing="marginalize")
    v = np.random.default_rng(0).standard_normal(operator.shape[0])
    H, scale = _reference(circuit, X, inputs, space)
    assert abs(operator @ v - H @ v).max(initial=0.0) <= TOLERANCE * scale * max(1, len(H))


@settings(max_examples=30, deadline=None)
@given(problems(), st.booleans(), st.sampled_from(["weights", "logits", "simplex"]), st.integers(1, 5))
def test_several_products_at_once(problem, inputs, space, n):
    """Are those one by one, whether directions move everything, one parameter, or nothing; and columns are the matrix."""
    circuit, X = problem
    operator = fp.curvature.operator(circuit, X, space=space, include_inputs=inputs, missing="marginalize")
    size = operator.shape[0]
    directions = np.random.default_rng(n).standard_normal((size, n))
    directions[:, 0] = 0.0
    if size:
        directions[:, -1] = np.eye(size)[n % size]
    H, scale = _reference(circuit, X, inputs, space)
    tolerance = TOLERANCE * scale * max(1, size)
    one_by_one = [operator @ direction for direction in directions.T]
    assert abs(operator @ directions - np.stack(one_by_one, axis=1)).max(initial=0.0) <= 1e-12 * scale * max(1, size)
    assert abs(operator @ directions - H @ directions).max(initial=0.0) <= tolerance
    matrix = operator.matrix()
    assert np.array_equal(matrix, matrix.T)
    assert abs(matrix - H).max(initial=0.0) <= tolerance


def test_products_of_blocks_of_rows_and_of_directions():
    """Little memory: several blocks of rows, one direction at a time."""
    from flatpc.curvature.operators import HessianOperator, _Native
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator

    X = np.random.default_rng(0).standard_normal((12, 4))
    circuit = fp.structures.rat_spn(4, depth=2, n_repetitions=2, n_sums=3, n_inputs=2, family="gaussian")
    expected = fp.curvature.operator(circuit, X)
    source = _Native(Layout(circuit), X)
    source._passes = Passes(Evaluator(circuit, memory=1 << 13), leaves=False)
    (*several,) = source._blocks()
    assert len(several) > 1
    assert [source._passes.directions_at_once(block) for block in several] == [1] * len(several)
    found = HessianOperator(Layout(circuit), source, "weights", 1.0, False)
    directions = np.random.default_rng(0).standard_normal((expected.shape[0], 5))
    assert_close(found @ directions, expected @ directions, 1e-13)
    assert_close(found.matrix(), expected.matrix(), 1e-13)


@settings(max_examples=40, deadline=None)
@given(problems(max_rows=3, **UNTIED), st.booleans(), st.sampled_from(["weights", "logits", "simplex", "logit-gradient"]))
def test_penalty(problem, inputs, space):
    circuit, X = problem
    X = np.concatenate([X, X[:1]])  # equal rows are done once, and count twice
    value, gradient = Oracle(circuit, X, inputs).penalty(space)
    found = fp.curvature.penalty(circuit, X, space=space, include_inputs=inputs, missing="marginalize")
    assert found.value == pytest.approx(value, rel=TOLERANCE, abs=1e-12)
    found_gradient = Layout(circuit, inputs).vector(found.gradient)
    assert abs(found_gradient - gradient).max(initial=0.0) <= TOLERANCE * max(abs(gradient).max(initial=0.0), abs(value), len(X))
    each = fp.curvature.trace(circuit, X, space=space, include_inputs=inputs, missing="marginalize")
    assert found.value == pytest.approx(each.sum(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("family", ["bernoulli", "gaussian"])
def test_regular_structures(family):
    """Wide blocks, Kronecker products and mixtures, on both kinds of evidence."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40, 6)).astype(float) if family == "bernoulli" else rng.standard_normal((40, 6))
    circuits = [fp.structures.rat_spn(6, depth=2, n_repetitions=3, n_sums=4, n_inputs=3, family=family)]
    if family == "bernoulli":
        circuits.append(fp.structures.hclt(X, n_latents=17))
    assert_close(fp.curvature.operator(circuits[0], X[:2]).matrix(), -Oracle(circuits[0], X[:2]).hessian(), 1e-11)
    for circuit in circuits:
        oracle = Oracle(circuit, X)
        g = oracle.row_gradients().detach().numpy()
        assert_close(fp.curvature.trace(circuit, X), (g**2).sum(axis=1), 1e-12)
        v = rng.standard_normal(oracle.size)
        a = fp.curvature.operator(circuit, X) @ v
        assert_close(a, fp.curvature.operator(circuit, X, engine="torch") @ v, 1e-11)
        for space in ("weights", "simplex"):
            found = fp.curvature.penalty(circuit, X, space=space)
            value, gradient = oracle.penalty(space)
            assert found.value == pytest.approx(value, rel=1e-12)
            assert_close(Layout(circuit).vector(found.gradient), gradient, 1e-11)


def _reference(circuit, X, inputs, space):
    """The Hessian of the negative log-likelihood, and the size of the numbers that it is a difference of.

    Flows in logits,
    gradients on the simplex.
    """
    H = -Oracle(circuit, X, inputs).hessian(logits=space == "logits")
    scale = max(abs(H).max(initial=0.0), len(X) if space == "logits" else 0.0)
    if space == "simplex":
        H = _projection(circuit, inputs) @ H @ _projection(circuit, inputs)
    return H, scale


def _projection(circuit, inputs):
    """On directions that keep each unit's weights normalised, built unit by unit."""
    layout = Layout(circuit, inputs)
    P = np.zeros((layout.size, layout.size))
    for unit in np.unique(layout.row):
        at = np.flatnonzero((layout.row == unit) & layout.exists)
        P[np.ix_(at, at)] = np.eye(len(at)) - 1 / len(at)
    return P


# ---- far from comfortable ------------------------------------------------------------------------------------------------


def _outliers():
    """A mixture of two Gaussian pairs, and a row that each pair contradicts in another variable by thousands of deviations."""
    nodes = [fp.Input(0, fp.Gaussian(), 2), fp.Input(1, fp.Gaussian(), 2), fp.Product((0, 1)), fp.Sum((2,))]
    parameters = {
        0: {"mean": [0.0, 1.0], "variance": [1e-4, 1e-4]},
        1: {"mean": [1.0, 0.0], "variance": [1e-4, 1e-4]},
        3: [[0.25, 0.75]],
    }
    return fp.Circuit(nodes, parameters), np.array([[0.0, 0.0], [0.5, 0.5], [0.0, 1.0]])


def test_rows_that_the_linear_domain_cannot_hold():
    """Both units tie at rows 0 and 1 (gradient 1 each), and the first has all of row 2: by hand."""
    circuit, X = _outliers()
    assert_close(fp.curvature.trace(circuit, X), [2.0, 2.0, 16.0], 1e-9)
    H = 2 * np.ones((2, 2)) + np.diag([16.0, 0.0])
    operator = fp.curvature.operator(circuit, X)
    assert_close(operator @ np.eye(2), H, 1e-9)
    assert_close(fp.curvature.diagonal(circuit, X)[3], np.diag(H)[None], 1e-9)
    # R = Σ p_c² / s²: the gradient is -2 R p / s, with p / s = (1, 1) at two rows and (4, 0) at one.
    found = fp.curvature.penalty(circuit, X)
    assert found.value == pytest.approx(20.0, rel=1e-9)
    assert_close(found.gradient[3], [[-4 - 4 - 128, -4 - 4]], 1e-9)
    # On the simplex R = (p_1 - p_2)² / 2s²: 0 at the first two rows and 8 at the third, where -2 R p / s = (-64, 0).
    found = fp.curvature.penalty(circuit, X, space="simplex")
    assert found.value == pytest.approx(8.0, rel=1e-9)
    assert_close(found.gradient[3], [[-32.0, 32.0]], 1e-9)


def test_an_impossible_row_adds_nothing():
    coin = fp.Input(0, fp.Bernoulli(), 2)
    circuit = fp.Circuit([coin, fp.Sum((0,))], {0: {"p": [0.0, 0.0]}, 1: [[0.5, 0.5]]})
    assert fp.curvature.trace(circuit, [[1], [0]]).tolist() == [0.0, 2.0]
    assert fp.curvature.penalty(circuit, [[1], [0]]).value == 2.0
    assert_close(fp.curvature.operator(circuit, [[1], [0]]) @ np.eye(2), np.ones((2, 2)), 1e-15)


def test_a_dead_edge_has_a_gradient():
    """With θ = (1, 0) below a product, p = (0.2, 0.8): the second edge's gradient is 4, although it carries no flow."""
    nodes = [fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,)), fp.Input(1, fp.Bernoulli()), fp.Product((1, 2))]
    circuit = fp.Circuit(nodes, {0: {"p": [0.2, 0.8]}, 1: [[1.0, 0.0]], 2: {"p": [0.5]}})
    assert_close(fp.curvature.trace(circuit, [[1, 1]]), [17.0], 1e-14)


def test_a_tensor_for_a_tensor():
    import torch

    circuit, X = _outliers()
    found = fp.curvature.trace(circuit, torch.tensor(X))
    assert isinstance(found, torch.Tensor)
    assert_close(found.numpy(), fp.curvature.trace(circuit, X), 0.0)


def test_memory_only_changes_the_cutting():
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    X = np.random.default_rng(0).standard_normal((50, 4))
    circuit = fp.structures.rat_spn(4, depth=1, n_repetitions=2, n_sums=3, n_inputs=3, family="gaussian")
    found = []
    for memory in (1 << 14, 1 << 30):
        passes = Passes(Evaluator(circuit, memory=memory))
        evidence = Evidence(passes.program, X)
        found.append(penalty_of_rows(passes, evidence, np.arange(50)))
        if memory == 1 << 14:
            assert len(list(passes.blocks(evidence, np.arange(50), None, shared=True))) > 1
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-13)
    assert_close(found[0][1], found[1][1], 1e-13)


def test_row_weights_count_rows():
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    X = np.random.default_rng(0).integers(0, 2, (5, 3)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=3)
    passes = Passes(Evaluator(circuit))
    evidence = Evidence(passes.program, X)
    value, gradient = penalty_of_rows(passes, evidence, np.arange(5), row_weights=np.array([2.0, 0, 0, 0.5, 0]))
    first, fourth = (penalty_of_rows(passes, evidence, np.array([r])) for r in (0, 3))
    assert value == pytest.approx(2 * first[0] + 0.5 * fourth[0], rel=1e-13)
    assert_close(gradient, 2 * first[1] + 0.5 * fourth[1], 1e-13)


def test_float32_evaluators_serve_training():
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    X = np.random.default_rng(0).integers(0, 2, (30, 5)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=9)
    found = []
    for dtype in ("float32", "float64"):
        passes = Passes(Evaluator(circuit, dtype))
        found.append(penalty_of_rows(passes, Evidence(passes.program, X), np.arange(30), space="logits"))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert_close(found[0][1], found[1][1], 1e-4)


def test_threads_change_nothing():
    """Not one bit: every number is written by one thread, in one order."""
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    X = np.random.default_rng(0).integers(0, 2, (300, 8)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=9)
    found = []
    for n_threads in (1, 3):
        passes = Passes(Evaluator(circuit, n_threads=n_threads))
        evidence = Evidence(passes.program, X)
        (block,) = passes.blocks(evidence, np.arange(300), None, shared=True)
        products = passes.products(block, np.linspace(-1, 1, 3 * passes.layout.size).reshape(3, -1))
        found.append([products, *penalty_of_rows(passes, evidence, np.arange(300))])
    for one, three in zip(*found, strict=True):
        assert np.array_equal(one, three)


def test_wanting_the_leaves_changes_nothing():
    """Leaving out what no parameter lies below saves work, and nothing else."""
    from flatpc.curvature.passes import Passes
    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    X = np.random.default_rng(0).integers(0, 2, (40, 5)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=4)
    found = []
    for leaves in (False, True):
        passes = Passes(Evaluator(circuit), leaves=leaves)
        found.append(penalty_of_rows(passes, Evidence(passes.program, X), np.arange(40)))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


def test_progress_counts_products(monkeypatch):
    X = np.random.default_rng(0).integers(0, 2, (4, 3)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=2)
    counted = []
    monkeypatch.setattr("rich.progress.Progress.advance", lambda self, task: counted.append(task))
    quiet, shown = (fp.curvature.hessian(circuit, X, method="columns", progress=progress) for progress in (False, True))
    assert np.array_equal(quiet, shown)
    assert len(counted) == len(shown)


# ---- what is refused --------------------------------------------------------------------------------------------------------


def test_tied_parameters_are_refused_with_the_reason():
    circuit = fp.structures.hmm(4, 2, family="bernoulli", homogeneous=True)
    X = np.zeros((1, 4))
    for ask in (fp.curvature.trace, fp.curvature.diagonal, fp.curvature.penalty, fp.curvature.breakdown):
        with pytest.raises(TiedParametersError, match=r"identity is false.*flatpc.curvature.operator"):
            ask(circuit, X)


def test_the_identity_is_false_for_tied_parameters():
    """So that the refusal above has its reason: the Hessian's diagonal isn't minus the squared gradient there."""
    circuit = fp.structures.hmm(4, 2, family="bernoulli", homogeneous=True)
    oracle = Oracle(circuit, [[0, 1, 1, 0]])
    g = oracle.row_gradients().detach().numpy()
    assert abs(np.diag(oracle.hessian()) + (g**2).sum(axis=0)).max() > 0.1


QUESTIONS = {
    "trace": fp.curvature.trace,
    "breakdown": fp.curvature.breakdown,
    "diagonal": fp.curvature.diagonal,
    "hessian": fp.curvature.hessian,
    "likelihood_hessian": lambda circuit, X, **options: fp.curvature.likelihood_hessian(circuit, X[0], **options),
    "operator": fp.curvature.operator,
    "penalty": fp.curvature.penalty,
    "eigenvalues": lambda circuit, X, **options: fp.curvature.eigenvalues(circuit, X, k=2, **options),
    "spectral_density": lambda circuit, X, **options: fp.curvature.spectral_density(
        circuit, X, n_vectors=2, n_steps=3, **options
    ),
    "landscape": lambda circuit, X, **options: fp.curvature.landscape(circuit, X, dimensions=1, n_steps=3, **options),
}


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_in_every_space(question, inputs):
    """What it answers is tested elsewhere. A landscape says why it isn't drawn on the simplex."""
    X = np.random.default_rng(0).integers(0, 2, (4, 3)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=2)
    ask = QUESTIONS[question]
    for space in ("weights", "logits", "simplex"):
        if (question, space) == ("landscape", "simplex"):
            with pytest.raises(OptionError, match="keep every unit's weights normalised already"):
                ask(circuit, X, space=space, include_inputs=inputs)
        else:
            ask(circuit, X, space=space, include_inputs=inputs)
    with pytest.raises(OptionError, match="space='angles'"):
        ask(circuit, X, space="angles", include_inputs=inputs)


def test_options_are_checked():
    circuit, X = _outliers()
    with pytest.raises(OptionError, match="engine='jax'"):
        fp.curvature.operator(circuit, X, engine="jax")
    with pytest.raises(MissingValueError):
        fp.curvature.trace(circuit, [[0.0, np.nan]])


def test_breakdown_adds_up():
    X = np.random.default_rng(0).integers(0, 2, (20, 6)).astype(float)
    circuit = fp.structures.rat_spn(6, depth=2, n_repetitions=2, n_sums=3, n_inputs=2, family="bernoulli")
    for inputs in (False, True):
        found = fp.curvature.breakdown(circuit, X, include_inputs=inputs)
        assert found.total == pytest.approx(fp.curvature.trace(circuit, X, include_inputs=inputs).sum(), rel=1e-12)
        diagonal = fp.curvature.diagonal(circuit, X, include_inputs=inputs)
        assert found.by_node == pytest.approx({i: d.sum() for i, d in diagonal.items()}, rel=1e-12)
        assert sum(found.by_layer.values()) == pytest.approx(found.total)
        assert (0 in found.by_layer) == inputs
