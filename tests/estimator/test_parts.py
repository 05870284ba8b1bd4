"""The parts of the estimator: units, starting points, and the choice."""

import signal
from dataclasses import replace

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import DataError, OptionError
from flatpc.estimator import choosing
from flatpc.estimator.choosing import FEW, N_SPLITS, choose, held_back
from flatpc.estimator.plans import Options, Plan, Plans
from flatpc.estimator.scaling import Scaling, in_users_units
from flatpc.estimator.starting import start_at_clusters

# ---- units -----------------------------------------------------------------------------------------------------------


def test_a_circuit_in_other_units_has_the_density_of_the_change_of_variables():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(50, 20, 40), rng.integers(0, 2, 40), rng.normal(-3, 0.01, 40)])
    rows[::5, 0] = np.nan
    scaling = Scaling.learn(rows, np.array([True, False, True]))
    scaled = scaling.apply(rows)
    np.testing.assert_allclose(np.nanmean(scaled[:, [0, 2]], axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(scaled[:, [0, 2]], axis=0), 1, atol=1e-12)
    np.testing.assert_array_equal(scaled[:, 1], rows[:, 1])
    circuit = fp.structures.hclt(scaled, n_latents=3, family=["gaussian", "bernoulli", "gaussian"])
    ours = in_users_units(circuit, scaling)
    expected = circuit.log_prob(scaled, missing="marginalize") - scaling.log_volume(rows)
    np.testing.assert_allclose(ours.log_prob(rows, missing="marginalize"), expected, atol=1e-9)


def test_columns_that_never_change_keep_their_unit():
    scaling = Scaling.learn(np.array([[0.1 + 0.2, 5.0], [0.3, 5.0]]), np.array([True, True]))
    np.testing.assert_array_equal(scaling.scale, [1, 1])  # 0.1 + 0.2 differs from 0.3 by rounding only


def test_numbers_whose_squares_overflow_are_refused():
    with pytest.raises(DataError, match="'mass' has numbers around 3e\\+200"):
        Scaling.learn(np.array([[1e200], [3e200]]), np.array([True]), ["mass"])


# ---- starting points -------------------------------------------------------------------------------------------------


def test_units_start_at_clusters_whatever_the_scale():
    """Two kinds of rows with rates 3 and 2000, means -5 and 5: one unit starts near each, in all columns together."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 300)
    rows = np.column_stack([rng.poisson(np.where(kind, 2000, 3)), rng.normal(np.where(kind, 5, -5)), kind]).astype(float)
    families = [fp.Poisson(), fp.Gaussian(), fp.Bernoulli()]
    mixture = fp.structures.rat_spn(3, depth=0, n_repetitions=1, n_inputs=2, family=families)
    started = start_at_clusters(mixture, rows, seed=0, pseudocount=1.0)
    by_variable = {node.variable: started.parameters[i] for i, node in enumerate(started.nodes) if isinstance(node, fp.Input)}
    low, high = np.argsort(by_variable[0]["rate"])
    assert by_variable[0]["rate"][low] < 300  # a twentieth of the other rows' weight
    assert by_variable[0]["rate"][high] > 1800
    assert by_variable[1]["mean"][low] < -4 < 4 < by_variable[1]["mean"][high]
    assert by_variable[2]["p"][low] < 0.1 < 0.9 < by_variable[2]["p"][high]


def test_more_units_than_different_rows_and_gaps():
    rows = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 1.0], [1.0, 0.0]])
    circuit = fp.structures.hclt(rows, n_latents=6)
    started = start_at_clusters(circuit, rows, seed=0, pseudocount=0.3)
    assert np.isfinite(started.log_prob(rows, missing="marginalize")).all()
    # Units that share a cluster are told apart.
    known = chain(20)
    started = start_at_clusters(fp.structures.hclt(known, n_latents=12), known, seed=0, pseudocount=0.3)
    units = np.stack([started.parameters[i]["p"] for i, node in enumerate(started.nodes) if isinstance(node, fp.Input)], axis=1)
    assert len(np.unique(units.round(12), axis=0)) == 12 > len(np.unique(known, axis=0))


# ---- the choice ------------------------------------------------------------------------------------------------------


def chain(n, seed=0):
    return (np.cumsum(np.random.default_rng(seed).random((n, 5)) < 0.1, axis=1) % 2).astype(float)


def test_few_rows_are_split_several_times_and_no_row_judges_twice():
    for n, times in ((100, N_SPLITS), (FEW, N_SPLITS), (FEW + 1, 1)):
        judges = np.concatenate(held_back(chain(n), Options()))
        assert len(judges) == times * round(0.2 * n)
        assert len(set(judges.tolist())) == len(judges)
        assert choose(chain(n), [fp.Bernoulli()] * 5, Options(structure="factorized")).n_judges == len(judges)
    assert len(np.concatenate(held_back(chain(40), Options(validation_fraction=0.5)))) == 40


def test_the_judge_is_the_mean_over_splits():
    rows = chain(100)
    choice = choose(rows, [fp.Bernoulli()] * 5, Options(structure="factorized"))
    nll = []
    for judges in held_back(rows, Options()):
        others = np.delete(rows, judges, axis=0)
        nll.append(-fp.structures.factorized(others).log_prob(rows[judges]).mean())
    assert choice.best.valid_nll == pytest.approx(np.mean(nll), abs=1e-12)
    # What is returned knows all rows.
    expected = fp.structures.factorized(rows).log_prob(rows)
    np.testing.assert_allclose(choice.circuit.log_prob(rows), expected, atol=1e-12)


def test_given_validation_rows_judge_and_all_others_are_learnt_from():
    rows, valid = chain(60), chain(200, seed=1)
    choice = choose(rows, [fp.Bernoulli()] * 5, Options(epochs=20), valid=valid)
    assert choice.n_judges == 200
    assert "fitted again" not in choice.why
    assert choice.best.valid_nll == pytest.approx(-choice.circuit.log_prob(valid).mean(), abs=1e-9)
    tree = next(candidate for candidate in choice.candidates if candidate.plan.structure == "chow_liu")
    np.testing.assert_allclose(tree.circuit.log_prob(valid), fp.structures.chow_liu(rows).log_prob(valid), atol=1e-12)


def test_nothing_to_judge_by():
    few = choose(chain(5), [fp.Bernoulli()] * 5, Options())
    assert "too few rows (5)" in few.why
    with pytest.raises(OptionError, match="validation_fraction=0 leaves no rows to choose a structure by"):
        choose(chain(50), [fp.Bernoulli()] * 5, Options(validation_fraction=0))
    asked = choose(chain(50), [fp.Bernoulli()] * 5, Options("hclt", 3, mu=0.1, validation_fraction=0, epochs=25))
    assert asked.best.epochs == 25  # as many as asked for
    assert asked.why == "hidden Chow-Liu tree, 3 latents, μ = 0.1: no rows were held back to judge by"


@pytest.mark.parametrize(("n", "kept"), [(200, False), (400, True)])
def test_ctrl_c_keeps_the_best_so_far(n, kept):
    """A model that was stopped counts if it has been judged as the others have: not if two of three splits are missing."""

    def watch(plan, share, row):
        assert 0 < share < 1
        if plan.structure == "hclt" and row["epoch"] == 2:
            signal.raise_signal(signal.SIGINT)

    choice = choose(chain(n), [fp.Bernoulli()] * 5, Options(), watch=watch)
    assert choice.cut_short == "interrupted"
    assert [c.plan.structure for c in choice.candidates] == ["factorized", "chow_liu", "hclt"][: 3 if kept else 2]
    assert "fitted again" not in choice.why
    np.testing.assert_array_equal(choice.circuit.log_prob(chain(9)), choice.best.circuit.log_prob(chain(9)))


def test_a_chow_liu_chain_is_recognised():
    """Rows from a chain: no candidate that ignores it comes near, and the best is within a tenth of a nat of the truth."""
    choice = choose(chain(600), [fp.Bernoulli()] * 5, Options(epochs=50))
    by_structure = {candidate.plan.structure: candidate.valid_nll for candidate in choice.candidates}
    assert by_structure["factorized"] > by_structure["chow_liu"] + 0.3
    new = chain(5000, seed=1)
    truth = 5 * (0.1 * np.log(0.1) + 0.9 * np.log(0.9))
    assert choice.circuit.log_prob(new).mean() == pytest.approx(truth, abs=0.1)


def in_order(plans, judge):
    """The plans in the order in which they come, if `judge` says how good each is."""
    done = []
    for plan in plans(lambda: min((p for p in done if p.is_learnt), key=judge)):
        done.append(plan)
    assert len(done) <= plans.most
    return done


def test_smaller_pseudocounts_are_tried_while_they_help():
    bits, mixed = [fp.Bernoulli()] * 3, [fp.Bernoulli(), fp.Gaussian()]
    plans = Plans(bits, 5000, Options("hclt", 4, mu=0.1))
    assert [plan.pseudocount for plan in in_order(plans, lambda plan: plan.pseudocount)] == [0.3, 0.1, 0.03, 0.01]
    assert [plan.pseudocount for plan in in_order(plans, lambda plan: abs(plan.pseudocount - 0.1))] == [0.3, 0.1, 0.03]
    assert [plan.pseudocount for plan in in_order(plans, lambda plan: -plan.pseudocount)] == [0.3, 0.1]
    for families, options in ((bits, Options("hclt", 4, 0.1, 0.5)), (bits, Options("hclt", 4, 0.1, method="adam"))):
        assert len(in_order(Plans(families, 5000, options), lambda plan: plan.pseudocount)) == 1
    both = in_order(Plans(mixed, 5000, Options("hclt", 4, mu=0.1)), lambda plan: (plan.pseudocount, plan.floor))
    assert [(plan.pseudocount, plan.floor) for plan in both][3:] == [(0.01, 1e-2), (0.01, 1e-3), (0.01, 1e-4)]


def test_few_rows_of_categories_are_tried_with_too_many_latents():
    large = Plan("hclt", 48, 0.3, 0.01)
    assert large in Plans([fp.Bernoulli()] * 3, 100, Options()).first
    assert str(large) == "hidden Chow-Liu tree, 48 latents, μ = 0.3, pseudocount 0.01"
    for families, n, options in (
        ([fp.Bernoulli()] * 3, 2000, Options()), ([fp.Bernoulli()] * 3, 100, Options(mu=0.1)),
        ([fp.Bernoulli()], 100, Options()), ([fp.Bernoulli(), fp.Gaussian()], 100, Options()),
        ([fp.Bernoulli()] * 3, 100, Options("mixture")),
    ):  # fmt: skip
        assert large not in Plans(families, n, options).first
    # The weights that are tried afterwards are the others.
    after = in_order(Plans([fp.Bernoulli()] * 3, 100, Options()), lambda plan: -plan.n_latents)
    assert [plan.mu for plan in after if plan.n_latents == 48] == [0.3, 0.1, 0.0, 1.0]


@pytest.mark.parametrize(
    ("n", "sizes"), [(5, [2]), (60, [8]), (100, [8, 25]), (200, [8, 32]), (400, [8, 32, 100]), (9999, [8, 32, 128])]
)
def test_sizes_suit_the_rows(n, sizes):
    """Never more than a quarter of them, and each at least twice the one before."""
    assert [plan.n_latents for plan in Plans([fp.Gaussian()] * 2, n, Options("mixture")).first] == sizes


def test_floors_of_the_variance_fall_while_that_helps():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 400) + 0.01 * rng.standard_normal(400)  # four spikes a hundredth wide
    rows = np.column_stack([x, rng.standard_normal(400)])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    choice = choose(rows, [fp.Gaussian()] * 2, Options(structure="mixture", n_latents=8, mu=0.1))
    assert [candidate.plan.floor for candidate in choice.candidates] == [1e-2, 1e-3, 1e-4]
    assert choice.best.plan.floor == 1e-4


@pytest.mark.parametrize(("budget", "least"), [(None, 0.0), (1e-6, 1.0)])
def test_progress_is_that_of_the_work_or_of_the_time(budget, least):
    shares = []
    options = Options("hclt", 3, mu=0.1, pseudocount=0.3, epochs=5, time_budget=budget)
    choose(chain(100), [fp.Bernoulli()] * 5, options, watch=lambda plan, share, row: shares.append(share))
    assert shares == sorted(shares)
    assert least <= shares[0] <= shares[-1] <= 1.0
    if budget is None:
        np.testing.assert_allclose(shares, np.arange(1, 16) / 15)


def test_a_column_that_never_changes_has_no_say_in_the_floor():
    """Its density grows as its variance falls, whatever the other columns need."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    options = Options("mixture", 4, mu=0.1)
    alone = choose(rows, [fp.Gaussian()] * 2, options)
    beside = choose(np.column_stack([rows, np.full(400, 7.0)]), [fp.Gaussian()] * 3, options)
    assert beside.best.plan.floor == alone.best.plan.floor == 1e-2


def test_a_model_that_went_astray_is_not_chosen(monkeypatch):
    real = choosing.attempt

    def attempt(plan, *rest):
        found = real(plan, *rest)
        return replace(found, valid_nll=np.nan) if plan.structure == "factorized" else found

    monkeypatch.setattr(choosing, "attempt", attempt)
    best = choose(chain(60), [fp.Bernoulli()] * 5, Options(epochs=5)).best
    assert best.plan.structure != "factorized"


def test_time_is_kept():
    choice = choose(chain(200), [fp.Bernoulli()] * 5, Options(time_budget=1e-6))
    assert len(choice.candidates) == 1
    assert choice.cut_short == "time budget"
    with pytest.raises(OptionError, match="structure='forest'"):
        choose(chain(20), [fp.Bernoulli()] * 5, Options(structure="forest"))
