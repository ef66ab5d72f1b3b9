"""Tiles that are dealt to blocks: the loop over those of a block, by the functions of tiles.cuh and tiles.cl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce

from tilegen.backends.text.lines import under_head
from tilegen.backends.text.names import TILES
from tilegen.backends.text.ragged import begin, ends, last_iteration
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.affine import const
from tilegen.ir.walk import walk
from tilegen.lowering import Launch
from tilegen.lowering.guards.ragged import left_to_test
from tilegen.lowering.launch.program import For, Spmd, names_in
from tilegen.lowering.threads.dealing import loops_between_ends


def describe_tiles(launch: Launch, writer: Writer) -> str:
    """How many there are: matrices, rows and columns, and rows of a group."""
    factors = launch.grid[0].factors if len(launch.grid[0].factors) > 1 else (launch.grid[0].factors[0], const(1))
    matrices, rows, columns = () if launch.ends else factors[:-2], factors[-2], factors[-1]
    counts = [" * ".join(writer.index(factor, 7) for factor in matrices) or "1", *map(writer.index, (rows, columns))]
    if launch.ends and (bounds := launch.ends[-2]):
        counts[1] = last_iteration(bounds, rows, writer)
    if launch.wide:
        counts = [f"(int)({count})" for count in counts]
    return f"{{{', '.join(counts)}, {launch.dealt}}}"


def tile_coordinates(launch: Launch, writer: Writer, tile: str = "tile") -> Iterator[tuple[str, str]]:
    """Each coordinate that is one of a tile, and its value at the place `tile` on the line."""
    names = launch.tiles
    given, first = f"({writer.names.get(TILES)}, {tile})", max(0, len(names) - 2)
    factors = launch.grid[0].factors
    for n, name in enumerate(names):
        if launch.ends and n < first:
            continue
        if n == first or len(names) == 1:
            yield name, f"row_of_tile{given}"
        elif n == first + 1:
            yield name, f"column_of_tile{given}"
        else:
            inner = "".join(f" / {writer.index(factor, 7)}" for factor in reversed(factors[n + 1 : first]))
            yield name, f"matrix_of_tile{given}{inner}{f' % {writer.index(factors[n], 7)}' if n else ''}"


def tile_loop(
    launch: Launch, loop: For, writer: Writer, note: Callable[[str], str], lines: Callable[[Iterable[Spmd]], list[str]]
) -> list[str]:
    """The loop over the tiles of a block, with the coordinates that it speaks of; `lines` writes what is in it."""
    tile, tiles = writer.names[loop.name], writer.names[TILES]
    first, blocks = ("blockIdx.x", "gridDim.x") if writer.dialect is CUDA else ("get_group_id(0)", "get_num_groups(0)")
    used, steps = names_in(walk(loop.body)), {name: step for name, _, step in launch.coordinates}
    integer = writer.dialect.types["i64" if launch.wide else "i32"]
    found = [(name, value) for name, value in tile_coordinates(launch, writer, tile) if name in used]
    rows = [(f"const {integer} {writer.names[name]} = {value};", note(steps[name])) for name, value in found]
    width = max((len(text) for text, _ in rows), default=0)
    declared = [f"{text:{width}}  // {beside}" if beside else text for text, beside in rows]
    outer = loops_between_ends(launch)
    start, count = "" if outer else f"int {tile} = {first}", f"count_tiles({tiles})"
    body = reduce(lambda body, around: left_to_test(replace(around, body=body)), outer, loop.body)
    head = f"for ({start}; {tile} < {count}; {tile} += {blocks})"
    walked = under_head(head, [*declared, "", *lines(body)], braces=True)
    if not outer:
        return walked
    walked = [f"const Tiles {tiles} = {describe_tiles(launch, writer)};", "", *walked, f"{tile} -= {count};"]
    for each in reversed(outer[:-2]):
        beside = f"  // {text}" if (text := note(steps[each.name])) else ""
        if each.ends and each.ends.pick_one:
            walked = [f"const {integer} {writer.names[each.name]} = {begin(each, writer)};{beside}", *walked]
        else:
            head = "; ".join(ends(each, writer))
            walked = under_head(f"for ({integer} {writer.names[each.name]} = {head})", walked, braces=True)
            walked = [f"//{beside.removeprefix('  //')}", *walked] if beside else walked
    return [f"int {tile} = {first};  // counted on from matrix to matrix", "", *walked]
