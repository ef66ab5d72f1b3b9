"""The K largest of a row: equal ones, what is no number or infinite, and more of them than the row has."""

import numpy as np
import pytest

from tilegen import load
from tilegen.interpreter import reference, run

INF, NAN = np.inf, np.nan
ROWS = {
    "of equal ones the first": ([3, 7, 7, 1, 3, 7], [7, 7, 7, 3, 3, 1], [1, 2, 5, 0, 4, 3]),
    "nan is none": ([NAN, 2, NAN, 5], [5, 2], [3, 1]),
    "infinite ones": ([1, INF, -INF, INF], [INF, INF, 1], [1, 3, 0]),
    "nan alone": ([NAN, NAN], [], []),
    "zeros are equal": ([-0.0, 0.0, -1], [0, 0, -1], [0, 1, 2]),
}


@pytest.mark.parametrize("schedule", ["threads", "warps", "blocks", "tiles"])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_which_they_are(name, schedule):
    row, best, at = ROWS[name]
    row = row + [NAN] * (64 - len(row)) if schedule == "tiles" else row
    scheduled = load("topk").schedule(schedule, {"N": len(row), "K": 7})
    arrays = {"X": np.array([row, row], np.float32)}
    expected = reference(scheduled.tree.kernel, {"M": 2}, arrays)
    for found in (run(scheduled.tree, {"M": 2}, arrays), {n: r.value for n, r in expected.items()}):
        for line in range(2):
            assert found["best"][line].tolist() == best + [-INF] * (7 - len(best))
            assert found["at"][line].tolist()[: len(at)] == at
