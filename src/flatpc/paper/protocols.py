"""How each model is trained, in one place: as the paper's text says, as the authors' released code does, and as we recommend.

`DIFFERENCES` says side by side where the three differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from flatpc.errors import OptionError
from flatpc.paper.simple_densities import GRIDS, Grids

REPOSITORY = "https://github.com/starling-lab/sharpness-aware-pc"
COMMIT = "7a5f372"
"""Of the authors' release, which `code` follows."""


@dataclass(frozen=True)
class Einsum:
    """Einsum Networks, by Adam, on the manifolds."""

    name: str = "text"
    subset: str = "random"
    n_repetitions: int = 10
    n_sums: int = 10
    n_inputs: int = 10
    depth: int = 1
    min_variance: float = 1e-4
    max_variance: float = 10.0
    start: str = "einsum"
    epochs: int = 200
    batch_size: int = 200
    step_size: float = 0.1
    space: str = "weights"
    rule: str = "overfitting"
    clip: float | None = None
    patience: int | None = None
    """Epochs without a better validation NLL after which the best model is taken; None takes the last one."""


@dataclass(frozen=True)
class Hclt:
    """Hidden Chow-Liu trees, by EM, on the binary benchmarks."""

    name: str = "text"
    subset: str = "random"
    n_latents: int = 100
    tree_rows: int | None = None
    epochs: int = 100
    batch_size: int | None = 200
    step_size: float = 0.1
    input_pseudocount: float = 0.01
    unit: str = "batch-counts"
    leftover: int | None = None
    """Rows of a batch whose flows are counted twice more in every M-step; None counts each row once."""
    patience: int | None = None
    """As of `Einsum`."""
    sharpness_rows: int = 2000
    """Sharpness is a mean over so many training rows at most, the first ones."""


@dataclass(frozen=True)
class EinsumTable(Einsum):
    """The same, and what stands beside them in table 1."""

    densities: Grids = GRIDS
    effort: float = 10.0
    """Of `fp.choose`, in seconds of work."""


@dataclass(frozen=True)
class HcltTable(Hclt):
    """The same, and what stands beside them in table 2."""

    smoothings: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    """Of the factorised model and the Chow-Liu tree, chosen by validation NLL."""


EINSUM = {
    "text": Einsum(),
    "code": Einsum("code", subset="first", n_repetitions=5, space="logit-gradient", rule="released"),
    "ours": Einsum("ours", clip=1.0, patience=50),
}
HCLT = {
    "text": Hclt(),
    "code": Hclt("code", "first", tree_rows=200, batch_size=None, input_pseudocount=0.0, unit="counts", leftover=200),
    "ours": Hclt("ours", unit="counts", patience=10),
}
NAMES = tuple(EINSUM)


@dataclass(frozen=True)
class Difference:
    """One thing that the protocols do differently, in a few words for each."""

    what: str
    text: str
    code: str
    ours: str


DIFFERENCES = {
    "table1": (
        Difference("training rows", "a random subset, by trial", "the first of a draw by trial", "as `text`"),
        Difference("repetitions", "10", "5: a misspelt option", "10"),
        Difference(
            "leaves", "not said; as `code`", "variances of 0.0001 to 10 through a sigmoid of r, from r in N(0, 1)", "as `code`"
        ),
        Difference("first weights", "not said; as `code`", "almost uniform: a softmax taken twice", "as `code`"),
        Difference("penalty", "trace in the weights", "squared logit gradients, called the trace", "trace in the weights"),
        Difference(
            "μ", "0.01, 0.05, 0.1, 0.5, 1; adaptive", "0.01, 0.1, 0.5, 1; adaptive", "0, 0.0001, 0.001, 0.01, 0.1, 1; adaptive"
        ),
        Difference(
            "adaptive μ",
            "κ^DoF, DoF relative to the training NLL, counted up to 100%",
            "κ^DoF, DoF relative to the validation NLL, only where the two NLLs part; a hundredth where they move the same way",
            "as `text`",
        ),
        Difference("gradients", "as they are", "as they are", "clipped at norm 1"),
        Difference("model", "after the last epoch", "after the last epoch", "stopped early"),
    ),
    "table2": (
        Difference("training rows", "a random subset, by trial", "the first, the same in every trial", "as `text`"),
        Difference("Chow-Liu tree", "of all training rows", "of at most 200 shuffled ones", "as `text`"),
        Difference("EM", "a step per batch of 200", "a step per epoch", "a step per batch of 200"),
        Difference(
            "μ",
            "as it is, with the flows of a batch",
            "as it is, with the flows of all rows",
            "times the batch's share of the rows",
        ),
        Difference(
            "flows",
            "each row once",
            "one batch of rows twice more: what measuring sharpness leaves behind (here: μ divided by what that adds)",
            "each row once",
        ),
        Difference("choice of μ", "0.01 to 1; mean flow", "0.01 to 1", "0, 0.0001 to 1 in decades; mean flow"),
        Difference(
            "values never seen",
            "not said; a hundredth of a row per input",
            "no smoothing: what is left of the start, 0.9¹⁰⁰ of it",
            "a hundredth of a row per input",
        ),
        Difference("model", "after the last epoch", "after the last epoch", "stopped early"),
    ),
}  # fmt: skip
"""By table. What the text doesn't say is done as in the authors' code, or, for unseen values, so that test NLLs are finite."""


def check_name(name: str) -> str:
    """The name of a protocol, if it is one."""
    if name not in NAMES:
        raise OptionError(f"Unknown protocol {name!r}; choose one of {', '.join(NAMES)}.")
    return name
