"""Registers that run ahead across the iterations of the loop around: what is emitted, simulated and proved."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.in_line import in_line
from tests.support.simulator.threads import faults
from tests.support.written import PRODUCT, ahead, tree_from
from tilegen.backends.text import emit
from tilegen.interpreter import run
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Load
from tilegen.ir.walk import loops, rewrite, walk
from tilegen.lowering import lower
from tilegen.lowering.launch.timelines import Barrier
from tilegen.lowering.sync.pipeline import write_out_pipelines
from tilegen.proof import prove

ACROSS = ("pipeline(ko, STAGES)", "pipeline(ki, R, across=ko)")


@pytest.mark.parametrize(("stages", "registers"), [(2, 2), (3, 2), (4, 2), (3, 4)])
def test_it_computes_the_kernel_at_all_kinds_of_sizes(stages, registers):
    tree = ahead(ACROSS, STAGES=stages, R=registers)
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert prove(tree.kernel, launches).verdict == "proved"
        for m, n, k in ((8, 8, 4), (9, 7, 13), (3, 17, 8), (8, 16, 1)):
            assert faults(launches, tree, {"M": m, "N": n, "K": k}) is None


def test_one_barrier_an_iteration_stands_before_the_last_registers_are_filled():
    launches = lower(ahead(ACROSS))
    barriers = [v for v in walk(launches[0].body) if isinstance(v, Barrier)]
    assert [(b.wait, b.reason) for b in barriers] == [
        (1, "A.shared and B.shared are complete: written above, read below"),
        (1, "before the next ko overwrites A.shared and B.shared"),
    ]
    text = emit(launches, "cuda")
    between = text[text.index("before the next ko") : text.rindex("multiply")]
    assert "load_registers((ko + 1) % STAGES, 0)" in between


@pytest.mark.parametrize(("stages", "waits"), [(3, [0, 0]), (4, [1, 1])])
def test_the_wait_ahead_of_the_loop_is_for_what_its_first_iteration_reads_of_the_next(stages, waits):
    """Where the last ki reads its own tile, too, the barrier of an iteration stands after it, at the end."""
    tree = ahead(ACROSS, PRODUCT.replace("    cache_register(A.shared, at=ki)\n", ""), STAGES=stages)
    for version, sizes in (
        ({"vector": True}, {"M": 9, "N": 17, "K": 13}),
        ({"vector": False}, {"M": 9, "N": 17, "K": 13}),
        ({"whole": True}, {"M": 8, "N": 16, "K": 12}),
    ):
        launches = lower(tree, **version)
        assert [v.wait for v in walk(launches[0].body) if isinstance(v, Barrier)] == waits
        assert prove(tree.kernel, launches).verdict == "proved"
        assert faults(launches, tree, sizes) is None


def test_a_wait_that_leaves_too_much_on_its_way_is_refused():
    tree = ahead(ACROSS)
    launches = lower(tree)
    for number in range(2):
        count = iter(range(9))

        def late(value, number=number, count=count):
            if isinstance(value, Barrier) and next(count) == number:
                return replace(value, wait=value.wait + 1)
            return value

        wrong = tuple(replace(launch, body=rewrite(launch.body, late)) for launch in launches)
        assert prove(tree.kernel, wrong).verdict == "refused: waits"


def flip_turn(value):
    """The registers of the other turn, where the turn is a number in the text."""
    if isinstance(value, Access | Load) and value.buffer == "A.shared.reg" and value.index[0].is_const:
        return replace(value, index=(1 - value.index[0], *value.index[1:]))
    return value


def stale(value):
    """The tile of this iteration instead of the next one's."""
    if isinstance(value, Load) and value.buffer == "A.shared" and "ko" in value.index[0].names():
        return replace(value, index=(var("ko") % 3, *value.index[1:]))
    return value


def same_turn(value):
    """Every turn in the registers of the first."""
    if isinstance(value, Access | Load) and value.buffer == "A.shared.reg":
        return replace(value, index=(const(0), *value.index[1:]))
    return value


