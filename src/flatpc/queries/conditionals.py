"""One variable given the known entries of a row: a mixture of its units, each weighted by its flow.

Given the evidence, variable v comes from unit u of its inputs with probability `F_u`, the unit's flow. Its density, its cdf and
its quantiles given the evidence are those of that mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatpc._options import number, whole_number, wrong
from flatpc._typing import Array
from flatpc.circuit.circuit import Circuit
from flatpc.circuit.nodes import Input
from flatpc.circuit.rows import check_circuit
from flatpc.errors import OptionError
from flatpc.families import asking
from flatpc.families.base import Family
from flatpc.queries.answers import answering, around, bytes_of_units, give_back, refuse_impossible, row_blocks
from flatpc.queries.events import read_without, variables_of

BISECTIONS = 200
"""At the most; they end when the cdf can't tell two numbers apart."""


@dataclass(frozen=True)
class Part:
    """The units of one input, as one variable has them."""

    family: Family
    parameters: Any
    """Of K units; of each row its own, `[N, K]`, where they depend on other variables of the input."""
    share: Array
    """`[N, K]`: the probability of each unit."""
    by_row: bool = False

    def log_density(self, x: Array) -> Array:
        """`[N, K]`."""
        if not self.by_row:
            return asking.log_density(self.family, self.parameters, x)
        outside = self.family.outside(x)
        allowed = np.where(outside, self.family.quantile(self.parameters, np.array([0.5]))[:, 0], x)
        return np.where(outside[:, None], -np.inf, self.family.log_density(self.parameters, allowed))

    def cdf(self, x: Array) -> Array:
        """`[N, K]`."""
        self.family.require("A cdf", "cdf")
        return self.family.cdf(self.parameters, x)

    def of_units(self, ask: Callable[[Any], Array]) -> Array:
        """`[N, K]`: what the family says of each unit's parameters."""
        if not self.by_row:
            return np.broadcast_to(ask(self.parameters), self.share.shape)
        return ask({name: value.ravel() for name, value in self.parameters.items()}).reshape(self.share.shape)


