"""The penalty inside a training loop: structure and rows are planned once, parameters change from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flatpc._options import flag, several, thread_count, wrong
from flatpc._row_weights import read_weights
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.curvature.layout import Layout, check_space
from flatpc.curvature.penalties import PENALTY_SPACES, Penalty, penalty_of_rows

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


class PreparedPenalty:
    """`fp.curvature.penalty` of some of the rows at a time, with nothing planned twice.

    Parameters
    ----------
    circuit
        A circuit without tied parameters.
    X
        All rows.
    space
        As for `penalty`.
    include_inputs
        Count the probabilities of Bernoulli and Categorical inputs as weights too.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.
    n_threads
        Threads to use; None takes all cores.

    Raises
    ------
    TiedParametersError
        If parameters are tied.
    OptionError
        If an option is wrong.
    DataError
        If rows can't be read, or don't suit the circuit.

    Examples
    --------
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Bernoulli(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum(children=(0,))], {0: {"p": [0.2, 0.8]}, 1: [[0.5, 0.5]]})
    >>> prepared = fp.curvature.PreparedPenalty(c, [[1], [0]])
    >>> round(prepared.of([0]).value, 6)
    2.72
    >>> moved = c.with_parameters({1: [[0.4, 0.6]]})
    >>> prepared.of([0], circuit=moved).value == fp.curvature.penalty(moved, [[1]]).value
    True
    """

    def __init__(
        self,
        circuit: Circuit,
        X: Any,
        *,
        space: str = "weights",
        include_inputs: bool = False,
        missing: str = "raise",
        n_threads: int | None = None,
    ) -> None:
        self._space = check_space(space, PENALTY_SPACES)
        include_inputs, threads = flag("include_inputs", include_inputs), thread_count(n_threads)
        rows = read_rows(check_circuit(circuit), X, missing)
        Layout(circuit, include_inputs).refuse_ties("trace")
        from flatpc.curvature.passes import Passes
        from flatpc.engine.numba.evaluator import Evaluator
        from flatpc.engine.numba.evidence import Evidence

        self._passes = Passes(Evaluator(circuit, "float64", threads), include_inputs, leaves=False)
        self._evidence = Evidence(self._passes.program, rows)

    def of(self, rows: Any = None, *, circuit: Circuit | None = None, sample_weight: Any = None) -> Penalty:
        """The penalty summed over some rows, and its gradient.

        Parameters
        ----------
        rows
            Numbers of rows; None takes all of them.
        circuit
            The same structure with other parameters, which stay for later calls. Optional.
        sample_weight
            How often each of these rows counts. Optional.

        Returns
        -------
        Penalty
            `value` and `gradient`, node by node.

        Raises
        ------
        OptionError
            If there are no such rows, weights are wrong, or the circuit has another structure.
        """
        if circuit is not None:
            self._take(check_circuit(circuit))
        chosen = np.arange(len(self._evidence)) if rows is None else _row_numbers(rows)
        weights = read_weights(sample_weight, len(chosen))
        value, gradient = penalty_of_rows(self._passes, self._evidence, chosen, space=self._space, row_weights=weights)
        return Penalty(value, self._passes.layout.arrays(gradient))

    def _take(self, circuit: Circuit) -> None:
        """The parameters of another circuit."""
        from flatpc.engine.numba import packing

        evaluator = self._passes.evaluator
        if circuit.nodes != evaluator.circuit.nodes:
            raise wrong("circuit", circuit, "give one with the same nodes, such as circuit.with_parameters(...) returns.")
        evaluator.weights[:] = packing.pack_weights(circuit, evaluator.program, "float64")
        evaluator.inputs[:] = packing.pack_inputs(circuit, evaluator.program)


def _row_numbers(rows: Any) -> NDArray[Any]:
    """As an array; whether it holds numbers of rows is looked at later."""
    if isinstance(rows, np.ndarray):
        return rows
    try:
        return np.asarray(several("rows", rows, "a list of row numbers"))
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise wrong("rows", rows, "give a list of row numbers.") from error
