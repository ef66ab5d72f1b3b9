"""Tiles whose reads are all inside of their tensors: one test for them, and a version without fallbacks.

    for r < 3                                   if b*32 >= 1 and b*32 + 32 < N
      m[t] = max(m[t], X[.. else -inf])           for r < 3
                                                    m[t] = max(m[t], X[..])
                                                else
                                                  for r < 3 ...  as before

What stands after the test of a full tile already has the version that is right everywhere: the test is longer then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilegen.ir.affine import const
from tilegen.ir.nodes import Buffer, Condition, Op, Stmt
from tilegen.ir.walk import loads, walk
from tilegen.lowering.guards.guards import IsImplied, Tests, hardest_instance, strictest, synchronizes
from tilegen.lowering.guards.reads import inside
from tilegen.lowering.launch.program import For, If, Spmd, nodes, with_body, with_lists


def split_inner_tiles(
    body: tuple[Spmd, ...], buffers: Mapping[str, Buffer], inner: Mapping[str, int], is_implied: IsImplied
) -> tuple[Spmd, ...]:
    """`body` with versions for the tiles whose reads need no fallback; `inner` are the coordinates of threads."""

    def split(body: tuple[Spmd, ...], given: Tests) -> tuple[Spmd, ...]:
        return tuple([split_node(node, given) for node in body])

    def split_node(node: Spmd, given: Tests) -> Spmd:
        match node:
            case If(test=test, body=then, orelse=orelse) if orelse and not node.roles:
                more = tuple(_where_inside(then, given + test, buffers, inner, is_implied))
                return replace(node, test=test + more) if more else with_body(node, split(then, given + test))
            case If(test=test, body=then, orelse=()):
                return with_body(node, split(then, given + test))
            case For(extent=extent) if extent != const(1) and not synchronizes(node):
                test = tuple(_where_inside((node,), given, buffers, inner, is_implied))
                return If(test, (node,), (node,)) if test else with_body(node, split(node.body, given))
            case _:
                return with_lists(node, lambda inside: split(inside, given))

    return split(body, ())


def _where_inside(
    body: tuple[Spmd, ...],
    given: Tests,
    buffers: Mapping[str, Buffer],
    inner: Mapping[str, int],
    is_implied: IsImplied,
) -> Iterator[Condition]:
    """The tests that all reads of `body` are inside of their tensors; none where they say nothing or are certain."""
    found = nodes(body)
    loops = [node for node in found if isinstance(node, For)]
    box = {**inner, **{f.name: f.extent.const for f in loops if f.extent.is_const}}
    blocked = {f.name for f in loops if not f.extent.is_const}
    tests: list[Condition] = []
    for read in (load for node in found if isinstance(node, Stmt) and _has_plain_reads(node) for load in loads(node)):
        if not read.fallback:
            continue
        for condition in inside(buffers[read.buffer], read.index):
            if not is_implied(condition, given):
                low = hardest_instance(condition, (), box, blocked)
                if low is None or is_implied(Condition(-low.value - 1), ()):
                    return
                tests.append(low)
    yield from strictest(tests)


def _has_plain_reads(stmt: Stmt) -> bool:
    """True of a statement that computes, without choices, which have tests of their own."""
    return not stmt.is_copy and not any(isinstance(v, Op) and v.name == "select" for v in walk(stmt.value))
