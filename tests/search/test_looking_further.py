"""What a search tries once it has chosen a model, and how it spends all of its work."""

import numpy as np
import pandas as pd
import pytest

import flatpc as fp
from flatpc.families import Categorical, Discretized, Gaussian
from flatpc.search.choosing import search
from flatpc.search.plans import Plan, further_plans, trees_of_blocks
from flatpc.search.samples import Sample

LEVELS = ["never", "seldom", "at times", "often", "mostly", "always"]


def pairs(n, d, seed):
    """Columns of which each two go along, and all with something that isn't seen."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, n)
    first = rng.normal(size=(n, d // 2)) + 3 * hidden[:, None]
    return np.concatenate([first, first + 0.1 * rng.normal(size=first.shape)], axis=1)


def factors(n, d, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))


def names(plans):
    return [plan.name for plan in plans]


def test_plans_for_correlated_columns():
    best = Plan("mixture", {"n_latents": 4, "blocks": "all", "pooled": 8.0}, trained=True)
    rows, families = Sample(pairs(600, 8, 0)), [Gaussian()] * 8
    assert names(further_plans(families, rows, best)) == [
        "hidden Chow-Liu tree, 4 latents, of correlated blocks",
        "hidden Chow-Liu tree, 16 latents, of correlated blocks",
        "mixture of correlated columns, 4 components, of rank 2",
        "mixture of correlated columns, 16 components, of rank 2",
    ]
    hidden = Plan("hclt", {"n_latents": 16}, trained=True)
    assert [plan.options["n_latents"] for plan in further_plans(families, rows, hidden)] == [4, 16, 4, 16]
    # Neither is for columns that don't go along, nor for those that can't be taken together.
    noise = Sample(np.random.default_rng(0).normal(size=(600, 4)))
    assert further_plans([Gaussian()] * 4, noise, hidden) == []
    assert trees_of_blocks([Gaussian()] * 8, Sample(np.random.default_rng(0).normal(size=(600, 8))), (4,)) == []
    assert further_plans([Categorical(3)] * 8, Sample(np.zeros((600, 8))), hidden) == []
    assert further_plans([Discretized(Gaussian(), 1.0)] * 8, Sample(np.zeros((600, 8))), hidden) == []
    # A block of all columns is no tree.
    assert trees_of_blocks([Gaussian()] * 4, Sample(pairs(600, 4, 0)), (4,)) == []


def candidates(X, **options):
    density = fp.CircuitDensity(verbose=False, random_state=0, **options).fit(X)
    return density, [candidate.name for candidate in density.candidates_]


def test_all_that_pays_less_often_is_tried():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(pairs(300, 8, 0)).rename(columns=str)
    behind = X["0"] + 0.7 * rng.normal(size=300)
    X["peaks"] = rng.choice([-6.0, 0.0, 9.0], 300) + rng.normal(size=300) + 0.1 * X["0"]
    X["answer"] = pd.Categorical.from_codes(
        np.searchsorted(np.quantile(behind, np.arange(1, 6) / 6), behind), categories=LEVELS, ordered=True
    )
    density, tried = candidates(X, effort=14)
    for part in ("of correlated blocks", "of rank", "of mapped columns"):
        assert any(part in name for name in tried), part
    drawn = density.sample(2000, random_state=0)
    assert drawn["answer"].dtype == X["answer"].dtype
    assert set(drawn["answer"]) <= set(LEVELS)


@pytest.mark.parametrize("ordered", [True, False])
def test_ordinal_families_are_taken_where_they_are_better(ordered):
    """Ten answers that follow one number each: of few rows, two numbers for a unit are learnt better than seven."""
    rng = np.random.default_rng(1)
    n = 1100
    position = rng.normal(size=(n, 1))
    behind = position + 0.6 * rng.normal(size=(n, 10))
    codes = np.stack([np.searchsorted(np.quantile(x, np.arange(1, 6) / 6), x) for x in behind.T], axis=1)
    table = pd.DataFrame({
        f"x{j}": pd.Categorical.from_codes(x, categories=LEVELS, ordered=ordered) for j, x in enumerate(codes.T)
    })  # fmt: skip
    table["position"] = position + 0.1 * rng.normal(size=(n, 1))
    density, tried = candidates(table[:200], effort=12 if ordered else 3)
    assert any("categories in order" in name for name in tried) == ordered
    if ordered:
        plain = fp.CircuitDensity(verbose=False, random_state=0, effort=12).fit(
            table[:200].assign(**{f"x{j}": table[f"x{j}"][:200].cat.as_unordered() for j in range(10)})
        )
        assert "categories in order" in density.candidates_[0].name
        unordered = table.assign(**{f"x{j}": table[f"x{j}"].cat.as_unordered() for j in range(10)})
        assert density.score(table[200:]) > plain.score(unordered[200:])


def test_low_rank_is_taken_where_it_is_better():
    X = factors(1200, 24, 0)
    density, tried = candidates(X[:120], effort=10)
    assert any("of rank" in name for name in tried)
    alone = fp.structures.mixture(X[:120], 1, pooled=24.0)
    learnt = fp.fit(alone, X[:120], epochs=20, batch_size=None, progress=False).circuit
    assert density.score(X[120:]) > learnt.log_prob(X[120:]).mean()


def test_structures_that_are_asked_for_are_the_only_ones():
    _, tried = candidates(pairs(400, 8, 0), effort=6, structure="hclt", n_latents=4)
    assert not any("blocks" in name or "rank" in name for name in tried)


@pytest.mark.parametrize("effort", [4, 40])
def test_all_of_the_work_is_used(effort):
    """But for what another model would take."""
    X = np.random.default_rng(0).normal(size=(60, 2)) ** 3
    choice = fp.choose(X, family="gaussian", effort=effort, seed=0, progress=False)
    assert 0.9 * effort < choice.work < 1.1 * effort
    copied = {c.name.split(", copy")[0] for c in choice.candidates if ", copy" in c.name}
    if effort == 40:
        assert len(copied) > 1
        assert any(c.name.endswith(", copy 17") for c in choice.candidates)


def test_counts_beyond_the_largest_stay_possible():
    """Counts have no end: a family for as many values as were seen doesn't take their place."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=400)
    table = {f"c{j}": np.minimum(rng.negative_binomial(3, 3 / (3 + np.exp(1.2 + 0.6 * z))), 15) for j in range(3)}
    frame = pd.DataFrame({**table, "x": z + 0.3 * rng.normal(size=400)})
    density = fp.CircuitDensity(effort=9, verbose=False, random_state=2).fit(frame)
    assert np.isfinite(density.score_samples(frame[:1].assign(c0=40)))


