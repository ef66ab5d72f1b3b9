"""Barriers: where a dependence crosses threads, and nowhere else."""

from tests.support.cover import each_stock_schedule
from tests.support.stock import lower_stock, schedule_stock
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import BLOCK, Barrier
from tilegen.proof import prove


def barriers(name, schedule, position=-1):
    launch = lower(schedule_stock(name, schedule).tree)[position]
    return [b.reason for b in walk(launch.body) if isinstance(b, Barrier)]


def test_tiled_gemm_has_two_in_each_iteration():
    (launch,) = lower(schedule_stock("gemm", "tiled").tree)
    (ko,) = [loop for loop in launch.body if isinstance(loop, For)]
    assert [node.reason for node in ko.body if isinstance(node, Barrier)] == [
        "A.shared and B.shared are complete: written above, read below",
        "before the next ko overwrites A.shared and B.shared",
    ]
    assert len(barriers("gemm", "tiled")) == 2
    assert isinstance(ko.body[-1], Barrier)


def test_a_tile_that_is_read_once_needs_one():
    assert barriers("conv1d", "shared") == ["X.shared is complete: written above, read below"]
    assert barriers("transpose", "padded") == ["X.shared is complete: written above, read below"]


def test_a_thread_that_reads_what_it_wrote_needs_none():
    assert barriers("chain", "fused_shared") == []


@each_stock_schedule
def test_no_barrier_stands_in_a_test(name, schedule):
    for launch in lower_stock(name, schedule):
        tests = [node for node in walk(launch.body) if isinstance(node, If)]
        # Consumers wait for each other beside a producer, in a test that all of them pass.
        assert not [b for test in tests for b in walk(test) if isinstance(b, Barrier) and b.line == BLOCK]
        if not [b for b in launch.buffers.values() if b.space == "shared"]:
            assert not [b for b in walk(launch.body) if isinstance(b, Barrier) and not b.of_global]


def test_a_barrier_that_two_loops_need_names_the_inner_one():
    """Of two tiles of B, the next ko and the next bj overwrite one; the barrier stands in ko."""
    text = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for product():
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    tile(k, 8) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(B, at=ko)
    pipeline(ko, 2)
"""
    said = [
        line.partition("//")[2].strip() for line in emit(lower(tree_from(text))).splitlines() if "syncthreads" in line
    ]
    assert said == ["B.shared is complete: written above, read below", "before the next ko overwrites B.shared"]


REFILLED = """kernel best_places(out: i32[N, N], X0: i32[1*N + 0], X1: i32[1*N + 1], R0: i32[3, N]) -> out: i32[N, N]:
    var w0: i32[N, N]
    w0[i, j] = argmax[r]((X0[1*j + 0] + X1[1*j + 1]) * R0[r, j])
    out[i, j] = out[i, j] + w0[i, j]

schedule s for best_places:
    fuse(w0.i, out.i) -> f0
    fuse(w0.j, out.j) -> f1
    tile(f0, 4) -> pb0, pt0
    tile(f1, 4) -> pb1, pt1
    tile(r, 2) -> pko, pki
    order(pb0, pb1, pko, pt0, pt1, pki)
    collapse(pb0, pb1) -> pb
    bind(pb, block.x)
    coarsen_blocked(pt0, 2) -> pu0, pw0
    bind(pt1, thread.y)
    bind(pu0, thread.x)
    cache_shared(w0.best, at=pko)
    cache_shared(X0, at=pko, vector=2)
    bulk(X0.shared)
"""


def test_a_barrier_for_what_is_complete_has_the_fence_for_what_is_filled_again():
    """One barrier an iteration is for the copy of `w0.best`, and lets X0.shared be filled again, too."""
    tree = tree_from(REFILLED)
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
