"""Releases one iteration later, of loops whose products run on, brought back to the iteration that they are of.

    for ko < n                                    for ko < n
      wait filled[s]; use slot s                    wait filled[s]; use slot s
      if ko >= 1: release emptied[s before]         release emptied[s]
    if n >= 1: release emptied[the last s]

Theorem: for the ring it is the same, if it has two slots or more. Each slot is released once, behind all that its
iteration does. A wait of the producer for slot s of iteration n needs the release of iteration n - S, which stands in
iteration n - S + 1 of the consumers or behind their loop. With S >= 2 that needs no copy which the producer starts
behind this wait.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Access, Condition
from tilegen.lowering.bulk_nodes import BulkWait, NextSlot, Release
from tilegen.lowering.product_nodes import Complete
from tilegen.lowering.program import For, If, Spmd, with_body
from tilegen.poly import Refused


def release_in_turn(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with releases in the iterations that they are of. Raises Refused where a slot is not released so."""
    out: list[Spmd] = []
    rest = list(body)
    while rest:
        node = rest.pop(0)
        match node:
            case For() if any(isinstance(n, BulkWait) for n in node.body) and any(map(_is_late, node.body)):
                out.append(_loop_in_turn(node, rest))
            case For():
                out.append(with_body(node, release_in_turn(node.body)))
            case If() if not _is_late(node):
                out.append(with_body(node, release_in_turn(node.body), release_in_turn(node.orelse)))
            case _:
                out.append(node)
    return tuple(out)


def _is_late(node: Spmd) -> bool:
    return isinstance(node, If) and any(isinstance(each, Release) for each in node.body)


def _loop_in_turn(loop: For, rest: list[Spmd]) -> For:
    """The loop that releases late; takes the last release from `rest`, what stands behind the loop."""
    wait = next(node for node in loop.body if isinstance(node, BulkWait))
    (slot,), phase = wait.barrier.index, wait.phase
    next_slot = loop.body[-1]
    if not isinstance(next_slot, NextSlot):
        raise Refused(f"an iteration of '{loop.name}' does not end at the next slot of its ring")
    if next_slot.place.slots < 2:
        raise Refused(f"the ring of '{loop.name}' has one slot, which is released in the next iteration")
    number = next_slot.place.number
    back = {number: var(number) - 1}
    before = slot.substitute(back), phase.substitute(back)
    end = rest.pop(1 if isinstance(rest[0], Complete) else 0) if rest[1:] else None
    buffer = _check_release(end, loop.extent, before, loop, wait)
    body: list[Spmd] = []
    for node in loop.body:
        if _is_late(node):
            if _check_release(node, var(loop.name), before, loop, wait) != buffer:
                raise Refused(f"'{loop.name}' releases at two barriers")
            node = Release(Access(buffer, (slot,)), phase, wait.buffers)
        body.append(node)
    return replace(loop, body=tuple(body))


def _check_release(node: Spmd | None, at: Affine, turn: tuple[Affine, Affine], loop: For, wait: BulkWait) -> str:
    """The barriers of a release that stands under the test that there was an iteration before `at`, of its `turn`."""
    if at.is_const and at.const > 0 and isinstance(node, Release):
        node = If((Condition(at - 1),), (node,))
    match node:
        case If((test,), (Release() as release,), ()) if test == Condition(at - 1) and not node.flag:
            if release.barrier.index == turn[:1] and release.phase == turn[1] and release.buffers == wait.buffers:
                return release.barrier.buffer
    raise Refused(f"an iteration of '{loop.name}' does not release the slot of the one before it, or the last none")
