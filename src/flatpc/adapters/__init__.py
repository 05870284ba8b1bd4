"""Other libraries: circuits from them, and their search for ours."""

from flatpc.adapters.optuna import OptunaObjective
from flatpc.adapters.pyjuice import from_pyjuice

__all__ = ["OptunaObjective", "from_pyjuice"]
