"""Laws of copies: the last write to the place was for the element that is read, and nothing has changed it since.

Each case is a program, written by hand as statements over one small loop, and what the judge says of it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Access, Buffer, Condition, Const, Load, Loop, Stmt, Tree
from tilegen.ir.walk import rewrite, stmts
from tilegen.ir.written import tree_of
from tilegen.judge import judge

TEXT = """
kernel shifted(x: i32[9]) -> y: i32[8]:
    y[i] = x[i] + x[i + 1]

kernel padded(x: i32[8]) -> y: i32[8]:
    y[i] = (x[i - 1] else 0) * 2

kernel counted(x: i32[8, 4]) -> y: i32[8]:
    y[i] = sum[k](x[i, k])

kernel replaced(x: i32[8, 4], y: i32[8]) -> y: i32[8]:
    y[i] = sum[k](x[i, k])
"""
i, j, k = var("i"), var("j"), var("k")


def tree(kernel: str) -> Tree:
    return tree_of(build(parse(Source("laws.tg", TEXT)).kernels[kernel]))


def copy(
    target: str, place: Affine, source: str, origin: tuple[Affine, ...], element: tuple[Affine, ...] | None = None
):
    name = target if "." in target else source
    return Stmt(name, Access(target, (place,)), Load(source, origin, "i32"), element=element)


def register(name: str, tensor: str, size: int, scope: str | None = None) -> Buffer:
    return Buffer(name, "i32", (const(size),), "register", (0,), copy_of=tensor, scope=scope)


def read_from(whole: Tree, places: dict[Affine, tuple[str, Affine]]) -> Stmt:
    """The statement of `shifted`, with the reads of x at these indices made from copies."""
    (stmt,) = stmts(whole.body)

    def change(value):
        if isinstance(value, Load) and value.index[0] in places:
            buffer, place = places[value.index[0]]
            return replace(value, buffer=buffer, index=(place,))
        return value

    return rewrite(stmt, change)


def two_slots(first: tuple[Stmt, ...], later: tuple[Stmt, ...], **places) -> Tree:
    """`shifted` with a register for each of two neighbours: `first` in front of the loop, `later` in it."""
    whole = tree("shifted")
    use = read_from(whole, {i: ("x.reg", places["here"]), i + 1: ("x.reg", places["next"])})
    body = (*first, Loop("i", const(8), (*later, use)))
    return replace(whole, buffers=(*whole.buffers, register("x.reg", "x", 2)), body=body)


def outer(tree_: Tree) -> Tree:
    """The same in a loop of one iteration: a tree is a list of loops."""
    body = (Loop("o", const(1), tree_.body),)
    buffers = tuple(replace(b, scope="o") if b.name == "x.reg" else b for b in tree_.buffers)
    return replace(tree_, buffers=buffers, body=body)


def test_two_places_in_turn_hold_one_neighbour_each():
    """for i: x.reg[(i + 1)%2] = x[i + 1]; y[i] = x.reg[i%2] + x.reg[(i + 1)%2]"""
    start = (copy("x.reg", const(0), "x", (const(0),)),)
    later = (copy("x.reg", (i + 1) % 2, "x", (i + 1,)),)
    assert judge(outer(two_slots(start, later, here=i % 2, next=(i + 1) % 2))) is None


def test_a_place_that_is_written_for_the_next_element_too_early():
    """for i: x.reg[i%2] = x[i + 1]; ...: the element i is gone when it is read."""
    start = (copy("x.reg", const(0), "x", (const(0),)), copy("x.reg", const(1), "x", (const(1),)))
    later = (copy("x.reg", i % 2, "x", (i + 1,)),)
    violation = judge(outer(two_slots(start, later, here=i % 2, next=(i + 1) % 2)))
    assert violation is not None
    assert violation.sentence == "'x.reg' holds another element than the one that is read from it"
    assert violation.witness == "y(i=2) reads x.reg[0] for x[2], and it holds x[3]"


def test_a_place_that_nothing_has_written():
    later = (copy("x.reg", (i + 1) % 2, "x", (i + 1,)),)
    violation = judge(outer(two_slots((), later, here=i % 2, next=(i + 1) % 2)))
    assert violation is not None
    assert violation.sentence == "'x.reg' is read where nothing has been written"


def handed_on(element: tuple[Affine, ...] | None) -> Tree:
    """for i: x.a[0] = x[i]; x.b[0] = x.a[0] for the element; y[i] = x.b[0] + x[i + 1]"""
    whole = tree("shifted")
    use = read_from(whole, {i: ("x.b", const(0))})
    first = copy("x.a", const(0), "x", (i,))
    second = copy("x.b", const(0), "x.a", (const(0),), element)
    buffers = (*whole.buffers, register("x.a", "x", 1, "i"), register("x.b", "x.a", 1, "i"))
    return replace(whole, buffers=buffers, body=(Loop("i", const(8), (first, second, use)),))


def test_a_copy_of_a_copy_says_which_element_it_hands_over():
    assert judge(handed_on((i,))) is None


@pytest.mark.parametrize(
    ("element", "sentence"),
    [
        ((i + 1,), "'x.a' holds another element than the one that is read from it"),
        (None, "it is not known which elements of 'x' the copy 'x.b' hands over"),
        ((i, i), "it is not known which elements of 'x' the copy 'x.b' hands over"),
    ],
)
def test_what_a_copy_says_is_not_believed(element, sentence):
    violation = judge(handed_on(element))
    assert violation is not None
    assert violation.sentence == sentence


def accumulate(
    *ends: Stmt, kernel: str = "counted", ahead: tuple[Stmt, ...] = (), inside: tuple[Stmt, ...] = ()
) -> Tree:
    """A sum in a register: `ahead` stands before it, `inside` after each term, `ends` after the sum."""
    whole = tree(kernel)
    start, term = (
        rewrite(s, lambda v: Access("y.reg", (const(0),)) if v == Access("y", (i,)) else v) for s in stmts(whole.body)
    )
    body = (*ahead, start, Loop("k", const(4), (term, *inside)), *ends)
    buffers = (*whole.buffers, register("y.reg", "y", 1, "i"))
    return replace(whole, buffers=buffers, body=(Loop("i", const(8), body),))


STORE = Stmt("y.reg", Access("y", (i,)), Load("y.reg", (const(0),), "i32"))
FILL = Stmt("y.reg", Access("y.reg", (const(0),)), Load("y", (i,), "i32"))


def test_a_sum_in_a_register_is_stored():
    assert judge(accumulate(STORE)) is None


def test_a_sum_that_is_never_stored():
    violation = judge(accumulate())
    assert violation is not None
    assert violation.sentence == "'y.reg' is written and not stored back to 'y'"


def test_a_sum_may_be_stored_and_filled_again_after_each_term():
    assert judge(accumulate(inside=(STORE, FILL))) is None


def test_a_fill_from_memory_that_is_out_of_date():
    """The sum is filled from y again after each term, and stored only at the end."""
    violation = judge(accumulate(STORE, inside=(FILL,)))
    assert violation is not None
    assert violation.sentence == "'y.reg' is filled from elements of 'y' that nothing has written"


def test_memory_that_is_updated_holds_old_values_until_they_change():
    """A fill before the sum finds the old value; one that follows a term needs a store of what has changed."""
    assert judge(accumulate(STORE, kernel="replaced", ahead=(FILL,))) is None
    assert judge(accumulate(STORE, kernel="replaced", ahead=(FILL, STORE), inside=(STORE, FILL))) is None
    nothing = "'y.reg' is filled from elements of 'y' that nothing has written"
    older = "an element of 'y' is read from 'y' after it has changed in 'y.reg'"
    for kernel, ahead, inside, sentence in (
        ("counted", (FILL,), (), nothing),
        ("replaced", (), (FILL,), nothing),
        ("replaced", (FILL, STORE), (FILL,), older),
        ("replaced", (), (replace(STORE, guard=(Condition(-k),)), FILL), older),
    ):
        violation = judge(accumulate(STORE, kernel=kernel, ahead=ahead, inside=inside))
        assert violation is not None
        assert violation.sentence == sentence


def test_a_fill_that_is_older_than_the_last_change():
    """It is stored at the first term alone: what is filled later is older than the register."""
    first = replace(STORE, guard=(Condition(-k),))
    violation = judge(accumulate(STORE, inside=(first, FILL)))
    assert violation is not None
    assert violation.sentence == "an element of 'y' is read from 'y' after it has changed in 'y.reg'"
    assert violation.witness == "y(i=0, k=1) writes y.reg[0], and the copy y.reg at i=0, k=2 reads y[0] for y[0]"


def one_place(kernel: str, read: Affine, *fills: Stmt) -> Tree:
    """for i: the fills of x.reg[0]; y[i] = its value with x.reg[0] in place of x at `read`"""
    whole = tree(kernel)
    use = read_from(whole, {read: ("x.reg", const(0))})
    use = rewrite(use, lambda v: replace(v, fallback=None) if isinstance(v, Load) and v.buffer == "x.reg" else v)
    buffers = (*whole.buffers, register("x.reg", "x", 1, "i"))
    return replace(whole, buffers=buffers, body=(Loop("i", const(8), (*fills, use)),))


def fill(index: Affine, beyond: int | None = None, where: Affine | None = None) -> Stmt:
    """x.reg[0] = x[index] else `beyond`, where `where` >= 0"""
    value = Load("x", (index,), "i32", None if beyond is None else Const(beyond, "i32"))
    return Stmt("x.reg", Access("x.reg", (const(0),)), value, guard=() if where is None else (Condition(where),))


OTHER = "'x.reg' holds another element than the one that is read from it"


@pytest.mark.parametrize(
    ("where", "witness"),
    [
        (None, None),
        (i - 4, "y(i=0) reads x.reg[0] for x[0], and it holds x[7]"),
        (3 - i, "y(i=4) reads x.reg[0] for x[4], and it holds x[3]"),
    ],
)
def test_a_place_that_is_put_right_again_in_some_iterations(where, witness):
    """for i: x.reg[0] = x[i]; x.reg[0] = x[7 - i]; if ...: x.reg[0] = x[i]; y[i] = x.reg[0] + x[i + 1]

    Up to i=3 the wrong element is a later one, from then on an earlier one: both are asked about.
    """
    violation = judge(one_place("shifted", i, fill(i), fill(7 - i), fill(i, where=where)))
    assert (violation and (violation.sentence, violation.witness)) == (witness and (OTHER, witness))


@pytest.mark.parametrize(
    ("fills", "witness"),
    [
        ([fill(i - 1, 0)], None),
        ([fill(i - 1, 5)], "y(i=0) reads x.reg[0] for x[-1] else 0, and it holds x[-1] else 5"),
        ([fill(i - 1, 0), fill(i - 1, 5)], "y(i=0) reads x.reg[0] for x[-1] else 0, and it holds x[-1] else 5"),
        # What is overwritten before the read may be anything.
        ([fill(i - 1, 5), fill(i - 1, 0)], None),
        ([fill(i, 5), fill(i - 1, 0)], None),
        # With one fallback, elements outside of the tensor are alike.
        ([fill(i - 1, 0), fill(i - 9, 0, where=-i)], None),
        ([fill(i - 9, 0), fill(i - 1, 0, where=i - 1)], None),
        (
            [fill(i - 9, 5), fill(i - 1, 5, where=i - 1)],
            "y(i=0) reads x.reg[0] for x[-1] else 0, and it holds x[-9] else 5",
        ),
    ],
)
def test_what_stands_for_elements_outside_of_the_tensor(fills, witness):
    """for i: the fills; y[i] = x.reg[0] * 2 in place of (x[i - 1] else 0) * 2"""
    violation = judge(one_place("padded", i - 1, *fills))
    assert (violation and (violation.sentence, violation.witness)) == (witness and (OTHER, witness))
