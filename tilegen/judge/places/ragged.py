"""Ragged loops: outside of the ends that data give, the iterations of a loop do nothing.

Theorem: let each statement in the loop update a reduction with `select(e <= j and j < f, term, neutral)`, where j is
affine in the loop and those inside it, and e and f are computed from what the loop does not write and no loop inside
changes; or let it write what lives for an iteration. j grows with the loop. So before the first iteration in which j
may be e, over all iterations of the loops inside, and from the one on in which it is f or more, every term is neutral:
running those between is running the loop. The ends are computed once, so that what they read has to be inside of its
buffer wherever the loop is reached.

The same where e or f is the element, of an input that rises, of the loop's own iteration, and j is none of its: once
e is above all j it stays so, and before the first iteration in which f is above some j it is above none. Where f is the
next element after e, iterations in which the two are equal have no j. From one that is done, the next in which f is
above what f was is the next in which they are not.

What is shared between threads lives as long as their block, and who uses it in the loop, and nobody else does, has to
find what the same iteration has written (`proof.ragged`).
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import THREAD_KINDS, Condition, Const, Load, Loop, Op, Stmt
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.reductions.ragged import Bound, Bounds, End, Found, bounds_of, is_empty_row, sides_of
from tilegen.ir.reductions.scatter import speaks_of
from tilegen.ir.walk import gathers, leaves, loads, writes
from tilegen.judge.places.bounds import check_reads
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
                if loop.ends.skips:
                    _check_skips(program, path, depth, stmt)
                written = {name for other, s in every if loop in other for name, _ in writes(s)}
                ahead = _ahead(program, path, depth, stmt, loop.ends)
                for end, upper in ends:
                    _check_end(program, path, depth, ahead, end, written)
                    if isinstance(end, Bound):
                        _check_sure(program, path[depth], ahead, end, upper)


def _check_statement(
    program: Projection, path: tuple[Loop, ...], depth: int, stmt: Stmt, ends: list[tuple[End, bool]]
) -> None:
    """Refused where the statement may do something in an iteration of the loop at this depth that does not run."""
    name, inside = path[depth].name, {inner.name for inner in path[depth:]}
    targets = [program.buffers[buffer] for buffer, _ in writes(stmt)]
    if all(target.scope in inside for target in targets):
        return
    if not is_neutral_update(stmt):
        if all(target.scope in inside or target.space == "shared" for target in targets):
            return
        raise Refused(f"'{stmt.name}' may do something in the iterations of '{name}' that do not run")
    inner = {each.name: each.extent.const for each in path[depth + 1 :] if each.extent.is_const}
    # Or for all threads alike, where the loop is in that over them.
    every = inner | {v.name: v.extent.const for v in path if v.kind in THREAD_KINDS and v.extent.is_const}
    for end, upper in ends:
        if isinstance(end, Found):
            _check_terms(program, path, depth, stmt, end, upper)
            continue
        both = (b for known in (inner, every) for b in bounds_of(stmt.value, upper, name, known))
        own = [b for b in both if (b.value, b.by) == (end.value, end.by)]
        apart = [(end.more - b.more if upper else b.more - end.more) for b in own]
        if not any(each.is_const and each.const >= 0 for each in apart):
            raise Refused(f"'{stmt.name}' has terms in iterations of '{name}' that do not run")


def _check_skips(program: Projection, path: tuple[Loop, ...], depth: int, stmt: Stmt) -> None:
    """Refused where the statement has terms in iterations whose two elements are equal."""
    match path[depth].ends:
        case Bounds(Found(high_element, _) as high, Found(low_element, _) as low):
            apart = high_element.index[0] - low_element.index[0]
            if (high_element.buffer, apart) == (low_element.buffer, const(1)):
                inside = {inner.name for inner in path[depth:]}
                lives = all(program.buffers[buffer].scope in inside for buffer, _ in writes(stmt))
                if lives or not is_neutral_update(stmt) or is_empty_row(stmt.value, low, high):
                    return
    raise Refused(f"'{stmt.name}' may do something in the iterations of '{path[depth].name}' that are skipped")


def is_neutral_update(stmt: Stmt) -> bool:
    """True if it updates a reduction with a term that is neutral where a condition fails."""
    match stmt.value:
        case Op("select", (_, _, Const() as rest)) if stmt.reduce and not stmt.hits:
            return rest == init_value(stmt.reduce, rest.dtype)
        case _:
            return False


def _check_terms(program: Projection, path: tuple[Loop, ...], depth: int, stmt: Stmt, end: Found, upper: bool) -> None:
    """Refused where the statement has a term though the element is above the place, at the upper end, or is not."""
    names, kinds, extents = (tuple(getattr(each, what) for each in path) for what in ("name", "kind", "extent"))
    leaf = Leaf(names, kinds, extents, stmt)
    for side in sides_of(stmt.value):
        if side.upper is not upper and side.value == end.element:
            # What has to be in the last iteration that does not run, and is not where the element is compared.
            apart = side.place - end.place - side.more
            if not solvable(program.original.rows(leaf) + rows_of(Condition(apart - 1 if upper else -1 - apart))):
                return
    raise Refused(f"'{stmt.name}' has terms in iterations of '{path[depth].name}' that do not run")


def _check_end(
    program: Projection, path: tuple[Loop, ...], depth: int, ahead: Leaf, end: End, written: set[str]
) -> None:
    """Refused where an end changes while the loop runs, or is read where its buffer has no such element."""
    if isinstance(end, Found):
        name, names = path[depth].name, frozenset(inner.name for inner in path[depth:])
        (index,) = end.element.index
        if speaks_of(end.place, names) or end.element.buffer in written or not (index - var(name)).is_const:
            raise Refused(f"how far loop '{name}' runs changes inside of it")
        if end.element.buffer not in dict(program.kernel.rising):
            raise Refused(f"loop '{name}' is left where '{end.element.buffer}' may fall again")
        check_reads(program, Leaf((name,), ("serial",), (path[depth].extent,), _reading(ahead.stmt, end.element)))
        return
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


def _reading(stmt: Stmt, element: Load) -> Stmt:
    return replace(stmt, value=element, guard=(), reduce=None)
