"""The table of our default with all rows."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from flatpc.datasets import DEBD
from flatpc.paper import full_data
from flatpc.paper.cells import Cell, Result
from flatpc.paper.tables import table


def result(dataset, nll, error=""):
    return Result(Cell("full-data", dataset, 1.0, 0, "default", "text"), dataset, "0", 60.0, {"test_nll": nll}, error)


def test_all_twenty_are_published_and_their_means_are_as_known():
    assert set(full_data.published()) == set(DEBD)
    np.testing.assert_allclose(np.mean(list(full_data.published().values()), axis=0), [-53.86, -53.58], atol=0.005)


@pytest.mark.skipif(not os.environ.get("FLATPC_PUBLISHED"), reason="FLATPC_PUBLISHED does not name the file of published results")
def test_every_number_is_as_published():
    methods = {"HCLT12x4+soft+entropy (valid-selected iter, 5-seed mean)": 0, "EXPC": 1}
    with Path(os.environ["FLATPC_PUBLISHED"]).open() as file:
        found = {
            (r["dataset"], methods[r["method"]]): float(r["test_ll"]) for r in csv.DictReader(file) if r["method"] in methods
        }
    assert found == {(name, i): value for name, values in full_data.published().items() for i, value in enumerate(values)}


def test_a_table_has_the_mean_of_what_was_run():
    found = full_data.entries([result("nltcs", 6.0), result("dna", 80.0), result("kdd", 2.0, error="no memory")])
    rows = full_data.as_rows(found)
    assert [row[:2] for row in rows] == [["dna", "-80.000"], ["nltcs", "-6.000"], ["mean of 2", "-43.000"]]
    assert rows[0][2:] == ["-82.665", "-79.051", "-84.830"]
    assert "| mean of 2 | −43.000 |" in full_data.as_markdown(found)
    better = "than the paper's regularised model on 2, than HCLT 2021 on 0, than EXPC 2021 on 1 of 2 data sets."
    assert better in full_data.as_markdown(found)
    assert "flatpc reproduce full-data" in full_data.as_markdown([])


def test_a_run_has_two_threads_and_is_the_default_alone():
    declared = table("full-data")
    assert declared.n_threads == declared.settings["text"].n_threads == 2
    assert {cell.method for cell in declared.cells()} == {"default"}
