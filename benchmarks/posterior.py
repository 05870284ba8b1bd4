"""What error bars and influences cost, and how well they hold.

python -m benchmarks.posterior
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import flatpc as fp
from benchmarks import binary_data
from benchmarks.clock import best
from benchmarks.curvature import _plain_log_prob
from benchmarks.posterior_cases import (
    PSEUDOCOUNT,
    Case,
    against_bootstrap,
    against_leaving_out,
    cases,
    coverage,
)

Numbers = dict[str, Any]
REFITS = 200
TABLES = 100
LEFT_OUT = 40


def _seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the processor's seconds."""
    before = time.process_time()
    found = function()
    return found, time.process_time() - before


def bootstrap() -> Numbers:
    """Standard errors over the spread of fits to rows drawn again, and what both cost."""
    print(f"Standard errors of log p at 40 rows against {REFITS} bootstrap refits (seeds 0 and 1000 on)")
    print(f"{'':<40}{'parameters':>11}{'ratio':>8}{'correlation':>13}{'times as fast':>15}")
    found = {}
    for case in cases():
        numbers, all_of_it = _seconds(lambda case=case: against_bootstrap(case, REFITS))
        rows = case.rows(0)
        fitted = case.fit(rows)
        ask = lambda fitted=fitted, rows=rows, case=case: _errors(fitted, rows, case)  # noqa: E731
        ask()
        numbers["times as fast"] = (all_of_it) / min(_seconds(ask)[1] for _ in range(3))
        found[case.name] = numbers
        print(f"{case.name:<40}{numbers['parameters']:>11}{numbers['ratio']:>8.2f}", end="")
        print(f"{numbers['correlation']:>13.2f}{numbers['times as fast']:>15.0f}", flush=True)
    print(f"{'within':<40}{'':>11}{'0.85 to 1.15':>14}\n")
    return found


def _errors(fitted: fp.Circuit, rows: Any, case: Case) -> Any:
    return fp.curvature.laplace(fitted, rows, pseudocount=PSEUDOCOUNT).log_prob(case.asked).error


def intervals() -> Numbers:
    """How often intervals of 90% hold the data-generating circuit's value."""
    print(f"Intervals of 90% around log p at 40 rows, {TABLES} tables each (seeds 100 on): share that holds the truth")
    found = {}
    for case in cases():
        found[case.name] = coverage(case, TABLES)
        print(f"{case.name:<40}{found[case.name]:>8.3f}", flush=True)
    print(f"{'all':<40}{np.mean(list(found.values())):>8.3f}   (0.85 to 0.95)\n")
    return found


def leaving_out() -> Numbers:
    """Self-influence against refits without a row, at an optimum and of a fit stopped early; seconds of both."""
    print(f"Leaving one row out, {LEFT_OUT} rows: change of its log p, said against done")
    print(f"{'':<40}{'at the optimum':>16}{'slope':>7}{'stopped early':>15}{'times as fast':>15}")
    found = {}
    for case in cases():
        numbers = found[case.name] = against_leaving_out(case, LEFT_OUT)
        print(
            f"{case.name:<40}{numbers['at an optimum']:>16.3f}{numbers['slope']:>7.2f}{numbers['stopped early']:>15.3f}", end=""
        )
        print(f"{numbers['times as fast']:>15.0f}", flush=True)
    print()
    return found


def per_row_autograd() -> Numbers | None:
    """Gradients of all rows and the Hessian by automatic differentiation, as libraries for neural networks take them."""
    print("The posterior's ingredients by automatic differentiation on the torch engine / ours, HCLT, 4 latents, nltcs, 500 rows")
    if binary_data.folder() is None:
        print("(left out: FLATPC_DATA names no folder with the binary data sets)\n")
        return None
    X = binary_data.train_rows("nltcs")[:500].astype(np.float64)
    circuit = fp.structures.hclt(X, 4)
    log_prob, weights, net = _plain_log_prob(circuit)
    rows = torch.tensor(X)
    each = torch.func.vmap(torch.func.grad(log_prob), in_dims=(None, 0))
    around = fp.curvature.laplace(circuit, X[:20], include_inputs=False).log_posterior
    theirs, ours = best(lambda: each(weights, rows), lambda: around.gradients(X))
    sizes = [p.numel() for p in weights.values()]

    def total(theta: torch.Tensor) -> torch.Tensor:
        parts = theta.split(sizes)
        return net.log_prob(rows, {i: q.reshape(p.shape) for (i, p), q in zip(weights.items(), parts, strict=True)}).sum()

    at = torch.cat([p.reshape(-1) for p in weights.values()])
    mine, H = fp.curvature.hessian(circuit, X), torch.autograd.functional.hessian(total, at)
    their_hessian, our_hessian = best(
        lambda: torch.autograd.functional.hessian(total, at), lambda: fp.curvature.hessian(circuit, X)
    )
    np.testing.assert_allclose(mine, -H.numpy(), rtol=1e-6, atol=1e-6 * abs(mine).max())
    found = {"gradients of rows": theirs / ours, "Hessian": their_hessian / our_hessian, "weights": len(at)}
    print(f"{len(at)} weights: gradients {found['gradients of rows']:.1f}, Hessian {found['Hessian']:.0f} times as fast\n")
    return found


def million(n_latents: int = 340, n_answers: int = 100) -> Numbers | None:
    """Error bars of a hundred answers of a circuit with a million weights, without a matrix."""
    print("A circuit of a million weights, nltcs, 1,000 rows: error bars of 100 answers by conjugate gradients")
    if binary_data.folder() is None:
        print("(left out: FLATPC_DATA names no folder with the binary data sets)\n")
        return None
    X = binary_data.train_rows("nltcs")[:1000].astype(np.float64)
    circuit = Case("", fp.structures.hclt(X, n_latents), 1000, 60).fit(X)
    before, begin = time.process_time(), time.perf_counter()
    post = fp.curvature.laplace(circuit, X, pseudocount=PSEUDOCOUNT, structure="operator")
    error = post.log_prob(binary_data.train_rows("nltcs")[1000 : 1000 + n_answers].astype(np.float64)).error
    cpu, wall = time.process_time() - before, time.perf_counter() - begin
    print(f"{circuit.n_parameters:,} parameters: {cpu:.0f} s of the processor, {wall:.0f} s by the clock (under 300)")
    print(f"median error {np.median(error):.3f}, damping {post.damping}\n")
    return {
        "parameters": circuit.n_parameters,
        "answers": n_answers,
        "processor seconds": cpu,
        "seconds": wall,
        "damping": post.damping,
    }


PIECES: dict[str, Callable[[], Numbers | None]] = {
    "bootstrap": bootstrap,
    "intervals": intervals,
    "leaving_out": leaving_out,
    "per_row_autograd": per_row_autograd,
    "million": million,
}

if __name__ == "__main__":
    for piece in PIECES.values():
        piece()
