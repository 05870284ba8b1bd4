"""The numba engine's own promises: sharing changes nothing, threads change nothing, memory is bounded, updates are fused."""

import itertools

import numpy as np
import pytest

import flatpc as fp
from flatpc.circuit.nodes import Input, Product, Sum
from flatpc.engine.numba import packing
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba._kernels.update import CUBIC, CUBIC_EXACT, PLAIN, QUADRATIC, QUADRATIC_EXACT
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.families.gaussian import Gaussian
from tests.engine.conformance import EVIDENCE, circuits

TOLERANCE = {"float64": 1e-11, "float32": 1e-5}
NO_MASK = np.empty(0, np.uint8)


def relative(found, expected):
    """Largest difference, relative to the largest number."""
    return np.max(np.abs(found - expected), initial=0.0) / max(1.0, np.max(np.abs(expected), initial=0.0))


def bits(n_rows, n_variables, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.random((n_rows, 3)) < 0.5
    flip = rng.random((n_rows, n_variables)) < 0.15
    return (latent[:, rng.integers(0, 3, n_variables)] ^ flip).astype(float)


def rule_for(evaluator, kind=QUADRATIC, mu=0.1, pseudocount=0.0, alpha=0.1):
    masks = packing.pack_masks(evaluator.circuit, evaluator.program)
    return Rule(kind, np.full(evaluator.program.n_steps, mu), pseudocount, alpha, masks)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["complete", "some_missing", "duplicates"])
@pytest.mark.parametrize("name", list(circuits()))
def test_shared_equals_unshared(name, kind, dtype):
    circuit, X = EVIDENCE[kind](circuits()[name])
    X = np.concatenate([X, X[::-1], X[:3]])
    evaluator = Evaluator(circuit, dtype)
    shared = evaluator.flows(Evidence(evaluator.program, X))
    unshared = evaluator.flows(Evidence(evaluator.program, X, share=False))
    assert relative(shared.log_prob, unshared.log_prob) < TOLERANCE[dtype]
    for i, flow in unshared.sums.items():
        assert relative(shared.sums[i], flow) < TOLERANCE[dtype]
    for i, statistics in unshared.inputs.items():
        for statistic in statistics:
            assert relative(shared.inputs[i][statistic], statistics[statistic]) < TOLERANCE[dtype]


@pytest.mark.parametrize("values", ["small", "large", "fractions", "some of each"])
@pytest.mark.parametrize("first", [True, False])
def test_sub_rows_are_numbered_as_sorting_would(values, first):
    """Small whole numbers are looked up, others hashed; the first rows are numbered already, others are numbered by batch."""
    circuit = fp.structures.hclt(bits(300, 12), 3)
    X = bits(300, 12, seed=1)
    if values != "small":
        X[:, :: 2 if values == "some of each" else 1] *= 0.5 if values == "fractions" else 256.0
    X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    X[X == 0] *= np.random.default_rng(4).choice([1.0, -1.0], int((X == 0).sum()))  # minus zero is zero
    evaluator = Evaluator(circuit)
    rows = np.arange(120) if first else np.random.default_rng(3).permutation(300)[:120]
    evidence = Evidence(evaluator.program, X)
    plans = [evidence.plan(rows), evidence.plan(rows)]
    if first:
        evidence.plan(rows[::-1])  # from here on the first rows are rows like others
        plans.append(evidence.plan(rows))
    steps = evaluator.program.structure.steps
    for plan in plans:
        for node, scope in enumerate(circuit.scopes):
            inside = [v for v in range(12) if scope >> v & 1]
            _, inverse = np.unique(np.nan_to_num(X[np.ix_(rows, inside)], nan=7.0) + 0.0, axis=0, return_inverse=True)
            step = evaluator.program.step_of[node]
            number = plan.batch.share[0, steps[step, columns.SCOPE]]
            # The same partition of the rows, whatever the numbers are called.
            assert len(set(zip(inverse.ravel(), number, strict=True))) == len(set(number)) == len(set(inverse.ravel()))
            assert plan.batch.at[step, columns.ROWS] == len(set(number))
            representative = plan.batch.share[1, steps[step, columns.SCOPE]][: len(set(number))]
            np.testing.assert_array_equal(number[representative], np.arange(len(representative)))


