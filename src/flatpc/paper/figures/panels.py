"""What the drawings share: colours, names, and a panel of interactive figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PLAIN, REGULARISED = "#e07b28", "#3a7bd5"
SERIES = ("#3a7bd5", "#2f9e79", "#c2518b", "#8e6bbf", "#e07b28", "#8a8f3c")


@dataclass(frozen=True)
class Panel:
    """Plotly figures by title, which stand side by side."""

    title: str
    figures: dict[str, Any]
    note: str = ""
    height: int = 380
    linked: bool = False


def static(width: float, height: float) -> Any:
    """A matplotlib figure that no backend knows of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def percent(fraction: float) -> str:
    """How a fraction is called.

    >>> percent(0.05)
    '5%'
    """
    return f"{100 * fraction:g}%"


def title_of(dataset: str) -> str:
    """A data set's name as a heading: `two_moons` is `two moons`."""
    return dataset.replace("_", " ")


def method_title(method: str) -> str:
    """How a method is called.

    >>> method_title("mu=0.1"), method_title("adaptive")
    ('μ = 0.1', 'adaptive μ')
    """
    if method.startswith("mu="):
        return f"μ = {method[3:]}"
    return method if method == "plain" else f"{method} μ"


def numbers(values: Any) -> list[float]:
    """What JSON held, with NaN for what was not finite."""
    return [float("nan") if value is None else value for value in values]
