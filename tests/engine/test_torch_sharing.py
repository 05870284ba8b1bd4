"""Sub-rows that are alike are worked on once, level by level: the same numbers, counted against NumPy, where it pays."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.circuit.nodes import Input
from flatpc.engine.contract import get_evaluator
from tests.engine.conformance import EVIDENCE, circuits

torch = pytest.importorskip("torch")
from flatpc.engine.torch import sharing  # noqa: E402
from flatpc.engine.torch.sharing import Plan, Sharing  # noqa: E402

CIRCUITS = circuits()
TABLES = [
    name
    for name, circuit in CIRCUITS.items()
    if any(isinstance(node, Input) and node.family.is_table for node in circuit.nodes) and len(circuit.nodes) > 3
]


@pytest.fixture
def always(monkeypatch):
    """Whatever can be shared is; the plans that were made."""
    for name, value in {"NUMBERING": -1.0, "MOVING": 0, "CALLING": -1.0, "FEWEST_ROWS": 1, "MOST_SHARE": 1.0}.items():
        monkeypatch.setattr(sharing, name, value)
    made, plan = [], Sharing.plan
    monkeypatch.setattr(Sharing, "plan", lambda self, X: made.append(plan(self, X)) or made[-1])
    return made


def rows_of(circuit):
    """Rows of which none repeats others as a whole but many do in part, some with missing values."""
    return np.concatenate([EVIDENCE["some_missing"](circuit)[1], circuit.sample(200, seed=5)])


def sums(circuit, X, dtype="float64"):
    evaluator = get_evaluator(circuit, engine="torch", dtype=dtype)
    weights = np.random.default_rng(1).random(len(X))
    return evaluator.statistics(evaluator.evidence(X), np.arange(len(X)), weights)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("most_share", [1.0, 0.3], ids=["all levels", "low levels"])
def test_the_same_numbers(name, most_share, always, monkeypatch):
    monkeypatch.setattr(sharing, "MOST_SHARE", most_share)
    circuit = CIRCUITS[name]
    X = rows_of(circuit)
    shared = sums(circuit, X)
    [plan] = always
    assert plan is not None
    assert any(codes is not None for codes in plan.codes)
    monkeypatch.setattr(Sharing, "plan", lambda self, X: None)
    for found, expected in zip(shared, sums(circuit, X), strict=True):
        np.testing.assert_allclose(
            found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        )
    native = get_evaluator(circuit)
    weights = np.random.default_rng(1).random(len(X))
    expected = native.statistics(native.evidence(X), np.arange(len(X)), weights)
    np.testing.assert_allclose(shared[0], expected[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(shared[1] * native.weights, expected[1] * native.weights, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", TABLES)
def test_sub_rows_are_counted(name, always):
    """The numbers of each node are those of the distinct sub-rows of its scope, and each has a row that stands for it."""
    circuit = CIRCUITS[name]
    X = rows_of(circuit)
    run = get_evaluator(circuit, engine="torch").run
    layers, plan = run.layers, run.sharing.plan(torch.tensor(X))
    checked = 0
    for layer, codes, size, first in zip(layers, plan.codes, plan.sizes, plan.first, strict=True):
        if codes is None:
            continue
        most = 0
        for j, i in enumerate(layer.nodes):
            if i < 0:
                continue
            scope = [v for v in range(circuit.n_variables) if circuit.scopes[i] >> v & 1]
            _, which = np.unique(np.nan_to_num(X[:, scope], nan=-1.0), axis=0, return_inverse=True)
            pairs = set(zip(which.ravel().tolist(), codes[j].tolist(), strict=True))
            assert len(pairs) == which.max() + 1 == len({number for _, number in pairs})
            for number in range(int(codes[j].max()) + 1):
                stands = X[int(first[j, number])][scope]
                member = X[int((codes[j] == number).nonzero()[0])][scope]
                np.testing.assert_array_equal(stands, member)
            most = max(most, int(codes[j].max()) + 1)
            checked += 1
        assert most <= size <= len(X)
    assert checked > 1


def test_learning_ends_at_the_same_circuit(always, monkeypatch):
    circuit = CIRCUITS["hclt-categorical"]
    X = rows_of(circuit)
    options = {"engine": "torch", "dtype": "float64", "missing": "marginalize", "epochs": 3, "progress": False, "batch_size": 60}
    shared = fp.fit(circuit, X, **options)
    assert len(always) > 6
    assert {plan is not None for plan in always} == {True}
    monkeypatch.setattr(Sharing, "plan", lambda self, X: None)
    plain = fp.fit(circuit, X, **options)
    np.testing.assert_allclose(shared.history["train_nll"], plain.history["train_nll"], rtol=1e-12)
    np.testing.assert_allclose(
        shared.circuit.log_prob(X, missing="marginalize"), plain.circuit.log_prob(X, missing="marginalize"), rtol=1e-10
    )


def binary_rows(n, n_variables):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n, n_variables))
    for v in range(1, n_variables):
        X[:, v] = np.where(rng.random(n) < 0.8, X[:, (v - 1) // 2], X[:, v])
    return X


@pytest.mark.parametrize(
    ("latents", "n_rows", "pays"),
    [(64, 2000, True), (64, 250, False), (4, 2000, False)],
    ids=["large", "few rows", "few latents"],
)
def test_it_is_done_where_it_pays(latents, n_rows, pays, monkeypatch):
    X = binary_rows(n_rows, 24)
    made, plan = [], Sharing.plan
    monkeypatch.setattr(Sharing, "plan", lambda self, X: made.append(plan(self, X)) or made[-1])
    sums(fp.structures.hclt(X, latents), X, "float32")
    assert [isinstance(found, Plan) for found in made] == [pays]


def test_continuous_values_are_not_shared(always):
    circuit = CIRCUITS["rat_spn-gaussian"]
    sums(circuit, circuit.sample(50, seed=0))
    assert all(plan is None or all(codes is None for codes in plan.codes) for plan in always)
