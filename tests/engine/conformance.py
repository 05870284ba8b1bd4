"""What every engine must do, as checks that any engine, circuit and rows can be put through.

A new engine adds its name to `flatpc.engine.contract.ENGINES` and inherits all of them; a new structure adds a line to
`circuits`, a new kind of evidence one to `EVIDENCE`.
"""

from functools import cache

import numpy as np

import flatpc as fp
from flatpc.engine.contract import ENGINES, get_engine
from tests.oracles import derivatives, evaluate
from tests.oracles import flows as flows_by_definition

DTYPES = ("float64", "float32")
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
FAMILIES = {
    "bernoulli": fp.Bernoulli(),
    "categorical": fp.Categorical(3),
    "binomial": fp.Binomial(3),
    "gaussian": fp.Gaussian(),
    "poisson": fp.Poisson(),
}


def every_node(family):
    """Each kind of node and product, a mask, ties, a shared sub-circuit, and sums of children with different widths."""
    mask = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], bool)
    nodes = [
        fp.Input(0, family, 2),
        fp.Input(1, family, 2, tie=0),
        fp.Input(1, family, 3),
        fp.Input(2, family, 4),
        fp.Product((0, 1)),  # 4: {0, 1}, width 2
        fp.Sum((2,), 2),  # 5: {1}
        fp.Product((0, 5), "kronecker"),  # 6: {0, 1}, width 4
        fp.Sum((4, 6), 3),  # 7: {0, 1}, width 3
        fp.Sum((6, 6, 4), 3),  # 8: a child twice
        fp.Mixture((7, 8, 7)),  # 9: {0, 1}, width 3
        fp.Sum((9, 4), 4, mask),  # 10
        fp.Sum((7, 4), 4, mask, tie=10),  # 11
        fp.Mixture((10, 11)),  # 12
        fp.Product((12, 3)),  # 13: {0, 1, 2}, width 4
        fp.Product((3, 10)),  # 14
        fp.Product((11,)),  # 15: one child
        fp.Product((15, 3), "kronecker"),  # 16: width 16
        fp.Sum((13, 14, 16)),
    ]
    return fp.Circuit(nodes)


def wide_product(family):
    """A product of 40 children: in float32 it underflows unless it is rescaled on the way."""
    nodes = [fp.Input(v, family, 3) for v in range(40)]
    return fp.Circuit([*nodes, fp.Product(tuple(range(40))), fp.Sum((40,))])


def scalar_dag(family):
    """A mixture of two products that share their inputs, node by node."""
    nodes = [fp.Input(v, family) for v in (0, 0, 1, 1)]
    nodes += [fp.Sum((0, 1)), fp.Sum((2, 3)), fp.Product((4, 2)), fp.Product((0, 5)), fp.Sum((6, 7, 6))]
    return fp.Circuit(nodes)


def _rows(family, n_rows, n_variables):
    rng = np.random.default_rng(5)
    return np.stack([_values(family, n_rows, rng) for _ in range(n_variables)], axis=1)


def _values(family, n, rng):
    if isinstance(family, fp.Gaussian):
        return 2 * rng.standard_normal(n)
    if isinstance(family, fp.Poisson):
        return rng.poisson(3, n).astype(float)
    return rng.integers(0, family.n_categories, n).astype(float)


