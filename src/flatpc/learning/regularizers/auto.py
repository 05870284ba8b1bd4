"""`sharpness="auto"` and `regularizer="auto"` of `fit`: try several on validation rows, then fit with the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from flatpc._messages import VALID, Message
from flatpc.errors import OptionError
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.sharpness import Sharpness, check_sharpness, is_auto
from flatpc.learning.regularizers.together import Regularizers
from flatpc.learning.steps.method import Method

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.learning.fitting import Fit
    from flatpc.learning.settings import Settings

SHARPNESS = (Sharpness(mu=0.01), Sharpness(mu=0.1), Sharpness(mu=1.0))
"""Candidates of `sharpness="auto"`; for EM μ is in counts over the whole data."""
LAPLACE = (Laplace(1.0, on="sums"), Laplace(10.0, on="sums"), Laplace(1.0, on="inputs"))
"""Further candidates of `regularizer="auto"`, for EM."""
TRIAL_SHARE = 0.2
"""Of the epochs, for which each candidate is tried."""


def candidates(regularizer: Any, sharpness: Any, method: Method) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """The regularisers that are given, and those to try along with them, if the choice of one or both is left to us."""
    given: tuple[Any, ...] = ()
    tried: list[Any] = []
    if sharpness is not None and not is_auto(sharpness):
        check_sharpness(sharpness)
    for option, several in ((sharpness, SHARPNESS), (regularizer, LAPLACE if method.kind == "em" else ())):
        if is_auto(option):
            tried += several
        elif option is not None:
            given += Regularizers.read(option, method).parts
    Regularizers.read(list(given), method)
    return given, [(*given, part) for part in tried if _go_together((*given, part), method)]


def fit_auto(
    learn: Callable[[Circuit, Any, Settings], Fit], circuit: Circuit, X: Any, settings: Settings, regularizer: Any, sharpness: Any
) -> Fit:
    """Learn with the regulariser that validation likes best, or none.

    Each is tried for a fifth of the epochs, from the same start; the best is then used for all of them. Each trial has a
    checkpoint of its own, numbered from 0.
    """
    if settings.valid is None:
        raise OptionError(Message(f"'auto' chooses a regulariser by validation rows; pass {VALID}", VALID))
    given, tried = candidates(regularizer, sharpness, settings.method)
    trial = replace(settings, epochs=max(1, round(TRIAL_SHARE * settings.epochs)), progress=False)
    judged = []
    for number, parts in enumerate((given, *tried)):
        run = replace(settings.run.part(number), log=None, callbacks=())
        judged.append((learn(circuit, X, replace(trial, regularizers=Regularizers(parts), run=run)).best_nll, parts))
    best_nll, best = min(judged, key=lambda pair: pair[0])
    result = learn(circuit, X, replace(settings, regularizers=Regularizers(best)))
    name = " + ".join(short(part) for part in best) or "no regulariser"
    note = f"Chose {name} of {len(judged)} candidates: validation NLL {best_nll:.4f} after {trial.epochs} epochs."
    return replace(result, notes=[*result.notes, note])


def _go_together(parts: tuple[Any, ...], method: Method) -> bool:
    try:
        Regularizers.read(list(parts), method)
    except OptionError:
        return False
    return True


def short(options: Any) -> str:
    """A dataclass with only those fields that are not as usual.

    >>> short(Laplace(0.5, on="all"))
    'Laplace(pseudocount=0.5)'
    """
    if not is_dataclass(options):
        return repr(options)
    unusual = [(f.name, getattr(options, f.name)) for f in fields(options) if getattr(options, f.name) != f.default]
    return f"{type(options).__name__}({', '.join(f'{name}={value!r}' for name, value in unusual)})"
