"""Error bars and influences: against differences, closed forms and fits to other rows."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.curvature import log_posterior
from flatpc.curvature import row_flows as row_flows_module
from flatpc.curvature.directions import Coordinates
from flatpc.curvature.layout import Layout
from flatpc.curvature.row_flows import in_logits, row_flows
from flatpc.errors import DataError, OptionError, TiedParametersError
from tests.oracles.random_circuits import circuits
from tests.oracles.random_circuits import rows as rows_of

STRUCTURES = ("full", "block", "diagonal", "operator")


def hidden(n_latents=2, seed=0):
    """A hidden Chow-Liu tree fitted to an optimum of the likelihood with a Dirichlet prior of 1/2 per weight, and its rows."""
    rng = np.random.default_rng(seed)
    latent = rng.integers(0, 2, 400)
    X = (rng.random((400, 4)) < np.where(latent[:, None] == 0, [0.2, 0.3, 0.8, 0.6], [0.8, 0.9, 0.3, 0.2])).astype(float)
    start = fp.structures.hclt(X, n_latents, seed=seed)
    return refit(start, X), X


def refit(start, X):
    """Every unit has two edges, so that one observation more, spread evenly, is 1/2 for each weight."""
    options = {"batch_size": None, "epochs": 800, "progress": False, "dtype": "float64"}
    return fp.fit(start, X, method=fp.EM(step_size=1.0), regularizer=fp.learning.Laplace(1.0), **options).circuit


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_gradients_of_rows_are_those_of_differences(data):
    circuit = data.draw(circuits(max_variables=4))
    rows = data.draw(rows_of(circuit, max_rows=4))
    rows = rows[np.isfinite(circuit.log_prob(rows, missing="marginalize"))]
    assume(len(rows) > 0)
    layout = Layout(circuit, True)
    assume(layout.size > 0)
    found = in_logits(layout, row_flows(layout, rows))
    coordinates = Coordinates(layout, "logits")
    for entry in np.flatnonzero(coordinates.moving)[:: max(1, layout.size // 12)]:
        ends = []
        for move in (-1e-5, 1e-5):
            point = coordinates.point.copy()
            point[entry] += move
            ends.append(coordinates.circuit_at(point).log_prob(rows, missing="marginalize"))
        np.testing.assert_allclose(found[:, entry], (ends[1] - ends[0]) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_table_of_counts_has_the_textbook_error(structure):
    """Var log θ_c = 1/n_c - 1/N for counts; a Dirichlet prior is α more of each. By its diagonal alone: (1 - θ) / (N θ)."""
    counts, alpha = np.array([12.0, 30.0, 58.0]), 0.5
    theta = (counts + alpha) / (counts + alpha).sum()
    die = fp.Circuit([fp.Input(0, fp.Categorical(3))], {0: {"p": theta[None]}})
    rows = np.repeat([0.0, 1.0, 2.0], counts.astype(int))[:, None]
    post = fp.curvature.laplace(die, rows, prior=alpha, structure=structure)
    assert post.is_optimum
    assert post.gap < 1e-12
    assert post.damping == 0
    n = counts + alpha
    if structure != "diagonal":
        np.testing.assert_allclose(post.log_prob([[0], [1], [2]]).error ** 2, 1 / n - 1 / n.sum(), rtol=1e-8)


def test_products_node_by_node_are_the_same(monkeypatch):
    """With weights of 0, which stay 0, and with some damping."""
    circuit, X = hidden()
    i = next(i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum | fp.Mixture))
    weights = np.array(circuit.parameters[i])
    weights[0] = np.eye(weights.shape[1])[1]
    around = log_posterior.LogPosterior(circuit.with_parameters({i: weights}), X, alpha=0.5)
    vectors = np.random.default_rng(0).normal(size=(3, around.size))
    assert not around._large_nodes
    expected = around.products(vectors, 0.1), around.centred(vectors)
    monkeypatch.setattr(log_posterior, "LARGE", 0)
    assert around._large_nodes
    for found, one in zip((around.products(vectors, 0.1), around.centred(vectors)), expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-10, atol=1e-10 * abs(one).max())


@pytest.mark.parametrize("structure", ["full", "block", "diagonal"])
def test_draws_vary_as_answers_do(structure):
    circuit, X = hidden()
    post = fp.curvature.laplace(circuit, X, structure=structure)
    asked = X[:5]
    drawn = np.array([each.log_prob(asked) for each in post.draw(2000, seed=1)])
    # A quadratic in the logits is not quite what the circuit does, so that a tenth may be between them.
    np.testing.assert_allclose(drawn.std(axis=0), post.log_prob(asked).error, rtol=0.15)


def test_structures_agree_where_they_should():
    circuit, X = hidden()
    full, operator = (fp.curvature.laplace(circuit, X, structure=each) for each in ("full", "operator"))
    assert full.is_optimum
    asked = np.unique(X, axis=0)
    np.testing.assert_allclose(operator.log_prob(asked).error, full.log_prob(asked).error, rtol=1e-5)
    np.testing.assert_allclose(operator.gap, full.gap, rtol=1e-4, atol=1e-9)
    # One unit alone is one block.
    weights = [[0.3, 0.2, 0.5]]
    inputs = {0: {"p": [0.1, 0.5, 0.9]}, 1: weights}
    mixture = fp.Circuit([fp.Input(0, fp.Bernoulli(), 3), fp.Sum((0,))], inputs)
    rows = [[1.0]] * 30 + [[0.0]] * 20
    errors = [
        fp.curvature.laplace(mixture, rows, structure=each, include_inputs=False).log_prob([[1.0]]).error
        for each in ("full", "block", "operator")
    ]
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-6)
    np.testing.assert_allclose(errors[2], errors[0], rtol=1e-6)


def test_errors_are_those_of_fits_to_other_rows():
    """60 bootstrap refits: median ratio within 0.85 to 1.15, correlation above 0.8 (seeds 0 to 59)."""
    circuit, X = hidden()
    asked = np.unique(X, axis=0)
    error = fp.curvature.laplace(circuit, X).log_prob(asked).error
    again = []
    for seed in range(60):
        rows = X[np.random.default_rng(seed).integers(0, len(X), len(X))]
        again.append(refit(circuit, rows).log_prob(asked))
    spread = np.std(again, axis=0)
    assert 0.85 < np.median(error / spread) < 1.15
    assert np.corrcoef(error, spread)[0, 1] > 0.8


def test_conditional_answers_vary_as_differences_do():
    circuit, X = hidden()
    post = fp.curvature.laplace(circuit, X)
    known = [0, 1]
    found = post.conditional_log_prob(X[:4], known)
    drawn = np.array([each.conditional_log_prob(X[:4], known) for each in post.draw(2000, seed=2)])
    np.testing.assert_allclose(found.error, drawn.std(axis=0), rtol=0.15)
    np.testing.assert_allclose(found.value, circuit.conditional_log_prob(X[:4], known))
    low, high = found.interval(0.9)
    np.testing.assert_allclose((high - low) / 2, 1.6448536 * found.error, rtol=1e-6)


def test_leaving_a_row_out_does_what_influence_says():
    """Against 25 refits without one row."""
    circuit, X = hidden()
    _, first = np.unique(X, axis=0, return_index=True)
    chosen = np.concatenate([first, np.arange(10)])[:25]
    said = fp.curvature.leave_one_out(circuit, X)[chosen]
    true = [float(refit(circuit, np.delete(X, i, axis=0)).log_prob(X[i : i + 1])[0]) for i in chosen]
    change_said, change = said - circuit.log_prob(X[chosen]), true - circuit.log_prob(X[chosen])
    assert np.corrcoef(change_said, change)[0, 1] > 0.98
    np.testing.assert_allclose(np.polyfit(change_said, change, 1)[0], 1.0, atol=0.15)
    # On the mean of other rows: the same sign and size as the change of a refit with the row twice.
    asked = X[200:260]
    moved = fp.curvature.influence(circuit, X, on=asked)[chosen[:8]]
    twice = [
        float(refit(circuit, np.concatenate([X, X[i : i + 1]])).log_prob(asked).mean() - circuit.log_prob(asked).mean())
        for i in chosen[:8]
    ]
    assert np.corrcoef(moved, twice)[0, 1] > 0.98


def without_and_said(circuit, X, chosen, fit):
    """What leaving rows out costs them, by refits and as it is said."""
    now = circuit.log_prob(X)
    done = [float(now[i] - fit(circuit, np.delete(X, i, axis=0)).log_prob(X[i : i + 1])[0]) for i in chosen]
    return np.array(done), (now - fp.curvature.leave_one_out(circuit, X))[chosen]


def test_rows_that_the_fit_made_much_room_for_cost_what_is_said():
    """Rows of noise over 30 columns tell of 60 units at once: their influence on themselves is above 1, their leverage isn't."""
    rng = np.random.default_rng(0)
    X = (rng.random((300, 30)) < np.where(rng.integers(0, 2, (300, 1)) == 0, 0.02, 0.98)).astype(float)
    X[:6] = rng.integers(0, 2, (6, 30))
    circuit = refit(fp.structures.hclt(X, 2, seed=0), X)
    assert (fp.curvature.influence(circuit, X)[:6] > 1).all()
    done, said = without_and_said(circuit, X, range(20), refit)
    np.testing.assert_allclose(said, done, rtol=0.25)
    np.testing.assert_allclose(said.mean(), done.mean(), rtol=0.05)


