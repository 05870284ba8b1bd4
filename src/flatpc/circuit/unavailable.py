"""What can't be asked of a circuit, because a family of its inputs doesn't define what that takes."""

from __future__ import annotations

from collections.abc import Iterable

from flatpc.families.base import Family

NEEDS: dict[str, tuple[str, ...]] = {
    "sample": ("sample",),
    "mpe": ("mode",),
    "expectation": ("mean",),
    "variance": ("mean", "variance"),
    "event_log_prob": ("cdf",),
    "conditional quantile": ("cdf", "quantile"),
    "EM": ("statistics", "update"),
    "gradients": ("statistics", "unconstrain", "constrain", "gradient"),
    "uncertainty of expectation": ("mean",),
}
"""Question -> methods of a family over one variable."""
NEEDS_OF_SEVERAL: dict[str, tuple[str, ...]] = {
    "sample": ("sample", "sample_given"),
    "mpe": ("log_density_at_mode", "mode_given"),
    "expectation": ("moments_given",),
    "variance": ("moments_given",),
    "event_log_prob": ("box_log_prob",),
    "conditional quantile": ("entry_given",),
    "EM": ("statistics", "update"),
    "gradients": ("statistics", "unconstrain", "constrain", "gradient"),
}
"""The same over several; what is missing is had of none."""


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
    if family.n_variables > 1:
        return question in NEEDS_OF_SEVERAL and family.defines(*NEEDS_OF_SEVERAL[question])
    if question == "sample":
        return family.defines("sample") or family.defines("quantile")
    if question == "gradients" and family.is_free_table:
        return True
    return family.defines(*NEEDS[question])
