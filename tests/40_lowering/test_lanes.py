"""Reductions by the lanes of a warp: what is emitted, that every net follows it, and that it sees faults in it."""

from dataclasses import replace

import pytest

from tests.support.simulator.threads import faults, verdict
from tests.support.written import tree_from
from tilegen import load
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep
from tilegen.ir.affine import const
from tilegen.ir.nodes import Condition, Load, Stmt
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Combine, If
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof import prove

# The maximum stays in a register of each lane.
SOFTMAX = """
kernel softmax(X: f32[M, N], N: int = 24) -> Y: f32[M, N]:
    var mp: f32[M, 4], m: f32[M], sp: f32[M, 4], s: f32[M]
    mp[i, l] = max[c < N/4](X[i, c*4 + l])
    m[i] = max[l](mp[i, l])
    sp[i, l] = sum[c < N/4](exp(X[i, c*4 + l] - m[i]))
    s[i] = sum[l](sp[i, l])
    Y[i, j] = exp(X[i, j] - m[i]) / s[i]

schedule lanes for softmax():
    tile(j, 4) -> c, l
    fuse(mp.i, m.i, sp.i, s.i, Y.i) -> i
    rename(mp.l, sp.l, m.l, s.l, l) -> t
    order(t, c)
    tile(i, 3) -> b, w
    reassociate(s)
    bind(b, block.x)
    bind(w, thread.y)
    bind(t, thread.x)
    cache_register(mp, at=w)
    cache_register(m, at=w)
    cache_register(sp, at=w)
    cache_register(s, at=w)
"""
# Two levels: the lanes of each warp, then all warps through shared memory, where every warp does the same.
# Not each lane has a term.
TOTAL = """
kernel total(X: f32[M, N], N: int = 11) -> y: f32[M]:
    var part: f32[M, 16], warp: f32[M, 4]
    part[i, t] = sum[c < (N + 15)/16](X[i, c*16 + t] else 0)
    warp[i, w] = sum[l < 4](part[i, w*4 + l])
    y[i] = sum[w](warp[i, w])

schedule block for total():
    fuse(part.i, warp.i, y.i) -> i
    bind(i, block.x)
    tile(t, 4) -> pw, pl
    rename(pl, l, y.w) -> lane
    rename(pw, warp.w) -> warps
    reassociate(warp)
    reassociate(y)
    bind(warps, thread.y)
    bind(lane, thread.x)
    cache_register(part, at=i)
    cache_shared(warp, at=i)
    cache_register(y, at=i)
"""
# The result goes to memory at once, and the tail of a row is some lanes' alone.
DIRECT = """
kernel direct(X: i32[M, N], N: int = 6) -> y: i32[M], best: i32[M]:
    y[i] = sum[k](X[i, k])
    best[i] = min[k](X[i, k])

schedule s for direct():
    fuse(y.i, best.i) -> i
    rename(y.k, best.k) -> k
    tile(k, 4) -> c, l
    bind(i, thread.y)
    reassociate(y)
    bind(l, thread.x)
"""
# Values and indices, in parts that only the first lane needs together.
BEST = """
kernel best(X: i32[M, N], N: int = 10) -> at: i32[M]:
    at[i] = argmin[j](X[i, j])

schedule s for best():
    tile(j, 4) -> c, l
    rfactor(at, l) -> part
    order(l, c)
    fuse(i, at.i) -> i
    rename(l, at.l) -> l
    bind(i, block.x)
    bind(l, thread.x)
    cache_register(part.best, at=i)
    cache_register(part, at=i)
    cache_register(at.best, at=i)
    cache_register(at, at=i)
"""
# Lane by lane: what those ahead have, what there is up to each, and both; a term is some lanes' alone.
RUNNING = """
kernel sums(X: i32[M, N], N: int = 11) -> y: i32[M, N]:
    y[i, j] = {}[k {} j](X[i, k])

schedule s for sums():
    reassociate(y)
    scan(y) -> run
    tile(j, 4) -> c, l
    tile(i, 2) -> b, w
    cache_register(run, at=w)
    bind(b, block.x)
    bind(w, thread.y)
    bind(l, thread.x)
"""
BOTH = """
kernel sums(X: f32[M, N], N: int = 20) -> y: f32[M, N]:
    y[i, j] = sum[k <= j](X[i, k])

schedule s for sums():
    reassociate(y)
    split_scan(y, 2) -> total, local, ahead
    scan(local, along=total)
    split_scan(ahead, 4) -> warp, inner, outer
    scan(inner, along=warp)
    scan(outer) -> run
    fuse(total.i, warp.i, outer.i, ahead.i, y.i) -> i
    tile(total.jo, 4) -> c, l
    tile(y.jo, 4) -> c2, l2
    fuse(c, warp.joo, outer.joo, ahead.joo, c2) -> c
    fuse(l, warp.koi) -> l
    fuse(ahead.joi, l2) -> l2
    rename(l, l2) -> l
    bind(i, block.x)
    cache_register(warp, at=c)
    cache_register(run, at=i)
    cache_register(outer, at=c)
    cache_register(inner, at=c)
    cache_register(local, at=c)
    cache_register(total, at=l)
    cache_register(ahead, at=l)
    bind(l, thread.x)
"""


