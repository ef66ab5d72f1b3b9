"""Loops written out whose iterations decide by themselves what runs in them: what is counted is what runs."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import const
from tilegen.ir.walk import substitute, walk
from tilegen.lowering.launch.program import For, If, Spmd


def write_out_choices(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with each unrolled loop written out that a test inside speaks of, together with such loops alone."""
    made: list[Spmd] = []
    for node in body:
        match node:
            case For(name, extent) if _is_unrolled(node) and _decides(node):
                for number in range(extent.const):
                    made += write_out_choices(substitute(node.body, {name: const(number)}))
            case For():
                made.append(replace(node, body=write_out_choices(node.body)))
            case If(roles=()) if all(c.value.is_const for c in node.test) and not node.flag:
                made += write_out_choices(node.body if all(c.holds({}) for c in node.test) else node.orelse)
            case If():
                made.append(replace(node, body=write_out_choices(node.body), orelse=write_out_choices(node.orelse)))
            case _:
                made.append(node)
    return tuple(made)


def _is_unrolled(loop: For) -> bool:
    return loop.kind == "unrolled" and loop.extent.is_const


def _decides(loop: For) -> bool:
    inside = {loop.name, *(each.name for each in walk(loop.body) if isinstance(each, For) and _is_unrolled(each))}
    tests = (condition for node in walk(loop.body) if isinstance(node, If) for condition in node.test)
    return any(loop.name in c.value.names() <= inside for c in tests)
