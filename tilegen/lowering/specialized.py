"""Producers: threads that do nothing but start bulk copies run loops of their own, beside those of the consumers.

for ko < n                                    if consumer
  if producer: wait; fill As[ko%4]              for ko < n: wait; use As[ko%4]; release
  if consumer: wait; use As[ko%4]; release    else if producer
                                                for ko < n: wait; fill As[ko%4]
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Loop, Tree
from tilegen.ir.walk import loops, rewrite_nodes
from tilegen.lowering.bulk_nodes import BulkCopies, StartBarriers
from tilegen.lowering.distribute import Block
from tilegen.lowering.program import Barrier, Flag, For, If, Let, Spmd, with_body


def without_idle_producers(tree: Tree) -> Tree:
    """`tree` with producers where they start all copies: a version without bulk copies has none."""

    def change(node: object) -> object:
        if not isinstance(node, Loop) or not node.specialized:
            return node
        return replace(node, specialized=not any(each.kind == "cooperative" for each in loops(node)))

    return replace(tree, body=rewrite_nodes(tree.body, change))


def split_roles(body: tuple[Spmd, ...], block: Block) -> tuple[Spmd, ...]:
    """`body` with the work of consumers and of the producer one beside the other. Barriers are those of consumers: with
    the producer these are waiting by what is filled and emptied."""
    if block.consumers is None:
        return body
    common = [n for n in body if isinstance(n, StartBarriers | Flag | Let)]
    rest = tuple(n for n in body if not isinstance(n, StartBarriers | Flag | Let))
    consuming, producing = _consuming(rest, block), _producing(rest)
    return (*common, If((block.consumers,), consuming, (If((block.first_producer,), producing),)))


def _fills(node: Spmd) -> bool:
    """True for what the producer does: a test of it with the copies."""
    return isinstance(node, If) and any(isinstance(each, BulkCopies) for each in node.body)


def _consuming(body: tuple[Spmd, ...], block: Block) -> tuple[Spmd, ...]:
    """What the consumers do, without the tests of who is one."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case _ if _fills(node):
                pass
            case Barrier():
                out.append(replace(node, threads=block.consuming))
            case For():
                out.append(with_body(node, _consuming(node.body, block)))
            case If():
                then, orelse = _consuming(node.body, block), _consuming(node.orelse, block)
                test = tuple(c for c in node.test if c != block.consumers)
                out += (replace(node, test=test, body=then, orelse=orelse),) if test or node.flag else then
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
