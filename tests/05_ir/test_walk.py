"""What a rewrite makes of values: as `dataclasses.replace` makes it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from tilegen.errors import Source, Span
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Access, Condition, Const, Load, Loop, Stmt
from tilegen.ir.walk import (
    accesses,
    loads,
    loops,
    rewrite,
    rewrite_accesses,
    rewrite_indices,
    rewrite_nodes,
    stmts,
    substitute,
    walk,
)

SPAN = Span(Source("a.tg", "text"), 1, 2)
STMT = Stmt(
    "C", Access("C", (var("i"),)), Load("A", (var("i"), var("k")), "f32", span=SPAN), span=SPAN, step="unroll(k)"
)


def same_in_all(one, two):
    """Also in fields that take no part in equality."""
    return type(one) is type(two) and all(getattr(one, f.name) == getattr(two, f.name) for f in fields(one))


def test_fields_that_do_not_change_are_kept_and_those_of_no_equality_too():
    tree = Loop("i", const(4), (STMT,), kind="unrolled", stages=2, span=SPAN, step="tile(i, 4)")
    new = substitute(tree, {"i": var("i") + 1})
    inner = replace(
        STMT,
        target=replace(STMT.target, index=(var("i") + 1,)),
        value=replace(STMT.value, index=(var("i") + 1, var("k"))),
    )
    assert same_in_all(new, replace(tree, body=(inner,)))
    assert same_in_all(new.body[0], inner)
    assert new.body[0].value.span == SPAN
    assert hash(new) == hash(replace(tree, body=(inner,)))


def test_what_was_read_is_as_it_was():
    before = repr(STMT)
    assert substitute(STMT, {"i": const(0)}) != STMT
    assert repr(STMT) == before
    assert substitute(STMT, {"j": const(0)}) is STMT


@dataclass(frozen=True)
class Worked:
    """A value that works something out of itself."""

    index: Affine

    @cached_property
    def names(self) -> frozenset[str]:
        return self.index.names()


@dataclass(frozen=True)
class Made:
    """A value that does something when it is made."""

    index: Affine
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.index.names())


@dataclass(frozen=True, slots=True)
class Slotted:
    index: Affine


def test_what_a_value_has_worked_out_is_not_that_of_the_new_one():
    old = Worked(var("i"))
    assert old.names == {"i"}
    assert substitute(old, {"i": var("j")}).names == {"j"}
    assert substitute(Made(var("i")), {"i": var("j")}).names == {"j"}
    assert substitute(Slotted(var("i")), {"i": var("j")}) == Slotted(var("j"))


def test_a_statement_becomes_several_or_none():
    body = (STMT, replace(STMT, name="D"))
    twice = rewrite(body, lambda v: (v, v) if isinstance(v, Stmt) and v.name == "C" else v)
    assert twice == (STMT, STMT, body[1])
    none = rewrite(Loop("i", const(4), body), lambda v: () if isinstance(v, Stmt) else v)
    assert none == Loop("i", const(4), ())
    zero = rewrite(STMT, lambda v: Const(0, "f32") if isinstance(v, Load) else v)
    assert zero.value == Const(0, "f32")


def test_loops_and_statements_are_rewritten_as_by_a_rewrite_of_all():
    other = replace(STMT, name="D")
    inner = Loop("j", const(4), (STMT, other))
    body = (Loop("i", const(4), (inner, Loop("l", const(2), (other,)))), STMT)

    def change(value):
        match value:
            case Stmt(name="D"):
                return ()
            case Stmt():
                return replace(value, step=""), value
            case Loop(body=()):
                return ()
            case _:
                return value

    new = rewrite_nodes(body, change)
    assert new == rewrite(body, change, (Stmt,))
    (nest, *_) = new
    assert [type(node) for node in nest.body] == [Loop]
    assert rewrite_nodes(body, lambda value: value) is body
    assert rewrite_nodes(body, lambda value: value if value is not other else other)[0] is body[0]


def test_each_index_is_changed_wherever_it_stands_and_asked_about_once():
    asked = []

    def change(index: Affine) -> Affine:
        asked.append(index)
        return index.substitute({"k": const(3)})

    tree = Loop("i", const(4), (STMT, replace(STMT, value=Const(0, "f32"), guard=(Condition(var("k")),))))
    first, second = rewrite_indices(tree, change).body
    assert first.value.index == (var("i"), const(3))
    assert first.target is STMT.target
    assert second.guard == (Condition(const(3)),)
    assert sorted(map(str, asked)) == ["4", "i", "k"]
    assert rewrite_indices(var("k"), change) == const(3)


def test_accesses_are_found_and_rewritten_as_by_a_walk_through_all():
    guarded = replace(STMT, guard=(Condition(var("k")),), instance=(var("i"),), reduce="sum")
    tree = (Loop("i", const(4), (STMT, guarded)), guarded)
    assert list(accesses(tree)) == [v for v in walk(tree) if isinstance(v, Access | Load)]
    assert list(loads(tree)) == [v for v in walk(tree) if isinstance(v, Load)]

    def change(value):
        return replace(value, buffer="B") if isinstance(value, Load) else value

    assert rewrite_accesses(tree, change) == rewrite(tree, change)


def test_what_is_in_a_list_is_found():
    """A check that walks a list would never find anything, and say nothing."""
    for looks in (walk, accesses, loads, stmts, loops):
        assert [*looks([STMT, (STMT,)])] == [*looks((STMT, STMT))]


def test_a_statement_of_a_kind_of_its_own_is_one():
    """The proof has such: what is started goes on beside its thread."""

    @dataclass(frozen=True)
    class Started(Stmt):
        line: str = ""

    started = Started(STMT.name, STMT.target, STMT.value)
    assert [*stmts((Loop("i", const(2), (started,)),))] == [started]
