"""What is right in a lowered schedule, and hardly meant: one thread for all, vectors and numbers that are none."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, isinf, prod

from tilegen.errors import LimitError
from tilegen.interpreter.scalar import converter
from tilegen.ir.nodes import BLOCK_KINDS, FLOATS, THREAD_KINDS, Const, Node, Tree
from tilegen.ir.walk import leaves, loops, walk
from tilegen.lowering import lower


def remarks(trees: Iterable[tuple[str, Tree]]) -> list[str]:
    """A line for each launch that runs on one thread, each step that was to make vectors and makes none, and each
    number that its type has not.

    Args:
        trees: each with the name that the lines begin with. What is beyond a limit has none.
    """
    found: list[str] = []
    for name, tree in trees:
        try:
            launches = lower(tree)
        except LimitError:
            continue
        alone = [launch.name for launch in launches if _runs_alone(launch.distributed)]
        found += [f"{name}: {launch} runs on one thread: no loop of this launch is bound" for launch in alone]
        dropped = {step: why for launch in launches for step, why in launch.dropped.items()}
        found += [f"{name}: {step} makes no vectors: {why}" for step, why in dropped.items()]
        numbers = dict.fromkeys(v for v in walk(tree.kernel.equations) if isinstance(v, Const) and v.dtype in FLOATS)
        infinite = [c for c in numbers if isfinite(c.value) and isinf(converter(c.dtype)(c.value))]
        found += [f"{name}: {c.value:g} is {'-' * (c.value < 0)}inf in {c.dtype}" for c in infinite]
    return found


def _runs_alone(launch: Node) -> bool:
    """True if more than one statement instance runs in it, and no loop is bound."""
    bound = any(loop.kind in (*BLOCK_KINDS, *THREAD_KINDS) for loop in loops(launch))
    counts = (prod(loop.extent.const if loop.extent.is_const else 2 for loop in path) for path, _ in leaves((launch,)))
    return not bound and max(counts) > 1
