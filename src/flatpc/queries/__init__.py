"""What a circuit can be asked. Each question is a short function of the values and flows of an engine.

| question | answer |
|---|---|
| `log_prob(circuit, X)` | log p(x), NaN entries integrated out on request |
| `conditional_log_prob(circuit, X, given)` | log p(x_rest given x_given) |
| `sample(circuit, n, given=…, seed=…)` | rows drawn from p, or from p given what is known |
| `mpe(circuit, X)` | NaN entries completed with most probable values |
| `expectation(circuit, X)`, `variance(circuit, X)` | mean and variance of NaN entries given the rest |
| `event_log_prob(circuit, X, events=…)` | log-probability that variables lie in ranges or among values, beside known values |
| `sample_given_events(circuit, n, events=…)` | rows drawn given that |
| `conditional(circuit, X, variable=…)` | one variable given the rest: density, cdf, quantiles, mean, mode |
| `conditional_proba(circuit, X, variable=…)` | the probability of each value of a variable given the rest |
| `dropout_uncertainty(circuit, X)` | how much log p(x) varies when edges are dropped at random |
| `flows(circuit, X)` | expected use of every edge and input |

Most of them take `missing=` (NaN refused or integrated out), `engine=`, `dtype=` and `device=`, which `log_prob` describes; where
values are asked for, or events given, NaN is always integrated out.

Rows may be a NumPy array, nested lists, a pandas or polars frame: the answer is then NumPy, in float64. For a torch tensor
the answer is a float64 tensor on its device. Evidence of probability zero has log-likelihood `-inf`; a question about a
distribution *given* such evidence has no answer and raises `DataError` naming the row.
"""

from flatpc.engine.contract import Flows
from flatpc.queries.conditionals import conditional, conditional_proba
from flatpc.queries.dropout_uncertainty import DropoutUncertainty, dropout_uncertainty
from flatpc.queries.events import event_log_prob, sample_given_events
from flatpc.queries.likelihood import conditional_log_prob, flows, log_prob
from flatpc.queries.moments import expectation, variance
from flatpc.queries.mpe import Completion, mpe
from flatpc.queries.registry import register
from flatpc.queries.sampling import sample

__all__ = [
    "Completion",
    "DropoutUncertainty",
    "Flows",
    "conditional",
    "conditional_log_prob",
    "conditional_proba",
    "dropout_uncertainty",
    "event_log_prob",
    "expectation",
    "flows",
    "log_prob",
    "mpe",
    "register",
    "sample",
    "sample_given_events",
    "variance",
]
