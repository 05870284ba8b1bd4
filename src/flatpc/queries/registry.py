"""Questions of your own: a function of a circuit becomes a method of every circuit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flatpc._options import wrong
from flatpc.circuit.circuit import Circuit
from flatpc.errors import OptionError

Question = TypeVar("Question", bound=Callable[..., Any])
_QUESTIONS: dict[str, Callable[..., Any]] = {}


def register(question: Question) -> Question:
    """Make a function whose first argument is a circuit a method of all circuits, under its own name; also a decorator.

    Parameters
    ----------
    question
        The function. By custom its second argument is rows, and its options are keywords.

    Returns
    -------
    function
        The function itself.

    Raises
    ------
    OptionError
        If it is no function with a name, or circuits have something of that name. A function of the same module and name takes
        the old one's place, as when a cell of a notebook is run again.

    Examples
    --------
    >>> import numpy as np
    >>> import flatpc as fp
    >>> @fp.queries.register
    ... def bits(circuit, X, *, missing="raise"):
    ...     return -circuit.log_prob(X, missing=missing) / np.log(2)
    >>> X = np.zeros((2, 3))
    >>> bool(np.allclose(fp.structures.factorized(X).bits(X), bits(fp.structures.factorized(X), X)))
    True
    """
    name = getattr(question, "__name__", "")
    if not callable(question) or isinstance(question, type) or not name.isidentifier() or name.startswith("_"):
        raise wrong("question", question, "give a function with a name of its own, whose first argument is a circuit.")
    old = _QUESTIONS.get(name)
    again = old is not None and (old.__module__, old.__qualname__) == (question.__module__, question.__qualname__)
    if hasattr(Circuit, name) and not again:
        raise OptionError(f"Circuits have something called {name!r} already; rename the question.", option="question")
    _QUESTIONS[name] = question
    setattr(Circuit, name, question)
    return question
