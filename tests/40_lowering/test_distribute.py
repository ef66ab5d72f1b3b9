"""Cooperative copies dealt out to threads: still a tree, and the same program."""

from functools import partial

import numpy as np
import pytest

from tests.support.cover import each_stock_schedule_long_or_nightly
from tests.support.simulator.threads import faults
from tests.support.stock import LISTS, lighter, schedule_stock
from tests.support.stored import drawn
from tests.support.written import tree_from
from tilegen.errors import LimitError
from tilegen.interpreter import run
from tilegen.ir.nodes import Kernel, Loop, Tree
from tilegen.ir.printing.show import show
from tilegen.ir.walk import loops
from tilegen.lowering import distributed_tree, lower

SMALL = {"gemm": {"M": 33, "K": 19, "N": 41}, "transpose": {"M": 35, "N": 37}}
SMALL["grouped"] = {"M": 3, "K": 5, "G": 2, "N": 9}


def small(name, kernel):
    """Odd sizes, smaller than a tile or a little larger."""
    return SMALL.get(name) or {size: 3 + 2 * n for n, size in enumerate(kernel.sizes)}


@each_stock_schedule_long_or_nightly
def test_the_distributed_tree_computes_the_kernel(name, schedule):
    if name in LISTS:
        pytest.skip("lists in any order have tests/80_random/test_random_lists.py")
    tree = lighter(name, schedule).tree
    sizes = small(name, tree.kernel)
    arrays = drawn(tree.kernel.called_kernel, sizes, partial(np.random.default_rng(1).uniform, 0.5, 1.5))
    dealt = distributed_tree(lower(tree))
    assert not [loop for loop in loops(dealt.body) if loop.kind == "cooperative"]
    before, after = run(tree, sizes, arrays), run(dealt, sizes, arrays)
    for tensor, value in before.items():
        assert np.array_equal(value, after[tensor], equal_nan=True), f"{tensor} differs in\n{show(dealt)}"


def nest(launch, prefix):
    return [loop for loop in loops(launch.distributed) if loop.name.startswith(prefix)]


def test_a_remainder_is_guarded_and_only_then():
    (conv,) = lower(schedule_stock("conv1d", "shared").tree)
    assert "127 + l*128" not in show_node(conv.distributed)
    assert "X.shared.l*128 + t < 130" in show_node(conv.distributed).replace("<= 129", "< 130")
    (gemm,) = lower(schedule_stock("gemm", "tiled").tree)
    assert "< 1024" not in show_node(gemm.distributed)


def show_node(node: Loop) -> str:
    return show(Tree(Kernel("none", (), (), ()), (), (node,)))


def test_without_vectors_the_lanes_are_dealt_out_too():
    (vector,) = lower(schedule_stock("gemm", "registers").tree)
    (scalar,) = lower(schedule_stock("gemm", "registers").tree, vector=False)
    assert [loop.extent.const for loop in nest(vector, "A.shared.l")] == [2]
    assert [loop.extent.const for loop in nest(scalar, "A.shared.l")] == [8]
    assert vector.requires
    assert not scalar.requires
    assert not scalar.alignment


def patch(width):
    """A copy of 4 planes of 3 rows, by 32 threads."""
    text = f"""
kernel copy(X: f32[C, 3, N]) -> Y: f32[C, 3, N]:
    Y[c, y, x] = X[c, y, x]

schedule s for copy():
    tile(c, 4) -> co, ci
    tile(x, {width}) -> bx, tx
    tile(tx, parts=8) -> lane, vx
    order(co, bx, ci, lane, y, vx)
    bind(co, block.y)
    bind(bx, block.x)
    bind(ci, thread.y)
    bind(lane, thread.x)
    cache_shared(X, at=bx)
"""
    tree = tree_from(text)
    assert faults(lower(tree), tree, {"C": 5, "N": 7}) is None
    return {loop.name: loop.extent.const for loop in nest(lower(tree)[0], "X.shared.")}


def test_a_thread_copies_whole_planes_where_few_idle_in_the_last_round():
    assert patch(96) == {"X.shared.l": 3, "X.shared.c": 4, "X.shared.y": 3}
    # 15 rounds for all 480 elements, 16 plane by plane, and 24 row by row.
    assert patch(40) == {"X.shared.l": 4, "X.shared.c": 4}
    (registers,) = lower(schedule_stock("gemm", "registers").tree)
    assert [loop.extent.const for loop in nest(registers, "A.shared")] == [2, 4]


def test_limits_of_a_block_are_told():
    with pytest.raises(LimitError, match="2048 threads along x"):
        lower(schedule_stock("vector_add", "plain", parameters=(("T", 2048),)).tree)
    with pytest.raises(LimitError, match="bytes of shared memory, and a GPU has 232448 at most"):
        lower(schedule_stock("gemm", "registers", parameters=(("TK", 512),)).tree)
