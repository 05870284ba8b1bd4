"""Ten circuits that data are drawn from, and how well error bars around their fits hold: against bootstrap refits, and the truth.

Each case is a data-generating circuit and a number of rows. Fits are EM over all rows with one observation more in every unit,
and start from the data-generating circuit (those to bootstrap rows, from the fit), so that they end at the optimum nearby.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flatpc as fp

Array = NDArray[np.float64]
PSEUDOCOUNT = 1.0
ASKED = 40
"""Rows, drawn from the data-generating circuit, whose log-likelihoods are asked for."""


@dataclass(frozen=True)
class Case:
    """A circuit that rows are drawn from."""

    name: str
    truth: fp.Circuit
    n_rows: int
    epochs: int
    """Of a fit."""

    def rows(self, seed: int) -> Array:
        return np.asarray(self.truth.sample(self.n_rows, seed=seed))

    @property
    def asked(self) -> Array:
        return np.asarray(self.truth.sample(ASKED, seed=12345))

    def fit(self, rows: Array, start: fp.Circuit | None = None) -> fp.Circuit:
        options: Any = {"batch_size": None, "epochs": self.epochs, "progress": False, "dtype": "float64"}
        method, smoothing = fp.EM(step_size=1.0), fp.learning.Laplace(PSEUDOCOUNT)
        return fp.fit(start or self.truth, rows, method=method, regularizer=smoothing, **options).circuit

    def posterior(self, rows: Array, structure: str = "auto") -> Any:
        return fp.curvature.laplace(self.fit(rows), rows, pseudocount=PSEUDOCOUNT, structure=structure)


def _with_truth(circuit: fp.Circuit, seed: int) -> fp.Circuit:
    """Parameters away from 0 and 1, with units that differ."""
    rng = np.random.default_rng(seed)
    parameters: dict[int, Any] = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Input):
            place = rng.permutation(node.width) + rng.uniform(-0.15, 0.15, node.width)
            if isinstance(node.family, fp.Gaussian):
                parameters[i] = {"mean": 4.0 * place, "variance": rng.uniform(0.5, 1.5, node.width)}
            elif isinstance(node.family, fp.Bernoulli):
                parameters[i] = {"p": 0.2 + 0.6 * np.clip(place / max(node.width - 1, 1), 0, 1)}
            else:
                n = node.family.n_categories or 2
                at = np.clip(place / max(node.width - 1, 1), 0, 1)[:, None] * (n - 1)
                table = np.exp(-1.2 * abs(np.arange(n) - at))
                parameters[i] = {"p": table / table.sum(axis=1, keepdims=True)}
        elif isinstance(node, fp.Sum | fp.Mixture):
            k, c = circuit.weight_shape(i)
            weights = rng.uniform(0.5, 1.5, (k, c)) + 3.0 * (np.arange(c) % k == np.arange(k)[:, None]) * (k > 1)
            parameters[i] = weights / weights.sum(axis=1, keepdims=True)
    return circuit.with_parameters(parameters)


def _chain(n_variables: int, n_values: int, seed: int, n: int = 4000) -> Array:
    """Rows of a Markov chain, to learn the structure of a tree from."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, n_variables))
    X[:, 0] = rng.integers(0, n_values, n)
    for v in range(1, n_variables):
        X[:, v] = np.where(rng.random(n) < 0.6, X[:, v - 1], rng.integers(0, n_values, n))
    return X


def _tree(n_variables: int, n_values: int, seed: int) -> fp.Circuit:
    return fp.structures.chow_liu(_chain(n_variables, n_values, seed))


def _hidden(n_variables: int, family: Any, seed: int) -> fp.Circuit:
    values = family.n_categories or 2
    X = _chain(n_variables, values, seed)
    return _with_truth(fp.structures.hclt(X, 2, family=family), seed)


def _rat(n_variables: int, family: Any, seed: int) -> fp.Circuit:
    built = fp.structures.rat_spn(n_variables, depth=1, n_repetitions=1, n_sums=2, n_inputs=2, family=family, seed=seed)
    return _with_truth(built, seed)


