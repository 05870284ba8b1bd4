"""By how much a fit flatters itself: estimates of the NLL of new rows, less that of the rows it was fitted to.

Leaving row i out costs it about h_i = g_iᵀ A⁻¹ g_i, and the sum over all rows is the fit's optimism (Takeuchi, 1976). g_i is the
row's gradient in logits and A the Hessian of the negative log posterior (`posterior.py`). Two ways to have it without a solve for
every row:

- With EM's complete-data information C in place of A it is a *weighted trace*, in closed form and free after a backward pass,

      h_i = Σ_n (Σ_c f_nc² / θ_nc - F_n²) / (ΣF_n + α K_n)

  f_nc and F_n being the flows of the row through an edge and a unit, ΣF_n that of all rows, and inputs' tables counting as units.
  It is what one EM step would do to the row; A is smaller than C by the information that is missing, so it understates.
- With random signs ε, one solve gives an unbiased estimate of the sum: E (Σ ε_i g_i)ᵀ A⁻¹ (Σ ε_i g_i) = Σ_i g_iᵀ A⁻¹ g_i.

The evidence is the probability of the rows with the weights integrated out, to second order around the fit (Laplace). In logits y
of which the last of each unit is 0, with d of them and Dirichlet(α) priors,

    log p(X) ≈ Σ log p(x) + Σ_n (log Γ(α K) - K log Γ(α) + α Σ_c log θ_nc) + d/2 log 2π - 1/2 log det A
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from flatpc._options import choice, flag, number, seed_number, whole_number
from flatpc._typing import Array
from flatpc.circuit.nodes import Input, Mixture, Sum
from flatpc.curvature.hessians import hessian
from flatpc.curvature.layout import REDUCTIONS, Layout, share_of_sum
from flatpc.curvature.operators import operator
from flatpc.curvature.over_sources import number_of, rows_or_source, total_flows
from flatpc.curvature.posterior import MOST_FULL, laplace
from flatpc.curvature.posterior_solvers import DAMPINGS, damped
from flatpc.curvature.row_flows import BLOCK_BYTES, blocks, in_logits, row_flows
from flatpc.curvature.spectra import TraceEstimate
from flatpc.engine.contract import get_engine
from flatpc.queries.answers import give_back
from flatpc.queries.streaming import Asked, totals_of
from flatpc.tables.sources import Source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

EVIDENCE = ("auto", "full", "complete")


def weighted_trace(
    circuit: Circuit,
    X: Any,
    *,
    prior: float = 0.0,
    include_inputs: bool = True,
    reduction: str = "none",
    missing: str = "raise",
) -> Any:
    """What leaving each training row out would cost it, by one step of EM: a trace weighted by the complete-data information.

    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.25]}})
    >>> found = fp.curvature.weighted_trace(coin, [[1]] * 25 + [[0]] * 75)
    >>> found[[0, -1]].round(4).tolist(), round(float(found.sum()), 6)      # their sum is the number of free parameters
    ([0.03, 0.0033], 1.0)

    Its mean is in nats, the unit of the gap between the NLL of new rows and that of the rows fitted to. For a model that is
    counted it is that gap, to first order; for one with latents it understates it by the information that is missing.

    Parameters
    ----------
    circuit
        Fitted to X.
    X
        The rows that it was fitted to, or a source of them.
    prior
        α of the Dirichlet prior of every weight.
    include_inputs
        Whether probabilities of Bernoulli and Categorical inputs are weights too.
    reduction
        `"none"`: every row's. `"sum"`, `"mean"`: over the rows.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    array or float
        `[N]`, never negative; a float for `"sum"` and `"mean"`.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    """
    flag("include_inputs", include_inputs)
    alpha = number("prior", prior, 0.0, what="the Dirichlet prior of a weight is 0 or more")
    rows = rows_or_source(circuit, X, missing)
    share = share_of_sum(reduction, number_of(rows), ("none", *REDUCTIONS))
    layout = Layout(circuit, include_inputs)
    totals = _totals(layout, rows, alpha)
    if isinstance(rows, Source):
        found = np.concatenate(list(rows.map(_of_part, (circuit, include_inputs), totals)))
    else:
        found = _each(layout, rows, totals)
    return give_back(found, X) if reduction == "none" else float(share * found.sum())


def _each(layout: Layout, rows: Array, totals: dict[int, Array]) -> Array:
    """`[N]`, never negative."""
    if layout.tied is None:
        size = max(1, BLOCK_BYTES // (8 * max(sum(layout.circuit.widths), 1)))
        parts = [_factored(layout, rows[start : start + size], totals) for start in range(0, len(rows), size)]
    else:
        parts = [_edge_by_edge(layout, part, totals) for part in blocks(layout, rows)]
    return np.maximum(np.concatenate(parts), 0.0) if parts else np.zeros(0)


def _of_part(rows: Iterator[Array], what: tuple[Circuit, bool], totals: dict[int, Array]) -> Array:
    layout = Layout(*what)
    return np.concatenate([np.zeros(0), *(_each(layout, block, totals) for block in rows)])


def takeuchi(
    circuit: Circuit,
    X: Any,
    *,
    prior: float = 0.5,
    structure: str = "auto",
    n_draws: int | None = 8,
    n_steps: int | None = None,
    seed: int = 0,
    include_inputs: bool = True,
    missing: str = "raise",
) -> TraceEstimate:
    """The optimism of a fit by the observed information: by how much the NLL of new rows exceeds that of X, in nats per row.

    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [0.25]}})
    >>> found = fp.curvature.takeuchi(coin, [[1]] * 25 + [[0]] * 75, prior=0.0, n_draws=None)
    >>> round(found.value, 6)                                        # one free parameter over 100 rows
    0.01

    Parameters
    ----------
    circuit
        Fitted to X, best to an optimum; away from one the Hessian is damped, as `fp.curvature.laplace` says.
    X
        The rows that it was fitted to, or a source of them.
    prior, structure
        As for `fp.curvature.laplace`.
    n_draws
        Draws of random signs, one solve for each; None solves for every row, exactly.
    n_steps
        Solve by so many steps of conjugate gradients instead of `structure`, preconditioned with the complete-data information.
        For a fit that was stopped early, give about the number of its epochs. They end at a direction without positive curvature.
        None solves exactly.
    seed
        Random seed of the signs.
    include_inputs, missing
        As for `fp.curvature.laplace`.

    Returns
    -------
    TraceEstimate
        `value` and its `standard_error`, 0 if exact.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    """
    if n_draws is not None:
        whole_number("n_draws", n_draws, 2)
    rng = np.random.default_rng(seed_number(seed))
    if n_steps is not None:
        alpha, layout = number("prior", prior, 0.0), Layout(circuit, flag("include_inputs", include_inputs))
        near = _Weights(layout, rows_or_source(circuit, X, missing), alpha)
        signs = _signed(layout, near.rows, whole_number("n_draws", n_draws, 2), rng)
        draws = _truncated(near, signs, whole_number("n_steps", n_steps, 1)) / number_of(near.rows)
        return _mean(draws)
    around = laplace(circuit, X, prior=prior, structure=structure, include_inputs=include_inputs, missing=missing)
    rows, layout = rows_or_source(circuit, X, missing), around.layout
    n_rows = number_of(rows)
    if n_draws is None:
        exact = sum(
            float((around.errors(around.gradients(part, missing="marginalize")) ** 2).sum()) for part in blocks(layout, rows)
        )
        return TraceEstimate(exact / n_rows, 0.0, n_rows)
    total: Any = 0.0
    for part in blocks(layout, rows):
        total = total + rng.choice([-1.0, 1.0], (n_draws, len(part))) @ around.gradients(part, missing="marginalize")
    return _mean(around.errors(total) ** 2 / n_rows)


def evidence(
    circuit: Circuit,
    X: Any,
    *,
    prior: float = 0.5,
    structure: str = "auto",
    include_inputs: bool = True,
    missing: str = "raise",
) -> float:
    """The log-probability of the rows under a structure, its weights integrated out: large where a model is good and simple.

    >>> import math
    >>> import flatpc as fp
    >>> coin = fp.Circuit([fp.Input(0, fp.Bernoulli())], {0: {"p": [25.5 / 101]}})
    >>> found = fp.curvature.evidence(coin, [[1]] * 25 + [[0]] * 75, prior=0.5)
    >>> exact = math.lgamma(25.5) + math.lgamma(75.5) - math.lgamma(101) - 2 * math.lgamma(0.5)
    >>> abs(found - exact) < 0.01
    True

    Parameters
    ----------
    circuit
        Fitted to X and the prior.
    X
        The rows that it was fitted to, or a source of them.
    prior
        α of the Dirichlet prior of every weight, above 0.
    structure
        `"full"`: by the Hessian of the log posterior, damped where it is not positive. `"complete"`: by EM's complete-data
        information, in closed form, for any number of weights. `"auto"`: full up to 4,000 weights.
    include_inputs
        Whether probabilities of Bernoulli and Categorical inputs are integrated out too.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.

    Returns
    -------
    float
        Nats, over all rows.

    Raises
    ------
    OptionError
        For a wrong option.
    DataError
        For rows that are not the circuit's.
    """
    choice("structure", structure, EVIDENCE)
    flag("include_inputs", include_inputs)
    alpha = number("prior", prior, 0.0, above=True, what="the evidence takes a prior of each weight above 0")
    rows = rows_or_source(circuit, X, missing)
    layout = Layout(circuit, include_inputs)
    if isinstance(rows, Source):
        likelihood = totals_of(Asked(circuit, "marginalize"), rows).log_prob
    else:
        likelihood = float(np.sum(get_engine().log_prob(circuit, rows)))
    if layout.size == 0:
        return likelihood
    around = _Weights(layout, rows, alpha)
    # Of every unit with more than one weight above 0 the last such weight's logit is 0.
    last = np.zeros(layout.size, bool)
    places = np.where(around.moves, np.arange(layout.size), -1)
    starts = np.flatnonzero(np.diff(layout.row, prepend=-1))
    last[np.maximum.reduceat(places, starts)] = True
    free = around.moves & ~last
    sizes = around.edges[last & around.moves]
    log_theta = np.log(np.where(around.moves, around.theta, 1.0))
    log_prior = float(np.sum(gammaln(alpha * sizes) - sizes * gammaln(alpha)) + alpha * log_theta.sum())
    if structure == "complete" or (structure == "auto" and layout.size > MOST_FULL):
        # det of (diag θ - θ θᵀ) without a row and column is the product of all θ.
        complete = around.complete
        log_det = float(np.sum(np.log(complete[free])) + log_theta[around.edges > 1].sum())
    else:
        log_det = _log_det(around, free)
    return likelihood + log_prior + 0.5 * int(free.sum()) * math.log(2 * math.pi) - 0.5 * log_det


class _Weights:
    """Weights and tables of a fit, with their prior."""

    def __init__(self, layout: Layout, rows: Array | Source, alpha: float) -> None:
        self.layout, self.rows, self.alpha = layout, rows, alpha
        self.theta = layout.values
        self.moves = self.theta > 0
        self.edges = layout.row_sums(self.moves.astype(np.float64))

    @property
    def complete(self) -> Array:
        """`[P]`: flow and prior of each entry's unit."""
        return _spread(self.layout, _totals(self.layout, self.rows, self.alpha))

    def simplex(self, vectors: Array, amount: Array) -> Array:
        """(diag θ - θ θᵀ) times vectors, times each unit's `amount`."""
        return np.asarray(amount * self.theta * (vectors - self.layout.row_sums(self.theta * vectors)))


