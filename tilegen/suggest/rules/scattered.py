"""Results whose place data decide: sums over what is equal (histograms, gradients of tables), and lists in any order.

Each term is read once. Threads meet at places, so that updates are atomic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tilegen.errors import TilegenError
from tilegen.ir.nodes import Cast, Index, Op
from tilegen.ir.walk import walk
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, power_of_two
from tilegen.suggest.nests import Axis, Nests, storage_order

SHARED = 1024  # results that a block counts in shared memory
THREADS = 256


def place_of(nests: Nests) -> Axis | None:
    """The axis of the result that data pick: that of `1 if x[i] == b else 0` is b."""
    equation = nests.equations[0]
    if len(nests.equations) > 1 or equation.reduce != "sum" or not isinstance(equation.value, Op | Cast):
        return None
    for op in walk(equation.value):
        if isinstance(op, Op) and op.name == "==":
            for side in op.args:
                while isinstance(side, Cast):
                    side = side.arg
                if isinstance(side, Index) and (axis := _kept(nests, str(side.index))):
                    return axis
    return None


def _kept(nests: Nests, loop: str) -> Axis | None:
    return next((axis for axis in nests.rows if loop in axis.names), None)


def is_scattered(nests: Nests) -> bool:
    """True of one sum of terms each of which names its result."""
    return place_of(nests) is not None


def scattered(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """By blocks in shared memory where there are few results, else by atomic updates of global memory."""
    place = place_of(nests)
    assert place
    if len(nests.rows) == 1 and len(nests.columns) == 1 and place.fixed and place.extent <= SHARED:
        with suppress(TilegenError):
            yield _by_blocks(nests, draft, place)
            return
    yield _by_threads(nests, draft, place)


def _by_threads(nests: Nests, draft: Draft, place: Axis) -> Draft:
    """A thread a term: neighbouring threads take neighbouring terms, or neighbours of what a term has of its own."""
    target = nests.equations[0].target
    b = place.names[0]
    own = [axis for axis in storage_order(nests, nests.rows) if axis is not place]
    terms = storage_order(nests, nests.columns)
    loops = [axis.names[0] for axis in (*terms, *own)]
    draft = draft.say(f"Each term is read once, and added by an atomic update to the {b} that it names, in any order.")
    draft = draft.steps(
        f"reassociate({target})", f"atomic({target})", f"order({', '.join([*loops, b])})", f"scatter({b})"
    )
    fast = (*terms, *own)[-1]
    draft, size = draft.number("T", power_of_two(fast.extent, THREADS), (64, 128, 256))
    block, thread = draft.fresh(f"b{fast.word}"), draft.fresh(f"t{fast.word}")
    draft = draft.steps(f"tile({loops[-1]}, {size}) -> {block}, {thread}")
    draft = bind_blocks(draft, [*loops[:-1], block]).steps(f"bind({thread}, thread.x)")
    return _start(nests, draft)


def _start(nests: Nests, draft: Draft) -> Draft:
    """The zeros that results begin with, by threads of their own."""
    target = nests.equations[0].target
    loops = [f"{target}.init.{r.index}" for r in nests.equations[0].loops]
    block, thread = draft.fresh("b0"), draft.fresh("t0")
    draft = draft.say("Results begin with zeros.").steps(f"tile({loops[-1]}, 256) -> {block}, {thread}")
    return bind_blocks(draft, [*loops[:-1], block]).steps(f"bind({thread}, thread.x)")


def _by_blocks(nests: Nests, draft: Draft, place: Axis) -> Draft:
    """A block has results of its own in shared memory, for a part of the terms, and adds them to those of others."""
    target = nests.equations[0].target
    b, (terms,) = place.names[0], nests.columns
    i = terms.word
    part, rest, chunk, warp, lane, vector = (draft.fresh(f"{letter}{i}") for letter in "prcwlv")
    draft, size = draft.number("PART", 262144, (65536, 131072))
    draft, warps = draft.number("WARPS", 16, (8, 32))
    local = draft.fresh(f"{target}_part")
    draft = draft.say(
        f"A block counts {size} terms in shared memory, by atomic updates, and adds what it has found. "
        "Lanes read vectors of 4 neighbours."
    )
    draft = draft.steps(
        f"reassociate({target})",
        f"tile({terms.names[0]}, {size}) -> {part}, {rest}",
        f"share_block({rest}, {warps}) -> {chunk}, {warp}, {lane}, {vector}",
        f"rfactor({target}, {part}) -> {local}",
        f"reassociate({local})",
        f"atomic({target})",
        f"order({', '.join((part, warp, lane, chunk, vector, b))})",
        f"scatter({b})",
        f"order({target}.{part}, {target}.{b})",
        f"fuse({part}, {target}.{part}) -> {part}",
        f"cache_shared({local}, at={part})",
        f"atomic({local})",
    )
    for a in dict.fromkeys(a.tensor for a in nests.accesses_along(terms)):
        draft = draft.maybe(f"cache_register({a}, at={chunk}, vector=4)")
    zero, over, warp2, lane2 = (draft.fresh(name) for name in ("zero", "over", f"{warp}2", f"{lane}2"))
    draft = draft.say("Its threads begin with zeros, and add the results of the block at the end.")
    draft = draft.steps(
        f"unroll({vector})",
        f"bind({target}.init.{b}, thread.x)",
        f"rename({local}.init.{b}, {target}.{b}) -> {zero}",
        f"tile({zero}, {warps}*32) -> {over}, {warp2}",
        f"tile({warp2}, 32) -> {warp2}, {lane2}",
        f"rename({warp}, {warp2}) -> {warp}",
        f"rename({lane}, {lane2}) -> {lane}",
    )
    return draft.steps(f"bind_warps({part}, {warp}, {lane})")


def is_unordered(nests: Nests) -> bool:
    """True of one list in any order, over everything."""
    one = all(axis.fixed and axis.extent == 1 for axis in nests.rows)
    return len(nests.equations) == 1 and nests.equations[0].reduce == "unordered_list" and one


def unordered(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """A thread tests several points, and one update of the count gives the hits of a warp their places."""
    target = nests.equations[0].target
    *outer, fast = [axis.names[0] for axis in storage_order(nests, nests.columns)]
    rows = [axis.names[0] for axis in nests.rows]
    block, thread, own = (draft.fresh(f"{letter}{fast}") for letter in "btv")
    draft, size = draft.number("T", 256, (128, 512))
    draft, each = draft.number("EACH", 16, (8, 32))
    draft = draft.say(
        f"A thread tests {each} points, {size} apart, so that neighbouring threads read neighbours. The hits of a warp "
        f"get their places by one update of {target}."
    )
    draft = draft.steps(
        f"tile({fast}, {size}*{each}) -> {block}, {thread}",
        f"tile({thread}, {size}) -> {own}, {thread}",
        f"order({', '.join([*outer, block, thread, *rows, own])})",
        f"atomic({target}, at={rows[-1]})",
    )
    draft = bind_blocks(draft, [*outer, block]).steps(f"bind({thread}, thread.x)")
    yield draft.steps(f"unroll({own})")
