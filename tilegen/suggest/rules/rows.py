"""Reductions along rows, with what stands before and after them: sums, softmax, norms, losses, the place of the best.

A block, or a warp where rows are short, takes a row: its lanes read neighbours, and combine what each has found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, fuse_rows, keep, vector_of
from tilegen.suggest.nests import Axis, Nests, storage_order

LANES = 32
KEPT = 32  # elements of a row that a thread keeps in registers
SHORT = 1024  # elements of a row that a warp takes alone


@dataclass(frozen=True)
class Row:
    """How a row is dealt out, and the loops that it is cut into, from the outermost on.

    Attributes:
        warps: of a block that has the row; 0 where `lanes` have it alone: a warp, or fewer where data make rows short.
        width: elements of a vector.
        kept: a thread's share of a row stays in its registers.
        size: the parameter for the warps of a block.
    """

    rows: Sequence[Axis]
    columns: Sequence[Axis]
    warps: int
    width: int
    kept: bool
    lanes: int = LANES
    size: str = ""
    warp: str = ""
    lane: str = ""
    others: tuple[str, ...] = ()
    chunk: str = ""
    vector: str = ""

    @property
    def loops(self) -> list[str]:
        return [name for name in (self.warp, self.lane, *self.others, self.chunk, self.vector) if name]


def is_by_rows(nests: Nests) -> bool:
    """Reductions over the columns, along which the largest tensors are stored, and what has an element for each row."""
    columns = storage_order(nests, nests.columns)
    if not nests.reductions or not nests.rows or not columns:
        return False
    for n, equation in enumerate(nests.equations):
        own = [axis for axis in columns if n in axis.loops]
        if (own and own != columns) or (equation.reduce and (not own or any(nests.keeps(n, axis) for axis in own))):
            return False
    along, largest = columns[-1].names, nests.bytes_of(nests.main[0].tensor)
    large = [access for access in nests.main[:2] if 4 * nests.bytes_of(access.tensor) >= largest]
    return columns[-1].extent >= LANES and any(nests.fastest(access) in along for access in large)


def _dealt(nests: Nests) -> Row:
    rows, columns = storage_order(nests, nests.rows), storage_order(nests, nests.columns)
    length, fast = -(-prod(axis.extent for axis in columns) // nests.parts), columns[-1].extent
    width = vector_of(nests, columns[-1])
    while width > 1 and fast < LANES * width:
        width //= 2
    known = all(axis.fixed for axis in columns)
    lanes = LANES
    while nests.parts > 1 and lanes > 4 and length < 2 * lanes * width:
        lanes //= 2
    if length <= SHORT:
        return Row(rows, columns, 0, width, known, lanes)
    warps = 4
    while warps < 16 and length > warps * LANES * KEPT // 2:
        warps *= 2
    return Row(rows, columns, warps, width, known and length <= warps * LANES * KEPT)


def by_rows(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """The lanes of a warp, and the warps of a block, along the columns."""
    row = _dealt(nests)
    few = LANES // row.lanes
    rows = draft.number("R", 8 * few, (2 * few, 4 * few, 8 * few))
    draft, size = draft.number("WARPS", row.warps, (4, 8, 16)) if row.warps else rows
    row = replace(row, size=size)
    draft = _say_what(nests, draft, row)
    draft, blocks = fuse_rows(draft, nests, row.rows)
    at = blocks[-1]
    if not row.warps:
        block, at = draft.fresh(f"b{row.rows[-1].word}"), draft.fresh(f"w{row.rows[-1].word}")
        draft = draft.steps(f"tile({blocks[-1]}, {size}) -> {block}, {at}")
        blocks = [*blocks[:-1], block]
    draft, row = _cut(draft, row)
    draft = _combine(nests, draft, row, blocks, at)
    draft = bind_blocks(draft, blocks)
    draft = draft.steps(f"bind({row.warp or at}, thread.y)", f"bind({row.lane}, thread.x)")
    yield _keep(nests, draft, row, at)


def _say_what(nests: Nests, draft: Draft, row: Row) -> Draft:
    few = "A warp takes a row: its lanes" if row.lanes == LANES else f"{row.lanes} lanes take a row: they"
    who = f"A block of {row.size} warps takes a row: its lanes" if row.warps else few
    what = f"vectors of {row.width} neighbours" if row.width > 1 else "neighbours"
    once = "; the row stays in registers and is read once." if row.kept else "."
    draft = draft.say(f"{who} read {what} along {row.columns[-1].word}{once}")
    ordered = [nests.equations[n].target for n in nests.reductions if not nests.equations[n].best]
    return draft.steps(f"reassociate({', '.join(ordered)})") if ordered else draft


def _cut(draft: Draft, row: Row) -> tuple[Draft, Row]:
    """The columns as warps, lanes, chunks and vectors."""
    names = []
    for axis in row.columns:
        name = axis.names[0]
        if len(axis.names) > 1:
            name = draft.fresh(axis.word, axis.names)
            draft = draft.steps(f"rename({', '.join(axis.names)}) -> {name}")
        names.append(name)
    *others, fast = names
    word, of_warp = row.columns[-1].word, row.lanes * row.width
    warp, chunk, lane, vector, rest = (draft.fresh(f"{letter}{word}") for letter in "wclvr")
    across = row.warps and (row.columns[-1].extent >= row.warps * of_warp or not others)
    if across and row.width == 4:
        draft = draft.steps(f"share_block({fast}, {row.size}) -> {chunk}, {warp}, {lane}, {vector}")
    elif across:
        draft = draft.steps(f"tile({fast}, {row.size}*{of_warp}) -> {chunk}, {rest}")
        draft = draft.steps(f"tile({rest}, {of_warp}) -> {warp}, {rest if row.width > 1 else lane}")
    else:
        if row.warps:
            outer = draft.fresh(f"o{row.columns[-2].word}")
            draft = draft.steps(f"tile({others[-1]}, {row.size}) -> {outer}, {warp}")
            others[-1] = outer
        if row.width == 4:
            draft = draft.steps(f"share_warp({fast}, {row.lanes}) -> {chunk}, {lane}, {vector}")
        else:
            draft = draft.steps(f"tile({fast}, {of_warp}) -> {chunk}, {rest if row.width > 1 else lane}")
    if row.width not in (1, 4):
        draft = draft.steps(f"tile({rest}, {row.width}) -> {lane}, {vector}")
    vector, warp = vector if row.width > 1 else "", warp if row.warps else ""
    return draft, replace(row, warp=warp, lane=lane, others=tuple(others), chunk=chunk, vector=vector)


def _combine(nests: Nests, draft: Draft, row: Row, blocks: list[str], at: str) -> Draft:
    """Partial results of lanes and of warps, and what the two levels make of them."""
    through = ", warps through shared memory" if row.warps else ""
    draft = draft.say(f"Lanes combine what they have found by shuffles{through}.")
    order = f"order({', '.join(dict.fromkeys([*blocks, at, *row.loops]))})"
    levels = [row.warp, row.lane] if row.warps else [row.lane]
    best = [n for n in nests.reductions if nests.equations[n].best]
    parts: dict[str, list[str]] = {}
    for target in [nests.equations[n].target for n in best]:
        parts[target] = [draft.fresh(f"{target}_lanes")]
        what = f"[{', '.join(levels)}]" if row.warps else row.lane
        draft = draft.steps(f"rfactor({target}, {what}, at={at}) -> {parts[target][0]}")
    draft = draft.steps(order)
    for target in [nests.equations[n].target for n in nests.reductions if n not in best]:
        lanes, warps = draft.fresh(f"{target}_lanes"), draft.fresh(f"{target}_warps")
        if row.warps:
            draft = draft.steps(f"reduce_block({target}, {at}, {row.warp}, {row.lane}) -> {warps}, {lanes}")
        else:
            draft = draft.steps(f"reduce_warp({target}, {at}, {row.lane}) -> {lanes}")
    for target, found in parts.items():
        if row.warps:
            found.append(draft.fresh(f"{target}_warps"))
            draft = draft.steps(f"rfactor({target}, {target}.{row.warp}, at={at}) -> {found[1]}")
        draft = draft.steps(*(f"rename({name}, {target}.{name}) -> {name}" for name in levels))
        for suffix in (".best", ""):
            draft = keep(draft, f"{found[0]}{suffix}", at)
            draft = draft.maybe(f"cache_shared({found[1]}{suffix}, at={at})") if row.warps else draft
            draft = keep(draft, f"{target}{suffix}", at)
    return draft


def _keep(nests: Nests, draft: Draft, row: Row, at: str) -> Draft:
    """What stays on the chip: what is between statements, what is read and written."""
    along = nests.accesses_along(row.columns[-1])
    of_rows = {loop for axis in row.rows for loop in axis.names}
    draft = draft.say("The tensors are read and written as vectors; what is between them stays in registers.")
    for equation in nests.equations:
        if equation.target in nests.inside and not equation.reduce:
            draft = _keep_between(draft, row, equation.target, at)
    for name in dict.fromkeys(a.tensor for a in along):
        used = [a for a in along if a.tensor == name]
        whole = row.kept and not used[0].written and any(a.uses(loop) for a in used for loop in of_rows)
        for place in (at, row.chunk) if whole else (row.chunk,):
            if (after := keep(draft, name, place, row.width)) is not draft:
                draft = after
                break
    return draft


def _keep_between(draft: Draft, row: Row, name: str, at: str) -> Draft:
    """An intermediate tensor: in registers, or computed again where it is used."""
    inner = row.vector or row.chunk
    after = draft.maybe(f"compute_at({name}, at={inner})", f"cache_register({name}, at={inner})")
    return keep(draft, name, at) if row.kept or after is draft else after
