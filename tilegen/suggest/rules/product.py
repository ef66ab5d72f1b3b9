"""Reductions of two operands, each of which serves many results: matrix products of all forms, distances, and the like.

A block computes a tile of results, and both operands pass through shared memory in tiles along the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

from tilegen.errors import TilegenError
from tilegen.ir.nodes import DTYPE_BYTES, Equation, Gather, Load, Op
from tilegen.ir.walk import loads, walk
from tilegen.lab.predict.machine import Machine
from tilegen.primitives.rewriting.layout import dimension_words
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, fuse_rows, keep_results, shared_copy
from tilegen.suggest.nests import Axis, Nests, storage_order

SHORT = 8  # terms of a sum for which no tiles are worth their while


@dataclass(frozen=True)
class Form:
    """`row` and `column` are the axes that a tile of results has, the column along memory; `term` that of the sum.

    `left` is the operand that does not depend on the column, `right` the one that does not depend on the row; `others`
    are axes of results that blocks go over, and `outer` further ones of the sum.
    """

    left: Load
    right: Load
    row: Axis
    column: Axis
    term: Axis
    others: tuple[Axis, ...]
    outer: tuple[Axis, ...]


def form_of(nests: Nests) -> Form | None:
    """The product that the first equation is, if the others keep its axes; None for anything else."""
    first = nests.equations[0]
    if first.reduce not in ("sum", "max", "min", "prod") or not follows_first(nests):
        return None
    factors = _factors(first)
    kept = nests.rows
    if factors is None:
        return None
    written = next(a for a in nests.accesses if a.written and a.equation == len(nests.equations) - 1)
    column = next((axis for axis in kept if nests.fastest(written) in axis.names), None)
    for left, right in (factors, factors[::-1]):
        if column is None or _uses(left, column) or not _uses(right, column):
            continue
        rows = [axis for axis in kept if _uses(left, axis) and not _uses(right, axis)]
        terms = [axis for axis in storage_order(nests, nests.columns) if _uses(left, axis) and _uses(right, axis)]
        if not rows or not terms:
            return None
        row = max(rows, key=lambda axis: axis.extent)
        term = max(reversed(terms), key=lambda axis: axis.extent)
        if not _is_plain(left, row, term) or not _is_plain(right, column, term):
            return None
        others = tuple(axis for axis in storage_order(nests, kept) if axis not in (row, column))
        return Form(left, right, row, column, term, others, tuple(a for a in nests.columns if a is not term))
    return None


def follows_first(nests: Nests) -> bool:
    """True if all equations after the first have its results as their points, without sums of their own."""
    first, *behind = nests.equations
    plain = not any(e.reduce or e.conditions for e in behind)
    return plain and len(nests.rows) == len(first.loops) and len(nests.columns) == len(first.reduced)


def _factors(equation: Equation) -> tuple[Load, Load] | None:
    """The two elements of which a term is made, as by a product or by the square of their difference.

    There may be others that all terms of a result have in common, as the maximum in exp(P[i, j] - m[i]) * V[j, d], or
    all results of a term, as the weight in A[i, k] * w[k] * B[k, j].
    """
    terms = {r.name for r in equation.reduced}
    parts = dict.fromkeys(part for part in walk(equation.value) if isinstance(part, Load | Gather))
    found = [part for part in parts if isinstance(part, Gather) or any(i.names() & terms for i in part.index)]
    if len(found) > 2:
        found = [p for p in found if isinstance(p, Gather) or any(i.names() - terms for i in p.index)]
    left, right = found if len(found) == 2 else (None, None)
    return (left, right) if isinstance(left, Load) and isinstance(right, Load) else None


def _uses(load: Load, axis: Axis) -> bool:
    return any(loop in index.names() for index in load.index for loop in axis.names)


def _is_plain(load: Load, *axes: Axis) -> bool:
    """True if each of these axes moves one index, by one."""
    moved = [[index for index in load.index if index.names() & {*axis.names}] for axis in axes]
    weights = [
        [weight for atom, weight in i.terms if atom in axis.names] for axis, (i, *_) in zip(axes, moved, strict=True)
    ]
    return load.fallback is None and all(len(found) == 1 for found in moved) and weights == [[1]] * len(axes)


def is_product(nests: Nests) -> bool:
    """True of a product whose operands are used by enough results, in sums that are long enough."""
    form = form_of(nests)
    return form is not None and form.term.extent >= SHORT and form.row.extent >= 8 and form.column.extent >= 16


@dataclass(frozen=True)
class Tile:
    """Rows and columns of results, and warps along both."""

    rows: int
    columns: int
    warps_down: int
    warps_along: int


TILES = (
    Tile(128, 256, 4, 2),
    Tile(128, 128, 2, 2),
    Tile(64, 128, 2, 2),
    Tile(64, 64, 1, 2),
    Tile(32, 64, 1, 1),
    Tile(64, 32, 1, 1),
)


def tiles_for(form: Form, machine: Machine) -> list[Tile]:
    """The one that keeps all multiprocessors busy with the least work first; large tiles read less of each operand."""

    def cost(tile: Tile) -> float:
        blocks = -(-form.row.extent // tile.rows) * -(-form.column.extent // tile.columns)
        rounds = -(-blocks * prod(axis.extent for axis in form.others) // machine.sms)
        return rounds * tile.rows * tile.columns * (1 + 8 / tile.rows + 8 / tile.columns)

    return sorted(TILES, key=cost)


def product(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Tiles of results in registers, operands through shared memory, copied before their use."""
    form = form_of(nests)
    assert form
    for tile in tiles_for(form, machine):
        for copied in dict.fromkeys((_to_copy(nests, form), ())):
            with suppress(TilegenError):
                yield _tiled(nests, draft, form, _for_functions(nests, form, tile), copied)
                return