@dataclass(frozen=True)
class Conditional:
    """The distribution of one variable given each of N rows. Values are `[N]`, one for each row."""

    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.parts[0].share)

    def _one_each(self, x: Any) -> Array:
        """`[N]`: the values, one for each row, or the same for all."""
        give = f"give one number for each of {len(self)} rows"
        try:
            values = np.asarray("" if x is None else x, np.float64)
        except (TypeError, ValueError):
            raise wrong("x", x, f"{give}.") from None
        if values.ndim > 1 or values.size not in (1, len(self)):
            raise OptionError(f"x has the shape {values.shape}; {give}.", option="x")
        return np.broadcast_to(values, (len(self),))

    def log_density(self, x: Array | float) -> Array:
        """Of the values x, `-inf` where there is none."""
        x = self._one_each(x)
        total = np.zeros(len(self))
        shift = np.full(len(self), -np.inf)
        # A unit that has no share says nothing, however likely it would make the value.
        logs = [np.where(part.share > 0, part.log_density(x), -np.inf) for part in self.parts]
        for log in logs:
            shift = np.maximum(shift, log.max(axis=1))
        base = np.where(np.isfinite(shift), shift, 0.0)
        for log, part in zip(logs, self.parts, strict=True):
            total += (part.share * np.exp(log - base[:, None])).sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total) + base)

    def cdf(self, x: Array | float) -> Array:
        """The probability of values up to and with x."""
        x = self._one_each(x)
        total = sum((part.share * part.cdf(x)).sum(axis=1) for part in self.parts)
        return np.asarray(np.clip(total, 0.0, 1.0))

    def quantile(self, q: float) -> Array:
        """The smallest value whose cdf is at least q, by bisection between the quantiles of units."""
        q = number("q", q, 0.0, 1.0, what="it is a probability, from 0 to 1")
        low, high = np.full(len(self), np.inf), np.full(len(self), -np.inf)
        for part in self.parts:
            part.family.require("A quantile", "cdf", "quantile")
            at = part.family.quantile(part.parameters, np.array([q]))
            low = np.minimum(low, np.where(part.share > 0, at, np.inf).min(axis=1))
            high = np.maximum(high, np.where(part.share > 0, at, -np.inf).max(axis=1))
        atoms = sorted({atom for part in self.parts for atom in part.family.set_apart})
        if q in (0.0, 1.0):
            end = self._with_atoms(atoms, low, -1) if q == 0 else self._with_atoms(atoms, high, 1)
            if not all(part.family.discrete for part in self.parts) or not np.isfinite(end).all():
                return end
        whole = all(part.family.discrete and part.family.n_categories is not None for part in self.parts)
        # The cdf at `low` may reach q already, where all units agree.
        low = np.where(np.isfinite(low), np.nextafter(low, -np.inf), low)
        for atom in atoms:
            # Where the cdf jumps past q, nothing is left to bisect.
            before = np.nextafter(atom, -np.inf)
            late, early = self.cdf(atom) < q - 1e-13, self.cdf(before) >= q - 1e-13
            low = np.where(late, np.maximum(low, atom), np.where(early, low, before))
            high = np.where(late, high, np.where(early, np.minimum(high, before), atom))
        for _ in range(BISECTIONS):
            middle = low + (high - low) / 2
            if ((middle <= low) | (middle >= high)).all():
                break
            enough = self.cdf(middle) >= q - 1e-13
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return np.asarray(np.ceil(high - 1e-9) if whole else high)

    def _with_atoms(self, atoms: Sequence[float], end: Array, side: int) -> Array:
        """The end of the values on a side, or an atom beyond it."""
        for atom in atoms:
            likely = self.cdf(atom) > self.cdf(np.nextafter(atom, -np.inf))
            end = np.where(likely & (side * (atom - end) > 0), atom, end)
        return end

    def mean(self) -> Array:
        """The mean."""
        return np.asarray(sum((part.share * part.of_units(part.family.mean)).sum(axis=1) for part in self.parts))

    def mode(self) -> Array:
        """The most probable of the units' modes, judged by all units."""
        best, value = np.full(len(self), -np.inf), np.full(len(self), np.nan)
        for part in self.parts:
            for mode in np.unique(part.of_units(part.family.mode), axis=1).T:
                log = self.log_density(mode)
                value, best = np.where(log > best, mode, value), np.maximum(best, log)
        return value

    def table(self) -> Array:
        """`[N, n]`: the probabilities of all values, of a variable with finitely many."""
        return np.asarray(sum(part.share @ part.family.table(part.parameters) for part in self.parts))


