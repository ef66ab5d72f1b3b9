"""Pipelined loops: copies run before their use, in as many buffers as there are stages.

    for ko < n  3 stages             for ko.fill < 2
      A.shared[..] = A[.. ko ..]       A.shared[ko.fill, ..] = A[.. ko.fill ..]       if ko.fill < n
      use A.shared[..]               for ko < n
                                       A.shared[(ko + 2)%3, ..] = A[.. ko + 2 ..]     if ko + 2 < n
                                       use A.shared[ko%3, ..]

The result is an ordinary tree, so barriers are derived from it like from any other. Why the values are
right: iteration ko reads slot ko%3, which was filled for ko two iterations before; between the two, only the
slots of ko + 1 and ko + 2 are written, and three neighbouring numbers differ modulo 3.

A loop of registers can run across the iterations of the loop around it, `for ki < 8  2 stages across ko`:

    for t                            for ko < n
      A.reg[0] = A[0, 0]               for t
                                         for ki < 7
                                           A.reg[(ki + 1)%2] = A[ko, ki + 1];  use A.reg[ki%2]
                                       for t
                                         A.reg[0] = A[ko + 1, 0]  if ko + 1 < n;  use A.reg[1]

What comes between the two nests of an iteration is free: there the threads wait for the next tile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, affine, const, var
from tilegen.ir.facts.ranges import begins, follows, interval_of
from tilegen.ir.nodes import THREAD_KINDS, Access, Buffer, Load, Loop, Node, Tree
from tilegen.ir.walk import add_guard, loop_around, loops, rewrite_accesses, rewrite_nodes, stmts, substitute
from tilegen.judge import has_inside, leading_copies, nest_of, staged_buffers, useful_stages


@dataclass(frozen=True)
class Pipe:
    """A pipelined loop of a launch: its shared buffers, and how many groups of copies may be on their way."""

    loop: str
    buffers: frozenset[str]
    pending: int


def write_out_pipelines(tree: Tree) -> tuple[Tree, tuple[Pipe, ...]]:
    """The tree with its pipelined loops written out."""
    tree = replace(tree, body=rewrite_nodes(tree.body, _without_idle_stages))
    pipes: list[Pipe] = []
    for loop in list(loops(tree.body)):
        if loop.stages > 1 and loop.name not in [pipe.loop for pipe in pipes]:
            tree, pipe = _written_out(tree, loop)
            pipes.append(pipe)
    return tree, tuple(p for p in pipes if p.buffers)


def _without_idle_stages(node: Node) -> Node:
    """A loop with no more stages than are ever filled."""
    return replace(node, stages=useful_stages(node)) if isinstance(node, Loop) else node


def _written_out(tree: Tree, loop: Loop) -> tuple[Tree, Pipe]:
    staged = staged_buffers(tree, loop)
    tree = _own(tree, loop, staged) if loop.across else tree
    shared = frozenset(b.name for b in tree.buffers if b.space == "shared" and b.name in staged)
    outermost = loop.across or loop.name

    def change(value: object) -> object:
        if not isinstance(value, Loop) or value.name != outermost:
            return value
        if loop.across and not has_inside(value, loop.name):
            return value
        if loop.specialized:
            return replace(value, body=_body_at_slot(value.body, staged, var(value.name) % value.stages, {}))
        sizes = tree.kernel.sizes
        return _run_across(value, loop.name, staged, sizes) if loop.across else _fill_stages(value, staged, sizes)

    buffers = tuple(
        _add_stages(b, loop.stages, loop_around(tree, outermost, b.name)) if b.name in staged else b
        for b in tree.buffers
    )
    return replace(tree, buffers=buffers, body=rewrite_nodes(tree.body, change)), Pipe(
        loop.name, shared, loop.stages - 2
    )


def _own(tree: Tree, loop: Loop, staged: frozenset[str]) -> Tree:
    """Registers that will live outside of thread loops get dimensions over these: each thread has its own."""
    outer = next(each for each in loops(tree.body) if each.name == loop.across and has_inside(each, loop.name))
    around = [each for each in loops(outer.body) if has_inside(each, loop.name)]
    threads = [each for each in around if each.kind in THREAD_KINDS]
    places, count = tuple(var(each.name) for each in threads), len(threads)

    def change(access: Access | Load) -> Access | Load:
        return replace(access, index=(*places, *access.index)) if access.buffer in staged else access

    def widen(buffer: Buffer) -> Buffer:
        order = (*range(count), *(dim + count for dim in buffer.order))
        return replace(buffer, shape=(*(each.extent for each in threads), *buffer.shape), order=order)

    buffers = tuple(widen(b) if b.name in staged else b for b in tree.buffers)
    return replace(tree, buffers=buffers, body=rewrite_accesses(tree.body, change))


def _fill_stages(loop: Loop, staged: frozenset[str], sizes: Collection[str]) -> tuple[Node, ...]:
    """The loop that fills the first stages, and the loop itself with its copies ahead."""
    copies, rest = _split_copies(loop, staged)
    fill = f"{loop.name}.fill"
    ahead = loop.stages - 1
    inside = begins(loop.extent - 1 - var(fill))
    first = _body_at_slot(copies, staged, var(fill), {loop.name: var(fill)})
    first = first if follows(inside, (), {fill: const(ahead)}, sizes) else add_guard(first, inside)
    later = _guard_remaining(_early_copies(loop, copies, staged), loop.extent - loop.stages - var(loop.name), loop)
    used = _body_at_slot(rest, staged, var(loop.name) % loop.stages, {})
    filling = Loop(fill, const(ahead), first, "unrolled", stages=loop.stages, span=loop.span, step=loop.step)
    return filling, replace(loop, body=(*later, *used))


def _run_across(outer: Loop, name: str, staged: frozenset[str], sizes: Collection[str]) -> tuple[Node, ...]:
    """The nest that fills the first registers, and the loop `outer` with that of `name` in two parts.

    The last iterations stand in a nest of their own: they copy for the next iteration of `outer`.
    """
    nest = nest_of(outer, name)
    assert nest is not None, "the judge refuses this"
    loop = next(inner for inner in loops(nest) if inner.name == name)
    copies, rest = _split_copies(loop, staged)
    ahead, fill, last = loop.stages - 1, f"{name}.fill", f"{name}.last"
    start = _body_at_slot(copies, staged, var(fill), {name: var(fill), outer.name: const(0)})
    runs = begins(outer.extent - 1)
    start = start if follows(runs, (), {}, sizes) else add_guard(start, runs)
    used = _body_at_slot(rest, staged, var(name) % loop.stages, {})
    main = replace(loop, extent=loop.extent - ahead, body=(*_early_copies(loop, copies, staged), *used))
    coming = _body_at_slot(copies, staged, var(last), {name: var(last), outer.name: var(outer.name) + 1})
    coming = _guard_remaining(coming, outer.extent - 2 - var(outer.name), outer)
    at = loop.extent - ahead + var(last)
    ending = _body_at_slot(rest, staged, at % loop.stages, {name: at})

    def in_nest(inner: Loop) -> Node:
        (node,) = rewrite_nodes((nest,), lambda v: inner if isinstance(v, Loop) and v.name == name else v)
        return node

    place = outer.body.index(nest)
    parts = in_nest(main), in_nest(replace(loop, name=last, extent=const(ahead), body=(*coming, *ending)))
    body = (*outer.body[:place], *parts, *outer.body[place + 1 :])
    return in_nest(replace(loop, name=fill, extent=const(ahead), body=start)), replace(outer, body=body)


def _split_copies(loop: Loop, staged: frozenset[str]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The copies at the start of the body, and the rest of it."""
    count = leading_copies(loop, staged)
    copies, rest = loop.body[:count], loop.body[count:]
    assert not any(s.target.buffer in staged for node in rest for s in stmts(node)), "the judge refuses this"
    return copies, rest


