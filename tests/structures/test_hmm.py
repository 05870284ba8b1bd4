"""Hidden Markov models, against the forward algorithm and enumeration."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.errors import OptionError
from tests.oracles.evaluate import assignments, log_prob


@pytest.mark.parametrize("homogeneous", [False, True])
def test_equals_the_forward_algorithm(homogeneous):
    circuit = fp.structures.hmm(5, 3, homogeneous=homogeneous, seed=2)
    emission = {node.variable: circuit.parameters[i]["p"] for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Input)}
    # The sum over steps t, ..., 4 (scope bits t to 4) holds p(z_t | z_{t-1}), or p(z_0).
    sums = {node: circuit.parameters[i] for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum)}
    transition = dict(zip([4, 3, 2, 1, 0], sums.values(), strict=True))
    rows = assignments(circuit)
    alpha = np.repeat(transition[0], len(rows), axis=0)
    for t in range(5):
        if t:
            alpha = alpha @ transition[t]
        alpha = alpha * np.where(rows[:, t, None] == 1, emission[t], 1 - emission[t])
    assert np.allclose(np.exp(log_prob(circuit, rows)), alpha.sum(axis=1), rtol=1e-13, atol=0)
    assert alpha.sum() == pytest.approx(1, abs=1e-13)


def test_homogeneous_models_share_parameters():
    free, tied = (fp.structures.hmm(6, 4, family=fp.Categorical(3), homogeneous=h) for h in (False, True))
    # Initial 4; transitions 4 x 4, five of them or one; emissions 4 x 3, six of them or one.
    assert (free.n_parameters, tied.n_parameters) == (4 + 5 * 16 + 6 * 12, 4 + 16 + 12)
    assert (free.has_tied_parameters, tied.has_tied_parameters) == (False, True)
    for circuit in (free, tied):
        assert circuit.is_structured_decomposable
        assert not circuit.is_deterministic
        assert not circuit.is_tree


@pytest.mark.parametrize("homogeneous", [False, True])
@pytest.mark.parametrize("length", [1, 2])
def test_short_ones(length, homogeneous):
    circuit = fp.structures.hmm(length, 2, homogeneous=homogeneous)
    assert circuit.n_variables == length
    assert np.exp(log_prob(circuit, assignments(circuit))).sum() == pytest.approx(1, abs=1e-14)


def test_long_ones_build():
    assert fp.structures.hmm(5000, 8, homogeneous=True).n_parameters == 8 + 64 + 8


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"length": 0, "n_latents": 2}, "length=0"),
        ({"length": 3, "n_latents": 0}, "n_latents=0"),
        ({"length": 3, "n_latents": 2, "family": "categorical"}, r"fp\.Categorical\(n=\.\.\.\)"),
        ({"length": 2, "n_latents": 2, "family": ["bernoulli", "gaussian"], "homogeneous": True}, "same family"),
    ],
)
def test_bad_options_are_named(arguments, match):
    with pytest.raises(OptionError, match=match):
        fp.structures.hmm(**arguments)
