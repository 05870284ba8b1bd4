"""Circuits: what is refused when one is built, that it stays as it is, its counts, and how parameters are replaced and drawn."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy import special, stats

import flatpc as fp
from flatpc.errors import (
    DecomposabilityError,
    FlatpcError,
    OptionError,
    ParameterError,
    ShapeError,
    SmoothnessError,
    StructureError,
)
from flatpc.families.initialize import k_means, random_simplex

X0, X1, X2 = (fp.Input(v, fp.Bernoulli(), 2) for v in range(3))
MASK = np.array([[True, False], [True, True]])


def two_coins(**options):
    """Inputs over two variables, their product, a sum of width 2, a root."""
    return fp.Circuit([X0, X1, fp.Product((0, 1)), fp.Sum((2,), 2), fp.Sum((3,))], **options)


# ---- construction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([], StructureError, "at least one node"),
        (["Sum"], StructureError, "Node 0 is a str; nodes are Input, Product, Sum or Mixture"),
        ([X0, fp.Sum((2,))], StructureError, r"Node 1 \(Sum\) has child 2; children must come before.*no cycle"),
        ([X0, fp.Sum((1,))], StructureError, r"Node 1 \(Sum\) has child 1.*no cycle"),
        ([X0, fp.Sum(())], StructureError, r"Node 1 \(Sum\) has no children"),
        ([X0, fp.Product(())], StructureError, r"Node 1 \(Product\) has no children"),
        ([X0, fp.Mixture(())], StructureError, r"Node 1 \(Mixture\) has no children"),
        ([fp.Input(1, fp.Bernoulli())], StructureError, "variable 1, but there are only inputs for 1.*without gaps"),
        ([X0, X2, X2, fp.Product((0, 1)), fp.Sum((3,))], StructureError, r"no input over the variables \{1\}"),
        ([X0], StructureError, "must have width 1, not 2; add a Sum"),
        ([X0, X1, fp.Product((0, 1), "kronecker")], StructureError, "must have width 1, not 4"),
        (
            [fp.Input(v, fp.Bernoulli(), 1024) for v in range(5)] + [fp.Product(range(5), "kronecker"), fp.Sum((5,))],
            StructureError,
            "more than 1,099,511,627,776 units",
        ),
        (
            [X0, fp.Input(0, fp.Categorical(3), 2), fp.Sum((0, 1))],
            StructureError,
            r"Nodes 0 and 1 are inputs over variable 0 with the families Bernoulli\(\) and Categorical\(n=3\)",
        ),
        ([X0, fp.Input(0, fp.Gaussian(), 2), fp.Sum((0, 1))], StructureError, "differ in the values they allow"),
        ([X0, fp.Input(1, fp.Bernoulli(), 3), fp.Product((0, 1))], ShapeError, r"have widths \(2, 3\); give them equal"),
        ([X0, fp.Input(0, fp.Bernoulli(), 3), fp.Mixture((0, 1))], ShapeError, r"Node 2 \(Mixture\).*\(2, 3\)"),
        (
            [X0, X1, fp.Sum((0, 1))],
            SmoothnessError,
            r"Node 2 \(Sum\) sums over child 0 with scope \{0\} and child 1 with scope \{1\}.*same scope: multiply",
        ),
        ([X0, X1, fp.Mixture((0, 1)), fp.Sum((2,))], SmoothnessError, r"Node 2 \(Mixture\)"),
        (
            [X0, X0, fp.Product((0, 1)), fp.Sum((2,))],
            DecomposabilityError,
            r"Node 2 \(Product\) multiplies children \(0, 1\).*\{0\}.*disjoint scopes: let each",
        ),
        ([X0, fp.Product((0, 0)), fp.Sum((1,))], DecomposabilityError, r"\{0\}"),
        (
            [X0, X1, fp.Sum((0,))],
            StructureError,
            r"Node 1 \(Input\) is not below the root, node 2; give it a parent that leads to the root, or leave it out",
        ),
        ([X0, fp.Sum((0,), 2), fp.Sum((0,), 2, tie=1), fp.Sum((2,))], StructureError, r"Node 1 \(Sum\) is not below the root"),
        ([X0, fp.Sum((0,)), fp.Sum((0,))], StructureError, r"Node 1 \(Sum\) is not below the root"),
        (
            [X0, fp.Sum((0,), 2, mask=np.ones((2, 3), bool)), fp.Sum((1,))],
            StructureError,
            r"mask has shape \(2, 3\), the weights \(2, 2\)",
        ),
        (
            [X0, fp.Sum((0,), 2, mask=np.array([[True, True], [False, False]])), fp.Sum((1,))],
            StructureError,
            r"Node 1 \(Sum\): the mask removes all edges of unit 1; leave each unit one edge or drop the unit",
        ),
        (
            [fp.Input(0, fp.Bernoulli(), 1, tie=0)],
            StructureError,
            "tied to node 0; it can only share the parameters of an earlier",
        ),
        ([X0, fp.Sum((0,), 1, tie=0)], StructureError, "Node 1 is tied to node 0, which has other parameters"),
        (
            [X0, fp.Input(1, fp.Bernoulli(), 3, tie=0), fp.Product((0, 1), "kronecker"), fp.Sum((2,))],
            StructureError,
            "other parameters",
        ),
        ([X0, fp.Input(1, fp.Categorical(2), 2, tie=0), fp.Product((0, 1)), fp.Sum((2,))], StructureError, "other parameters"),
        ([X0, fp.Sum((0,), 2), fp.Sum((1,), 1, tie=1)], StructureError, "other parameters"),
        ([X0, fp.Sum((0,), 2), fp.Sum((0,), 2, mask=MASK, tie=1), fp.Sum((1, 2))], StructureError, "other parameters"),
        (
            [X0, fp.Sum((0,), 2, mask=MASK), fp.Sum((0,), 2, mask=~MASK | np.eye(2, dtype=bool)[::-1], tie=1), fp.Sum((1, 2))],
            StructureError,
            "other parameters",
        ),
    ],
)
def test_nodes_that_make_no_circuit(nodes, error, message):
    with pytest.raises(error, match=message) as caught:
        fp.Circuit(nodes)
    assert type(caught.value) is error
    assert isinstance(caught.value, FlatpcError)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.Input(0.5, fp.Bernoulli()), r"variable=0\.5\); give a whole number"),
        (lambda: fp.Input(-1, fp.Bernoulli()), r"variable=-1\); give a whole number of at least 0"),
        (lambda: fp.Input(0, fp.Bernoulli(), 0), r"width=0\); give a whole number of at least 1"),
        (lambda: fp.Sum((0,), 0), r"width=0\); give a whole number of at least 1"),
        (lambda: fp.Input(0, "bernoulli"), r"family='bernoulli'\); give a family"),
        (lambda: fp.Product((0, 1), "outer"), r"kind='outer'\); choose 'hadamard' or 'kronecker'"),
        (lambda: fp.Sum((0,), 1, tie=-1), "tie=-1"),
        (lambda: fp.Input(0, fp.Bernoulli(), "2"), "width='2'"),
        (lambda: fp.Input(0, fp.Bernoulli(), 2, tie="a"), "tie='a'"),
        (lambda: fp.Sum((0,), 1.0), r"width=1\.0"),
        (lambda: fp.Sum(0), r"children=0\); give a tuple of indices"),
        (lambda: fp.Sum((-1,)), r"children=\(-1,\)\); give a tuple of indices"),
        (lambda: fp.Sum(("a",)), "give a tuple of indices"),
        (lambda: fp.Product((0, 1.5)), "give a tuple of indices"),
        (lambda: fp.Mixture((0,), tie=0.5), r"tie=0\.5"),
    ],
)
def test_nodes_of_wrong_types(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_numpy_integers_become_pythons():
    """A scope is an integer with a bit per variable: NumPy's would lose variable 64 and later ones."""
    inputs = [fp.Input(np.int64(v), fp.Bernoulli()) for v in range(70)]
    circuit = fp.Circuit([*inputs, fp.Product(np.arange(70))])
    assert circuit.n_variables == 70
    assert type(circuit.nodes[0].variable) is int


