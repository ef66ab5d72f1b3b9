"""Faults in products by warpgroups, put into a lowered program: each function gives the launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_begin_of_products, is_hold, is_wait_for_products
from tests.support.mutants.places import each, edited, of
from tilegen.ir.hardware.instructions import Fragment
from tilegen.ir.parts.swizzle import hardware_swizzle
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import For, Perform
from tilegen.lowering.launch.timelines import Barrier


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
        for other in (None, hardware_swizzle(64, 2)):
            yield replace(launch, buffers=dict(launch.buffers) | {name: replace(launch.buffers[name], swizzle=other)})


def alignment(launch):
    for name in sorted(_buffers(launch)):
        for align in (16, 512):
            yield replace(launch, buffers=dict(launch.buffers) | {name: replace(launch.buffers[name], align=align)})


def pad(launch):
    for name in sorted(_buffers(launch)):
        yield replace(launch, buffers=dict(launch.buffers) | {name: replace(launch.buffers[name], pad=8)})


def complete_dropped(launch):
    return each(launch, is_wait_for_products, lambda n: [()])


def results_dropped(launch):
    return each(launch, is_wait_for_products, lambda n: [(replace(n, buffers=()),)])


def begin_dropped(launch):
    return each(launch, is_begin_of_products, lambda n: [()])


@of(is_hold)
def hold_dropped(node, launch):
    """Of all, or of one of several."""
    yield ()
    yield from ((replace(node, buffers=(name,)),) for name in node.buffers if node.buffers[1:])


@of(For)
def begin_moved(node, launch):
    """After the products, or to the head of a loop around them."""
    if any(is_begin_of_products(each) for each in node.body):
        (begin,) = (each for each in node.body if is_begin_of_products(each))
        others = [each for each in node.body if each is not begin]
        yield (begin, replace(node, body=tuple(others)))
        yield (replace(node, body=(*others, begin)),)


def fence_dropped(launch):
    return each(launch, Barrier, lambda n: [(replace(n, fence=False),)] if n.fence else [])


def barrier_dropped(launch):
    return each(launch, Barrier, lambda n: [()] if n.fence else [])


@of(Perform)
def lanes_of_the_result(node, launch):
    """A declaration that gives neighbouring lanes elements of each other's."""
    instruction = node.instruction
    *inputs, result = instruction.operands
    assert isinstance(result, Fragment)
    mixed = replace(result, lane=result.within % 2 + result.lane - result.lane % 2)
    other = replace(instruction, operands=(*inputs, mixed))
    performed = replace(node.origin.performed, instruction=other)
    yield (replace(node, origin=replace(node.origin, performed=performed)),)


@of(Perform)
def registers_of_the_result(node, launch):
    """It begins at another register, or the operands are exchanged."""
    a, b, c = node.operands
    yield (replace(node, operands=(a, b, replace(c, index=(*c.index[:-1], c.index[-1] + 2)))),)
    yield (replace(node, operands=(b, a, c)),)
