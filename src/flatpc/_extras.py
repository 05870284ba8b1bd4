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
