"""Rows walked back and forth become rows walked one way, and only where nothing can notice."""

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Load, Op, Stmt
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.program import Declare, For
from tilegen.lowering.launch.timelines import COPIES, Barrier
from tilegen.proof.reading.on_timelines import started
from tilegen.proof.reading.straighten import straighten

i, j, t = var("i"), var("j"), var("t")


def put(*index, value=None, reduce="sum", **more):
    value = value or Const(1.0, "f32")
    return Stmt("C", Access("C.reg", tuple(index)), value, (*index,), reduce=reduce, **more)


def read(*index, buffer="C.reg"):
    return Load(buffer, tuple(index), "f32")


def loop(name, *body, extent=4):
    return For(name, const(extent), body, "unrolled")


def test_there_and_back_is_twice_there():
    there, back = loop("i", put(i, j * 2)), loop("i", put(const(3) - i, j * 2 + 1))
    whole = loop("j", For("i.2", const(2), (loop("i", put(i, j * 2 + var("i.2"))),)), extent=2)
    assert straighten((loop("j", there, back, extent=2),)) == (whole,)


def test_an_element_that_all_iterations_update_keeps_their_order():
    back = loop("i", put(j, value=read(const(3) - i, buffer="A")))
    assert straighten((back,)) == (back,)


def test_two_iterations_that_meet_in_an_element_keep_their_order():
    back = loop("i", loop("j", put(j - i + 3)))
    assert straighten((back,)) == (back,)


def test_an_iteration_that_reads_what_another_one_writes_keeps_its_place():
    back = loop("i", put(const(3) - i, value=read(const(4) - i), reduce=None))
    assert straighten((back,)) == (back,)
    own = loop("i", put(const(3) - i, value=read(const(3) - i), reduce=None))
    assert straighten((own,)) == (loop("i", put(i, value=read(i), reduce=None)),)


def test_two_statements_in_a_loop_keep_their_order():
    other = Stmt("D", Access("D.reg", (i,)), read(const(3) - i))
    back = loop("i", put(const(3) - i), other)
    assert straighten((back,)) == (back,)


def test_a_guard_goes_where_its_iteration_goes():
    back = loop("i", put(const(3) - i, guard=(Condition(t - i),)))
    assert straighten((back,)) == (loop("i", put(i, guard=(Condition(t + i - 3),))),)


def test_loops_whose_guards_differ_by_constants_are_a_pair():
    first, second = (loop("i", put(i, const(n), guard=(Condition(t - n),))) for n in (0, 1))
    n = var("i.2")
    pair = For("i.2", const(2), (loop("i", put(i, n, guard=(Condition(t - n),))),))
    assert straighten((first, second)) == (pair,)


def test_loops_that_differ_by_more_are_no_pair():
    body = (loop("i", put(i, j)), loop("i", put(i, t)))
    assert straighten(body) == body
    body = (loop("i", put(i, const(0))), loop("i", put(i, const(1)), extent=3))
    assert straighten(body) == body
    body = (loop("i", put(i, const(0))), loop("i", put(i, const(1), value=Op("+", (read(i, i), read(i, i)), "f32"))))
    assert straighten(body) == body


def test_nothing_that_waits_counts_or_is_declared_is_part_of_a_pair():
    for more in (Barrier(claims=(Claim("RAW", "A"),)), Declare("x"), started(put(i, const(0), reduce=None), COPIES)):
        body = tuple(loop("i", more, put(i, const(n))) for n in (0, 1))
        assert straighten(body) == body