def test_structures_to_look_at_need_not_be_circuits():
    overlapping = fp.Circuit([X0, X0, fp.Product((0, 1)), fp.Sum((2,))], strict=False)
    with pytest.raises(DecomposabilityError):
        overlapping.check_structure()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([np.ones((1, 2))], "a dict from node index to arrays, not a list"),
        ({"0": 1}, "for node '0', which has none"),
        ({9: np.ones((1, 2))}, "for node 9, which has none"),
        ({-1: [[0.5, 0.5]]}, "for node -1, which has none"),
        ({2: np.ones((1, 2))}, "for node 2, which has none"),
        ({0: {"p": [0.5, 0.5]}}, r"Node 1 \(Input\) has no parameters"),
        ({0: [0.5, 0.5]}, r"Node 0 \(Input over variable 0, Bernoulli\(\)\): parameters are a dict with the keys p"),
        ({0: {"q": [0.5, 0.5]}}, "with the keys p"),
        ({0: {"p": [0.5]}}, r"p has shape \(1,\); it should have \(2,\)"),
        ({0: {"p": ["a", "b"]}}, "arrays of numbers"),
        ({0: {"p": [0.5, 2.0]}}, "p holds 2"),
    ],
)
def test_parameters_of_inputs_are_checked(parameters, message):
    with pytest.raises(ParameterError, match=message):
        two_coins(parameters=parameters)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5], r"Node 4 \(Sum\): the weights have shape \(2,\); they should have \(1, 2\)"),
        ([[0.5, 0.4]], r"Node 4 \(Sum\): the weights of unit 0 sum to 0\.9, not 1; divide each row by its sum"),
        ([[0.5, 0.5 + 3e-6]], "not 1"),
        ([[-0.5, 1.5]], r"hold -0\.5; weights are finite and not negative"),
        ([[np.nan, 1.0]], "hold nan"),
        ([[np.inf, 1.0]], "hold inf"),
        (object(), "arrays of numbers, not object"),
        ([[1.0], [0.5, 0.5]], "arrays of numbers, not list"),
    ],
)
def test_weights_are_checked(weights, message):
    with pytest.raises(ParameterError, match=message):
        two_coins().with_parameters({4: weights})


