"""Faults in products by warpgroups, put into a lowered program: each function gives the launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.bulk_faults import edited
from tilegen.ir.instructions import Fragment, descriptor_swizzle
from tilegen.ir.nodes import Access, Stmt
from tilegen.lowering.product_nodes import Begin, Complete, Described
from tilegen.lowering.program import Barrier, For, Perform, nodes


def described(launch, change):
    """`launch` with what `change` makes of each descriptor."""

    def operands(node):
        if isinstance(node, Perform):
            for n, given in enumerate(node.operands):
                if isinstance(given, Described):
                    for new in change(given):
                        yield (replace(node, operands=(*node.operands[:n], new, *node.operands[n + 1 :])),)

    return edited(launch, operands)


def stride(launch):
    """Eight rows further from the next eight, or as far as the pieces."""
    return described(launch, lambda d: [replace(d, form=replace(d.form, stride=s)) for s in (0, 2 * d.form.stride)])


def leading(launch):
    def change(given):
        yield replace(given, form=replace(given.form, leading=given.form.leading + 1024))
        if given.form.leading:
            yield replace(given, form=replace(given.form, leading=0))

    return described(launch, change)


def piece(launch):
    return described(launch, lambda d: [replace(d, form=replace(d.form, piece=64))])


def start(launch):
    """Another row or another column, by 8 elements of it."""

    def change(given):
        for d, index in enumerate(given.start.index):
            for by in (1, 8, 16):
                moved = (*given.start.index[:d], index + by, *given.start.index[d + 1 :])
                yield replace(given, start=replace(given.start, index=moved))

    return described(launch, change)


def _buffers(launch):
    return {o.buffer for v in launch.nodes if isinstance(v, Perform) for o in v.operands if isinstance(o, Described)}


def swizzle_of_buffer(launch):
    """None, or that of shorter rows."""
    for name in sorted(_buffers(launch)):
        for other in (None, descriptor_swizzle(64, 2)):
            yield replace(launch, buffers=dict(launch.buffers) | {name: replace(launch.buffers[name], swizzle=other)})


def alignment(launch):
    for name in sorted(_buffers(launch)):
        for align in (16, 512):
            yield replace(launch, buffers=dict(launch.buffers) | {name: replace(launch.buffers[name], align=align)})


def pad(launch):
    for name in sorted(_buffers(launch)):
        yield replace(launch, buffers=dict(launch.buffers) | {name: replace(launch.buffers[name], pad=8)})


def complete_dropped(launch):
    return edited(launch, lambda n: [()] if isinstance(n, Complete) else [])


def results_dropped(launch):
    return edited(launch, lambda n: [(replace(n, results=()),)] if isinstance(n, Complete) else [])


def begin_dropped(launch):
    return edited(launch, lambda n: [()] if isinstance(n, Begin) else [])


def begin_moved(launch):
    """Behind the products, or to the head of a loop around them."""

    def change(node):
        if isinstance(node, For) and any(isinstance(each, Begin) for each in node.body):
            (begin,) = (each for each in node.body if isinstance(each, Begin))
            others = [each for each in node.body if each is not begin]
            yield (begin, replace(node, body=tuple(others)))
            yield (replace(node, body=(*others, begin)),)

    return edited(launch, change)


def fence_dropped(launch):
    return edited(launch, lambda n: [(replace(n, fence=False),)] if isinstance(n, Barrier) and n.fence else [])


def barrier_dropped(launch):
    return edited(launch, lambda n: [()] if isinstance(n, Barrier) and n.fence else [])


def lanes_of_the_result(launch):
    """A declaration that gives neighbouring lanes elements of each other's."""

    def change(node):
        if isinstance(node, Perform):
            instruction = node.instruction
            *inputs, result = instruction.operands
            assert isinstance(result, Fragment)
            mixed = replace(result, lane=result.register % 2 + result.lane - result.lane % 2)
            other = replace(instruction, operands=(*inputs, mixed))
            performed = replace(node.origin.performed, instruction=other)
            yield (replace(node, origin=replace(node.origin, performed=performed)),)

    return edited(launch, change)


