"""Lists that keep their order: hits are counted before they are stored, each at the number of those before it."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, keep, power_of_two
from tilegen.suggest.nests import Nests

_LANES = 32  # that a ballot asks


def is_list(nests: Nests) -> bool:
    """True of what keeps, of a range, where a condition holds."""
    return len(nests.equations) == 1 and nests.equations[0].hits is not None and len(nests.equations[0].reduced) == 1


def by_ranks(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Parts, each by a warp: how many hits there are in each, in those before it, and before each hit inside of it."""
    (equation,) = nests.equations
    count = equation.target
    wanted = ("rank", "part", "inside", "front", "total", "local", "before", "run", "last")
    rank, part, inside, front, total, local, before, run, last = map(draft.fresh, wanted)
    draft, size = draft.number("PART", 16384, (4096, 16384))
    parts = -(-equation.reduced[0].extent.evaluate(nests.sizes) // draft.numbers[size].value)
    draft, warps = draft.number("WARPS", power_of_two(parts, 8), (4, 8) if parts > 4 else ())
    draft = draft.say(
        "The place of a hit is the number of hits before it, a running sum: in parts, and in tiles of 32."
    )
    draft = draft.steps(
        f"rank({count}) -> {rank}",
        f"split_scan({rank}, {size}) -> {part}, {inside}, {front}",
        f"split_scan({inside}, {_LANES}) -> {total}, {local}, {before}",
        f"scan({local}, along={total})",
        f"scan({before}) -> {run}",
        f"scan({front}) -> {last}",
        f"scan({count}, along={last})",
    )
    names = rank, part, inside, front, total, local, before, run, last
    yield _by_warps(nests, draft, names, (size, warps))


def _by_warps(nests: Nests, draft: Draft, names: tuple[str, ...], numbers: tuple[str, str]) -> Draft:
    """A part for each warp, in tiles of its lanes."""
    (equation,), (size, warps) = nests.equations, numbers
    rank, part, inside, front, total, local, before, run, last = names
    i, own = equation.reduced[0].index, [r.index for r in equation.loops]
    draft = draft.say(
        "A warp takes a part, and its lanes count hits by a ballot: first of all parts, then before each."
    )
    b, w, v, lane, c, x = (draft.fresh(name) for name in ("b", "w", "v", "l", "c", "x"))
    draft = draft.steps(
        f"tile({part}.k{i}i, {_LANES}) -> {v}, {lane}",
        f"tile({front}.{i}o, {_LANES}) -> {c}, {lane}1",
        f"tile({rank}.{i}i, {_LANES}) -> {v}2, {lane}2",
        f"tile({equation.reduced[0].name}, {size}) -> {b}, {x}",
        f"tile({x}, {_LANES}) -> {v}3, {lane}3",
        *(f"fuse({total}.{o}, {before}.{o}, {inside}.{o}, {rank}.{o}, {r.name}) -> {r.name}"
          for o, r in zip(own, equation.loops, strict=True)),
        f"fuse({total}.{i}o, {before}.{i}o, {inside}.{i}o, {rank}.{i}o, {b}) -> {b}",
        f"fuse({total}.{i}io, {before}.{i}io, {inside}.{i}io, {v}2, {v}3) -> {v}2",
        f"fuse({inside}.{i}ii, {lane}2, {lane}3) -> {lane}2",
        *(f"rename({part}.{o}, {r.name}) -> {r.name}" for o, r in zip(own, equation.loops, strict=True)),
        f"rename({part}.{i}o, {b}) -> {b}",
        f"rename({v}, {v}2) -> {v}",
        f"rename({total}.k{i}ii, {lane}, {lane}1, {lane}2) -> {lane}",
        f"tile({b}, {warps}) -> {b}, {w}",
        f"tile({v}, 8) -> {v}, {x}",
    )  # fmt: skip
    kept = {part: w, run: w, last: f"{front}.{own[-1]}", total: x, local: x, before: x, inside: x, rank: x}
    draft = draft.steps(*(f"cache_register({name}, at={at})" for name, at in kept.items()))
    for name in dict.fromkeys(a.tensor for a in nests.main if not a.written):
        draft = keep(draft, name, v)
    blocks = [*(r.name for r in equation.loops), b]
    draft = bind_blocks(draft.steps(f"order({', '.join((*blocks, w))})"), [*blocks, *(f"{front}.{o}" for o in own)])
    return draft.steps(f"bind({w}, thread.y)", f"bind({lane}, thread.x)", f"unroll({x})")