def test_rows_are_left_out_of_tied_weights():
    X = fp.structures.hmm(4, 2, family="bernoulli", homogeneous=True, seed=3).sample(200, seed=0)
    circuit = refit(fp.structures.hmm(4, 2, family="bernoulli", homogeneous=True, seed=1), X)
    post = fp.curvature.laplace(circuit, X)
    assert post.is_optimum
    done, said = without_and_said(circuit, X, np.unique(X, axis=0, return_index=True)[1], refit)
    assert np.corrcoef(said, done)[0, 1] > 0.98
    np.testing.assert_allclose(said.mean(), done.mean(), rtol=0.1)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_possible_row_can_be_left_out(data):
    """Of any circuit, with impossible rows and missing values among them, and without a prior."""
    circuit = data.draw(circuits(max_variables=3))
    rows = data.draw(rows_of(circuit, max_rows=4))
    now = circuit.log_prob(rows, missing="marginalize")
    for prior in (0.0, 0.5):
        for structure in ("full", "operator"):
            try:
                post = fp.curvature.laplace(circuit, rows, prior=prior, structure=structure, missing="marginalize")
            except (OptionError, DataError):
                continue
            found = fp.curvature.leave_one_out(circuit, rows, uncertainty=post, missing="marginalize")
            assert np.array_equal(np.isfinite(found), np.isfinite(now))
            assert not np.isnan(found).any()


