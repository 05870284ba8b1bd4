"""Starts of hidden Chow-Liu trees: the tree's own likelihood, that of independent variables, and that EM only improves them."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.oracles.evaluate import assignments, log_prob


def table(sizes, n_rows=60, seed=0):
    """Columns that depend on the one before, so that trees are deep and have inner variables and leaves."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, sizes[0], n_rows)]
    for n in sizes[1:]:
        columns.append(np.where(rng.random(n_rows) < 0.7, columns[-1] % n, rng.integers(0, n, n_rows)))
    return np.stack(columns, axis=1).astype(float)


@pytest.mark.parametrize("sizes", [[2], [2, 2], [2] * 6, [3, 2, 4, 2, 3], [2, 2, 5, 2, 2, 2]])
@pytest.mark.parametrize("n_latents", [5, 8])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_without_noise_it_is_the_tree(sizes, n_latents, smoothing):
    X = table(sizes)
    families = [fp.Bernoulli() if n == 2 else fp.Categorical(n) for n in sizes]
    tree = fp.structures.chow_liu(X, smoothing=smoothing, family=families)
    hidden = fp.structures.hclt(X, n_latents, family=families, smoothing=smoothing, init="chow-liu", noise=0.0)
    rows = assignments(hidden)
    assert np.allclose(np.exp(log_prob(hidden, rows)), np.exp(log_prob(tree, rows)), rtol=1e-12, atol=1e-15)


def test_without_noise_several_trees_are_their_even_mixture():
    X = table([2] * 6)
    hidden = fp.structures.hclt(X, 4, n_trees=3, init="chow-liu", noise=0.0)
    rows = assignments(hidden)
    # The trees' own values, width 1, are those of circuits cut off below the root.
    parts = [
        fp.Circuit(hidden.nodes[: c + 1], {i: p for i, p in hidden.parameters.items() if i <= c})
        for c in hidden.nodes[-1].children[:1]
    ]
    tree = fp.structures.chow_liu(X, family="bernoulli")
    assert np.allclose(log_prob(parts[0], rows), log_prob(tree, rows), rtol=0, atol=1e-12)
    assert hidden.parameters[hidden.root].tolist() == [[1 / 3] * 3]


def test_without_noise_marginals_are_independent_variables():
    X = table([2, 3, 2, 4, 2])
    hidden = fp.structures.hclt(X, 3, family="categorical", init="marginals", noise=0.0)
    apart = fp.structures.factorized(X, family="categorical")
    rows = assignments(hidden)
    assert np.allclose(log_prob(hidden, rows), log_prob(apart, rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("init", ["chow-liu", "marginals"])
def test_em_only_improves(init):
    X = table([2] * 10, 300)
    start = fp.structures.hclt(X, 6, init=init, noise=0.05)
    if init == "chow-liu":
        tree = -fp.structures.chow_liu(X, family="bernoulli").log_prob(X).mean()
        assert -start.log_prob(X).mean() == pytest.approx(tree, rel=0.1)
    result = fp.fit(start, X, epochs=30, batch_size=None, method=fp.EM(step_size=1.0), progress=False)
    nll = result.history["train_nll"]
    assert (np.diff(nll) < 0).all()
    if init == "chow-liu":
        assert nll[-1] < tree


def test_alike_states_stay_alike_without_noise_and_part_with_it():
    X = table([2] * 6, 300)
    for noise, apart in ((0.0, False), (0.1, True)):
        start = fp.structures.hclt(X, 4, init="chow-liu", noise=noise)
        learnt = fp.fit(start, X, epochs=5, batch_size=None, method=fp.EM(step_size=1.0), progress=False).circuit
        p = learnt.parameters[next(i for i, node in enumerate(learnt.nodes) if isinstance(node, fp.Sum))]
        assert (abs(p[:, 0] - p[:, 2]).max() > 1e-6) == apart


def test_seeds():
    X = table([2] * 5)
    one, same, other = (fp.structures.hclt(X, 4, seed=seed, init="chow-liu") for seed in (1, 1, 2))
    root = one.root
    assert np.array_equal(one.parameters[root], same.parameters[root])
    assert not np.array_equal(one.parameters[root], other.parameters[root])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"init": "tree"}, "init='tree'"),
        ({"init": "chow-liu", "noise": 1.5}, "noise=1.5"),
        ({"init": "chow-liu", "noise": -0.1}, "noise=-0.1"),
        ({"init": "chow-liu", "n_latents": 2}, "a variable has 3 values"),
        ({"trees": "other"}, "trees='other'"),
    ],
)
def test_bad_options_are_named(options, match):
    with pytest.raises(OptionError, match=match):
        fp.structures.hclt([[0, 2], [1, 0]], **{"family": "categorical", "n_latents": 4, **options})
