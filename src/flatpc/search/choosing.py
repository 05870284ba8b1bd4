"""`choose`: the structure, its size and its regulariser for a table, by rows that had no part in learning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from flatpc._options import choice, flag, seconds, seed_number, thread_count, whole_number, wrong
from flatpc._row_weights import read_weights
from flatpc.engine import clock
from flatpc.errors import OptionError
from flatpc.families import Family
from flatpc.learning.regularizers.sharpness import is_auto
from flatpc.search.checkpoints import Checkpoints
from flatpc.search.choice import Choice
from flatpc.search.folds import check_jobs
from flatpc.search.from_sources import learn_on
from flatpc.search.judging import JUDGES
from flatpc.search.plans import Wishes, check_wishes
from flatpc.search.samples import Sample
from flatpc.search.scaling import Scaling
from flatpc.search.stages import Search, Watch
from flatpc.search.suiting import choose_families, normal_instead
from flatpc.search.work import read_effort
from flatpc.structures.options import FamilyLike, read_columns
from flatpc.tables.reading import MISSING
from flatpc.tables.sources import as_source, is_source

FAMILIES_SHARE = 0.15
"""Of the work, the most for the choice of columns' families."""


def choose(
    X: Any,
    *,
    valid: Any = None,
    family: FamilyLike = "bernoulli",
    groups: Any = None,
    sample_weight: Any = None,
    valid_weight: Any = None,
    effort: str | float = "normal",
    judge: str = "auto",
    structure: str = "auto",
    n_latents: int | str = "auto",
    regularizer: Any = "auto",
    sharpness: Any = "auto",
    average: bool = True,
    time_budget: float | None = None,
    seed: int = 0,
    missing: str = "raise",
    n_threads: int | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Choice:
    """Choose a model of the rows X, from independent columns to averages of hidden trees, and fit it.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(300, 4))
    >>> choice = fp.choose(X, effort=1, progress=False)
    >>> choice.circuit.n_variables, choice.valid_nll <= min(c.valid_nll for c in choice.candidates)
    (4, True)

    1. Independent columns and Chow-Liu trees with several smoothings; all of them, always. Kernel densities, where columns hold
       numbers and there are up to 1,000 rows.
    2. Mixtures of Chow-Liu trees.
    3. Models with latents, of several structures, sizes and starts, by successive halving: all are trained a little, the better
       half goes on for twice as long, until two are left. Where columns hold numbers, also with skewed ones mapped by a
       logarithm or a power, and then with twice as many latents while that helps, or else half as many.
    4. The better one with several regularisers, and with other floors of the variance of Gaussian inputs.
    5. What pays less often, with a quarter of what is left: families for categories in order, maps by quantiles, hidden trees
       whose leaves are blocks of correlated columns, Gaussians of low rank, and several families to a unit.
    6. The best one again with trees from other samples of the rows, and then the best of other kinds, while any effort is left.
    7. The average of the best, if a mixture of them does better on judges that had no part in its weights. The weights of the
       mixture are then fitted to all judges.

    Parameters
    ----------
    X
        Rows to learn from. Of a source of rows, a sample of 100,000 is chosen by; what is chosen is then learnt on, for one epoch
        of EM with small steps, from all of them.
    valid
        Rows to choose by. Where there are more of them than rows to learn from, and columns hold numbers, independent columns and
        kernel densities are also tried with the location and spread of columns in both. Without validation rows up to 2,000 rows
        are cross-validated in five folds (fewer than 100 twice), of more rows a fifth is held out; what is chosen is then built
        anew from all rows and trained as before, or, where columns hold numbers and rows are many, trained on with all of them.
    family
        As for `fp.structures.factorized`. Trees and their mixtures are tried where all variables are Bernoulli or Categorical.
    groups
        One label for each row; rows of one group are never on both sides of a split.
    sample_weight
        How often each row of X counts: one number of 0 or more per row. Whole numbers are the same as repeating rows, with all
        copies of a row in one group; the sum is the number of rows by which sizes and smoothing are chosen, so give importance
        weights a mean of 1. None counts each row once.
    valid_weight
        How often each row of `valid` counts.
    effort
        The most work to spend: `"quick"`, `"normal"` or `"thorough"`, about 5, 30 and 120 seconds on one core, or a number of
        such seconds. It is counted, not timed: one seed gives one model on all machines whose processors
        round alike.
    judge
        `"auto"` as said under `valid`; `"valid"`, `"cv"` and `"holdout"` insist on one of the three. `"loo"` (each row left out,
        by curvature) and `"evidence"` (weights integrated out; no average) learn every model once, from all rows; they are for
        tables whose columns all have categories, and with few rows they pick worse models than `"cv"` does
        (`docs/how-to/choosing-without-validation.md`).
    structure, n_latents
        `"auto"` tries several; otherwise only these are tried.
    regularizer, sharpness
        `"auto"` tries several, None uses none; anything else is as for `fit`, and used for all trained models.
    average
        False chooses a single model.
    time_budget
        A limit in seconds of the clock. What was found by then is chosen from, and `choice.cut_short` says so.
    seed
        Random seed.
    missing, n_threads
        As for `fit`.
    n_jobs
        Processes that train the folds of a model at the same time, where rows judge in turn; None takes joblib's own setting
        (`joblib.parallel_config`), so that a Dask or Ray backend serves as well. The choice is the same, bit by bit.
    progress
        Say on stderr what has been found.

    Returns
    -------
    Choice
        The circuit, what it is made of, and all that was tried. Ctrl-C ends the search with the best so far.

    Raises
    ------
    OptionError
        An option is wrong, or a structure doesn't suit the columns.
    DataError
        Rows can't be read, or have missing values that `missing` doesn't allow.
    """
    source = as_source(X)
    if source is not None and not (groups is None and sample_weight is None):
        raise OptionError("groups and sample_weight are of rows in memory; leave them out for a source of rows.")
    rows, families = read_columns(X, family)
    weights = read_weights(sample_weight, len(rows))
    if weights is not None and not weights.all():
        # What a row of weight 0 holds isn't there.
        families = read_columns(rows[weights > 0], family)[1]
    judges = None if valid is None else Sample.read(read_columns(valid, families)[0], valid_weight)
    check_valid_weight(valid, valid_weight)
    wishes = Wishes(structure, None if is_auto(n_latents) else whole_number("n_latents", n_latents, 1, why="or 'auto'"))
    found = search(
        Sample.of(rows, weights, groups), families, valid=judges, effort=effort, judge=judge, wishes=wishes,
        regularizer=regularizer, sharpness=sharpness, average=average, time_budget=time_budget, seed=seed, missing=missing,
        n_threads=n_threads, n_jobs=n_jobs, say=_to_stderr if flag("progress", progress) else None,
    )  # fmt: skip
    if source is None:
        return found
    return learn_on(found, source, seed=seed_number(seed), missing=missing, n_threads=thread_count(n_threads))


def check_valid_weight(valid: Any, valid_weight: Any) -> None:
    """Raise for weights of validation rows that aren't there, or come from a source."""
    if valid_weight is not None and (valid is None or is_source(valid)):
        what = "pass valid=..., or leave it out" if valid is None else "give validation rows that are in memory"
        raise wrong("valid_weight", valid_weight, f"it counts validation rows; {what}.")


def search(
    rows: Sample,
    families: Sequence[Family | Sequence[Family]],
    *,
    valid: Sample | None = None,
    effort: str | float = "normal",
    judge: str = "auto",
    wishes: Wishes | None = None,
    regularizer: Any = "auto",
    sharpness: Any = "auto",
    average: bool = True,
    time_budget: float | None = None,
    seed: int = 0,
    missing: str = "raise",
    n_threads: int | None = None,
    n_jobs: int | None = None,
    names: Sequence[str] | None = None,
    watch: Watch | None = None,
    say: Callable[[float, str], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Choice:
    """`choose` for rows that have been read; columns may have several families to choose from. `names` are for messages."""
    began, wishes = clock.now(), wishes or Wishes()
    choice("judge", judge, JUDGES)
    work = read_effort(effort)
    several = [[given] if isinstance(given, Family) else list(given) for given in families]
    # Numbers too large to be squared are refused before any is.
    Scaling.learn(rows.X, [next((f for f in given if f.can_rescale), given[0]) for given in several], names, weights=rows.weights)
    kinds, spent = choose_families(rows, families, seed_number(seed), FAMILIES_SHARE * work)
    check_wishes(wishes, kinds)
    normal = [normal_instead(kind, given) for kind, given in zip(kinds, families, strict=True)]
    return Search(
        rows, kinds, several, normal, valid, work, spent, judge, wishes, regularizer, sharpness, flag("average", average),
        began, None if time_budget is None else seconds("time_budget", time_budget), seed_number(seed),
        choice("missing", missing, MISSING), thread_count(n_threads), check_jobs(n_jobs), names, watch, say, checkpoints,
    ).run()  # fmt: skip


def _to_stderr(spent: float, what: str) -> None:
    print(f"{spent:6.1f} s of work  {what}", file=sys.stderr)
