"""The iteration of a loop that data pick, as the text has it."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Expr, Stmt
from tilegen.ir.reductions.scatter import pick_of
from tilegen.ir.walk import rewrite
from tilegen.lowering.launch.program import For, Spmd, nodes


def scattered(loop: For) -> tuple[Expr, tuple[Spmd, ...]]:
    """Which iteration of `loop` alone does something, and its body there, without the test."""
    place = next(pick.place for v in nodes(loop.body) if isinstance(v, Stmt) and (pick := pick_of(v.value, loop.name)))

    def picked(value: object) -> object:
        if isinstance(value, Stmt) and (pick := pick_of(value.value, loop.name)):
            return replace(value, value=pick.term)
        return value

    return place, rewrite(loop.body, picked)
