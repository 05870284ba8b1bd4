"""One cheap, valid call of every public function: `test_options` replaces its options by wrong values, one at a time.

A function or an option that is new is found by `inspect`; a function without a call here makes the test fail.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

import flatpc as fp

ROOMS = tuple(
    f"flatpc{room}"
    for room in [
        "", ".tables", ".structures", ".queries", ".curvature", ".learning", ".search", ".datasets", ".estimator", ".adapters",
    ]
)  # fmt: skip
ASKED = ("Circuit", "CircuitDensity", "EMStep", "GaussianMixture", "OptunaObjective", "PreparedPenalty", "Splits")
"""Classes whose methods users call. Those of families get what an engine has checked."""
RETURNED = {
    "Breakdown", "Candidate", "Choice", "Column", "Columns", "Completion", "ConditionalFit", "DataSet", "Digits",
    "DropoutUncertainty", "Eigenvalues", "Estimate", "Posterior",
    "Family", "Fit", "Flows", "GaussianMixture", "HessianOperator", "History", "Landscape", "Outcome", "Penalty", "Selection",
    "Source", "SpectralDensity", "Splits", "Statistics", "Table", "TableSplits", "TraceEstimate", "Update",
}  # fmt: skip
"""Classes that functions return, and an abstract one: users don't make them."""

CURVED = ("breakdown", "diagonal", "hessian", "influence", "laplace", "leave_one_out", "operator", "penalty", "trace")

X = np.random.default_rng(0).integers(0, 2, (24, 3)).astype(np.float64)
GAPS = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)


@dataclass
class Call:
    """What to run, and with which options; `works` is False where a valid call takes what a test machine may not have."""

    run: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    works: bool = True


def surface() -> Iterator[tuple[str, Any]]:
    """Every public function, class and method, by name."""
    seen = set()
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            found = getattr(module, name)
            if not inspect.isroutine(found) and not inspect.isclass(found):
                continue
            if inspect.isclass(found) and issubclass(found, BaseException):
                continue
            full = f"{room.rpartition('.')[2]}.{name}" if inspect.isroutine(found) and room != "flatpc" else name
            if found not in seen and name not in RETURNED:
                yield full, found
            seen.add(found)
            if name in ASKED and inspect.isclass(found):
                inherited = {method: each for kind in reversed(found.__mro__) for method, each in vars(kind).items()}
                for method, function in inherited.items():
                    ours = str(getattr(function, "__module__", "flatpc")).startswith("flatpc")  # and not registered by a test
                    if ours and not method.startswith("_") and isinstance(function, FunctionType | classmethod | staticmethod):
                        yield f"{name}.{method}", getattr(found, method)


class _Mine(fp.learning.EMUpdate):
    """A regulariser to register."""


def _asked(circuit: Any) -> int:
    """A question to register."""
    return 0


_asked.__name__ = "asked_by_the_tests"


@cache
def circuit() -> Any:
    return fp.structures.hclt(X, n_latents=2)


@cache
def density() -> Any:
    return fp.CircuitDensity(structure="factorized", verbose=False).fit(X)


@cache
def numbers() -> Any:
    rows = np.random.default_rng(2).normal(size=(24, 2))
    return fp.CircuitDensity(structure="factorized", verbose=False).fit(rows)


@cache
def objective() -> Any:
    from flatpc.adapters import OptunaObjective

    return OptunaObjective(X, X, epochs=1)


def _node(kind: Any) -> Callable[..., Any]:
    """A circuit with one such node in it."""

    def run(**options: Any) -> Any:
        below = [fp.Input(0, fp.Bernoulli(), 2), fp.Input(1, fp.Bernoulli(), 2)]
        if kind is fp.Input:
            return fp.Circuit([kind(**options), below[1], fp.Product((0, 1)), fp.Sum((2,))])
        if kind is fp.Product:
            return fp.Circuit([*below, kind(**options), fp.Sum((2,))])
        return fp.Circuit([*below, fp.Product((0, 1)), kind(**options), fp.Sum((3,))])

    return run


def _fit_density(**options: Any) -> Any:
    return fp.CircuitDensity(**options).fit(X).score_samples(X)


