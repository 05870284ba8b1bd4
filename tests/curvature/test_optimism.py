"""Optimism of a fit and its evidence: against matrices, refits, exact integrals and differences."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.special import gammaln, logsumexp

import flatpc as fp
from flatpc.curvature.layout import Layout, parameters_of
from flatpc.curvature.row_flows import in_logits, row_flows
from flatpc.errors import OptionError
from tests.curvature.test_posterior import hidden, refit
from tests.oracles.random_circuits import circuits
from tests.oracles.random_circuits import rows as rows_of


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), prior=st.sampled_from([0.0, 0.3]))
def test_the_weighted_trace_is_a_quadratic_form_of_the_complete_information(data, prior):
    circuit = data.draw(circuits(max_variables=4))
    rows = data.draw(rows_of(circuit, max_rows=5))
    rows = rows[np.isfinite(circuit.log_prob(rows, missing="marginalize"))]
    assume(len(rows) > 0)
    layout = Layout(circuit, True)
    assume(layout.size > 0)
    flows, theta = row_flows(layout, rows), layout.values
    same = layout.row[:, None] == layout.row
    # A missing value is not counted in a table.
    counted = [circuit.nodes[i] for i, (a, b) in layout.shapes.items() for _ in range(a * b)]
    known = np.stack(
        [~np.isnan(rows[:, n.variable]) if isinstance(n, fp.Input) else np.ones(len(rows), bool) for n in counted], 1
    )
    amount = layout.row_sums((flows * known).sum(axis=0) + prior * (theta > 0))
    C = amount * (np.diag(theta) - np.where(same, np.outer(theta, theta), 0.0))
    g = in_logits(layout, flows)
    # Units that no row reaches have no information, and no row has a gradient there.
    wanted = np.einsum("ni,ij,nj->n", g, np.linalg.pinv(C, rcond=1e-13, hermitian=True), g)
    found = fp.curvature.weighted_trace(circuit, rows, prior=prior, missing="marginalize")
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    total = fp.curvature.weighted_trace(circuit, rows, prior=prior, missing="marginalize", reduction="mean")
    assert total == pytest.approx(found.mean(), rel=1e-12)


def test_of_a_counted_model_it_is_what_leaving_a_row_out_costs():
    X = (np.random.default_rng(0).random((400, 3)) < [0.2, 0.5, 0.9]).astype(float)
    model = fp.structures.factorized(X, smoothing=0.0)
    found = fp.curvature.weighted_trace(model, X)
    assert found.sum() == pytest.approx(3, rel=1e-9)  # the number of free parameters
    for i in range(0, 400, 50):
        other = fp.structures.factorized(np.delete(X, i, axis=0), smoothing=0.0)
        change = model.log_prob(X[i : i + 1]) - other.log_prob(X[i : i + 1])
        assert change[0] == pytest.approx(found[i], rel=0.05)


def test_the_observed_information_is_what_leaving_rows_out_costs_a_model_with_latents():
    circuit, X = hidden()
    # 60 rows at most, each once for all that are equal to it.
    distinct, first, counts = np.unique(X, axis=0, return_index=True, return_counts=True)
    cost = [
        (circuit.log_prob(row[None]) - refit(circuit, np.delete(X, i, axis=0)).log_prob(row[None]))[0]
        for row, i in zip(distinct, first, strict=True)
    ]
    truth = np.average(cost, weights=counts)
    exact = fp.curvature.takeuchi(circuit, X, n_draws=None)
    assert exact.standard_error == 0
    assert exact.value == pytest.approx(truth, rel=0.05)
    # One EM step knows nothing of what is missing.
    assert fp.curvature.weighted_trace(circuit, X, prior=0.5, reduction="mean") < 0.75 * truth


def test_random_signs_estimate_it_without_a_solve_for_every_row():
    circuit, X = hidden()
    exact = fp.curvature.takeuchi(circuit, X, n_draws=None).value
    drawn = fp.curvature.takeuchi(circuit, X, n_draws=400, seed=1)
    assert abs(drawn.value - exact) < 4 * drawn.standard_error
    assert drawn.standard_error < 0.1 * exact
    with pytest.raises(OptionError, match="n_draws"):
        fp.curvature.takeuchi(circuit, X, n_draws=1)


def test_few_steps_go_from_what_one_step_of_em_says_to_all_of_it():
    circuit, X = hidden()
    exact = fp.curvature.takeuchi(circuit, X, n_draws=200, seed=1)
    found = [fp.curvature.takeuchi(circuit, X, n_draws=200, seed=1, n_steps=n).value for n in (1, 3, 100)]
    assert found[0] < found[1] < found[2]
    # The same draws; conjugate gradients end after as many steps as there are directions.
    assert found[2] == pytest.approx(exact.value, rel=1e-6)
    one_step = fp.curvature.weighted_trace(circuit, X, prior=0.5, reduction="mean")
    assert one_step < found[0] < exact.value  # a step of the best length instead of 1


# ---- evidence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["full", "complete"])
def test_the_evidence_of_counts_is_that_of_their_closed_form(structure):
    counts, alpha = np.array([400.0, 900.0, 1700.0]), 0.5
    theta = (counts + alpha) / (counts + alpha).sum()
    die = fp.Circuit([fp.Input(0, fp.Categorical(3))], {0: {"p": theta[None]}})
    rows = np.repeat([0.0, 1.0, 2.0], counts.astype(int))[:, None]
    exact = gammaln(3 * alpha) - 3 * gammaln(alpha) + gammaln(counts + alpha).sum() - gammaln(counts.sum() + 3 * alpha)
    assert fp.curvature.evidence(die, rows, prior=alpha, structure=structure) == pytest.approx(exact, abs=1e-3)


def test_the_evidence_of_a_mixture_is_that_of_integration():
    """Two given coins, mixed with an unknown weight, and one unknown coin beside."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.random(80) < 0.45, rng.random(80) < 0.3], axis=1).astype(float)
    nodes = [fp.Input(0, fp.Bernoulli(), width=2), fp.Sum((0,)), fp.Input(1, fp.Bernoulli()), fp.Product((1, 2))]
    alpha = 2.0

    def circuit(w, q):
        return fp.Circuit(nodes, {0: {"p": [0.2, 0.8]}, 1: [[w, 1 - w]], 2: {"p": [q]}})

    n, k = X.sum(axis=0), len(X)

    def density(w, q):
        p = 0.2 * w + 0.8 * (1 - w)
        log = n[0] * math.log(p) + (k - n[0]) * math.log(1 - p) + n[1] * math.log(q) + (k - n[1]) * math.log(1 - q)
        prior = math.gamma(2 * alpha) / math.gamma(alpha) ** 2
        return math.exp(log) * prior**2 * (w * (1 - w) * q * (1 - q)) ** (alpha - 1)

    exact = math.log(dblquad(density, 0, 1, 0, 1, epsabs=0, epsrel=1e-9)[0])
    best = max(
        (circuit(w, (n[1] + alpha) / (k + 2 * alpha)) for w in np.linspace(0.005, 0.995, 199)),
        key=lambda c: c.log_prob(X).sum() + alpha * np.log(np.asarray(c.parameters[1])).sum(),
    )
    # Inputs of the mixture are known, not learnt: they count as tables, so that only the sum is integrated out here.
    found = fp.curvature.evidence(best, X, prior=alpha, include_inputs=False)
    beside = gammaln(2 * alpha) - 2 * gammaln(alpha) + gammaln(n[1] + alpha) + gammaln(k - n[1] + alpha) - gammaln(k + 2 * alpha)
    q = (n[1] + alpha) / (k + 2 * alpha)
    fixed = n[1] * math.log(q) + (k - n[1]) * math.log(1 - q)
    assert found - fixed + beside == pytest.approx(exact, abs=0.05)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_its_determinant_is_that_of_differences(data):
    circuit = data.draw(circuits(max_variables=3, max_width=2))
    rows = np.array(list(itertools.product(*(range(f.n_categories) for f in circuit.families))), float)
    rows = rows[np.isfinite(circuit.log_prob(rows))]
    layout = Layout(circuit, True)
    theta = layout.values
    assume(0 < layout.size <= 20)
    assume(len(rows) > 0)
    assume(theta[theta > 0].min() > 0.02)
    alpha = 60.0  # strong, so that the Hessian is positive anywhere
    starts = np.flatnonzero(np.diff(layout.row, prepend=-1))
    last = np.maximum.reduceat(np.where(theta > 0, np.arange(layout.size), -1), starts)
    free = np.flatnonzero((theta > 0) & ~np.isin(np.arange(layout.size), last))
    assume(len(free) > 0)
    z = np.log(np.where(theta > 0, theta, 1.0))

    def log_posterior(y):
        moved = z.copy()
        moved[free] += y
        moved = np.where(theta > 0, moved, -np.inf)
        log_theta = moved - np.array([logsumexp(moved[layout.row == r]) for r in layout.row])
        other = circuit.with_parameters(parameters_of(circuit, layout.arrays(np.exp(log_theta))))
        return other.log_prob(rows).sum() + alpha * log_theta[theta > 0].sum()

    e = 1e-3 * np.eye(len(free))
    f = log_posterior
    A = np.array([[-(f(a + b) - f(a - b) - f(b - a) + f(-a - b)) / 4e-6 for b in e] for a in e])
    assume(np.linalg.eigvalsh(A)[0] > 0.5)
    sizes = np.bincount(layout.row[theta > 0])
    prior = (gammaln(alpha * sizes) - sizes * gammaln(alpha)).sum()
    wanted = log_posterior(np.zeros(len(free))) + prior + 0.5 * len(free) * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(A)[1]
    found = fp.curvature.evidence(circuit, rows, prior=alpha, structure="full")
    assert found == pytest.approx(wanted, abs=2e-3 * (1 + len(free)))


