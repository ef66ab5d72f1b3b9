"""Ragged loops: only the iterations run between the ends that data give, where the terms of all others are neutral.

    for c < N/32                                          for c from start[i]/32 to (start[i + 1] + 31)/32 - 1
      y += select(start[i] <= j < start[i + 1], x[j], 0)    y += select(start[i] <= j < start[i + 1], x[j], 0)
    where j = c*32 + l

All that stands in the loop updates a reduction so, or fills a buffer for one iteration. The text leaves out the tests
that always hold then. A loop over the rows themselves runs from the one that is found to have the first place:

    for g < G                                             for g from the first with start[g + 1] > t while start[g] <= t
      y += select(start[g] <= t < start[g + 1], x[t], 0)    y += select(start[g] <= t < start[g + 1], x[t], 0)

Where the threads of a block meet in the loop, its ends are the same for all of them; where lanes do, for those of a
warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import const
from tilegen.ir.nodes import Buffer, Const, Expr, Kernel, Loop, Node, Op, Stmt
from tilegen.ir.reductions.ragged import (
    Bound,
    Bounds,
    Found,
    bounds_of,
    founds_of,
    is_empty_row,
    only_where,
    sides_of,
    term_of,
    without_tests,
)
from tilegen.ir.reductions.scatter import speaks_of
from tilegen.ir.walk import gathers, leaves, loads, rewrite, rewrite_nodes, stmts, writes
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Declare,
    Flag,
    For,
    If,
    Perform,
    Spmd,
    Start,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    nodes,
    with_lists,
)
from tilegen.lowering.launch.timelines import Arrive, Await, Barrier, Box, Fence

_SHORT = 16  # a compiler writes out shorter loops
_MEETING = (Barrier, Start, Arrive, Await)  # all threads of a block run these


@dataclass(frozen=True)
class Around:
    """What is known where a loop stands: memory, how many threads there are along each coordinate, which of these tell
    the `lanes` apart that run an instruction together, and the loops over `tiles` that are dealt, which all threads of
    a block go through together."""

    kernel: Kernel
    buffers: Mapping[str, Buffer]
    threads: Mapping[str, int]
    lanes: frozenset[str]
    tiles: frozenset[str]
    is_implied: IsImplied


def may_be_ragged(node: Node) -> frozenset[str]:
    """The serial loops of a launch on whose iterations the term of a reduction in them depends."""
    found: set[str] = set()
    for path, stmt in leaves((node,)):
        sides = tuple((side.place, side.value) for side in sides_of(stmt.value)) if stmt.reduce else ()
        found |= {v.name for v in path if v.kind == "serial" and speaks_of(sides, frozenset((v.name,)))}
    return frozenset(found)


def with_ragged(node: Node, names: frozenset[str]) -> Node:
    """`node` with these loops as ragged ones, for who asks what is certain to run."""

    def change(value: object) -> object:
        return replace(value, kind="ragged") if isinstance(value, Loop) and value.name in names else value

    return rewrite_nodes((node,), change)[0]


def run_between_ends(body: tuple[Spmd, ...], around: Around) -> tuple[Spmd, ...]:
    """`body` with its long serial loops ragged where data give their ends. They may run in no iteration."""
    out: list[Spmd] = []
    for node in body:
        node = with_lists(node, lambda inner: run_between_ends(inner, around))
        if isinstance(node, For) and node.kind == "serial" and (bounds := _bounds(node, around)):
            first, end = (
                replace(end, sure=_is_sure(end, upper, node, around)) if isinstance(end, Bound) else end
                for upper, end in ((False, bounds.first), (True, bounds.end))
            )
            node = replace(node, kind="ragged", ends=replace(bounds, first=first, end=end))
        out.append(node)
    return tuple(out)


def _is_sure(bound: Bound, upper: bool, loop: For, around: Around) -> bool:
    condition = bound.has_iteration(upper, loop.extent, around.kernel.rising)
    return condition is not None and around.is_implied(condition, ())


def _bounds(loop: For, around: Around) -> Bounds | None:
    """The ends of a loop; None where data give none, or something in it runs in all iterations."""
    inside, buffers = nodes(loop.body), around.buffers
    inner = {each.name: each.extent for each in inside if isinstance(each, For)}
    names = frozenset((loop.name, *inner))
    if loop.extent.is_const and loop.extent.const <= _SHORT:
        return None
    meet = loop.name in around.tiles or any(isinstance(each, _MEETING) for each in inside)
    lanes = around.lanes if any(isinstance(each, Perform) for each in inside) else frozenset()
    together = {name: count for name, count in around.threads.items() if meet or name in lanes}
    updates = [term for v in inside if (term := _term(v, names, buffers))]
    written = {name for v in inside if isinstance(v, Stmt) for name, _ in writes(v)}
    constant = {name: extent.const for name, extent in inner.items() if extent.is_const}
    constant |= together
    changing = names | together.keys()

    def end(upper: bool) -> Bound | None:
        bounds = [
            {(b.value, b.by, b.more - b.more.const): b for b in bounds_of(v, upper, loop.name, constant)}
            for v in updates
        ]
        for key in bounds[0] if bounds else ():
            read = {load.buffer for load in loads(key[0])} | {gather.buffer for gather in gathers(key[0])}
            if all(key in each for each in bounds) and not speaks_of(key, changing) and read.isdisjoint(written):
                return (max if upper else min)((each[key] for each in bounds), key=lambda b: b.more.const)
        return None

    def found(upper: bool) -> Found | None:
        rising = {name for name, _ in around.kernel.rising} - written
        ends = [
            {(f.element, f.place - f.place.const): f for f in founds_of(v, upper, loop.name, constant, rising)}
            for v in updates
        ]
        for key in ends[0] if ends else ():
            if all(key in each for each in ends) and not speaks_of(key[1], changing):
                return (min if upper else max)((each[key] for each in ends), key=lambda f: f.place.const)
        return None

    high, low = found(True), found(False)
    skips = high and low and _is_next(low, high) and all(is_empty_row(v, low, high) for v in updates)
    bounds = Bounds(high, low, bool(skips)) if high or low else Bounds(end(False), end(True))
    if bounds == Bounds(None, None) or not _may_be_left_out(loop.name, inside, names, buffers):
        return None
    tests = (c for v in inside if isinstance(v, If) for c in v.test if names.isdisjoint(c.value.names()))
    return None if any(bounds.may_need(c, around.kernel.sizes) for c in tests) else bounds


def _term(node: Spmd, names: frozenset[str], buffers: Mapping[str, Buffer]) -> Expr | None:
    """What a node gives to memory that outlives an iteration; None if it gives it nothing."""
    match node:
        case Stmt() if not _is_inside(node.target.buffer, names, buffers):
            return node.value
        case Perform(where=test) if test is not None:
            return _added_where(test)
        case VectorStore(target=to, where=test) | VectorCopy(target=to, where=test) if test:
            return None if _is_inside(to.buffer, names, buffers) else only_where(test, Const(0, node.dtype))
    return None


def _added_where(test: Expr) -> Expr:
    """A term that is something where a test holds."""
    return Op("select", (test, Const(1, "f32"), Const(0, "f32")), "f32")


def _may_be_left_out(loop: str, inside: list[Spmd], names: frozenset[str], buffers: Mapping[str, Buffer]) -> bool:
    """True if all that a loop does is update reductions and fill buffers that live in it.

    Args:
        inside: its nodes; `names` are its own name and those of the loops in it.
    """
    for node in inside:
        match node:
            case Perform(origin=nest, where=None) if not _fills_inside(nest, names, buffers):
                return False
            case Stmt() if not node.reduce and not _is_inside(node.target.buffer, names, buffers):
                return False
            case VectorStore(target=to) | VectorCopy(target=to) if not (
                node.where or _is_inside(to.buffer, names, buffers)
            ):
                return False
            case For(kind="serial" | "unrolled" | "vector" | "ragged") | If() | Flag() | Stmt() | Declare():
                pass
            case VectorLoad() | VectorDeclare() | VectorStore() | VectorCopy(asynchronous=False):
                pass
            case Start() | Arrive() | Await() if not node.number.names().isdisjoint((loop,)):
                return False  # it is counted from the first iteration of the loop on
            case Box() | Barrier() | Start() | Arrive() | Await() | Fence() | Perform():
                pass
            case _:
                return False
    return True


def _fills_inside(nest: Loop, names: frozenset[str], buffers: Mapping[str, Buffer]) -> bool:
    """True of an instruction that writes what lives for an iteration."""
    return all(_is_inside(stmt.target.buffer, names, buffers) for stmt in stmts((nest,)))


def _is_next(low: Found, high: Found) -> bool:
    """True if the two are neighbours in one row, beside a place that is the same in all iterations."""
    (one,), (two,) = low.element.index, high.element.index
    return (low.element.buffer, two - one) == (high.element.buffer, const(1))


def _is_inside(buffer: str, names: frozenset[str], buffers: Mapping[str, Buffer]) -> bool:
    """True of a buffer that lives for an iteration, and of a variable that holds a vector."""
    return buffer not in buffers or buffers[buffer].scope in names


def without_wrapping(launch: Launch) -> Launch:
    """`launch` with whole loops where indices of 64 bits may wrap when they are compared with data of 32."""

    def change(value: object) -> object:
        if not isinstance(value, For) or not value.ends:
            return value
        ends = (value.ends.first, value.ends.end)
        wrap = any(isinstance(b, Bound) and not b.sure and b.value.dtype != "i64" for b in ends)
        return replace(value, kind="serial", ends=None) if wrap else value

    return replace(launch, body=rewrite(launch.body, change)) if launch.wide else launch


def left_to_test(loop: For) -> tuple[Spmd, ...]:
    """The body of a ragged loop without the tests that hold in each iteration that runs."""
    inner = {v.name: v.extent.const for v in nodes(loop.body) if isinstance(v, For) and v.extent.is_const}
    every = (loop.ends.first, loop.ends.end) if loop.ends else ()
    ends = [replace(bound, sure=False) for bound in every if isinstance(bound, Bound)]

    def change(value: object) -> object:
        if isinstance(value, VectorStore | VectorCopy) and value.where:
            left = term_of(without_met(only_where(value.where, Const(0, value.dtype))))
            return replace(value, where=left[0] if left else None)
        if isinstance(value, Perform) and value.where is not None:
            kept = without_met(_added_where(value.where))
            return replace(value, where=kept.args[0] if isinstance(kept, Op) else None)
        if not isinstance(value, Stmt):
            return value
        new = without_met(value.value)
        return value if new is value.value else replace(value, value=new)

    def without_met(value: Expr) -> Expr:
        sides = (side for side in sides_of(value) if side.place.names().isdisjoint(inner))
        return without_tests(value, frozenset(side.test for side in sides if side.bound(loop.name, {}) in ends))

    return rewrite(loop.body, change)
