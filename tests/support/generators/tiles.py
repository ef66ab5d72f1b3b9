"""Random steps that store tensors in whole tiles, as texts."""

from __future__ import annotations

from tilegen.ir.walk import loads


def whole_tiles(pick, rank, sizes):
    """Now and then whole tiles for a copy in global memory."""
    return pick(["", f", tiles=[{', '.join(str(pick(sizes)) for _ in range(rank))}]"])


def in_whole_tiles(pick, tree, equation, tiles):
    """The inputs copied in the tiles of the loops that run over them, where each dimension has one."""
    for load in {x.buffer: x for x in loads(equation.value)}.values():
        known = [tiles.get(str(i)) for i in load.index]
        if None not in known and pick([True, True, False]):
            order = pick([list(range(len(known))), list(range(len(known)))[::-1]])
            layout, sizes = (", ".join(str(x) for x in found) for found in (order, [known[d] for d in order]))
            tree = yield f"cache_global({load.buffer}, layout=[{layout}], tiles=[{sizes}])"
    return tree


def sources(tree):
    """The inputs, those that have been copied as their copies."""
    copied = {b.copy_of for b in tree.buffers if b.name.endswith(".global")}
    return [b.name for b in tree.buffers if (b.role == "input" or b.name.endswith(".global")) and b.name not in copied]