def test_a_flat_prior_has_no_evidence():
    circuit, X = hidden()
    with pytest.raises(OptionError, match="prior"):
        fp.curvature.evidence(circuit, X, prior=0.0)


# ---- one step of EM without a row -------------------------------------------------------------------------------------


def stepped(circuit, X, alpha):
    """The circuit after a whole step of EM, by flows that the engine adds up."""
    layout, flows = Layout(circuit, True), circuit.flows(X, missing="marginalize")
    found = {i: flows.inputs[i]["counts"] if isinstance(circuit.nodes[i], fp.Input) else flows.sums[i] for i in layout.shapes}
    counts = layout.vector(found) + alpha * (layout.values > 0)
    total = layout.row_sums(counts)
    theta = np.where(total > 0, counts / np.where(total > 0, total, 1.0), layout.values)
    return circuit.with_parameters(parameters_of(circuit, layout.arrays(theta)))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_step_without_a_row_is_that_step_made_row_by_row(data):
    circuit = data.draw(circuits(max_variables=4))
    rows = data.draw(rows_of(circuit, max_rows=4))
    rows = rows[np.isfinite(circuit.log_prob(rows, missing="marginalize"))]
    layout = Layout(circuit, True)
    assume(len(rows) > 1)
    assume(layout.size > 0)
    assume(layout.tied is None)
    alpha = 0.3
    now, after = (c.log_prob(rows, missing="marginalize") for c in (circuit, stepped(circuit, rows, alpha)))
    wanted = [
        now[i]
        - after[i]
        + stepped(circuit, np.delete(rows, i, axis=0), alpha).log_prob(rows[i : i + 1], missing="marginalize")[0]
        for i in range(len(rows))
    ]
    found = fp.curvature.leave_one_out(circuit, rows, prior=alpha, structure="complete", missing="marginalize")
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_counted_model_without_a_row_is_counted_again():
    X = (np.cumsum(np.random.default_rng(0).random((200, 5)) < 0.3, axis=1) % 2).astype(float)
    tree = stepped(fp.structures.chow_liu(X), X, 0.5)
    found = fp.curvature.leave_one_out(tree, X, structure="complete")
    exact = [stepped(tree, np.delete(X, i, axis=0), 0.5).log_prob(X[i : i + 1])[0] for i in range(len(X))]
    np.testing.assert_allclose(found, exact, rtol=1e-10)
    # No information is missing, so that the Hessian says the same.
    np.testing.assert_allclose(fp.curvature.leave_one_out(tree, X), exact, rtol=1e-10)
