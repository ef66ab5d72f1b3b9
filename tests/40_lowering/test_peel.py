"""Peeled loops: the last iteration by itself is emitted, simulated and proved."""

from dataclasses import replace

import pytest

from tests.support.cover import first
from tests.support.in_line import in_line
from tests.support.simulator.threads import faults
from tests.support.written import PRODUCT, ahead
from tilegen.backends.text import emit
from tilegen.ir.nodes import Load
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering import lower
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof import prove

AHEAD = ("pipeline(ko, STAGES)", "peel(ko)")
ACROSS = ("pipeline(ko, STAGES)", "pipeline(ki, 2, across=ko)", "peel(ko)")


def right(tree, *every):
    """All versions are proved, and right at these sizes."""
    for version in ({"vector": True}, {"vector": False}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches).verdict == "proved"
        for sizes in every:
            if all(c.holds(sizes) for launch in launches for c in launch.requires):
                assert faults(launches, tree, sizes) is None


@pytest.mark.parametrize(
    ("steps", "stages"), [(AHEAD, 2), (AHEAD, 3), (ACROSS, 2), (ACROSS, 3), ((*ACROSS, "peel(ki)"), 4)]
)
def test_it_computes_the_kernel_at_all_kinds_of_sizes(steps, stages):
    sizes = ((8, 8, 4), (9, 7, 13), (3, 17, 8), (8, 16, 1), (8, 8, 12))
    right(ahead(steps, STAGES=stages), *({"M": m, "N": n, "K": k} for m, n, k in sizes))


def test_the_loop_asks_for_no_next_tile_and_the_last_one_copies_none():
    launches = lower(ahead(ACROSS, STAGES=2), whole=True)
    loop, _, rest = emit(launches, "cuda").partition("    for (int ko = 0; ko < ko_count - 1; ++ko) {")
    loop, last = rest.split("\n    }\n", 1)
    assert loop.count("load_shared(") == 1
    assert "if (" not in loop
    assert "_shared(" not in last
    assert "(ko_count + 1) % STAGES" in last
    # One before the loop, for its first tile, and one in each of its iterations; none after it.
    assert [v.wait for v in walk(launches[0].body) if isinstance(v, Barrier)].count(0) == 2


def test_a_wait_inside_the_loop_is_for_the_last_tile_too():
    """With more stages than two the last tile is on its way while the one before it is multiplied."""
    for steps in (AHEAD, ACROSS):
        tree = ahead(steps, STAGES=4)
        right(tree, {"M": 9, "N": 17, "K": 4}, {"M": 9, "N": 17, "K": 8}, {"M": 9, "N": 17, "K": 21})


@pytest.mark.parametrize("k", first([8, 17, 4, 12, 16], 2))
@pytest.mark.parametrize("stages", [2, 3])
def test_the_last_slot_of_a_number_of_tiles_that_is_known_is_a_number(k, stages):
    tree = ahead(ACROSS, PRODUCT.replace("[M, K]", f"[M, {k}]").replace("[K, N]", f"[{k}, N]"), STAGES=stages)
    right(tree, {"M": 9, "N": 9}, {"M": 8, "N": 8})


def test_another_slot_for_the_last_tile_is_refused():
    tree = ahead(ACROSS, STAGES=3)
    launches = lower(tree)
    last = (tree.buffer("A").shape[1] + 3) // 4 + 2  # of three, that of tile (K + 3)/4 - 1

    def other(value):
        if isinstance(value, Load) and value.buffer == "A.shared" and value.index[0] == last % 3:
            return replace(value, index=((last - 1) % 3, *value.index[1:]))
        return value

    launches = in_line(launches)
    wrong = tuple(replace(launch, body=rewrite(launch.body, other)) for launch in launches)
    assert wrong != launches
    assert prove(tree.kernel, wrong).verdict == "refused: values"


def test_a_wait_that_leaves_the_last_tile_on_its_way_is_refused():
    tree = ahead(AHEAD, STAGES=3)
    launches = lower(tree)
    count = len([v for v in walk(launches[0].body) if isinstance(v, Barrier) and v.wait is not None])
    for number in range(count):
        waits = iter(range(count))

        def late(value, number=number, waits=waits):
            if isinstance(value, Barrier) and value.wait is not None and next(waits) == number:
                return replace(value, wait=value.wait + 1)
            return value

        wrong = tuple(replace(launch, body=rewrite(launch.body, late)) for launch in launches)
        assert prove(tree.kernel, wrong).verdict == "refused: waits"


ROWS = """
kernel neighbours(X: f32[M, W]) -> Y: f32[M, W - 2]:
    Y[i, x] = X[i, x] + X[i, x + 2]

schedule rows for neighbours:
    bind(i, block.x)
"""


def test_a_loop_that_may_have_no_iteration_has_no_last_one_then():
    tree = ahead(("cache_shared(X, at=x)", "pipeline(x, 2)", "peel(x)"), ROWS)
    right(tree, {"M": 3, "W": 2}, {"M": 3, "W": 3}, {"M": 3, "W": 7})


def test_a_loop_of_one_iteration_is_its_last():
    tree = ahead(AHEAD, PRODUCT.replace("K", "4").replace("T4", "TK"), STAGES=2)
    assert "for (int ko" not in emit(lower(tree), "cuda")
    right(tree, {"M": 9, "N": 17})
