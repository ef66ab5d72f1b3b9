"""Running sums, products, maxima and minima: the lanes of a warp go along a row together, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import prod

from tilegen.errors import TilegenError
from tilegen.ir.nodes import Range
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, keep
from tilegen.suggest.nests import Nests, storage_order

OWN = 4  # neighbours that a lane has
ROWS = 512  # for a multiprocessor, so that its threads hide how long each waits


def is_running(nests: Nests) -> bool:
    """True of one reduction up to an index of its result, or from it on, for each row."""
    return _along(nests) is not None and len(nests.rows) > 1


def _along(nests: Nests) -> Range | None:
    """The loop of the result that bounds the terms."""
    equation = nests.equations[0]
    if len(nests.equations) > 1 or len(equation.reduced) != 1 or len(equation.conditions) != 1 or equation.best:
        return None
    bound = equation.conditions[0].value.names()
    return next((r for r in equation.loops if bound == {r.name, equation.reduced[0].name}), None)


def running(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """A warp a row; or a thread where neighbours in memory are of different rows, or lanes cannot take its tiles."""
    along = _along(nests)
    assert along
    side_by_side = nests.fastest(nests.main[0]) in (along.name, nests.equations[0].reduced[0].name)
    many = prod(axis.extent for axis in nests.rows if along.name not in axis.names) >= ROWS * machine.sms
    for way in (_by_threads, _by_lanes) if many and not side_by_side else (_by_lanes, _by_threads):
        with suppress(TilegenError):
            yield way(nests, draft)
            return


def _by_threads(nests: Nests, draft: Draft) -> Draft:
    """One register goes along a row."""
    (equation,), along = nests.equations, _along(nests)
    assert along
    rows = [axis.names[0] for axis in storage_order(nests, nests.rows) if along.name not in axis.names]
    run, block, thread = (draft.fresh(name) for name in ("run", f"b{rows[-1]}", f"t{rows[-1]}"))
    draft, size = draft.number("T", 64, (32, 64, 128))
    draft = draft.say("A thread goes along a row, and keeps what it has so far in a register.")
    draft = draft.steps(
        f"scan({equation.target}) -> {run}",
        f"tile({rows[-1]}, {size}) -> {block}, {thread}",
        f"order({', '.join([*rows[:-1], block, thread])}, ...)",
    )
    draft = bind_blocks(draft, [*rows[:-1], block])
    draft = draft.steps(f"bind({thread}, thread.x)", f"cache_register({run}, at={thread})")
    outer, own = draft.fresh(f"{along.index}o"), draft.fresh(f"{along.index}i")
    why = "Eight terms at a time: that many loads are on their way at once."
    return draft.maybe(f"tile({along.name}, 8) -> {outer}, {own}", f"unroll({own})", why=why)


def _by_lanes(nests: Nests, draft: Draft) -> Draft:
    """Each lane adds up its neighbours, the lanes of a warp combine by shuffles, and one register goes along."""
    (equation,) = nests.equations
    target = equation.target
    along = _along(nests)
    assert along
    rows = [r for r in equation.loops if r is not along]
    total, local, ahead, run = (draft.fresh(name) for name in ("total", "local", "ahead", "run"))
    draft, size = draft.number("R", 4, (2, 4, 8))
    draft = draft.say(f"A lane has {OWN} neighbours: their total, the terms inside of it, and what is before it.")
    draft = draft.steps(
        f"reassociate({target})",
        f"split_scan({target}, {OWN}) -> {total}, {local}, {ahead}",
        f"scan({local}, along={total})",
        f"scan({ahead}) -> {run}",
    )
    names = []
    for r in rows:
        names.append(draft.fresh(r.index, [r.name]))
        draft = draft.steps(f"fuse({total}.{r.index}, {ahead}.{r.index}, {target}.{r.index}) -> {names[-1]}")
    draft = draft.say("A warp takes a row in chunks of 32 lanes, and adds up by shuffles what the lanes have.")
    j = along.index
    chunk, lane = draft.fresh(f"c{j}"), draft.fresh(f"l{j}")
    for n, name in enumerate((total, ahead, target)):
        draft = draft.steps(f"tile({name}.{j}o, 32) -> {chunk}{n or ''}, {lane}{n or ''}")
    for name in (chunk, lane):
        draft = draft.steps(f"fuse({name}, {name}1, {name}2) -> {name}")
    block, warp = draft.fresh(f"b{rows[-1].index}"), draft.fresh(f"w{rows[-1].index}")
    draft = draft.steps(f"tile({names[-1]}, {size}) -> {block}, {warp}", f"cache_register({run}, at={warp})")
    for name in (local, total, ahead):
        draft = draft.steps(f"cache_register({name}, at={lane})")
    for name in dict.fromkeys(a.tensor for a in nests.main):
        draft = keep(draft, name, lane, OWN)
    draft = bind_blocks(draft, [*names[:-1], block])
    return draft.steps(f"bind({warp}, thread.y)", f"bind({lane}, thread.x)")
