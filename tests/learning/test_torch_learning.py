"""Learning by torch: the same circuits as native learning gives, step for step, in float64 to 1e-10."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine.contract import ENGINES, get_evaluator
from flatpc.engine.numba import packing
from flatpc.engine.numba._kernels.columns import Rule
from flatpc.engine.numba.weight_update import solvable
from flatpc.errors import DeviceError, OptionError, TiedParametersError
from tests.engine.conformance import EVIDENCE, circuits

torch = pytest.importorskip("torch")

CIRCUITS = circuits()
NAMES = ["every_node-categorical", "hclt-bernoulli", "rat_spn-gaussian", "hmm_homogeneous-poisson"]
UNTIED = [name for name in CIRCUITS if not CIRCUITS[name].has_tied_parameters]
METHODS = {
    "em": {"method": fp.EM(step_size=0.5)},
    "momentum": {"method": fp.EM(step_size=0.5, momentum=0.5)},
    "anemone": {"method": fp.EM(anemone=True)},
    "laplace": {"regularizer": fp.learning.Laplace(0.1)},
    "quadratic": {"sharpness": fp.Sharpness(mu=0.1)},
    "quadratic, exact": {"sharpness": fp.Sharpness(mu=0.1, multiplier="exact")},
    "cubic": {"sharpness": fp.Sharpness(mu=0.1, update="cubic")},
    "cubic, exact": {"sharpness": fp.Sharpness(mu=0.1, update="cubic", multiplier="exact")},
    "mean flow": {"sharpness": fp.Sharpness(mu="mean-flow")},
    "dropout": {"regularizer": fp.learning.Dropout(0.2, sums=0.1)},
    "adam": {"method": fp.Adam(0.05)},
    "sgd": {"method": fp.SGD(0.05)},
    "sam": {"method": fp.Adam(0.05), "regularizer": fp.learning.SAM(0.1)},
}


def learnt(circuit, X, engine, **options):
    chosen = {"epochs": 2, "batch_size": 15, "dtype": "float64", "missing": "marginalize", "progress": False, **options}
    return fp.fit(circuit, X, engine=engine, **chosen)


def rows_of(circuit, n=30, missing=0.1):
    X = circuit.sample(n, seed=3)
    X[np.random.default_rng(4).random(X.shape) < missing] = np.nan
    return X


def same(native, by_torch, X, tolerance=1e-10):
    np.testing.assert_allclose(by_torch.history["train_nll"], native.history["train_nll"], rtol=tolerance, atol=tolerance)
    for rows in (X, rows_of(native.circuit, missing=0)):
        expected = native.circuit.log_prob(rows, missing="marginalize")
        found = by_torch.circuit.log_prob(rows, missing="marginalize")
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_the_same_circuit_is_learnt(name, method):
    circuit = CIRCUITS[name]
    X = rows_of(circuit)
    same(learnt(circuit, X, "numba", **METHODS[method]), learnt(circuit, X, "torch", **METHODS[method]), X)


STEPS = {
    "em": {"method": fp.EM(step_size=0.7)},
    "quadratic": {"method": fp.EM(step_size=0.7), "sharpness": fp.Sharpness(mu=0.1, multiplier="exact")},
    "cubic": {"method": fp.EM(step_size=0.7), "sharpness": fp.Sharpness(mu=0.1, update="cubic", multiplier="exact")},
    "adam with penalty": {"method": fp.Adam(0.05), "sharpness": fp.Sharpness(mu=0.01)},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", CIRCUITS)
def test_steps_agree_on_every_circuit(name, step):
    """Two steps over rows of which some repeat and some have missing values: all parameters to 1e-10."""
    circuit = CIRCUITS[name]
    X = np.concatenate([EVIDENCE["some_missing"](circuit)[1], EVIDENCE["duplicates"](circuit)[1]])
    options = {"epochs": 2, "batch_size": None, **STEPS[step]}
    if step == "adam with penalty" and name not in UNTIED:
        for engine in ENGINES:
            with pytest.raises(TiedParametersError, match="trace"):
                learnt(circuit, X, engine, **options)
        del options["sharpness"]
    native, by_torch = (learnt(circuit, X, engine, **options) for engine in ENGINES)
    np.testing.assert_allclose(by_torch.history["train_nll"], native.history["train_nll"], rtol=1e-10, atol=1e-10)
    moved = 0.0
    for i, expected in native.circuit.parameters.items():
        found, before = by_torch.circuit.parameters[i], circuit.parameters[i]
        for part in expected if isinstance(expected, dict) else [...]:
            np.testing.assert_allclose(found[part], expected[part], rtol=1e-10, atol=1e-10)
            moved = max(moved, float(np.abs(expected[part] - before[part]).max(initial=0.0)))
    assert moved > 1e-3  # they are steps


@pytest.mark.parametrize("name", [name for name in NAMES if name in UNTIED])
@pytest.mark.parametrize("mu", [0.01, "adaptive"])
def test_the_penalty_of_gradient_descent(name, mu):
    circuit = CIRCUITS[name]
    X = rows_of(circuit)
    options = {"method": fp.Adam(0.05), "sharpness": fp.Sharpness(mu=mu), "valid": X[:10]}
    same(learnt(circuit, X, "numba", **options), learnt(circuit, X, "torch", **options), X)


@pytest.mark.parametrize("name", UNTIED)
def test_the_penalty_is_the_trace_and_its_gradient(name):
    from flatpc.engine.torch.module import TorchCircuit
    from flatpc.engine.torch.tangents import penalty

    circuit = CIRCUITS[name]
    X = rows_of(circuit)
    net = TorchCircuit(circuit)
    count = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    found = penalty(net, torch.tensor(X), torch.tensor(count), net.stack(net.parameters, torch.float64))
    assert found.settled.all()
    np.testing.assert_allclose(found.values, fp.curvature.trace(circuit, X, missing="marginalize"), rtol=1e-10)
    repeated = np.repeat(X, count.astype(int), axis=0)
    expected = fp.curvature.penalty(circuit, repeated, missing="marginalize").gradient
    for g, layer in enumerate(net.layers):
        for j, i in enumerate(layer.nodes if g in found.gradients else ()):
            scale = np.abs(expected[i]).max()
            np.testing.assert_allclose(found.gradients[g][j], expected[i], rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize(("name", "dtype"), [("hclt-bernoulli", "float64"), ("rat_spn-gaussian", "float32")])
def test_compiled_passes_are_the_same(name, dtype, monkeypatch):
    """By the backend that only traces: what native code is made of is the same graph."""
    circuit = CIRCUITS[name]
    X = rows_of(circuit)
    X[0] = 1e3 if name == "rat_spn-gaussian" else X[0]  # a row that needs wider numbers
    plain = learnt(circuit, X, "torch", dtype=dtype)
    monkeypatch.setenv("FLATPC_COMPILE", "eager")
    same(plain, learnt(circuit, X, "torch", dtype=dtype), X, 1e-12 if dtype == "float64" else 1e-6)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    monkeypatch.setenv("FLATPC_COMPILE", "fast")
    with pytest.raises(OptionError, match="FLATPC_COMPILE"):
        learnt(circuit, X, "torch")


def test_weighted_rows_are_repeated_rows():
    circuit = CIRCUITS["every_node-categorical"]
    X = rows_of(circuit)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    options = {"batch_size": None, "method": fp.EM(step_size=1.0)}
    once = learnt(circuit, np.repeat(X, weight, axis=0), "torch", **options)
    weighted = learnt(circuit, X, "torch", sample_weight=weight, **options)
    np.testing.assert_allclose(weighted.history["train_nll"], once.history["train_nll"], rtol=1e-12)


def test_rows_far_outside_are_learnt_from_too():
    circuit = CIRCUITS["rat_spn-gaussian"]
    X = rows_of(circuit, missing=0)
    X[0] = 1e3
    X[1] = -1e4
    native, by_torch = (learnt(circuit, X, engine, epochs=1, batch_size=None) for engine in ("numba", "torch"))
    same(native, by_torch, X, 1e-8)
    options = {"method": fp.SGD(1e-12), "sharpness": fp.Sharpness(mu=1e-12), "epochs": 1, "batch_size": None}
    same(learnt(circuit, X, "numba", **options), learnt(circuit, X, "torch", **options), X, 1e-8)


def test_float32_comes_close_and_full_batches_climb():
    circuit = CIRCUITS["hclt-bernoulli"]
    X = rows_of(circuit, 200, missing=0)
    options = {"batch_size": None, "method": fp.EM(step_size=1.0), "epochs": 6}
    wide, narrow = (learnt(circuit, X, "torch", **{**options, "dtype": dtype}) for dtype in ("float64", "float32"))
    assert (np.diff(wide.history["train_nll"]) < 1e-12).all()
    np.testing.assert_allclose(narrow.history["train_nll"], wide.history["train_nll"], rtol=1e-5)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    circuit = CIRCUITS["every_node-gaussian"]
    X = rows_of(circuit)
    whole = learnt(circuit, X, "torch", epochs=4)
    learnt(circuit, X, "torch", epochs=2, run=tmp_path / "checkpoint")
    resumed = learnt(circuit, X, "torch", epochs=4, run=tmp_path / "checkpoint")
    assert resumed.history["train_nll"] == pytest.approx(whole.history["train_nll"], abs=0)


def test_steps_of_parts():
    circuit = CIRCUITS["every_node-bernoulli"]
    X = rows_of(circuit, missing=0)
    ends = []
    for engine in ("numba", "torch"):
        step = fp.learning.EMStep(circuit, n_rows=len(X), engine=engine, dtype="float64")
        step.apply(step.accumulate(X[:10]) + step.accumulate(X[10:]))
        ends.append(step.circuit.log_prob(X))
    np.testing.assert_allclose(*ends, atol=1e-12)


def test_mistakes():
    circuit, X = CIRCUITS["every_node-bernoulli"], rows_of(CIRCUITS["every_node-bernoulli"])
    with pytest.raises(OptionError, match="space='weights'"):
        learnt(circuit, X, "torch", method="adam", sharpness=fp.Sharpness(mu=0.1, space="logits"))
    with pytest.raises(OptionError, match="engine"):
        learnt(circuit, X, "jax")
    with pytest.raises(DeviceError, match="engine='numba'"):
        learnt(circuit, X, "numba", device="cuda")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="cuda"):
            learnt(circuit, X, "auto", device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")
@pytest.mark.parametrize("method", METHODS)
def test_on_a_gpu(method):
    circuit = CIRCUITS["every_node-categorical"]
    X = rows_of(circuit)
    same(learnt(circuit, X, "numba", **METHODS[method]), learnt(circuit, X, "auto", device="cuda", **METHODS[method]), X, 1e-8)


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("pseudocount", [0.0, 0.3])
@pytest.mark.parametrize("name", ["every_node-categorical", "hclt-bernoulli"])
def test_weights_stay_where_torch_has_them(name, kind, pseudocount):
    """Steps that follow each other, none of which has the weights come back, end at those of the native engine."""
    circuit = CIRCUITS[name]
    X = np.repeat(rows_of(circuit), 2, axis=0)
    row_weights = np.random.default_rng(2).random(len(X))
    ends = []
    for engine in ("numba", "torch"):
        evaluator = get_evaluator(circuit, engine=engine)
        allowed = packing.pack_masks(circuit, evaluator.program)
        rule = Rule(kind, np.full(evaluator.program.n_steps, 0.2), pseudocount, 0.6, allowed)
        evidence = evaluator.evidence(X)
        means = [
            evaluator.em_step(evidence, np.arange(start, 60), solvable(rule, "float64"), row_weights)[0] for start in (0, 5, 9)
        ]
        evaluator.weights[:] = np.where(evaluator.weights > 0.3, 0.3, evaluator.weights)  # somebody changes them
        ends.append(np.concatenate([means, evaluator.weights, evaluator.log_prob(evidence)]))
    np.testing.assert_allclose(*ends, rtol=1e-10, atol=1e-13)


def test_the_contract_is_kept_by_both():
    circuit = CIRCUITS["every_node-poisson"]
    X = rows_of(circuit)
    native, other = (get_evaluator(circuit, engine=engine) for engine in ("numba", "torch"))
    rows = np.array([5, 2, 2, 9])
    found, expected = (each.statistics(each.evidence(X), rows) for each in (other, native))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    # Edges that a mask removes have a derivative, and no flow.
    np.testing.assert_allclose(found[1] * other.weights, expected[1] * native.weights, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(other.log_prob(other.evidence(X)), native.log_prob(native.evidence(X)), rtol=1e-12)
