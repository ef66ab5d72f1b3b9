"""Registers that several loops number together start with zeros where they are declared."""

import pytest

from tests.support.stock import schedule_stock
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Buffer, Const, Stmt
from tilegen.lowering import lower
from tilegen.lowering.guards.zeros import declare_zeros
from tilegen.lowering.launch.program import Declare, For, nodes
from tilegen.proof import prove


def filled(place, extents):
    """The program that declares registers `C`, and loops that fill those at `place`, with what becomes of it."""
    buffer = Buffer("C", "f32", (const(8),), "register", (0,))
    loops = Stmt("C.init", Access("C", (place,)), Const(0.0, "f32"), instance=tuple(map(var, extents)))
    for name, extent in extents.items():
        loops = For(name, const(extent), (loops,), kind="unrolled")
    return declare_zeros((Declare("C"), loops), {"C": buffer})


@pytest.mark.parametrize("order", [{"h": 2, "m": 2, "l": 2}, {"l": 2, "h": 2, "m": 2}])
def test_loops_that_are_the_digits_of_a_place_fill_all(order):
    (declared,) = filled(var("h") * 4 + var("m") * 2 + var("l"), order)
    (stmt,) = [node for node in nodes((declared.origin,)) if isinstance(node, Stmt)]
    for place in range(8):
        at = dict(zip(order, (i.evaluate({"C.0": place}) for i in stmt.instance), strict=True))
        assert at["h"] * 4 + at["m"] * 2 + at["l"] == place
        assert {*at.values()} <= {0, 1}


@pytest.mark.parametrize(
    ("place", "extents"),
    [
        (var("h") * 2 + var("l"), {"h": 2, "l": 4}),  # some twice, some never
        (var("h") * 4 + var("l"), {"h": 2, "l": 3}),  # one in four is left
        (var("h") * 2 + var("l"), {"h": 2, "l": 2}),  # half of them
    ],
)
def test_others_stay_loops(place, extents):
    assert len(filled(place, extents)) == 2


def test_sums_in_fragments_start_where_they_are_declared():
    schedule = schedule_stock("hgemm", "fragments")
    launches = lower(schedule.tree)
    starts = [node.start for launch in launches for node in launch.nodes if isinstance(node, Declare)]
    assert starts[0] == Const(0, "f32")
    assert prove(schedule.tree.kernel, launches).verdict == "proved"
