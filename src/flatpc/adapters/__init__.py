"""Circuits from other libraries."""

from flatpc.adapters.pyjuice import from_pyjuice

__all__ = ["from_pyjuice"]
