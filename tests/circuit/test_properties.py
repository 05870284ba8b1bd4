"""Property flags on circuits made to have, and to break, each one."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.circuit.scopes import describe, variables_in


def coin(v, width=1):
    return fp.Input(v, fp.Bernoulli(), width)


def literals(v, n=2):
    """Unit k is the indicator of the value k."""
    return fp.Input(v, fp.Indicator(n), n)


# ---- smooth, decomposable -------------------------------------------------------------------------------------------------


def test_smooth_and_decomposable():
    circuit = fp.Circuit([coin(0), coin(1), fp.Product((0, 1))])
    assert circuit.is_smooth
    assert circuit.is_decomposable


@pytest.mark.parametrize("top", [fp.Sum((0, 1)), fp.Mixture((0, 1))])
def test_not_smooth(top):
    circuit = fp.Circuit([coin(0), coin(1), top], strict=False)
    assert not circuit.is_smooth
    assert circuit.is_decomposable


@pytest.mark.parametrize("kind", ["hadamard", "kronecker"])
def test_not_decomposable(kind):
    circuit = fp.Circuit([coin(0), coin(0), fp.Product((0, 1), kind)], strict=False)
    assert circuit.is_smooth
    assert not circuit.is_decomposable
    assert not circuit.is_structured_decomposable


def test_overlap_among_later_children_is_seen():
    assert not fp.Circuit([coin(0), coin(1), coin(2), fp.Product((1, 2)), fp.Product((0, 1, 3))], strict=False).is_decomposable


# ---- structured -----------------------------------------------------------------------------------------------------------


def mixture_of_splits(splits):
    """A uniform mixture of products; each split is nested tuples of variables, such as ((0, 1), 2)."""
    nodes = []

    def build(split):
        nodes.append(coin(split) if isinstance(split, int) else fp.Product([build(part) for part in split]))
        return len(nodes) - 1

    nodes.append(fp.Sum([build(split) for split in splits]))
    return fp.Circuit(nodes)


@pytest.mark.parametrize(
    ("splits", "structured"),
    [
        ([((0, 1), 2)], True),
        ([((0, 1), 2), ((0, 1), 2)], True),
        ([((0, 1), 2), (2, (1, 0))], True),
        ([((0, 1), 2), (0, (1, 2))], False),
        # One vtree serves a product of three and one of two that splits it further.
        ([(0, 1, 2), ((0, 1), 2)], True),
        ([(0, 1, 2), ((0, 1), 2), ((0, 2), 1)], False),
        ([((0, 1), (2, 3)), ((0, 1), 2, 3)], True),
        ([((0, 1), (2, 3)), ((0, 2), (1, 3))], False),
        ([((0, 1), (2, 3)), (0, (1, (2, 3)))], False),
    ],
)
def test_structured_decomposable(splits, structured):
    circuit = mixture_of_splits(splits)
    assert circuit.is_decomposable
    assert circuit.is_structured_decomposable is structured


def compatible_with_one_vtree(circuit):
    """By trying every binary vtree over the variables: each product must split as the vtree does."""

    def vtrees(variables):
        if len(variables) == 1:
            yield frozenset([frozenset(variables)])
            return
        first, *rest = variables
        for size in range(len(rest)):
            for others in itertools.combinations(rest, size):
                left = [first, *others]
                right = [v for v in rest if v not in others]
                for a, b in itertools.product(list(vtrees(left)), list(vtrees(right))):
                    yield a | b | {frozenset(variables)}

    used = set()
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Product):
            used |= {frozenset(variables_in(circuit.scopes[c])) for c in (i, *node.children)}
    return any(used <= vtree for vtree in vtrees(list(range(circuit.n_variables))))


@st.composite
def splits_of(draw, variables):
    """A random way to split variables again and again."""
    if len(variables) == 1:
        return variables[0]
    order = draw(st.permutations(variables))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), min_size=1, max_size=2)))
    parts = [order[a:b] for a, b in itertools.pairwise([0, *cuts, len(order)])]
    return tuple(draw(splits_of(tuple(part))) for part in parts)


@settings(max_examples=200, deadline=None)
@given(splits=st.lists(splits_of((0, 1, 2, 3)), min_size=1, max_size=2))
def test_structured_decomposable_is_as_trying_every_vtree(splits):
    circuit = mixture_of_splits(splits)
    assert circuit.is_structured_decomposable == compatible_with_one_vtree(circuit)


# ---- deterministic ----------------------------------------------------------------------------------------------------------


def test_a_mixture_of_coins_is_not_deterministic():
    assert not fp.Circuit([coin(0, 2), fp.Sum((0,))]).is_deterministic


def test_a_mixture_of_literals_is_deterministic():
    assert fp.Circuit([literals(0), fp.Sum((0,))]).is_deterministic
    assert fp.Circuit([literals(0, 3), literals(0, 3), fp.Mixture((0, 1)), fp.Sum((2,), mask=np.array([[1, 0, 0]], bool))], {
        0: {"value": [0, 1, 2]}, 1: {"value": [1, 2, 0]}, 2: [[0.5, 0.5]] * 3, 3: [[1, 0, 0]]
    }).is_deterministic  # fmt: skip


def test_a_mixture_whose_entries_meet_is_not():
    assert not fp.Circuit([literals(0), literals(0), fp.Mixture((0, 1)), fp.Sum((2,))]).is_deterministic


def test_a_circuit_without_sums_is_deterministic():
    assert fp.Circuit([coin(0), coin(1), fp.Product((0, 1))]).is_deterministic


def test_a_sum_of_one_child_is_deterministic():
    assert fp.Circuit([coin(0), fp.Sum((0,))]).is_deterministic


def test_the_same_child_twice_is_not():
    assert not fp.Circuit([coin(0), fp.Sum((0, 0))]).is_deterministic


def test_gaussians_always_meet():
    assert not fp.Circuit([fp.Input(0, fp.Gaussian(), 2), fp.Sum((0,))]).is_deterministic


def test_edges_without_weight_do_not_count():
    nodes = [coin(0, 2), fp.Sum((0,))]
    assert fp.Circuit(nodes, {0: {"p": [0.3, 0.6]}, 1: [[1.0, 0.0]]}).is_deterministic
    assert not fp.Circuit(nodes, {0: {"p": [0.3, 0.6]}, 1: [[0.999, 0.001]]}).is_deterministic


def test_probabilities_of_zero_and_one_are_literals():
    nodes = [coin(0, 2), fp.Sum((0,))]
    assert fp.Circuit(nodes, {0: {"p": [0.0, 1.0]}, 1: [[0.5, 0.5]]}).is_deterministic
    three = [fp.Input(0, fp.Categorical(3), 2), fp.Sum((0,))]
    assert fp.Circuit(three, {0: {"p": [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]}, 1: [[0.5, 0.5]]}).is_deterministic
    assert not fp.Circuit(three, {0: {"p": [[0.5, 0.5, 0.0], [0.0, 0.1, 0.9]]}, 1: [[0.5, 0.5]]}).is_deterministic


def test_decision_on_one_variable():
    """Children that differ in variable 0 are apart, whatever is beside it; one that doesn't decide spoils it."""
    nodes = [literals(0), coin(1, 2), fp.Product((0, 1)), fp.Sum((2,))]
    assert fp.Circuit(nodes).is_deterministic
    assert not fp.Circuit([coin(0, 2), *nodes[1:]]).is_deterministic


