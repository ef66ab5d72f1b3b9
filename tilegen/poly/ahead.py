"""Pipelined loops: what is copied ahead must be the same when it is copied earlier."""

from __future__ import annotations

from tilegen.ir.nodes import Load, Loop, Tree
from tilegen.ir.walk import loops, reads, stmts, writes
from tilegen.poly.project import Program
from tilegen.poly.verdict import Refused


def check_ahead(program: Program) -> None:
    """Refused where a pipelined loop copies what it writes itself, or fills a buffer by more than copies."""
    tree = program.tree
    for loop in tree.body:
        if isinstance(loop, Loop) and loop.stages > 1:
            raise Refused(
                f"'{loop.name}' is outermost in its launch, and there is nothing around it for its buffers to live in",
                None,
                "pipeline a loop inside the block loops",
            )
    for loop in loops(tree.body):
        if loop.stages > 1:
            _check_loop(tree, loop)


def _check_loop(tree: Tree, loop: Loop) -> None:
    """Moving the copies of an iteration before earlier iterations changes nothing that they read."""
    mine = staged(tree, loop)
    ahead = [s for node in loop.body[: leading(loop, mine)] for s in stmts(node)]
    written = {name for s in stmts(loop.body) if s not in ahead for name, _ in writes(s)}
    for name in sorted(mine & written):
        raise Refused(
            f"'{name}' is not filled at the start of '{loop.name}' alone, and cannot run ahead",
            None,
            "pipeline copies that stand at the start of the loop: caches of what the loop only reads",
        )
    if not ahead:
        raise Refused(
            f"nothing at the start of '{loop.name}' only copies, so nothing can run ahead",
            None,
            "cache_shared and cache_register put a copy there for what the loop only reads",
        )
    for stmt in ahead:
        for name, _ in reads(stmt):
            if name in written:
                raise Refused(
                    f"'{name}' is written in '{loop.name}', and a copy into '{stmt.target.buffer}' would come early",
                    None,
                    "pipeline a loop that only reads what it copies",
                )


def staged(tree: Tree, loop: Loop) -> frozenset[str]:
    """The buffers that run ahead in a pipelined loop: those that live in it, and are copied from outside it."""
    mine = {b.name for b in tree.buffers if b.space != "global" and b.scope == loop.name}
    return frozenset(
        name
        for name in mine
        if all(
            s.is_copy and isinstance(s.value, Load) and s.value.buffer not in mine
            for s in stmts(loop.body)
            if s.target.buffer == name
        )
    )


def leading(loop: Loop, mine: frozenset[str]) -> int:
    """How many children at the start of the body do nothing but copy into the buffers `mine`."""
    count = 0
    for node in loop.body:
        if not all(s.is_copy and isinstance(s.value, Load) and s.target.buffer in mine for s in stmts(node)):
            break
        count += 1
    return count
