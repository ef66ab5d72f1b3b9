"""collapse of loops of any extent, and what becomes of sums that the two loops' places make up."""

from dataclasses import replace

import pytest

from tests.support.written import tree_from
from tilegen.ir.affine import var
from tilegen.ir.facts.ranges import rejoin
from tilegen.ir.nodes import Loop
from tilegen.ir.walk import loops, rewrite_nodes, stmts
from tilegen.lowering import lower
from tilegen.proof import prove

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


PRODUCT = """
kernel products(A: f32[B, M, K], X: f32[B, K, N]) -> Y: f32[B, M, N]:
    Y[b, i, j] = sum[k](A[b, i, k] * X[b, k, j])

schedule tiles for products():
    tile(i, 4) -> bi, ti
    tile(j, 8) -> bj, tj
    order(b, bi, bj, k, ti, tj)
    bind(ti, thread.y)
    bind(tj, thread.x)

schedule collapsed extends tiles:
    collapse(bi, bj) -> tile
    collapse(b, tile) -> all
    order(all, k, tj, ti)
    {deal}(all{to})
    resident(all, 2)
    cache_register(Y, at=all)
    cache_shared(A, at=k)

schedule apart extends tiles:
    order(b, bi, bj, k, tj, ti)
    {each}
    resident(bj, 2)
    cache_register(Y, at=bj)
    cache_shared(A, at=k)
"""
BOUND = PRODUCT.format(
    deal="bind", to=", block.x", each="\n    ".join(f"bind({loop}, block.x)" for loop in ("b", "bi", "bj"))
)
DEALT = PRODUCT.format(deal="deal", to="", each="deal(b, bi, bj)")


@pytest.mark.parametrize("text", [BOUND, DEALT])
def test_a_nest_of_symbolic_extents_is_bound_and_dealt_as_its_loops_are(text):
    together, apart = (tree_from(text, name) for name in ("collapsed", "apart"))
    assert {loop.name for loop in loops(together.body) if loop.collapsed == "all"} == {"b", "bi", "bj"}
    assert replace(together, body=rewrite_nodes(together.body, _alone)) == apart
    assert prove(together.kernel, lower(together)).verdict == "proved"


def _alone(node):
    return replace(node, collapsed="") if isinstance(node, Loop) else node
