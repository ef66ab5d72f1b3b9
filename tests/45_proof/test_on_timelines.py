"""Statements that are started, and what is said of events: what is said otherwise is another statement."""

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Loop, Stmt
from tilegen.ir.walk import add_guard, stmts, substitute
from tilegen.lowering.launch.timelines import COPIES, FILLED, STORES
from tilegen.proof.reading.on_timelines import does, is_event, started

PLAIN = Stmt("A", Access("A", (var("i"),)), Const(0, "f32"))


def test_statements_on_different_timelines_differ():
    each = [PLAIN, started(PLAIN, COPIES), started(PLAIN, FILLED)]
    assert len(set(each)) == 3
    assert [does(one, "start", COPIES, FILLED) for one in each] == [False, True, True]
    assert not any(map(is_event, each))
    assert not does(each[1], "start", STORES)


def test_what_rewrites_statements_keeps_what_they_say():
    nest = (Loop("i", const(4), (started(PLAIN, FILLED),)),)
    (found,) = stmts(add_guard(substitute(nest, {"i": var("j")}), Condition(var("j"))))
    assert does(found, "start", FILLED)
    assert found.guard == (Condition(var("j")),)
