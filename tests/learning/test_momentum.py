"""Momentum and anemone against an implementation in NumPy, from the oracle's flows."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.engine.conformance import circuits
from tests.learning.test_em import assert_same, rows_for
from tests.oracles import flows as oracle

NAMES = ["every_node-categorical", "hclt-bernoulli", "rat_spn-gaussian", "hmm_homogeneous-poisson", "poon_domingos-binomial"]


def moments(family, parameters):
    """Mean parameters, by name."""
    if isinstance(family, fp.Gaussian):
        return {"first": parameters["mean"], "second": parameters["variance"] + parameters["mean"] ** 2}
    return dict(parameters)


def parameters_of(family, mean_parameters):
    if isinstance(family, fp.Gaussian):
        first = mean_parameters["first"]
        return {"mean": first, "variance": mean_parameters["second"] - first**2}
    return mean_parameters


def raw(family, parameters, statistics):
    """Sums of 1, x and x² for a Gaussian, which don't depend on its mean; others as they are."""
    if not isinstance(family, fp.Gaussian):
        return dict(statistics)
    c, d, s = (statistics[name] for name in ("count", "deviation", "squares"))
    m = parameters["mean"]
    return {"count": c, "sum": d + c * m, "squares": s + 2 * m * d + c * m**2}


def centred(family, parameters, sums):
    if not isinstance(family, fp.Gaussian):
        return sums
    c, m = sums["count"], parameters["mean"]
    return {"count": c, "deviation": sums["sum"] - c * m, "squares": sums["squares"] - 2 * m * sums["sum"] + c * m**2}


def expected(circuit):
    """Top-down probabilities of every owner's units: the flows of a row of which nothing is known."""
    units = oracle.unit_flows(circuit, np.full((1, circuit.n_variables), np.nan))
    out = {}
    for i, owner in enumerate(circuit.owners):
        out[owner] = out.get(owner, 0) + units[i][0]
    return out


def by_definition(circuit, batches, alpha, beta, anemone, pseudocount, n_rows):
    average, steps = {}, 0
    for X in batches:
        steps += 1
        B = len(X)
        sums, inputs = oracle.flows(circuit, X)
        found = {(i, None): F / B for i, F in sums.items()}
        for i, statistics in inputs.items():
            of = raw(circuit.nodes[i].family, circuit.parameters[i], statistics)
            found |= {(i, name): value / B for name, value in of.items()}
        for key, value in found.items():
            average[key] = beta * average.get(key, 0) + (1 - beta) * value
        smooth = {key: B * value / (1 - beta**steps) for key, value in average.items()}
        t, counts, new = expected(circuit), pseudocount * B / n_rows, {}
        for i in sums:
            mask = getattr(circuit.nodes[i], "mask", None)
            mask = np.ones(sums[i].shape) if mask is None else mask
            F, old = smooth[i, None] + mask * counts / mask.sum(axis=1, keepdims=True), circuit.parameters[i]
            if anemone:
                mixed = alpha * F / B + (1 - alpha) * t[i][:, None] * old
                new[i] = mixed / mixed.sum(axis=1, keepdims=True)
            else:
                new[i] = (1 - alpha) * old + alpha * F / F.sum(axis=1, keepdims=True)
        for i in inputs:
            family, old = circuit.nodes[i].family, circuit.parameters[i]
            if not family.learnable:
                continue
            sums_of = {name: smooth[key, name] for key, name in smooth if key == i}
            made = moments(family, family.update(old, centred(family, old, sums_of), counts))
            share = np.full(circuit.widths[i], alpha)
            if anemone:
                table = isinstance(family, fp.Bernoulli | fp.Categorical)
                F = (sums_of["counts"].sum(axis=1) + counts if table else sums_of["count"]) / B
                share = alpha * F / (alpha * F + (1 - alpha) * t[i])
            before = moments(family, old)
            mixed = {}
            for name, value in before.items():
                a = share.reshape(-1, *[1] * (value.ndim - 1))
                mixed[name] = (1 - a) * value + a * made[name]
            new[i] = parameters_of(family, mixed)
        circuit = circuit.with_parameters(new)
    return circuit