def _log_det(around: _Weights, free: NDArray[np.bool_]) -> float:
    """Of the Hessian of the negative log posterior in these logits, with the least damping that makes it positive."""
    layout, theta = around.layout, around.theta
    options: Any = {"include_inputs": layout.include_inputs, "missing": "marginalize", "space": "logits"}
    same = layout.row[:, None] == layout.row
    spread = np.diag(theta) - np.where(same, np.outer(theta, theta), 0.0)
    A = np.asarray(hessian(layout.circuit, around.rows, **options)) + around.alpha * around.edges * spread
    A, C = (M[np.ix_(free, free)] for M in (A, around.complete * spread))
    for damping in DAMPINGS:
        try:
            factor = np.linalg.cholesky(damped((A + A.T) / 2, C, damping))
        except np.linalg.LinAlgError:
            continue
        break
    return 2 * float(np.log(np.diag(factor)).sum())


def _totals(layout: Layout, rows: Array | Source, alpha: float) -> dict[int, Array]:
    """For every node with weights `[K]`: the flow of each unit over all rows, and α for each of its edges.

    A missing value says nothing of an input's table, and is not counted there.
    """
    out = {i: found.sum(axis=1) for i, found in layout.arrays(total_flows(layout, rows)).items()}
    edges = layout.arrays((layout.values > 0).astype(np.float64))
    return {i: out[i] + alpha * edges[i].sum(axis=1) for i in out}