def test_data_too_large_for_a_table_of_ids_is_numbered_batch_by_batch(monkeypatch):
    circuit, X = fp.structures.hclt(bits(200, 10), 4), bits(200, 10, seed=1)
    evaluator = Evaluator(circuit)
    expected = evaluator.log_prob(Evidence(evaluator.program, X))
    monkeypatch.setattr("flatpc.engine.numba.evidence.MAX_TABLE_BYTES", 0)
    np.testing.assert_array_equal(evaluator.log_prob(Evidence(evaluator.program, X)), expected)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("structure", ["hclt", "hclt_trees", "rat_spn", "hmm_homogeneous"])
def test_the_number_of_threads_changes_no_bit(structure, dtype, monkeypatch):
    monkeypatch.setattr("flatpc.engine.numba.evaluator.WORTH_A_THREAD", 1e-9)  # small as these circuits are
    X = bits(500, 9)
    circuit = {
        "hclt": lambda: fp.structures.hclt(X, 20),
        "hclt_trees": lambda: fp.structures.hclt(X, 9, n_trees=3),
        "rat_spn": lambda: fp.structures.rat_spn(9, 2, 4, 8, 8, family="bernoulli"),
        "hmm_homogeneous": lambda: fp.structures.hmm(9, 20, homogeneous=True),
    }[structure]()
    results = []
    for n_threads in (1, 2, 3):
        evaluator = Evaluator(circuit, dtype, n_threads)
        evidence = Evidence(evaluator.program, X)
        flows = evaluator.flows(evidence)
        for start in range(0, 500, 250):
            evaluator.em_step(evidence, np.arange(start, start + 250), rule_for(evaluator))
        results.append((flows, evaluator.weights.copy(), evaluator.log_prob(evidence)))
    for (flows, weights, log_prob), (other, other_weights, other_log_prob) in itertools.pairwise(results):
        np.testing.assert_array_equal(flows.log_prob, other.log_prob)
        for i in flows.sums:
            np.testing.assert_array_equal(flows.sums[i], other.sums[i])
        np.testing.assert_array_equal(weights, other_weights)
        np.testing.assert_array_equal(log_prob, other_log_prob)


def test_small_work_has_one_thread():
    X = bits(500, 9)
    small, large = Evaluator(fp.structures.hclt(X, 4), n_threads=2), Evaluator(fp.structures.hclt(X, 200), n_threads=2)
    plans = [Evidence(e.program, X, share=False).plan(np.arange(500)) for e in (small, large)]
    teams = [e._team(plan.batch.at[:, columns.ROWS], e._cost)[0] for e, plan in zip((small, large), plans, strict=True)]
    assert teams == [1, 2]


def test_blocks_of_rows_keep_within_memory_and_change_nothing():
    circuit, X = fp.structures.hclt(bits(400, 20), 16), bits(400, 20, seed=1)
    whole = Evaluator(circuit)
    expected = whole.flows(Evidence(whole.program, X))
    memory = 1 << 17
    evaluator = Evaluator(circuit, memory=memory)
    evidence = Evidence(evaluator.program, X)
    assert len(list(evaluator.blocks(evidence, np.arange(400)))) > 1
    found = evaluator.flows(evidence)
    np.testing.assert_allclose(found.log_prob, expected.log_prob, rtol=1e-13)
    for i, flow in expected.sums.items():
        np.testing.assert_allclose(found.sums[i], flow, rtol=1e-10, atol=1e-12)
    buffers = evaluator._values.nbytes + evaluator._adjoints.nbytes + evaluator._scales.nbytes + evaluator._losses.nbytes
    assert buffers <= 1.2 * memory


