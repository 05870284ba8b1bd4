"""Circuits with weights down to the smallest number there is, and rows far outside them: every curvature function in every space.

An answer has no NaN; it is infinite only where float64 can't hold the truth; and where it is finite it agrees with `WideOracle`,
to a tolerance relative to the numbers that it is a difference of. Refused may be: tied parameters where the identity of squares
is false, and spectra of a Hessian that overflows. Seeds are the circuits' numbers.
"""

from dataclasses import fields, is_dataclass

import mpmath
import numpy as np

import flatpc as fp
from flatpc.curvature.layout import Layout
from flatpc.errors import FlatpcError, TiedParametersError
from tests.curvature.wide_oracle import WideOracle
from tests.hostile.tally import Tally, how_many

TOLERANCE = 1e-8
LARGEST = mpmath.mpf(2) ** 1020
LEAST = mpmath.mpf("1e-140")
"""Numbers below that are as good as 0: products of two of them are below float64's range."""
TINY = [0.0, 5e-324, 1e-310, 1e-300, 1e-250, 1e-200, 1e-160, 1e-155, 1e-120, 1e-60, 1e-20]
SPACES = ("weights", "logits", "simplex")


# ---- circuits -------------------------------------------------------------------------------------------------------------


def _weights(rng, shape, mask=None):
    """Rows of the simplex; most have entries that are tiny or 0."""
    W = rng.dirichlet(np.ones(shape[1]), shape[0])
    tiny = rng.random(shape) < rng.choice([0.0, 0.4, 0.8])
    W[tiny] = rng.choice(TINY, tiny.sum())
    keep = np.ones(shape, bool) if mask is None else mask
    W[~keep] = 0.0
    for row, there in zip(W, keep, strict=True):
        top = rng.choice(np.flatnonzero(there))
        row[top] = 0.0
        row[top] = 1.0 - row.sum()
    return W


def _input(rng, variable, width):
    kind = rng.integers(3)
    if kind == 0:
        p = rng.choice([0.0, 1.0, 1e-300, 1e-160, 0.3, 0.7], width)
        return fp.Input(variable, fp.Bernoulli(), width), {"p": p}
    if kind == 1:
        return fp.Input(variable, fp.Categorical(3), width), {"p": _weights(rng, (width, 3))}
    mean, variance = rng.choice([0.0, 1.0, -30.0], width), rng.choice([1e-4, 1.0, 100.0], width)
    return fp.Input(variable, fp.Gaussian(), width), {"mean": mean, "variance": variance}


def _circuit(seed):
    rng = np.random.default_rng(seed)
    nodes, parameters = [], {}

    def add(node, value=None):
        nodes.append(node)
        if value is not None:
            parameters[len(nodes) - 1] = value
        return len(nodes) - 1

    def add_sum(children, n_in, width=1, tie=None):
        mask = rng.random((width, n_in)) < 0.7 if n_in > 1 and tie is None and rng.random() < 0.2 else None
        if mask is not None:
            mask[np.arange(width), rng.integers(n_in, size=width)] = True
        mask = mask if tie is None else nodes[tie].mask
        return add(fp.Sum(children, width, mask, tie), None if tie is not None else _weights(rng, (width, n_in), mask))

    form = seed % 6
    k = int(rng.integers(1, 4))
    if form == 0:  # one mixture
        root = add_sum((add(*_input(rng, 0, k)),), k)
    elif form == 1:  # a chain of sums over one variable
        below = add_sum((add(*_input(rng, 0, k)),), k, 2)
        root = add_sum((add_sum((below,), 2, 2),), 2)
    elif form == 2:  # products of factors with weights of their own
        factors = [add_sum((add(*_input(rng, v, 2)),), 2, 2) for v in range(int(rng.integers(2, 4)))]
        root = add_sum((add(fp.Product(tuple(factors))),), 2)
    elif form == 3:  # a Kronecker product
        a, b = (add_sum((add(*_input(rng, v, 2)),), 2, 2) for v in range(2))
        root = add_sum((add(fp.Product((a, b), "kronecker")),), 4)
    elif form == 4:  # a mixture of two products that share a factor
        shared = add(*_input(rng, 0, 2))
        pair = [add_sum((add(*_input(rng, 1, 2)),), 2, 2) for _ in range(1)]
        products = [add(fp.Product((shared, pair[0]))), add(fp.Product((add_sum((shared,), 2, 2), pair[0])))]
        root = add_sum((add(fp.Mixture(tuple(products)), _weights(rng, (2, 2))),), 2)
    else:  # scalar sums of which one is another's twin
        kinds = rng.integers(2)
        leaves = [add(*_input(np.random.default_rng(seed), v, 2)) for v in range(2)]
        first = add_sum((leaves[0],), 2)
        second = add_sum((leaves[1],), 2, tie=first if kinds else None)
        root = add_sum((add(fp.Product((first, second))),), 1)
    assert root == len(nodes) - 1
    return fp.Circuit(nodes, parameters), rng


