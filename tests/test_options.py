"""Checks of options: what they let through, in which type, and what their errors say."""

import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import flatpc as fp
from flatpc import _options as options
from flatpc.errors import OptionError


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (lambda: options.whole_number("n", np.int8(3), 1), 3),
        (lambda: options.number("x", np.float32(0.5)), 0.5),
        (lambda: options.number("x", Fraction(1, 4)), 0.25),
        (lambda: options.number("x", np.array(2)), 2.0),
        (lambda: options.seconds("t", float("inf")), float("inf")),
        (lambda: options.choice("c", np.str_("a"), ("a", "b")), "a"),
        (lambda: options.flag("f", np.True_), True),
        (lambda: options.file_path("p", "a/b"), Path("a/b")),
        (lambda: options.seed_number(2**63 - 1), 2**63 - 1),
        (lambda: options.thread_count(None), None),
        (lambda: options.thread_count(1024), 1024),
    ],
)
def test_right_values_come_back_as_plain_ones(check, expected):
    found = check()
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: options.whole_number("n", 10**5000, 1), "n=<int>; give a whole number from 1 to 2,147,483,647."),
        (lambda: options.whole_number("n", True, 1), "n=True; give a whole number of at least 1."),
        (lambda: options.number("x", 10**400, 0.0), None),
        (lambda: options.seconds("t", -(10**400)), None),
        (lambda: options.number("x", float("nan"), 0.0, 1.0, below=True), "x=nan; it is a number from 0 to less than 1."),
        (lambda: options.number("x", np.array([1.0])), "x=array([1.]); give a finite number."),
        (lambda: options.choice("c", "z", ("a", "b")), "c='z'; choose 'a' or 'b'."),
        (lambda: options.choice("c", ["a"], ("a", "b", "c")), "c=['a']; choose one of 'a', 'b', 'c'."),
        (lambda: options.flag("f", 1), "f=1; it is True or False."),
        (lambda: options.file_path("p", "a\0b"), None),
        (lambda: options.thread_count(5000), "n_threads=5000; give a whole number from 1 to 1,024."),
        (lambda: options.thread_count(float("nan")), "n_threads=nan; give a whole number from 1 to 1,024."),
        (lambda: fp.learning.Laplace(-1.0), "Laplace(pseudocount=-1.0); it counts rows, so it is 0 or a positive number."),
    ],
)
def test_wrong_values_are_named(check, message):
    with pytest.raises(OptionError) as caught:
        check()
    assert message is None or str(caught.value) == message
    assert caught.value.option in ("n", "x", "t", "c", "f", "p", "n_threads", "pseudocount")
    # Fits in processes of their own send their errors home.
    assert pickle.loads(pickle.dumps(caught.value)).option == caught.value.option


@pytest.mark.parametrize("n_threads", [float("nan"), -1, 0, {}, 5000, "2", True])
def test_threads_are_counted_before_any_is_started(n_threads):
    X = np.random.default_rng(0).integers(0, 2, (20, 3))
    with pytest.raises(OptionError, match=r"n_threads=.*from 1 to 1,024"):
        fp.fit(fp.structures.factorized(X), X, n_threads=n_threads, progress=False)
