"""Sums in an order that depends on nothing but the number of terms, so that their bits don't depend on who worked them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

Arrays = tuple[NDArray[Any], ...]


def plus(left: Arrays, right: Arrays) -> Arrays:
    """Array by array."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def tree_sum(terms: Iterable[Arrays]) -> Arrays:
    """The sum of tuples of arrays as a tree, of which no more than log₂ n terms are held at a time.

    >>> import numpy as np
    >>> [float(total) for total in tree_sum((np.array(x),) for x in (1.0, 2.0, 3.0))]
    [6.0]
    """
    held: list[tuple[int, Arrays]] = []
    for term in terms:
        size = 1
        while held and held[-1][0] == size:
            term, size = plus(held.pop()[1], term), 2 * size
        held.append((size, term))
    if not held:
        raise ValueError("a sum of nothing has no shape")
    total = held.pop()[1]
    while held:
        total = plus(held.pop()[1], total)
    return total


def tree_of(terms: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    """The same tree over terms that are all there, such as results that are still being worked out.

    >>> tree_of("abcde", lambda x, y: f"({x}{y})")
    '(((ab)(cd))e)'
    """
    if len(terms) == 1:
        return terms[0]
    left = 1 << ((len(terms) - 1).bit_length() - 1)
    return add(tree_of(terms[:left], add), tree_of(terms[left:], add))
