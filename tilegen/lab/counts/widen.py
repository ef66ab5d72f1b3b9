"""Scalar loads of neighbours in shared memory, which a compiler makes one load."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Buffer
from tilegen.lab.counts.sites import Site

_WIDEST = 16  # bytes of one access


def widen(site: Site, memory: Buffer) -> Site:
    """`site` as a compiler makes it: scalar loads of shared memory that the innermost loop makes of neighbours become
    one load of 8 or 16 bytes, where that is aligned. Others stay what they are."""
    if site.store or site.width > 1 or memory.space != "shared" or not memory.order:
        return site
    *rows, fastest = (site.index[dim] for dim in memory.order)
    pitch = memory.shape[memory.order[-1]].const + memory.pad
    for place in range(len(site.loops) - 1, -1, -1):
        loop = site.loops[place]
        # A compiler unrolls the innermost loop of constant extent by itself, and no loop around it.
        serial = [each for each in site.loops[place:] if each.kind == "serial"]
        if len(serial) > 1 or not loop.extent.is_const:
            break
        along = fastest.linear_in(loop.name) and fastest.coefficient(loop.name) == 1
        if not along or any(loop.name in row.names() for row in rows):
            continue
        for width in (4, 2):
            rest = fastest - var(loop.name)
            aligned = rest % width == const(0) and (not rows or pitch % width == 0)
            aligned = aligned and (memory.swizzle is None or memory.swizzle.keeps(width))
            if aligned and loop.extent.const % width == 0 and width * site.bytes <= _WIDEST:
                shorter = replace(loop, extent=const(loop.extent.const // width))
                index = tuple(i.substitute({loop.name: var(loop.name) * width}) for i in site.index)
                loops = (*site.loops[:place], shorter, *site.loops[place + 1 :])
                return replace(site, index=index, width=width, bytes=width * site.bytes, loops=loops)
    return site