def _factored(layout: Layout, rows: Array, totals: dict[int, Array]) -> Array:
    """`[N]`: squares of a dense block's flows, f = F/p_n · θ · p_c, add up by products of its vectors."""
    circuit, engine = layout.circuit, get_engine()
    values, flows = engine.unit_values(circuit, rows), engine.unit_flows(circuit, rows)
    tables = layout.arrays(layout.values)
    out = np.zeros(len(rows))
    for i, total in totals.items():
        node, flow, theta = circuit.nodes[i], flows[i], tables[i]
        weight = np.where(total > 0, 1 / np.where(total > 0, total, 1.0), 0.0)
        used = flow > 0
        if isinstance(node, Input):
            x = rows[:, node.variable]
            known = ~np.isnan(x)
            chance = theta.T[np.where(known, x, 0.0).astype(np.int64)]
            share = np.where(used & known[:, None], 1 / np.where(used & (chance > 0), chance, 1.0) - 1, 0.0)
            out += (flow**2 * share) @ weight
            continue
        below = [values[c] for c in node.children]
        children = np.stack(below, axis=2) if isinstance(node, Mixture) else np.concatenate(below, axis=1)[:, None, :]
        assert isinstance(node, Sum | Mixture)
        level = children.max(axis=2)
        level = np.where(np.isfinite(level), level, 0.0)
        up = np.where(used, flow * np.exp(np.where(used, level - np.where(used, values[i], 0.0), 0.0)), 0.0)
        squares = np.exp(2 * (children - level[:, :, None]))
        if isinstance(node, Mixture):
            out += np.einsum("nk,kc,nkc->n", up**2, theta * weight[:, None], squares)
        else:
            out += (((up**2) @ (theta * weight[:, None])) * squares[:, 0]).sum(axis=1)
        out -= flow**2 @ weight
    return out


