"""Evidence that is no value: a variable lies between two bounds, or is one of several values.

Every input over such a variable becomes one of a variable that is 1 where the event has happened: its units' probabilities are
those of the event, by the family's cdf. All else of the circuit stays as it is, so that answers are exact.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from flatpc._options import as_float, choice, instance, seed_number, shown, whole_number
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import check_circuit, read_rows
from flatpc.errors import OptionError
from flatpc.families.base import Family
from flatpc.queries.answers import answering, bytes_of_units, refuse_impossible, row_blocks
from flatpc.queries.event_inputs import Range, Seen, SeenTogether
from flatpc.queries.sampling import _BYTES_PER_VISIT, _draw
from flatpc.tables.reading import MISSING, read_matrix, refuse_missing

Event = tuple[Range, ...] | list[float]
"""Ranges, in order and apart, both ends of which belong to them; or different values."""


def within(circuit: Circuit, events: Mapping[int, Event]) -> Circuit:
    """The circuit in which each of these variables is 1 where its event has happened, and 0 where not."""
    nodes = list(circuit.nodes)
    for i, node in enumerate(nodes):
        if not isinstance(node, Input):
            continue
        if any(v in events for v in variables_of(node)):
            family = _seen_together(node, events) if node.family.n_variables > 1 else _seen(node.family, events[node.variable])
            nodes[i] = replace(node, family=family)
    parameters: dict[int, Any] = dict(circuit.parameters)
    return Circuit(nodes, parameters)


def variables_of(node: Any) -> tuple[int, ...]:
    """The variables of an input."""
    return tuple(node.variables) if hasattr(node, "variables") else (node.variable,)


def _seen(family: Family, event: Event) -> Seen:
    return Seen(family, ranges=event) if isinstance(event, tuple) else Seen(family, values=tuple(event))


def _seen_together(node: Input, events: Mapping[int, Event]) -> SeenTogether:
    said = [(position, events[v]) for position, v in enumerate(variables_of(node)) if v in events]
    ranges = tuple((position, event) for position, event in said if isinstance(event, tuple))
    values = tuple((position, tuple(event)) for position, event in said if isinstance(event, list))
    return SeenTogether(node.family, ranges, values)


def event_log_prob(
    circuit: Circuit,
    X: Any = None,
    *,
    events: Mapping[int, Any],
    missing: str = "marginalize",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
) -> Array:
    """The logarithm of the probability of events, and of known values beside them.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Gaussian()), fp.Input(1, fp.Bernoulli()), fp.Product((0, 1))]
    >>> c = fp.Circuit(pair, {0: {"mean": [0.0], "variance": [1.0]}, 1: {"p": [0.25]}})
    >>> round(float(np.exp(fp.queries.event_log_prob(c, events={0: (-np.inf, 0.0), 1: 1})[0])), 6)
    0.125

    Parameters
    ----------
    circuit
        The circuit.
    X
        A table `[N, D]` of further evidence, NaN where there is none; the columns of events are not looked at. None if there is
        no further evidence.
    events
        Variable -> `(low, high)`, bounds that belong to the range and may be infinite; a list of such ranges; a list of values;
        or a value.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN outside the columns of events.
    engine, dtype, device
        As for `log_prob`.

    Returns
    -------
    array
        `[N]`, or `[1]` without X: log p(events, x), a density in what X knows of continuous variables. Probabilities are
        differences of cdfs, exact to about 1e-16; smaller ones may be 0. Ranges of two, three or more variables of one
        multivariate Gaussian are by numerical integration, to about 1e-6, 1e-4 and 1e-3.

    Raises
    ------
    OptionError
        A variable is none of the circuit's, an event is neither a range nor values, or bounds are in the wrong order.
    FamilyError
        A family has no cdf; or, over several variables, knows no probability of a range.
    DataError
        As for `log_prob`.
    """
    known = read_events(circuit, events)
    rows = _evidence(circuit, known, X, missing)
    run, precision = answering(X, engine, dtype, device)
    return run.log_prob(within(circuit, known), rows, dtype=precision)


def sample_given_events(
    circuit: Circuit,
    n: int = 1,
    *,
    events: Mapping[int, Any],
    given: Any = None,
    seed: int = 0,
    missing: str = "marginalize",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
) -> Array:
    """Rows drawn given that events have happened, and given known values.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> c = fp.Circuit([fp.Input(0, fp.Gaussian())], {0: {"mean": [0.0], "variance": [1.0]}})
    >>> bool((fp.queries.sample_given_events(c, 100, events={0: (0.0, np.inf)}) >= 0).all())
    True

    Parameters
    ----------
    circuit
        The circuit.
    n
        How many rows, or how many completions of every given row.
    events
        As for `event_log_prob`.
    given
        A table `[M, D]` in which NaN is unknown; the columns of events are not looked at.
    seed
        Random seed.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN outside the columns of events.
    engine, dtype, device
        As for `log_prob`.

    Returns
    -------
    array
        `[n, D]`; for a table `given`, `[n, M, D]`.

    Raises
    ------
    OptionError, FamilyError
        As for `event_log_prob`.
    DataError
        As for `log_prob`; and if the evidence has probability zero.
    """
    n, rng = whole_number("n", n, 1), np.random.default_rng(seed_number(seed))
    known = read_events(circuit, events)
    rows = _evidence(circuit, known, given, missing)
    seen = within(circuit, known)
    run, precision = answering(given, engine, dtype, device)
    unknown = rows.copy()
    unknown[:, list(known)] = np.nan
    out = np.repeat(unknown[None], n, axis=0)
    for block in row_blocks(len(rows), bytes_of_units(circuit)):
        which = np.arange(len(rows))[block]
        values = run.unit_values(seen, rows[which], dtype=precision)
        refuse_impossible(values[circuit.root][:, 0], which)
        trees = np.tile(np.arange(len(which)), n)
        drawn = out[:, which].reshape(-1, circuit.n_variables)
        for part in row_blocks(len(trees), _BYTES_PER_VISIT * len(circuit.nodes)):
            _draw(seen, drawn[part], values, trees[part], rng)
        out[:, which] = drawn.reshape(n, len(which), -1)
    return out[:, 0] if given is None else out


def read_without(circuit: Circuit, X: Any, variables: Iterable[Any], missing: str) -> Array:
    """The rows of a table as a new array, NaN in the columns of some variables, whatever numbers they hold."""
    rows, labels = read_matrix(X)
    table = rows.copy()
    asked = [v for v in variables if 0 <= v < table.shape[1]]
    if choice("missing", missing, MISSING) == "raise":
        others = [v for v in range(table.shape[1]) if v not in asked]
        refuse_missing(np.isnan(table[:, others]), [labels[v] for v in others])
    table[:, asked] = np.nan
    return read_rows(circuit, table, "marginalize").copy()


def read_events(circuit: Circuit, events: Any) -> dict[int, Event]:
    """Events as they are said, checked; a value becomes a list of one.

    Raises `OptionError` for what is neither `(low, high)` nor a value nor a list of some.
    """
    n_variables = check_circuit(circuit).n_variables
    instance("events", events, Mapping, "a dict such as {0: 1} or {0: (low, high)}")
    for variable in events:
        if not 0 <= whole_number("events", variable, 0) < n_variables:
            raise OptionError(f"There is no variable {variable}; the circuit has {n_variables}.", option="events")
    return {operator.index(variable): _read_event(variable, event) for variable, event in events.items()}


def _read_event(variable: int, event: Any) -> Event:
    if isinstance(event, tuple):
        return (_read_range(variable, event),)
    if isinstance(event, list) and any(isinstance(each, tuple) for each in event):
        return _apart([_read_range(variable, each) for each in event])
    wanted = event if isinstance(event, list) else [event]
    values = [float(value) if isinstance(value, bool | np.bool_) else as_float(value) for value in wanted]
    if not values or np.isnan(values).any():
        raise OptionError(
            f"The event of variable {variable} is {shown(event)}; give a number, a list of numbers, or a range (low, high).",
            option="events",
        )
    return list(dict.fromkeys(values))


def _read_range(variable: int, said: Any) -> Range:
    bounds = [as_float(end) for end in said] if isinstance(said, tuple) else []
    if len(bounds) != 2 or not bounds[0] <= bounds[1]:
        raise OptionError(
            f"The range of variable {variable} is {shown(said)}; give two numbers (low, high), low first.", option="events"
        )
    return bounds[0], bounds[1]


def _apart(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same numbers by ranges in order that don't overlap.

    >>> _apart([(4, 6), (0, 1), (5, 9)])
    ((0, 1), (4, 9))
    """
    out: list[Range] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return tuple(out)


def _evidence(circuit: Circuit, events: Mapping[int, Event], X: Any, missing: str) -> Array:
    """Rows of `within`: 1 where there are events, known values, and NaN."""
    rows = np.full((1, circuit.n_variables), np.nan) if X is None else read_without(circuit, X, events, missing)
    rows[:, list(events)] = 1.0
    return rows
