"""Producers: threads that do nothing but start bulk copies run loops of their own, beside those of the consumers.

for ko < n                                    if consumer
  if producer: wait; fill As[ko%4]              for ko < n: wait; use As[ko%4]; release
  if consumer: wait; use As[ko%4]; release    else if producer
                                                for ko < n: wait; fill As[ko%4]

Where the loop runs several times, slots and phases go on from one run to the next: the producer fills for the next run
while the consumers are busy with the end of this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.ir.affine import Affine, Mod, const, var
from tilegen.ir.hardware.threads import ring_of
from tilegen.ir.nodes import Access, Load, Node, Tree
from tilegen.ir.walk import loops, rewrite, rewrite_nodes
from tilegen.judge import runs_again
from tilegen.lowering.launch.program import Flag, For, If, Let, Spmd, Start, nodes, with_body
from tilegen.lowering.launch.timelines import (
    BLOCK,
    CONSUMERS,
    EMPTIED,
    FILLED,
    REGISTERS,
    Arrive,
    Await,
    Barrier,
    Event,
    RingPlace,
    StartBarriers,
    is_await,
)
from tilegen.lowering.sync.bulk_loops import bulk_nests
from tilegen.lowering.threads.distribute import Block


def with_whole_rings(tree: Tree, scalarized: frozenset[str]) -> frozenset[str]:
    """`scalarized` with all bulk nests of a specialized loop of which one is: a producer starts all copies, or there is
    none."""
    for loop in loops(tree.body):
        names = {nest.name for nest in bulk_nests(loop.body)} if loop.specialized else set()
        if names & scalarized:
            scalarized |= names
    return scalarized


def without_idle_producers(tree: Tree) -> Tree:
    """`tree` with producers where they start all copies, of several iterations: a version without bulk copies has none,
    and where a block runs one iteration there is nothing to overlap with."""

    def change(launch: Node) -> Node:
        loop = ring_of(launch)
        if loop is None:
            return launch
        copying = {each.kind for each in loops(loop)} & {"bulk", "cooperative"}
        needed = runs_again(launch, loop) and copying == {"bulk"}
        overlapped = needed and loop.overlapped and loop.extent != const(1)
        new = replace(loop, specialized=needed, overlapped=overlapped)
        return rewrite_nodes((launch,), lambda value: new if value is loop else value)[0]

    return replace(tree, body=tuple(change(launch) for launch in tree.body))


def split_roles(body: tuple[Spmd, ...], block: Block) -> tuple[Spmd, ...]:
    """`body` with the work of consumers and of the producer one beside the other. Barriers are those of consumers: with
    the producer these are waiting by what is filled and emptied. In a cluster no block leaves before all are done, for
    others copy to its memory and arrive at its barriers."""
    if block.consumers is None:
        return body
    end = [Barrier(n.line) for n in body if isinstance(n, StartBarriers) and n.line != BLOCK]
    common = [n for n in body if isinstance(n, StartBarriers | Let)]
    rest = tuple(n for n in body if not isinstance(n, StartBarriers | Let))
    consuming, producing = (_count_slots(role) for role in (_consuming(rest, block), _producing(rest)))
    others: tuple[Spmd, ...] = (If((block.first_producer,), producing),)
    if block.budgets:
        consuming = (Await(REGISTERS, count=block.budgets.consumer), *consuming)
        others = (Arrive(REGISTERS, count=block.budgets.producer), *others)
    role = Flag("is_consumer", (block.consumers,))
    choice = If(role.test, consuming, others, flag=role.name)
    return (*common, role, choice, *end)


def _fills(node: Spmd) -> bool:
    """True for what the producer does: a test of it with the copies."""
    return isinstance(node, If) and any(isinstance(each, Start) and each.line == FILLED for each in node.body)


def _consuming(body: tuple[Spmd, ...], block: Block) -> tuple[Spmd, ...]:
    """What the consumers do, without the tests of who is one."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case _ if _fills(node):
                pass
            case Barrier():
                out.append(replace(node, line=CONSUMERS, count=block.consuming))
            case For():
                out.append(with_body(node, _consuming(node.body, block)))
            case If():
                then, orelse = _consuming(node.body, block), _consuming(node.orelse, block)
                test = tuple(c for c in node.test if c != block.consumers)
                out += (replace(node, test=test, body=then, orelse=orelse),) if test else then
            case _:
                out.append(node)
    return tuple(out)


def _producing(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """What the producer does, without the test of who it is."""
    out: list[Spmd] = []
    for node in body:
        if isinstance(node, If) and _fills(node):
            out += node.body
        elif isinstance(node, For) and (inner := _producing(node.body)):
            out.append(with_body(node, inner))
        elif isinstance(node, If) and (inner := _producing(node.body)):
            out.append(replace(node, body=inner, orelse=_producing(node.orelse)))
    return tuple(out)


# -- where each role is in the ring


def _count_slots(role: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`role` with slots and phases of its ring by the number of an iteration among those of all runs."""
    ring = next(node for node in nodes(role) if isinstance(node, For) and any(map(is_await, node.body)))
    wait = next(node for node in ring.body if is_await(node))
    (slot,) = wait.barrier.index
    ((atom, _),) = slot.terms
    assert isinstance(atom, Mod)
    arrays = {e.line: e.barrier.buffer for e in nodes(ring.body) if isinstance(e, Event) and e.line.has_phases}
    place = RingPlace(f"{ring.name}.number", atom.by, arrays[FILLED], arrays[EMPTIED])
    counted = rewrite(ring.body, lambda value: _at_place(value, slot, {ring.name: var(place.number)}))
    new = replace(ring, body=counted, ring=place)
    return rewrite(role, lambda value: new if value is ring else value)


def _at_place(value: Any, slot: Affine, number: dict[str, Affine]) -> Any:
    """An access to a slot, or the phase of an event, by the number of its iteration."""
    match value:
        case Access(index=(first, *rest)) | Load(index=(first, *rest)) if first == slot:
            return replace(value, index=(first.substitute(number), *rest))
        case Start() | Arrive() | Await():
            return replace(value, number=value.number.substitute(number))
        case _:
            return value