def test_weights_may_be_off_by_rounding():
    two_coins().with_parameters({4: [[0.5, 0.5 + 5e-7]]})


def test_weights_of_absent_edges_are_refused():
    circuit = fp.Circuit([X0, fp.Sum((0,), 2, mask=MASK), fp.Sum((1,))])
    with pytest.raises(ParameterError, match="an edge that the mask removes has a weight; set it to 0"):
        circuit.with_parameters({1: [[0.5, 0.5], [0.5, 0.5]]})
    circuit.with_parameters({1: [[1.0, 0.0], [0.5, 0.5]]})


# ---- it can't change ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [X0, fp.Product((0, 1)), fp.Sum((0,), 2, mask=MASK), fp.Mixture((0,)), fp.Gaussian()])
def test_nodes_and_families_are_frozen(node):
    with pytest.raises(FrozenInstanceError):
        node.width = 3


def test_masks_are_copied_and_read_only():
    mask = MASK.copy()
    node = fp.Sum((0,), 2, mask=mask)
    mask[0, 1] = True
    assert not node.mask[0, 1]
    with pytest.raises(ValueError, match="read-only"):
        node.mask[0, 1] = True


def test_parameters_are_copied_and_read_only():
    given = np.array([[0.5, 0.5]])
    circuit = two_coins().with_parameters({4: given})
    given[0] = [1.0, 0.0]
    assert circuit.parameters[4].tolist() == [[0.5, 0.5]]
    for i in (0, 1):
        with pytest.raises(ValueError, match="read-only"):
            circuit.parameters[i]["p"][0] = 0.1
    for i in (3, 4):
        with pytest.raises(ValueError, match="read-only"):
            circuit.parameters[i][0, 0] = 0.1


