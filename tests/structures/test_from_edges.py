"""Circuits written down by hand, and what is refused."""

import time

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import (
    DecomposabilityError,
    OptionError,
    ParameterError,
    SmoothnessError,
    StructureError,
)
from tests.oracles.evaluate import assignments, log_prob

INDICATORS = {f"{'not ' if value == 0 else ''}x{v}": ("indicator", v, value) for v in range(3) for value in (0, 1)}


def test_arithmetic_circuit_of_a_bayesian_network():
    # p(x0) p(x1 | x0) with p(x0=1) = 0.3, p(x1=1 | x0=1) = 0.9, p(x1=1 | x0=0) = 0.2
    circuit = fp.structures.from_edges(
        {
            "joint": "sum",
            "yes": "product",
            "no": "product",
            "x1 if yes": "sum",
            "x1 if no": "sum",
            **{name: spec for name, spec in INDICATORS.items() if spec[1] < 2},
        },
        [
            ("yes", "x0"),
            ("yes", "x1 if yes"),
            ("x1 if yes", "x1", 0.9),
            ("x1 if yes", "not x1", 0.1),
            ("x1 if no", "x1", 0.2),
            ("x1 if no", "not x1", 0.8),
            ("no", "not x0"),
            ("no", "x1 if no"),
            ("joint", "yes", 0.3),
            ("joint", "no", 0.7),
        ],
    )
    got = np.exp(log_prob(circuit, [[0, 0], [0, 1], [1, 0], [1, 1]]))
    assert got == pytest.approx([0.7 * 0.8, 0.7 * 0.2, 0.3 * 0.1, 0.3 * 0.9], abs=1e-15)
    assert circuit.is_deterministic
    assert circuit.n_parameters == 6
    assert not circuit.is_tree  # the indicators of x1 are shared


def test_psdd():
    # A decision node over the vtree ((0, 1), 2): primes "x0 = x1" and "x0 ≠ x1" exclude each other and have subs over x2.
    nodes = {
        "root": "sum",
        "equal, and x2": "product",
        "unequal, and x2": "product",
        "equal": "sum",
        "unequal": "sum",
        "11": "product",
        "00": "product",
        "10": "product",
        "01": "product",
        "x2 often": ("bernoulli", 2, 0.75),
        **{name: INDICATORS[name] for name in ("x0", "not x0", "x1", "not x1", "not x2")},
    }
    edges = [
        ("root", "equal, and x2", 0.6),
        ("root", "unequal, and x2", 0.4),
        ("equal, and x2", "equal"),
        ("equal, and x2", "x2 often"),
        ("unequal, and x2", "unequal"),
        ("unequal, and x2", "not x2"),
        ("equal", "11", 0.5),
        ("equal", "00", 0.5),
        ("unequal", "10", 0.25),
        ("unequal", "01", 0.75),
        *[(f"{a}{b}", "x0" if a else "not x0") for a in (0, 1) for b in (0, 1)],
        *[(f"{a}{b}", "x1" if b else "not x1") for a in (0, 1) for b in (0, 1)],
    ]
    circuit = fp.structures.from_edges(nodes, edges)
    rows = assignments(circuit)
    want = []
    for a, b, c in rows:
        if a == b:
            want.append(0.6 * 0.5 * (0.75 if c else 0.25))
        else:
            want.append(0.4 * (0.25 if a else 0.75) * (0.0 if c else 1.0))
    assert np.exp(log_prob(circuit, rows)) == pytest.approx(want, abs=1e-15)
    assert circuit.is_deterministic
    assert circuit.is_structured_decomposable


