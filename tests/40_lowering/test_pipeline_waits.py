"""Asynchronous copies are waited for, also where no thread needs another's work."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulator.threads import faults
from tests.support.stock import schedule_stock
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.interpreter import run
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Const, Index, Loop, Op, Stmt
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If, VectorCopy
from tilegen.lowering.launch.timelines import COPIES, Arrive, Barrier
from tilegen.lowering.sync.pipeline import write_out_pipelines
from tilegen.poly import Refused
from tilegen.proof import prove
from tilegen.proof.lift import lift
from tilegen.proof.reading.inlining import without_calls

TEXT = """
kernel scaled(X: f32[N + 1], R: f32[3, N]) -> out: f32[N]:
    out[i] = sum[r](X[i + 1] * R[r, i])

kernel product(A: f32[M, K], B: f32[K]) -> out: f32[M]:
    out[i] = sum[k](A[i, k] * B[k])

schedule own for scaled():
    tile(i, 8) -> b, t
    tile(r, 1) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=ko)
    pipeline(ko, 2)
"""


def test_a_thread_that_reads_its_own_copies_alone_makes_plain_ones():
    tree = tree_from(TEXT)
    launches = lower(tree)
    assert not any(isinstance(v, VectorCopy) and v.asynchronous for v in walk(launches[0].body))
    assert faults(launches, tree, {"N": 7}) is None


BOTH = (
    TEXT.split("schedule own")[0]
    + """
schedule both for product():
    tile(i, 4) -> b, t
    tile(k, 4) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(B, at=ko)
    cache_register(A, at=ko)
    pipeline(ko, 2)
"""
)


def test_a_group_ends_behind_all_of_its_copies():
    tree = tree_from(BOTH)
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert faults(launches, tree, {"M": 5, "K": 9}) is None
        assert "end_copies();" in emit(launches, "cuda")
        emit(launches, "opencl")


def ask_of_copies(tree, launch):
    """Whether each is waited for, and nothing else."""
    for name, _, asked in lift(tree.kernel, (replace(launch, body=without_calls(launch.body)),)).questions(()):
        for question in asked if name == "waits" else ():
            question()


@pytest.mark.parametrize(("after", "tile", "refused"), [(1, 1, True), (1, 0, False), (3, 1, True), (4, 1, False)])
def test_what_a_copy_reads_is_not_written_before_it_has_ended(after, tile, refused):
    """Each iteration copies the next tile."""
    tree = tree_from(BOTH)
    (launch,) = lower(tree)
    write = Stmt("out", Access("B", (var("ko") * 4 + 4 * tile,)), Const(0.0, "f32"))

    def change(node):
        inside = isinstance(node, For) and node.name == "ko"
        return replace(node, body=(*node.body[:after], write, *node.body[after:])) if inside else node

    with pytest.raises(Refused, match="what it reads is written") if refused else nullcontext():
        ask_of_copies(tree, replace(launch, body=tuple(map(change, launch.body))))


ZEROS = """
kernel blur(X: f32[C, N], K: f32[C]) -> out: f32[N]:
    out[i] = sum[c]((X[c, i - 1] else OTHER) * K[c])

schedule both for blur():
    tile(i, 4) -> b, t
    tile(c, 3) -> co, ci
    order(b, co, t, ci)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=co)
    cache_shared(K, at=co)
    pipeline(co, 2)
"""


def blur(other):
    return tree_from(ZEROS.replace("OTHER", other))


def copies_with_zeros(launch):
    return [v for v in walk(launch.body) if isinstance(v, VectorCopy) and v.inside]


def test_zeros_outside_a_tensor_come_with_the_asynchronous_copy():
    tree = blur("0")
    launches = lower(tree)
    assert faults(launches, tree, {"C": 5, "N": 6}) is None
    assert prove(tree.kernel, launches).verdict == "proved"
    assert copies_with_zeros(launches[0])
    assert "copy_async_or_zero<4>(&X_shared" in emit(launches, "cuda")
    assert "? X[" in emit(launches, "opencl")


def test_other_fallbacks_are_written_by_plain_stores():
    tree = blur("1")
    launches = lower(tree)
    assert faults(launches, tree, {"C": 5, "N": 6}) is None
    assert not copies_with_zeros(launches[0])


def test_a_copy_that_reads_outside_is_refused():
    tree = blur("0")
    (launch,) = lower(tree)
    copy = copies_with_zeros(launch)[0]
    always = Op("<", (Index(const(0)), Index(const(1))), "bool")
    wrong = replace(launch, body=rewrite(launch.body, lambda v: replace(v, inside=always) if v == copy else v))
    assert prove(tree.kernel, (wrong,)).verdict != "proved"
    assert faults((wrong,), tree, {"C": 5, "N": 6})


def test_what_a_loop_copies_again_to_one_place_is_copied_plainly():
    tree = tree_from(
        """
