"""`Regularizer`: what a regulariser is. It acts where its class defines one of the hooks below, and nowhere else.

| hook | where it acts | with |
|---|---|---|
| `counts` | counts that are added to flows | EM |
| `m_step` | the M-step's equation | EM |
| `penalty` | a penalty on the curvature, whose gradient the engine has | gradient |
| `gradient` | the gradient of a penalty on the unconstrained parameters | gradient |
| `offset` | the point at which a gradient is taken | gradient |
| `unconstrained` | the parameters that are learnt | gradient |
| `collect` | the flows of rows | EM, gradient |
| `around` | the whole run: structure, parts of the epochs | EM, gradient |

Counts and gradients add up. Two regularisers that define the same one of the other hooks would overrule each other, and are
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flatpc._typing import Array
from flatpc.errors import OptionError

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.engine.contract import Evaluator
    from flatpc.learning.fitting import Fit
    from flatpc.learning.regularizers.sharpness import Sharpness
    from flatpc.learning.settings import Settings
    from flatpc.learning.steps.collect import Collect
    from flatpc.learning.steps.inputs import Group
    from flatpc.learning.steps.m_step import MStep
    from flatpc.learning.steps.method import Method
    from flatpc.learning.steps.rows import TrainingRows
    from flatpc.learning.steps.unconstrained import Unconstrained


HOOKS = {
    "em": ("counts", "m_step", "collect", "around"),
    "gradient": ("penalty", "gradient", "offset", "unconstrained", "collect", "around"),
    "newton": ("counts",),
}
"""Which hooks each kind of method uses."""
ALONE = {
    "m_step": "both put an equation of their own into the M-step",
    "penalty": "both penalise the curvature",
    "offset": "both say where the gradient is taken",
    "unconstrained": "both generate the weights",
    "collect": "both change the flows of rows",
    "around": "both change the structure",
}
"""Hooks that one regulariser of a run may define, and why."""


class Regularizer:
    """Base class of regularisers, yours included: define at least one hook.

    A regulariser is best a frozen dataclass: its options are then compared when a run is resumed from a checkpoint. `m_step`,
    `penalty`, `unconstrained`, `collect` and `around` work with the engine's own arrays; for an M-step, `fp.learning.EMUpdate` is
    simpler to inherit from.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import flatpc as fp
    >>> @dataclass(frozen=True)
    ... class WeightDecay(fp.learning.Regularizer):
    ...     strength: float = 0.01
    ...
    ...     def gradient(self, z):
    ...         return self.strength * z
    >>> X = np.random.default_rng(0).integers(0, 2, size=(100, 4))
    >>> circuit = fp.structures.hclt(X, n_latents=3)
    >>> fp.fit(circuit, X, method="adam", epochs=5, regularizer=WeightDecay(), progress=False).stopped
    'epochs'

    Where `Sharpness` acts:

    >>> hooks = ["counts", "m_step", "penalty", "gradient", "offset", "unconstrained", "collect", "around"]
    >>> [hook for hook in hooks if fp.Sharpness.defines(hook)]
    ['m_step', 'penalty']

    What goes with what:

    >>> laplace = fp.learning.Laplace(1.0)
    >>> laplace.objection(fp.learning.Laplace(0.1), fp.EM())[:28]
    'both are for the same units '
    >>> laplace.check(fp.EM(), judged=False)
    """

    # ---- hooks ----------------------------------------------------------------------------------------------------

    def counts(self) -> tuple[float, float]:
        """Counts that are added to flows, as if seen in all the data.

        Returns
        -------
        tuple of float
            Counts of each sum unit, spread over its edges, and of each unit of an input, spread over its values.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def m_step(self, evaluator: Evaluator, groups: Sequence[Group]) -> MStep:
        """The M-step of a run.

        Parameters
        ----------
        evaluator
            The circuit that is learnt.
        groups
            Its inputs.

        Returns
        -------
        MStep
            An object whose `update` puts new parameters in place.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def penalty(self) -> Sharpness:
        """The penalty on the curvature.

        Returns
        -------
        Sharpness
            Its weight and its space.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def gradient(self, z: Array) -> Array:
        """The gradient of a penalty on the unconstrained parameters; it is added to that of the mean NLL.

        Parameters
        ----------
        z
            A copy of the parameters: logits of weights and tables, and what other families learn.

        Returns
        -------
        array
            Of the shape of `z`.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def offset(self, z: Array, gradient: Array) -> Array:
        """From the present parameters to where the gradient of a step is taken.

        Parameters
        ----------
        z
            The unconstrained parameters.
        gradient
            The gradient there.

        Returns
        -------
        array
            Of the shape of `z`.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def unconstrained(self, evaluator: Evaluator, seed: int) -> Unconstrained:
        """The parameters that are learnt in place of logits.

        Parameters
        ----------
        evaluator
            The circuit that is learnt.
        seed
            Random seed.

        Returns
        -------
        Unconstrained
            The vector z, and its way to and from the circuit's parameters.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def collect(self, evaluator: Evaluator, rows: TrainingRows, seed: int, rank: int) -> Collect:
        """What adds up the flows of a batch.

        Parameters
        ----------
        evaluator
            The circuit that is learnt.
        rows
            All rows to learn from.
        seed
            Random seed.
        rank
            The number of this process among several.

        Returns
        -------
        Collect
            An object whose `statistics` are summed over rows.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    def around(self, learn: Callable[[Circuit, Any, Settings], Fit], circuit: Circuit, X: Any, settings: Settings) -> Fit:
        """The whole run, made of parts.

        Parameters
        ----------
        learn
            Makes one part from a circuit, rows and settings.
        circuit
            Where to start.
        X
            Rows to learn from.
        settings
            Those of `fit`, without this regulariser.

        Returns
        -------
        Fit
            What `fit` returns.

        Raises
        ------
        NotImplementedError
            Unless a subclass defines it.
        """
        raise NotImplementedError

    # ---- whom it goes with ----------------------------------------------------------------------------------------

    def objection(self, other: Regularizer, method: Method) -> str:
        """Why it can't be combined with another one.

        Parameters
        ----------
        other
            Another regulariser of the same run.
        method
            How the run learns.

        Returns
        -------
        str
            The reason, such as "both change the structure"; empty if there is none.
        """
        return ""

    def check(self, method: Method, judged: bool) -> None:
        """Raise `OptionError` if it doesn't go with the method's options, or needs validation rows.

        Parameters
        ----------
        method
            How the run learns.
        judged
            Whether there are validation rows.
        """

    # ---- questions ------------------------------------------------------------------------------------------------

    @classmethod
    def defines(cls, hook: str) -> bool:
        """Whether the class acts there.

        Parameters
        ----------
        hook
            The name of a hook.

        Returns
        -------
        bool
            True if the class, or one that it inherits from, defines the hook.
        """
        return getattr(cls, hook) is not getattr(Regularizer, hook)


def check_kind(part: Regularizer, method: Method) -> None:
    """Raise unless the method uses a hook that the regulariser defines."""
    name = type(part).__name__
    if any(part.defines(hook) for hook in HOOKS[method.kind]):
        return
    if not any(part.defines(hook) for hooks in HOOKS.values() for hook in hooks):
        raise OptionError(f"{name} defines no hook of fp.learning.Regularizer, so it would do nothing; define one.")
    if method.kind == "em":
        raise OptionError(f"{name} is for gradient learning; leave it out with method='em', or choose 'adam' or 'sgd'.")
    if method.kind == "newton":
        raise OptionError(f"method={method.name!r} takes fp.learning.Laplace only; leave {name} out, or choose 'em' or 'adam'.")
    raise OptionError(f"{name} changes the M-step of EM; leave it out with method={method.name!r}.")
