"""The way out that a refused step names is a way out: with it, the schedule is accepted."""

from pathlib import Path

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.schedule import apply

FILES = Path(__file__).parents[1] / "errors" / "steps"

# mistake -> (words of the note, the text or several lines to put in the place of others)
WAYS_OUT = {
    "illegal_block_inside": ("order(t, b) puts", ("    bind(t", "    order(t, b)\n    bind(t")),
    "illegal_block_late": ("order(bk, bo) puts", ("    bind(bk", "    order(bk, bo)\n    bind(bk")),
    "illegal_bind_blocks": (
        "reassociate(C) and atomic(C)",
        ("    bind(kp", "    reassociate(C)\n    atomic(C)\n    bind(kp"),
    ),
    "illegal_block_reduction": (
        "reassociate(C) and atomic(C)",
        ("    bind(k", "    order(k, i)\n    reassociate(C)\n    atomic(C)\n    bind(k"),
    ),
    "illegal_atomic_order": ("reassociate(C) allows", ("    atomic", "    reassociate(C)\n    atomic")),
    "illegal_reduction_order": ("reassociate(y) before this step", ("    order", "    reassociate(y)\n    order")),
    "illegal_rfactor_order": ("reassociate(y) before this step", ("    order", "    reassociate(y)\n    order")),
    "illegal_lanes_order": ("reassociate(y) allows", ("    bind(t", "    reassociate(y)\n    bind(t")),
    "illegal_lanes_extents": (
        "tile(j, 32) cuts it",
        ("    bind(j, thread.x)", "    tile(j, 32) -> w, l\n    bind(w, thread.y)\n    bind(l, thread.x)"),
    ),
    "loop_of_several": ("rename(W.k, C.k) -> k lets", ("    tile", "    rename(W.k, C.k) -> k\n    tile")),
    "fuse_in_other_nests": ("fuse(e.i, Y.i) first", ("    fuse", "    fuse(e.i, Y.i) -> i\n    fuse")),
    "illegal_fuse_between": ("fuse(m.i, e.i, s.i, Y.i) takes", ("fuse(m.i, Y.i)", "fuse(m.i, e.i, s.i, Y.i)")),
    "collapse_apart": ("order(..., i, k) nests", ("    collapse", "    order(..., i, k)\n    collapse")),
    "resident_serial": ("bind(bi, block.x) makes", ("    resident", "    bind(bi, block.x)\n    resident")),
    "tile_bound": (
        "put tile before",
        ("    bind(i, block.x)\n    tile(i, 32) -> bi, ti", "    tile(i, 32) -> bi, ti\n    bind(bi, block.x)"),
    ),
    "round_up_fused": (
        "put round_up before",
        ("    fuse(y.i, z.i) -> i\n    fuse(y.k, z.k) -> k\n    round_up(k, 16)", "    round_up(y.k, 16)"),
    ),
    "rfactor_consumer": (
        "put rfactor before",
        ("    fuse(y.i, z.i) -> i\n", ""),
    ),
    "rfactor_cached": ("put rfactor before", ("    cache_register(y, at=i)\n", "")),
    "swizzle_one_unit": ("pad(X.shared, 1) takes", ("swizzle", "pad")),
    "bind_symbolic_thread": ("tile(i, 32) gives one", ("    bind(i,", "    tile(i, 32) -> b, t\n    bind(t,")),
    "unroll_symbolic": ("tile(k, 32) gives one", ("    unroll(k", "    tile(k, 32) -> o, u\n    unroll(u")),
    "collapse_symbolic": (
        "tile(j, 32) gives one",
        ("(i, j) -> x", "(i, t) -> x"),
        ("    collapse", "    tile(j, 32) -> b, t\n    order(b, i, t)\n    collapse"),
    ),
    "collapse_for_blocks": ("bind(x, block.x)", ("tile(x, 32) -> b, t", "bind(x, block.x)")),
    "cache_symbolic": (
        "tile 'k' and choose a loop outside its inner part",
        (
            "    cache_shared(A, at=bi)",
            "    tile(k, 8) -> ko, ki\n    order(bi, ko, ti, j, ki)\n    cache_shared(A, at=ko)",
        ),
    ),
    "cache_two_reads": (
        "using=[ti] takes one of them, and using=[tj] the other",
        ("(A, at=ko)", "(A, at=ko, using=[ti])\n    cache_shared(A, at=ko, using=[tj]) -> other"),
    ),
    "cache_distance": (
        "an intermediate tensor that holds one of them can have a copy of its own",
        ("    Y[i, j]", "    var T: f32[N, N]\n    T[p, q] = X[q, p]\n    Y[i, j]"),
        ("X[j, i]", "T[i, j]"),
        ("at=bj)", "at=bj)\n    cache_shared(T, at=bj)"),
    ),
    "peel_nothing_ahead": ("pipeline(ko, 2), before this step", ("    peel", "    pipeline(ko, 2)\n    peel")),
    "compute_at_copied": (
        "put compute_at before",
        ("    cache_shared(P, at=b)\n    compute_at(P, at=b)", "    compute_at(P, at=b)\n    cache_shared(P, at=b)"),
    ),
}
# mistake -> the size that the note wants fixed
FIXED = {
    "cache_shifted": ("fix the size N", {"N": 64}),
    "cache_symbolic": ("fix the size", {"K": 64}),
    "unroll_symbolic": ("so does a fixed size", {"K": 64}),
    "bind_symbolic_thread": ("so does a fixed size", {"M": 64}),
    "collapse_symbolic": ("so does a fixed size", {"N": 64}),
}


def apply_text(text, values={}):  # noqa: B006
    module = parse(Source("<text>", text))
    schedule = module.schedules[0]
    defines = {d.word: d for d in module.defines}
    return apply(build(module.kernels[schedule.kernel], values), schedule, defines=defines)


@pytest.mark.parametrize("mistake", WAYS_OUT)
def test_the_way_out_is_accepted(mistake):
    said, *changes = WAYS_OUT[mistake]
    assert said in (FILES / f"{mistake}.txt").read_text()
    text = (FILES / f"{mistake}.tg").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert apply_text(text)


@pytest.mark.parametrize("mistake", FIXED)
def test_a_size_that_is_fixed_is_a_way_out(mistake):
    said, values = FIXED[mistake]
    assert said in (FILES / f"{mistake}.txt").read_text()
    assert apply_text((FILES / f"{mistake}.tg").read_text(), values)