def registers_of_the_result(launch):
    """It begins at another register, or the operands are exchanged."""

    def change(node):
        if isinstance(node, Perform):
            a, b, c = node.operands
            yield (replace(node, operands=(a, b, replace(c, index=(*c.index[:-1], c.index[-1] + 2)))),)
            yield (replace(node, operands=(b, a, c)),)

    return edited(launch, change)


# -- of A in registers


def factors_dropped(launch):
    """A wait that does not have the registers of A, or has those of the result in their place."""

    def change(node):
        if isinstance(node, Complete):
            yield (replace(node, factors=()),)
            yield (replace(node, factors=node.results),)

    return edited(launch, change)


def _loads_of_a(launch, node):
    """The loops that fill registers of A, and nothing else."""
    held = {n for v in launch.nodes if isinstance(v, Complete) for n in v.factors}
    inside = [v for v in nodes((node,)) if not isinstance(v, For)]
    return bool(inside) and all(isinstance(v, Stmt) and v.target.buffer in held for v in inside)


def written_in_flight(launch):
    """A is loaded once more, behind the begin or ahead of the wait."""

    def change(node):
        body = node.body if isinstance(node, For) else ()
        loads = [each for each in body if _loads_of_a(launch, each)]
        if loads and any(isinstance(each, Complete) for each in body):
            for n, each in enumerate(body):
                if isinstance(each, Complete):
                    yield (replace(node, body=(*body[:n], loads[0], *body[n:])),)
                if isinstance(each, Begin):
                    yield (replace(node, body=(*body[: n + 1], loads[0], *body[n + 1 :])),)

    return edited(launch, change)


def begin_ahead_of_loads(launch):
    """The registers of A are written behind the begin alone."""

    def change(node):
        body = node.body if isinstance(node, For) else ()
        begins = [each for each in body if isinstance(each, Begin)]
        if begins and any(_loads_of_a(launch, each) for each in body):
            yield (replace(node, body=(*begins, *(each for each in body if each not in begins))),)

    return edited(launch, change)


def registers_of_the_factor(launch):
    """Other registers, those of the next k, or those of the result."""

    def change(node):
        if isinstance(node, Perform) and isinstance(node.operands[0], Access):
            a, b, c = node.operands
            yield (replace(node, operands=(replace(a, index=(*a.index[:-1], a.index[-1] + 2)), b, c)),)
            yield (replace(node, operands=(c, b, c)),)
            if len(a.index) > 2:
                yield (replace(node, operands=(replace(a, index=(a.index[0] + 1, *a.index[1:])), b, c)),)

    return edited(launch, change)


def slots_of_the_factor(launch):
    """A load that fills neighbouring registers with each other's elements."""

    def change(node):
        if isinstance(node, Stmt) and _loads_of_a(launch, node):
            *outer, register = node.target.index
            yield (replace(node, target=replace(node.target, index=(*outer, register + 1 - register % 2 * 2))),)

    return edited(launch, change)


def layout_of_the_factor(launch):
    """A declaration that exchanges registers, or lanes."""

    def change(node):
        if isinstance(node, Perform):
            instruction = node.instruction
            factor, *others = instruction.operands
            for new in (
                replace(factor, register=factor.register + 1 - factor.register % 2 * 2),
                replace(factor, lane=factor.lane + 1 - factor.lane % 2 * 2),
            ):
                performed = replace(node.origin.performed, instruction=replace(instruction, operands=(new, *others)))
                yield (replace(node, origin=replace(node.origin, performed=performed)),)

    return edited(launch, change)


def rounded_on_the_way(launch):
    return edited(launch, lambda n: [(replace(n, rounded=("A",)),)] if isinstance(n, Perform) else [])


FAULTS = [
    stride, leading, piece, start, swizzle_of_buffer, alignment, pad, complete_dropped, results_dropped, begin_dropped,
    begin_moved, fence_dropped, barrier_dropped, lanes_of_the_result, registers_of_the_result,
]  # fmt: skip
FAULTS_OF_FACTORS = [
    factors_dropped, written_in_flight, begin_ahead_of_loads, registers_of_the_factor, slots_of_the_factor,
    layout_of_the_factor, rounded_on_the_way, complete_dropped, results_dropped, begin_dropped,
]  # fmt: skip
