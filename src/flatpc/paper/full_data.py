"""With all rows of the binary benchmarks: our default beside the best that has been published.

`published.csv` holds mean test log-likelihoods: `hclt` of hidden Chow-Liu trees with soft data and entropy regularisation (Liu
and Van den Broeck, NeurIPS 2021: the iteration that validation likes best, mean of five seeds, from the logs in the authors'
repository), `expc` of the best single tractable learner that reports all twenty, of the results that we could read (Di Mauro et
al., UAI 2021, supplement, table 7). A variational autoencoder has a higher mean, of a bound and not of a likelihood.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from flatpc.paper import printed as paper
from flatpc.paper.cells import Result
from flatpc.paper.text_tables import markdown

LEARNERS = ("hclt", "expc")
HEAD = ("data set", "default", "paper's regularised", "HCLT 2021", "EXPC 2021")


@dataclass(frozen=True)
class Entry:
    """A data set: mean test log-likelihoods."""

    dataset: str
    ours: float
    others: tuple[float, ...]
    """The paper's regularised model, and `LEARNERS`."""


@cache
def published() -> dict[str, tuple[float, ...]]:
    """Data set -> test log-likelihoods of `LEARNERS`.

    >>> published()["dna"]
    (-79.051, -84.83)
    """
    text = resources.files(__package__).joinpath("published.csv").read_text()
    return {row["dataset"]: tuple(float(row[name]) for name in LEARNERS) for row in csv.DictReader(text.splitlines())}


def entries(results: Iterable[Result]) -> list[Entry]:
    """One for each data set that has been run."""
    found = []
    for result in results:
        if not result.error and result.cell.protocol == "text":
            name = result.cell.dataset
            theirs = paper.value("hclt_nll", name, 1.0, "regularised")
            assert theirs is not None
            found.append(Entry(name, -result.metrics["test_nll"], (-theirs, *published()[name])))
    return sorted(found, key=lambda entry: entry.dataset)


def means(found: list[Entry]) -> tuple[float, float]:
    """Our mean over the data sets that have been run, and the best mean of `LEARNERS` over the same."""
    theirs = np.mean([entry.others[1:] for entry in found], axis=0)
    return float(np.mean([entry.ours for entry in found])), float(theirs.max())


def as_rows(found: list[Entry]) -> list[list[str]]:
    """Rows of a table as text, and their mean over the data sets that have been run."""
    numbers = [[e.ours, *e.others] for e in found]
    names = [e.dataset for e in found]
    if found:
        names.append(f"mean of {len(found)}")
        numbers.append([float(np.mean(column)) for column in zip(*numbers, strict=True)])
    return [[name, *(f"{number:.3f}" for number in row)] for name, row in zip(names, numbers, strict=True)]


def as_markdown(found: list[Entry]) -> str:
    """The table, or that there is none yet."""
    if not found:
        return "Not run yet; `flatpc reproduce full-data` does.\n"
    better = [sum(entry.ours > entry.others[i] for entry in found) for i in range(len(found[0].others))]
    names = ("the paper's regularised model", *HEAD[3:])
    against = ", ".join(f"than {name} on {n}" for name, n in zip(names, better, strict=True))
    minus = [[cell.replace("-", "−") for cell in row] for row in as_rows(found)]
    return f"{markdown(HEAD, minus)}\n\nThe default is better {against} of {len(found)} data sets.\n"
