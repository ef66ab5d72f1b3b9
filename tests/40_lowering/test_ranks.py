"""Lists whose hits go to their ranks: proved, printed, simulated; and what is no list of the kernel is refused."""

from dataclasses import replace

import pytest

from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.errors import TilegenError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Load, Stmt
from tilegen.ir.reductions.ranked import ranked
from tilegen.ir.walk import rewrite
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.proof import prove

ONE = """
kernel kept(X: i32[N], least: i32) -> Y: i32[C], n: i32[1]:
    Y[n[o]] = {word}[i](X[i] if X[i] > least) for i >= 1
schedule s for kept():
    rank(n) -> rank
"""
ROWS = """
kernel rows(X: bf16[M, N]) -> Y: bf16[C, M], n: i64[M]:
    Y[n[r], r] = {word}[i](X[r, i] if X[r, i] > 0)
schedule s for rows():
    rank(n) -> rank
"""
PAIRS = """
kernel pairs(X: f32[H, W], least: f32) -> at: i32[CAP, 2], n: i32[1]:
    at[n[o]] = {word}[y, x]((y, x) if X[y, x] > least and x != y) for y >= 1, x < W - 1, y + x > 2
schedule s for pairs():
    rank(n) -> rank, local, ahead
"""
ABOVE = """
kernel above(X: f32[M, N]) -> Y: f32[M, C], n: i32[M]:
    Y[r, n[r]] = list[i](X[r, i] if X[r, i] > X[r - 1, i]) for r >= 1
schedule s for above():
    rank(n) -> rank
    split_scan(rank, 32) -> total, local, front
    scan(local, along=total)
    scan(front) -> run
    scan(n, along=run)
    cache_register(total, at=total.io)
    cache_register(run, at=front.r)
    bind(total.r, block.x)
    bind(total.kii, thread.x)
"""
RUNNING = """\
    scan(rank) -> run
    scan(n, along=run)
    fuse(rank.o, o) -> o
    fuse(rank.i, i) -> i
    cache_register(run, at=o)
    cache_register(rank, at=i)
"""
TILES = """\
    split_scan(rank, 32) -> total, local, front
    scan(local, along=total)
    scan(front) -> run
    scan(n, along=run)
    tile(i, 32) -> io, ii
    fuse(total.o, front.o, rank.o, o) -> o
    fuse(total.io, front.io, rank.io, io) -> c
    fuse(rank.ii, ii) -> l2
    rename(total.kii, l2) -> l
    cache_register(run, at=o)
    cache_register(total, at=c)
    cache_register(local, at=c)
    cache_register(front, at=c)
    cache_register(rank, at=l)
    bind(l, thread.x)
"""
BY_ROWS = """\
    tile(r, 4) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
LEVELS = """\
    scan(local) -> row
    scan(ahead) -> rows
    scan(n, along=rows)
    order(y, x, o)
    bind(y, block.y)
    bind(x, block.x)
    order(rank.y, rank.o)
    bind(rank.y, block.x)
