"""Recurrences: a thread goes along one for a row of its own, or a block has all rows, with barriers between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tilegen.errors import TilegenError
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks
from tilegen.suggest.nests import Nests


def is_recurrence(nests: Nests) -> bool:
    """True of the equations of one recurrence that have other indices, the same in all of them."""
    (shared, *others) = {e.loops[: e.carried] for e in nests.equations}
    return bool(shared) and not others and bool(_rows(nests))


def _rows(nests: Nests) -> list[list[str]]:
    """The other loops of the left sides, those of one index together; none where they are not alike."""
    rows = [{r.index: r.name for r in e.loops[e.carried :]} for e in nests.equations]
    alike = all(each.keys() == rows[0].keys() for each in rows)
    return [[each[word] for each in rows] for word in rows[0]] if alike else []


def recurrence(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Rows outside, where they are independent of each other, or inside."""
    with suppress(TilegenError):
        yield _apart(nests, draft)
        return
    yield _in_step(nests, draft)


def _apart(nests: Nests, draft: Draft) -> Draft:
    shared = [r.name for r in nests.equations[0].loops[: nests.equations[0].carried]]
    names = []
    draft = draft.say(f"A thread goes along {' and '.join(shared)} in sequence.")
    for loops in _rows(nests):
        names.append(loops[0])
        if len(loops) > 1:
            names[-1] = draft.fresh(loops[0].rpartition(".")[2], loops)
            draft = draft.steps(f"fuse({', '.join(loops)}) -> {names[-1]}")
    block, thread = (draft.fresh(f"{letter}{names[-1]}") for letter in "bt")
    draft, size = draft.number("T", 64, (32, 64, 128))
    draft = draft.steps(f"order({', '.join((*names, *shared))})", f"tile({names[-1]}, {size}) -> {block}, {thread}")
    draft = bind_blocks(draft, [*names[:-1], block]).steps(f"bind({thread}, thread.x)")
    for equation in nests.equations:
        draft = draft.maybe(f"cache_register({equation.target}, at={shared[-1]})")
    return draft


def _in_step(nests: Nests, draft: Draft) -> Draft:
    draft, size = draft.number("T", 256, (128, 256, 512))
    draft = draft.say("One block: its threads have rows of their own, and wait for each other in each iteration.")
    for n, loop in enumerate(_rows(nests)[-1]):
        chunk, thread = (draft.fresh(f"{letter}{loop}") for letter in "ct")
        draft = draft.steps(f"tile({loop}, {size}) -> {chunk}, {thread}", f"bind({thread}, thread.x)")
        draft = draft.maybe(f"cache_register({nests.equations[n].target}, at={thread})")
    return draft
