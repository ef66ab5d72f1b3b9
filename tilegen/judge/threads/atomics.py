"""Atomic updates are those of a reduction whose terms may come in any order.

Theorem: iterations that collide on an element by atomic updates alone leave in it what they would leave one after the
other, if all of them combine by one operation, which the hardware has for that type, in global or shared memory, and
the order of terms is free: a step has said so, or each element gets one term. No value that passes on the way is read.

A list counts so, too, where its kernel leaves the order of hits open. The law: of updates that add one to an element,
each in one access, no two find the same value there, and n of them find 0 to n - 1. So each hit has a place of its own,
hits fill the places from the first on, and the count is how many there are, in whatever order they come. That goes for
an update that adds m as for m that add one: the m places from the value that it finds on are its own.
"""

from __future__ import annotations

from tilegen.ir.hardware.atomics import NATIVE
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import loads
from tilegen.poly.instances import Original, Projection
from tilegen.poly.system import equal_rows
from tilegen.poly.verdict import Misplaced, NoForm, Refused, counterexample


def check_atomics(program: Projection) -> None:
    """Refused where an update cannot be atomic, or may not be made in whatever order the iterations come."""
    for placed in program.leaves:
        stmt = placed.leaf.stmt
        if stmt.atomic:
            _check_update(program, stmt)


def _check_update(program: Projection, stmt: Stmt) -> None:
    buffer = program.buffers[stmt.target.buffer]
    if stmt.is_copy or stmt.reduce is None:
        raise Refused(f"'{stmt.name}' is no update of a reduction, and would be atomic")
    if stmt.reduce == "list":
        raise Refused(
            f"atomic updates of '{stmt.name}' come in any order, and its hits have to keep theirs",
            way=f"rank({stmt.name}) -> rank tells each hit its place, and an unordered_list has its hits in any order",
        )
    if (stmt.reduce, buffer.dtype) not in NATIVE:
        raise NoForm(
            f"there is no atomic {stmt.reduce} of {buffer.dtype}, which '{stmt.name}' is",
            None,
            "atomic are sums of f32, f64 and i32, the max and min of i32, and lists that count in i32",
            f"rfactor({stmt.name}, ...) reduces in parts, which a launch of its own combines",
        )
    if stmt.name not in program.tree.reassociated and stmt.reduce != "unordered_list":
        _check_single(program.original, stmt.name)
    if buffer.space == "register":
        raise Misplaced(
            f"'{stmt.name}' is updated atomically in memory, and '{buffer.name}' is in registers",
            way=f"rfactor({stmt.name}, ...) -> part makes a result for each part: that can be kept in registers",
        )
    if any(load.buffer == buffer.name for load in loads(stmt)):
        raise Refused(f"'{stmt.name}' computes with '{buffer.name}', which it updates atomically")


def _check_single(original: Original, name: str) -> None:
    """Refused unless each element has one term alone."""
    leaf = original.statements[name].leaf
    write = leaf.uses[-1]
    for depth, loop in enumerate(leaf.names):
        shared = frozenset(leaf.names[:depth])
        names = leaf.primed_names(shared)
        question = (*original.context, *leaf.domain, *leaf.primed_domain(shared))
        question += equal_rows(write.forms, [f.rename(names) for f in write.forms])
        question += ((False, ((f"{loop}'", 1), (loop, -1)), -1),)
        if words := counterexample(original, question, (*leaf.names, *(names.get(n, n) for n in leaf.names)), shared):
            both = f"{words.instance(leaf)} and {words.instance(leaf, True)}"
            raise Refused(
                f"atomic updates of '{name}' come in any order, and its terms have to keep theirs",
                f"{both} both update {words.element(write)}{words.sizes}",
                f"reassociate({name}) allows any order",
            )