@pytest.mark.parametrize("kind", ["hadamard", "kronecker"])
def test_determinism_below_the_root_counts(kind):
    bad = [literals(0), coin(1, 2), fp.Sum((1,), 2), fp.Product((0, 2), kind), fp.Sum((3,))]
    good = [literals(0), literals(1), fp.Sum((1,), 2), fp.Product((0, 2), kind), fp.Sum((3,))]
    assert not fp.Circuit(bad).is_deterministic
    # With kronecker every literal of 0 meets both sums over 1, which overlap.
    assert fp.Circuit(good).is_deterministic is (kind == "hadamard")


def test_kronecker_units_are_told_apart_by_either_factor():
    """All four pairs of literals of two variables of different sizes."""
    assert fp.Circuit([literals(0, 2), literals(1, 3), fp.Product((0, 1), "kronecker"), fp.Sum((2,))]).is_deterministic
    one_coin = fp.Circuit([literals(0, 2), coin(1, 3), fp.Product((0, 1), "kronecker"), fp.Sum((2,))])
    assert not one_coin.is_deterministic
    # One unit of each literal of 0: units 0..2 hold 0 = 0 and 3..5 hold 0 = 1, as numpy.kron orders them.
    mask = np.array([[1, 0, 0, 0, 0, 1]], dtype=bool)
    assert fp.Circuit([literals(0, 2), coin(1, 3), fp.Product((0, 1), "kronecker"), fp.Sum((2,), mask=mask)]).is_deterministic
    mask = np.array([[1, 0, 1, 0, 0, 0]], dtype=bool)
    assert not fp.Circuit([literals(0, 2), coin(1, 3), fp.Product((0, 1), "kronecker"), fp.Sum((2,), mask=mask)]).is_deterministic


