"""The paper's statements about second derivatives, each as a test, and the full Hessian by both routes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import flatpc as fp
from flatpc.curvature.hessians import pairs_of
from flatpc.curvature.layout import Layout
from flatpc.errors import OptionError
from tests.curvature.cases import assert_close, comfortable_rows, problems
from tests.curvature.oracle import Oracle
from tests.oracles import random_circuits


@settings(max_examples=40, deadline=None)
@given(problems(max_rows=3))
def test_any_circuit_against_autograd(problem):
    """Tied parameters, shared sub-circuits, masks, zeros."""
    circuit, X = problem
    found = fp.curvature.hessian(circuit, X, missing="marginalize")
    assert_close(found, -Oracle(circuit, X).hessian(), 1e-9)


@pytest.fixture(params=range(6))
def tree(request):
    """A tree of scalar units, with rows."""
    return _some_tree(request.param)


def _some_tree(seed):
    rng = np.random.default_rng(seed)
    nodes = []

    def add(node):
        nodes.append(node)
        return len(nodes) - 1

    def build(scope, depth):
        if len(scope) == 1:
            if depth % 2 == 0:
                return add(fp.Sum(tuple(add(fp.Input(scope[0], fp.Bernoulli())) for _ in range(2))))
            return add(fp.Input(scope[0], fp.Bernoulli()))
        if depth % 2 == 0:
            return add(fp.Sum(tuple(build(scope, depth + 1) for _ in range(rng.integers(2, 4)))))
        order = rng.permutation(scope)
        cut = rng.integers(1, len(scope))
        return add(fp.Product((build(tuple(order[:cut]), depth + 1), build(tuple(order[cut:]), depth + 1))))

    build((0, 1, 2, 3), 0)
    circuit = fp.Circuit(nodes).randomize(seed)
    assert circuit.is_tree
    return circuit, rng.integers(0, 2, (3, 4)).astype(float)


def test_closed_form_of_a_tree(tree):
    circuit, X = tree
    closed = fp.curvature.hessian(circuit, X, method="tree")
    assert_close(closed, fp.curvature.hessian(circuit, X, method="columns"), 1e-10)
    assert_close(closed, -Oracle(circuit, X).hessian(), 1e-9)


@settings(max_examples=40, deadline=None)
@given(random_circuits.scalar_trees(max_variables=5).flatmap(lambda c: comfortable_rows(c).map(lambda X: (c, X))))
def test_closed_form_of_random_trees(problem):
    """Weights and probabilities that are exactly 0 occur; rows where they matter go the other way."""
    circuit, X = problem
    if circuit.is_tree:  # one unit may still be the child of two sums' edges
        closed = fp.curvature.hessian(circuit, X, method="tree", missing="marginalize")
        assert_close(closed, fp.curvature.hessian(circuit, X, method="columns", missing="marginalize"), 1e-10)


def test_the_three_kinds_of_pair(tree):
    """Sum pairs g g; product pairs and path pairs g g (1 - 1/F_q), q found by walking up from both edges."""
    circuit, X = tree
    H = fp.curvature.hessian(circuit, X[:1], method="tree")
    flow = [f[0, 0] for f in fp.engine.contract.get_engine().unit_flows(circuit, X[:1])]
    g = Oracle(circuit, X[:1]).row_gradients().detach().numpy()[0]
    parent = {c: i for i, node in enumerate(circuit.nodes) for c in getattr(node, "children", ())}
    ends = [c for node in circuit.nodes if isinstance(node, fp.Sum) for c in node.children]

    def way_up(i):
        out = [i]
        while out[-1] in parent:
            out.append(parent[out[-1]])
        return out

    seen = set()
    for (i, a), (j, b) in itertools.combinations(enumerate(ends), 2):
        q = next(u for u in way_up(a) if u in way_up(b))
        kind = "path" if q in (a, b) else "sum" if isinstance(circuit.nodes[q], fp.Sum) else "product"
        seen.add(kind)
        expected = g[i] * g[j] if kind == "sum" else g[i] * g[j] * (1 - 1 / flow[q])
        assert H[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert seen == {"sum", "product", "path"}


def test_second_derivatives_of_the_likelihood(tree):
    """The theorem: ∂²p = p g g / F_q for edges that one induced tree can have, 0 for all others; and ∇²p = p (g gᵀ - H)."""
    circuit, X = tree
    oracle = Oracle(circuit, X[:1])
    import torch

    expected = torch.autograd.functional.hessian(lambda t: oracle.log_prob(t).exp().sum(), oracle.theta).numpy()
    found = fp.curvature.likelihood_hessian(circuit, X[0])
    assert_close(found, expected, 1e-9)
    assert not found[~pairs_of(circuit).together].any()
    assert not np.diag(found).any()


def test_second_derivatives_of_the_likelihood_of_a_dag():
    import torch

    X = np.array([[0.0, 1, 1, 0]])
    circuit = fp.structures.hmm(4, 3, family="bernoulli")
    assert not circuit.is_tree
    oracle = Oracle(circuit, X)
    expected = torch.autograd.functional.hessian(lambda t: oracle.log_prob(t).exp().sum(), oracle.theta).numpy()
    assert_close(fp.curvature.likelihood_hessian(circuit, X[0]), expected, 1e-9)


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("space", ["weights", "logits", "simplex"])
def test_second_derivatives_of_the_likelihood_in_every_space(space, inputs):
    import torch

    X = np.array([[0.0, 1, 1]])
    circuit = fp.structures.hmm(3, 2, family="bernoulli")
    oracle = Oracle(circuit, X, inputs)
    start = oracle.logits() if space == "logits" else oracle.theta

    def likelihood(t):
        return oracle.log_prob(oracle.softmax(t) if space == "logits" else t).exp().sum()

    expected = torch.autograd.functional.hessian(likelihood, start).numpy()
    if space == "simplex":
        expected = oracle.projection().numpy() @ expected @ oracle.projection().numpy()
    found = fp.curvature.likelihood_hessian(circuit, X[0], space=space, include_inputs=inputs)
    assert abs(found - expected).max() <= 1e-9 * float(oracle.log_prob(oracle.theta).exp().detach())


def test_flow_lemma():
    """F_n = Σ over sum parents' edges θ p_n/p_m F_m, plus product parents' F_m; an edge's flow is θ ∂ log p/∂θ."""
    X = np.array([[0.0, 1, 1, 0]])
    circuit = fp.structures.rat_spn(4, depth=1, n_repetitions=2, n_sums=2, n_inputs=2, family="bernoulli")
    engine = fp.engine.contract.get_engine()
    p = [np.exp(v[0]) for v in engine.unit_values(circuit, X)]
    F = [f[0] for f in engine.unit_flows(circuit, X)]
    expected = [np.zeros(k) for k in circuit.widths]
    expected[-1][0] = 1.0
    edge_flows = []
    for i in range(circuit.root, -1, -1):
        node = circuit.nodes[i]
        assert_close(F[i], expected[i], 1e-12)
        if isinstance(node, fp.Sum):
            below = np.concatenate([p[c] for c in node.children])
            edges = circuit.parameters[i] * below / p[i][:, None] * F[i][:, None]
            edge_flows.append(edges.ravel())
            for c, part in zip(
                node.children, np.split(edges, np.cumsum([circuit.widths[c] for c in node.children])[:-1], axis=1), strict=True
            ):
                expected[c] += part.sum(axis=0)
        elif isinstance(node, fp.Mixture):
            edges = circuit.parameters[i] * np.stack([p[c] for c in node.children], axis=1) / p[i][:, None] * F[i][:, None]
            edge_flows.append(edges.ravel())
            for j, c in enumerate(node.children):
                expected[c] += edges[:, j]
        elif isinstance(node, fp.Product):
            shape = [circuit.widths[c] for c in node.children]
            for j, c in enumerate(node.children):
                if node.kind == "hadamard":
                    expected[c] += F[i]
                else:
                    others = tuple(a for a in range(len(shape)) if a != j)
                    expected[c] += F[i].reshape(shape).sum(axis=others)
    g = Oracle(circuit, X).row_gradients().detach().numpy()[0]
    assert_close(np.concatenate(edge_flows[::-1]), Layout(circuit).values * g, 1e-12)