# The lanes exchange a term in each round, and have rounds of different numbers.
ROUNDS = """
kernel rounds(x: i32[N, M]) -> y: i32[N, M]:
    y[j, i] = max[k <= j](x[k, i])

schedule s for rounds():
    reassociate(y)
    tile(i, 2) -> b, w
    tile(k, 4) -> c, l
    order(j, b, w, l, c)
    bind(w, thread.y)
    bind(l, thread.x)
"""
# What runs is loaded and stored for each chunk.
CHUNKS = """
kernel sums(x: i32[N]) -> y: i32[N]:
    y[j] = sum[k <= j](x[k])

schedule s for sums():
    reassociate(y)
    scan(y) -> run
    tile(j, 2) -> c, l
    cache_register(run, at=c)
    bind(l, thread.x)
"""

# A warp is laid out over two dimensions, and some of its rows and columns have no term.
GRID = """
kernel sums(X: i32[M, 5, 9]) -> y: i32[M]:
    y[i] = sum[a, b](X[i, a, b])

schedule s for sums():
    reassociate(y)
    tile(a, 4) -> ao, la
    tile(b, 8) -> bo, lb
    order(i, ao, bo, la, lb)
    collapse(la, lb) -> lane
    bind(i, block.x)
    bind(lane, thread.x)
    cache_register(y, at=i)
"""

# Linear steps keep their order, whoever takes them together.
STEPS = """
kernel steps(a: i32[M, N], b: i32[M, N], N: int = 11) -> y: i32[M, N]:
    y[r, i] = a[r, i] * (y[r, i {0} 1] else 0) + b[r, i]

schedule s for steps():
    reassociate(y)
    scan(y) -> run
    tile(i, 4) -> c, l
    tile(r, 2) -> blk, w
    cache_register(run, at=w)
    bind(blk, block.x)
    bind(w, thread.y)
    bind(l, thread.x)

schedule tiles for steps():
    reassociate(y)
    split_scan(y, 2) -> total, local, ahead, factor, factors
    scan(local, along=total)
    scan(factors, along=factor)
    scan(ahead) -> run
    fuse(total.r, factor.r, ahead.r, y.r) -> r
    tile(total.io, 4) -> c, l
    tile(factor.io, 4) -> c1, l1
    tile(ahead.io, 4) -> c2, l2
    tile(y.io, 4) -> c3, l3
    fuse(c, c1, c2, c3) -> c
    fuse(l, l1, l2, l3) -> l
    bind(r, block.x)
    cache_register(run, at=r)
    cache_register(total, at=l)
    cache_register(local, at=l)
    cache_register(factor, at=l)
    cache_register(factors, at=l)
    cache_register(ahead, at=l)
    bind(l, thread.x)
"""


def trees():
    return {
        "linear steps": load(STEPS.format("-")).schedule("s").tree,
        "linear steps, from the end": load(STEPS.format("+")).schedule("s").tree,
        "tiles of linear steps": load(STEPS.format("-")).schedule("tiles").tree,
        "rounds": tree_from(ROUNDS, N=7),
        "chunk by chunk": tree_from(CHUNKS, N=5),
        "ahead": tree_from(RUNNING.format("sum", "<")),
        "up to": tree_from(RUNNING.format("max", "<="), N=8),
        "ahead, from the end": tree_from(RUNNING.format("prod", ">")),
        "up to, from the end": tree_from(RUNNING.format("min", ">=")),
        "in two levels": tree_from(BOTH),
        "in two dimensions": tree_from(GRID),
        "softmax": tree_from(SOFTMAX),
        "total": tree_from(TOTAL),
        "total of a long row": tree_from(TOTAL, N=37),
        "best": tree_from(BEST),
        "direct": tree_from(DIRECT, M=3),
        "direct, even": tree_from(DIRECT, M=2, N=8),
    }


TREES = trees()
CASES = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


def combines(launches):
    return [node for launch in launches for node in walk(launch.body) if isinstance(node, Combine)]


@CASES
def test_every_net_follows_it(tree):
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert combines(launches)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for size in (1, 3, 4):
            sizes = {"M": size} if tree.kernel.sizes else {}
            assert faults(launches, tree, sizes) is None
            assert verdict(tree, sizes) is None


def test_no_barrier_where_the_lanes_of_a_warp_are_all():
    (launch,) = lower(TREES["softmax"])
    assert not [node for node in walk(launch.body) if isinstance(node, Barrier)]
    text = emit([launch])
    assert "const float m_lanes = max_of_lanes<4>(b * 3 + w < M ? mp_reg : -INFINITY);" in text
    assert "s_reg += s_lanes;" in text
    assert "__local float m_lanes_of[12];" in emit([launch], "opencl")