@cache
def circuits():
    """{name: circuit}: every structure with every family it takes."""
    out = {}
    for name, family in FAMILIES.items():
        rows = _rows(family, 60, 5)
        made = {
            "every_node": every_node(family),
            "wide_product": wide_product(family),
            "scalar_dag": scalar_dag(family),
            "factorized": fp.structures.factorized(rows, family=family),
            "rat_spn": fp.structures.rat_spn(4, 2, 3, 3, 2, family=family),
            "poon_domingos": fp.structures.poon_domingos((2, 3), 1, n_sums=3, n_inputs=2, family=family),
            "hmm": fp.structures.hmm(5, 3, family=family),
            "hmm_homogeneous": fp.structures.hmm(5, 3, family=family, homogeneous=True),
        }
        if isinstance(family, fp.Bernoulli | fp.Categorical):
            made["chow_liu"] = fp.structures.chow_liu(rows)
            made["hclt"] = fp.structures.hclt(rows, 4, family=family)
            made["hclt_trees"] = fp.structures.hclt(rows, 3, family=family, n_trees=2)
        out |= {f"{structure}-{name}": circuit.randomize(1) for structure, circuit in made.items()}
    out["from_edges"] = fp.structures.from_edges(
        {
            "root": "sum",
            "left": "product",
            "right": "product",
            "a": ("indicator", 0, 1),
            "b": ("indicator", 0, 0),
            "c": ("poisson", 1, 20.0),
            "d": ("gaussian", 2, 0.5, 2.0),
            "e": ("poisson", 1, 2.0),
        },
        [
            ("root", "left", 0.3),
            ("root", "right", 0.7),
            *(("left", x) for x in "acd"),
            *(("right", x) for x in "bed"),
        ],
    )
    return out


# ---- evidence: a circuit becomes another one, perhaps, and rows ------------------------------------------------------------


def complete(circuit, n=9):
    rng = np.random.default_rng(7)
    return circuit, np.stack([_values(family, n, rng) for family in circuit.families], axis=1)


def some_missing(circuit):
    circuit, X = complete(circuit, 12)
    X[np.random.default_rng(8).random(X.shape) < 0.4] = np.nan
    return circuit, X


def all_missing(circuit):
    return circuit, np.full((2, circuit.n_variables), np.nan)


def duplicates(circuit):
    circuit, X = complete(circuit, 3)
    return circuit, X[[0, 1, 0, 2, 0, 0, 1]]


def one_row(circuit):
    return complete(circuit, 1)


def many_rows(circuit):
    return complete(circuit, 700)


def contradictory(circuit):
    """Units that all but exclude each other's values, so that products of children are tiny whatever the unit."""
    return complete(_with_probabilities(circuit, 1e-200, 1 - 2.0**-53))


def impossible(circuit):
    """Probabilities of exactly 0 and 1: many rows can't occur."""
    return complete(_with_probabilities(circuit, 0.0, 1.0), 20)


def outliers(circuit):
    """Gaussian values 10⁶ standard deviations away, counts of 10⁵."""
    circuit, X = complete(circuit)
    for v, family in enumerate(circuit.families):
        if isinstance(family, fp.Gaussian):
            X[1:, v] *= 1e6
        elif isinstance(family, fp.Poisson):
            X[1:, v] *= 1e5
    return circuit, X


EVIDENCE = {
    f.__name__: f
    for f in (complete, some_missing, all_missing, duplicates, one_row, many_rows, contradictory, impossible, outliers)
}


def _with_probabilities(circuit, low, high):
    """Every Bernoulli, Categorical and Binomial unit gets probabilities `low` and `high` at random; Gaussians get narrow."""
    rng = np.random.default_rng(9)
    out = {}
    for i, node in enumerate(circuit.nodes):
        if not isinstance(node, fp.Input) or circuit.owners[i] != i:
            continue
        if isinstance(node.family, fp.Bernoulli | fp.Binomial):
            out[i] = {"p": np.where(rng.random(node.width) < 0.5, low, high)}
        elif isinstance(node.family, fp.Categorical):
            p = np.full((node.width, node.family.n), low)
            p[np.arange(node.width), rng.integers(0, node.family.n, node.width)] = 1.0
            out[i] = {"p": p}
        elif isinstance(node.family, fp.Gaussian):
            out[i] = {"mean": 3 * rng.standard_normal(node.width), "variance": np.full(node.width, 1e-4)}
    return circuit.with_parameters(out)


@cache
def situation(case, evidence):
    """The circuit and rows of a case, with what the oracles say: values, flows of units, flows."""
    circuit, X = EVIDENCE[evidence](circuits()[case])
    X.flags.writeable = False
    values = evaluate.log_values(circuit, X)
    units = flows_by_definition.unit_flows(circuit, X)
    return circuit, X, values, units, flows_by_definition.flows(circuit, X)


# ---- checks -------------------------------------------------------------------------------------------------------------


