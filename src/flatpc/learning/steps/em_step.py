"""`fp.learning.EMStep`: the two halves of an EM step, for rows that come in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import choice, instance, number, seed_number, thread_count
from flatpc._row_weights import SMALLEST
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.engine.contract import check_arithmetic, get_evaluator
from flatpc.errors import OptionError
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.run.distributed import Workers
from flatpc.learning.steps.em import EM
from flatpc.learning.steps.em_learner import Statistics
from flatpc.learning.steps.method import read_method
from flatpc.learning.steps.rows import TrainingRows
from flatpc.tables.reading import MISSING

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit

_GIVE = "what accumulate returned, or a sum of such"


class EMStep:
    """Expectation maximisation, one step at a time: `accumulate` statistics over any parts of the data, then `apply` their sum.

    `fp.fit` is a loop over the two; use them yourself where rows don't fit into memory, or come from elsewhere. Statistics add
    up over parts and over machines.

    Parameters
    ----------
    circuit
        Where to start; it is not changed.
    n_rows
        Rows of the whole data set, or the sum of their weights. Pseudocounts and μ are those of so much data.
    method
        `"em"`, or `fp.EM(...)` with options.
    regularizer
        As for `fp.fit`, except those that need the rows before the first step, such as `Softening`, or that make runs of
        their own, such as `PruneGrow`.
    seed
        Random seed, of what regularisers draw.
    missing
        `"raise"`, or `"marginalize"` to learn from rows with NaN.
    engine, device, dtype
        As for `fp.fit`.
    n_threads
        Threads to use; None takes all cores.

    Raises
    ------
    OptionError
        If an option is wrong, or two don't go together.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> parts = [np.random.default_rng(seed).integers(0, 2, size=(50, 4)) for seed in range(3)]
    >>> step = fp.learning.EMStep(fp.structures.hclt(parts[0], n_latents=3), n_rows=150, method=fp.EM(step_size=1.0))
    >>> likelihoods = []
    >>> for _ in range(4):
    ...     total = sum((step.accumulate(part) for part in parts[1:]), step.accumulate(parts[0]))
    ...     likelihoods.append(total.log_likelihood)
    ...     step.apply(total)
    >>> likelihoods == sorted(likelihoods)          # EM climbs
    True
    >>> step.circuit.n_variables
    4
    """

    def __init__(
        self,
        circuit: Circuit,
        *,
        n_rows: float,
        method: str | EM = "em",
        regularizer: Any = None,
        seed: int = 0,
        missing: str = "raise",
        engine: str = "auto",
        device: Any = None,
        dtype: str = "float32",
        n_threads: int | None = None,
    ) -> None:
        how: EM = instance("method", read_method(method), EM, "'em' or fp.EM(...)")
        chosen = Regularizers.read(regularizer, how)
        for hook in ("collect", "around"):
            if (part := chosen.that_defines(hook)) is not None:
                raise OptionError(
                    f"{type(part).__name__} needs all rows, which EMStep doesn't have; use fp.fit.", option="regularizer"
                )
        chosen.check(how, judged=False)
        self._missing = choice("missing", missing, MISSING)
        weight = number("n_rows", n_rows, SMALLEST, what="it is the number of rows of the whole data set, or their weight")
        threads, arithmetic = thread_count(n_threads), check_arithmetic(dtype)
        evaluator = get_evaluator(check_circuit(circuit), engine=engine, device=device, dtype=arithmetic, n_threads=threads)
        self._learner = how.learner(evaluator, TrainingRows(np.empty((0, 0)), total=weight), chosen, Workers(), seed_number(seed))

    def accumulate(self, X: Any, *, sample_weight: Any = None) -> Statistics:
        """The E-step over some rows, at the present parameters.

        Parameters
        ----------
        X
            Rows.
        sample_weight
            How often each row counts. Optional.

        Returns
        -------
        Statistics
            Sums over the rows; `+` adds them up.

        Raises
        ------
        DataError
            If rows can't be read, don't suit the circuit, or have missing values that `missing` doesn't allow.
        """
        evaluator = self._learner.evaluator
        rows = TrainingRows.read(read_rows(evaluator.circuit, X, self._missing), sample_weight)
        return self._learner.accumulate(evaluator.evidence(rows.X), np.arange(len(rows.X)), rows.weights)

    def apply(self, statistics: Statistics, *, progress: float = 0.0) -> None:
        """The M-step from statistics that were taken at the present parameters.

        Parameters
        ----------
        statistics
            What `accumulate` returned, or a sum of such.
        progress
            For schedules: 0 at the first step, 1 after the last.

        Raises
        ------
        OptionError
            If statistics are not of this circuit, or progress is not from 0 to 1.
        """
        instance("statistics", statistics, Statistics, _GIVE)
        evaluator = self._learner.evaluator
        if statistics.gradient.shape != evaluator.weights.shape or statistics.inputs.shape != evaluator.inputs.shape:
            raise OptionError("These statistics are of another circuit; accumulate with the same EMStep.", option="statistics")
        apart = replace(statistics, gradient=statistics.gradient.copy(), inputs=statistics.inputs.copy())
        self._learner.update(apart, number("progress", progress, 0.0, 1.0))

    @property
    def circuit(self) -> Circuit:
        """The circuit as it is now."""
        return self._learner.circuit()
