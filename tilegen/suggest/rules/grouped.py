"""Products by groups: rows of one operand, each multiplied by the matrix of the group that it is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from tilegen.errors import TilegenError
from tilegen.ir.nodes import ONLY
from tilegen.ir.walk import loads
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.nests import Nests
from tilegen.suggest.rules.product import SHORT, Form, Tile, share, size_tiles, tile_for_warps, tiles_for, used_by
from tilegen.suggest.rules.product import form_of as product_of


def _form_of(nests: Nests) -> tuple[Form, Mapping[str, str]] | None:
    """The product, and its loops with those of the equation that takes each result from its group."""
    if len(nests.equations) != 2 or nests.equations[1].reduce != ONLY:
        return None
    first, second = nests.equations
    form = product_of(replace(nests, equations=(first,)))
    read = {load.index for load in loads(second.value) if load.buffer == first.target}
    if form is None or len(read) != 1 or form.outer or len(form.others) != 1:
        return None
    pairs = dict(zip(map(str, first.index), map(str, *read), strict=True))
    own = {r.name for r in (*second.loops, *second.reduced)}
    return (form, pairs) if set(pairs.values()) == own and pairs[form.others[0].names[0]] in _reduced(nests) else None


def _reduced(nests: Nests) -> list[str]:
    return [r.name for r in nests.equations[1].reduced]


def is_grouped(nests: Nests) -> bool:
    """True of products by groups whose operands are used by enough results."""
    found = _form_of(nests)
    return found is not None and found[0].term.extent >= SHORT and found[0].column.extent >= 16


def grouped(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Tiles of one group each, in equal shares, with operands through shared memory."""
    found = _form_of(nests)
    assert found
    form, pairs = found
    for tile in tiles_for(replace(form, others=()), machine):
        with suppress(TilegenError):
            yield _tiled(nests, draft, form, pairs, tile)
            return


def _tiled(nests: Nests, draft: Draft, form: Form, pairs: Mapping[str, str], tile: Tile) -> Draft:
    i, j, k, g = form.row.word, form.column.word, form.term.word, form.others[0].word
    result, term = nests.equations[0].target, form.term.names[0]
    loops = [axis.names[0] for axis in (form.row, form.column, form.others[0])]
    both = [f"{letter}{word}" for word in (i, j) for letter in "tbwclv"]
    row, column, group, *names, lane, n = draft.names(i, j, g, *both, f"{k}o", f"{k}i", "lane", f"d{i}")
    _, bi, wi, ci, li, vi, _, bj, wj, cj, lj, vj, ko, ki = names
    draft, sizes = size_tiles(draft, tile)
    tm, tn, *_ = sizes
    draft = draft.say(f"A tile of {tm} x {tn} results is computed for each {g} that has some of its rows.").steps(
        f"order({', '.join([*loops, term])})",
        *(f"fuse({loop}, {pairs[loop]}) -> {name}" for loop, name in zip(loops, (row, column, group), strict=True)),
        *tile_for_warps((row, column, term), sizes, names),
        f"order({', '.join([bi, group, bj, ko, wi, wj, li, lj, ki, ci, vi, cj, vj])})",
    )
    draft = draft.say(f"A diagonal of tiles and {g} has at most one pair that meets: blocks have equal shares of them.")
    draft = draft.steps(
        f"skew({bi}, {group}) -> {n}",
        f"order({n}, {bj}, {group}, {ko})",
        f"warp_threads({wi}, {wj}, {li}, {lj}) -> {lane}",
        f"deal({n}, {bj})",
    )
    draft = draft.say("The sums stay in registers, and tiles of both operands in shared memory.")
    draft = draft.steps(f"cache_register({result}, at={group})")
    left, right = used_by(form, vi, vj)
    draft, a = share(nests, draft, form.left, form.row, form.term, f"{ko}{left}", ())
    draft, b = share(nests, draft, form.right, form.column, form.term, f"{ko}{right}", ())
    draft = draft.steps(f"cache_operands({a}, {b}, {ki})", f"walk_columns({ci}, {vi}, {cj}, {vj})")
    return draft.maybe(f"pipeline({ko}, 2)", why="The next tile is copied while this one is multiplied.")
