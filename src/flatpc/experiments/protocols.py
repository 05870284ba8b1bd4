"""How each model is trained, in one place: as the paper's text says, and as the authors' released code does.

| | `text` | `code` |
|---|---|---|
| training rows | a random subset, by trial | the first rows, the same in every trial |
| Einsum Networks | 10 repetitions, penalty in the weights | 5 repetitions, penalty on squared logit gradients |
| Chow-Liu tree | of all training rows | of at most 200 shuffled ones |
| EM | a step per batch of 200 | a step per epoch |
| values never seen | `input_pseudocount` of a row per input | no smoothing: what is left of the start, 0.9¹⁰⁰ of it |

The text has no smoothing of inputs. With a step per batch nothing is left of the start after an epoch or two, and one value in
the test rows that training never had makes the test NLL infinite; a hundredth of a row per input, in all arms alike, keeps it
finite.
"""

from __future__ import annotations

from dataclasses import dataclass

from flatpc.errors import OptionError


@dataclass(frozen=True)
class Einsum:
    """Einsum Networks, by Adam, on the manifolds."""

    name: str = "text"
    subset: str = "random"
    n_repetitions: int = 10
    n_sums: int = 10
    n_inputs: int = 10
    depth: int = 1
    epochs: int = 200
    batch_size: int = 200
    step_size: float = 0.1
    space: str = "weights"


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
    sharpness_rows: int = 2000
    """Sharpness is a mean over so many training rows at most, the first ones."""


EINSUM = {"text": Einsum(), "code": Einsum("code", subset="first", n_repetitions=5, space="logit-gradient")}
HCLT = {"text": Hclt(), "code": Hclt("code", subset="first", tree_rows=200, batch_size=None, input_pseudocount=0.0)}
NAMES = tuple(EINSUM)


def check_name(name: str) -> str:
    """The name of a protocol, if it is one."""
    if name not in NAMES:
        raise OptionError(f"Unknown protocol {name!r}; choose one of {', '.join(NAMES)}.")
    return name