def _rows(circuit, rng):
    out = np.empty((3, circuit.n_variables))
    for v, family in enumerate(circuit.families):
        far = rng.choice([0.0, 1.0, 30.0, -400.0, 1e4], 3)
        out[:, v] = far if isinstance(family, fp.Gaussian) else rng.integers(0, 2 if isinstance(family, fp.Bernoulli) else 3, 3)
    out[rng.random(out.shape) < 0.1] = np.nan
    if rng.random() < 0.3:
        out[2] = out[1]
    return out


def _families_agree(circuit):
    """A variable may have several inputs; their families must take the same values here."""
    return all(type(n.family) is type(circuit.families[n.variable]) for n in circuit.nodes if isinstance(n, fp.Input))


# ---- answers ---------------------------------------------------------------------------------------------------------------


def _numbers(answer):
    """All arrays of an answer but where NaN is documented: nodes of a quadrature that ended early."""
    if is_dataclass(answer):
        return [a for f in fields(answer) if f.name not in ("nodes", "space") for a in _numbers(getattr(answer, f.name))]
    if isinstance(answer, dict):
        return [a for value in answer.values() for a in _numbers(value)]
    if isinstance(answer, tuple | list):
        return [a for value in answer for a in _numbers(value)]
    return [] if answer is None else [np.asarray(answer, float)]


def _check(found, expected, size):
    """`size` has the numbers that `expected` is a difference of."""
    assert np.shape(found) == np.shape(expected), (np.shape(found), np.shape(expected))
    for at in np.ndindex(np.shape(expected)):
        value, truth, scale = float(np.asarray(found)[at]), np.asarray(expected)[at], np.asarray(size)[at]
        if np.isinf(value):
            assert scale > LARGEST, f"infinite at {at} for {mpmath.nstr(truth, 5)}"
            assert abs(truth) < LARGEST or mpmath.sign(truth) == np.sign(value), (at, value, mpmath.nstr(truth, 5))
        else:
            error = abs(mpmath.mpf(value) - truth)
            assert error <= TOLERANCE * scale + LEAST, (at, value, mpmath.nstr(truth, 12), mpmath.nstr(scale, 3))


class _Truth:
    """Sums over rows, and the sizes of what they are differences of."""

    def __init__(self, circuit, X, inputs, space):
        self.oracle, self.space = WideOracle(circuit, X, inputs), space
        self.zero = np.full((self.oracle.size, self.oracle.size), mpmath.mpf(0))
        self.rows = []
        for p, g, h in self.oracle.rows():
            if p > 0:
                g, second = g / p, h / p
                sizes = np.abs(second) + np.outer(g, g)
                self.rows.append((*self.oracle.in_space(space, g, second - np.outer(g, g)), *self._sizes(g, sizes)))
            else:
                self.rows.append((self.zero[:, 0] if self.oracle.size else np.empty(0), self.zero, self.zero[:, 0], self.zero))

    def _sizes(self, g, second):
        """Upper limits of gradient and Hessian: everything added up that is subtracted somewhere."""
        if self.space == "weights":
            return g, second
        t, n = self.oracle.theta, self.oracle.size
        J = np.full((n, n), mpmath.mpf(0))
        curved = np.full((n, n), mpmath.mpf(0))
        for unit in self.oracle.units:
            there = [i for i in unit if self.oracle.exists[i]]
            flow = sum(t[k] * g[k] for k in there)
            for i in there:
                for j in there:
                    J[i, j] = (i == j) + mpmath.mpf(1) / len(there) if self.space == "simplex" else t[i] * ((i == j) + t[j])
                    if self.space == "logits":
                        curved[i, j] = flow if i == j else 2 * (t[i] * t[j] * flow + t[i] * t[j] * (g[i] + g[j]))
        return J.T.dot(g), J.T.dot(second).dot(J) + curved

    @property
    def hessian(self):
        return sum((row[1] for row in self.rows), self.zero), sum((row[3] for row in self.rows), self.zero)


def _penalty(truth):
    """Value and gradient with their sizes, from each row's gradient and Hessian (untied parameters)."""
    n, t = truth.oracle.size, truth.oracle.theta
    value, value_size = mpmath.mpf(0), mpmath.mpf(0)
    gradient, gradient_size = np.full(n, mpmath.mpf(0)), np.full(n, mpmath.mpf(0))
    for g, h, g_size, h_size in truth.rows:
        value -= sum(h[i, i] for i in range(n))
        value_size += sum(h_size[i, i] + g_size[i] ** 2 for i in range(n))
        direction, direction_size = 2 * g, 2 * np.abs(g_size)
        if truth.space == "logits":
            direction = direction + 2 * np.array(t)
            direction_size = direction_size + 2 * np.array(t)
            for unit in truth.oracle.units:
                inner = sum(t[i] * g[i] for i in unit)
                inner_size = sum(t[i] * abs(g_size[i]) for i in unit)
                for k in unit:
                    gradient[k] += 2 * t[k] * (g[k] - inner)
                    gradient_size[k] += 2 * t[k] * (abs(g_size[k]) + inner_size)
        gradient = gradient + h.dot(direction)
        gradient_size = gradient_size + h_size.dot(direction_size)
    return value, value_size, gradient, gradient_size