def _for_functions(nests: Nests, form: Form, tile: Tile) -> Tile:
    """The tile with its warps down alone where rows are functions of what is read, as in exp(P[i, j] - m[i]) * V[j, d].

    A thread has the more columns then, which such a value serves; and the other way round.
    """
    calls = [op for op in walk(nests.equations[0].value) if isinstance(op, Op) and op.name[0].isalpha()]
    rows, columns = (any(load in loads(op) for op in calls) for load in (form.left, form.right))
    warps = tile.warps_down * tile.warps_along
    if rows and not columns and tile.rows % (16 * warps) == 0:
        return replace(tile, warps_down=warps, warps_along=1)
    if columns and not rows and tile.columns % (32 * warps) == 0:
        return replace(tile, warps_down=1, warps_along=warps)
    return tile


def _to_copy(nests: Nests, form: Form) -> tuple[Load, ...]:
    """What enough results use for a copy to pay: both matrices where vectors do not divide their rows, or a turned one.

    Turned is the right operand if it is stored along the sum: its tiles are the wider ones.
    """
    operands = (form.left, form.right)
    rows = [nests.tensor(load.buffer).shape[nests.tensor(load.buffer).order[-1]] for load in operands]
    matrices = all(len(load.index) == 2 for load in operands) and form.left.buffer != form.right.buffer
    plain = not form.outer and not nests.equations[0].conditions and form.term.extent < 2**18  # of blocks in a grid
    if matrices and plain and min(form.row.extent, form.column.extent) >= 1024:
        if any(extent.evaluate(nests.sizes) % 4 for extent in rows):
            return operands
        if form.row.extent >= 2048 and _is_along(nests, form.right, form.term):
            return operands[1:]
    return ()


def _is_along(nests: Nests, load: Load, axis: Axis) -> bool:
    """True if what is loaded is stored along an axis."""
    return bool(load.index[nests.tensor(load.buffer).order[-1]].names() & {*axis.names})