def test_an_impossible_row_costs_nothing():
    die = fp.Circuit([fp.Input(0, fp.Categorical(3))], {0: {"p": [[0.4, 0.6, 0.0]]}})
    for structure in ("full", "complete"):
        found = fp.curvature.leave_one_out(die, [[0.0], [1.0], [2.0]], structure=structure)
        assert np.isfinite(found).tolist() == [True, True, False]
        assert found[2] == -np.inf


@pytest.mark.parametrize("structure", STRUCTURES)
def test_rows_that_tell_nothing_are_refused(structure):
    coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.5]}})
    with pytest.raises(DataError, match="tell nothing"):
        fp.curvature.laplace(coin, [[np.nan]], prior=0.0, structure=structure, missing="marginalize")
    # With a prior there is something to know.
    assert fp.curvature.laplace(coin, [[np.nan]], structure=structure, missing="marginalize").log_prob([[1.0]]).error > 0


def test_gradients_of_all_rows_are_never_there_at_once(monkeypatch):
    circuit, X = hidden()
    post = fp.curvature.laplace(circuit, X)
    rows = np.tile(X, (50, 1))
    monkeypatch.setattr(row_flows_module, "BLOCK_BYTES", 1 << 18)
    fp.curvature.influence(circuit, X, uncertainty=post)
    tracemalloc.start()
    fp.curvature.influence(circuit, rows, uncertainty=post)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.8 * len(rows) * post.size * 8


@pytest.mark.parametrize("seed", range(3))
def test_planted_rows_stand_out(seed):
    """20 rows of 1,000 whose values were drawn by a fair coin are among the 40 with the largest influence on themselves."""
    rng = np.random.default_rng(seed)
    latent = rng.integers(0, 2, 1000)
    X = (rng.random((1000, 30)) < np.where(latent[:, None] == 0, 0.02, 0.98)).astype(float)
    planted = rng.choice(1000, 20, replace=False)
    X[planted] = rng.integers(0, 2, (20, 30))
    circuit = refit(fp.structures.hclt(X, 2, seed=0), X)
    top = np.argsort(-fp.curvature.influence(circuit, X))[:40]
    assert len(set(top) & set(planted)) == 20


