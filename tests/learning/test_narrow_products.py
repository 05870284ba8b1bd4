"""Matrix products in bfloat16: within their bound of float64 on every circuit, and in float32 where the bound is too wide."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.contract import get_evaluator
from flatpc.errors import OptionError
from flatpc.learning.run import feeding
from tests.engine.conformance import EVIDENCE, circuits

torch = pytest.importorskip("torch")
from flatpc.engine.torch import products  # noqa: E402

CIRCUITS = circuits()


def passes(circuit, X, dtype):
    """Log-likelihoods, flows of edges and statistics of inputs."""
    evaluator = get_evaluator(circuit, engine="torch", dtype=dtype)
    log_prob, gradient, inputs = evaluator.statistics(evaluator.evidence(X), np.arange(len(X)))
    return log_prob, gradient * evaluator.weights, inputs


@pytest.mark.parametrize("name", CIRCUITS)
def test_numbers_are_within_the_bound(name):
    circuit = CIRCUITS[name]
    X = np.concatenate([EVIDENCE["some_missing"](circuit)[1], EVIDENCE["duplicates"](circuit)[1]])
    exact, found = (passes(circuit, X, dtype) for dtype in ("float64", "bfloat16"))
    bound = products.largest_error(circuit) + 1e-5  # and what float32 adds
    possible = np.isfinite(exact[0])
    np.testing.assert_array_equal(np.isfinite(found[0]), possible)
    assert np.abs(found[0] - exact[0])[possible].max(initial=0.0) <= bound
    flows, wide = found[1].astype(float), exact[1]
    some = wide > 1e-12 * wide.max(initial=1.0)
    assert np.abs(np.log(flows[some] / wide[some])).max(initial=0.0) <= 5 * bound
    assert flows[~some].max(initial=0.0) <= 1e-11 * wide.max(initial=1.0)
    if name.endswith(("bernoulli", "categorical")):  # counts; the statistics of other families are not all sums of flows
        np.testing.assert_allclose(found[2], exact[2], rtol=np.expm1(5 * bound), atol=1e-6)


def test_products_are_in_bfloat16_and_sums_in_float32():
    """Against products of numbers rounded by hand; 300 terms, which bfloat16 itself could not add up."""
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(rng.random(shape), dtype=torch.float32) for shape in ((2, 5, 300), (2, 300, 4)))
    rounded = [t.numpy().view(np.uint32) for t in (a, b)]
    by_hand = [((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(float) for bits in rounded]
    found = products.multiply(a, b, torch.bfloat16)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, by_hand[0] @ by_hand[1], rtol=2**-8)
    assert not np.allclose(found, a.double() @ b.double(), rtol=1e-5)
    huge = torch.full((1, 1, 1), torch.finfo(torch.float32).max)
    assert (products.multiply(huge, torch.zeros(1, 1, 1), torch.bfloat16) == 0).all()


def test_sums_are_counted():
    """All of a hidden tree, which has one induced tree's shape; of a mixture of factorised distributions, the root."""
    tree = fp.structures.hclt(np.random.default_rng(0).integers(0, 2, (50, 7)), 3)
    assert products.most_sums(tree) == sum(isinstance(node, fp.Sum) for node in tree.nodes)
    nodes = [*(fp.Input(v, fp.Bernoulli(), 3) for v in range(7)), fp.Product(tuple(range(7))), fp.Sum((7,))]
    assert products.most_sums(fp.Circuit(nodes)) == 1


def test_a_circuit_with_too_many_sums_stays_in_float32():
    nodes = [fp.Input(0, fp.Bernoulli(), 4), *(fp.Sum((i,), 4) for i in range(5)), fp.Sum((5,))]
    circuit = fp.Circuit(nodes).randomize(0)
    assert products.most_sums(circuit) == 6
    assert get_evaluator(circuit, engine="torch", dtype="bfloat16").arithmetic == "float32"
    X = circuit.sample(20, seed=0)
    for narrow, expected in zip(passes(circuit, X, "bfloat16"), passes(circuit, X, "float32"), strict=True):
        np.testing.assert_array_equal(narrow, expected)


def test_tiny_weights_stay_in_float64():
    circuit = CIRCUITS["hclt-bernoulli"]
    weights = {i: np.array(p) for i, p in circuit.parameters.items() if not isinstance(p, dict)}
    i = next(i for i, w in weights.items() if w.shape[1] > 1)
    weights[i][0] = [1e-60, *np.full(weights[i].shape[1] - 1, (1 - 1e-60) / (weights[i].shape[1] - 1))]
    evaluator = get_evaluator(circuit.with_parameters(weights), engine="torch", dtype="bfloat16")
    assert (evaluator.dtype, evaluator.arithmetic) == ("float64", "float64")


@pytest.mark.parametrize("how", [{}, {"method": fp.Adam(0.05)}, {"sharpness": fp.Sharpness(mu=0.1)}])
def test_learning_comes_close(how):
    """Ten epochs on rows with structure: NLLs to a hundredth of a nat per variable, the bound being 0.024 for one pass."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 8))
    X[:, 1::2] = np.where(rng.random((400, 4)) < 0.8, X[:, ::2], X[:, 1::2])
    circuit = fp.structures.hclt(X, 6)
    options = {"engine": "torch", "epochs": 10, "progress": False, "valid": X[:100], **how}
    narrow, wide = (fp.fit(circuit, X, dtype=dtype, **options) for dtype in ("bfloat16", "float64"))
    assert np.abs(narrow.history["train_nll"] - wide.history["train_nll"]).max() > 1e-5
    np.testing.assert_allclose(narrow.circuit.log_prob(X).mean(), wide.circuit.log_prob(X).mean(), atol=0.01)
    assert narrow.history["valid_nll"][-1] == pytest.approx(-narrow.circuit.log_prob(X[:100]).mean(), abs=1e-9)  # not rounded


def test_the_native_engine_and_queries_refuse_it():
    circuit = CIRCUITS["hclt-bernoulli"]
    X = circuit.sample(5, seed=0)
    with pytest.raises(OptionError, match=r"dtype='bfloat16' with engine='numba'.*or choose engine='torch'"):
        fp.fit(circuit, X, dtype="bfloat16", progress=False)
    with pytest.raises(OptionError, match="dtype='bfloat16'"):
        circuit.log_prob(X, engine="torch", dtype="bfloat16")
    with pytest.raises(OptionError, match="dtype='half'"):
        fp.fit(circuit, X, dtype="half", progress=False)


def test_pieces_of_a_source_are_worked_on_in_bfloat16_too(monkeypatch):
    """Here, and by the workers of a cluster, which are told by a setting."""
    made, setting = [], feeding.Setting
    monkeypatch.setattr(feeding, "Setting", lambda *given, **named: made.append(setting(*given, **named)) or made[-1])
    circuit = CIRCUITS["hclt-bernoulli"]
    X = circuit.sample(300, seed=0)
    options = {"engine": "torch", "epochs": 2, "batch_size": None, "progress": False}
    streamed = fp.fit(circuit, fp.tables.source(X, block_rows=50), dtype="bfloat16", **options).history["train_nll"]
    in_memory, single = (fp.fit(circuit, X, dtype=dtype, **options).history["train_nll"] for dtype in ("bfloat16", "float32"))
    np.testing.assert_allclose(streamed[0], in_memory[0], rtol=1e-6)
    assert abs(streamed[0] - single[0]) > 1e-5
    assert [each.dtype for each in made] == ["bfloat16"]
    assert made[0].evaluator().arithmetic == "bfloat16"