BATCHED = PRODUCT.replace(
    "A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]", "A: f32[2, 3, M, K], B: f32[K, N]) -> C: f32[2, 3, M, N]"
)
BATCHED = BATCHED.replace("C[i, j] = sum[k](A[i, k]", "C[u, v, i, j] = sum[k](A[u, v, i, k]")
BATCHED = BATCHED.replace("    tile(i,", "    collapse(u, v) -> uv\n    tile(i,").replace("order(bi", "order(uv, bi")
BATCHED = BATCHED.replace("layout=[k, i]", "layout=[u, v, k, i]").replace(
    "    bind(bi,", "    bind(uv, block.z)\n    bind(bi,"
)

EARLIER = PRODUCT.replace("A: f32[M, K],", "D: f32[M, K],").replace(
    "    C[i, j] =", "    var A: f32[M, K]\n    A[i, k] = 2*D[i, k]\n    C[i, j] ="
)
EARLIER = EARLIER.replace("tile(i,", "rename(C.i) -> i\n    rename(C.k) -> k\n    tile(i,")


@pytest.mark.parametrize("text", [BATCHED, EARLIER], ids=["batched", "earlier"])
def test_operands_of_collapsed_loops_and_of_an_earlier_launch_are_followed(text):
    tree = ahead(ACROSS, text)
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"M": 9, "N": 7, "K": 13}) is None
    if len(launches) > 1:
        assert prove(tree.kernel, launches[::-1]).verdict.startswith("refused: ")
    for fault in (flip_turn, stale, same_turn):
        wrong = tuple(replace(launch, body=rewrite(launch.body, fault)) for launch in in_line(launches))
        assert wrong != launches
        assert prove(tree.kernel, wrong).verdict.startswith("refused: ")


@pytest.mark.parametrize("fault", [flip_turn, stale, same_turn])
def test_registers_of_another_turn_are_refused(fault):
    tree = ahead(ACROSS)
    wrong = tuple(replace(launch, body=rewrite(launch.body, fault)) for launch in in_line(lower(tree)))
    assert prove(tree.kernel, wrong).verdict.startswith("refused: ")


def test_the_lowered_tree_is_still_an_ordinary_program():
    """Registers that live outside of the threads' loops are there once for each thread."""
    tree = ahead(ACROSS)
    whole = replace(write_out_pipelines(tree)[0], body=tuple(launch.distributed for launch in lower(tree)))
    sizes, rng = {"M": 9, "N": 7, "K": 13}, np.random.default_rng(1)
    arrays = {"A": rng.integers(-3, 4, (9, 13)).astype("f4"), "B": rng.integers(-3, 4, (13, 7)).astype("f4")}
    assert (run(whole, sizes, arrays)["C"] == arrays["A"] @ arrays["B"]).all()


ROWS = """
kernel row_sum(X: f32[M, 32]) -> y: f32[M]:
    y[i] = sum[j](X[i, j])

schedule some_rows for row_sum(R=3):
    reassociate(y)
    tile(j, 8) -> c, l
    order(l, c)
    rfactor(y, l) -> part
    fuse(i, y.i) -> i
    rename(l, y.l) -> l
    tile(i, R) -> b, i
    order(b, l, i, c)
    bind(b, block.x)
    bind(l, thread.x)
    cache_register(X, at=c)
    pipeline(c, 2, across=i)
    cache_register(part, at=b)
    cache_register(y, at=b)
"""


def test_other_nests_of_the_loop_around_are_left_as_they_are():
    """The sums of the lanes start and end in nests over the same rows, before and after the one that copies ahead."""
    tree = tree_from(ROWS)
    assert len([each for each in loops(tree.body) if each.name == "i"]) > 1
    for whole in (False, True):
        launches = lower(tree, whole=whole)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for rows in (3, 6) if whole else (1, 3, 7, 8):
            assert faults(launches, tree, {"M": rows}) is None
