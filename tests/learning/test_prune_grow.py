"""Pruning by flow keeps its bound, growing without noise keeps the distribution, and the recipe runs them between fits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatpc as fp
from flatpc.errors import OptionError
from flatpc.learning import PruneGrow
from flatpc.structures import compact, grow, prune
from tests.engine.conformance import circuits
from tests.learning.test_em import rows_for
from tests.oracles import flows as oracle
from tests.oracles import random_circuits

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < RNG.choice([0.2, 0.8], (60, 1))).astype(float)
CIRCUIT = fp.fit(fp.structures.hclt(X, 6), X, epochs=5, progress=False).circuit


def masks(circuit):
    out = {}
    for i, node in enumerate(circuit.nodes):
        if isinstance(node, fp.Sum):
            out[i] = np.ones(circuit.weight_shape(i), bool) if node.mask is None else node.mask
    return out


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.3, 0.5, 0.7])
def test_the_loss_of_likelihood_is_bounded_row_by_row(fraction):
    pruned = prune(CIRCUIT, X, fraction)
    gone = {i: ~mask for i, mask in masks(pruned).items()}
    _, edges = oracle._pass_down(CIRCUIT, X)
    lost = sum((edges[i] * gone[i]).sum(axis=(1, 2)) for i in gone)
    assert (lost > 0).any() == (fraction > 0)
    drop = CIRCUIT.log_prob(X) - pruned.log_prob(X)
    bounded = lost < 1
    assert bounded.any()
    assert (drop[bounded] <= -np.log1p(-lost[bounded]) + 1e-12).all()


def test_the_edges_with_the_least_flow_go():
    n = sum(mask.sum() for mask in masks(CIRCUIT).values())
    for fraction in (0.2, 0.6):
        pruned = prune(CIRCUIT, X, fraction)
        kept = masks(pruned)
        sums, _ = oracle.flows(CIRCUIT, X)
        best = {i: np.arange(F.shape[1]) == F.argmax(axis=1)[:, None] for i, F in sums.items()}
        gone = np.concatenate([sums[i][~kept[i]] for i in sums])
        left = np.concatenate([sums[i][kept[i] & ~best[i]] for i in sums])
        assert len(gone) == round(fraction * n)
        assert gone.max() <= left.min()
        for i, mask in kept.items():
            W = CIRCUIT.parameters[i] * mask
            np.testing.assert_allclose(pruned.parameters[i], W / W.sum(axis=1, keepdims=True), rtol=1e-13)
    every_unit = prune(CIRCUIT, X, 0.999)
    assert all((mask.sum(axis=1) == 1).all() for mask in masks(every_unit).values())
    again = prune(prune(CIRCUIT, X, 0.5), X, 0.5)
    assert sum(mask.sum() for mask in masks(again).values()) == pytest.approx(n / 4, abs=2)


@pytest.mark.parametrize("name", sorted(circuits()))
def test_any_circuit_can_be_pruned_and_grown(name):
    circuit = circuits()[name]
    rows = rows_for(circuit, 12)
    for made in (circuit, prune(circuit, rows, 0.4)):
        np.testing.assert_allclose(grow(made, noise=0.0).log_prob(rows), made.log_prob(rows), rtol=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_growing_without_noise_keeps_the_distribution(data):
    circuit = data.draw(random_circuits.circuits())
    rows = data.draw(random_circuits.rows(circuit))
    bigger = grow(circuit, noise=0.0)
    np.testing.assert_allclose(
        bigger.log_prob(rows, missing="marginalize"), circuit.log_prob(rows, missing="marginalize"), rtol=1e-10, atol=1e-12
    )


def test_growing_doubles_and_breaks_the_symmetry():
    bigger = grow(CIRCUIT, noise=0.1, seed=1)
    assert bigger.widths[:-1] == tuple(2 * width for width in CIRCUIT.widths[:-1])
    assert bigger.widths[-1] == 1
    for i, value in bigger.parameters.items():
        if isinstance(value, dict):
            continue
        np.testing.assert_allclose(value.sum(axis=1), 1)
        old = CIRCUIT.parameters[i]
        ratio = value / np.tile(old / 2, (len(value) // len(old), 2))
        assert 0.05 < ratio.std() < 0.15
    options = {"epochs": 10, "batch_size": None, "method": fp.EM(step_size=1.0), "progress": False}
    small, large = (fp.fit(circuit, X, **options).circuit.log_prob(X).mean() for circuit in (CIRCUIT, bigger))
    assert large > small
    np.testing.assert_array_equal(grow(CIRCUIT, noise=0.1, seed=1).log_prob(X), bigger.log_prob(X))
    assert not np.array_equal(grow(CIRCUIT, noise=0.1, seed=2).log_prob(X), bigger.log_prob(X))


def test_masks_are_copied():
    pruned = prune(CIRCUIT, X, 0.5)
    bigger = grow(pruned, noise=0.3)
    for i, mask in masks(pruned).items():
        np.testing.assert_array_equal(masks(bigger)[i], np.tile(mask, (len(bigger.parameters[i]) // len(mask), 2)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_compacting_keeps_the_distribution(data):
    circuit = data.draw(random_circuits.circuits())
    rows = data.draw(random_circuits.rows(circuit))
    smaller = compact(prune(circuit, rows, 0.6, missing="marginalize"))
    found, expected = (
        made.log_prob(rows, missing="marginalize") for made in (smaller, prune(circuit, rows, 0.6, missing="marginalize"))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert sum(smaller.widths) <= sum(circuit.widths)


def test_compacting_leaves_out_what_is_not_used():
    pruned = prune(CIRCUIT, X, 0.8)
    smaller = compact(pruned)
    np.testing.assert_allclose(smaller.log_prob(X), pruned.log_prob(X), rtol=1e-12)
    assert smaller.n_parameters < pruned.n_parameters
    # Every unit that is left has a parent, and so none can be left out any more.
    again = compact(smaller)
    assert again is smaller
    assert compact(CIRCUIT) is CIRCUIT


def test_compacting_hands_the_parameters_of_a_lost_owner_on():
    """The first input, to which two others are tied, is below a sum that loses its only edge."""
    shared = [fp.Input(0, fp.Bernoulli(), 2), fp.Input(0, fp.Bernoulli(), 2, tie=0), fp.Input(0, fp.Bernoulli(), 2, tie=0)]
    mask = np.array([[False, True, True, False, True]])
    circuit = fp.Circuit(
        [*shared, fp.Sum((0,)), fp.Sum((3, 1, 2), 1, mask)],
        {0: {"p": [0.2, 0.9]}, 3: [[0.5, 0.5]], 4: [[0.0, 0.5, 0.3, 0.0, 0.2]]},
    )
    smaller = compact(circuit)
    assert smaller.owners == (0, 0, 2)
    np.testing.assert_allclose(np.exp(smaller.log_prob([[0], [1]])), [0.45, 0.55], rtol=1e-12)


# ---- the recipe -----------------------------------------------------------------------------------------------------


def test_the_recipe_is_its_parts(tmp_path):
    options = {"batch_size": 20, "seed": 5, "valid": X[:20], "progress": False}
    counts = fp.learning.Laplace(0.1)
    recipe = [PruneGrow(0.5, 0.2, rounds=2), counts]
    found = fp.fit(CIRCUIT, X, epochs=8, regularizer=recipe, **options)
    circuit, nll = CIRCUIT, []
    for part, epochs in enumerate((2, 3, 3)):
        if part:
            circuit = grow(compact(prune(circuit, X, 0.5)), noise=0.2, seed=5 + part)
        made = fp.fit(circuit, X, epochs=epochs, regularizer=counts, **options)
        circuit = made.circuit
        nll += list(made.history["valid_nll"])
    np.testing.assert_array_equal(found.circuit.log_prob(X), circuit.log_prob(X))
    np.testing.assert_array_equal(found.history["valid_nll"], nll)
    np.testing.assert_array_equal(found.history["epoch"], np.arange(1, 9))
    assert (np.diff(found.history["seconds"]) > 0).all()
    assert found.best_nll == min(nll)
    assert found.best_epoch == 1 + int(np.argmin(nll))
    assert -found.best_circuit.log_prob(X[:20]).mean() == pytest.approx(found.best_nll, rel=1e-12)
    # Killed in the second part, it goes on there.
    path = tmp_path / "run"

    seen = []

    def crash(row, circuit):
        seen.append(row["epoch"])
        if len(seen) == 4:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fp.fit(CIRCUIT, X, epochs=8, regularizer=recipe, run=fp.learning.Run(checkpoint=path, callbacks=[crash]), **options)
    assert seen == [1, 2, 1, 2]
    resumed = fp.fit(CIRCUIT, X, epochs=8, regularizer=recipe, run=path, **options)
    np.testing.assert_array_equal(resumed.circuit.log_prob(X), circuit.log_prob(X))
    np.testing.assert_array_equal(resumed.history["valid_nll"], nll)


def test_the_recipe_goes_with_others_and_stops():
    options = {"epochs": 4, "progress": False}
    together = fp.fit(CIRCUIT, X, regularizer=["prune-grow", fp.Sharpness(mu=0.1), "dropout"], **options)
    assert max(together.circuit.widths) > max(CIRCUIT.widths)
    stopped = fp.fit(CIRCUIT, X, regularizer="prune-grow", run=fp.learning.Run(callbacks=[lambda row, circuit: True]), **options)
    assert (stopped.stopped, len(stopped.history)) == ("callback", 1)
    best = fp.fit(CIRCUIT, X, regularizer="prune-grow", valid=X[:10], stopping=2, **options)
    assert -best.circuit.log_prob(X[:10]).mean() == pytest.approx(best.best_nll, rel=1e-12)


def test_bad_input():
    for fraction in (-0.1, 1.0, float("nan")):
        with pytest.raises(OptionError, match="fraction"):
            prune(CIRCUIT, X, fraction)
        with pytest.raises(OptionError, match="fraction"):
            PruneGrow(fraction=fraction)
    with pytest.raises(OptionError, match="noise"):
        grow(CIRCUIT, noise=-0.1)
    with pytest.raises(OptionError, match="noise"):
        PruneGrow(noise=float("inf"))
    with pytest.raises(OptionError, match="rounds"):
        PruneGrow(rounds=0)
    with pytest.raises(OptionError, match="seed"):
        grow(CIRCUIT, seed=-1)
    with pytest.raises(OptionError, match="both change the structure"):
        fp.fit(CIRCUIT, X, regularizer=["prune-grow", PruneGrow()])