def cases() -> list[Case]:
    """All ten."""
    return [
        Case("tree, binary, 200 rows", _tree(8, 2, 0), 200, 5),
        Case("tree, 4 categories, 1,000 rows", _tree(5, 4, 1), 1000, 5),
        Case("tree, binary, 5,000 rows", _tree(12, 2, 2), 5000, 5),
        Case("hidden tree, binary, 1,000 rows", _hidden(6, fp.Bernoulli(), 3), 1000, 600),
        Case("hidden tree, binary, 5,000 rows", _hidden(6, fp.Bernoulli(), 4), 5000, 400),
        Case("hidden tree, 4 categories, 2,000 rows", _hidden(5, fp.Categorical(4), 5), 2000, 400),
        Case("hidden tree, Gaussian, 500 rows", _hidden(4, fp.Gaussian(), 6), 500, 100),
        Case("RAT-SPN, 4 categories, 2,000 rows", _rat(6, fp.Categorical(4), 7), 2000, 400),
        Case("RAT-SPN, Gaussian, 200 rows", _rat(4, fp.Gaussian(), 8), 200, 100),
        Case("RAT-SPN, Gaussian, 1,000 rows", _rat(6, fp.Gaussian(), 9), 1000, 100),
    ]


def against_bootstrap(case: Case, n_refits: int, seed: int = 0) -> dict[str, float]:
    """Median ratio and correlation of standard errors with the spread of fits to rows drawn again."""
    rows, asked = case.rows(seed), case.asked
    post = case.posterior(rows)
    error, again = post.log_prob(asked).error, []
    for b in range(n_refits):
        drawn = rows[np.random.default_rng(1000 + b).integers(0, len(rows), len(rows))]
        again.append(case.fit(drawn, post.circuit).log_prob(asked))
    spread = np.std(again, axis=0, ddof=1)
    return {
        "ratio": float(np.median(error / spread)),
        "correlation": float(np.corrcoef(error, spread)[0, 1]),
        "gap": post.gap,
        "damping": post.damping,
        "parameters": post.size,
    }


def coverage(case: Case, n_tables: int, level: float = 0.9) -> float:
    """Share of intervals, over tables of rows drawn anew and rows asked for, that hold the data-generating circuit's value."""
    asked = case.asked
    true, held = case.truth.log_prob(asked), []
    for seed in range(100, 100 + n_tables):
        low, high = case.posterior(case.rows(seed)).log_prob(asked).interval(level)
        held.append((low <= true) & (true <= high))
    return float(np.mean(held))


def against_leaving_out(case: Case, n_rows: int) -> dict[str, float]:
    """Correlation of what is said of leaving rows out with refits without them, at an optimum and after ten epochs of EM."""
    rows = case.rows(0)
    _, first = np.unique(rows, axis=0, return_index=True)
    chosen = np.sort(np.random.default_rng(0).permutation(first)[:n_rows])
    start = case.fit(rows)
    _said(start, rows)  # loads kernels
    began = time.process_time()
    said = _said(start, rows)
    between = time.process_time()
    done = _done(case, rows, start, start, chosen)
    theirs = (time.process_time() - between) / len(chosen) * len(rows)
    early = replace(case, epochs=10)
    random = case.truth.randomize(0, X=rows)
    stopped = early.fit(rows, random)
    changed = _done(early, rows, stopped, random, chosen)
    return {
        "at an optimum": float(np.corrcoef(said[chosen], done)[0, 1]),
        "slope": float(np.polyfit(said[chosen], done, 1)[0]),
        "stopped early": float(np.corrcoef(_said(stopped, rows)[chosen], changed)[0, 1]),
        "times as fast": theirs / (between - began),
    }


def _said(circuit: fp.Circuit, rows: Array) -> Array:
    found = fp.curvature.leave_one_out(circuit, rows, pseudocount=PSEUDOCOUNT) - circuit.log_prob(rows)
    return np.asarray(found)


def _done(case: Case, rows: Array, fitted: fp.Circuit, start: fp.Circuit, chosen: Any) -> Array:
    now = fitted.log_prob(rows[chosen])
    without = [case.fit(np.delete(rows, i, axis=0), start).log_prob(rows[i : i + 1])[0] for i in chosen]
    return np.asarray(without - now)