@pytest.mark.parametrize("judge", ["auto", "loo", "evidence"])
def test_tables_of_categories_in_order(judge):
    rng = np.random.default_rng(1)
    z, columns = rng.normal(size=300), {}
    for j in range(5):
        z = 0.9 * z + 0.45 * rng.normal(size=300)
        codes = np.clip(np.round(z * 2 + 2.5), 0, 5).astype(int)
        columns[f"q{j}"] = pd.Categorical.from_codes(codes, LEVELS, ordered=True)
    density, tried = candidates(pd.DataFrame(columns), effort=8 if judge == "auto" else 3, judge=judge)
    # By curvature only free tables are judged.
    assert any("in order" in name for name in tried) == (judge == "auto")
    assert not any("several families" in name for name in tried) or judge == "auto"
    assert np.isfinite(density.score(pd.DataFrame(columns)))


def test_one_model_of_several_families_is_trained_on():
    """Where there is to be no average, what work is left is for the model that won."""
    rng = np.random.default_rng(0)
    rng.normal(size=(900, 4))
    hidden = rng.integers(0, 3, 200)
    X = np.where(rng.random((200, 5)) < 0.7, hidden[:, None], rng.integers(0, 4, (200, 5)))
    density, tried = candidates(X, effort=4, average=False, structure="mixture", n_latents=8)
    assert "several families" in tried[0]
    # It came to be by the few rounds of the one before it.
    assert density.candidates_[0].epochs > 40


def test_one_model_takes_all_work_and_no_more():
    """Families for categories in order take eight times as long as those chosen, and work is left for them."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 3, 300)
    X = np.where(rng.random((300, 6)) < 0.7, hidden[:, None], rng.integers(0, 4, (300, 6)))
    columns = fp.tables.Columns.learn(X)
    found = search(Sample(columns.encode(X)), [each.families for each in columns.columns], effort=3, average=False)
    assert any("several families" in candidate.name for candidate in found.candidates)
    assert 0.9 < found.work / 3 < 1.03


def test_blocks_begin_with_any_floor():
    """Few columns go along as they are, more once they are mapped; the mixture's floor is one of the trees'."""
    n, rng = 3600, np.random.default_rng(0)
    centres = (4 * rng.normal(size=(40, 2)))[rng.integers(0, 40, n)]
    a = centres + 0.3 * rng.normal(size=(n, 2))
    frame = pd.DataFrame({"a": a[:, 0], "b": a[:, 1], "c": a.sum(axis=1) + 1e-5 * rng.normal(size=n)})
    for name in "gh":
        kind = rng.integers(0, 6, n)
        for j in range(2):
            frame[f"{name}{j}"] = rng.exponential(1.0 + 3 * ((kind + j) % 3), n)
    _, tried = candidates(frame, effort=20)
    assert any("blocks" in name for name in tried)