def test_drawn_parameters_are_read_only():
    for circuit in (two_coins(), two_coins().randomize(1)):
        with pytest.raises(ValueError, match="read-only"):
            circuit.parameters[4][0, 0] = 0.1


def test_masked_sums_are_equal_when_their_masks_are():
    assert fp.Sum((0,), 2, mask=MASK) == fp.Sum((0,), 2, mask=MASK.copy())
    assert hash(fp.Sum((0,), 2, mask=MASK)) == hash(fp.Sum((0,), 2, mask=MASK.copy()))
    assert fp.Sum((0,), 2, mask=MASK) != fp.Sum((0,), 2, mask=~MASK)
    assert fp.Sum((0,), 2, mask=MASK) != fp.Sum((0,), 2)
    assert fp.Sum((0,), 2) != fp.Product((0,))


# ---- replacing parameters -------------------------------------------------------------------------------------------------


def test_with_parameters_keeps_the_rest():
    before = two_coins()
    after = before.with_parameters({4: [[0.25, 0.75]]})
    assert after.parameters[4].tolist() == [[0.25, 0.75]]
    assert before.parameters[4].tolist() != [[0.25, 0.75]]
    np.testing.assert_array_equal(after.parameters[3], before.parameters[3])
    assert after.nodes is before.nodes


def test_properties_of_parameters_are_computed_anew():
    """Determinism depends on zeros among the parameters."""
    nodes = [fp.Input(0, fp.Bernoulli(), 2), fp.Sum((0,))]
    mixed = fp.Circuit(nodes, {0: {"p": [0.5, 0.5]}, 1: [[0.5, 0.5]]})
    assert not mixed.is_deterministic
    split = mixed.with_parameters({0: {"p": [0.0, 1.0]}})
    assert split.is_deterministic
    assert not split.randomize(0).is_deterministic


def tied():
    nodes = [
        X0,
        fp.Input(1, fp.Bernoulli(), 2, tie=0),
        fp.Input(2, fp.Bernoulli(), 2, tie=1),
        fp.Product((0, 1, 2)),
        fp.Sum((3,)),
    ]
    return fp.Circuit(nodes)


def test_ties_share_one_array():
    circuit = tied()
    assert circuit.owners == (0, 0, 0, 3, 4)
    assert circuit.parameters[1] is circuit.parameters[0]
    assert circuit.parameters[2] is circuit.parameters[0]
    assert circuit.has_tied_parameters
    assert not two_coins().has_tied_parameters


def test_tied_parameters_change_together():
    circuit = tied().with_parameters({0: {"p": [0.125, 0.25]}})
    assert circuit.parameters[2]["p"].tolist() == [0.125, 0.25]
    assert circuit.with_parameters({0: {"p": [0.5, 0.5]}, 1: {"p": [0.5, 0.5]}}).parameters[2]["p"].tolist() == [0.5, 0.5]
    with pytest.raises(ParameterError, match="Node 1 is tied to node 0 but was given other parameters"):
        circuit.with_parameters({1: {"p": [0.75, 0.25]}})


# ---- counts, worked out by hand ---------------------------------------------------------------------------------------------


def test_counts_of_a_small_circuit():
    # Inputs 2 + 2 parameters. Sum 3: 2x2 weights, root: 2. Edges: product 2x2, sum 4, root 2.
    circuit = two_coins()
    assert circuit.n_parameters == 2 + 2 + 4 + 2
    assert circuit.n_edges == 4 + 4 + 2
    assert circuit.n_variables == 2
    assert circuit.root == 4
    assert circuit.families == (fp.Bernoulli(), fp.Bernoulli())