def _trial() -> Any:
    import optuna

    return optuna.trial.FixedTrial({"structure": "factorized", "smoothing": 1.0})


def _study() -> Any:
    import optuna

    return optuna.create_study()


def calls(folder: Any) -> dict[str, Call]:
    """A call for each name of the surface; files are written to `folder`."""
    from flatpc.adapters import OptunaObjective, from_pyjuice

    s, l, c, q, d = fp.structures, fp.learning, fp.curvature, fp.queries, fp.datasets
    model = folder / "model.safetensors"
    circuit().save(model)
    density().save(folder / "density.safetensors")
    (folder / "table.csv").write_text("a,b\n1,2\n3,4\n")
    asked = {"circuit": circuit(), "X": X}
    quick = {"epochs": 1, "stopping": l.Stopping(time_budget=2.0), "progress": False, "n_threads": 1}
    splits = d.manifold_splits("helix", size=4)
    mixture = d.GaussianMixture.draw(n_variables=2, n_components=2)
    rows = mixture.sample(3)
    H = c.operator(circuit(), X)
    step = l.EMStep(circuit(), n_rows=24)
    nodes = {"a": "sum", "b": ("bernoulli", 0, 0.5), "c": ("bernoulli", 0, 0.25)}
    small = {"n_variables": 3, "n_sums": 2, "n_inputs": 2, "n_repetitions": 2}
    curved: dict[str, Any] = {name: Call(getattr(c, name), {**asked}) for name in CURVED}
    asking: dict[str, Any] = {
        name: Call(getattr(q, name), {**asked}) for name in ["expectation", "flows", "log_prob", "mpe", "variance"]
    }
    methods = {
        f"Circuit.{name}": Call(getattr(circuit(), name), {"X": X})
        for name in ["expectation", "flows", "log_prob", "mpe", "variance"]
    }
    scores = {
        f"CircuitDensity.{name}": Call(getattr(density(), name), {"X": X})
        for name in ["aic", "bic", "anomaly_score", "score", "score_samples"]
    }
    return {
        **{f"curvature.{name}": call for name, call in curved.items()},
        **{f"queries.{name}": call for name, call in asking.items()},
        **methods,
        **scores,
        "Bernoulli": Call(fp.Bernoulli),
        "Beta": Call(fp.Beta, {"low": 0.0, "high": 2.0, "largest": 100.0}),
        "Cyclic": Call(fp.Cyclic, {"family": fp.Gaussian(), "parts": (7, 24), "step": 3600.0, "origin": 4.0}),
        "Discretized": Call(fp.Discretized, {"family": fp.Gaussian(), "resolution": 0.5, "origin": 0.25}),
        "Exponential": Call(fp.Exponential, {"min_mean": 1e-3}),
        "Gamma": Call(fp.Gamma, {"max_shape": 100.0}),
        "Geometric": Call(fp.Geometric, {"min_rate": 1e-3}),
        "Histogram": Call(fp.Histogram, {"edges": (0.0, 1.0, 2.0)}),
        "Hurdle": Call(fp.Hurdle, {"atoms": (0.0,), "family": fp.Gaussian()}),
        "LogNormal": Call(fp.LogNormal, {"min_variance": 1e-3}),
        "Logistic": Call(fp.Logistic, {"min_scale": 1e-3}),
        "LogisticMixture": Call(fp.LogisticMixture, {"n": 3, "min_scale": 1e-3}),
        "NegativeBinomial": Call(fp.NegativeBinomial, {"min_rate": 1e-3}),
        "Ordinal": Call(fp.Ordinal, {"cuts": (-1.0, 1.0)}),
        "PiecewiseLinear": Call(fp.PiecewiseLinear, {"edges": (0.0, 1.0, 2.0)}),
        "StudentT": Call(fp.StudentT, {"min_scale": 1e-3, "max_dof": 50.0}),
        "Transformed": Call(fp.Transformed, {"family": fp.Gaussian(), "transform": fp.families.Log()}),
        "MultivariateGaussian": Call(fp.MultivariateGaussian, {"n_variables": 2}),
        "Newton": Call(fp.Newton, {"step_size": 1.0}),
        "NaturalGradient": Call(fp.NaturalGradient, {"step_size": 1.0}),
        "CircuitDensity.categories": Call(density().categories, {"column": 0}),
        "CircuitDensity.column_log_density": Call(density().column_log_density, {"X": X, "column": 0}),
        "CircuitDensity.partial_fit": Call(copy.deepcopy(density()).partial_fit, {"X": X}),
        "CircuitDensity.predict": Call(density().predict, {"X": X}),
        "CircuitDensity.probability": Call(density().probability, {"event": {"x0": 1}}),
        "CircuitDensity.quantile": Call(numbers().quantile, {"X": np.zeros((2, 2)), "column": 0}),
        "CircuitDensity.tune": Call(copy.deepcopy(density()).tune, {"X": X, "column": 0, "epochs": 1}),
        "CircuitDensity.posterior": Call(density().posterior, {"X": X}),
        "tables.scan": Call(fp.tables.scan, {"path": folder / "table.csv"}),
        "tables.source": Call(fp.tables.source, {"X": X}),
        "structures.correlated_blocks": Call(s.correlated_blocks, {"X": rows, "size": 2}),
        "structures.mixture": Call(s.mixture, {"X": rows, "n_components": 2, "rank": 1}),
        "curvature.edge_losses": Call(c.edge_losses, {**asked}),
        "curvature.prune": Call(c.prune, {**asked, "fraction": 0.5}),
        "learning.fit_conditional": Call(l.fit_conditional, {**asked, "variable": 0, "epochs": 1}),
        "datasets.load_mnist": Call(d.load_mnist, {"folder": folder, "download": False}, works=False),
        "curvature.evidence": Call(c.evidence, {**asked}),
        "curvature.takeuchi": Call(c.takeuchi, {**asked, "n_draws": 2}),
        "curvature.weighted_trace": Call(c.weighted_trace, {**asked}),
        "learning.forget": Call(l.forget, {**asked, "rows": [0], "steps": 1}),
        "learning.learn": Call(l.learn, {**asked, "rows": X[:2], "steps": 1}),
        "datasets.load_mixed": Call(d.load_mixed, {"name": "wine", "folder": folder, "download": False}, works=False),
        "datasets.load_packaged": Call(d.load_packaged, {"name": "sklearn/iris"}),
        "Binomial": Call(fp.Binomial, {"n": 2}),
        "Categorical": Call(fp.Categorical, {"n": 2}),
        "Gaussian": Call(fp.Gaussian, {"min_variance": 1e-3}),
        "Indicator": Call(fp.Indicator, {"n": 2}),
        "Poisson": Call(fp.Poisson, {"min_rate": 1e-3}),
        "family": Call(fp.family, {"name": "bernoulli"}),
        "Input": Call(_node(fp.Input), {"variable": 0, "family": fp.Bernoulli(), "width": 2}),
        "Product": Call(_node(fp.Product), {"children": (0, 1)}),
        "Sum": Call(_node(fp.Sum), {"children": (2,), "width": 2}),
        "Mixture": Call(_node(fp.Mixture), {"children": (2,)}),
        "Circuit": Call(fp.Circuit, {"nodes": list(circuit().nodes), "parameters": dict(circuit().parameters)}),
        "Circuit.check_structure": Call(circuit().check_structure),
        "Circuit.conditional_log_prob": Call(circuit().conditional_log_prob, {"X": X, "given": [0]}),
        "Circuit.conditional_proba": Call(circuit().conditional_proba, {"X": X, "variable": 0}),
        "Circuit.dropout_uncertainty": Call(circuit().dropout_uncertainty, {"X": X}),
        "Circuit.randomize": Call(circuit().randomize, {"seed": 1}),
        "Circuit.sample": Call(circuit().sample, {"n": 2}),
        "Circuit.save": Call(circuit().save, {"path": folder / "saved.safetensors"}),
        "Circuit.weight_shape": Call(circuit().weight_shape, {"i": circuit().root}),
        "Circuit.with_parameters": Call(circuit().with_parameters, {"parameters": dict(circuit().parameters)}),
        "load": Call(fp.load, {"path": model}),
        "fit": Call(fp.fit, {**asked, **quick}),
        "CircuitDensity": Call(_fit_density, {"structure": "factorized", "effort": 0.1, "time_budget": 2.0, "verbose": False}),
        "CircuitDensity.fit": Call(fp.CircuitDensity(structure="factorized", verbose=False).fit, {"X": X}),
        "CircuitDensity.impute": Call(fp.CircuitDensity.load(folder / "density.safetensors").impute, {"X": GAPS}),
        "CircuitDensity.load": Call(fp.CircuitDensity.load, {"path": folder / "density.safetensors"}),
        "CircuitDensity.sample": Call(density().sample, {"n_samples": 2}),
        "CircuitDensity.save": Call(density().save, {"path": folder / "saved_density.safetensors"}),
        "structures.binned_tree": Call(s.binned_tree, {"X": rows}),
        "structures.chow_liu": Call(s.chow_liu, {"X": X}),
        "structures.factorized": Call(s.factorized, {"X": X}),
        "structures.from_edges": Call(s.from_edges, {"nodes": nodes, "edges": [("a", "b", 0.5), ("a", "c", 0.5)]}),
        "structures.hclt": Call(s.hclt, {"X": X, "n_latents": 2}),
        "structures.hmm": Call(s.hmm, {"length": 3, "n_latents": 2}),
        "structures.kernels": Call(s.kernels, {"X": rows}),
        "structures.mix": Call(s.mix, {"circuits": [circuit(), circuit()]}),
        "structures.quad_tree": Call(s.quad_tree, {"shape": (2, 2), "n_sums": 2}),
        "structures.poon_domingos": Call(s.poon_domingos, {"shape": (2, 2), "delta": 1, "n_sums": 2, "n_inputs": 2}),
        "structures.rat_spn": Call(s.rat_spn, small),
        "structures.tree_mixture": Call(s.tree_mixture, {"X": X, "n_trees": 2, "steps": 1}),
        "Adam": Call(fp.Adam, {"step_size": 0.1}),
        "EM": Call(fp.EM, {"step_size": 0.1}),
        "SGD": Call(fp.SGD, {"step_size": 0.1}),
        "EMStep": Call(l.EMStep, {"circuit": circuit(), "n_rows": 24}),
        "EMStep.accumulate": Call(step.accumulate, {"X": X}),
        "EMStep.apply": Call(step.apply, {"statistics": step.accumulate(X)}),
        "Run": Call(l.Run, {"checkpoint": folder / "run"}),
        "Stopping": Call(l.Stopping, {"patience": 3}),
        "Regularizer": Call(l.Regularizer),
        "EMUpdate": Call(l.EMUpdate),
        "learning.register_regularizer": Call(l.register_regularizer, {"kind": _Mine}),
        "learning.regularizer_names": Call(l.regularizer_names),
        "ASAM": Call(l.ASAM, {"rho": 0.5}),
        "SAM": Call(l.SAM, {"rho": 0.5}),
        "Dropout": Call(l.Dropout, {"inputs": 0.1}),
        "Entropy": Call(l.Entropy, {"tau": 0.1}),
        "WeightedTrace": Call(l.WeightedTrace, {"mu": 0.1}),
        "HyperWeights": Call(l.HyperWeights, {"dimension": 2}),
        "Laplace": Call(l.Laplace, {"pseudocount": 1.0}),
        "PruneGrow": Call(l.PruneGrow, {"fraction": 0.5}),
        "Sharpness": Call(l.Sharpness, {"mu": 0.1}),
        "Softening": Call(l.Softening, {"beta": 0.9}),
        "TensorBoard": Call(l.TensorBoard, {"folder": folder / "board"}, works=False),
        "choose": Call(fp.choose, {"X": X, "valid": X, "effort": 0.05, "time_budget": 1.0, "progress": False, "n_threads": 1}),
        "structures.compact": Call(s.compact, {"circuit": circuit()}),
        "learning.cosine": Call(l.cosine, {"start": 1.0, "end": 0.5}),
        "learning.degree_of_overfitting": Call(l.degree_of_overfitting, {"train_nll": 2.0, "valid_nll": 2.5}),
        "queries.register": Call(q.register, {"question": _asked}),
        "queries.dropout_uncertainty": Call(q.dropout_uncertainty, asked),
        "structures.mix_families": Call(
            s.mix_families, {"circuit": s.mixture(X * 1.0, 2, blocks=None), "families": {0: fp.StudentT()}, "share": 0.5}
        ),
        "structures.grow": Call(s.grow, {"circuit": circuit()}),
        "learning.linear": Call(l.linear, {"start": 1.0, "end": 0.5}),
        "structures.prune": Call(s.prune, {**asked, "fraction": 0.5}),
        "search.select": Call(fp.search.select, {**asked, "valid": X, "grid": (0.0, 0.1), "warm": True, **quick}),
        "learning.stages": Call(l.stages, {"values": {0.0: 1.0, 0.5: 0.5}}),
        "curvature.eigenvalues": Call(c.eigenvalues, {**asked, "k": 2}),
        "curvature.hutch_pp": Call(c.hutch_pp, {"H": H, "n_products": 6}),
        "curvature.hutchinson": Call(c.hutchinson, {"H": H, "n_products": 4}),
        "curvature.landscape": Call(c.landscape, {**asked, "dimensions": 1, "n_steps": 3}),
        "curvature.likelihood_hessian": Call(c.likelihood_hessian, {"circuit": circuit(), "x": X[0]}),
        "PreparedPenalty": Call(c.PreparedPenalty, asked),
        "PreparedPenalty.of": Call(c.PreparedPenalty(circuit(), X).of, {"rows": [0, 1]}),
        "curvature.spectral_density": Call(c.spectral_density, {**asked, "n_vectors": 2, "n_steps": 3, "n_grid": 9}),
        "queries.conditional": Call(q.conditional, {"circuit": asked["circuit"], "X": asked["X"], "variable": 0}),
        "queries.conditional_proba": Call(q.conditional_proba, {"circuit": asked["circuit"], "X": asked["X"], "variable": 0}),
        "queries.event_log_prob": Call(q.event_log_prob, {"circuit": asked["circuit"], "X": asked["X"], "events": {0: 1}}),
        "queries.sample_given_events": Call(q.sample_given_events, {"circuit": asked["circuit"], "n": 2, "events": {0: 1}}),
        "queries.conditional_log_prob": Call(q.conditional_log_prob, {**asked, "given": [0]}),
        "queries.sample": Call(q.sample, {"circuit": circuit(), "n": 2}),
        "GaussianMixture.draw": Call(d.GaussianMixture.draw, {"n_variables": 2, "n_components": 2}),
        "GaussianMixture.log_prob": Call(mixture.log_prob, {"X": rows}),
        "GaussianMixture.sample": Call(mixture.sample, {"n": 2}),
        "Splits.fraction": Call(splits.fraction, {"fraction": 0.5}),
        "datasets.datasets": Call(d.datasets),
        "datasets.fraction_of": Call(d.fraction_of, {"rows": X, "fraction": 0.5}),
        "datasets.gaussian_mixture": Call(d.gaussian_mixture, {"n": 2}),
        "datasets.gaussian_mixture_splits": Call(d.gaussian_mixture_splits, {"size": 4}),
        "tables.kinds": Call(fp.tables.kinds, {"X": X}),
        "datasets.load": Call(d.load, {"name": "helix"}),
        "datasets.load_debd": Call(d.load_debd, {"name": "nltcs", "folder": folder, "download": False}, works=False),
        "datasets.manifold": Call(d.manifold, {"name": "helix", "n": 4}),
        "datasets.manifold_splits": Call(d.manifold_splits, {"name": "helix", "size": 4}),
        "tables.read_table": Call(fp.tables.read_table, {"path": folder / "table.csv"}),
        "OptunaObjective": Call(OptunaObjective, {"X": X, "valid": X, "epochs": 1}),
        "OptunaObjective.circuit": Call(objective().circuit, {"trial": _trial()}),
        "OptunaObjective.enqueue_simple": Call(objective().enqueue_simple, {"study": _study()}),
        "adapters.from_pyjuice": Call(from_pyjuice, {"root": None}, works=False),
    }