kernel rows(X: f32[N], Y: f32[N, N]) -> out: f32[N, M, N]:
    out[i, j, k] = (X[i - 1] else 0) - Y[i, k]

schedule s for rows():
    tile(k, 8) -> b, t
    order(i, b, t, j)
    bind(t, thread.x)
    cache_shared(X, at=b)
    pipeline(b, 2)
"""
    )
    # The copy does the same in each j: it has to be said in a loop of j, as `order` leaves it.
    (loop,) = [v for v in walk(tree.body) if isinstance(v, Loop) and v.name == "b"]
    again = replace(loop, body=(Loop("j2", var("M"), loop.body[:1]), *loop.body[1:]))
    tree = replace(tree, body=rewrite(tree.body, lambda v: again if v == loop else v))
    (launch,) = launches = lower(tree)
    assert not any(isinstance(v, VectorCopy) and v.asynchronous for v in walk(launch.body))
    assert faults(launches, tree, {"N": 9, "M": 2}) is None
    assert prove(tree.kernel, launches).verdict == "proved"

    def hasty(value):
        copies = isinstance(value, VectorCopy) and value.target.buffer == "X.shared"
        return replace(value, asynchronous=True) if copies else value

    launches = (replace(launch, body=rewrite(launch.body, hasty)),)
    assert launches != (launch,)
    assert faults(launches, tree, {"N": 9, "M": 2}) == "race"
    assert "writes is written again" in str(prove(tree.kernel, launches))

    def grouped(value):
        if isinstance(value, Barrier):
            return replace(value, wait=0)
        inner = value.body[0] if isinstance(value, If) else None
        if not isinstance(inner, For) or inner.name != "j2":
            return value
        return replace(inner, extent=const(2), body=(replace(value, body=inner.body), Arrive(COPIES)))

    launches = (replace(launch, body=rewrite(launches[0].body, grouped)),)
    assert faults(launches, tree, {"N": 9, "M": 2}) == "race"
    assert "writes is written again" in str(prove(tree.kernel, launches))


def test_a_fence_for_descriptors_stands_behind_the_wait_for_copies():
    tree = schedule_stock("hgemm", "warpgroups").tree
    (launch,) = lower(tree)

    def early(value):
        if not isinstance(value, For) or value.name != "ko":
            return value
        *body, barrier = value.body
        return replace(value, body=(*body, replace(barrier, wait=None), replace(barrier, fence=False)))

    ask_of_copies(tree, launch)
    with pytest.raises(Refused, match="may not have ended"):
        ask_of_copies(tree, replace(launch, body=rewrite(launch.body, early)))


NESTS = """
kernel two(A: f32[N, M], B: f32[2, M]) -> out: f32[N, M]:
    var t: f32[N, M]
    t[i, l] = A[i, l] + 1.0
    out[i, l] = sum[r](t[i, l] * B[r, l])

schedule nests for two():
    fuse(t.i, out.i) -> f
    fuse(t.l, out.l) -> g
    tile(f, 4) -> b, c
    order(b, r, c)
    bind(b, block.x)
    tile(g, 4) -> q, v
    bind(v, thread.x)
    cache_shared(A, at=q)
    cache_shared(B, at=q)
    pipeline(q, 2)
"""


def test_the_slots_of_loops_with_one_name_live_around_the_nests_that_use_them():
    tree = write_out_pipelines(tree_from(NESTS))[0]
    assert (tree.buffer("A.shared").scope, tree.buffer("B.shared").scope) == ("c", "r")
    rng, sizes = np.random.default_rng(0), {"N": 6, "M": 7}
    arrays = {"A": rng.random((6, 7), np.float32), "B": rng.random((2, 7), np.float32)}
    found = run(tree, sizes, arrays)["out"]
    assert np.allclose(found, (arrays["A"] + 1) * arrays["B"].sum(axis=0))


NEVER_READ = """
kernel empty(X: i32[N]) -> out: i32[N]:
    out[i] = sum[k, i == k + 3](X[k]) for i < 2

schedule s for empty():
    tile(i, 4) -> b, t
    tile(k, 4) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=ko)
"""


@pytest.mark.parametrize("step", ["pipeline(ko, 2)", "bulk(X.shared)"])
def test_what_nothing_reads_is_not_copied(step):
    """Nobody would wait for the copies, and two of them to one slot would be on their way at once."""
    tree = tree_from(NEVER_READ + f"    {step}\n")
    for version in ({}, {"vector": False}):
        launches = lower(tree, **version)
        assert "X" not in {name for launch in launches for name in launch.tensors}
        assert faults(launches, tree, {"N": 13}) is None
        assert prove(tree.kernel, launches).verdict == "proved"
