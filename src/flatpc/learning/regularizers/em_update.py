"""An M-step of your own: a function from the flows of a sum's edges to its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatpc._typing import Array
from flatpc.errors import OptionError
from flatpc.learning.regularizers.base import Regularizer

if TYPE_CHECKING:
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.steps.inputs import Group
    from flatpc.learning.steps.m_step import MStep


class EMUpdate(Regularizer):
    """Base class of updates of EM: define `solve`, and the M-step of all sums and mixtures is yours.

    Inputs are updated as usual. Steps, momentum, anemone, batches and checkpoints work as with any other update. A step needs
    the flows of all edges at once, which takes longer than the native updates do.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import flatpc as fp
    >>> @dataclass(frozen=True)
    ... class Tempered(fp.learning.EMUpdate):
    ...     power: float = 0.9
    ...
    ...     def solve(self, flows, old, share):
    ...         return flows**self.power
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=3)
    >>> fp.fit(circuit, X, regularizer=Tempered(), epochs=5, progress=False).stopped
    'epochs'
    """

    def solve(self, flows: Array, old: Array, share: float) -> Any:
        """New weights of one sum or mixture.

        Parameters
        ----------
        flows
            `[units, edges]`: flows of a batch, with pseudocounts.
        old
            `[units, edges]`: the present weights.
        share
            Share of the batch in the data; flows divided by it are those of all the data.

        Returns
        -------
        array
            `[units, edges]`, 0 or more. Each unit's are normalised; a unit whose weights are all 0 keeps its old ones.

        Raises
        ------
        OptionError
            Unless a subclass defines it.
        """
        kind = type(self).__name__
        raise OptionError(f"{kind} has no solve, the M-step of fp.learning.EMUpdate; define it.", option="regularizer")

    def m_step(self, evaluator: Evaluator, groups: Sequence[Group]) -> MStep:
        """The M-step of a run."""
        from flatpc.learning.steps.m_step import SolvedStep

        return SolvedStep(type(self).__name__, self.solve, evaluator, groups)
