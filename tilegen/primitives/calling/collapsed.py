"""What a step means that names loops together, which `collapse` has given one name."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tilegen.ir.nodes import Tree
from tilegen.ir.walk import loops
from tilegen.primitives import Primitive
from tilegen.primitives.rewriting.tree import nest_of


def loop_by_loop(step: Primitive, tree: Tree) -> Primitive:
    """`step` with the loops themselves in lists of them, and the innermost one where a place is named."""
    if not any(loop.collapsed for loop in loops(tree.body)):
        return step
    new: dict[str, Any] = {}
    for f in fields(step):  # type: ignore[arg-type]
        value = getattr(step, f.name)
        if f.name == "at" and value:
            new[f.name] = nest_of(tree, value)[-1]
        elif str(f.type).startswith("tuple[LoopName"):
            new[f.name] = tuple(loop for each in value for loop in nest_of(tree, each))
    return replace(step, **new)  # type: ignore[type-var]
