"""One result for each point: element by element, broadcasts, gathers, short windows, and whatever no rule knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import prod

from tilegen.errors import TilegenError
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, fuse_rows, keep_inside, power_of_two, vector_of
from tilegen.suggest.nests import Axis, Nests, storage_order

THREADS = 256
WIDE, LONG = 1024, 256  # threads for terms that are far apart, enough for neighbouring blocks to drift apart


def is_pointwise(nests: Nests) -> bool:
    """True if each equation has a result for each point of the same axes, whatever it sums over."""
    equations = range(len(nests.equations))
    return bool(nests.rows) and not any(nests.keeps(n, axis) for axis in nests.columns for n in equations)


def pointwise(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Each thread computes one point, or a vector of neighbours, of all results."""
    rows = storage_order(nests, nests.rows)
    fast = fast_axis(nests, rows)
    rows = [*(axis for axis in rows if axis is not fast), fast]
    if len(nests.equations) > 1:
        draft = draft.say("One launch: what a statement computes of a point, the next one has in a register.")
    draft, names = fuse_rows(draft, nests, rows)
    width = vector_of(nests, rows[-1])
    if width > 1 and rows[-1].extent >= width and not nests.reductions:
        with suppress(TilegenError):
            yield _threads(nests, draft, rows, names, width)
            return
    yield _threads(nests, draft, rows, names, 1)


def fast_axis(nests: Nests, rows: list[Axis]) -> Axis:
    """The axis along which neighbouring threads touch neighbours in most of the bytes."""

    def weight(axis: Axis) -> int:
        return sum(nests.bytes_of(a.tensor) * (3 if a.written else 2) for a in nests.accesses_along(axis))

    best = max(rows, key=weight)
    return best if weight(best) else rows[-1]


def _threads(nests: Nests, draft: Draft, rows: list[Axis], names: list[str], width: int) -> Draft:
    if all(axis.fixed and axis.extent == 1 for axis in rows):
        why = "A list in order: one thread goes along it." if nests.equations[0].hits else "One thread is enough."
        return _registers(nests, bind_blocks(draft.say(why), names), names[-1])
    *slow, fast = names
    word, extent = rows[-1].word, -(-rows[-1].extent // width)
    terms = [prod(r.extent.evaluate(nests.sizes) for r in nests.equations[n].reduced) for n in nests.reductions]
    along = power_of_two(extent, WIDE if extent >= WIDE and max(terms, default=0) >= LONG else THREADS)
    down = THREADS // along if slow and along < THREADS else 1
    inner = [r.name for n in range(len(nests.equations)) for r in nests.equations[n].reduced]
    if width > 1:
        vector = draft.fresh(f"v{word}")
        chunk = draft.fresh(f"c{word}")
        draft = draft.say(f"Vectors of {width} neighbours: 16 bytes in one access.")
        draft, wide = draft.number("W", width)
        draft = draft.steps(
            f"tile({fast}, {wide}) -> {chunk}, {vector}", f"order(..., {vector})", f"vectorize({vector})"
        )
        fast = chunk
    block, thread = draft.fresh(f"b{word}"), draft.fresh(f"t{word}")
    why = f"Neighbouring threads take neighbours along {word}, so that their accesses join in whole lines"
    if down > 1:
        other = rows[-2].word
        block2, thread2 = draft.fresh(f"b{other}"), draft.fresh(f"t{other}")
        draft, x = draft.number("TX", along)
        draft, y = draft.number("TY", down, {2, 4, 8} - {down})
        draft = draft.say(f"{why}; {word} alone is too short for a block.")
        draft = draft.steps(f"tile({fast}, {x}) -> {block}, {thread}", f"tile({slow[-1]}, {y}) -> {block2}, {thread2}")
        blocks, threads = [*slow[:-1], block2, block], [thread2, thread]
    else:
        draft, size = draft.number("T", along, {64, 128, 256, 512, along} if along >= THREADS else ())
        draft = draft.say(f"{why}.").steps(f"tile({fast}, {size}) -> {block}, {thread}")
        blocks, threads = [*slow, block], [thread]
    if len(blocks) + len(threads) > 2 or inner:
        draft = draft.steps(f"order({', '.join([*blocks, *threads])}, ...)")
    draft = bind_blocks(draft, blocks)
    for name, kind in zip(reversed(threads), ("thread.x", "thread.y"), strict=False):
        draft = draft.steps(f"bind({name}, {kind})")
    return _registers(nests, draft, thread)


def _registers(nests: Nests, draft: Draft, thread: str) -> Draft:
    """Sums and what goes from one statement to the next in registers, short sums written out."""
    kept = [nests.equations[n].best for n in nests.reductions] + [nests.equations[n].target for n in nests.reductions]
    if kept:
        draft = draft.say("Each thread keeps its result in a register until it is complete.")
    for name in filter(None, kept):
        draft = draft.maybe(f"cache_register({name}, at={thread})")
    draft = keep_inside(draft, nests, thread)
    for n in nests.reductions:
        short = [r for r in nests.equations[n].reduced if r.extent.is_const and r.extent.const <= 16]
        while short and prod(r.extent.const for r in short) > 64:
            short = short[1:]
        for r in short:
            draft = draft.maybe(f"unroll({r.name})")
        if not short:
            last = nests.equations[n].reduced[-1]
            outer, part = draft.fresh(f"{last.index}o"), draft.fresh(f"{last.index}i")
            draft = draft.maybe(
                f"tile({last.name}, 8) -> {outer}, {part}",
                f"unroll({part})",
                why="Eight terms at a time: that many loads are on their way at once.",
            )
    return draft
