"""A swizzle on any shared buffer of a schedule: proved, and printed as it is said."""

import pytest

from tests.support.reader.readback import difference
from tests.support.stock import schedule_stock
from tilegen.backends.text import emit
from tilegen.ir.printing.show import show_buffer
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.primitives.swizzle import Swizzle
from tilegen.proof import prove

PLACES = [
    ("gemm", "wider", "A.shared"), ("gemm", "registers", "A.shared"), ("gemm", "registers", "B.shared"),
    ("gemm", "rectangular", "B.global.shared"), ("matching", "tiled", "B.shared"), ("permute", "tiled", "X.shared"),
]  # fmt: skip


def swizzle(place, **numbers):
    *case, buffer = place
    return Swizzle(buffer=buffer, **numbers).apply(schedule_stock(*case).tree)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
@pytest.mark.parametrize("numbers", [{"unit": 4}, {"unit": 4, "count": 2, "rows": 4}])
def test_it_changes_where_elements_lie_and_nothing_else(place, numbers):
    tree = swizzle(place, **numbers)
    assert judge(tree) is None
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            text = emit(launches, language)
            assert " ^ " in text
            assert difference(text, launches, language) is None
            assert difference(text.replace(" ^ ", " + "), launches, language) is not None


def test_as_many_units_as_fit_the_banks_or_the_row():
    counts = {unit: swizzle(PLACES[1], unit=unit).buffer("A.shared").swizzle.count for unit in (1, 2, 4, 8, 16)}
    assert counts == {1: 32, 2: 16, 4: 8, 8: 4, 16: 2}
    assert "swizzle 32 x 1  copy" in show_buffer(swizzle(PLACES[0], unit=1).buffer("A.shared"))
    assert "swizzle 2 x 4 every 8 rows  copy" in show_buffer(
        swizzle(PLACES[0], unit=4, count=2, rows=8).buffer("A.shared")
    )