def test_a_fit_that_is_no_optimum_says_so():
    circuit, X = hidden()
    rough = fp.structures.hclt(X, 3, seed=5, init="random")
    for structure in STRUCTURES:
        post = fp.curvature.laplace(rough, X, structure=structure)
        assert not post.is_optimum
        assert np.isfinite(post.log_prob(X[:10]).error).all()
    assert fp.curvature.laplace(circuit, X).is_optimum


def test_zero_weights_and_masks_stay_out():
    nodes = [
        fp.Input(0, fp.Bernoulli(), 3),
        fp.Sum((0,), 2, mask=np.array([[True, True, False], [True, True, True]])),
        fp.Sum((1,)),
    ]
    circuit = fp.Circuit(nodes, {0: {"p": [0.1, 0.5, 1.0]}, 1: [[0.4, 0.6, 0.0], [0.0, 0.5, 0.5]], 2: [[0.5, 0.5]]})
    for structure in STRUCTURES:
        post = fp.curvature.laplace(circuit, [[1.0], [0.0], [1.0]], structure=structure)
        assert np.isfinite(post.log_prob([[1.0]]).error).all()
        if structure != "operator":
            drawn = post.draw(3)[0]
            assert drawn.parameters[1][0, 2] == 0
            assert drawn.parameters[1][1, 0] == 0


def test_mistakes_are_named():
    circuit, X = hidden()
    with pytest.raises(OptionError, match="structure"):
        fp.curvature.laplace(circuit, X, structure="half")
    with pytest.raises(OptionError, match="no draws"):
        fp.curvature.laplace(circuit, X, structure="operator").draw(2)
    with pytest.raises(OptionError, match="nothing to be unsure of"):
        fp.curvature.laplace(fp.Circuit([fp.Input(0, fp.Gaussian())]), [[0.0]], include_inputs=False)
    chain = fp.structures.hmm(3, 2, family="bernoulli", homogeneous=True)
    with pytest.raises(TiedParametersError):
        fp.curvature.laplace(chain, [[0.0, 1.0, 0.0]], structure="block")
    assert np.isfinite(fp.curvature.laplace(chain, [[0.0, 1.0, 0.0]]).log_prob([[0.0, 1.0, 0.0]]).error).all()


def test_circuits_answer_with_uncertainty():
    circuit, X = hidden()
    post = fp.curvature.laplace(circuit, X)
    asked = X[:6].copy()
    np.testing.assert_array_equal(circuit.log_prob(asked, uncertainty=post).error, post.log_prob(asked).error)
    np.testing.assert_array_equal(
        circuit.conditional_log_prob(asked, [0], uncertainty=post).error, post.conditional_log_prob(asked, [0]).error
    )
    # Marginal, and given the rest, in three ways: as a mean, as a probability, and as a difference of log-likelihoods.
    asked[:, 2] = np.nan
    mean = circuit.expectation(asked, uncertainty=post)
    proba = post.conditional_proba(asked, 2)
    np.testing.assert_allclose(mean.value[:, 2], proba.value[:, 1], rtol=1e-10)
    np.testing.assert_allclose(mean.error[:, 2], proba.error[:, 1], rtol=1e-8)
    one = asked.copy()
    one[:, 2] = 1.0
    conditional = post.log_prob(one) - post.log_prob(asked, missing="marginalize")
    np.testing.assert_allclose(np.exp(conditional.value) * conditional.error, proba.error[:, 1], rtol=1e-8)
    with pytest.raises(OptionError, match="uncertainty"):
        circuit.log_prob(X, uncertainty=fp.curvature.laplace(refit(circuit, X[:200]), X[:200]))


