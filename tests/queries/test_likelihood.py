"""Marginals and conditionals equal enumeration; what X may be; what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import flatpc as fp
from flatpc.errors import DataError, MissingValueError, OptionError, ShapeError, SupportError
from tests.queries.cases import BUILD, case, evidence, joint


@pytest.mark.parametrize("name", BUILD)
def test_probabilities_sum_to_one(name):
    assert abs(np.exp(case(name).log_prob(joint(name).X)).sum() - 1) < 1e-12


@pytest.mark.parametrize("name", BUILD)
def test_marginals_equal_enumeration(name):
    X = evidence(case(name))
    expected = [np.log(joint(name).given(row)[1]) for row in X]
    np.testing.assert_allclose(case(name).log_prob(X, missing="marginalize"), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", BUILD)
def test_conditionals_equal_enumeration(name):
    circuit, table = case(name), joint(name)
    X = table.X[table.p > 0]
    known = np.random.default_rng(1).random(X.shape) < 0.5
    expected = [
        np.log(table.given(row)[1] / table.given(np.where(mask, row, np.nan))[1]) for row, mask in zip(X, known, strict=True)
    ]
    np.testing.assert_allclose(circuit.conditional_log_prob(X, known), expected, rtol=0, atol=1e-10)


def test_given_as_mask_or_as_variables_is_the_same():
    circuit, X = case("hclt"), joint("hclt").X
    mask = np.array([True, False, False, True, False, False])
    expected = circuit.conditional_log_prob(X, np.tile(mask, (len(X), 1)))
    for given in (mask, mask.tolist(), [0, 3], (3, 0), np.array([0, 3, 3]), torch.tensor([0, 3]), torch.from_numpy(mask)):
        np.testing.assert_array_equal(circuit.conditional_log_prob(X, given), expected)


def test_given_nothing_is_the_likelihood_and_given_all_is_certain():
    circuit, X = case("hclt"), joint("hclt").X
    np.testing.assert_allclose(circuit.conditional_log_prob(X, []), circuit.log_prob(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(circuit.conditional_log_prob(X, list(range(6))), np.zeros(len(X)))


def test_conditionals_integrate_missing_values_out_of_both_sides_on_request():
    circuit, table = case("hclt"), joint("hclt")
    row = np.array([1.0, np.nan, 0.0, np.nan, 1.0, np.nan])
    with pytest.raises(MissingValueError):
        circuit.conditional_log_prob(row[None], [0, 1, 2])
    known = np.where([True, True, True, False, False, False], row, np.nan)
    expected = np.log(table.given(row)[1] / table.given(known)[1])
    assert circuit.conditional_log_prob(row[None], [0, 1, 2], missing="marginalize")[0] == pytest.approx(expected, abs=1e-12)


def test_a_conditional_on_what_cannot_be_names_the_row():
    circuit = fp.Circuit([fp.Input(0, fp.Bernoulli()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))], {0: P(1.0), 1: P(0.5)})
    assert circuit.conditional_log_prob([[1, 0]], [0])[0] == pytest.approx(np.log(0.5))
    assert circuit.conditional_log_prob([[0, 0]], [1])[0] == -np.inf
    with pytest.raises(DataError, match="row 1 have probability zero"):
        circuit.conditional_log_prob([[1, 0], [0, 0]], [0])


def P(p):
    return {"p": [p]}


def test_frames_and_lists_give_the_same_array():
    circuit, X = case("hclt"), joint("hclt").X
    expected = circuit.log_prob(X)
    names = [f"v{j}" for j in range(6)]
    for table in (X.tolist(), X.astype(int), pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        answer = circuit.log_prob(table)
        assert isinstance(answer, np.ndarray)
        np.testing.assert_array_equal(answer, expected)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_tensor_in_tensor_out(engine):
    circuit, X = case("hclt"), joint("hclt").X
    answer = circuit.log_prob(torch.tensor(X), engine=engine)
    assert answer.dtype == torch.float64
    np.testing.assert_allclose(answer.numpy(), circuit.log_prob(X), rtol=0, atol=1e-10)
    assert isinstance(circuit.conditional_log_prob(torch.tensor(X), [0], engine=engine), torch.Tensor)


def mixture_of_gaussians():
    nodes = [fp.Input(0, fp.Gaussian(), 3), fp.Input(1, fp.Gaussian(), 3), fp.Product((0, 1)), fp.Sum((2,))]
    return fp.Circuit(nodes).randomize(seed=2)


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_gradients_flow_to_a_tensor_that_wants_them(engine):
    circuit = mixture_of_gaussians()
    X = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: circuit.log_prob(x, engine=engine), X)
    assert torch.autograd.gradcheck(lambda x: circuit.conditional_log_prob(x, [1], engine=engine), X)
    with torch.no_grad():
        assert not circuit.log_prob(X, engine=engine).requires_grad


def test_the_numba_engine_answers_without_a_graph():
    X = torch.zeros((2, 2), dtype=torch.float64, requires_grad=True)
    assert not mixture_of_gaussians().log_prob(X, engine="numba").requires_grad


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_single_precision_is_close_and_comes_back_double(engine):
    circuit, X = case("hclt"), joint("hclt").X
    answer = circuit.log_prob(X, engine=engine, dtype="float32")
    assert answer.dtype == np.float64
    np.testing.assert_allclose(answer, circuit.log_prob(X), rtol=1e-4)


def test_flows_of_the_root_count_rows():
    circuit, X = case("hclt"), joint("hclt").X.copy()
    flows = circuit.flows(X)
    np.testing.assert_allclose(flows.sums[circuit.root].sum(), len(X), rtol=1e-12)
    np.testing.assert_allclose(flows.log_prob, circuit.log_prob(X), rtol=0, atol=1e-12)
    X[0, 0] = np.nan
    with pytest.raises(MissingValueError):
        circuit.flows(X)
    np.testing.assert_allclose(circuit.flows(X, missing="marginalize").sums[circuit.root].sum(), len(X), rtol=1e-12)


GOOD = np.zeros((2, 6))
BAD = {
    "one dimension": (GOOD[0], ShapeError, "two dimensions"),
    "columns": (GOOD[:, :5], ShapeError, "5 columns"),
    "no rows": (GOOD[:0], ShapeError, "no rows"),
    "nan": (np.full((1, 6), np.nan), MissingValueError, "Column 'x0' is missing .NaN. in row 0"),
    "infinity": (np.full((1, 6), np.inf), DataError, "Column 'x0'"),
    "support": (GOOD + 2, SupportError, "Column 'x0' has the value 2"),
    "words": ([["a"] * 6], DataError, "'a'"),
    "ragged": ([[0, 1], [0]], DataError, "length"),
    "no table": (object(), DataError, "object"),
}


COMPLETE = ("log_prob", "conditional_log_prob", "flows")
COMPLETING = ("sample", "mpe", "expectation", "variance")


@pytest.mark.parametrize(
    ("question", "kind"),
    [(question, kind) for question in (*COMPLETE, *COMPLETING) for kind in BAD if question in COMPLETE or kind != "nan"],
)
def test_bad_rows_are_refused_by_every_question(question, kind):
    X, error, message = BAD[kind]
    circuit = case("hclt")
    if question == "sample" and kind == "one dimension":
        X, message = GOOD[0, :5], "5 columns"
    ask = {
        "conditional_log_prob": lambda: circuit.conditional_log_prob(X, [0]),
        "sample": lambda: circuit.sample(2, given=X),
    }.get(question, lambda: getattr(circuit, question)(X))
    with pytest.raises(error, match=message):
        ask()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([6], OptionError),
        ([-1], OptionError),
        ([0.5], OptionError),
        (["a"], OptionError),
        (0, OptionError),
        ([[0, 1]], OptionError),
        ([True, False], ShapeError),
        (np.ones((3, 6), bool), ShapeError),
        ([[True], [True, False]], OptionError),
    ],
)
def test_bad_given_is_refused(given, error):
    with pytest.raises(error, match="given"):
        case("hclt").conditional_log_prob(GOOD, given)


@pytest.mark.parametrize("option", [{"missing": "ignore"}, {"engine": "jax"}, {"dtype": "float16"}])
def test_bad_options_are_refused(option):
    with pytest.raises(OptionError, match=str(next(iter(option.values())))):
        case("hclt").log_prob(GOOD, **option)
