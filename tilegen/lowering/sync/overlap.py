"""Products of a ring's loop that run on into the next iteration, which waits for its operands meanwhile.

                                             hold Pf
    for ko < n                               for ko < n
      wait filled[s]                           wait filled[s]
      hold Pf                                  begin; wgmma(Pf, As[s], Bs[s])
      begin; wgmma(Pf, As[s], Bs[s])
      complete: Pf                             complete the earlier ones
      release emptied[s]                       if ko >= 1: release emptied[slot before s]
                                             complete: Pf
                                             if n >= 1: release emptied[the last slot]

Nothing in the loop looks at what they compute, or writes what they read beside the slots: a slot is released one
iteration later. A ring of two slots is enough for that. The last test stays though each loop has an iteration: without
it ptxas takes the registers to be changed on a path around the loop, and waits for each product before it begins the
next one.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition, Node
from tilegen.ir.walk import loops, substitute
from tilegen.lowering.launch.program import For, If, Spmd, with_lists
from tilegen.lowering.launch.timelines import Arrive, Await


def overlap_batches(body: tuple[Spmd, ...], node: Node) -> tuple[Spmd, ...]:
    """`body` with the loops of rings as above that are overlapped in `node`."""
    names = frozenset(loop.name for loop in loops(node) if loop.overlapped)
    return _overlap_named(body, names) if names else body


def _overlap_named(body: tuple[Spmd, ...], names: frozenset[str]) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        if isinstance(node, For) and node.name in names and any(isinstance(v, Arrive) for v in node.body):
            out += _overlap(node)
        else:
            out.append(with_lists(node, lambda inside: _overlap_named(inside, names)))
    return tuple(out)


def _overlap(loop: For) -> tuple[Spmd, ...]:
    """The loop with later releases, and what is to do before it and after it."""
    wait, hold, *batch, complete, release = loop.body
    assert isinstance(wait, Await), "the judge has seen that the loop does nothing but products"
    assert isinstance(complete, Await)
    assert isinstance(release, Arrive)
    assert loop.ring
    number = loop.ring.number
    last: Spmd = substitute(release, {number: var(number) - 1})
    late = If((Condition(var(loop.name) - 1),), (last,))
    if not (loop.extent.is_const and loop.extent.const > 0):
        last = If((Condition(loop.extent - 1),), (last,))
    earlier = replace(complete, buffers=(), left=1)
    return (hold, replace(loop, body=(wait, *batch, earlier, late)), complete, last)
