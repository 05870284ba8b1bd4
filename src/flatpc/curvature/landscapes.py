"""The loss along one or two directions around a solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flatpc._extras import need
from flatpc._options import flag, number, seed_number, whole_number, wrong
from flatpc._typing import Array
from flatpc.circuit.rows import check_circuit
from flatpc.curvature.directions import LANDSCAPE_SPACES, Coordinates, find_directions
from flatpc.curvature.layout import Layout, check_space
from flatpc.curvature.over_sources import rows_or_source
from flatpc.queries.streaming import Asked, totals_of
from flatpc.tables.sources import Source

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit


_ODD = "an odd number, so that the circuit itself is on the grid"


@dataclass(frozen=True)
class Landscape:
    """Mean negative log-likelihoods on a grid; what `landscape` returns.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(50, 4))
    >>> found = fp.curvature.landscape(fp.structures.hclt(X, n_latents=3), X, n_steps=3)
    >>> found.dimensions, found.train.shape
    (2, (3, 3))
    >>> type(found.plot("surface")).__name__, type(found.interactive()).__name__  # by matplotlib and by plotly
    ('Figure', 'Figure')
    """

    steps: Array
    """`[n]`: how far along each direction, in filter lengths; 0 is the circuit itself."""
    train: Array
    """`[n]` or `[n, n]`: the loss at `steps[i]` along the first direction, and `steps[j]` along the second."""
    valid: Array | None
    """The same of the validation rows, if there are any."""
    directions: Array
    """`[1 or 2, P]`, in the order of the parameters."""
    space: str
    """`"logits"` or `"weights"`."""

    @property
    def dimensions(self) -> int:
        """1 for a line, 2 for a surface."""
        return self.train.ndim

    def plot(self, kind: str = "auto", **options: Any) -> Any:
        """A matplotlib figure.

        Parameters
        ----------
        kind
            `"line"` for one direction; `"contour"` or `"surface"` for two. `"auto"`: a line or a contour.
        options
            `title`, and `limits`, the least and the largest loss that is shown: to compare circuits, give all the same.

        Returns
        -------
        matplotlib.figure.Figure
            With one panel for train rows and one for validation rows; a line shows both in one.

        Raises
        ------
        OptionError
            For a kind that doesn't go with the number of directions.
        MissingPackageError
            Without matplotlib.
        """
        need("matplotlib", "plots", "A figure")
        from flatpc.curvature.plots import plot

        return plot(self, kind, **options)

    def interactive(self) -> Any:
        """A plotly figure that can be turned.

        Returns
        -------
        plotly.graph_objects.Figure
            A line, or surfaces.

        Raises
        ------
        MissingPackageError
            Without plotly.
        """
        need("plotly", "plots", "A figure that can be turned")
        from flatpc.curvature.plots import interactive

        return interactive(self)


def landscape(
    circuit: Circuit,
    X: Any,
    valid: Any = None,
    *,
    dimensions: int = 2,
    radius: float = 1.0,
    n_steps: int = 25,
    directions: Any = "random",
    space: str = "logits",
    include_inputs: bool = False,
    missing: str = "raise",
    seed: int = 0,
    progress: bool = False,
) -> Landscape:
    """The mean negative log-likelihood of train (and validation) rows around a circuit.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> X = np.random.default_rng(0).integers(0, 2, size=(50, 4))
    >>> c = fp.structures.hclt(X, n_latents=3)
    >>> line = fp.curvature.landscape(c, X, dimensions=1, n_steps=5)
    >>> bool(np.isclose(line.train[2], -c.log_prob(X).mean()))  # the middle is the circuit itself
    True

    Parameters
    ----------
    circuit
        Any circuit.
    X
        Rows for it, or a source of rows, which is read once for each point.
    valid
        Validation rows, for a second landscape.
    dimensions
        1: a line, 2: a surface over `n_steps × n_steps` points.
    radius
        How far to go in each direction: 1 moves every unit by the length of its own weights.
    n_steps
        Number of points along each direction; odd, so that the circuit itself is on the grid.
    directions
        `"random"`: filter-normalised Gaussian directions. `"eigenvectors"`: of the largest eigenvalues of the loss's Hessian,
        scaled as a whole. Or an array `[dimensions, P]`, for several circuits with the same structure to be seen along the
        same ones; it is filter-normalised.
    space
        `"logits"`: straight lines in logits, which stay on the simplex. `"weights"`: straight lines in the weights, along
        directions that keep every unit's weights normalised; where one falls below 0 it is clipped to 0, and each unit's weights
        are divided by their sum.
    include_inputs
        Move the probabilities of Bernoulli and Categorical inputs too.
    missing
        `"raise"`, or `"marginalize"` to integrate missing values (NaN) out.
    seed
        Random seed of the directions.
    progress
        Whether to show a bar.

    Returns
    -------
    Landscape
        `steps`, `train`, `valid`, `directions` and `space`.

    Raises
    ------
    OptionError
        For an option out of its range, or directions of another shape.
    DataError
        For rows that are not the circuit's.
    """
    if isinstance(space, str) and space == "simplex":
        raise wrong(
            "space",
            space,
            "it has no landscape of its own: in 'weights', directions keep every unit's weights normalised already. "
            "Choose 'weights' or 'logits'.",
        )
    check_space(space, LANDSCAPE_SPACES)
    dimensions = whole_number("dimensions", dimensions, 1, 2)
    n_steps = whole_number("n_steps", n_steps, 3, why=_ODD)
    if n_steps % 2 == 0:
        raise wrong("n_steps", n_steps, f"give a whole number of at least 3, {_ODD}.")
    radius, seed = number("radius", radius, 0.0, above=True), seed_number(seed)
    flag("include_inputs", include_inputs)
    flag("progress", progress)
    check_circuit(circuit)
    coordinates = Coordinates(Layout(circuit, include_inputs), space)
    found = find_directions(coordinates, X, dimensions, directions, seed, missing, progress)
    steps = np.linspace(-radius, radius, n_steps)
    steps[n_steps // 2] = 0.0
    grid = np.stack(np.meshgrid(*[steps] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    tables = [rows_or_source(circuit, rows, missing) for rows in ((X,) if valid is None else (X, valid))]
    losses = _losses(coordinates, grid @ found, tables, progress)
    shape = (n_steps,) * dimensions
    return Landscape(steps, losses[0].reshape(shape), losses[1].reshape(shape) if valid is not None else None, found, space)


def _losses(coordinates: Coordinates, moves: Array, tables: list[Array | Source], progress: bool) -> Array:
    """`[tables, points]`; what depends on the rows alone is prepared once. A source is read once for each point."""
    from rich.console import Console
    from rich.progress import track

    from flatpc.engine.numba.evaluator import Evaluator
    from flatpc.engine.numba.evidence import Evidence

    point = coordinates.point
    evidence = None
    out = np.empty((len(tables), len(moves)))
    for i, move in enumerate(track(moves, "Loss landscape", disable=not progress, transient=True, console=Console(stderr=True))):
        evaluator = Evaluator(coordinates.circuit_at(point + move), "float64")
        if evidence is None:
            evidence = [rows if isinstance(rows, Source) else Evidence(evaluator.program, rows) for rows in tables]
        asked = Asked(evaluator.circuit, "marginalize")
        out[:, i] = [
            -(totals_of(asked, each).mean if isinstance(each, Source) else evaluator.log_prob(each).mean()) for each in evidence
        ]
    return out
