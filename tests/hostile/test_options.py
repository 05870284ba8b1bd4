"""Wrong options: every public function × every option × two dozen wrong values is refused by flatpc, or answered rightly."""

from __future__ import annotations

import copy
import datetime
import inspect
import itertools
import math
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

import flatpc as fp
from tests.hostile.calls import calls, surface
from tests.hostile.tally import Tally, how_many

SECONDS = 20.0
"""That a single case may take; the longest that works takes a few."""
MANY = 5000
HUGE = 10**400
SIZES = {
    "n_latents", "n_sums", "n_inputs", "n_trees", "n_variables", "n_components", "n_repetitions", "length", "shape", "width",
}  # fmt: skip
"""Options for which `MANY` is a fair wish that takes long."""
SPARSE = {"nodes", "history", "train_nll", "valid_nll", "best_nll"}
"""What may hold NaN by its description: quadrature that ended early, epochs without validation rows."""

PASSED_ON = {"datasets.fraction_of", "learning.degree_of_overfitting", "tables.source"}
"""Functions that answer NaN where they are given it, as they say."""


def wrong_values() -> dict[str, Any]:
    """Made anew for each case, as a case may change them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather not make quantised and nested tensors
        quantised = torch.quantize_per_tensor(torch.rand(2, 3), 0.1, 0, torch.quint8)
        nested = torch.nested.as_nested_tensor([torch.ones(1, 3), torch.ones(2, 3)], layout=torch.jagged)
    return {
        "None": None,
        "nan": math.nan,
        "inf": math.inf,
        "-inf": -math.inf,
        "-1": -1,
        "0": 0,
        "2.5": 2.5,
        "many": MANY,
        "2**63": 2**63,
        "10**400": HUGE,
        "-10**400": -HUGE,
        "True": True,
        "1j": 1j,
        "empty text": "",
        "text": "nonsense",
        "bytes": b"",
        "empty list": [],
        "list": [math.nan, "a"],
        "dict": {},
        "set": {1, 2},
        "object": object(),
        "array of one": np.array([1]),
        "empty array": np.array([]),
        "array of NaN": np.array([[math.nan]]),
        "array of 10**400": np.array([[HUGE]], dtype=object),
        "function": lambda *_: None,
        "class": dict,
        "tensor": torch.tensor([1.5]),
        "complex tensor": torch.ones(2, 3, dtype=torch.complex64).conj(),
        "meta tensor": torch.ones(2, 3, device="meta"),
        "quantised tensor": quantised,
        "nested tensor": nested,
        "date": datetime.date(2026, 1, 1),
    }


def options_of(found: Any) -> list[str]:
    kinds = inspect.Parameter
    return [
        name
        for name, parameter in inspect.signature(found).parameters.items()
        if name != "self" and parameter.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    ]


@contextmanager
def time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still running after {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def nan_in(answer: Any, depth: int = 0) -> bool:
    """Whether there is a NaN where none may be."""
    if isinstance(answer, float):
        return math.isnan(answer)
    if isinstance(answer, np.ndarray):
        return answer.dtype.kind == "f" and bool(np.isnan(answer).any())
    if isinstance(answer, torch.Tensor):
        return answer.is_floating_point() and not answer.is_meta and bool(answer.isnan().any())
    if isinstance(answer, fp.Circuit):
        return nan_in(dict(answer.parameters))
    if isinstance(answer, dict):
        return any(nan_in(value, depth + 1) for value in answer.values())
    if isinstance(answer, list | tuple):
        return any(nan_in(value, depth + 1) for value in answer)
    if is_dataclass(answer) and not isinstance(answer, type) and depth < 4:
        return any(nan_in(getattr(answer, f.name), depth + 1) for f in fields(answer) if f.name not in SPARSE)
    return False


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return not isinstance(one, list | dict | set) or repr(one) == repr(other)


@pytest.fixture
def known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "nonsense" is the name of a file
    monkeypatch.delenv("FLATPC_DATA", raising=False)
    monkeypatch.setenv("FLATPC_CACHE", str(tmp_path))
    return calls(tmp_path)


def test_every_public_function_has_a_call_that_works(known):
    found = dict(surface())
    assert sorted(set(found) - set(known)) == [], "add a cheap call to tests/hostile/calls.py"
    assert sorted(set(known) - set(found)) == []
    for name, call in known.items():
        assert set(call.options) <= set(options_of(found[name])) | {"epochs", "stopping", "progress", "n_threads"}, name
        if call.works:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call.run(**call.options)


def test_wrong_options(known):
    cases = [(name, option, value) for name, found in surface() for option in options_of(found) for value in wrong_values()]
    cases = [case for case in cases if not (case[2] == "many" and case[1] in SIZES)]
    chosen = np.random.default_rng(0).permutation(len(cases))[: how_many(1_000, len(cases))]
    with Tally("wrong options") as tally:
        for name, option, kind in (cases[i] for i in sorted(chosen)):
            call, value = known[name], wrong_values()[kind]
            options = {**call.options, option: value}
            before = {
                key: copy.deepcopy(given) for key, given in options.items() if isinstance(given, np.ndarray | list | dict | set)
            }
            with tally.case(f"{name}({option}={kind})"), warnings.catch_warnings(), time_limit():
                warnings.simplefilter("ignore")
                answer = call.run(**options)
                assert name in PASSED_ON or not nan_in(answer), "NaN in the answer"
                assert all(same(given, options[key]) for key, given in before.items()), "the input was changed"


def test_wrong_values_inside_dicts(known):
    """Options that are dicts, such as events: one value after the other is wrong, alone, in a list and as an end of a range."""
    ways = {"alone": lambda wrong: wrong, "in a list": lambda wrong: [wrong], "as an end": lambda wrong: (wrong, 1)}
    with Tally("wrong values inside dicts") as tally:
        for name, call in known.items():
            for option, given in call.options.items():
                if not isinstance(given, dict):
                    continue
                for key, kind, way in itertools.product(list(given)[:3], wrong_values(), ways):
                    options = {**call.options, option: {**given, key: ways[way](wrong_values()[kind])}}
                    with tally.case(f"{name}({option}[{key!r}]={kind} {way})"), warnings.catch_warnings(), time_limit():
                        warnings.simplefilter("ignore")
                        assert not nan_in(call.run(**options)), "NaN in the answer"
