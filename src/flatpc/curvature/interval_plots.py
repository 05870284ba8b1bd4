"""A drawing of answers with their error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._options import flag, several, wrong

if TYPE_CHECKING:
    from flatpc.curvature.estimates import Estimate


def plot(answers: Estimate, *, level: float, labels: Sequence[str] | None, sort: bool, title: str | None, axes: Any) -> Any:
    """A dot and an interval for each answer, one below the other; the matplotlib figure."""
    value, (low, high) = np.ravel(answers.value), (np.ravel(each) for each in answers.interval(level))
    names = [str(i) for i in range(len(value))] if labels is None else [str(each) for each in several("labels", labels, "a list")]
    if len(names) != len(value):
        raise wrong("labels", labels, f"give one for each of the {len(value)} answers.")
    order = np.argsort(-value, kind="stable") if flag("sort", sort) else np.arange(len(value))
    places = np.arange(len(value))
    if axes is None:
        # Without pyplot: nothing is registered, shown or kept, and no backend is chosen for the user.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.6, 1.0 + 0.26 * min(len(value), 60)), layout="constrained")
        axes = figure.subplots()
    reach = np.stack([(value - low)[order], (high - value)[order]])
    axes.errorbar(
        value[order], places, xerr=reach, fmt="o", markersize=4, linewidth=1.4, capsize=2, label=f"{level:.0%} interval"
    )
    axes.set_yticks(places, [names[i] for i in order])
    axes.invert_yaxis()
    axes.margins(y=0.03)
    if title:
        axes.set_title(title)
    return axes.figure
