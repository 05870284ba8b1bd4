"""Packages that only some of flatpc needs, and how to install them.

>>> need("numpy", "torch", "Arithmetic")
"""

from __future__ import annotations

from importlib.util import find_spec

from flatpc.errors import MissingPackageError


def need(package: str, extra: str, what: str) -> None:
    """Raise `MissingPackageError`, which says what to install, unless the package is there."""
    if find_spec(package) is None:
        raise MissingPackageError(f"{what} needs the package {package}: pip install 'flatpc[{extra}]'.")


def lacking(*needed: tuple[str, str, str]) -> str:
    """What `need` says of the first package, extra and purpose of which the package is not installed; nothing if all are.

    >>> lacking(("numpy", "tables", "a table"))
    ''
    """
    for package, extra, what in needed:
        try:
            need(package, extra, what)
        except MissingPackageError as reason:
            return str(reason)
    return ""