QUESTIONS = {
    "log_prob": lambda circuit, X, **o: circuit.log_prob(X, **o),
    "conditional_log_prob": lambda circuit, X, **o: circuit.conditional_log_prob(X, [0], **o),
    "conditional_proba": lambda circuit, X, **o: circuit.conditional_proba(X, variable=2, **o),
    "expectation": lambda circuit, X, **o: circuit.expectation(X, **o),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_questions_with_uncertainty_have_the_plain_answers_and_types(ask):
    circuit, X = hidden()
    post = fp.curvature.laplace(circuit, X)
    found = ask(circuit, X[:5], uncertainty=post)
    np.testing.assert_allclose(found.value, ask(circuit, X[:5]), rtol=1e-12)
    tensors = ask(circuit, torch.tensor(X[:5]), uncertainty=post)
    for one, other in ((tensors.value, found.value), (tensors.error, found.error), (tensors.interval()[1], found.interval()[1])):
        assert isinstance(one, torch.Tensor)
        np.testing.assert_array_equal(one.numpy(), other)
    difference, plain = (each - ask(circuit, X[5:10], uncertainty=post) for each in (tensors, found))
    assert isinstance(difference.value, torch.Tensor)
    np.testing.assert_array_equal(difference.error.numpy(), plain.error)
    assert float(tensors.mean().error) == float(found.mean().error)
    # What is not used is not taken in silence.
    for wrong in ({"engine": "nonsense"}, {"engine": "torch"}, {"device": "cuda"}, {"dtype": "float32"}, {"dtype": "half"}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            ask(circuit, X[:5], uncertainty=post, **wrong)
    np.testing.assert_array_equal(ask(circuit, X[:5], uncertainty=post, engine="numba", device="cpu").error, found.error)


def test_intervals_of_probabilities_are_probabilities():
    sure = fp.curvature.Estimate(np.array([[0.0, 0.001, 0.5, 0.999, 1.0]]), np.array([[0.0, 0.5, 0.1, 0.01, 0.0]]))
    low, high = sure.interval(0.9, scale="logit")
    assert ((low >= 0) & (high <= 1) & (low <= sure.value) & (high >= sure.value)).all()
    assert (low[0, [0, 4]].tolist(), high[0, [0, 4]].tolist()) == ([0.0, 1.0], [0.0, 1.0])
    odds = 1.6448536269514722 * 0.1 / 0.25
    np.testing.assert_allclose([low[0, 2], high[0, 2]], [1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))], rtol=1e-12)
    with pytest.raises(OptionError, match="no probabilities"):
        fp.curvature.Estimate(np.array([-3.0]), np.array([0.1])).interval(scale="logit")
    with pytest.raises(OptionError, match="scale"):
        sure.interval(scale="log")


def test_means_of_answers_and_influence_on_any_answer():
    circuit, X = hidden()
    post = fp.curvature.laplace(circuit, X)
    asked = X[:30]
    mean = post.log_prob(asked).mean()
    drawn = post.ask(lambda each: each.log_prob(asked).mean(), n=1000, seed=3)
    np.testing.assert_allclose(mean.error, drawn.error, rtol=0.12)
    np.testing.assert_allclose(
        fp.curvature.influence(circuit, X, on=asked), fp.curvature.influence(circuit, X, on=post.log_prob(asked)), rtol=1e-10
    )
    # On a conditional probability: against a fit with a row twice.
    proba = post.conditional_log_prob(X[:1], [0, 1])
    said = fp.curvature.influence(circuit, X, on=proba)
    for i in (int(said.argmax()), int(said.argmin())):
        twice = refit(circuit, np.concatenate([X, X[i : i + 1]]))
        done = twice.conditional_log_prob(X[:1], [0, 1]) - proba.value
        np.testing.assert_allclose(done[0], said[i], rtol=0.2)
    with pytest.raises(OptionError, match="vary together"):
        fp.curvature.Estimate(np.zeros(1), np.zeros(1)).mean()


def test_intervals_are_drawn_where_they_are():
    answers = fp.curvature.Estimate(np.array([-1.0, -3.0, -2.0]), np.array([0.1, 0.3, 0.2]))
    axes = answers.plot(level=0.95, labels=["a", "b", "c"], sort=True, title="three").axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "c", "b"]
    assert axes.get_title() == "three"
    dots, bars = axes.containers[0].lines[0], axes.containers[0].lines[2][0]
    np.testing.assert_array_equal(dots.get_xdata(), [-1.0, -2.0, -3.0])
    low, high = answers.interval(0.95)
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.stack([low, high], axis=1)[[0, 2, 1]])
    with pytest.raises(OptionError, match="labels"):
        answers.plot(labels=["a"])
    with pytest.raises(OptionError, match="level"):
        answers.plot(level=1.0)
