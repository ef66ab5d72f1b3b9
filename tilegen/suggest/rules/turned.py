"""Tensors with their axes in another order: read along one axis, written along another, and turned in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks
from tilegen.suggest.nests import Access, Axis, Nests, storage_order

LEAST = 16  # elements along both axes, below which lines of memory are not worth turning


def _turned(nests: Nests) -> tuple[Access, Axis, Axis] | None:
    """What is read along another axis than the result is written along, with that axis and the result's."""
    if len(nests.equations) > 1 or nests.equations[0].reduce:
        return None
    (written,) = (access for access in nests.accesses if access.written)
    read = max(
        (a for a in nests.main if not a.written and a.index), key=lambda a: nests.bytes_of(a.tensor), default=None
    )
    if read is None or 2 * nests.bytes_of(read.tensor) < nests.bytes_of(written.tensor):
        return None
    along, across = nests.fastest(written), nests.fastest(read)
    if along is None or across is None or along == across or not read.uses(along):
        return None
    return read, nests.axis_of(across), nests.axis_of(along)


def is_turned(nests: Nests) -> bool:
    """True if tiles of a tensor change their rows and columns."""
    found = _turned(nests)
    return found is not None and all(axis.extent >= LEAST for axis in found[1:])


def turned(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Square tiles through shared memory: whole lines are read, and whole lines are written."""
    found = _turned(nests)
    assert found
    read, across, along = found
    others = [axis.names[0] for axis in storage_order(nests, nests.rows) if axis not in (across, along)]
    x, y = along.word, across.word
    (bx, tx), (by, ty, wy) = ([draft.fresh(f"{c}{x}") for c in "bt"], [draft.fresh(f"{c}{y}") for c in "btw"])
    draft, size = draft.number("TS", 64, (32, 64))
    draft, rows = draft.number("ROWS", 8, (4, 8, 16))
    draft = draft.say(f"{read.tensor} is stored along {y} and the result along {x}: tiles are turned in shared memory.")
    draft = draft.steps(
        f"tile({along.names[0]}, {size}) -> {bx}, {tx}", f"tile({across.names[0]}, {size}) -> {by}, {ty}"
    )
    draft = draft.steps(f"order({', '.join([*others, by, bx, ty, tx])})")
    draft = bind_blocks(draft, [*others, by, bx])
    draft = draft.say(f"A thread has elements {rows} rows apart.")
    draft = draft.steps(f"tile({ty}, {rows}) -> {wy}, {ty}", f"order({ty}, {tx}, {wy})", f"unroll({wy})")
    draft = draft.steps(f"bind({ty}, thread.y)", f"bind({tx}, thread.x)")
    draft = draft.say("One element after each row of a tile puts its columns into different banks.")
    yield draft.steps(f"cache_shared({read.tensor}, at={bx})", f"pad({read.tensor}.shared, 1)")
