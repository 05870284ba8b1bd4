"""How a pass is cut into items: every number once, and nothing before what it needs."""

import numpy as np
import pytest

import flatpc as fp
from flatpc.engine._kernels import columns, items
from flatpc.engine.evaluator import Evaluator
from flatpc.engine.evidence import Evidence
from tests.engine.test_sharing import bits


def cut(n_threads):
    X = bits(150, 9)
    evaluator = Evaluator(fp.structures.hclt(X, 20))
    steps, program = evaluator.program.structure.steps, evaluator.program
    rows_of = Evidence(program, X, share=False).plan(np.arange(150)).batch.at[:, columns.ROWS]
    ptr, item = items.downward(steps, program.task_ptr, program.task, rows_of, evaluator._cost, 3, 2, n_threads)
    return steps, rows_of, np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), item


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_every_row_and_every_unit_is_in_one_item(n_threads):
    steps, rows_of, phase, item = cut(n_threads)
    assert len(phase) == len(item)
    for what, size_of in ((items.DESCEND, rows_of), (items.WEIGHTS, steps[:, columns.WIDTH])):
        for s in np.unique(item[item[:, 0] == what, 1]):
            ranges = sorted(map(tuple, item[(item[:, 0] == what) & (item[:, 1] == s), 2:4]))
            assert np.concatenate([np.arange(*r) for r in ranges]).tolist() == list(range(size_of[s]))
    assert np.bincount(item[:, 0], minlength=5)[[items.INPUT_BLOCK, items.WEIGHT_BLOCK]].tolist() == [3, 2]


@pytest.mark.parametrize("n_threads", [2, 3])
def test_weights_change_only_after_their_sum_has_passed_its_adjoints_on(n_threads):
    _, rows_of, phase, item = cut(n_threads)
    sums = np.unique(item[item[:, 0] == items.WEIGHTS, 1])
    assert len(sums) > 1
    assert (rows_of[sums] > items.ROWS_PER_ITEM).all()
    for s in sums:
        of_s = item[:, 1] == s
        assert phase[of_s & (item[:, 0] == items.WEIGHTS)].min() > phase[of_s & (item[:, 0] == items.DESCEND)].max()
