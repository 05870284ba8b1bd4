"""How sharp a circuit's likelihood is around its parameters, exactly.

Everything is about the Hessian of the *negative* log-likelihood, of the rows' sum (`reduction="sum"`, the default), of their mean
(`"mean"`), or, for a trace, of every row (`"none"`, its default).

| question | answer |
|---|---|
| `trace(circuit, X)` | the trace of every row's Hessian, `breakdown` by node and layer |
| `diagonal(circuit, X)` | the diagonal |
| `hessian(circuit, X)` | the whole matrix; `likelihood_hessian` of p itself |
| `operator(circuit, X)` | the Hessian as something that multiplies vectors |
| `eigenvalues(circuit, X)`, `spectral_density(circuit, X)` | its spectrum |
| `hutchinson(H, n)`, `hutch_pp(H, n)` | its trace as others estimate it, to compare with |
| `penalty(circuit, X)` | the trace, and its gradient; `PreparedPenalty` inside a training loop |
| `landscape(circuit, X)` | the loss along one or two directions |
| `laplace(circuit, X)` | the posterior around a fit: error bars on answers |
| `influence(circuit, X)`, `leave_one_out(circuit, X)` | which rows a fit is based on, and how well it does without each |
| `weighted_trace(circuit, X)`, `takeuchi(circuit, X)` | by how much a fit flatters itself |
| `evidence(circuit, X)` | the probability of the rows, weights integrated out |
| `edge_losses(circuit, X)`, `prune(circuit, X, fraction)` | what each edge of a sum is worth, and the circuit without the least |

All that take a circuit have `space=`, `"weights"` (default), `"logits"` or `"simplex"`, and `include_inputs=`; a landscape is
drawn in `"logits"` (default) or `"weights"`, and says why not on the `"simplex"`.
"""

from flatpc.curvature.estimates import Estimate
from flatpc.curvature.hessians import hessian, likelihood_hessian
from flatpc.curvature.influences import influence, leave_one_out
from flatpc.curvature.landscapes import Landscape, landscape
from flatpc.curvature.operators import HessianOperator, operator
from flatpc.curvature.optimism import evidence, takeuchi, weighted_trace
from flatpc.curvature.penalties import Penalty, penalty
from flatpc.curvature.posterior import Posterior, laplace
from flatpc.curvature.prepared import PreparedPenalty
from flatpc.curvature.pruning import edge_losses, prune
from flatpc.curvature.spectra import (
    Eigenvalues,
    SpectralDensity,
    TraceEstimate,
    eigenvalues,
    hutch_pp,
    hutchinson,
    spectral_density,
)
from flatpc.curvature.traces import Breakdown, breakdown, diagonal, trace

__all__ = [
    "Breakdown",
    "Eigenvalues",
    "Estimate",
    "HessianOperator",
    "Landscape",
    "Penalty",
    "Posterior",
    "PreparedPenalty",
    "SpectralDensity",
    "TraceEstimate",
    "breakdown",
    "diagonal",
    "edge_losses",
    "eigenvalues",
    "evidence",
    "hessian",
    "hutch_pp",
    "hutchinson",
    "influence",
    "landscape",
    "laplace",
    "leave_one_out",
    "likelihood_hessian",
    "operator",
    "penalty",
    "prune",
    "spectral_density",
    "takeuchi",
    "trace",
    "weighted_trace",
]