def test_cutset_network():
    # An OR node on x0; below 0 the variables 1 and 2 are independent, below 1 x2 depends on x1 (a small Chow-Liu tree).
    nodes = {
        "or": "sum",
        "left": "product",
        "right": "product",
        "tree": "sum",
        "x1 and": "product",
        "not x1 and": "product",
        **INDICATORS,
        1: ("bernoulli", 1, 0.1),
        2: ("bernoulli", 2, 0.2),
        (2, "given x1"): ("bernoulli", 2, 0.3),
        (2, "given not x1"): ("bernoulli", 2, 0.4),
    }
    del nodes["x2"], nodes["not x2"]
    edges = [
        ("or", "left", 0.45),
        ("or", "right", 0.55),
        ("left", "not x0"),
        ("left", 1),
        ("left", 2),
        ("right", "x0"),
        ("right", "tree"),
        ("tree", "x1 and", 0.6),
        ("tree", "not x1 and", 0.4),
        ("x1 and", "x1"),
        ("x1 and", (2, "given x1")),
        ("not x1 and", "not x1"),
        ("not x1 and", (2, "given not x1")),
    ]
    circuit = fp.structures.from_edges(nodes, edges)
    got = np.exp(log_prob(circuit, [[0, 1, 1], [0, 0, 1], [1, 1, 1], [1, 0, 1], [1, 0, 0]]))
    want = [0.45 * 0.1 * 0.2, 0.45 * 0.9 * 0.2, 0.55 * 0.6 * 0.3, 0.55 * 0.4 * 0.4, 0.55 * 0.4 * 0.6]
    assert got == pytest.approx(want, abs=1e-15)
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-15)
    assert circuit.is_deterministic
    assert circuit.is_tree


def test_spn_with_every_family():
    nodes = {
        "root": "product",
        "b": ("bernoulli", 0, 0.5),
        "c": ("categorical", 1, [0.2, 0.3, 0.5]),
        "g": ("gaussian", 2, 1.5, 4.0),
        "n": (fp.Binomial(n=5), 3, 0.4),
        "p": ("poisson", 4, 2.0),
        "i": (fp.Indicator(n=3), 5, 2),
        "s": "sum",
        "g2": (fp.Gaussian(min_variance=1e-6), 2, 0.0, 1.0),
    }
    edges = [("root", x) for x in "bcnpis"] + [("s", "g", 0.25), ("s", "g2", 0.75)]
    circuit = fp.structures.from_edges(nodes, edges)
    got = log_prob(circuit, [[1, 2, 1.5, 0, 0, 2]])[0]
    density = 0.25 / np.sqrt(8 * np.pi) + 0.75 * np.exp(-(1.5**2) / 2) / np.sqrt(2 * np.pi)
    assert got == pytest.approx(np.log(0.5 * 0.5 * density * 0.6**5 * np.exp(-2)), abs=1e-13)


def test_a_single_input_is_a_circuit():
    circuit = fp.structures.from_edges({"only": ("bernoulli", 0, 0.25)}, [])
    assert np.exp(log_prob(circuit, [[1]])) == pytest.approx([0.25])