def test_only_recursion_settles_parity():
    """The mixture of even and odd assignments: apart, though no variable shows it; found by comparing their parts."""
    nodes = [literals(0), literals(1), fp.Product((0, 1), "kronecker")]
    equal, different = np.array([[1, 0, 0, 1]], bool), np.array([[0, 1, 1, 0]], bool)
    nodes += [fp.Sum((2,), mask=equal), fp.Sum((2,), mask=different), fp.Sum((3, 4))]
    assert fp.Circuit(nodes).is_deterministic
    nodes[4] = fp.Sum((2,), mask=np.array([[0, 1, 1, 1]], bool))
    assert not fp.Circuit(nodes).is_deterministic


def test_recursion_looks_into_the_factors_of_products():
    """Equal or different bits, each beside 40 coins: far too many values to enumerate, but the factors over 0, 1 are apart."""
    nodes = [literals(0), literals(1), fp.Product((0, 1), "kronecker")]
    nodes += [fp.Sum((2,), mask=np.array([[1, 0, 0, 1]], bool)), fp.Sum((2,), mask=np.array([[0, 1, 1, 0]], bool))]
    coins = tuple(range(5, 45))
    nodes += [coin(v) for v in range(2, 42)]
    nodes += [fp.Product((3, *coins)), fp.Product((4, *coins)), fp.Sum((45, 46))]
    assert fp.Circuit(nodes).is_deterministic
    nodes[4] = fp.Sum((2,), mask=np.array([[0, 1, 1, 1]], bool))
    assert not fp.Circuit(nodes).is_deterministic


def parity_over_two_vtrees(overlap):
    """0 = 1 with 2 free, and 0 ≠ 1 with 2 free, decomposed as {0,1},{2} and as {0},{1,2}: the parts can't be compared."""
    nodes = [literals(0), literals(1), coin(2)]
    nodes += [fp.Product((0, 1), "kronecker"), fp.Sum((3,), mask=np.array([[1, 0, 0, 1]], bool)), fp.Product((4, 2))]  # 5
    nodes += [fp.Product((1, 2), "kronecker")]  # 6: two units, 1 = 0 and 1 = 1
    nodes += [fp.Product((0, 6), "kronecker")]  # 7: 0 and 1 as in 3
    mask = np.array([[0, 1, 1, overlap]], dtype=bool)
    nodes += [fp.Sum((7,), mask=mask), fp.Sum((5, 8))]
    return fp.Circuit(nodes)


def test_only_enumeration_settles_different_decompositions():
    assert not parity_over_two_vtrees(overlap=False).is_structured_decomposable
    assert parity_over_two_vtrees(overlap=False).is_deterministic
    assert not parity_over_two_vtrees(overlap=True).is_deterministic


def far_apart(n):
    """As above with n more variables on the side, which make enumeration too long when n is large."""
    nodes = [literals(0), literals(1), *(coin(v) for v in range(2, n + 2))]
    rest = tuple(range(2, n + 2))
    nodes.append(fp.Product((0, 1), "kronecker"))
    both = len(nodes) - 1
    nodes.append(fp.Sum((both,), mask=np.array([[1, 0, 0, 1]], bool)))
    nodes.append(fp.Product((len(nodes) - 1, *rest)))
    left = len(nodes) - 1
    nodes.append(fp.Product((1, *rest), "kronecker"))
    nodes.append(fp.Product((0, len(nodes) - 1), "kronecker"))
    nodes.append(fp.Sum((len(nodes) - 1,), mask=np.array([[0, 1, 1, 0]], bool)))
    nodes.append(fp.Sum((left, len(nodes) - 1)))
    return fp.Circuit(nodes)


def test_what_can_not_be_proved_is_not_claimed():
    assert far_apart(14).is_deterministic
    assert not far_apart(15).is_deterministic
    # 2^3000 joint values are not a float64.
    assert not far_apart(3000).is_deterministic


def test_determinism_of_what_is_not_smooth():
    nodes = [literals(0), literals(1), coin(2), fp.Product((0, 1), "kronecker"), fp.Sum((3,)), fp.Product((4, 2))]
    nodes += [fp.Product((1, 2), "kronecker"), fp.Sum((6,)), fp.Sum((5, 7))]
    assert not fp.Circuit(nodes, strict=False).is_deterministic