def _tiled(nests: Nests, draft: Draft, form: Form, tile: Tile, copied: tuple[Load, ...]) -> Draft:
    i, j, k = form.row.word, form.column.word, form.term.word
    if len(nests.equations) > 1:
        draft = draft.say("What follows the product is computed in its loops, from the sums in registers.")
    draft, names = fuse_rows(draft, nests, [*form.others, form.row, form.column])
    *others, row, column = names
    term, outer = form.term.names[0], [axis.names[0] for axis in form.outer]
    draft, sizes = size_tiles(draft, tile)
    tm, tn, *_ = sizes
    draft = _copied(nests, draft, form, copied, (tm, tn))
    both = [f"{letter}{word}" for word in (i, j) for letter in "tbwclv"]
    *names_of_tiles, lane = draft.names(*both, f"{k}o", f"{k}i", "lane")
    _, bi, wi, ci, li, vi, _, bj, wj, cj, lj, vj, ko, ki = names_of_tiles
    draft = draft.say(
        f"A block computes {tm} x {tn} results: an element of {form.left.buffer} serves {tn} of them, one of "
        f"{form.right.buffer} {tm}. Warps share the tile, and a thread has results in groups of 4 x 4."
    )
    draft = draft.steps(
        *tile_for_warps((row, column, term), sizes, names_of_tiles),
        f"order({', '.join([*others, bi, bj, *outer, ko, wi, wj, li, lj, ki, ci, vi, cj, vj])})",
        f"warp_threads({wi}, {wj}, {li}, {lj}) -> {lane}",
    )
    draft = bind_blocks(draft, [*others, bi, bj]).say("The sums stay in registers, and leave as vectors.")
    draft = keep_results(nests, draft, bj, 4)
    draft = draft.say(
        "Tiles of both operands lie in shared memory as they are read: with the results along their rows."
    )
    left, right = used_by(form, vi, vj)
    draft, a = share(nests, draft, form.left, form.row, form.term, f"{ko}{left}", copied)
    draft, b = share(nests, draft, form.right, form.column, form.term, f"{ko}{right}", copied)
    draft = draft.steps(f"cache_operands({a}, {b}, {ki})", f"walk_columns({ci}, {vi}, {cj}, {vj})")
    draft = draft.say("The next tile is copied while this one is multiplied, and operands are loaded one step ahead.")
    ahead = [f"pipeline({ko}, 2)", f"pipeline({ki}, 2, across={ko})", f"peel({ko})"]
    last = [] if nests.equations[0].conditions else [ahead]  # a tile that has no terms is left out
    return draft.first(*last, [*ahead[:1], f"pipeline({ki}, 2)"], ahead[:1], [])


def size_tiles(draft: Draft, tile: Tile) -> tuple[Draft, list[str]]:
    """With the sizes of tiles in the head: rows, columns and terms, warps down and along; and their names."""
    numbers = {
        "TM": (tile.rows, (64, 128, 256)),
        "TN": (tile.columns, (64, 128, 256)),
        "TK": (8, (8, 16)),
        "WI": (tile.warps_down, (1, 2, 4)),
        "WJ": (tile.warps_along, (1, 2, 4)),
    }
    names = list[str]()
    for wanted, (value, candidates) in numbers.items():
        draft, name = draft.number(wanted, value, candidates)
        names.append(name)
    tm, tn, _, down, along = names
    draft = draft.where(f"{tm} % (16 * {down}) == 0", f"{tn} % (32 * {along}) == 0")
    return draft.where(f"512 * {down} * {along} <= {tm} * {tn} <= 4096 * {down} * {along}"), names