"""
CASES = {
    "as it is": (ONE.format(word="list"), {"N": 6, "C": 3}),
    "running": (ONE.format(word="list") + RUNNING, {"N": 6, "C": 3}),
    "tiles": (ONE.format(word="unordered_list") + TILES, {"N": 70, "C": 40}),
    "in one pass": (ONE.format(word="list") + TILES + "    look_back(c)\n", {"N": 70, "C": 40}),
    "rows": (ROWS.format(word="list") + BY_ROWS, {"M": 6, "N": 3, "C": 2}),
    "rows that are not all there": (ABOVE, {"M": 3, "N": 34, "C": 2}),
    "pairs": (PAIRS.format(word="list"), {"H": 3, "W": 4, "CAP": 4}),
    "levels": (PAIRS.format(word="list") + LEVELS, {"H": 3, "W": 4, "CAP": 4}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_proved_and_the_nets_follow_it(case):
    text, sizes = CASES[case]
    tree = tree_from(text)
    for version in ({}, {"vector": False}, {"instructions": False}):
        launches, language = lower(tree, **version), "cuda" if version.get("instructions", True) else "opencl"
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        assert difference(emit(launches, language), launches, language) is None
    assert faults(lower(tree), tree, sizes) is None


def test_lanes_count_ones_of_a_whole_warp_by_a_ballot():
    text = emit(lower(tree_from(CASES["tiles"][0])), "cuda")
    assert "ones_ahead_of_lane<32>(total_reg, " in text
    assert "ones_of_lanes<32>(" in text
    half = (ONE.format(word="list") + TILES).replace(", 32)", ", 16)")
    assert "sum_ahead_of_lane<16>(" in emit(lower(tree_from(half)), "cuda")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("place < C", "place <= C"),
        ("place = rank_reg", "place = rank_reg + 1"),  # place off by one
        ("place = rank_reg", "place = front_reg"),
        ("ones_ahead_of_lane", "ones_up_to_lane"),
        ("ones_ahead_of_lane", "sum_ahead_of_lane"),
        ("ones_of_lanes", "ones_along_lanes"),
        ("(X[c * 32 + l] > least ? 1 : 0)", "(X[c * 32 + l] > least ? 0 : 1)"),
        ("ones_of_lanes<32>", "ones_of_lanes<16>"),
        ("if (X[c * 32 + l] > least) {", "if (X[c * 32 + l] >= least) {"),
    ],
)
def test_a_wrong_text_is_seen(old, new):
    launches = lower(tree_from(CASES["tiles"][0]))
    before, mark, body = emit(launches).rpartition("kept(")
    assert old in body
    assert difference(before + mark + body.replace(old, new), launches, "cuda") is not None


def _changed(tree, change):
    """The launches with each store at a rank as `change` has it."""
    return rewrite(lower(tree), lambda v: change(v) if isinstance(v, Stmt) and v.hits else v)


def _with(**how):
    return lambda s: replace(s, hits=replace(s.hits, **how))


FAULTS = {
    "another rank": _with(rank=Load("front.reg", (), "i32")),
    "no rank": _with(rank=None),
    "no list": lambda s: replace(s, hits=None),
    "capacity": lambda s: _with(capacity=s.hits.capacity + 1)(s),
    "item": _with(items=(Const(0, "i32"),)),
    "another place": _with(access=Access("Y", (const(1),))),
    "condition": lambda s: replace(s, value=Const(True, "bool")),
    "counts": lambda s: replace(s, reduce="list"),
    "another hit": lambda s: replace(s, instance=(s.instance[0], s.instance[1] + 1)),
    "fewer": lambda s: replace(s, guard=(*s.guard, Condition(var("l") - 1))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_program_is_refused(fault):
    tree = tree_from(CASES["tiles"][0])
    assert prove(tree.kernel, _changed(tree, FAULTS[fault]), tree.reassociated).violation is not None


def test_a_wrong_rank_is_seen_in_the_simulator():
    text, sizes = CASES["tiles"]
    tree = tree_from(text)
    assert faults(_changed(tree, FAULTS["another rank"]), tree, sizes) == "race"


# -- kernels that are not what they are derived from


def _equations(kernel, target, **how):
    return replace(kernel, equations=tuple(replace(e, **how) if e.target == target else e for e in kernel.equations))


def _wrong_kernels():
    kernel = tree_from(ONE.format(word="list")).kernel
    rank = next(e for e in kernel.equations if e.target == "rank")
    store = next(e for e in kernel.equations if e.target == "Y")
    yield "with itself", _equations(kernel, "rank", conditions=(rank.conditions[0]._replace(
        value=rank.conditions[0].value + 1), *rank.conditions[1:]))  # fmt: skip
    yield "without a condition", _equations(kernel, "rank", conditions=rank.conditions[:1])
    yield "another term", _equations(kernel, "n", value=Const(1, "i32"))
    yield "another item", _equations(kernel, "Y", hits=replace(store.hits, items=(Const(0, "i32"),)))
    yield "another capacity", _equations(kernel, "Y", hits=replace(store.hits, capacity=store.hits.capacity + 1))
    yield "of nothing", replace(kernel, derived=replace(kernel.derived, target="Y"))
    yield "two names", replace(kernel, derived=replace(kernel.derived, names=("rank", "a", "b")))


@pytest.mark.parametrize(("name", "kernel"), [*_wrong_kernels()])
def test_a_kernel_with_other_ranks_is_refused(name, kernel):
    assert judge(tree_of(kernel)) is not None, name


def test_what_ranks_are_is_made_in_one_place():
    kernel = tree_from(PAIRS.format(word="list")).kernel
    assert ranked(kernel.origin, kernel.derived) == kernel


@pytest.mark.parametrize(
    ("item", "test", "accepted"),
    [
        ("X[i]", "abs(X[i]) >= max(least, 0)", True),
        ("X[i] * X[i]", "X[i] != X[i]", True),
        ("X[i]", "X[i] * 2 - 1 > least", False),
        ("X[i]", "sqrt(X[i]) > least", False),
    ],
)
def test_a_test_that_rounds_is_made_once(item, test, accepted):
    text = (
        "kernel kept(X: f32[N], least: f32) -> Y: f32[C], n: i32[1]:\n"
        f"    Y[n[o]] = list[i]({item} if {test})\nschedule s for kept():\n    rank(n) -> rank\n"
    )
    if accepted:
        assert tree_from(text).kernel.origin is not None
    else:
        with pytest.raises(TilegenError, match="rounds, and would be made twice"):
            tree_from(text)


def test_the_length_of_a_list_bounds_a_later_loop():
    text = (
        "kernel f(X: i32[N], V: i32[N]) -> Y: i32[N], n: i32[1], s: i32[1]:\n    Y[n[o]] = list[i](X[i] if X[i] > 0)\n"
        "    s[o] = sum[j in 0..n[0]](V[j])\nschedule s for f():\n"
        "    rank(n) -> rank\n    scan(rank) -> run\n    scan(n, along=run)\n"
    )
    tree = tree_from(text)
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