def test_product_complement(tree):
    """Below a product, ∂p_q/∂θ of one factor is that factor's own derivative times the other factors' values."""
    circuit, X = tree
    oracle, x = Oracle(circuit, X[:1]), X[:1]
    values = [np.exp(v[0, 0]) for v in fp.engine.contract.get_engine().unit_values(circuit, x)]
    g = oracle.row_gradients().detach().numpy()[0]
    flows = [f[0, 0] for f in fp.engine.contract.get_engine().unit_flows(circuit, x)]
    starts = dict(zip(Layout(circuit).shapes, np.cumsum([0] + [a * b for a, b in Layout(circuit).shapes.values()]), strict=False))
    checked = 0
    for q, node in enumerate(circuit.nodes):
        if not isinstance(node, fp.Product):
            continue
        for c in node.children:
            child = circuit.nodes[c]
            if not isinstance(child, fp.Sum):
                continue
            complement = np.prod([values[d] for d in node.children if d != c])
            adjoint = flows[q] / values[q]
            for j, d in enumerate(child.children):
                assert g[starts[c] + j] == pytest.approx(adjoint * complement * values[d], rel=1e-10)
                checked += 1
    assert checked


@settings(max_examples=25, deadline=None)
@given(random_circuits.scalar_dags(max_variables=4).flatmap(lambda c: comfortable_rows(c, 2).map(lambda X: (c, X))))
def test_enumeration_of_induced_trees(problem):
    """-H_ij = (F_ij - F_i F_j) / (θ_i θ_j) with F the posterior probability of edges, found by listing all induced trees."""
    circuit, X = problem
    layout = Layout(circuit)
    theta = layout.values
    number = layout.arrays(np.arange(layout.size, dtype=float))
    trees = _induced_trees(circuit, number)
    if len(trees) > 2000:
        return
    densities = [np.exp(v[:, 0]) for v in fp.engine.contract.get_engine().unit_values(circuit, X)]
    expected = np.zeros((layout.size, layout.size))
    for r in range(len(X)):
        weight = np.array([np.prod([densities[i][r] for i in inputs]) * np.prod(theta[edges]) for edges, inputs in trees])
        used = np.zeros((len(trees), layout.size))
        for t, (edges, _) in enumerate(trees):
            used[t, edges] = 1
        posterior = weight / weight.sum()
        F = posterior @ used
        joint = used.T @ (posterior[:, None] * used)
        positive = theta > 0
        H = np.zeros_like(joint)
        at = np.ix_(positive, positive)
        H[at] = ((joint - np.outer(F, F)) / np.outer(np.where(positive, theta, 1), np.where(positive, theta, 1)))[at]
        np.fill_diagonal(H, np.where(positive, -((F / np.where(positive, theta, 1)) ** 2), 0.0))
        expected -= H
    found = fp.curvature.hessian(circuit, X, missing="marginalize")
    found[theta == 0], found[:, theta == 0] = 0.0, 0.0  # a quotient of zeros, above
    scale = max(abs(expected).max(initial=0.0), 1 / min(theta[theta > 0], default=1.0) ** 2 * 1e-6)
    assert abs(found - expected).max(initial=0.0) <= 1e-9 * scale