def _early_copies(loop: Loop, copies: tuple[Node, ...], staged: frozenset[str]) -> tuple[Node, ...]:
    """The copies that an iteration makes ahead, in those that an iteration needs them of."""
    at = var(loop.name) + (loop.stages - 1)
    return _body_at_slot(copies, staged, at % loop.stages, {loop.name: at})


def _body_at_slot(
    body: tuple[Node, ...], staged: frozenset[str], slot: Affine, values: Mapping[str, Affine]
) -> tuple[Node, ...]:
    """`body` at these values of loops, with the slot in front of every index of the buffers `staged`."""

    def change(access: Access | Load) -> Access | Load:
        return replace(access, index=(slot, *access.index)) if access.buffer in staged else access

    return rewrite_accesses(substitute(body, values), change)


def _guard_remaining(body: tuple[Node, ...], left: Affine, loop: Loop) -> tuple[Node, ...]:
    """`body` in the iterations of the loop with `left` >= 0; nothing where there are none."""
    ends = interval_of(left, {loop.name: loop.extent.const}) if loop.extent.is_const else None
    return () if ends and ends[1] < 0 else add_guard(body, begins(left))


def _add_stages(buffer: Buffer, stages: int, scope: str | None) -> Buffer:
    order = (0, *(dim + 1 for dim in buffer.order))
    return replace(buffer, shape=(affine(stages), *buffer.shape), order=order, scope=scope)