def test_a_hundred_thousand_nodes_build_in_seconds():
    # Blocks of two sums over four products of two of four inputs, side by side under one product.
    n_blocks = 100_000 // 9
    nodes = {"root": "product"}
    edges = []
    for b in range(n_blocks):
        u, v = 2 * b, 2 * b + 1
        nodes |= {(b, "s"): "sum", **{(b, "p", i): "product" for i in range(4)}}
        nodes |= {(b, x, j): ("bernoulli", x, 0.25 + j / 2) for x in (u, v) for j in (0, 1)}
        edges.append(("root", (b, "s")))
        for i in range(4):
            edges += [((b, "s"), (b, "p", i), 0.25), ((b, "p", i), (b, u, i // 2)), ((b, "p", i), (b, v, i % 2))]
    assert len(nodes) == 1 + 9 * n_blocks
    start = time.perf_counter()
    circuit = fp.structures.from_edges(nodes, edges)
    assert time.perf_counter() - start < 20  # about 2 on one core
    assert len(circuit.nodes) == len(nodes)
    assert circuit.n_edges == len(edges)


ROOT = {"s": "sum", "a": ("bernoulli", 0, 0.5), "b": ("bernoulli", 0, 0.1)}
PRODUCT = {"p": "product", "a": ("bernoulli", 0, 0.5), "c": ("bernoulli", 1, 0.1)}


@pytest.mark.parametrize(
    ("nodes", "edges", "error", "match"),
    [
        ({}, [], StructureError, "no nodes"),
        (ROOT, [("s", "a", 0.5), ("s", "d", 0.5)], StructureError, "no node 'd'"),
        (ROOT, [("s", "a", 0.5), ("s", "b")], ParameterError, "'s' is a sum, so its edges have weights"),
        (ROOT, [("s", "a", 0.5), ("s", "b", 0.6)], ParameterError, r"Node 2 \('s'\).* sum to 1.1"),
        (ROOT, [("s", "a", 0.5), ("s", "a", 0.5)], StructureError, "twice"),
        (ROOT, [("s", "a", 1.0)], StructureError, "2 nodes have no parent: 's', 'b'"),
        (ROOT, [("s", "a", "much"), ("s", "b", 0.5)], ParameterError, "arrays of numbers"),
        (ROOT, [("s", "a", 0.5), ("s", "b", 0.5), ("a", "b")], StructureError, "'a' is an input"),
        (ROOT, [("s",)], StructureError, "write"),
        (ROOT, ["sa"], StructureError, "write"),
        (PRODUCT, [("p", "a"), ("p", "c", 0.5)], ParameterError, "'p' is a product"),
        (PRODUCT, [], StructureError, "product without children"),
        (PRODUCT | {"c": ("bernoulli", 0, 0.1)}, [("p", "a"), ("p", "c")], DecomposabilityError, r"Node 2 \('p'\)"),
        (ROOT | {"b": ("bernoulli", 1, 0.1)}, [("s", "a", 0.5), ("s", "b", 0.5)], SmoothnessError, r"\('s'\).*\('a'\).*\('b'\)"),
        (ROOT | {"b": ("poisson", 0, 0.1)}, [("s", "a", 0.5), ("s", "b", 0.5)], StructureError, r"\('b'\) and 1 \('a'\)"),
        (PRODUCT | {"a": ("bernoulli", 0, 1.5)}, [("p", "a"), ("p", "c")], ParameterError, r"\('a'\).*1.5"),
        (PRODUCT | {"a": ("bernoulli", 0)}, [("p", "a"), ("p", "c")], ParameterError, "'a': .*takes 1 parameters"),
        (PRODUCT | {"a": ("binomial", 0, 0.5)}, [("p", "a"), ("p", "c")], OptionError, "trials"),
        (PRODUCT | {"a": ("normal", 0, 0.5)}, [("p", "a"), ("p", "c")], OptionError, "normal"),
        (PRODUCT | {"a": (3, 0, 0.5)}, [("p", "a"), ("p", "c")], StructureError, "3 is not a family"),
        (PRODUCT | {"a": ("bernoulli", "x", 0.5)}, [("p", "a"), ("p", "c")], StructureError, "variable is 'x'"),
        (PRODUCT | {"a": "input"}, [("p", "a"), ("p", "c")], StructureError, "Node 'a' is 'input'"),
    ],
)
def test_what_is_refused(nodes, edges, error, match):
    with pytest.raises(error, match=match):
        fp.structures.from_edges(nodes, edges)


def test_a_cycle_is_spelt_out():
    nodes = {"r": "product", "a": "product", "b": "product", "c": "product", "x": ("bernoulli", 0, 0.5)}
    edges = [("r", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "x")]
    with pytest.raises(StructureError, match=r"cycle: '(a' -> 'b' -> 'c' -> 'a|b' -> 'c' -> 'a' -> 'b|c' -> 'a' -> 'b' -> 'c)'"):
        fp.structures.from_edges(nodes, edges)
    with pytest.raises(StructureError, match="cycle: 'a' -> 'a'"):
        fp.structures.from_edges({"a": "product"}, [("a", "a")])
