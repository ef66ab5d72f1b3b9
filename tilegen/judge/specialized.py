"""Specialized loops: a producer can fill what the others use, each in a loop of its own.

Theorem: the iterations of a pipelined loop may be divided between a producer and consumers if the loop runs once in a
block, and what it copies ahead are bulk copies alone. All else is the work of the consumers.
"""

from __future__ import annotations

from tilegen.ir.nodes import BLOCK_KINDS, Loop, Node
from tilegen.ir.walk import loops
from tilegen.judge.pipelines import leading_copies, staged_buffers
from tilegen.poly.instances import Projection
from tilegen.poly.verdict import Refused


def check_specialized(program: Projection) -> None:
    """Refused where a specialized loop cannot be divided."""
    for launch in program.tree.body:
        mine = [loop for loop in loops(launch) if loop.specialized]
        if len(mine) > 1:
            raise Refused(
                f"'{mine[0].name}' and '{mine[1].name}' are specialized in one launch",
                None,
                "a block has one producer, which serves one loop",
                code="form",
            )
        for loop in mine:
            _check_loop(program, launch, loop)


def _check_loop(program: Projection, launch: Node, loop: Loop) -> None:
    around = _loops_around(launch, loop)
    inner = next((each for each in around if each.kind not in BLOCK_KINDS), None)
    if inner is not None:
        raise Refused(
            f"'{loop.name}' is specialized and runs inside '{inner.name}', and a producer begins once in a block",
            None,
            "order the loops so that nothing but block loops is around it",
            code="form",
        )
    copies = loop.body[: leading_copies(loop, staged_buffers(program.tree, loop))]
    other = next((node for node in copies if not isinstance(node, Loop) or node.kind != "bulk"), None)
    if other is not None:
        raise Refused(
            f"'{loop.name}' is specialized, and all threads share a copy in it",
            None,
            "bulk(...) lets one thread start the copy",
            code="form",
        )


def _loops_around(launch: Node, loop: Loop) -> list[Loop]:
    """The loops around `loop`, outermost first."""
    found: list[Loop] = []
    node = launch
    while isinstance(node, Loop) and node is not loop:
        found.append(node)
        node = next(child for child in node.body if any(each is loop for each in loops(child)))
    return found
