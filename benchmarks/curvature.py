"""What exact curvature costs, one thread, float64.

python -m benchmarks.curvature
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

import flatpc as fp
from benchmarks import binary_data
from benchmarks.clock import best
from flatpc.curvature.passes import Passes
from flatpc.engine.numba._kernels import columns
from flatpc.engine.numba.evaluator import Evaluator
from flatpc.engine.numba.evidence import Evidence
from flatpc.engine.torch.module import TorchCircuit

Array = NDArray[np.float64]
Numbers = dict[str, Any]
N_LATENTS = 100
BATCHES = {"nltcs": 1000, "plants": 1000, "dna": 200}
MOST_COLUMNS = 2000
"""Of a Hessian that is computed for its time alone."""


def _fitted(name: str) -> tuple[fp.Circuit, Array]:
    X = binary_data.train_rows(name)
    circuit = fp.structures.hclt(X[:5000], n_latents=N_LATENTS)
    return fp.fit(circuit, X[:5000], epochs=3, progress=False).circuit, X


def _data_is_there() -> bool:
    if binary_data.folder() is None:
        print("(left out: FLATPC_DATA names no folder with the binary data sets)\n")
        return False
    return True


def against_passes() -> Numbers | None:
    """Trace, H·v and the penalty's gradient over the passes they extend."""
    print(f"HCLT, {N_LATENTS} latents, fitted; ratios of times")
    if not _data_is_there():
        return None
    found = {}
    print(
        f"{'':<8}{'rows':>6}{'trace / flows row by row':>27}{'H·v / gradient':>17}{'∇penalty / gradient row by row':>33}", end=""
    )
    print(f"{'... / shared gradient':>24}{'rows per sub-row':>19}")
    for name, n in BATCHES.items():
        trace, product, penalty, over_shared, bound = _over_passes(*_fitted(name), np.arange(n))
        found[name] = {"trace": trace, "product": product, "penalty": penalty, "penalty, shared": over_shared}
        print(f"{name:<8}{n:>6}{trace:>27.2f}{product:>17.2f}{penalty:>33.2f}{over_shared:>24.2f}{bound:>19.2f}")
    print(f"{'at most':<14}{1.25:>27.2f}{3:>17.2f}{3:>33.2f}")
    print(
        "A penalty adds up squares, which rows don't share: its passes run once per distinct row, a gradient's once per\n"
        "distinct sub-row. The last column is how many of the one there are for one of the other, weighted by weights.\n"
    )
    return found


def _over_passes(circuit: fp.Circuit, X: Array, rows: NDArray[np.int64]) -> tuple[float, ...]:
    evaluator = Evaluator(circuit)
    passes = Passes(evaluator, leaves=False)
    shared, separate = Evidence(evaluator.program, X), Evidence(evaluator.program, X, share=False)
    # Flows and trace of the distinct rows: neither does a row twice.
    first = np.unique(X[rows], axis=0, return_index=True)[1]
    flows, trace = best(lambda: _flows(evaluator, shared, first), lambda: _trace(passes, shared, first))
    # An operator keeps values and adjoints, which all its products need.
    H = fp.curvature.operator(circuit, X[rows])
    v = np.random.default_rng(0).standard_normal(H.shape[0])
    gradient, product = best(lambda: evaluator.statistics(shared, rows), lambda: H @ v)
    # Unshared evidence: the gradient too is taken row by row, as it must be for continuous data.
    plain, penalty = best(
        lambda: evaluator.statistics(separate, rows), lambda: fp.curvature.penalties.penalty_of_rows(passes, separate, rows)
    )
    # Discrete data: what rows have in common is done once, as far as squares allow.
    plain_shared, penalty_shared = best(
        lambda: evaluator.statistics(shared, rows), lambda: fp.curvature.penalties.penalty_of_rows(passes, shared, rows)
    )
    return trace / flows, product / gradient, penalty / plain, penalty_shared / plain_shared, _rows_per_sub_row(shared, rows)


