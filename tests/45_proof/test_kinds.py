"""Kinds of statements of a lowered program: what is of another kind is another statement."""

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Loop, Stmt
from tilegen.ir.walk import add_guard, stmts, substitute
from tilegen.proof.kinds import kind_of, with_kind

PLAIN = Stmt("A", Access("A", (var("i"),)), Const(0, "f32"))


def test_statements_of_different_kinds_differ():
    kinds = [PLAIN, with_kind(PLAIN, "asynchronous"), with_kind(PLAIN, "bulk copy")]
    assert len(set(kinds)) == 3
    assert [kind_of(each) for each in kinds] == ["", "asynchronous", "bulk copy"]


def test_what_rewrites_statements_keeps_their_kind():
    nest = (Loop("i", const(4), (with_kind(PLAIN, "wait"),)),)
    (found,) = stmts(add_guard(substitute(nest, {"i": var("j")}), Condition(var("j"))))
    assert kind_of(found) == "wait"
    assert found.guard == (Condition(var("j")),)
