"""What a GPU does not have is told before anything runs: at the step that asks for it, with the way out."""

from pathlib import Path

import pytest

from tests.support.written import tree_from
from tilegen import load
from tilegen.errors import LimitError
from tilegen.lowering import lower
from tilegen.lowering.launch.timelines import Barrier

FILES = sorted((Path(__file__).parents[1] / "errors" / "limits").glob("*.tg"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_limit_is_explained(path, golden_error, monkeypatch):
    monkeypatch.chdir(path.parent)
    file = load(path.name)
    (schedule,) = file.schedules
    with pytest.raises(LimitError) as caught:
        lower(file.schedule(schedule.name).tree)
    text = caught.value.render() + f"\nexit code {caught.value.exit_code}\n"
    golden_error(text, f"limits/{path.stem}.txt")


def test_loops_side_by_side_get_their_threads_one_after_the_other():
    """In between threads would have to wait for the first one, inside of a thread loop."""
    text = """
kernel rows(a: f32[8, 64]) -> o: f32[8, 64]:
    var s: f32[8, 64]
    s[i, j] = sin(a[i, j])
    o[i, j] = s[i, j] * 2

schedule s for rows():
    fuse(s.i, o.i) -> i
    bind(i, thread.y)
    bind(s.j, thread.x)
    bind(o.j, thread.x)
"""
    (launch,) = lower(tree_from(text))
    assert not any(isinstance(node, Barrier) for node in launch.nodes)
