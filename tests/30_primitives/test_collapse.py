"""collapse of loops of any extent, and what becomes of sums that the two loops' places make up."""

from tests.support.written import tree_from
from tilegen.ir.affine import var
from tilegen.ir.ranges import rejoin
from tilegen.ir.walk import loops, stmts

ROWS = """
kernel rows(X: f32[12*B]) -> Y: f32[B, 12]:
    Y[i, j] = X[i*12 + j]

schedule flat for rows():
    collapse(i, j) -> q

schedule tiles for rows():
    tile(j, 4) -> jo, ji
    order(i, jo, ji)
    collapse(i, jo) -> q
    collapse(q, ji) -> q

schedule inner for rows():
    tile(j, 4) -> jo, ji
    order(i, jo, ji)
    collapse(i, jo) -> jo
    collapse(jo, ji) -> ji
"""


def test_the_outer_loop_may_have_any_extent():
    tree = tree_from(ROWS, "flat")
    assert [str(loop.extent) for loop in loops(tree.body)] == ["B*12"]


def test_a_quotient_and_its_remainder_are_their_number_again():
    for name in ("flat", "tiles"):
        (stmt,) = stmts(tree_from(ROWS, name).body)
        assert str(stmt.value.index[0]) == "q"


def test_the_new_loop_may_have_the_name_of_the_inner_one():
    (loop,) = loops(tree_from(ROWS, "inner").body)
    assert (loop.name, str(loop.extent)) == ("ji", "B*12")


def test_what_does_not_make_up_a_number_is_left():
    x, y = var("x"), var("y")
    assert rejoin((x // 8) * 16 + x % 8 * 2 + y) == x * 2 + y
    for value in ((x // 8) * 8 + y % 8, (x // 8) * 4 + x % 8, (x // 4) * 8 + x % 8, x % 8, (x // 8) * 8 - x % 8):
        assert rejoin(value) == value
