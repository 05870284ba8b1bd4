"""What can't be asked of a circuit, because a family of its inputs doesn't define what that takes."""

from __future__ import annotations

from collections.abc import Iterable

from flatpc.families.base import Family

_LEARNT = ("statistics", "update")
_FREE = ("statistics", "unconstrain", "constrain", "gradient")
NEEDS: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "sample": (("sample",), ("sample", "sample_given")),
    "mpe": (("mode",), ("log_density_at_mode", "mode_given")),
    "expectation": (("mean",), ("moments_given",)),
    "variance": (("mean", "variance"), ("moments_given",)),
    "event_log_prob": (("cdf",), ("box_log_prob",)),
    "conditional quantile": (("cdf", "quantile"), ("entry_given",)),
    "EM": (_LEARNT, _LEARNT),
    "gradients": (_FREE, _FREE),
    "uncertainty of expectation": (("mean",), None),
}
"""Question -> methods of a family over one variable, and over several; None is had of no family over several."""


def unavailable(families: Iterable[Family]) -> dict[str, tuple[Family, ...]]:
    """Question -> the families that can't answer it; without those that all can.

    >>> from flatpc.families import Gaussian, MultivariateGaussian
    >>> unavailable([Gaussian(), MultivariateGaussian(2)]).keys()
    dict_keys(['uncertainty of expectation'])
    """
    kinds = list(dict.fromkeys(families))
    found = {question: tuple(family for family in kinds if not _answers(family, question)) for question in NEEDS}
    return {question: those for question, those in found.items() if those}


def _answers(family: Family, question: str) -> bool:
    if question in ("EM", "gradients") and not family.learnable:
        return True
    if question == "sample" and family.n_variables == 1 and family.defines("quantile"):
        return True
    needed = NEEDS[question][family.n_variables > 1]
    return needed is not None and family.defines(*needed)