def _induced_trees(circuit, number):
    """All induced trees of a scalar circuit as (edges, inputs)."""
    below = []
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            below.append([([], [i])])
        elif isinstance(node, fp.Product):
            parts = itertools.product(*(below[c] for c in node.children))
            few = itertools.islice(parts, 2001)
            below.append([([e for es, _ in part for e in es], [n for _, ns in part for n in ns]) for part in few])
        else:
            edges = number[i][0].astype(int)
            below.append([([*e, edges[j]], n) for j, c in enumerate(node.children) for e, n in below[c]][:2001])
    return below[-1]


def test_spaces_and_engines():
    X = np.random.default_rng(0).integers(0, 2, (6, 4)).astype(float)
    circuit = fp.structures.hclt(X, n_latents=2)
    for inputs in (False, True):
        oracle = Oracle(circuit, X, inputs)
        for engine in ("numba", "torch"):
            found = fp.curvature.hessian(circuit, X, space="logits", include_inputs=inputs, engine=engine)
            assert_close(found, -oracle.hessian(logits=True), 1e-10)


def test_the_closed_form_is_refused_where_it_is_not_one():
    X = np.zeros((1, 4))
    circuit = fp.structures.hmm(4, 2, family="bernoulli")
    with pytest.raises(OptionError, match="tree-structured"):
        fp.curvature.hessian(circuit, X, method="tree")
    with pytest.raises(OptionError, match="method='fast'"):
        fp.curvature.hessian(circuit, X, method="fast")
