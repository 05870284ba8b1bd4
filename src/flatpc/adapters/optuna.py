"""A search with optuna, for those who have more than a minute: an objective whose trials are structures and regularisers.

    import optuna
    from flatpc.adapters import OptunaObjective

    objective = OptunaObjective(train, valid)
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner())
    objective.enqueue_simple(study)
    study.optimize(objective, timeout=3600)
    circuit = objective.circuit(study.best_trial)

| parameter | of | range |
|---|---|---|
| `structure` | every trial | `factorized`, `chow_liu` where all variables are finite, `hclt` |
| `smoothing`, `prior` | simple models, hidden trees that start from one | 0.1 to 300; `even`, `marginals` |
| `n_latents`, `init`, `noise` | `hclt` | up to 64; `random`, `chow-liu`; 0.03 to 1 |
| `step_size` | `hclt` | the first of a falling schedule, 0.05 to 0.8 |
| `sharpness`, `mu` | `hclt` | whether, and 0.001 to 3 |
| `laplace`, `pseudocount` | `hclt` | whether, and 0.01 to 30; of sums |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatpc._options import choice, seed_number, thread_count, whole_number, wrong
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.run.stopping import Stopping
from flatpc.search.floors import varying
from flatpc.search.judging import Split
from flatpc.search.plans import Plan, Wishes, counted_plans
from flatpc.search.samples import Sample
from flatpc.search.training import Round, Task, batch_size, run
from flatpc.structures.options import FamilyLike, read_columns
from flatpc.tables.reading import MISSING

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

MOST_LATENTS = 64
SMOOTHING = 0.1, 300.0
LAST_STEP = 0.1
"""The last step size of a run, in units of the first."""


class OptunaObjective:
    """The validation NLL, in nats per row, of what a trial suggests: an objective for `study.optimize`.

    Hidden trees are trained by EM, stopped early, and report every epoch, so that a pruner can end those that fall behind.

    >>> import numpy as np
    >>> import optuna
    >>> import flatpc as fp
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> X = np.random.default_rng(0).integers(0, 2, (60, 4))
    >>> objective = fp.adapters.OptunaObjective(X[:40], X[40:], epochs=2)
    >>> study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    >>> objective.enqueue_simple(study)
    >>> study.optimize(objective, n_trials=2)
    >>> objective.circuit(study.best_trial).n_variables
    4

    Parameters
    ----------
    X
        Rows to learn from.
    valid
        Rows to judge by.
    family
        As for `fp.structures.factorized`.
    epochs
        Largest number of epochs of a hidden tree.
    patience
        Number of epochs without a better validation NLL that end it earlier.
    seed
        Random seed of the structures and their parameters.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.
    n_threads
        Number of threads; by default one for each core.

    Raises
    ------
    OptionError
        For an option out of its range.
    DataError
        For rows that the families don't allow.
    """

    def __init__(
        self, X: Any, valid: Any, *, family: FamilyLike = "bernoulli", epochs: int = 60, patience: int = 10, seed: int = 0,
        missing: str = "raise", n_threads: int | None = None,
    ) -> None:  # fmt: skip
        rows, families = read_columns(X, family)
        judges, _ = read_columns(valid, families)
        self._task = Task(
            [Split(Sample(rows), Sample(judges))], families, seed_number(seed), choice("missing", missing, MISSING),
            thread_count(n_threads), varying(rows),
        )  # fmt: skip
        self._split = self._task.splits[0]
        self._epochs, self._patience = whole_number("epochs", epochs, 1), whole_number("patience", patience, 1)
        # Kernel densities and trees of bins have other options, which the objective doesn't search over.
        others = ("kernels", "binned_tree")
        counted = [plan for plan in counted_plans(families, Wishes(), len(rows)) if plan.structure not in others]
        self._simple = [plan for plan in counted if plan.options["smoothing"] is not None]
        self._trees = any(plan.structure == "chow_liu" for plan in self._simple)

    def enqueue_simple(self, study: Any) -> None:
        """Have the study begin with independent variables and Chow-Liu trees, so that its best is at least as good as these.

        Parameters
        ----------
        study
            An `optuna.Study`.

        Raises
        ------
        OptionError
            If it is something else.
        """
        if not hasattr(study, "enqueue_trial"):
            raise wrong("study", study, "give an optuna.Study.")
        for plan in self._simple:
            study.enqueue_trial({"structure": plan.structure, **plan.options}, skip_if_exists=True)

    def __call__(self, trial: Any) -> float:
        """What `study.optimize` calls."""
        return -float(self.circuit(trial).log_prob(self._split.valid.X, missing=self._task.missing).mean())

    def circuit(self, trial: Any) -> Circuit:
        """The circuit of a trial; for one that is over, it is learnt again, with the same result.

        Parameters
        ----------
        trial
            An `optuna.Trial`, or a trial of a study that is over.

        Returns
        -------
        Circuit
            As it was when the validation NLL was best.

        Raises
        ------
        OptionError
            If it is something else.
        """
        if not hasattr(trial, "suggest_categorical"):
            raise wrong("trial", trial, "give an optuna.Trial, or a trial of a study that is over.")
        structures = list(dict.fromkeys(plan.structure for plan in self._simple))
        structure = trial.suggest_categorical("structure", [*structures, "hclt"])
        if structure == "hclt":
            return self._hidden(trial)
        plan = Plan(structure, self._table_options(trial, structure == "chow_liu"))
        return plan.build(self._split.train, self._task.families, self._task.seed)

    def _hidden(self, trial: Any) -> Circuit:
        least = max(kind.n_categories or 2 for kind in self._task.families)
        options = {"n_latents": trial.suggest_int("n_latents", least, max(MOST_LATENTS, least), log=True)}
        if self._trees and trial.suggest_categorical("init", ["random", "chow-liu"]) == "chow-liu":
            noise = trial.suggest_float("noise", 0.03, 1.0, log=True)
            options |= {"init": "chow-liu", "noise": noise, **self._table_options(trial, True)}
        start = Plan("hclt", options, trained=True).build(self._split.train, self._task.families, self._task.seed)
        step = trial.suggest_float("step_size", 0.05, 0.8, log=True)
        size = batch_size(len(self._split.train), 0)
        planned = Round(self._epochs, size, step, LAST_STEP * step, _regularizer(trial), self._task.seed)

        def report(row: dict[str, float], circuit: Any) -> bool:
            trial.report(row["valid_nll"], int(row["epoch"]))
            return bool(trial.should_prune())

        valid, patience = self._split.valid, self._patience
        stopping = Stopping(patience)
        result = run(start, self._split.train, self._task, planned, valid=valid, stopping=stopping, callbacks=[report])
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        if result.stopped == "callback":
            from optuna import TrialPruned

            raise TrialPruned
        return result.best_circuit

    def _table_options(self, trial: Any, tree: bool) -> dict[str, Any]:
        options = {"smoothing": trial.suggest_float("smoothing", *SMOOTHING, log=True)}
        return {**options, "prior": trial.suggest_categorical("prior", ["even", "marginals"])} if tree else options


def _regularizer(trial: Any) -> tuple[Any, ...]:
    parts: list[Any] = []
    if trial.suggest_categorical("sharpness", [False, True]):
        parts.append(Sharpness(mu=trial.suggest_float("mu", 1e-3, 3.0, log=True)))
    if trial.suggest_categorical("laplace", [False, True]):
        parts.append(Laplace(trial.suggest_float("pseudocount", 1e-2, 30.0, log=True), on="sums"))
    return tuple(parts)
