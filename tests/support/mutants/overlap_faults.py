"""Faults in products that run on into the next iteration: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.bulk_faults import edited, moved
from tests.support.mutants.kinds import is_begin_of_products, is_release, is_wait_for_products
from tests.support.mutants.ring_faults import each, loops_changed
from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Condition
from tilegen.ir.walk import substitute, walk
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.program import For, If, Perform, names_in


def complete_dropped(launch):
    """In the loop, or after it."""
    return each(launch, is_wait_for_products, lambda n: [()])


def complete_of_nothing(launch):
    return each(launch, is_wait_for_products, lambda n: [(replace(n, buffers=()),)] if n.buffers else [])


def complete_the_earlier_alone(launch):
    """After the loop, too."""
    return each(launch, is_wait_for_products, lambda n: [(replace(n, left=1),)] if not n.left else [])


def begin_dropped(launch):
    return each(launch, is_begin_of_products, lambda n: [()])


def begin_behind(launch):
    return loops_changed(launch, lambda n: _exchanged(n, is_begin_of_products, 1))


def release_dropped(launch):
    return each(launch, is_release, lambda n: [()])


def release_untested(launch):
    """In the loop; after it there has been an iteration, at every size."""

    def change(node):
        for place, inner in enumerate(node.body):
            if _releases(inner):
                yield (replace(node, body=(*node.body[:place], *inner.body, *node.body[place + 1 :])),)

    return loops_changed(launch, change)


def release_of_this_iteration(launch):
    """What the products that run on read is filled again."""

    def change(node):
        if not _releases(node) or node.test[0].value.names().isdisjoint({"ko"}):
            return
        (release,) = node.body
        yield (replace(release, at=moved(release.barrier, 1, launch)),)
        yield (replace(node, body=(replace(release, at=moved(release.barrier, 1, launch)),)),)

    return each(launch, If, lambda n: list(change(n)))


def release_of_what_is_read(launch):
    """Each iteration releases its own slot, whose products run on."""

    def change(node):
        (late,) = [inner for inner in node.body if _releases(inner)] or [None]
        if late is None:
            return
        number = node.ring.number
        own = If((Condition(var(node.name)),), substitute(late.body, {number: var(number) + 1}))
        yield (replace(node, body=tuple(own if inner is late else inner for inner in node.body)),)

    for one in loops_changed(launch, change):
        yield from edited(one, lambda n: [()] if _is_last_release(n) and "ko" not in names_in(walk(n)) else [])


def release_ahead_of_the_wait(launch):
    """In the loop, or after it."""
    yield from loops_changed(launch, lambda n: _exchanged(n, is_wait_for_products, 1))
    yield from edited(launch, _last_release_first)


def _last_release_first(node):
    inner = getattr(node, "body", ())
    for place, first in enumerate(inner[:-1]):
        if is_wait_for_products(first) and not first.left and _is_last_release(inner[place + 1]):
            swapped = (*inner[:place], inner[place + 1], first, *inner[place + 2 :])
            yield (replace(node, body=swapped),)


def release_of_another_slot(launch):
    return each(launch, is_release, lambda n: [(replace(n, at=moved(n.barrier, by, launch)),) for by in (1, -1)])


def operand_of_another_slot(launch):
    """The products of an iteration read what has not been waited for."""

    def change(node):
        for place, operand in enumerate(node.operands):
            if isinstance(operand, Described):
                new = replace(operand, start=_shifted(operand.start, launch))
                yield (replace(node, operands=(*node.operands[:place], new, *node.operands[place + 1 :])),)

    return each(launch, Perform, lambda n: list(change(n)) if n.instruction.protocol else [])


def _shifted(access, launch):
    stages = launch.buffers[access.buffer].shape[0].const
    return Access(access.buffer, ((access.index[0] + 1) % stages, *access.index[1:]))


def _releases(node):
    return isinstance(node, If) and len(node.body) == 1 and is_release(node.body[0])


def _is_last_release(node):
    """With a test, or without one where the loop has an iteration for certain."""
    return is_release(node) or _releases(node)


def _exchanged(loop, kind, by):
    """A node of a kind in the loop, and the one after it, the other way round."""
    for place, node in enumerate(loop.body[:-by]):
        if kind(node) and isinstance(loop, For):
            body = list(loop.body)
            body[place], body[place + by] = body[place + by], body[place]
            yield (replace(loop, body=tuple(body)),)
