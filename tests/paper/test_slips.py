"""Where the paper slips: every place that `slips.md` names is in its LaTeX, and what is said to be right is."""

import os
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import flatpc as fp
from flatpc.paper.collapse import ONE_GAUSSIAN

PLACES = {
    "Cubic of the M-step": [r"\theta_{nc}^2 - 2\,\mu F_{nc}(x) = 0", r"\theta_{nc}^2 - 2\,\mu F_{nc}(x)^2 = 0"],
    "Roots of the cubic": ["may yield multiple real roots, negative values, or even complex solutions"],
    "Squares and sums": ["the squared gradient is a monotonic function of the gradient itself", "equivalent gradient norm"],
    "Squares of sums": ["by simply summing the expected edge‐flows $F_{nc}(x)$ over all samples in the batch"],
    "λ": [
        r"\;+\;\lambda\sum_{x\in D}R(\theta,x)",
        r"$\lambda=1$ and selected",
        r"we simply fix $\lambda=1$ and then renormalize",
    ],
    "Flow of a product, algorithm 1": [r"F_e \gets F_n \times \overline{P}_{n,c}(x)", r"\For{each edge $e\in E$}"],
    "Sign of the diagonal": ["the double derivative equals the square of the gradient of the log-likelihood"],
    "Off the diagonal": ["we conjecture that computing the off-diagonal entries of the Hessian is intractable"],
    "Objective of the Einsum Networks": ["\\;+\\;\\mu\n\\sum_{n,c}\\Bigl(\\dfrac{F_{nc}(x)}{\\theta_{nc}}\\Bigr)^2,"],
    "Depth": ["we set this to $1$ for our synthetic experiments as it is the max depth possible"],
    "kdd": ["kdd           & $65$"],
    "Number of runs": ["roughly $700$ total runs"],
}


def named() -> list[str]:
    text = resources.files("flatpc.paper").joinpath("slips.md").read_text()
    return [name.rstrip(".") for name in re.findall(r"^- \*\*(.*?)\*\*", text, re.M)]


def test_every_slip_has_its_place():
    assert named() == list(PLACES)


@pytest.mark.skipif(not os.environ.get("FLATPC_PAPER"), reason="FLATPC_PAPER does not name the paper's LaTeX file")
@pytest.mark.parametrize("slip", PLACES)
def test_the_paper_says_so(slip):
    tex = Path(os.environ["FLATPC_PAPER"]).read_text()
    for place in PLACES[slip]:
        assert place in tex, place


def test_three_variables_can_be_split_twice():
    assert fp.structures.rat_spn(3, 2, n_repetitions=2, n_sums=2, n_inputs=2, family="gaussian", seed=0).is_decomposable


def test_a_trace_of_two_is_one_gaussian():
    """One path takes every row, and all else is far away: the trace is 2, and the density that of one Gaussian."""
    X = np.random.default_rng(3).standard_normal((200, 2))
    circuit = fp.structures.rat_spn(2, 1, n_repetitions=2, n_sums=2, n_inputs=2, family="gaussian", seed=1)
    near, far = {"mean": [0.0, 40.0], "variance": [1.0, 1.0]}, {"mean": [40.0, 40.0], "variance": [1.0, 1.0]}
    first, *others = (i for i, node in enumerate(circuit.nodes) if isinstance(node, fp.Sum))
    one = circuit.with_parameters({0: near, 1: near, 4: far, 5: far, first: [[1.0, 0.0, 0.0, 0.0]], circuit.root: [[1.0, 0.0]]})
    assert fp.curvature.trace(one, X) == pytest.approx(2.0, rel=1e-9)
    assert one.log_prob(X) == pytest.approx(norm.logpdf(X).sum(axis=1), rel=1e-9)
    assert others
    # Two components that share the rows out: four times the half that each has.
    two = one.with_parameters({1: {"mean": [-2.0, 2.0], "variance": [1.0, 1.0]}, first: [[0.5, 0.5, 0.0, 0.0]]})
    assert fp.curvature.trace(two, X).mean() > ONE_GAUSSIAN