@pytest.mark.parametrize("anemone", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.8])
@pytest.mark.parametrize("name", NAMES)
def test_steps_are_those_of_the_definition(name, beta, anemone):
    circuit = circuits()[name]
    X = rows_for(circuit, 35)
    options = {
        "regularizer": fp.learning.Laplace(0.4),
        "batch_size": 10,
        "epochs": 2,
        "seed": 4,
        "dtype": "float64",
        "progress": False,
    }
    found = fp.fit(circuit, X, method=fp.EM(step_size=0.3, momentum=beta, anemone=anemone), **options).circuit
    batches = []
    for epoch in range(2):
        order = np.random.default_rng([4, epoch]).permutation(35)
        batches += [X[order[start : start + 10]] for start in range(0, 35, 10)]
    made = by_definition(circuit, batches, 0.3, beta, anemone, 0.4, 35)
    assert_same(found, {i: p for i, p in made.parameters.items() if circuit.owners[i] == i}, rtol=1e-8)


def test_all_rows_and_a_whole_step_are_plain_em():
    """With α = 1 anemone is EM, and a step of full-batch EM with anemone climbs for every α."""
    circuit = fp.structures.hclt(rows_for(circuits()["hclt-bernoulli"]), 4)
    X = rows_for(circuit)
    options = {"epochs": 3, "batch_size": None, "dtype": "float64", "progress": False}
    plain, same = (fp.fit(circuit, X, method=fp.EM(step_size=1.0, anemone=a), **options).circuit for a in (False, True))
    np.testing.assert_allclose(plain.log_prob(X), same.log_prob(X), rtol=1e-10)
    nll = fp.fit(circuit, X, method=fp.EM(step_size=0.3, anemone=True), **{**options, "epochs": 20}).history["train_nll"]
    assert (np.diff(nll) < 0).all()


def test_momentum_calms_small_batches():
    rng = np.random.default_rng(0)
    X = (rng.random((400, 8)) < rng.choice([0.1, 0.9], (400, 1))).astype(float)
    circuit = fp.structures.hclt(X, 8)
    options = {"epochs": 15, "batch_size": 10, "regularizer": fp.learning.Laplace(1.0), "progress": False}
    rough, calm, best = (
        fp.fit(circuit, X, method=fp.EM(step_size=0.5, momentum=m, anemone=a), **options).circuit.log_prob(X).mean()
        for m, a in ((0.0, False), (0.9, False), (0.9, True))
    )
    assert rough < calm < best + 0.01


def test_sharpness_goes_with_both():
    circuit = circuits()["hclt-bernoulli"]
    X = rows_for(circuit)
    for sharpness in (fp.Sharpness(mu=0.1, inputs=True), fp.Sharpness(mu="mean-flow"), fp.Sharpness(mu=0.1, multiplier="exact")):
        result = fp.fit(
            circuit, X, sharpness=sharpness, method=fp.EM(momentum=0.5, anemone=True), batch_size=9, epochs=2, progress=False
        )
        assert np.isfinite(result.circuit.log_prob(X)).all()


@pytest.mark.parametrize(("options", "words"), [
    (lambda: {"method": fp.EM(momentum=1.0)}, "momentum=1.0"),
    (lambda: {"method": fp.EM(momentum=-0.1)}, "from 0 to less than 1"),
    (lambda: {"momentum": 0.5}, "it is now an option of the method"),
    (lambda: {"anemone": True}, "it is now an option of the method"),
    (lambda: {"method": fp.EM(anemone=True), "regularizer": "entropy"}, "leave one out"),
])  # fmt: skip
def test_bad_input(options, words):
    circuit = circuits()["hclt-bernoulli"]
    with pytest.raises(OptionError, match=words):
        fp.fit(circuit, rows_for(circuit), progress=False, **options())
