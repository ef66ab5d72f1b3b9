"""Instructions that run on while their lanes go on: issued one after the other, and waited for before anybody looks.

    hold C
    begin wgmma
    for fk < 4
      wgmma(C, A[.. fk ..], B[.. fk ..])
    complete wgmma: C

Between the two stand such instructions alone, so that their order is all that they depend on: none has a factor in
registers that another one computes. So nobody writes such a factor while it is read. They read shared memory by a way
of their own: what threads have written reaches it by a fence, before the barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from tilegen.ir.hardware.described import described_buffers
from tilegen.ir.hardware.instructions import Fragment
from tilegen.ir.nodes import Node
from tilegen.lowering.launch.program import For, If, Perform, Spmd, nodes, with_lists
from tilegen.lowering.launch.timelines import Await, Fence, products
from tilegen.lowering.sync.conflicts import Conflict


def complete_batches(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with a begin before each run of asynchronous instructions of one protocol, and the wait after it."""
    out: list[Spmd] = []
    for protocol, run in groupby(body, key=_protocol_of):
        if not protocol:
            out += (with_lists(node, complete_batches) for node in run)
            continue
        for batch in _independent(run):
            used = tuple(name for each in registers_used(batch) for name in sorted(each))
            line = products(protocol)
            out += (Fence(line, used), Fence(line), *batch, Await(line, buffers=used))
    return tuple(out)


def _independent(run: Iterable[Spmd]) -> list[tuple[Spmd, ...]]:
    """The instructions of a run in batches in which none has a factor that another one computes."""
    batches: list[tuple[Spmd, ...]] = []
    for node in run:
        if batches and _are_independent((*batches[-1], node)):
            batches[-1] += (node,)
        else:
            batches.append((node,))
    return batches


def _are_independent(batch: tuple[Spmd, ...]) -> bool:
    results, factors = registers_used(batch)
    return results.isdisjoint(factors)


def registers_used(batch: tuple[Spmd, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """The register buffers that instructions compute, and those that they have factors in."""
    results: set[str] = set()
    factors: set[str] = set()
    for node in nodes(batch):
        if not isinstance(node, Perform):
            continue
        for layout, given in zip(node.instruction.operands, node.operands, strict=True):
            if isinstance(layout, Fragment):
                written = layout.operand.name == node.instruction.equation.target
                (results if written else factors).add(given.buffer)
    return frozenset(results), frozenset(factors)


def _protocol_of(node: Spmd) -> str:
    """The protocol of the instructions in `node`, if it holds nothing else, and these may be in flight together."""
    inside = [v for v in nodes((node,)) if not isinstance(v, For | If)]
    if isinstance(node, For | If) and not _are_independent((node,)):
        return ""
    protocols = {v.instruction.protocol if isinstance(v, Perform) else "" for v in inside}
    return protocols.pop() if len(protocols) == 1 else ""


def needs_fence(node: Node, stored: frozenset[str], filled: frozenset[str]) -> Callable[[Conflict], bool]:
    """Which conflicts take a barrier with a fence: what is read by descriptor in `node`, or by bulk stores, is complete
    then; and what threads have loaded from is `filled` again in bulk after it."""
    described = described_buffers(node)
    loaded, read = filled - described, described | stored
    return lambda conflict: conflict.buffer in {"WAR": loaded, "RAW": read}.get(conflict.kind, ())
