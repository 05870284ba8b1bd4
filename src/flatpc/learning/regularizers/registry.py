"""Regularisers by name."""

from __future__ import annotations

from typing import Any, TypeVar

from flatpc._options import wrong
from flatpc.errors import OptionError
from flatpc.learning.regularizers.base import Regularizer
from flatpc.learning.regularizers.dropout import Dropout
from flatpc.learning.regularizers.entropy import Entropy
from flatpc.learning.regularizers.hyper_weights import HyperWeights
from flatpc.learning.regularizers.laplace import Laplace
from flatpc.learning.regularizers.prune_grow import PruneGrow
from flatpc.learning.regularizers.sam import ASAM, SAM
from flatpc.learning.regularizers.sharpness import Sharpness
from flatpc.learning.regularizers.softening import Softening
from flatpc.learning.regularizers.weighted_trace import WeightedTrace

Kind = TypeVar("Kind", bound=type[Regularizer])
_BUILT_IN: dict[str, type[Regularizer]] = {
    "asam": ASAM,
    "dropout": Dropout,
    "entropy": Entropy,
    "hyper-weights": HyperWeights,
    "laplace": Laplace,
    "prune-grow": PruneGrow,
    "sam": SAM,
    "sharpness": Sharpness,
    "softening": Softening,
    "weighted-trace": WeightedTrace,
}
_REGULARIZERS = dict(_BUILT_IN)


def register_regularizer(kind: Kind) -> Kind:
    """Make a regulariser known by the name of its class in lower case; also a decorator.

    Parameters
    ----------
    kind
        A subclass of `fp.learning.Regularizer` that can be made without arguments.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    OptionError
        If it is no such class, or another regulariser has the name. A class of the same module and name takes the old one's
        place, as when a cell of a notebook is run again.

    Examples
    --------
    >>> import flatpc as fp
    >>> @fp.learning.register_regularizer
    ... class Doubled(fp.learning.EMUpdate):
    ...     def solve(self, flows, old, share):
    ...         return 2 * flows
    >>> "doubled" in fp.learning.regularizer_names()
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, Regularizer)):
        raise wrong("kind", kind, "give a class that inherits from fp.learning.Regularizer, not an instance.")
    name = kind.__name__.lower()
    old = _REGULARIZERS.get(name)
    if old is not None and (name in _BUILT_IN or (old.__module__, old.__qualname__) != (kind.__module__, kind.__qualname__)):
        where = f"{old.__module__}.{old.__qualname__}"
        raise OptionError(f"A regulariser of the name {name!r} is there already: {where}. Rename yours.")
    _REGULARIZERS[name] = kind
    return kind


def regularizer_names() -> list[str]:
    """The names that `regularizer=` knows, in order.

    Returns
    -------
    list of str
        Those of flatpc, and those that were registered.

    Examples
    --------
    >>> import flatpc as fp
    >>> {"dropout", "laplace", "sharpness"} <= set(fp.learning.regularizer_names())
    True
    """
    return sorted(_REGULARIZERS)


def read_one(given: Any) -> Regularizer:
    """A name, or a regulariser."""
    if isinstance(given, str):
        if given not in _REGULARIZERS:
            raise wrong("regularizer", given, f"choose one of {', '.join(regularizer_names())}, or give one with options.")
        return _REGULARIZERS[given]()
    if isinstance(given, type) and issubclass(given, Regularizer):
        where = "fp.learning." if given in _BUILT_IN.values() else ""
        raise wrong("regularizer", given, f"give an instance, such as {where}{given.__name__}().")
    if not isinstance(given, Regularizer):
        known = ", ".join(sorted(kind.__name__ for kind in _BUILT_IN.values()))
        raise wrong("regularizer", given, f"give one of {known} from fp.learning, its name, or a list of them.")
    return given