def check_log_prob(engine, case, evidence, dtype):
    """Equal to the oracle; -inf exactly where it says so."""
    circuit, X, values, _, _ = situation(case, evidence)
    found = get_engine(engine).log_prob(circuit, X, dtype=dtype)
    assert found.dtype == np.float64
    assert found.shape == (len(X),)
    close(found, values[-1][:, 0], TOLERANCE[dtype])


def check_units(engine, case, evidence, dtype):
    """Values and flows of every unit equal the oracles'."""
    circuit, X, values, units, _ = situation(case, evidence)
    implementation = get_engine(engine)
    for found, value in zip(implementation.unit_values(circuit, X, dtype=dtype), values, strict=True):
        close(found, value, TOLERANCE[dtype])
    for found, unit in zip(implementation.unit_flows(circuit, X, dtype=dtype), units, strict=True):
        close(found, unit, slack(values, dtype))
    densities = implementation.log_densities(circuit, X)
    assert sorted(densities) == [i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Input)]
    for i, found in densities.items():
        close(found, values[i], TOLERANCE["float64"])


def check_flows(engine, case, evidence, dtype):
    """Flows equal their definition; those into a sum's units add up to the units' flows; rows may count more or less."""
    circuit, X, values, units, (sums, inputs) = situation(case, evidence)
    tolerance = slack(values, dtype)
    implementation = get_engine(engine)
    found = implementation.flows(circuit, X, dtype=dtype)
    close(found.log_prob, values[-1][:, 0], TOLERANCE[dtype])
    close_flows(found, sums, inputs, tolerance)
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Sum) and node.mask is not None and circuit.owners[i] == i:
            assert not found.sums[i][~node.mask].any()
    if not circuit.has_tied_parameters:
        for i, edges in found.sums.items():
            close(edges.sum(axis=1), units[i].sum(axis=0), tolerance)
    weights = np.random.default_rng(3).integers(0, 3, len(X)).astype(float)
    again = implementation.flows(circuit, X, weights=weights, dtype=dtype)
    close(again.log_prob, values[-1][:, 0], TOLERANCE[dtype])
    close_flows(again, *flows_by_definition.flows(circuit, X, weights), tolerance)


def check_derivatives(engine, circuit, X):
    """Flows equal autograd's θ · ∂ Σ log p / ∂θ, over the rows whose probability float64 holds without scaling."""
    X = X[derivatives.comfortable(evaluate.log_prob(circuit, X))]
    if len(X):
        found = get_engine(engine).flows(circuit, X).sums
        expected = derivatives.flows(circuit, X)
        assert found.keys() == expected.keys()
        for i, flow in expected.items():
            close(found[i], flow, 1e-10)


def check_total(engine, circuit):
    """Probabilities of all assignments add up to 1."""
    total = np.exp(get_engine(engine).log_prob(circuit, evaluate.assignments(circuit))).sum()
    assert abs(total - 1) < 1e-12


def check_agreement(circuit, X):
    """All engines give the same numbers."""
    for dtype in DTYPES:
        first, *others = [get_engine(name).flows(circuit, X, dtype=dtype) for name in ENGINES]
        tolerance = slack(evaluate.log_values(circuit, X), dtype)
        for other in others:
            close(other.log_prob, first.log_prob, TOLERANCE[dtype])
            close_flows(other, first.sums, first.inputs, tolerance)


def close_flows(found, sums, inputs, tolerance):
    assert found.sums.keys() == sums.keys()
    assert found.inputs.keys() == inputs.keys()
    for i, flow in sums.items():
        close(found.sums[i], flow, tolerance)
    for i, statistics in inputs.items():
        assert found.inputs[i].keys() == statistics.keys()
        for name, value in statistics.items():
            close(found.inputs[i][name], value, tolerance * max(1.0, abs(value).max()))


def close(found, expected, tolerance):
    """Equal within `tolerance`, absolute for numbers below 1 and relative above; infinities exactly; NaN never."""
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=False)


def slack(values, dtype):
    """Tolerance for flows. They are made from differences of log-values, which are rounded in proportion to their size."""
    largest = max(abs(v[np.isfinite(v)]).max(initial=0.0) for v in values)
    return TOLERANCE[dtype] + 16 * np.finfo(dtype).eps * largest