def solved_by_bisection(flow, mu, lam, cubic):
    """The positive root of λθ² - Fθ - μF or λθ³ - Fθ² - 2μF², by nothing but signs."""
    lo, hi = np.zeros_like(flow), np.full_like(flow, 1e9)
    for _ in range(400):
        mid = (lo + hi) / 2
        value = lam * mid**3 - flow * mid**2 - 2 * mu * flow**2 if cubic else lam * mid**2 - flow * mid - mu * flow
        lo, hi = np.where(value < 0, mid, lo), np.where(value < 0, hi, mid)
    return np.where(flow > 0, hi, 0.0)


@pytest.mark.parametrize(
    "structure", ["hclt-bernoulli", "hclt_trees-bernoulli", "every_node-categorical", "hmm_homogeneous-bernoulli"]
)
@pytest.mark.parametrize("kind", [PLAIN, QUADRATIC, CUBIC, QUADRATIC_EXACT, CUBIC_EXACT])
@pytest.mark.parametrize("pseudocount", [0.0, 0.7])
def test_a_fused_step_is_the_update_of_the_flows(structure, kind, pseudocount):
    circuit, X = EVIDENCE["complete"](circuits()[structure])
    evaluator = Evaluator(circuit)
    evidence = Evidence(evaluator.program, X)
    flows = evaluator.flows(evidence)
    mu, alpha = 0.05, 0.3
    mean, _ = evaluator.em_step(evidence, np.arange(len(X)), rule_for(evaluator, kind, mu, pseudocount, alpha))
    assert mean == pytest.approx(flows.log_prob.mean(), rel=1e-12)
    for i, new in packing.unpack_weights(circuit, evaluator.program, evaluator.weights).items():
        old = circuit.parameters[i]
        mask = getattr(circuit.nodes[i], "mask", None)
        allowed = np.ones(old.shape, bool) if mask is None else mask
        flow = flows.sums[i] + np.where(allowed, pseudocount / allowed.sum(axis=1, keepdims=True), 0.0)
        if kind != PLAIN:
            lam = np.ones((len(flow), 1))
            if kind in (QUADRATIC_EXACT, CUBIC_EXACT):
                low, high = np.full((len(flow), 1), 1e-9), np.full((len(flow), 1), 1e9)
                for _ in range(200):
                    lam = np.sqrt(low * high)
                    mass = solved_by_bisection(flow, mu, lam, kind == CUBIC_EXACT).sum(axis=1, keepdims=True)
                    low, high = np.where(mass > 1, lam, low), np.where(mass > 1, high, lam)
            flow = solved_by_bisection(flow, mu, lam, kind in (CUBIC, CUBIC_EXACT))
        total = flow.sum(axis=1, keepdims=True)
        target = np.where(total > 0, flow / np.where(total > 0, total, 1), old)
        expected = np.where(total > 0, (1 - alpha) * old + alpha * target, old)
        np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-12)


def test_duplicate_rows_collapse_into_weights():
    circuit, X = fp.structures.hclt(bits(50, 8), 5), bits(50, 8, seed=1)
    counts = np.random.default_rng(0).integers(1, 5, 50)
    evaluator = Evaluator(circuit)
    repeated = evaluator.flows(Evidence(evaluator.program, np.repeat(X, counts, axis=0)))
    weighted = evaluator.flows(Evidence(evaluator.program, X), counts.astype(float))
    for i, flow in repeated.sums.items():
        np.testing.assert_allclose(weighted.sums[i], flow, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 2])
def test_a_product_of_many_large_densities_does_not_overflow(dtype, width):
    n, variance = 1500, 1 / (2 * np.pi * 1.99**2)  # a density of 1.99 at the mean: 1.99¹⁵⁰⁰ is beyond double precision
    nodes = [Input(v, Gaussian(), width) for v in range(n)]
    density = {v: {"mean": np.zeros(width), "variance": np.full(width, variance)} for v in range(n)}
    circuit = fp.Circuit([*nodes, Product(tuple(range(n))), Sum((n,))], {**density, n + 1: np.full((1, width), 1 / width)})
    evaluator = Evaluator(circuit, dtype)
    found = evaluator.log_prob(Evidence(evaluator.program, np.zeros((2, n))))
    np.testing.assert_allclose(found, n * np.log(1.99), rtol={"float32": 1e-6, "float64": 1e-12}[dtype])
