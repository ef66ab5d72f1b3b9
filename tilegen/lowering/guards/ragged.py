"""Ragged loops: only the iterations run between the ends that data tell, where the terms of all others are neutral.

    for c < N/32                                          for c from start[i]/32 to (start[i + 1] + 31)/32 - 1
      y += select(start[i] <= j < start[i + 1], x[j], 0)    y += select(start[i] <= j < start[i + 1], x[j], 0)
    where j = c*32 + l

All that stands in the loop updates a reduction so, or fills a buffer for one iteration. The text leaves out the tests
that always hold then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tilegen.ir.nodes import Buffer, Kernel, Loop, Stmt
from tilegen.ir.ragged import Bound, Bounds, bounds_of, sides_of, without_tests
from tilegen.ir.scatter import speaks_of
from tilegen.ir.walk import gathers, loads, rewrite, stmts, writes
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.launch.program import (
    Declare,
    Flag,
    For,
    If,
    Launch,
    Perform,
    Spmd,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    nodes,
    with_lists,
)

_SHORT = 16  # a compiler writes out shorter loops


def run_between_ends(
    body: tuple[Spmd, ...],
    buffers: Mapping[str, Buffer],
    kernel: Kernel,
    threads: Collection[str],
    is_implied: IsImplied,
) -> tuple[Spmd, ...]:
    """`body` with its long serial loops ragged where data tell their ends.

    Threads wait for each other in none of these. Lanes run an instruction together in those whose ends are the same
    for all threads: of `threads`, what tells these apart, they do not speak.
    """
    out: list[Spmd] = []
    for node in body:
        node = with_lists(node, lambda inner: run_between_ends(inner, buffers, kernel, threads, is_implied))
        if isinstance(node, For) and node.kind == "serial" and (bounds := _bounds(node, buffers, kernel, threads)):
            first = bounds.first and replace(bounds.first, sure=_is_sure(bounds.first, False, node, kernel, is_implied))
            end = bounds.end and replace(bounds.end, sure=_is_sure(bounds.end, True, node, kernel, is_implied))
            node = replace(node, kind="ragged", ends=Bounds(first, end))
        out.append(node)
    return tuple(out)


def _is_sure(bound: Bound, upper: bool, loop: For, kernel: Kernel, is_implied: IsImplied) -> bool:
    condition = bound.has_iteration(upper, loop.extent, kernel.rising)
    return condition is not None and is_implied(condition, ())


def _bounds(loop: For, buffers: Mapping[str, Buffer], kernel: Kernel, threads: Collection[str]) -> Bounds | None:
    """The ends of a loop; None where data tell none, or something in it runs in all iterations."""
    inside = nodes(loop.body)
    inner = {each.name: each.extent for each in inside if isinstance(each, For)}
    names = frozenset((loop.name, *inner))
    if loop.extent.is_const and loop.extent.const <= _SHORT:
        return None
    updates = [v for v in inside if isinstance(v, Stmt) and not _is_inside(v.target.buffer, names, buffers)]
    written = {name for v in inside if isinstance(v, Stmt) for name, _ in writes(v)}
    constant = {name: extent.const for name, extent in inner.items() if extent.is_const}

    def end(upper: bool) -> Bound | None:
        mine = [
            {(b.value, b.by, b.more - b.more.const): b for b in bounds_of(v.value, upper, loop.name, constant)}
            for v in updates
        ]
        for key in mine[0] if mine else ():
            read = {load.buffer for load in loads(key[0])} | {gather.buffer for gather in gathers(key[0])}
            if all(key in each for each in mine) and not speaks_of(key, names) and read.isdisjoint(written):
                return (max if upper else min)((each[key] for each in mine), key=lambda b: b.more.const)
        return None

    bounds = Bounds(end(False), end(True))
    if bounds == Bounds(None, None) or any(
        isinstance(v, If)
        and any(names.isdisjoint(c.value.names()) and bounds.may_need(c, kernel.sizes) for c in v.test)
        for v in inside
    ):
        return None
    return bounds if _may_be_left_out(inside, names, buffers, bounds.names.isdisjoint(threads)) else None


def _may_be_left_out(inside: list[Spmd], names: frozenset[str], buffers: Mapping[str, Buffer], together: bool) -> bool:
    """True if all that a loop does is update reductions and fill buffers that live in it.

    Args:
        inside: its nodes; `names` are its own name and those of the loops in it.
        together: whether all threads run the same iterations.
    """
    for node in inside:
        match node:
            case Perform(origin=nest) if together and _fills_inside(nest, names, buffers):
                pass
            case Stmt() if not node.reduce and not _is_inside(node.target.buffer, names, buffers):
                return False
            case VectorStore(target=to) | VectorCopy(target=to) if not _is_inside(to.buffer, names, buffers):
                return False
            case For(kind="serial" | "unrolled" | "vector" | "ragged") | If() | Flag() | Stmt() | Declare():
                pass
            case VectorLoad() | VectorDeclare() | VectorStore() | VectorCopy(asynchronous=False):
                pass
            case _:
                return False
    return True


def _fills_inside(nest: Loop, names: frozenset[str], buffers: Mapping[str, Buffer]) -> bool:
    """True of an instruction that writes what lives for an iteration."""
    return all(_is_inside(stmt.target.buffer, names, buffers) for stmt in stmts((nest,)))


def _is_inside(buffer: str, names: frozenset[str], buffers: Mapping[str, Buffer]) -> bool:
    """True of a buffer that lives for an iteration, and of a variable that holds a vector."""
    return buffer not in buffers or buffers[buffer].scope in names


def without_wrapping(launch: Launch) -> Launch:
    """`launch` with whole loops where indices of 64 bits may wrap when they are compared with data of 32."""

    def change(value: object) -> object:
        if not isinstance(value, For) or not value.ends:
            return value
        wrap = any(b and not b.sure and b.value.dtype != "i64" for b in (value.ends.first, value.ends.end))
        return replace(value, kind="serial", ends=None) if wrap else value

    return replace(launch, body=rewrite(launch.body, change)) if launch.wide else launch


def left_to_test(loop: For) -> tuple[Spmd, ...]:
    """The body of a ragged loop without the tests that hold in each iteration that runs."""
    inner = {v.name: v.extent.const for v in nodes(loop.body) if isinstance(v, For) and v.extent.is_const}
    ends = [replace(bound, sure=False) for bound in (loop.ends.first, loop.ends.end) if bound] if loop.ends else []

    def change(value: object) -> object:
        if not isinstance(value, Stmt):
            return value
        met = frozenset(
            side.test
            for side in sides_of(value.value)
            if side.place.names().isdisjoint(inner) and side.bound(loop.name, {}) in ends
        )
        new = without_tests(value.value, met)
        return value if new is value.value else replace(value, value=new)

    return rewrite(loop.body, change)
