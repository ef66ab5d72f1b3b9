"""Products of sizes are integers of their own in a question, and products of the sizes in its answer."""

import pytest

from tilegen.poly.covering import find_uncovered
from tilegen.poly.system import NoSizes, example

NAMES = ["B", "T", "B*T"]
EACH = tuple((False, ((name, 1),), -1) for name in NAMES)


def is_just(name, value):
    return ((True, ((name, 1),), -value),)


def at_least(name, value):
    return ((False, ((name, 1),), -value),)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ((), (1, 1, 1)),
        (at_least("T", 2), (1, 2, 2)),
        (at_least("T", 2) + at_least("B*T", 5), (3, 2, 6)),
        (at_least("T", 2) + at_least("B", 3), (3, 2, 6)),
        (is_just("B", 1) + at_least("B*T", 5), (1, 5, 5)),
    ],
)
def test_sizes_of_an_answer_fit(rows, found):
    assert example(EACH + rows, NAMES) == dict(zip(NAMES, found, strict=True))
    assert find_uncovered(EACH + rows, [], NAMES) == dict(zip(NAMES, found, strict=True))


def test_an_answer_without_such_sizes_is_none():
    rows = EACH + is_just("B", 2) + is_just("B*T", 5)
    with pytest.raises(NoSizes):
        example(rows, NAMES)
    with pytest.raises(NoSizes):
        find_uncovered(rows, [], NAMES)