@st.composite
def small_circuits(draw):
    """Random circuits over three bits with many zeros, where every answer can be enumerated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.05, 0.6]))

    def inputs(v):
        return fp.Input(v, fp.Categorical(2), 2)

    def mask(rows, columns):
        out = rng.random((rows, columns)) < density
        out[np.arange(rows), rng.integers(columns, size=rows)] = True
        return out

    kind = draw(st.sampled_from(["hadamard", "kronecker"]))
    nodes = [inputs(0), inputs(1), inputs(2), fp.Product((0, 1), kind)]
    units = 4 if kind == "kronecker" else 2
    nodes += [fp.Sum((3,), 2, mask=mask(2, units)), fp.Product((4, 2))]
    nodes += [fp.Product((1, 2), kind), fp.Sum((6,), 2, mask=mask(2, units)), fp.Product((0, 7))]
    if draw(st.booleans()):
        nodes += [fp.Mixture((5, 8)), fp.Sum((9,), mask=mask(1, 2))]
    else:
        nodes += [fp.Sum((5, 8), mask=mask(1, 4))]
    circuit = fp.Circuit(nodes)
    certain = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    return circuit.with_parameters({v: {"p": certain[rng.choice(3, 2, p=[0.45, 0.45, 0.1])]} for v in range(3)})


def deterministic_by_enumeration(circuit):
    """Evaluate every unit on every assignment and count positive children of every sum unit."""
    for row in itertools.product((0, 1), repeat=circuit.n_variables):
        values = []
        for i, node in enumerate(circuit.nodes):
            if isinstance(node, fp.Input):
                values.append(circuit.parameters[i]["p"][:, row[node.variable]])
            elif isinstance(node, fp.Product):
                value = values[node.children[0]]
                for c in node.children[1:]:
                    value = value * values[c] if node.kind == "hadamard" else np.kron(value, values[c])
                values.append(value)
            else:
                weights = circuit.parameters[i]
                if isinstance(node, fp.Sum):
                    terms = weights * np.concatenate([values[c] for c in node.children])
                else:
                    terms = weights * np.stack([values[c] for c in node.children], axis=1)
                if ((terms > 0).sum(axis=1) > 1).any():
                    return False
                values.append(terms.sum(axis=1))
    return True


@settings(max_examples=300, deadline=None)
@given(circuit=small_circuits())
def test_determinism_is_as_enumerated(circuit):
    assert circuit.is_deterministic == deterministic_by_enumeration(circuit)


# ---- trees ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "tree"),
    [
        ([coin(0), coin(1), fp.Product((0, 1))], True),
        ([coin(0, 3), fp.Sum((0,))], True),
        ([coin(0, 3), fp.Sum((0,), 2), fp.Sum((1,))], False),
        # A mask that gives every unit one parent makes a tree of it.
        ([coin(0, 3), fp.Sum((0,), 2, mask=np.array([[1, 1, 0], [0, 0, 1]], bool)), fp.Sum((1,))], True),
        ([coin(0, 3), fp.Sum((0,), 2, mask=np.array([[1, 1, 0], [0, 1, 1]], bool)), fp.Sum((1,))], False),
        ([coin(0, 2), fp.Sum((0,)), fp.Sum((0,)), fp.Sum((1, 2))], False),
        ([coin(0), fp.Sum((0, 0))], False),
        ([coin(0, 2), coin(0, 2), fp.Mixture((0, 1)), fp.Sum((2,))], True),
        ([coin(0, 2), fp.Mixture((0, 0)), fp.Sum((1,))], False),
        ([coin(0), coin(1), fp.Product((0, 1), "kronecker")], True),
        ([coin(0, 2), coin(1), fp.Product((0, 1), "kronecker"), fp.Sum((2,))], False),
        ([coin(0, 2), coin(1, 2), fp.Product((0, 1), "kronecker"), fp.Sum((2,))], False),
        ([coin(0, 2), coin(1, 2), fp.Product((0, 1)), fp.Sum((2,))], True),
    ],
)
def test_trees(nodes, tree):
    assert fp.Circuit(nodes).is_tree is tree


# ---- ties -------------------------------------------------------------------------------------------------------------------


def test_ties_of_every_kind():
    assert not fp.Circuit([coin(0), coin(1), fp.Product((0, 1))]).has_tied_parameters
    assert fp.Circuit([coin(0), fp.Input(1, fp.Bernoulli(), tie=0), fp.Product((0, 1))]).has_tied_parameters
    assert fp.Circuit([coin(0), coin(0), fp.Sum((0,)), fp.Sum((1,), tie=2), fp.Sum((2, 3))]).has_tied_parameters
    assert fp.Circuit([coin(0), coin(0), fp.Mixture((0, 1)), fp.Mixture((1, 0), tie=2), fp.Sum((2, 3))]).has_tied_parameters


# ---- scopes -------------------------------------------------------------------------------------------------------------------


def test_scopes_are_sets():
    assert list(variables_in(0b101001)) == [0, 3, 5]
    assert describe(0b101001) == "{0, 3, 5}"
    assert describe((1 << 100) - 1) == "{0, 1, 2, 3, 4, 5, 6, 7, ...} (100 variables)"