def _edge_by_edge(layout: Layout, rows: Array, totals: dict[int, Array]) -> Array:
    """`[N]`: the same where nodes share weights, so that flows are added up before they are squared."""
    theta, flows = layout.values, row_flows(layout, rows)
    total = _spread(layout, totals)
    safe = np.where(theta > 0, theta, 1.0)
    squares = np.where(theta > 0, flows**2 / safe, 0.0) - theta * layout.row_sums(flows) ** 2
    return np.asarray((squares / np.where(total > 0, total, np.inf)).sum(axis=1))


def _spread(layout: Layout, totals: dict[int, Array]) -> Array:
    """`[P]`: for every entry the number of its unit."""
    return layout.vector({i: np.repeat(each[:, None], layout.shapes[i][1], axis=1) for i, each in totals.items()})


def _signed(layout: Layout, rows: Array | Source, n_draws: int, rng: np.random.Generator) -> Array:
    """`[draws, P]`: sums of the rows' gradients with random signs."""
    out = np.zeros((n_draws, layout.size))
    for some in rows.blocks() if isinstance(rows, Source) else (rows,):
        for draw in out:
            flows = get_engine().flows(layout.circuit, some, weights=rng.choice([-1.0, 1.0], len(some)))
            found = {i: flows.inputs[i]["counts"] if i in flows.inputs else flows.sums[i] for i in layout.shapes}
            draw += in_logits(layout, layout.vector(found))
    return out


def _mean(draws: Array) -> TraceEstimate:
    return TraceEstimate(float(draws.mean()), float(draws.std(ddof=1) / math.sqrt(len(draws))), len(draws))


def _truncated(around: _Weights, b: Array, n_steps: int) -> Array:
    """`[draws]`: bᵀx after so many steps of conjugate gradients towards A x = b.

    Where A shows no curvature the complete-data information gives the length of the step, which is the last one.
    """
    layout = around.layout
    options: Any = {"include_inputs": layout.include_inputs, "missing": "marginalize", "space": "logits"}
    H = operator(layout.circuit, around.rows, **options)
    complete = around.complete
    # Gradients of a unit add up to 0, so that the direction in which nothing changes needs no care; a unit without flow has none.
    amount = around.theta * complete
    inverse = np.where(amount > 1e-200, 1 / np.where(amount > 1e-200, amount, 1.0), 0.0)
    x, r = np.zeros_like(b), np.where(around.moves, b, 0.0)
    z = r * inverse
    p, rz = z.copy(), np.einsum("np,np->n", r, z)
    goal = 1e-12 * rz
    for _ in range(n_steps):
        open_ = rz > goal
        if not open_.any():
            break
        q = np.asarray(H @ p.T).T + around.simplex(p, around.alpha * around.edges)
        curved = np.einsum("np,np->n", p, q)
        last = open_ & (curved <= 0)
        curved = np.where(last, np.einsum("np,np->n", p, around.simplex(p, complete)), curved)
        step = np.where(open_, rz / np.where(curved > 0, curved, np.inf), 0.0)[:, None]
        x, r = x + step * p, r - step * q
        z = r * inverse
        new = np.einsum("np,np->n", r, z)
        p = z + (new / np.maximum(rz, 1e-300))[:, None] * p
        rz = np.where(open_ & ~last, new, 0.0)
    return np.asarray(np.einsum("np,np->n", b, x))
