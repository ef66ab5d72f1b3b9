"""Ragged loops: outside of the ends that data tell, the iterations of a loop do nothing.

Theorem: let each statement in the loop update a reduction with `select(e <= j and j < f, term, neutral)`, where j is
affine in the loop and those inside it, and e and f are computed from what the loop does not write and no loop inside
changes; or let it write what lives for an iteration. j grows with the loop. So before the first iteration in which j
may be e, over all iterations of the loops inside, and from the one on in which it is f or more, every term is neutral:
running those between is running the loop. The ends are computed once, so that what they read has to be inside of its
buffer wherever the loop is reached.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.initial import init_value
from tilegen.ir.nodes import Condition, Const, Loop, Op, Stmt
from tilegen.ir.ragged import Bound, Bounds, bounds_of
from tilegen.ir.scatter import speaks_of
from tilegen.ir.walk import gathers, leaves, loads, writes
from tilegen.judge.bounds import check_reads
from tilegen.poly.instances import Leaf, Projection
from tilegen.poly.system import rows_of, solvable
from tilegen.poly.verdict import Refused


def check_ragged(program: Projection) -> None:
    """Refused where an iteration that does not run may do something."""
    every = [*leaves(program.tree.body)]
    for path, stmt in every:
        for depth, loop in enumerate(path):
            if loop.kind == "ragged" and loop.ends:
                ends = [(b, upper) for b, upper in ((loop.ends.first, False), (loop.ends.end, True)) if b]
                _check_statement(program, path, depth, stmt, ends)
                written = {name for other, s in every if loop in other for name, _ in writes(s)}
                ahead = _ahead(program, path, depth, stmt, loop.ends)
                for end, upper in ends:
                    _check_end(program, path, depth, ahead, end, written)
                    _check_sure(program, path[depth], ahead, end, upper)


def _check_statement(
    program: Projection, path: tuple[Loop, ...], depth: int, stmt: Stmt, ends: list[tuple[Bound, bool]]
) -> None:
    """Refused where the statement may do something in an iteration of the loop at this depth that does not run."""
    name, inside = path[depth].name, {inner.name for inner in path[depth:]}
    if all(program.buffers[buffer].scope in inside for buffer, _ in writes(stmt)):
        return
    match stmt.value:
        case Op("select", (_, _, Const() as rest)) if stmt.reduce and not stmt.hits:
            neutral = rest == init_value(stmt.reduce, rest.dtype)
        case _:
            neutral = False
    if not neutral:
        raise Refused(f"'{stmt.name}' may do something in the iterations of '{name}' that do not run")
    inner = {each.name: each.extent.const for each in path[depth + 1 :] if each.extent.is_const}
    for end, upper in ends:
        own = [b for b in bounds_of(stmt.value, upper, name, inner) if (b.value, b.by) == (end.value, end.by)]
        apart = [(end.more - b.more if upper else b.more - end.more) for b in own]
        if not any(each.is_const and each.const >= 0 for each in apart):
            raise Refused(f"'{stmt.name}' has terms in iterations of '{name}' that do not run")


def _check_end(
    program: Projection, path: tuple[Loop, ...], depth: int, ahead: Leaf, end: Bound, written: set[str]
) -> None:
    """Refused where an end changes while the loop runs, or is read where its buffer has no such element."""
    used = {load.buffer for load in loads(end.value)} | {gather.buffer for gather in gathers(end.value)}
    if not used.isdisjoint(written) or speaks_of(end, frozenset(inner.name for inner in path[depth:])):
        raise Refused(f"how far loop '{path[depth].name}' runs changes inside of it")
    check_reads(program, replace(ahead, stmt=replace(ahead.stmt, value=end.value)))


def _check_sure(program: Projection, loop: Loop, ahead: Leaf, end: Bound, upper: bool) -> None:
    """Refused where an end is taken as it is, and no promise says that the loop has such an iteration."""
    if not end.sure:
        return
    condition = end.has_iteration(upper, loop.extent, program.kernel.rising)
    outside = () if condition is None else rows_of(Condition(-1 - condition.value))
    if condition is None or solvable(program.original.rows(ahead) + outside):
        raise Refused(f"loop '{loop.name}' may run where it has no iterations")


def _ahead(program: Projection, path: tuple[Loop, ...], depth: int, stmt: Stmt, ends: Bounds) -> Leaf:
    """The statement in front of the loop at this depth, with the tests that speak of nothing but what its ends do.

    Those of other loops may stand in the loop, where they come too late.
    """
    names, kinds, extents = (tuple(getattr(loop, what) for loop in path[:depth]) for what in ("name", "kind", "extent"))
    tests = tuple(c for c in stmt.guard if ends.may_need(c, program.kernel.sizes))
    return Leaf(names, kinds, extents, replace(stmt, guard=tests, reduce=None))
