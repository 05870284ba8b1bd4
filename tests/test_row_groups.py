"""Groups of rows: how they are read, parted and counted."""

import numpy as np
import pandas as pd
import pytest

import flatpc as fp
from flatpc._row_groups import effective_number, parted, read_groups, standard_error


def test_labels_become_numbers():
    assert read_groups(None, 3) is None
    assert read_groups(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert read_groups([7, 3, 7, 5], 4, np.array([True, False, True, True])).tolist() == [1, 1, 0]


@pytest.mark.parametrize("given", [[1, 2], [[1], [2], [3]], [1, "a", None], [{}, {}, {}]])
def test_mistakes_are_named(given):
    with pytest.raises(fp.errors.DataError, match="groups"):
        read_groups(given, 3)


@pytest.mark.parametrize(
    "given",
    [
        [1.0, np.nan, 1.0],
        np.array([1.0, np.nan, 1.0], dtype=object),
        np.array(["2024-01-01", "NaT", "2024-01-01"], dtype="datetime64[D]"),
        pd.Series([1, None, 1], dtype="Int64"),
    ],
)
def test_a_row_without_a_label_is_named(given):
    with pytest.raises(fp.errors.DataError, match="no label for row 1"):
        read_groups(given, 3)
    # Rows that don't count need none.
    assert read_groups(given, 3, np.array([True, False, True])).tolist() == [0, 0]


def test_parts_hold_whole_groups():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, 200)
    order = rng.permutation(200)[:150]
    first, rest = parted(order, 75, groups)
    assert sorted([*first, *rest]) == sorted(order)
    assert not set(groups[first]) & set(groups[rest])
    assert abs(len(first) - 75) <= np.bincount(groups).max()
    alone = parted(order, 75, np.arange(200))
    np.testing.assert_array_equal(np.concatenate(alone), order)
    # One group is on one side.
    assert [len(part) for part in parted(order, 75, np.zeros(200, np.int64))] == [0, 150]


def test_standard_errors_of_groups_are_those_of_their_means():
    groups = np.repeat(np.arange(40), 5)
    means = np.random.default_rng(0).normal(size=(2000, 40))
    found = [standard_error(np.repeat(x, 5), np.ones(200), effective_number(np.ones(200), groups), groups) for x in means]
    # Of 40 numbers with deviation 1.
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(found))), 1 / np.sqrt(40), rtol=0.02)
