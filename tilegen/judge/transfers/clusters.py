"""Clusters: blocks that run at once can share the bulk copies that are the same for all of them.

Theorem: each block of a cluster may copy a share of a box to all of them, instead of the whole box to itself, if

- the blocks are the iterations of a loop which is the last one of its axis of the grid, at most 8 of them: they are
  neighbours there, and the grid is a whole number of clusters;
- in all iterations of that loop the same elements of the tensor go to the same places of the buffer;
- the shares are boxes again, put where a box can be, and have all of the elements together.

When each of them may be written, and when all have arrived, is up to the barriers of the producers, which are derived.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.limits import BOX_PLACE, CLUSTER_LIMIT, SWIZZLED_PLACE
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, Buffer, Loop, Node
from tilegen.ir.walk import loops
from tilegen.judge.transfers.bulk import BoxCopy, boxes_in
from tilegen.poly.instances import Projection, Use
from tilegen.poly.rows import rename
from tilegen.poly.system import example, find_difference
from tilegen.poly.verdict import NoForm, Refused, Words


def check_clusters(program: Projection) -> None:
    """Refused where blocks share copies that are not the same for all of them, or are no cluster."""
    for launch in program.tree.body:
        boxes = [(path, box) for path, box in boxes_in(launch, program.buffers) if box.multicast]
        names = tuple(dict.fromkeys(box.multicast for _, box in boxes))
        if len(names) > 1:
            raise NoForm(
                f"copies are shared by the blocks of '{names[0]}' and by those of '{names[1]}'",
                way="the blocks of a launch form clusters in one way",
            )
        for path, box in boxes:
            blocks = _check_blocks(launch, path, box)
            _check_same(program, box)
            if share_of(box, blocks, program.buffers[box.tensor]) is None:
                raise NoForm(
                    f"a box of '{box.target}' has {_in_words(box.extents)} elements, and {blocks} blocks cannot copy "
                    "equal shares of it",
                    way=f"make '{box.multicast}' as long as a number that divides its rows, 8 at a time where they are "
                    "swizzled",
                )


def _in_words(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, reversed(extents)))


def _check_blocks(launch: Node, path: tuple[Loop, ...], box: BoxCopy) -> int:
    """How many blocks a cluster has, which are the iterations of a loop around the copy."""
    name = box.multicast
    blocks = next((each for each in path if each.name == name and each.kind in BLOCK_KINDS), None)
    if blocks is None:
        message = f"'{box.target}' is shared by the blocks of '{name}', and is in no loop of blocks of that name"
        raise NoForm(message, way="put multicast after the steps that change these loops")
    if not blocks.extent.is_const or not 2 <= blocks.extent.const <= CLUSTER_LIMIT:
        raise NoForm(
            f"'{name}' has {blocks.extent} iterations, and a cluster has 2 to {CLUSTER_LIMIT} blocks",
            way=f"tile({name}, 2), before bind, makes a loop of 2, which can be bound to {blocks.kind}, too",
        )
    last = [each.name for each in loops(launch) if each.kind == blocks.kind][-1]
    if last != name:
        raise NoForm(
            f"'{last}' is inside '{name}' and bound to {blocks.kind}, too: the blocks of '{name}' are no neighbours",
            way=f"order the loops so that '{last}' is outside of '{name}'",
        )
    return blocks.extent.const


def _check_same(program: Projection, box: BoxCopy) -> None:
    """The same elements go to the same places, in all iterations of the loop of blocks."""
    leaf = next(p.leaf for p in program.leaves if p.leaf.stmt is box.stmt)
    shared = frozenset(leaf.names) - {box.multicast}
    second = leaf.primed_names(shared)
    rows = program.original.context + leaf.ranges + rename(leaf.ranges, second)
    for use in leaf.uses:
        forms = use.forms
        found = find_difference(rows, forms, tuple(form.rename(second) for form in forms))
        if found is not None:
            names = [*program.kernel.symbols, *leaf.names]
            inside = example(found + leaf.domain + rename(leaf.domain, second), names)
            point = inside or example(found, names) or {}
            raise _differ(Words(program.original, point, shared), box, use)


def _differ(words: Words, box: BoxCopy, use: Use) -> Refused:
    """That two blocks copy other elements, or copy them to other places."""
    name, copied = box.multicast, "goes to" if use.writes else "is"
    points = sorted((words.at(name, second), words.element(use, second)) for second in (False, True))
    (one, here), (two, there) = points
    return NoForm(
        f"the blocks of '{name}' do not copy the same to '{box.target}'",
        f"what is copied {copied} {here} at {name}={one}, and {there} at {name}={two}{words.sizes}",
        f"share what does not depend on '{name}'",
    )


def share_of(box: BoxCopy, blocks: int, tensor: Buffer) -> BoxCopy | None:
    """The copies of one of a number of blocks, whose number is the loop's; None where there are no equal shares.

    A share is a part of the outermost loop around the box that can be cut so, or of the box's rows.
    """
    for number, loop in enumerate(box.outside):
        if loop.extent.is_const and loop.extent.const % blocks == 0:
            each = loop.extent.const // blocks
            outside = (*box.outside[:number], replace(loop, extent=const(each)), *box.outside[number + 1 :])
            return _at_share(replace(box, outside=outside), loop.name, each)
    slowest = max((n for n, extent in enumerate(box.extents) if extent > 1), default=0)
    index = box.index[tuple(reversed(tensor.order))[slowest]]
    weight, name = max(((index.coefficient(name), name) for name in box.inside), default=(0, ""))
    if weight < 1 or box.extents[slowest] // weight % blocks:
        return None
    extents = (*box.extents[:slowest], box.extents[slowest] // blocks, *box.extents[slowest + 1 :])
    if prod(extents) * DTYPE_BYTES[tensor.dtype] % (SWIZZLED_PLACE if box.swizzle else BOX_PLACE):
        return None
    return _at_share(replace(box, extents=extents), name, box.extents[slowest] // weight // blocks)


def _at_share(box: BoxCopy, loop: str, each: int) -> BoxCopy:
    """The copy with a number of iterations of the loop, counted on from one block to the next."""

    def move(index: tuple[Affine, ...]) -> tuple[Affine, ...]:
        return tuple(i.substitute({loop: var(loop) + var(box.multicast) * each}) for i in index)

    element = box.stmt.element
    stmt = replace(box.stmt, element=element and move(element))
    return replace(box, index=move(box.index), place=move(box.place), stmt=stmt)