def tile_for_warps(loops: tuple[str, str, str], sizes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Steps that tile rows, columns and terms, and share a tile of rows and columns among warps.

    Args:
        names: of rows, then of columns, the loops in a tile, over tiles, and the four of `warp_tile`; of terms those
            over tiles and in one.
    """
    (row, column, term), (tm, tn, tk, down, along) = loops, sizes
    ti, bi, wi, ci, li, vi, tj, bj, wj, cj, lj, vj, ko, ki = names
    return [
        f"tile({row}, {tm}) -> {bi}, {ti}",
        f"tile({column}, {tn}) -> {bj}, {tj}",
        f"tile({term}, {tk}) -> {ko}, {ki}",
        f"warp_tile({ti}, {down}, 4) -> {wi}, {ci}, {li}, {vi}",
        f"warp_tile({tj}, {along}, 8) -> {wj}, {cj}, {lj}, {vj}",
    ]


def _copied(nests: Nests, draft: Draft, form: Form, copied: tuple[Load, ...], sizes: tuple[str, str]) -> Draft:
    """These operands with the results along their rows, by launches of their own; in whole tiles, if they are both."""
    whole = len(copied) > 1
    if whole:
        draft = draft.say("Rows that vectors do not divide: copies are whole tiles, zero beyond the tensors.")
        draft = draft.steps(f"round_up({form.term.names[0]}, 32)")
    elif copied:
        draft = draft.say(f"{form.right.buffer} is turned first, with the results along its rows.")
    for load, axis, size in zip((form.left, form.right), (form.row, form.column), sizes, strict=True):
        if load in copied:
            term, own = _words(draft, load, form.term, axis)
            name, tiles = load.buffer, f", tiles=[32, {size}]" if whole else ""
            draft = draft.steps(f"cache_global({name}, layout=[{term}, {own}]{tiles})")
            taken = (f"p{own}", f"q{own}", f"p{term}", f"r{term}", f"q{term}")
            rows, r, columns, over, c = draft.names(*taken)
            loops = f"{name}.global.{own}, {name}.global.{term}"
            if _is_along(nests, load, form.term):
                draft = draft.steps(
                    f"transpose_tiles({name}, {name}.shared, {loops}) -> {rows}, {r}, {columns}, {over}, {c}"
                )
            else:
                loops = f"{name}.global.{term}, {name}.global.{own}"
                draft = draft.steps(f"copy_rows({name}, {loops}) -> {columns}, {c}, {rows}, {r}")
    return draft


def _words(draft: Draft, load: Load, *axes: Axis) -> list[str]:
    """What steps call the dimensions of what is loaded that these axes move."""
    words = dimension_words(draft.tree, draft.tree.buffer(load.buffer))
    return [w for axis in axes for w, i in zip(words, load.index, strict=True) if i.names() & {*axis.names}]


def share_operands(
    draft: Draft, form: Form, at: str, used: tuple[str, str], right: str = ""
) -> tuple[Draft, tuple[str, str]]:
    """Tiles of both operands in shared memory, by 16 bytes, and their names.

    Args:
        used: a loop of rows and one of columns: what tells the copies apart where both operands are of one tensor.
        right: what else is said of the copy of the right one.
    """
    names = []
    for load, using, more in zip((form.left, form.right), used_by(form, *used), ("", right), strict=True):
        name, naming = shared_copy(draft, load.buffer)
        vector = 16 // DTYPE_BYTES[load.dtype]
        draft = draft.steps(f"cache_shared({load.buffer}, at={at}{using}, vector={vector}{more}){naming}")
        names.append(name)
    return draft, (names[0], names[1])


def used_by(form: Form, row: str, column: str) -> tuple[str, str]:
    """What says of a copy of either operand which loops use it, where both are of one tensor."""
    return (f", using=[{row}]", f", using=[{column}]") if form.left.buffer == form.right.buffer else ("", "")


def share(
    nests: Nests, draft: Draft, load: Load, axis: Axis, term: Axis, at: str, copied: tuple[Load, ...]
) -> tuple[Draft, str]:
    """A tile of an operand in shared memory, with `axis` along its rows; and its name."""
    if load in copied:
        return draft.steps(f"cache_shared({load.buffer}.global, at={at}, vector=4)"), f"{load.buffer}.global.shared"
    order = nests.tensor(load.buffer).order
    fastest = load.index[order[-1]].names()
    name, naming = shared_copy(draft, load.buffer)
    copy = f"cache_shared({load.buffer}, at={at}"
    if fastest & {*axis.names}:
        return draft.first([f"{copy}, vector=4){naming}"], [f"{copy}){naming}"]), name
    if fastest & {*term.names}:
        moved = _words(draft, load, term, axis)
        draft = draft.steps(f"{copy}, layout=[{', '.join(moved)}]){naming}")
        return draft.maybe(f"pad({name}, 4)"), name
    return draft.steps(f"{copy}){naming}"), name
