"""bind of several loops in one step."""

import pytest

from tests.support.written import tree_from
from tilegen.errors import StepError

ADD = """
kernel add(A: f32[B, M, N]) -> C: f32[B, M, N]:
    C[b, i, j] = A[b, i, j] + 1

schedule one_by_one for add():
    bind(b, block.x)
    bind(i, block.x)
    bind(j, block.x)

schedule several for add():
    bind([b, i, j], block.x)

schedule nest for add():
    collapse(i, j) -> place
    bind([b, place], block.x)

schedule taken for add():
    bind(b, block.y)
    bind([i, b], block.x)
"""


@pytest.mark.parametrize("name", ["several", "nest"])
def test_a_list_of_loops_is_bound_as_one_by_one(name):
    found, expected = tree_from(ADD, name).body[0], tree_from(ADD, "one_by_one").body[0]
    while hasattr(expected, "kind"):
        assert (found.name, found.kind) == (expected.name, expected.kind)
        found, expected = found.body[0], expected.body[0]


def test_each_loop_of_a_list_has_to_be_free():
    with pytest.raises(StepError, match="'b'"):
        tree_from(ADD, "taken")
