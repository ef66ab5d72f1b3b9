"""Reductions along rows, with what stands before and behind them: sums, softmax, norms, losses, the place of the best.

A block, or a warp where rows are short, takes a row: its lanes read neighbours, and combine what each has found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, new_loops, vector_of
from tilegen.suggest.nests import Axis, Nests, storage_order

LANES = 32
KEPT = 32  # elements of a row that a thread keeps in registers
SHORT = 1024  # elements of a row that a warp takes alone


@dataclass(frozen=True)
class Shape:
    """How a row is dealt out: `warps` warps, 0 where a warp has the row alone; `width` elements of a vector.

    `kept` says that a thread's share of a row stays in its registers.
    """

    warps: int
    width: int
    kept: bool


def shape_of(nests: Nests, columns: list[Axis]) -> Shape | None:
    """How rows of these columns are dealt out; None where the fastest of them is too short for the lanes of a warp."""
    length, fast = prod(axis.extent for axis in columns), columns[-1].extent
    if fast < LANES:
        return None
    width = vector_of(nests, columns[-1])
    while width > 1 and fast < LANES * width:
        width //= 2
    known = all(axis.fixed for axis in columns)
    if length <= SHORT:
        return Shape(0, width, known)
    warps = 4
    while warps < 16 and length > warps * LANES * KEPT // 2:
        warps *= 2
    return Shape(warps, width, known and length <= warps * LANES * KEPT)


def is_by_rows(nests: Nests) -> bool:
    """Reductions over the columns, along which the largest tensors are stored, and what has an element for each row."""
    rows, columns = nests.rows, storage_order(nests, nests.columns)
    if not nests.reductions or not rows or not columns or any(e.conditions for e in nests.equations):
        return False
    for n, equation in enumerate(nests.equations):
        own = [axis for axis in columns if n in axis.loops]
        if own and own != columns or equation.reduce and (not own or any(nests.keeps(n, axis) for axis in own)):
            return False
    along = columns[-1].names
    return any(nests.fastest(a) in along for a in nests.main[:2]) and shape_of(nests, columns) is not None


def by_rows(nests: Nests, draft: Draft) -> Iterator[Draft]:
    """The lanes of a warp, and the warps of a block, along the columns."""
    rows, columns = storage_order(nests, nests.rows), storage_order(nests, nests.columns)
    shape = shape_of(nests, columns)
    assert shape
    draft = _say_what(nests, draft, columns, shape)
    draft, names = _cut(nests, draft, columns, shape)
    row_loops = {axis.word: [*axis.names] for axis in rows}
    draft, shared, parts = _combine(nests, draft, rows, row_loops, names, shape)
    joined = []
    for axis in rows:
        name = axis.names[0]
        if len(row_loops[axis.word]) > 1:
            name = draft.fresh(axis.word, row_loops[axis.word])
            draft = draft.steps(f"fuse({', '.join(row_loops[axis.word])}) -> {name}")
        joined.append(name)
    for name, others in shared.items():
        if others:
            draft = draft.steps(f"rename({', '.join([name, *others])}) -> {name}")
    draft, at = _bind(draft, rows, joined, names, shape)
    yield _keep(Row(nests, rows, columns, shape, names, parts, at), draft)


def _say_what(nests: Nests, draft: Draft, columns: list[Axis], shape: Shape) -> Draft:
    word = columns[-1].word
    who = f"A block of WARPS warps takes a row, each lane vectors of {shape.width} neighbours along {word}"
    if not shape.warps:
        who = f"A warp takes a row, each lane vectors of {shape.width} neighbours along {word}"
        draft = draft.number("R", 8, (2, 4, 8))
    else:
        draft = draft.number("WARPS", shape.warps, (4, 8, 16))
    who = who.replace("vectors of 1 neighbours", "every 32nd element")
    once = "; the row stays in registers and is read once." if shape.kept else "."
    draft = draft.say(who + once)
    ordered = [nests.equations[n].target for n in nests.reductions if not nests.equations[n].best]
    return draft.steps(*(f"reassociate({name})" for name in ordered))


@dataclass(frozen=True)
class Names:
    """The loops that a row is cut into, from the outermost on: warps, lanes, other columns, chunks, elements."""

    warp: str
    lane: str
    others: tuple[str, ...]
    chunk: str
    vector: str

    @property
    def all(self) -> list[str]:
        return [name for name in (self.warp, self.lane, *self.others, self.chunk, self.vector) if name]


@dataclass(frozen=True)
class Row:
    """The rows of a group of equations as they have been cut: `at` is the loop over rows, `parts` the partial results
    of lanes and of warps of each reduction."""

    nests: Nests
    rows: list[Axis]
    columns: list[Axis]
    shape: Shape
    names: Names
    parts: dict[int, tuple[str, str]]
    at: str


def _cut(nests: Nests, draft: Draft, columns: list[Axis], shape: Shape) -> tuple[Draft, Names]:
    names = []
    for axis in columns:
        name = axis.names[0]
        if len(axis.names) > 1:
            name = draft.fresh(axis.word, axis.names)
            draft = draft.steps(f"rename({', '.join(axis.names)}) -> {name}")
        names.append(name)
    *others, fast = names
    word = columns[-1].word
    warp = draft.fresh(f"w{word}") if shape.warps else ""
    chunk, lane = draft.fresh(f"c{word}"), draft.fresh(f"l{word}")
    vector = draft.fresh(f"v{word}") if shape.width > 1 else ""
    rest, of_warp = draft.fresh(f"r{word}"), LANES * shape.width
    across = bool(shape.warps) and columns[-1].extent >= shape.warps * of_warp
    if shape.warps and not across and others:
        outer = draft.fresh(f"o{columns[-2].word}")
        draft = draft.steps(f"tile({others[-1]}, WARPS) -> {outer}, {warp}")
        others[-1] = outer
        draft = draft.steps(f"tile({fast}, {of_warp}) -> {chunk}, {rest if vector else lane}")
    elif shape.warps:
        draft = draft.steps(f"tile({fast}, WARPS*{of_warp}) -> {chunk}, {rest}")
        draft = draft.steps(f"tile({rest}, {of_warp}) -> {warp}, {rest if vector else lane}")
    else:
        draft = draft.steps(f"tile({fast}, {of_warp}) -> {chunk}, {rest if vector else lane}")
    if vector:
        draft = draft.steps(f"tile({rest}, {shape.width}) -> {lane}, {vector}")
    found = Names(warp, lane, tuple(others), chunk, vector)
    return draft, found


def _combine(
    nests: Nests, draft: Draft, rows: list[Axis], row_loops: dict[str, list[str]], names: Names, shape: Shape
) -> tuple[Draft, dict[str, list[str]], dict[int, tuple[str, str]]]:
    """Partial results of lanes and of warps; loops of theirs that are to have the names of others; their names."""
    shared: dict[str, list[str]] = {name: [] for name in (names.warp, names.lane) if name}
    parts: dict[int, tuple[str, str]] = {}
    draft = draft.say(
        "Lanes combine what they have found by shuffles" + (", warps through shared memory." if shape.warps else ".")
    )
    for n in nests.reductions:
        target = nests.equations[n].target
        lanes, warps = draft.fresh(f"{target}_lanes"), draft.fresh(f"{target}_warps") if names.warp else ""
        what = f"[{names.warp}, {names.lane}]" if names.warp else names.lane
        after = draft.steps(f"rfactor({target}, {what}) -> {lanes}")
        made = new_loops(draft, after)
        _note(nests, n, rows, row_loops, made[: len(rows)])
        for name, new in zip([names.warp, names.lane][-len(made[len(rows) :]) :], made[len(rows) :], strict=True):
            shared[name].append(new)
        draft, parts[n] = after, (lanes, warps)
    draft = draft.steps(f"order({', '.join(names.all)})")
    for n, (_, warps) in parts.items():
        if warps:
            level = shared[names.warp][len(shared[names.warp]) - len(parts) + list(parts).index(n)]
            after = draft.steps(f"rfactor({nests.equations[n].target}, {level}) -> {warps}")
            _note(nests, n, rows, row_loops, new_loops(draft, after)[: len(rows)])
            draft = after
    return draft, shared, parts


def _note(nests: Nests, n: int, rows: list[Axis], row_loops: dict[str, list[str]], kept: list[str]) -> None:
    """The loops of the new nest, which are in the order of the equation's, beside those of their axes."""
    order = [r.name for r in nests.equations[n].loops]
    for original, new in zip(order, kept, strict=True):
        axis = next(axis for axis in rows if axis.loops[n] == original)
        row_loops[axis.word].append(new)


