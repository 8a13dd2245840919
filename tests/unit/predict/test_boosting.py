"""Trees asked one row at a time."""

import lightgbm
import numpy as np
import pytest

from headway.predict.boosting import _PARAMS, _ROUNDS, Trees


def test_trees_answer_one_row_as_the_library_answers_many():
    """The quick way in gives the numbers of the ordinary one."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(500, 4)).astype(np.float32)
    rows[:, 3] = rng.integers(0, 5, 500)
    targets = rows[:, 0].astype(np.float64) * rows[:, 3]
    table = lightgbm.Dataset(rows, targets, categorical_feature=[3], params={"verbose": -1})
    expected = lightgbm.train(dict(_PARAMS), table, _ROUNDS).predict(rows[:50])
    trees = Trees(rows, targets, category=3)
    assert [trees.value(row) for row in rows[:50].tolist()] == pytest.approx(list(expected))