def _asked(circuit, X, truth, inputs, rng):
    """Name -> a function that asks and checks."""
    space, n, c = truth.space, truth.oracle.size, fp.curvature
    options = {"space": space, "include_inputs": inputs, "missing": "marginalize"}
    layout = Layout(circuit, inputs)
    H, H_size = -truth.hessian[0], truth.hessian[1]
    v = rng.standard_normal(n)
    diagonal = np.array([H[i, i] for i in range(n)]), np.array([H_size[i, i] for i in range(n)])
    traces = [-sum((row[1][i, i] for i in range(n)), mpmath.mpf(0)) for row in truth.rows]
    trace_sizes = [sum((row[3][i, i] + row[2][i] ** 2 for i in range(n)), mpmath.mpf(0)) for row in truth.rows]

    def products(engine):
        operator = c.operator(circuit, X, engine=engine, **options)
        return lambda found: _check(found, H.dot(v), H_size.dot(np.abs(v))), lambda: operator @ v

    def penalty(found):
        value, value_size, gradient, gradient_size = _penalty(truth)
        _check(found.value, value, value_size)
        _check(layout.vector(found.gradient), gradient, gradient_size)

    def likelihood(found):
        p, _, h = truth.oracle.rows()[0]
        if p > 0:
            expected = p * (truth.rows[0][1] + np.outer(truth.rows[0][0], truth.rows[0][0]))
            _check(found, expected, p * (truth.rows[0][3] + np.outer(truth.rows[0][2], truth.rows[0][2])))
        elif space == "weights":
            _check(found, h, np.abs(h))

    def anything(found):
        pass

    whole = lambda found: _check(found, H, H_size)  # noqa: E731
    yield "trace", lambda: c.trace(circuit, X, **options), lambda f: _check(f, traces, trace_sizes)
    yield "breakdown", lambda: c.breakdown(circuit, X, **options), lambda f: _check(f.total, sum(traces), sum(trace_sizes))
    yield "diagonal", lambda: c.diagonal(circuit, X, **options), lambda f: _check(layout.vector(f), *diagonal)
    yield "hessian", lambda: c.hessian(circuit, X, **options), whole
    yield "columns", lambda: c.hessian(circuit, X, method="columns", **options), whole
    yield "torch", lambda: c.hessian(circuit, X, method="columns", engine="torch", **options), whole
    for engine in ("numba", "torch"):
        check, ask = products(engine)
        yield f"operator on {engine}", ask, check
    yield "penalty", lambda: c.penalty(circuit, X, **options), penalty
    yield "likelihood_hessian", lambda: c.likelihood_hessian(circuit, X[0], **options), likelihood
    for which in ("largest", "smallest"):
        yield f"{which} eigenvalues", lambda which=which: c.eigenvalues(circuit, X, 1, which=which, **options), anything
    yield "spectral_density", lambda: c.spectral_density(circuit, X, n_vectors=2, n_steps=4, n_grid=20, **options), anything
    yield "hutchinson", lambda: c.hutchinson(c.operator(circuit, X, **options), 4), anything
    yield "hutch_pp", lambda: c.hutch_pp(c.operator(circuit, X, **options), 6), anything
    if space != "simplex":
        for directions in ("random", "eigenvectors"):
            drawn = {"dimensions": 1, "n_steps": 3, "directions": directions, **options}
            yield f"landscape along {directions}", lambda drawn=drawn: c.landscape(circuit, X, **drawn), anything


SPECTRA = {
    "largest eigenvalues",
    "smallest eigenvalues",
    "spectral_density",
    "hutchinson",
    "hutch_pp",
    "landscape along eigenvectors",
}


def _may_refuse(name, circuit, truth, error):
    if isinstance(error, TiedParametersError):
        return circuit.has_tied_parameters
    large = max(np.ravel(truth.hessian[1])) > mpmath.mpf(10) ** 290
    return name in SPECTRA and large and "float64 can't hold" in str(error)


def test_extreme_circuits():
    with Tally("curvature of extreme circuits") as tally:
        for seed in range(how_many(6, 36)):
            circuit, rng = _circuit(seed)
            if not _families_agree(circuit):
                continue
            X = _rows(circuit, rng)
            for inputs in (False, True):
                for space in SPACES:
                    truth = _Truth(circuit, X, inputs, space)
                    for name, ask, check in _asked(circuit, X, truth, inputs, rng):
                        with tally.case(f"circuit {seed}, {name} in {space}{' with inputs' if inputs else ''}"):
                            try:
                                found = ask()
                            except FlatpcError as error:
                                if _may_refuse(name, circuit, truth, error):
                                    raise
                                raise AssertionError(f"refused: {error}") from error
                            assert not any(np.isnan(a).any() for a in _numbers(found)), found
                            check(found)
