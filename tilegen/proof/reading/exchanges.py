"""What lanes do together, read back: which registers all threads along an axis have alike, and what is combined.

A register of which no write tells the threads of an axis apart, not by an index, not by a test and not by what
it computes from, holds the same in all of them. What they do is then one thing done, outside of the axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tilegen.ir.affine import Affine, affine, const, var
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.nodes import Condition, Load, Stmt
from tilegen.ir.walk import loads, substitute, walk
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Combine,
    Declare,
    For,
    Spmd,
    nodes,
)
from tilegen.poly import Refused, Unproved
from tilegen.proof.reading.coordinates import Axes

# The updates with what lanes have come to, each with the exchange before it.
Updates = Mapping[int, Combine]
Tests = tuple[Condition, ...]


@dataclass(frozen=True)
class Exchanges:
    """What the lanes of one launch do together.

    Attributes:
        alike: (register, name of an axis) where all threads along the axis have the same.
        updates: by the identity of the statement.
        readers: those that read a target while lanes combine it, by their identity, each with the update.
    """

    alike: frozenset[tuple[str, str]]
    updates: Updates
    readers: Mapping[int, Stmt]

    def meeting(self, node: object) -> int:
        """What an update by lanes has in common with those that read its target meanwhile; 0 for others."""
        update = self.readers.get(id(node), node)
        return id(update) if id(update) in self.updates else 0

    def axes(self, stmt: Stmt) -> frozenset[str]:
        """The axes whose threads all do `stmt`, and the same."""
        return frozenset(axis for name, axis in self.alike if name == stmt.target.buffer) - self._lane(stmt)

    def _lane(self, stmt: Stmt) -> frozenset[str]:
        combine = self.updates.get(id(stmt))
        return combine.lane.names() if combine else frozenset()


def exchanges_of(
    body: tuple[Spmd, ...], launch: Launch, where: Axes, readers: Mapping[int, Stmt] = MappingProxyType({})
) -> Exchanges:
    """What is done together in `body`, a launch in the names of `where` with its tests at the statements.

    `readers` are the statements that have something else of a register than the other lanes.
    """
    results = frozenset(b.name for b in launch.buffers.values() if b.space == "lanes")
    updates = dict(_updates(body, where, results))
    registers = {b.name for b in launch.buffers.values() if b.space == "register" and not b.fragment}
    writers: dict[str, list[Stmt]] = {name: [] for name in registers}
    for stmt in (v for v in nodes(body) if isinstance(v, Stmt)):
        for access in (stmt.target, stmt.best):
            if access is not None and access.buffer in registers:
                writers[access.buffer].append(stmt)
    axes = [name for _, name, extent in where.threads if extent != const(1)]  # one thread has no other
    lanes = frozenset(name for kind, name, _ in where.threads if kind == "thread.x")
    wanted = [
        (n, axis) for n, found in writers.items() for axis in axes if any(_runs_once(s, axis, updates) for s in found)
    ]
    wanted += [(update.target.buffer, axis) for update in readers.values() for axis in lanes.intersection(axes)]
    if not wanted:
        return Exchanges(frozenset(), updates, readers)

    def sources(key: tuple[str, str]) -> set[tuple[str, str]]:
        """What a register is computed from, other than by lanes that combine."""
        own = [s for s in writers[key[0]] if not _is_own_lane(s, key[1], updates)]
        read = [load for s in own for load in (*loads(s), *loads(updates.get(id(s))))]
        return {(load.buffer, key[1]) for load in read if load.buffer in registers}

    def differs(stmt: Stmt, axis: str) -> bool:
        return (axis in lanes and id(stmt) in readers) or _names_thread(stmt, axis, updates)

    alike = {(n, a) for n in registers for a in axes if not any(differs(s, a) for s in writers[n])}
    while apart := {key for key in alike if not sources(key) <= alike}:
        alike -= apart
    found: set[tuple[str, str]] = set()
    pending = [key for key in wanted if key in alike]
    while pending:
        key = pending.pop()
        if key not in found:
            found.add(key)
            pending += sources(key)
    return Exchanges(frozenset(found), updates, readers)


def _updates(body: Iterable[Spmd], where: Axes, results: frozenset[str]) -> Iterable[tuple[int, Combine]]:
    """Each exchange has its result used at once, by the statement after it, and nowhere else."""
    open_: Combine | None = None
    for node in body:
        if open_ is not None and not isinstance(node, Declare):
            if not isinstance(node, Stmt) or node.value != Load(open_.name, (), node.value.dtype):
                raise Refused(f"what lanes exchange for '{open_.name}' is not used at once")
            if node.arg != (Load(open_.arg_name, (), node.arg.dtype) if open_.arg and node.arg else None):
                raise Refused(f"'{node.name}' takes another index than lanes exchange")
            if node.reduce != open_.reduce:
                raise Refused(f"'{node.name}' takes the {node.reduce} of what lanes have combined by {open_.reduce}")
            yield id(node), open_
            open_ = None
            continue
        match node:
            case Combine():
                _check(node, where)
                open_ = node
            case For():
                yield from _updates(node.body, where, results)
            case Stmt() if results and any(load.buffer in results for load in loads(node)):
                raise Refused(f"'{node.name}' uses what lanes exchange where it may be out of date")
            case _:
                pass
    if open_ is not None:
        raise Refused(f"what lanes exchange for '{open_.name}' is not used")


def _check(node: Combine, where: Axes) -> None:
    """The lanes are all the threads along x, a number that divides a warp."""
    lanes = next(((name, extent) for kind, name, extent in where.threads if kind == "thread.x"), None)
    if lanes is None or node.lane != var(lanes[0]) or lanes[1] != affine(node.lanes):
        raise Refused(f"the {node.lanes} lanes that exchange for '{node.name}' are not the threads along x")
    if node.lanes < 2 or WARP % node.lanes:
        raise Refused(f"{node.lanes} lanes are no part of a warp")


def _runs_once(stmt: Stmt, axis: str, updates: Updates) -> bool:
    """True if all threads along `axis` run `stmt`, and the kernel has it once."""
    if stmt.instance is None or _is_own_lane(stmt, axis, updates) or axis in _names_in(stmt.guard):
        return False
    return axis not in _names_in(stmt.instance) or id(stmt) in updates


def _is_own_lane(stmt: Stmt, axis: str, updates: Updates) -> bool:
    """True for the axis of lanes that combine: there each thread puts in its own."""
    combine = updates.get(id(stmt))
    return combine is not None and axis in combine.lane.names()


def _names_thread(stmt: Stmt, axis: str, updates: Updates) -> bool:
    """True if `stmt` says which thread along `axis` does what, other than by lanes that combine."""
    if _is_own_lane(stmt, axis, updates):
        return axis in _names_in((stmt.guard, stmt.target.index))
    combine = updates.get(id(stmt))
    terms = (combine.value, combine.arg, combine.test) if combine else ()
    return axis in _names_in((stmt.guard, stmt.target.index, stmt.value, stmt.arg, stmt.instance, terms))


def _names_in(value: object) -> frozenset[str]:
    return frozenset(name for v in walk(value) if isinstance(v, Affine) for name in v.names())


def join_terms(stmt: Stmt, combine: Combine, alike: bool, kept: bool, is_implied: IsImplied) -> Stmt:
    """The update as what each lane does: its own term, where it has one.

    Args:
        alike: all lanes make the update, in registers of their own; else the first one has to.
        kept: it is made in registers, where the neutral element of lanes without terms changes nothing.
    """
    (lane,) = combine.lane.names()
    first = Condition(var(lane), equal=True)
    guard = stmt.guard
    if not alike:
        if first not in guard:
            raise Refused(f"'{stmt.name}' is updated with what lanes exchange, and not by the first of them")
        guard = tuple(c for c in guard if c != first)
        # In registers, they are those of the first lane.
        target, best = substitute((stmt.target, stmt.best), {lane: const(0)})
        stmt = replace(stmt, target=target, best=best)
        if not kept and not any(_has_term(combine.test, lane, n, guard, is_implied) for n in (0, combine.lanes - 1)):
            raise Unproved(f"'{stmt.name}' may be updated where no lane has a term")
    guard = tuple(dict.fromkeys((*guard, *combine.test)))
    return replace(stmt, value=combine.value, arg=combine.arg, guard=guard)


def _has_term(tests: Tests, lane: str, number: int, given: Tests, is_implied: IsImplied) -> bool:
    there = [c._replace(value=c.value.substitute({lane: const(number)})) for c in tests]
    return all(is_implied(c, given) for c in there)