def _bind(draft: Draft, rows: list[Axis], joined: list[str], names: Names, shape: Shape) -> tuple[Draft, str]:
    """Blocks, warps and lanes; with the loop whose iterations are rows."""
    warp, at = names.warp, joined[-1]
    blocks = joined
    if not shape.warps:
        block, warp = draft.fresh(f"b{rows[-1].word}"), draft.fresh(f"w{rows[-1].word}")
        draft, at = draft.steps(f"tile({joined[-1]}, R) -> {block}, {warp}"), warp
        blocks = [*joined[:-1], block]
    draft = bind_blocks(draft, blocks)
    return draft.steps(f"bind({warp}, thread.y)", f"bind({names.lane}, thread.x)"), at


def _keep(row: Row, draft: Draft) -> Draft:
    """What stays on the chip: partial results and results, what is between statements, what is read and written."""
    draft = draft.say("What is left to do touches registers alone; the tensors are read and written as vectors.")
    nests, chunk = row.nests, row.names.chunk
    along = nests.accesses_along(row.columns[-1])
    for n, equation in enumerate(nests.equations):
        if equation.reduce:
            draft = _keep_reduction(row, draft, n)
        elif equation.target in nests.inside:
            draft = _keep_between(row, draft, equation.target)
    moved = f", vector={row.shape.width}" if row.shape.width > 1 else ""
    of_rows = {loop for axis in row.rows for loop in axis.names}
    for name in dict.fromkeys(a.tensor for a in nests.main if a in along):
        used = [a for a in along if a.tensor == name]
        whole = row.shape.kept and not used[0].written and any(a.uses(loop) for a in used for loop in of_rows)
        for place in (row.at, chunk) if whole else (chunk,):
            if (after := draft.maybe(f"cache_register({name}, at={place}{moved})")) is not draft:
                draft = after
                break
    return draft


def _keep_reduction(row: Row, draft: Draft, n: int) -> Draft:
    (lanes, warps), equation, at = row.parts[n], row.nests.equations[n], row.at
    if warps and not equation.best:
        return draft.maybe(f"cache_partials({equation.target}, {warps}, {lanes}, {at}, {row.names.warp})")
    for suffix in (".best", "") if equation.best else ("",):
        draft = draft.maybe(f"cache_register({lanes}{suffix}, at={at})")
        if warps:
            draft = draft.maybe(f"cache_shared({warps}{suffix}, at={at})")
        draft = draft.maybe(f"cache_register({equation.target}{suffix}, at={at})")
    return draft


def _keep_between(row: Row, draft: Draft, name: str) -> Draft:
    """An intermediate tensor: in registers, or computed again where it is used."""
    inner = row.names.vector or row.names.chunk
    after = draft.maybe(f"compute_at({name}, at={inner})", f"cache_register({name}, at={inner})")
    if row.shape.kept or after is draft:
        return draft.maybe(f"cache_register({name}, at={row.at})")
    return after
