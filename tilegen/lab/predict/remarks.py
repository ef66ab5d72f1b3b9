"""What is right in a lowered schedule, and hardly meant: one thread for a launch or a tile, and vectors and
numbers that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, isinf, prod

from tilegen.errors import LimitError
from tilegen.interpreter.scalar import converter
from tilegen.ir.affine import const
from tilegen.ir.nodes import BLOCK_KINDS, FLOATS, THREAD_KINDS, Const, Loop, Node, Tree
from tilegen.ir.printing.show import show_fact
from tilegen.ir.walk import leaves, loops, walk
from tilegen.ir.written import tree_of
from tilegen.lowering import Launch, lower
from tilegen.poly import Facts


def remarks(trees: Iterable[tuple[str, Tree]]) -> list[str]:
    """A line for each launch of a schedule that runs on one thread, each tile that one thread of a block fills, each
    step that was to make vectors and makes none, and each number that its type has not.

    Args:
        trees: each with the name that the lines begin with. What is beyond a limit has none.
    """
    found: list[str] = []
    for name, tree in trees:
        try:
            launches = lower(tree)
        except LimitError:
            continue
        for launch in launches if tree != tree_of(tree.kernel) else ():
            if runs_alone(launch.distributed):
                found += [f"{name}: {launch.name} runs on one thread: no loop of this launch is bound"]
            tiles = tiles_of_one_thread(launch)
            found += [f"{name}: {waste}: {' and '.join(steps)} shares it out" for waste, steps in tiles]
        needed = dict.fromkeys(c for launch in launches for c in launch.requires)
        if not Facts(tree.kernel).is_possible(needed, {}):
            never = " and ".join(map(show_fact, needed))
            found += [f"{name}: a part of the vectors is made at a time: {never} never hold together"]
        dropped = {step: why for launch in launches for step, why in launch.dropped.items()}
        found += [f"{name}: {step} makes no vectors: {why}" for step, why in dropped.items()]
        numbers = dict.fromkeys(v for v in walk(tree.kernel.equations) if isinstance(v, Const) and v.dtype in FLOATS)
        infinite = [c for c in numbers if isfinite(c.value) and isinf(converter(c.dtype)(c.value))]
        found += [f"{name}: {c.value:g} is {'-' * (c.value < 0)}inf in {c.dtype}" for c in infinite]
    return found


def runs_alone(launch: Node) -> bool:
    """True if more than one statement instance runs in it, and no loop is bound."""
    bound = any(loop.kind in (*BLOCK_KINDS, *THREAD_KINDS) for loop in loops(launch))
    counts = (prod(loop.extent.const if loop.extent.is_const else 2 for loop in path) for path, _ in leaves((launch,)))
    return not bound and max(counts) > 1


def tiles_of_one_thread(launch: Launch) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is to say of each tile in memory that the first thread of a block fills by itself, and steps that share it
    out."""
    spaces, found = {b.name: b.space for b in launch.memory}, dict[str, Loop]()
    for path, stmt in leaves((launch.distributed,)):
        plain = all(loop.kind in ("serial", "unrolled", *BLOCK_KINDS) and not loop.performed for loop in path)
        names = {name for index in stmt.target.index for name in index.names()}
        own = [v for v in path if v.name in names and v.kind not in BLOCK_KINDS and not _binds_threads(v)]
        if plain and spaces[stmt.target.buffer] != "register" and any(v.extent != const(1) for v in own):
            found[stmt.target.buffer] = own[-1]
    threads = launch.block[0]
    for buffer, loop in found.items() if prod(launch.block) > 1 else ():
        steps: tuple[str, ...] = (f"bind({loop.name}, thread.x)",)
        if not loop.extent.is_const or loop.extent.const > threads:
            stem = loop.name.replace(".", "_")
            steps = (f"tile({loop.name}, {threads}) -> {stem}_o, {stem}_t", f"bind({stem}_t, thread.x)")
        yield f"one thread of {prod(launch.block)} fills '{buffer}'", steps


def _binds_threads(loop: Loop) -> bool:
    return any(each.kind in THREAD_KINDS for each in loops(loop))
