"""Every query has one signature, and the same answer from every engine, at every precision, on every device that is there."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import flatpc as fp
from flatpc.engine.contract import ENGINES
from flatpc.engine.torch.engine import TorchEngine
from flatpc.errors import DeviceError, FlatpcError, MissingValueError, OptionError
from tests.queries.cases import BUILD, case, evidence

QUERIES = ["conditional_log_prob", "dropout_uncertainty", "expectation", "flows", "log_prob", "mpe", "sample", "variance"]
COMMON = ["missing", "engine", "dtype", "device"]
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")


def mixed():
    """A circuit with Gaussian, Poisson and discrete inputs, and rows with holes."""
    families = [fp.Gaussian(), fp.Poisson(), fp.Bernoulli(), fp.Categorical(3)]
    nodes = [fp.Input(v, family, 3) for v, family in enumerate(families)]
    nodes += [fp.Product((0, 1)), fp.Sum((4,), 3), fp.Product((2, 3)), fp.Sum((6,), 3), fp.Product((5, 7)), fp.Sum((8,))]
    rng = np.random.default_rng(2)
    X = np.stack([rng.normal(size=20), rng.poisson(2, 20), rng.integers(0, 2, 20), rng.integers(0, 3, 20)], axis=1)
    X[rng.random(X.shape) < 0.4] = np.nan
    X[0] = np.nan
    return fp.Circuit(nodes).randomize(3), X


def answers(circuit, X, **options):
    """All answers as arrays, by name."""
    known = np.arange(circuit.n_variables) % 2 == 0
    flows = circuit.flows(X, missing="marginalize", **options)
    done = circuit.mpe(X, **options)
    out = {
        "log_prob": circuit.log_prob(X, missing="marginalize", **options),
        "conditional_log_prob": circuit.conditional_log_prob(X, known, missing="marginalize", **options),
        "expectation": circuit.expectation(X, **options),
        "variance": circuit.variance(X, **options),
        "mpe": done.values,
        "mpe log_prob": done.log_prob,
        "sample": circuit.sample(3, given=X, seed=1, **options),
        "flows log_prob": flows.log_prob,
        **{f"flows of node {i}": flow for i, flow in flows.sums.items()},
    }
    if not circuit.has_tied_parameters:
        found = circuit.dropout_uncertainty(X, exact=False, missing="marginalize", **options)
        out |= {"log_mean": found.log_mean, "relative_variance": found.relative_variance}
    return out


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("owner", [fp.queries, fp.Circuit], ids=["function", "method"])
def test_every_query_has_the_same_signature(owner, name):
    parameters = inspect.signature(getattr(owner, name)).parameters
    assert [option for option in parameters if option != "uncertainty"][-4:] == COMMON
    assert [parameters[option].kind for option in COMMON] == [inspect.Parameter.KEYWORD_ONLY] * 4
    defaults = [parameters[option].default for option in COMMON]
    assert defaults[1:] == ["auto", "float64", None]
    assert defaults[0] == ("marginalize" if name in ("sample", "mpe", "expectation", "variance") else "raise")
    function, method = (inspect.signature(getattr(each, name)).parameters for each in (fp.queries, fp.Circuit))
    assert [p.replace(annotation=None) for p in function.values()][1:] == [p.replace(annotation=None) for p in method.values()][
        1:
    ]


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "numba"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*BUILD, "mixed"])
def test_engines_agree(engine, dtype, name):
    circuit, X = mixed() if name == "mixed" else (case(name), evidence(case(name)))
    expected, found = answers(circuit, X, engine="numba"), answers(circuit, X, engine=engine, dtype=dtype, device="cpu")
    assert expected.keys() == found.keys()
    for question, value in expected.items():
        if question == "sample" and dtype == "float32":
            continue  # a draw may fall on the other side of a rounded bound
        np.testing.assert_allclose(found[question], value, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=question)


@pytest.mark.parametrize("name", [*BUILD, "mixed"])
def test_float32_of_numba_agrees(name):
    circuit, X = mixed() if name == "mixed" else (case(name), evidence(case(name)))
    expected, found = answers(circuit, X), answers(circuit, X, engine="numba", dtype="float32")
    for question, value in expected.items():
        if question != "sample":
            np.testing.assert_allclose(found[question], value, rtol=1e-4, atol=1e-4, err_msg=question)


@pytest.fixture
def used(monkeypatch):
    """Where the torch engine was made, and which of its methods were called."""
    out = SimpleNamespace(devices=[], methods=[])
    make = TorchEngine.__init__

    def init(self, device="cpu"):
        make(self, device)
        out.devices.append(self.device)

    monkeypatch.setattr(TorchEngine, "__init__", init)
    for method in ("log_prob", "flows", "unit_values", "unit_flows", "log_densities"):
        monkeypatch.setattr(TorchEngine, method, _noted(method, getattr(TorchEngine, method), out.methods))
    return out


def _noted(name, inner, calls):
    def call(self, *arguments, **options):
        calls.append((name, options.get("dtype")))
        return inner(self, *arguments, **options)

    return call


@pytest.mark.parametrize(
    ("ask", "methods"),
    [
        (lambda c, X, **o: c.log_prob(X, missing="marginalize", **o), {"log_prob"}),
        (lambda c, X, **o: c.conditional_log_prob(X, [0], missing="marginalize", **o), {"log_prob"}),
        (lambda c, X, **o: c.flows(X, missing="marginalize", **o), {"flows"}),
        (lambda c, X, **o: c.expectation(X, **o), {"log_prob", "unit_flows"}),
        (lambda c, X, **o: c.variance(X, **o), {"log_prob", "unit_flows"}),
        (lambda c, X, **o: c.mpe(X, **o), {"log_prob", "log_densities"}),
        (lambda c, X, **o: c.sample(2, given=X, **o), {"unit_values"}),
        (lambda c, X, **o: c.dropout_uncertainty(X, missing="marginalize", **o), {"log_densities"}),
    ],
)
def test_the_engine_that_is_named_is_used(used, ask, methods):
    circuit, X = case("hclt"), evidence(case("hclt"))
    ask(circuit, X)
    ask(circuit, X, device="cpu")
    ask(circuit, torch.tensor(X))
    assert used.methods == [], "auto is numba on the CPU"
    ask(circuit, X, engine="torch", dtype="float32")
    assert {name for name, _ in used.methods} == methods
    assert {dtype for name, dtype in used.methods if name != "log_densities"} <= {"float32"}
    assert set(used.devices) == {torch.device("cpu")}


def test_a_gradient_reaches_the_rows():
    circuit, X = mixed()
    rows = torch.tensor(np.nan_to_num(X), requires_grad=True)
    for options in ({}, {"engine": "torch"}, {"device": "cpu"}, {"engine": "torch", "device": torch.device("cpu")}):
        (gradient,) = torch.autograd.grad(circuit.log_prob(rows, **options).sum(), rows)
        assert gradient[:, 0].abs().sum() > 0
    assert not circuit.log_prob(rows, engine="numba").requires_grad


ASKS = {
    "log_prob": lambda c, X, **o: c.log_prob(X, **o),
    "conditional_log_prob": lambda c, X, **o: c.conditional_log_prob(X, [0], **o),
    "flows": lambda c, X, **o: c.flows(X, **o),
    "expectation": lambda c, X, **o: c.expectation(X, **o),
    "variance": lambda c, X, **o: c.variance(X, **o),
    "mpe": lambda c, X, **o: c.mpe(X, **o),
    "sample": lambda c, X, **o: c.sample(2, given=X, **o),
    "sample of nothing": lambda c, X, **o: c.sample(2, **o),
    "dropout_uncertainty": lambda c, X, **o: c.dropout_uncertainty(X, **o),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_wrong_devices_are_refused(ask):
    circuit, X = case("hclt"), np.zeros((2, 6))
    for options, error, message in [
        ({"device": "cuda:99"}, DeviceError, r"device='cuda:99'; with float64 there is 'cpu'.*Leave device out"),
        ({"engine": "torch", "device": "cuda:99"}, DeviceError, "device='cuda:99'"),
        ({"engine": "torch", "device": "meta"}, DeviceError, "no numbers on it. Take 'cpu'"),
        ({"engine": "numba", "device": "cuda"}, DeviceError, "device='cuda' with engine='numba'.*or choose engine='torch'"),
        ({"engine": "torch", "device": "nonsense"}, OptionError, "device='nonsense'; give 'cpu', 'cuda', 'cuda:1'"),
        ({"device": 0}, OptionError, "device=0; give"),
        ({"engine": "jax"}, OptionError, "engine='jax'; choose one of 'auto', 'numba', 'torch'"),
        ({"engine": np.array([])}, OptionError, r"engine=array\(\[\].*choose one of"),
        ({"dtype": "float16"}, OptionError, "dtype='float16'; choose 'float32' or 'float64'"),
    ]:
        with pytest.raises(error, match=message) as caught:
            ask(circuit, X, **options)
        assert isinstance(caught.value, FlatpcError)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device on this machine")
def test_cuda_where_there_is_none():
    with pytest.raises(DeviceError, match=r"device='cuda'; with float64 there is 'cpu' here\. Leave device out") as caught:
        case("hclt").log_prob(np.zeros((1, 6)), device="cuda")
    assert caught.value.option == "device"


@cuda
@pytest.mark.parametrize("name", BUILD)
def test_on_cuda(used, name):
    circuit, X = case(name), evidence(case(name))
    expected = answers(circuit, X)
    for found in (answers(circuit, X, device="cuda"), answers(circuit, torch.tensor(X, device="cuda"))):
        for question, value in expected.items():
            answer = found[question].cpu() if isinstance(found[question], torch.Tensor) else found[question]
            np.testing.assert_allclose(answer, value, rtol=1e-10, atol=1e-10, err_msg=question)
    assert {device.type for device in used.devices} == {"cuda"}
    assert answers(circuit, torch.tensor(X, device="cuda"))["log_prob"].device.type == "cuda"


@pytest.mark.parametrize("name", ["mpe", "expectation", "variance", "sample"])
def test_missing_values_can_be_refused(name):
    with pytest.raises(MissingValueError, match="Column 'x0' is missing"):
        ASKS[name](case("hclt"), np.full((1, 6), np.nan), missing="raise")
    with pytest.raises(OptionError, match="missing='drop'"):
        ASKS[name](case("hclt"), np.zeros((1, 6)), missing="drop")
