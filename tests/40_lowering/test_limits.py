"""What a GPU does not have is told before anything runs: at the step that asks for it, with the way out."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.written import tree_from
from tilegen import load
from tilegen.errors import LimitError
from tilegen.ir.affine import const
from tilegen.ir.nodes import Loop
from tilegen.ir.walk import rewrite
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


def test_a_bulk_copy_is_used_in_the_body_that_it_stands_in():
    """A loop of one iteration around it changes no value, and nobody would know where to wait for it."""
    text = """
kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

schedule s for transpose():
    tile(i, 32) -> bi, ti
    tile(j, 32) -> bj, tj
    order(bi, bj, tj, ti)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.x)
    cache_shared(X, at=bj)
    bulk(X.shared)
"""

    def apart(value):
        outermost = isinstance(value, Loop) and value.kind == "bulk" and value.name == "X.shared.i"
        return Loop("once", const(1), (value,)) if outermost else value

    tree = tree_from(text)
    lower(tree)
    with pytest.raises(LimitError, match="'X.shared' is used in another body of loops than the one in which"):
        lower(replace(tree, body=rewrite(tree.body, apart)))
