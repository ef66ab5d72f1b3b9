"""Names for where a thread begins in its tile."""

from tests.support.stock import schedule_stock
from tilegen.ir.affine import Affine
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Let


def test_a_place_that_stands_often_has_the_name_of_its_dimension():
    (launch,) = lower(schedule_stock("gemm", "across").tree)
    first, second, *_ = launch.body
    assert (first.name, second.name) == ("i0", "j0")
    assert (str(first.value), str(second.value)) == ("wi*32 + (lane/8)*4", "wj*128 + (lane%8)*4")
    values = [v for v in walk(launch.body) if isinstance(v, Affine) and v not in (first.value, second.value)]
    assert not [v for v in values if {"wi", "lane"} <= v.names() and {*first.value.terms} <= {*v.terms}]
    tested = [v for v in values if dict(v.terms).get("i0") == -1]  # what a test says of the other side
    assert tested


def test_a_place_of_one_term_and_one_that_stands_once_have_none():
    for schedule in ("tiled", "rectangular"):
        launch = lower(schedule_stock("gemm", schedule).tree)[-1]
        assert not [node for node in launch.nodes if isinstance(node, Let) and node.name.endswith("0")]
