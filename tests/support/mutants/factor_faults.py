"""Faults in factors that products by warpgroups take from registers: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_begin_of_products, is_wait_for_products
from tests.support.mutants.places import each, edited, of
from tilegen.ir.nodes import Access, Stmt
from tilegen.lowering.launch.program import For, Perform, nodes
from tilegen.lowering.sync.batches import registers_used


@of(is_wait_for_products)
def factors_dropped(node, launch):
    """A wait that does not have the registers of A."""
    _, factors = registers_used(launch.body)
    if kept := tuple(name for name in node.buffers if name not in factors):
        yield (replace(node, buffers=kept),)


def _loads_of_a(launch, node):
    """The loops that fill registers of A, and nothing else."""
    _, held = registers_used(launch.body)
    inside = [v for v in nodes((node,)) if not isinstance(v, For)]
    return bool(inside) and all(isinstance(v, Stmt) and v.target.buffer in held for v in inside)


def written_in_flight(launch):
    """A is loaded once more, after the begin or before the wait."""

    def change(node):
        body = node.body if isinstance(node, For) else ()
        loads = [each for each in body if _loads_of_a(launch, each)]
        if loads and any(is_wait_for_products(each) for each in body):
            for n, each in enumerate(body):
                if is_wait_for_products(each):
                    yield (replace(node, body=(*body[:n], loads[0], *body[n:])),)
                if is_begin_of_products(each):
                    yield (replace(node, body=(*body[: n + 1], loads[0], *body[n + 1 :])),)

    return edited(launch, change)


def begin_ahead_of_loads(launch):
    """The registers of A are written after the begin alone."""

    def change(node):
        body = node.body if isinstance(node, For) else ()
        begins = [each for each in body if is_begin_of_products(each)]
        if begins and any(_loads_of_a(launch, each) for each in body):
            yield (replace(node, body=(*begins, *(each for each in body if each not in begins))),)

    return edited(launch, change)


@of(Perform)
def registers_of_the_factor(node, launch):
    """Other registers, those of the next k, or those of the result."""
    if isinstance(node.operands[0], Access):
        a, b, c = node.operands
        yield (replace(node, operands=(replace(a, index=(*a.index[:-1], a.index[-1] + 2)), b, c)),)
        yield (replace(node, operands=(c, b, c)),)
        if len(a.index) > 2:
            yield (replace(node, operands=(replace(a, index=(a.index[0] + 1, *a.index[1:])), b, c)),)


@of(Stmt)
def slots_of_the_factor(node, launch):
    """A load that fills neighbouring registers with each other's elements."""
    if _loads_of_a(launch, node):
        *outer, register = node.target.index
        yield (replace(node, target=replace(node.target, index=(*outer, register + 1 - register % 2 * 2))),)


@of(Perform)
def layout_of_the_factor(node, launch):
    """A declaration that exchanges registers, or lanes."""
    instruction = node.instruction
    factor, *others = instruction.operands
    for new in (
        replace(factor, within=factor.within + 1 - factor.within % 2 * 2),
        replace(factor, lane=factor.lane + 1 - factor.lane % 2 * 2),
    ):
        performed = replace(node.origin.performed, instruction=replace(instruction, operands=(new, *others)))
        yield (replace(node, origin=replace(node.origin, performed=performed)),)


def rounded_on_the_way(launch):
    return each(launch, Perform, lambda n: [(replace(n, rounded=("A",)),)])
