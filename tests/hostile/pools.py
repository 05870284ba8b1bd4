"""The same questions asked in many ways at once; run by `test_pools.py` in a process of its own, so that a hang can be ended.

python -m tests.hostile.pools N WAY... asks N circuits in each of these ways, and prints a digest of each answer as JSON. A way
that takes too long ends the process with a trace of where it waits.
"""

import faulthandler
import hashlib
import itertools
import json
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

import flatpc as fp

ROWS = 600
LIMIT = 240
"""Seconds for one way."""


def _circuits():
    rng = np.random.default_rng(71)
    bits = (rng.random((ROWS, 8)) < rng.choice([0.2, 0.8], (ROWS, 1))).astype(float)
    plane = rng.normal(size=(ROWS, 4)) + 3 * rng.integers(0, 2, (ROWS, 1))
    letters = rng.integers(0, 4, (ROWS, 6)).astype(float)
    yield "hidden tree", lambda: (fp.structures.hclt(bits, 8).randomize(1), bits)
    yield "gaussians", lambda: (fp.structures.rat_spn(4, n_sums=6, n_inputs=6, seed=2, family=fp.Gaussian()).randomize(2), plane)
    yield "categories", lambda: (fp.structures.hclt(letters, 5, family=fp.Categorical(4)).randomize(3), letters)
    yield "independent", lambda: (fp.structures.factorized(plane, family=fp.Gaussian()), plane)
    yield "trees", lambda: (fp.structures.tree_mixture(bits, n_trees=3, seed=4), bits)


CIRCUITS = dict(_circuits())


def _holes(X):
    return np.where(np.random.default_rng(72).random(X.shape) < 0.3, np.nan, X)


def _learnt(circuit, X, **options):
    n = numba.get_num_threads()
    result = fp.fit(circuit, X, epochs=3, seed=5, progress=False, n_threads=n, **options)
    return [result.history["train_nll"], *_parameters(result.circuit)]


def _parameters(circuit):
    for value in circuit.parameters.values():
        yield from value.values() if isinstance(value, dict) else (value,)


def _flows(flows):
    yield flows.log_prob
    yield from flows.sums.values()
    for counts in flows.inputs.values():
        yield from counts.values()


QUESTIONS = {
    "log_prob": lambda c, X: [c.log_prob(X)],
    "log_prob, float32": lambda c, X: [c.log_prob(X, dtype="float32")],
    "log_prob, holes": lambda c, X: [c.log_prob(_holes(X), missing="marginalize")],
    "log_prob, few rows": lambda c, X: [c.log_prob(X[:3])],
    "flows": lambda c, X: list(_flows(c.flows(X))),
    "flows, float32": lambda c, X: list(_flows(c.flows(X, dtype="float32"))),
    "sample": lambda c, X: [c.sample(500, seed=6)],
    "sample, given": lambda c, X: [c.sample(2, seed=7, given=_holes(X)[:100])],
    "mpe": lambda c, X: [c.mpe(_holes(X)[:100]).values],
    "expectation": lambda c, X: [c.expectation(_holes(X))],
    "variance": lambda c, X: [c.variance(_holes(X))],
    "trace": lambda c, X: [fp.curvature.trace(c, X)],
    "fit, all rows": lambda c, X: _learnt(c, X, batch_size=None, method=fp.EM(step_size=1.0)),
    "fit, batches": lambda c, X: _learnt(c, X, batch_size=50, sharpness=fp.Sharpness(mu=0.1)),
    "fit, float32": lambda c, X: _learnt(c, X, batch_size=100, dtype="float32", valid=X[:40]),
    "fit, adam": lambda c, X: _learnt(c, X, batch_size=100, method="adam"),
}


def digest(circuit, X, question):
    """Of all bits of the answer."""
    out = hashlib.sha256()
    for array in QUESTIONS[question](circuit, X):
        array = np.ascontiguousarray(array)
        out.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return out.hexdigest()


def ask(task):
    """One question of one circuit, made anew."""
    name, question = task
    return digest(*CIRCUITS[name](), question)


def asked(way, names):
    """Digests of all answers, got in this way, by question; concurrent ways ask everything twice."""
    tasks = list(itertools.product(names, QUESTIONS))
    if way in ("1 thread", "2 threads"):
        numba.set_num_threads(int(way[0]))
        return tasks, [ask(task) for task in tasks]
    if way == "threads":
        # All of them on the same circuits.
        shared = {name: CIRCUITS[name]() for name in names}
        tasks = 2 * tasks
        with ThreadPoolExecutor(4) as pool:
            return tasks, list(pool.map(lambda task: digest(*shared[task[0]], task[1]), tasks))
    if way in ("fork", "spawn", "fork after use"):
        if way == "fork after use":
            # The parent has threads by now, which its children don't.
            numba.set_num_threads(2)
            ask(tasks[0])
        with multiprocessing.get_context(way.split()[0]).Pool(2) as pool:
            return tasks, pool.map_async(ask, tasks, chunksize=5).get(timeout=LIMIT)
    import joblib

    backend = {"joblib processes": "loky", "joblib threads": "threading"}[way]
    return tasks, joblib.Parallel(n_jobs=2, backend=backend, timeout=LIMIT)(joblib.delayed(ask)(task) for task in tasks)


def main(n, *ways):
    for way in ways:
        print(way, file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        tasks, answers = asked(way, list(CIRCUITS)[: int(n)])
        for task, answer in zip(tasks, answers, strict=True):
            print(json.dumps([way, *task, answer]))
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
