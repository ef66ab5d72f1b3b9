"""What random cases have found in the judge and the proof, each with its smallest case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.enumeration.runs import verdict
from tests.support.generators.case import witness_sizes
from tests.support.written import built, stepped
from tilegen.errors import StepError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Load, Stmt
from tilegen.ir.walk import loops, rewrite, walk
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.proof import prove

PRODUCT = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
OUTSIDE = """
kernel edge(X: i32[M, P], R: i32[2]) -> out: i32[M, P]:
    out[i, k] = sum[r]((X[i, k + P] else 0) * R[r])
"""
ROWS = "kernel rows(X: i32[N, M]) -> out: i32[N]:\n    out[i] = sum[j](X[i, j])\n"
SHIFTED = "kernel shifted(X: i32[N, M]) -> out: i32[N, M]:\n    out[i, j] = (X[i, j - 1] else 0) * 2\n"
TWO = """
kernel two(X: i32[N, M], Y: i32[M]) -> out: i32[N, M]:
    var t: i32[N]
    t[i] = max[j](X[i, j])
    out[i, j] = X[i, j] * t[i] + Y[j]
"""
BEST = "kernel best(X: i32[N], R: i32[2, N]) -> out: i32[N]:\n    out[i] = argmax[r]((X[i - 1] else 0) * R[r, i])\n"
TURNED = "kernel turned(X: i32[N, M, P]) -> out: i32[M, P, N]:\n    out[j, k, i] = X[i, j, k]\n"
LEAST = "kernel least(X: i32[M, N, P]) -> out: i32[M, N, P]:\n    out[i, j, l] = argmin[r < 2](X[i, j, l] * r)\n"


def after(text, *steps, judged=True):
    """The tree after the steps; each one before the last has to be legal."""
    tree = built(text)
    trees = [tree, *stepped(tree, *steps)]
    for step, each in zip(steps[:-1], trees[1:], strict=False):
        assert not judged or judge(each) is None, step
    return trees[-1]


LEGAL = {
    "accumulators in registers, then in shared memory": (
        PRODUCT,
        ["tile(i, 4) -> bi, ti", "tile(j, 4) -> bj, tj", "tile(k, 4) -> ko, ki", "order(bi, bj, ko, ti, tj, ki)"]
        + ["bind(bi, block.y)", "bind(bj, block.x)", "bind(ti, thread.y)", "bind(tj, thread.x)"]
        + ["cache_register(C, at=ko)", "cache_shared(C, at=bj)"],
    ),
    "lanes that look like turns": (
        PRODUCT,
        ["tile(i, 2) -> bi, ti", "tile(j, 2) -> bj, tj", "tile(k, 2) -> ko, ki", "order(bi, bj, ko, ti, tj, ki)"]
        + ["collapse(ti, tj) -> lane", "bind(lane, thread.x)"]
        + ["cache_shared(A, at=ko)", "cache_shared(B, at=ko)", "pipeline(ko, 3)"],
    ),
    "elements outside of the tensor are all alike": (OUTSIDE, ["cache_register(X, at=k)", "order(..., i)"]),
    "a shared element in versions for full tiles": (
        BEST,
        ["tile(i, 8) -> b, t", "tile(b, 5) -> bo, bi", "tile(r, 2) -> ko, ki"]
        + ["cache_register(out.best, at=t)", "cache_shared(X, at=ko)"],
    ),
    "an index that is always outside in the first tile of a pipeline": (
        SHIFTED,
        ["tile(i, 3) -> b, t", "order(b, j, t)", "bind(b, block.x)", "bind(t, thread.x)"]
        + ["cache_shared(X, at=j)", "pipeline(j, 2)"],
    ),
    "a pipeline in versions for full tiles": (
        SHIFTED,
        ["tile(i, 8) -> bo, bi", "tile(bi, 4) -> b, t", "tile(j, 2) -> jo, ji", "order(bo, b, jo, t, ji)"]
        + ["cache_register(out, at=jo)", "cache_shared(X, at=jo)", "pipeline(jo, 2)"],
    ),
    "a serial loop collapsed beside a pipeline": (
        PRODUCT,
        ["tile(i, 4) -> bi, ti", "tile(j, 5) -> bj, tj", "order(bi, bj, k, ti, tj)", "collapse(ti, tj) -> c"]
        + ["cache_shared(C, at=bj)", "cache_shared(A, at=k)", "pipeline(k, 2)"],
    ),
    "an intermediate that moves around a copy of it": (
        BEST,
        ["cache_register(out.best, at=r, using=[i])", "cache_shared(out.best, at=i)"],
    ),
    "registers of a pipeline that are written and read by turns": (
        TWO,
        ["fuse(t.i, out.i) -> f", "tile(f, 5) -> b, t0", "tile(out.j, 4) -> jo, ji", "order(b, jo, t0, ji)"]
        + ["bind(b, block.x)", "bind(t0, thread.x)", "cache_shared(Y, at=jo)", "cache_register(Y.shared, at=ji)"]
        + ["pipeline(ji, 2)"],
    ),
    "a register filled twice in one iteration": (
        PRODUCT,
        ["tile(i, 4) -> b, t0", "tile(j, 4) -> bj, tj", "order(b, bj, k, t0, tj)", "cache_shared(A, at=k)"]
        + ["cache_register(A.shared, at=t0)", "serpentine(t0, tj)"],
    ),
    **{
        f"registers ahead across {what}": (
            PRODUCT.replace("K", k),
            ["tile(i, 4) -> bi, ti", "tile(j, 4) -> bj, tj", f"tile(k, {tile}) -> ko, ki"]
            + ["order(bi, bj, ko, ti, tj, ki)"]
            + ["bind(bi, block.y)", "bind(bj, block.x)", "bind(ti, thread.y)", "bind(tj, thread.x)"]
            + ["cache_shared(A, at=ko)", "cache_register(A.shared, at=ki)"]
            + [f"pipeline(ko, {ahead})", f"pipeline(ki, {stages}, across=ko)"],
        )
        for what, k, tile, ahead, stages in (
            ("two tiles", "4", 2, 2, 2),
            ("one tile", "4", 4, 2, 2),
            ("tiles of three", "K", 3, 2, 3),
            ("tiles that are all filled at the start", "4", 2, 3, 2),
        )
    },
    "registers ahead across a loop, in a loop of one iteration": (
        PRODUCT,
        ["tile(i, 4) -> bi, ti", "tile(k, 4) -> ko, ki", "tile(ti, parts=1) -> wi, ci"]
        + ["order(bi, ko, wi, ki, ci, j)", "cache_shared(A, at=ko)", "cache_register(A.shared, at=ki)"]
        + ["pipeline(ko, 2)", "pipeline(ki, 2, across=ko)"],
    ),
    "a barrier in a loop that the way round passes whole": (
        "kernel sums(X: i32[M, 4, N]) -> out: i32[N]:\n    out[n] = sum[c, r](X[c, r, n])\n",
        ["tile(n, 8) -> b, t", "tile(t, 2) -> t, v", "tile(r, 2) -> ko, ki", "order(b, c, ko, t, ki, v)"]
        + ["bind(t, thread.x)", "cache_shared(X, at=ko)", "cache_register(X.shared, at=ki)"]
        + ["pipeline(ko, 2)", "pipeline(ki, 2, across=ko)"],
    ),
    "a start that runs past its tile, which other places of the store test": (
        "kernel scaled(X: i32[N], R: i32[3, N]) -> out: i32[N]:\n    out[l] = max[r](X[l] * R[r, l])\n",
        ["tile(l, 4) -> b, t", "tile(t, 2) -> t, v", "coarsen_blocked(v, 4) -> u, w", "bind(b, block.x)"]
        + ["bind(t, thread.x)", "cache_register(out, at=b, vector=2)"],
    ),
    "vectors in copies of a loop and of a dimension that are called v": (
        "kernel twice(X: i32[N, 8]) -> out: i32[N, 8]:\n    out[i, v] = 2 * X[i, v]\n",
        ["tile(i, 4) -> b, t", "bind(b, block.x)", "bind(t, thread.x)", "cache_register(out, at=b, vector=2)"]
        + ["cache_shared(X, at=b, vector=4)"],
    ),
    "a start and an update that run past their tile, which a store of vectors alone tests": (
        "kernel scaled(X: i32[N], R: i32[3]) -> out: i32[N]:\n    out[l] = max[r](X[l] * R[r])\n",
        ["tile(l, 10) -> b, t", "tile(t, 14) -> t, v", "order(b, t, r, v)", "bind(b, block.x)", "bind(t, thread.x)"]
        + ["cache_register(out, at=b, vector=2)", "cache_register(X, at=r)", "cache_register(R, at=r)"],
    ),
    "a pipelined loop of two launches, each with copies of its own": (
        TWO,
        ["tile(out.j, 4) -> bj, tj", "tile(t.j, 4) -> kj, lj"]
        + ["rename(kj, bj) -> b", "order(t.i, b)", "cache_shared(X, at=b, using=[t.i])"]
        + ["cache_shared(Y, at=b)", "cache_register(out, at=b)", "pipeline(b, 2)"],
    ),
    "a read that the tests of a reduction by lanes keep inside": (
        "kernel above(X: i32[N, N], R: i32[2, N]) -> out: i32[N, N]:\n"
        "    out[i, j] = sum[r]((X[j - 1, i] else 0) * R[r, j]) for i <= j and i + j >= 1\n",
        ["reassociate(out)", "tile(j, 3) -> b, w", "tile(r, parts=2) -> lane, ko"]
        + ["bind(w, thread.z)", "bind(lane, thread.x)"],
    ),
    "copies whose fallback whole tiles do not need": (
        SHIFTED,
        ["tile(i, 2) -> bi, ti", "tile(j, 8) -> bj, tj", "order(bi, bj, ti, tj)", "bind(bi, block.y)"]
        + ["bind(tj, thread.y)", "bind(ti, thread.x)", "cache_shared(X, at=bj, vector=4)", "pipeline(bj, 2)"],
    ),
    "a copy that two versions take to registers of their own": (
        "kernel plus(X: i32[N, M], Y: i32[M]) -> out: i32[N, M]:\n    var t: i32[N]\n"
        "    t[i] = sum[j](X[i, j])\n    out[i, j] = t[i] + Y[j]\n",
        ["cache_shared(t, at=t.i)", "fuse(t.i, out.i) -> i", "tile(i, 2) -> b, t0", "tile(out.j, 4) -> ko, ki"]
        + ["bind(b, block.x)", "cache_register(t, at=t0)", "cache_shared(Y, at=ko)"],
    ),
    "filled anew for the way back, behind the store": (
        PRODUCT,
        ["cache_shared(C, at=k)", "tile(i, 4) -> bi, vi", "tile(j, 8) -> bj, cj", "order(bi, bj, k, vi, cj)"]
        + ["serpentine(vi, cj)"],
    ),
    "a copy of elements that have their old values still": (
        "kernel below(X: i32[N, N], Y: i32[4]) -> X: i32[N, N]:\n    X[i, j] = sum[k](Y[k]) for j <= i\n",
        ["tile(j, 4) -> b, t", "tile(k, 2) -> ko, ki", "order(i, b, ko, t, ki)", "cache_shared(X, at=ko)"],
    ),
    "a register of each thread, and the one that holds the least value": (
        "kernel rows(X: i32[2, N], Y: i32[2]) -> out: i32[2, N]:\n    var t: i32[N]\n"
        "    t[i] = argmin[r](X[r, i])\n    out[k, i] = Y[k] * t[i]\n",
        ["order(out.i, k)", "fuse(t.i, out.i) -> i", "bind(k, thread.y)"]
        + ["cache_register(t.best, at=i)", "cache_register(t, at=i)"],
    ),
    "a shared copy inside a register copy": (
        ROWS,
        ["tile(i, 3) -> b, t", "cache_shared(out, at=j)", "cache_register(out, at=t)"],
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_is_right_is_proved(name):
    tree = after(LEGAL[name][0], *LEGAL[name][1])
    assert judge(tree) is None
    for version in ({}, {"vector": False}, {"whole": True}):
        proof = prove(tree.kernel, lower(tree, **version), tree.reassociated)
        assert proof.verdict == "proved", [o for o in proof.obligations if not o.is_proved]


def test_a_copy_filled_anew_has_been_stored():
    """The store of the way there, left out or after the next fill."""
    text, steps = LEGAL["filled anew for the way back, behind the store"]
    tree = after(text, *steps)
    (there,) = [v for v in walk(tree.body) if getattr(v, "name", "") == "vi" and isinstance(v.body[0].body[0], Stmt)
                and len(v.body[0].body) == 3]  # fmt: skip
    first = there.body[0]
    fill, update, store = first.body
    for body in ((fill, update), (update, store), (store, fill, update)):
        wrong = rewrite(tree.body, lambda v, body=body: replace(v, body=body) if v is first else v)
        assert judge(replace(tree, body=wrong)) is not None


def replace_slot(launches, old, new):
    """The launches with every place `old` of a shared buffer as `new`, and how many these were."""
    found = []

    def change(value):
        if not isinstance(value, Access | Load) or not value.buffer.endswith(".shared") or value.index[0] != old:
            return value
        found.append(value)
        return replace(value, index=(new, *value.index[1:]))

    return tuple(replace(launch, body=rewrite(launch.body, change)) for launch in launches), len(found)


def test_slots_that_go_round_once():
    """A place is the remainder of itself; another slot, or the remainder by another number, is another place."""
    text, steps = LEGAL["registers ahead across two tiles"]
    tree = after(text, *steps)
    launches, ko = lower(tree, vector=False), var("ko")
    for old, new in ((ko % 2, const(1) - ko), ((ko + 1) % 2, (ko + 1) % 1), ((ko + 1) % 2, ko % 2)):
        wrong, places = replace_slot(launches, old, new)
        assert places
        assert prove(tree.kernel, wrong).violation is not None, (old, new)


def test_many_loops_walked_to_and_fro_are_covered():
    """What isl cannot subtract is inverted digit by digit."""
    steps = ["tile(i, 128) -> bi, ti", "tile(j, 256) -> bj, tj", "tile(k, 32) -> ko, ki"]
    steps += ["warp_tile(ti, 2, 4) -> wi, ci, li, vi", "warp_tile(tj, 4, 8) -> wj, cj, lj, vj"]
    steps += ["order(bi, bj, ko, wi, wj, li, lj, ki, cj, vj, ci, vi)", "collapse(li, lj) -> lane"]
    tree = after(PRODUCT, *steps, "serpentine(vj, ci, vi)", judged=False)
    assert judge(tree) is None
    short = replace(
        tree, body=rewrite(tree.body, lambda v: replace(v, extent=v.extent - 1) if _is_loop(v, "ci") else v)
    )
    assert judge(short) is not None


def _is_loop(value, name):
    return getattr(value, "name", "") == name and hasattr(value, "extent")


ILLEGAL = {
    "read before another iteration writes": (
        TURNED,
        ["tile(k, 4) -> b, t", "tile(i, 5) -> bi, ti", "cache_register(X, at=bi, using=[b])", "order(b, bi, j, t, ti)"]
        + ["coarsen(t, 2) -> u, w"],
    ),
    "an accumulator with another loop inside": (LEAST, ["cache_register(out, at=l)", "order(l, ..., j)"]),
    "holes of a copy, read back at two elements": (
        "kernel twice(X: i32[N]) -> out: i32[N]:\n    out[i] = 2 * X[i]\n",
        ["tile(i, 4) -> b, t", "coarsen(t, 2) -> u, w", "cache_register(out, at=b)", "cache_shared(out, at=u)"],
    ),
    "an element that another one takes the place of before the read": (
        "kernel row(X: i32[M, N], R: i32[2, N]) -> out: i32[M, N]:\n"
        "    out[j, k] = sum[r]((X[j - 1, k] else 0) * R[r, k])\n",
        ["tile(j, 4) -> b, t", "cache_shared(X, at=k)", "order(b, k, r, t)"],
    ),
    "a fallback on both sides": (
        "kernel far(X: i32[M + 1, P], R: i32[2]) -> out: i32[M, P]:\n"
        "    out[i, k] = sum[r]((X[i + 1, k - 1] else 0) * R[r])\n",
        ["cache_register(X, at=k)", "order(..., i)"],
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_witness_shows_what_is_wrong_at_its_own_sizes(name):
    tree = after(ILLEGAL[name][0], *ILLEGAL[name][1])
    violation = judge(tree)
    assert violation is not None
    assert verdict(tree, witness_sizes(tree.kernel, violation.witness)) is not None, violation


def test_a_result_that_is_left_in_shared_memory():
    """However the buffers say what they are copies of."""
    text = "kernel twice(X: i32[N]) -> out: i32[N]:\n    out[i] = 2 * X[i]\n"
    steps = ["tile(i, 4) -> b, t", "bind(b, block.x)", "bind(t, thread.x)"]
    tree = after(text, *steps, "cache_register(out, at=t)", "cache_shared(out, at=b)")
    assert judge(tree) is None
    assert {b.name: b.copy_of for b in tree.buffers if b.role == "copy"} == {
        "out.reg": "out.shared",
        "out.shared": "out",
    }
    (outer,) = tree.body
    lost = replace(tree, body=(replace(outer, body=outer.body[:-1]),))
    assert isinstance(next(iter(loops(outer.body[-1]))).body[0], Stmt)
    for parent in ("out", "out.shared", "X"):
        told = tuple(replace(b, copy_of=parent) if b.name == "out.reg" else b for b in lost.buffers)
        assert judge(replace(lost, buffers=told)) is not None, parent


def test_contents_that_go_round_in_a_circle():
    """A copy of what nobody has written but another copy of it."""
    steps = ["tile(i, 4) -> b, t", "cache_register(out, at=t)", "cache_shared(out, at=b)"]
    tree = after("kernel twice(X: i32[N]) -> out: i32[N]:\n    out[i] = 2 * X[i]\n", *steps)

    def change(value):
        if isinstance(value, Stmt) and value.name == "out":
            return Stmt("out.reg", value.target, Load("out.shared", tree.buffer("out.shared").shape, "i32"))
        return value

    assert judge(replace(tree, body=rewrite(tree.body, change))) is not None


def test_registers_at_two_loops_of_one_name():
    """The loop that the index depends on is inside of one of them, and outside of the other."""
    steps = ["tile(j, 4) -> bj, tj", "tile(k, 4) -> ko, ki", "order(bj, ko, tj, ki)", "order(ki, i)"]
    tree = after(PRODUCT, "reassociate(C)", *steps)
    with pytest.raises(StepError, match="outside loop 'i', another is inside"):
        list(stepped(tree, "cache_register(C, at=bj)"))


@pytest.mark.parametrize(
    "steps",
    [
        ["cache_shared(X, at=b)", "cache_register(X.shared, at=b)"],
        ["cache_shared(out, at=b)", "cache_register(out, at=b)"],
    ],
)
def test_registers_that_all_threads_would_fill_together(steps):
    """Each thread has registers of its own, and what fills them here deals the elements out."""
    text = "kernel twice(X: i32[N]) -> out: i32[N]:\n    out[i] = 2 * X[i]\n"
    tree = after(text, "tile(i, 4) -> b, t", "bind(b, block.x)", "bind(t, thread.x)", *steps)
    assert "deals it out to all threads" in judge(tree).sentence


def test_a_register_that_lives_in_a_collapsed_loop():
    """It lives in the new loop, which is one iteration of the inner one, and so it may not keep anything."""
    text = "kernel both(X: i32[N, 4]) -> out: i32[N, 4]:\n    var t: i32[N, 4]\n"
    text += "    t[i, j] = X[i, j] + 1\n    out[i, j] = t[i, j] * 2\n"
    steps = ["fuse(t.i, out.i) -> i", "fuse(t.j, out.j) -> j", "tile(i, 2) -> b, t0", "cache_register(t, at=t0)"]
    tree = after(text, *steps, "collapse(t0, j) -> c")
    assert judge(tree) is None
    assert tree.buffer("t.reg").scope == "c"


def test_registers_at_one_of_two_loops_of_one_name():
    """Where the other one is, further inside, no register is: they are declared around all of their uses."""
    text = "kernel both(X: i32[N], Y: i32[R, N]) -> t: i32[N], out: i32[N]:\n"
    text += "    t[i] = X[i] + 1\n    out[i] = sum[r](Y[r, i])\n"
    steps = ["fuse(t.i, out.i) -> i", "tile(i, 4) -> b, e", "tile(r, 4) -> ko, ki", "order(b, ko, e, ki)"]
    steps += ["coarsen(e, 4) -> u, w", "rfactor(out, ki) -> part", "cache_register(Y, at=ki)"]
    tree = after(text, *steps)
    assert judge(tree) is None
    for version in ({}, {"whole": True}):
        proof = prove(tree.kernel, lower(tree, **version), tree.reassociated)
        assert proof.verdict == "proved", [o for o in proof.obligations if not o.is_proved]