def test_counts_with_everything():
    nodes = [
        fp.Input(0, fp.Categorical(3), 2),  # 6 parameters
        fp.Input(1, fp.Gaussian(), 3),  # 6
        fp.Product((0, 1), "kronecker"),  # 6 units of 2 edges each
        fp.Sum((2,), 2, mask=np.array([[1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]], dtype=bool)),  # 6 weights of 12
        fp.Sum((2,), 2),  # 12 weights
        fp.Mixture((3, 4)),  # 2 units of 2 weights
        fp.Mixture((4, 3), tie=5),  # 4 edges, no weights of its own
        fp.Input(2, fp.Indicator(2), 2),  # nothing learnt
        fp.Sum((5, 6)),  # 4 weights
        fp.Sum((7,)),  # 2 weights
        fp.Product((8, 9)),  # 2 edges
    ]
    circuit = fp.Circuit(nodes)
    assert circuit.n_parameters == 6 + 6 + 6 + 12 + 4 + 0 + 0 + 4 + 2
    assert circuit.n_edges == 12 + 6 + 12 + 4 + 4 + 4 + 2 + 2
    assert circuit.widths == (2, 3, 6, 2, 2, 2, 2, 2, 1, 1, 1)
    assert circuit.scopes == (1, 2, 3, 3, 3, 3, 3, 4, 3, 4, 7)
    assert repr(circuit) == "Circuit(3 variables, 40 parameters, 46 edges: 3 Input, 2 Product, 4 Sum, 2 Mixture)"


def test_weight_shapes():
    circuit = two_coins()
    assert circuit.weight_shape(3) == (2, 2)
    with pytest.raises(StructureError, match=r"Node 2 \(Product\) has no weights"):
        circuit.weight_shape(2)


# ---- drawing parameters -----------------------------------------------------------------------------------------------------


def arrays_of(circuit):
    for value in circuit.parameters.values():
        yield from value.values() if isinstance(value, dict) else (value,)


def test_randomize_by_seed():
    circuit = two_coins()
    same = [circuit.randomize(5), circuit.randomize(5), circuit.randomize(4).randomize(5)]
    for a, b, c in zip(*map(arrays_of, same), strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
    assert any((a != b).any() for a, b in zip(arrays_of(circuit.randomize(5)), arrays_of(circuit.randomize(6)), strict=True))


def test_left_out_parameters_are_those_of_seed_0():
    for a, b in zip(arrays_of(two_coins()), arrays_of(two_coins().randomize(0)), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("scheme", ["exponential", "uniform", "dirichlet", "einsum"])
def test_drawn_rows_lie_on_the_simplex_and_keep_the_mask(scheme):
    mask = np.random.default_rng(0).random((50, 20)) < 0.5
    mask[:, 0] = True
    weights = random_simplex((50, 20), np.random.default_rng(1), scheme, mask)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


# The ratio of two weights of a row is free of the normalisation: its law is known for each scheme. Level 1e-4, seed fixed.
LEVEL = 1e-4


def log_ratios(scheme):
    weights = random_simplex((20_000, 2), np.random.default_rng(2), scheme)
    return np.log(weights[:, 0] / weights[:, 1])


def test_exponential_scheme():
    """The log-ratio is 4 (U - V), of triangular density on [-4, 4]."""
    assert stats.kstest(log_ratios("exponential"), stats.triang(0.5, loc=-4, scale=8).cdf).pvalue > LEVEL


def test_uniform_scheme():
    """w_0 / w_1 = U / V with U, V uniform on [0.7, 1.3]: compared with as many ratios drawn apart."""
    u = np.random.default_rng(3).uniform(0.7, 1.3, (2, 20_000))
    assert stats.ks_2samp(log_ratios("uniform"), np.log(u[0] / u[1])).pvalue > LEVEL
    assert abs(log_ratios("uniform")).max() <= np.log(1.3 / 0.7)


def test_einsum_scheme():
    """Its softmax is taken twice."""
    inner = special.softmax(np.random.default_rng(4).standard_normal((5, 3)), axis=1)
    found = random_simplex((5, 3), np.random.default_rng(4), "einsum")
    np.testing.assert_allclose(found, special.softmax(inner, axis=1), rtol=1e-14)


def test_dirichlet_scheme():
    """Entries of Dirichlet(1, 1, 1) are Beta(1, 2)."""
    weights = random_simplex((20_000, 3), np.random.default_rng(4), "dirichlet")
    for column in weights.T:
        assert stats.kstest(column, stats.beta(1, 2).cdf).pvalue > LEVEL


def test_unknown_scheme():
    with pytest.raises(OptionError, match="scheme='zeros'; choose one of 'exponential', 'uniform', 'dirichlet', 'einsum'"):
        two_coins().randomize(0, scheme="zeros")


# ---- k-means ------------------------------------------------------------------------------------------------------------------


def test_k_means_finds_clusters():
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(m, 0.1, 200) for m in (-5.0, 0.0, 7.0)])
    means, variances = k_means(x, 3, np.random.default_rng(0))
    expected = np.array([x[:200], x[200:400], x[400:]])
    np.testing.assert_allclose(means, expected.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(variances, expected.var(axis=1), rtol=1e-10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e155, 1e200, 1e300])