def _rows_per_sub_row(evidence: Evidence, rows: NDArray[np.int64]) -> float:
    """Distinct rows over distinct sub-rows of dense sums, each sum as often as it has weights."""
    plan, steps = evidence.plan(rows), evidence.program.structure.steps
    dense = steps[:, columns.KIND] == columns.DENSE_SUM
    below = evidence.program.structure.child[steps[dense, columns.CHILD]]
    weights = steps[dense, columns.WIDTH] * steps[below, columns.WIDTH]
    sub_rows = plan.batch.at[dense, columns.ROWS]
    return float(plan.batch.at[-1, columns.ROWS] * weights.sum() / (weights * sub_rows).sum())


def _flows(evaluator: Evaluator, evidence: Evidence, rows: NDArray[np.int64]) -> None:
    for plan in evaluator.blocks(evidence, rows, per_row=True):
        evaluator.up(plan)
        evaluator.down_per_row(plan, np.ones(len(plan.batch.rows)))


def _trace(passes: Passes, evidence: Evidence, rows: NDArray[np.int64]) -> None:
    for block in passes.blocks(evidence, rows, None, shared=False):
        passes.squares(block, "weights")


def _plain_log_prob(circuit: fp.Circuit) -> tuple[Callable[..., torch.Tensor], dict[int, torch.Tensor], TorchCircuit]:
    """Log p of one row on the torch engine without its way out of underflow, which `vmap` can't take."""
    net = TorchCircuit(circuit)
    weights = {i: p for i, p in net.parameters.items() if isinstance(p, torch.Tensor)}

    def log_prob(weights: dict[int, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        state = net.shared(x[None], net.stack({**net.parameters, **weights}, torch.float64), torch.float64)
        return state.v[-1][0, 0, 0].log() + state.s[-1][0, 0]

    return log_prob, weights, net


def against_vmap() -> Numbers | None:
    """The trace over squares of per-row gradients by torch."""
    print(f"HCLT, {N_LATENTS} latents: vmap(grad) squares on the torch engine / trace")
    if not _data_is_there():
        return None
    circuit, X = _fitted("nltcs")
    X = X[:200]
    log_prob, weights, _ = _plain_log_prob(circuit)
    rows = torch.tensor(X)
    each = torch.func.vmap(torch.func.grad(log_prob), in_dims=(None, 0))

    def squares() -> Array:
        return np.asarray(sum((g**2).sum(dim=(1, 2)) for g in each(weights, rows).values()))

    np.testing.assert_allclose(fp.curvature.trace(circuit, X), squares(), rtol=1e-9)
    ours, theirs = best(lambda: fp.curvature.trace(circuit, X), squares)
    print(f"nltcs, 200 rows: {theirs / ours:.0f} times (at least 20)\n")
    return {"times as fast": theirs / ours}


def against_autograd() -> Numbers:
    """The trace over that of autograd's full Hessian, by depth."""
    print("RAT-SPN on 16 rows of noise: the trace, against the full Hessian by automatic differentiation")
    print(f"{'depth':>5}{'weights':>9}{'ours, ms':>10}{'autograd, ms':>14}{'ratio':>9}")
    found = {}
    for depth in (1, 2, 3, 4):
        circuit = fp.structures.rat_spn(16, depth=depth, n_repetitions=1, n_sums=3, n_inputs=3, family="gaussian")
        X = np.random.default_rng(0).standard_normal((16, 16))
        net = TorchCircuit(circuit)
        weights = {i: p for i, p in net.parameters.items() if isinstance(p, torch.Tensor)}
        sizes = [p.numel() for p in weights.values()]
        start = torch.cat([p.reshape(-1) for p in weights.values()])
        rows = torch.tensor(X)

        def total(theta: torch.Tensor, rows=rows, net=net, weights=weights, sizes=sizes) -> torch.Tensor:
            parts = theta.split(sizes)
            return net.log_prob(rows, {i: q.reshape(p.shape) for (i, p), q in zip(weights.items(), parts, strict=True)}).sum()

        (ours,) = best(lambda circuit=circuit, X=X: fp.curvature.trace(circuit, X))
        before = time.perf_counter()
        H = torch.autograd.functional.hessian(total, start)
        theirs = time.perf_counter() - before
        np.testing.assert_allclose(fp.curvature.trace(circuit, X).sum(), -float(H.diagonal().sum()), rtol=1e-9)
        found[depth] = theirs / ours
        print(f"{depth:>5}{len(start):>9}{1e3 * ours:>10.2f}{1e3 * theirs:>14.0f}{theirs / ours:>9.0f}")
    print()
    return {"times as fast, by depth": found}


def _einsum_network() -> tuple[fp.Circuit, Array]:
    X = fp.datasets.manifold("two_moons", 500, seed=0)
    circuit = fp.structures.rat_spn(2, depth=1, n_repetitions=10, n_sums=10, n_inputs=10, family="gaussian")
    return circuit.randomize(0, X=X), X


def against_single_columns() -> Numbers:
    """The full Hessian, and products with dense vectors, several at a time over one by one."""
    noise = np.random.default_rng(0)
    cases = {
        "Einsum Network, 500 rows": _einsum_network(),
        "RAT-SPN, 8 variables, 50 rows": (fp.structures.rat_spn(8, 3, 2, 4, 4), noise.standard_normal((50, 8))),
    }
    if binary_data.folder() is not None:
        X = binary_data.train_rows("nltcs")[:1000]
        cases["HCLT, 8 latents, nltcs, 1000 rows"] = fp.structures.hclt(X, n_latents=8), X
        cases[f"HCLT, {N_LATENTS} latents, nltcs, 1000 rows"] = fp.structures.hclt(X, n_latents=N_LATENTS), X
    print("Columns of the Hessian, and products with 16 dense vectors: times one by one over times several in a pass")
    print(f"{'':<36}{'weights':>9}{'columns':>10}{'products':>10}{'ms a column':>13}")
    found = {}
    for name, (circuit, X) in cases.items():
        H = fp.curvature.operator(circuit, X)
        n = H.shape[0]
        V = noise.standard_normal((n, 16))
        single, several = best(lambda H=H, V=V: [H @ v for v in V.T], lambda H=H, V=V: H @ V)
        found[name] = products = single / several
        if n > MOST_COLUMNS:
            print(f"{name:<36}{n:>9,}{'':>10}{products:>10.2f}")
            continue
        unit = np.eye(n)
        single, several = best(lambda H=H, unit=unit: [H @ v for v in unit], H.matrix)
        print(f"{name:<36}{n:>9,}{single / several:>10.2f}{products:>10.2f}{1e3 * several / n:>13.3f}")
    print()
    return {"times as fast, 16 products": found}


def einsum_network() -> Numbers:
    """The full Hessian of the paper's model."""
    circuit, X = _einsum_network()
    before = time.perf_counter()
    H = fp.curvature.hessian(circuit, X)
    seconds = time.perf_counter() - before
    print(f"Einsum Network, {len(H)} weights, {len(X)} rows: full Hessian in {seconds:.1f} s\n")
    return {"weights": len(H), "rows": len(X), "seconds": seconds}


def spectrum() -> Numbers | None:
    """The top of the spectrum on all rows of nltcs."""
    print(f"HCLT, {N_LATENTS} latents, nltcs, all rows: top 15 eigenvalues of the Hessian of the mean NLL")
    if not _data_is_there():
        return None
    circuit, X = _fitted("nltcs")
    before = time.perf_counter()
    found = fp.curvature.eigenvalues(circuit, X, k=15, reduction="mean")
    seconds = time.perf_counter() - before
    print(
        f"{len(found.vectors):,} weights, {len(X):,} rows: {found.n_products} products in {seconds:.1f} s (at most 120), "
        f"converged: {found.converged}, largest residual {found.residuals.max():.1e}"
    )
    print("  " + " ".join(f"{value:.4g}" for value in found.values))
    return {"weights": len(found.vectors), "rows": len(X), "seconds": seconds}


def prepare_machine() -> None:
    numba.set_num_threads(1)
    torch.set_num_threads(1)


PIECES: dict[str, Callable[[], Numbers | None]] = {
    "against_passes": against_passes,
    "against_vmap": against_vmap,
    "against_autograd": against_autograd,
    "against_single_columns": against_single_columns,
    "einsum_network": einsum_network,
    "spectrum": spectrum,
}