def conditional(
    circuit: Circuit,
    X: Any,
    *,
    variable: int,
    missing: str = "marginalize",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
) -> Conditional:
    """The distribution of one variable given the other known entries of each row.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> coin = fp.Input(variable=0, family=fp.Gaussian(), width=2)
    >>> c = fp.Circuit([coin, fp.Sum((0,))], {0: {"mean": [0.0, 4.0], "variance": [1.0, 1.0]}, 1: [[0.5, 0.5]]})
    >>> given = fp.queries.conditional(c, [[np.nan]], variable=0)
    >>> given.mean().round(6).tolist(), given.quantile(0.5).round(6).tolist(), given.cdf(np.array([2.0])).round(6).tolist()
    ([2.0], [2.0], [0.5])

    Parameters
    ----------
    circuit, X
        As for `log_prob`; NaN is unknown, and the column of the variable is not looked at.
    variable
        The variable that is asked for.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN in other columns.
    engine, dtype, device
        As for `log_prob`.

    Returns
    -------
    Conditional
        With `log_density`, `cdf`, `quantile`, `mean`, `mode` and, of finitely many values, `table`.

    Raises
    ------
    OptionError
        There is no such variable.
    FamilyError
        It is in an input over several variables whose family knows no such distribution.
    DataError
        As for `log_prob`; and if the known values of a row have probability zero.
    """
    check_circuit(circuit)
    if not 0 <= whole_number("variable", variable, 0) < circuit.n_variables:
        raise OptionError(f"There is no variable {variable}; the circuit has {circuit.n_variables}.", option="variable")
    rows = read_without(circuit, X, [variable], missing)
    run, precision = answering(X, engine, dtype, device)
    inputs = [
        (i, node) for i, node in enumerate(circuit.nodes) if isinstance(node, Input) and variable in variables_of(node)
    ]  # fmt: skip
    shares = {i: np.empty((len(rows), node.width)) for i, node in inputs}
    for block in row_blocks(len(rows), 2 * bytes_of_units(circuit)):
        which = np.arange(len(rows))[block]
        refuse_impossible(run.log_prob(circuit, rows[which], dtype=precision), which)
        flow = run.unit_flows(circuit, rows[which], dtype=precision)
        for i, _ in inputs:
            shares[i][which] = flow[i]
    total = np.asarray(sum(share.sum(axis=1) for share in shares.values()))[:, None]
    return Conditional(tuple(_part(circuit, i, rows, variable, shares[i] / total) for i, _ in inputs))


def conditional_proba(
    circuit: Circuit,
    X: Any,
    *,
    variable: int,
    missing: str = "marginalize",
    engine: str = "auto",
    dtype: str = "float64",
    device: Any = None,
    uncertainty: Any = None,
) -> Any:
    """The probability of each value of a variable given the other known entries of each row.

    >>> import numpy as np
    >>> import flatpc as fp
    >>> pair = [fp.Input(0, fp.Bernoulli(), 2), fp.Input(1, fp.Bernoulli(), 2), fp.Product((0, 1)), fp.Sum((2,))]
    >>> c = fp.Circuit(pair, {0: {"p": [0.1, 0.9]}, 1: {"p": [0.2, 0.8]}, 3: [[0.5, 0.5]]})
    >>> fp.queries.conditional_proba(c, [[1, np.nan]], variable=1).round(3).tolist()            # 0.1 · 0.2 + 0.9 · 0.8
    [[0.26, 0.74]]

    Parameters
    ----------
    circuit, X
        As for `log_prob`; NaN is unknown, and the column of the variable is not looked at.
    variable
        One that takes finitely many values.
    missing
        `"marginalize"`, or `"raise"` to refuse NaN in other columns.
    engine, dtype, device, uncertainty
        As for `log_prob`.

    Returns
    -------
    array or tensor
        `[N, n]`, for a variable of n values.

    Raises
    ------
    OptionError
        There is no such variable, or it takes infinitely many values; or as for `log_prob`.
    DataError
        As for `log_prob`; and if the known values of a row have probability zero.
    """
    check_circuit(circuit)
    v = whole_number("variable", variable, 0, circuit.n_variables - 1)
    n = circuit.families[v].n_categories
    if n is None:
        raise OptionError(f"Variable {v} takes infinitely many values; ask for its `expectation`.", option="variable")
    if uncertainty is not None:
        return around(circuit, uncertainty, engine, dtype, device).conditional_proba(X, v, missing=missing)
    found = conditional(circuit, X, variable=v, missing=missing, engine=engine, dtype=dtype, device=device)
    return give_back(np.exp(np.stack([found.log_density(np.full(len(found), float(k))) for k in range(n)], axis=1)), X)


def _part(circuit: Circuit, i: int, rows: Array, variable: int, share: Array) -> Part:
    node = circuit.nodes[i]
    parameters: Any = circuit.parameters[i]
    assert isinstance(node, Input)
    if node.family.n_variables == 1:
        return Part(node.family, parameters, share)
    variables = variables_of(node)
    alone = node.family.entry_given(parameters, rows[:, list(variables)], variables.index(variable))
    return Part(*alone, share, by_row=True)
