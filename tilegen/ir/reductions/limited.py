"""A kernel at fewer sizes: those at which an extent is at most a number."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Condition, Kernel
from tilegen.ir.parts.derived import Limited


def limit_sizes(kernel: Kernel, made: Limited) -> Kernel:
    """The kernel with that fact beside what it assumes of its sizes."""
    return replace(kernel, assumptions=(*kernel.assumptions, limit_of(made)), origin=kernel, derived=made)


def limit_of(made: Limited) -> Condition:
    """What the sizes have to be like."""
    return Condition(made.most - made.extent)