def test_k_means_of_numbers_too_large_to_be_squared(unit):
    x = np.concatenate([np.random.default_rng(0).normal(size=50), [unit]])
    means, variances = k_means(x, 2, np.random.default_rng(0))
    assert (means[1] == unit, abs(means[0]) < 1e-15 * unit) == (True, True)
    assert (np.isfinite(variances) & (variances > 0)).all()


def test_k_means_is_a_fixed_point_of_lloyd():
    x = np.random.default_rng(6).standard_normal(500)
    means, _ = k_means(x, 4, np.random.default_rng(0))
    nearest = abs(x[:, None] - means).argmin(axis=1)
    np.testing.assert_allclose(means, [x[nearest == k].mean() for k in range(4)], rtol=1e-12)


@pytest.mark.parametrize("x", [np.array([]), np.array([np.nan]), np.full(3, 2.0), np.array([1.0, 2.0]), np.array([1.0, np.nan])])
def test_k_means_of_too_little_is_still_usable(x):
    means, variances = k_means(x, 4, np.random.default_rng(0))
    fp.Gaussian().check_parameters({"mean": means, "variance": variances}, "k-means")
    assert means.shape == variances.shape == (4,)


def test_gaussian_inputs_start_from_rows():
    rng = np.random.default_rng(7)
    X = np.stack([rng.choice([-5.0, 5.0], 300) + rng.normal(0, 0.1, 300), np.full(300, 3.0)], axis=1)
    X[0, 0] = np.nan
    nodes = [fp.Input(0, fp.Gaussian(), 2), fp.Input(1, fp.Gaussian(min_variance=0.5), 2), fp.Product((0, 1)), fp.Sum((2,))]
    circuit = fp.Circuit(nodes).randomize(1, X=X)
    np.testing.assert_allclose(circuit.parameters[0]["mean"], [-5.0, 5.0], atol=0.05)
    np.testing.assert_allclose(circuit.parameters[1]["mean"], 3.0, rtol=1e-15)
    assert (circuit.parameters[1]["variance"] >= 0.5).all()
    np.testing.assert_array_equal(circuit.parameters[3], circuit.randomize(1, X=X).parameters[3])


def test_a_pickled_circuit_is_the_same_and_as_read_only():
    mask = np.array([[True, False], [True, True]])
    nodes = [
        fp.Input(0, fp.Bernoulli(), 2), fp.Input(1, fp.Bernoulli(), 2, tie=0), fp.Sum((0,), 2, mask=mask),
        fp.Product((2, 1)), fp.Sum((3,)),
    ]  # fmt: skip
    circuit = fp.Circuit(nodes)
    again = pickle.loads(pickle.dumps(circuit))
    assert again.nodes == circuit.nodes
    X = [[0, 1], [1, 1]]
    np.testing.assert_array_equal(again.log_prob(X), circuit.log_prob(X))
    assert again.parameters[1] is again.parameters[0]
    for array in (again.parameters[0]["p"], again.parameters[2], again.nodes[2].mask):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
