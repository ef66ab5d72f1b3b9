"""Products by groups: rows of one operand, each multiplied by the matrix of the group that it is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from tilegen.suggest.rules.tensor_cores import TYPES
from tilegen.suggest.rules.warpgroups import by_warpgroups


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
    """Tiles of one group each, dealt from group to group, with operands through shared memory."""
    found = _form_of(nests)
    assert found
    form, pairs = found
    alone = replace(form, others=())
    if machine.arch == "sm_90" and form.left.dtype == form.right.dtype in TYPES:
        with suppress(TilegenError):
            yield by_warpgroups(nests, draft, alone, machine, lambda it: _join(nests, it, form, pairs), _deal)
            return
    for tile in tiles_for(alone, machine):
        with suppress(TilegenError):
            yield _tiled(nests, draft, form, pairs, tile)
            return


def _join(nests: Nests, draft: Draft, form: Form, pairs: Mapping[str, str]) -> tuple[Draft, list[str]]:
    """The loops over groups, over their starts, over rows from there on, and over columns."""
    i, j, g = form.row.word, form.column.word, form.others[0].word
    first, last = (equation.target for equation in nests.equations)
    row, column, group = (axis.names[0] for axis in (form.row, form.column, form.others[0]))
    start, place, new_row, new_column, new_group = draft.names("s", f"{i}{g}", i, j, g)
    draft = draft.say(f"Tiles begin where the rows of each {g} do: '{start}' is the first of them.").steps(
        f"anchor({last}) -> {start}",
        f"order({group}, {first}.{start}, {row}, {column}, {form.term.names[0]})",
        f"order({pairs[group]}, {start}, {pairs[row]}, {pairs[column]})",
        f"fuse({group}, {pairs[group]}) -> {new_group}",
        f"fuse({first}.{start}, {start}) -> {start}",
        f"fuse({row}, {pairs[row]}) -> {place}",
        f"shift({place}, {start}) -> {new_row}",
        f"fuse({column}, {pairs[column]}) -> {new_column}",
    )
    return draft, [new_group, start, new_row, new_column]


def _deal(draft: Draft, loops: Sequence[str]) -> Draft:
    """The tiles of each group, one group after the other."""
    return draft.steps(f"deal({', '.join(loops)}, group=4)")


def _tiled(nests: Nests, draft: Draft, form: Form, pairs: Mapping[str, str], tile: Tile) -> Draft:
    i, j, k, g = form.row.word, form.column.word, form.term.word, form.others[0].word
    draft, (group, start, row, column) = _join(nests, draft, form, pairs)
    both = [f"{letter}{word}" for word in (i, j) for letter in "tbwclv"]
    *names, lane = draft.names(*both, f"{k}o", f"{k}i", "lane")
    _, bi, wi, ci, li, vi, _, bj, wj, cj, lj, vj, ko, ki = names
    draft, sizes = size_tiles(draft, tile)
    tm, tn, *_ = sizes
    draft = draft.say(f"A tile has {tm} x {tn} results, and blocks are dealt those of one {g} after those of another.")
    draft = draft.steps(
        *tile_for_warps((row, column, form.term.names[0]), sizes, names),
        f"order({', '.join([group, start, bi, bj, ko, wi, wj, li, lj, ki, ci, vi, cj, vj])})",
        f"warp_threads({wi}, {wj}, {li}, {lj}) -> {lane}",
    )
    draft = _deal(draft, [group, start, bi, bj])
    draft = draft.say("The sums stay in registers, and tiles of both operands in shared memory.")
    draft = draft.steps(f"cache_register({nests.equations[0].target}, at={bj})")
    left, right = used_by(form, vi, vj)
    draft, a = share(nests, draft, form.left, form.row, form.term, f"{ko}{left}", ())
    draft, b = share(nests, draft, form.right, form.column, form.term, f"{ko}{right}", ())
    draft = draft.steps(f"cache_operands({a}, {b}, {ki})", f"walk_columns({ci}, {vi}, {cj}, {vj})")
    return draft.maybe(f"pipeline({ko}, 2)", why="The next tile is copied while this one is multiplied.")