def test_two_levels_take_one_barrier():
    (launch,) = lower(TREES["total"])
    (barrier,) = [node for node in walk(launch.body) if isinstance(node, Barrier)]
    assert barrier.reason == "warp.shared is complete: written above, read below"


def test_lanes_without_a_term_put_in_the_neutral_element():
    (launch,) = lower(TREES["direct"])
    text = emit([launch])
    assert "const int y_lanes = sum_of_lanes<4>(c * 4 + l < 6 ? X[i * 6 + c * 4 + l] : 0);" in text
    assert "min_of_lanes<4>(c * 4 + l < 6 ? X[i * 6 + c * 4 + l] : 2147483647);" in text


# -- faults


def edit_launches(tree, change):
    """The launches with `change` made to each node of their bodies."""
    return tuple(replace(launch, body=rewrite(launch.body, change)) for launch in lower(tree))


def half_of_the_lanes(value):
    return replace(value, lanes=value.lanes // 2) if isinstance(value, Combine) else value


def another_reduction(value):
    return replace(value, reduce="prod") if isinstance(value, Combine) and value.reduce == "sum" else value


def under_a_test(value):
    if isinstance(value, Combine):
        return If((Condition(const(0) - value.lane),), (value,))
    return value


def _uses_lanes(value):
    return isinstance(value, Stmt) and isinstance(value.value, Load) and value.value.buffer.endswith(".lanes")


def every_lane(value):
    """All of them update memory."""
    if isinstance(value, If) and any(_uses_lanes(s) for s in value.body):
        return replace(value, test=tuple(c for c in value.test if not c.equal)) if len(value.test) > 1 else value.body
    return value


def no_test_of_the_tail(value):
    return replace(value, test=()) if isinstance(value, Combine) and value.test else value


def the_other_prefix(value):
    return replace(value, inclusive=not value.inclusive) if isinstance(value, Combine) and value.start else value


def a_stale_start(value):
    """Only the terms of this exchange."""
    if isinstance(value, Combine) and value.start:
        return replace(value, value=value.start)
    return value


def without_factors(value):
    return replace(value, arg=value.value) if isinstance(value, Combine) and value.arg else value


FAULTS = [
    ("linear steps", the_other_prefix, "values"),
    ("linear steps", half_of_the_lanes, "values"),
    ("linear steps", without_factors, "values"),
    ("tiles of linear steps", the_other_prefix, "values"),
    ("tiles of linear steps", a_stale_start, "values"),
    ("ahead", the_other_prefix, "values"),
    ("up to", the_other_prefix, "values"),
    ("in two levels", the_other_prefix, "values"),
    ("ahead", a_stale_start, "values"),
    ("ahead", half_of_the_lanes, "values"),
    ("ahead", another_reduction, "values"),
    ("ahead", under_a_test, "uninitialised"),
    ("softmax", half_of_the_lanes, "values"),
    ("softmax", another_reduction, "values"),
    ("softmax", under_a_test, "uninitialised"),
    ("direct", under_a_test, "divergence"),
    ("direct", every_lane, "race"),
    ("direct", no_test_of_the_tail, "bounds"),
]


@pytest.mark.parametrize(("name", "fault", "word"), FAULTS, ids=lambda v: getattr(v, "__name__", v))
def test_faults_are_seen(name, fault, word):
    tree = TREES[name]
    launches = edit_launches(tree, fault)
    assert launches != lower(tree)
    proof = prove(tree.kernel, launches, tree.reassociated)
    assert proof.violation is not None, proof.verdict
    sizes = {"M": 3} if tree.kernel.sizes else {}
    assert faults(launches, tree, sizes) == word


@pytest.mark.parametrize("permitted", [False, True])
def test_a_reduction_that_goes_on_inside_the_lanes_needs_permission(permitted):
    """The lanes exchange a term in each iteration of r: an order that no nest of the two loops has."""
    kernel = "kernel both(X: f32[M, 4, 3]) -> out: f32[M]:\n    out[i] = max[s, r](X[i, s, r])\n"
    steps = ["reassociate(out)"] * permitted + ["bind(s, thread.x)"]
    text = kernel + "\nschedule s for both():\n    " + "\n    ".join(steps) + "\n"
    if not permitted:
        with pytest.raises(IllegalStep, match="cannot run at once as thread.x"):
            tree_from(text)
        return
    tree = tree_from(text)
    proof = prove(tree.kernel, lower(tree), tree.reassociated)
    assert proof.verdict == "proved", proof.violation


@pytest.mark.parametrize("steps", ["bind(i, thread.x)", "order(l, c)\n    bind(l, thread.x)", "bind(c, thread.x)"])
def test_linear_steps_keep_their_order(steps):
    """Lanes that have steps far from each other, or several, would take them in another one."""
    kernel = STEPS.format("-").split("schedule")[0].replace("11", "16")
    text = f"{kernel}schedule s for steps():\n    reassociate(y)\n    scan(y) -> run\n"
    text += ("    tile(i, 4) -> c, l\n" if "i," not in steps else "") + f"    {steps}\n"
    with pytest.raises(IllegalStep):
        load(text).schedule("s")
