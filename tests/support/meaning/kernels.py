"""What the text of a kernel means, by brute force: plain loops, exact integers, small sizes.

It shares nothing with tilegen, so that it can say whether tilegen reads a text as it is documented.
"""

from __future__ import annotations

import ast

from tests.support.meaning.elements import Run
from tests.support.meaning.text import Erroneous, facts_of, parse_kernel, sizes_of

__all__ = ["Erroneous", "is_admitted", "meaning", "size_names"]


def meaning(text, sizes, arrays, *, name="random", attributes=None, strict=False):
    """The elements that the kernel gives to its outputs, {output: {place: value}}. Raises Erroneous.

    Args:
        arrays: the inputs by name; None where only errors are looked for, and every input is 1.
        strict: whether an undefined element may not even be read where its value is not wanted.
    """
    return Run(parse_kernel(text, name), sizes, arrays, attributes or {}, strict).outputs()


def size_names(text, name="random"):
    """The sizes of a kernel, in their order."""
    return [size for size in sizes_of(parse_kernel(text, name)) if size not in parse_kernel(text, name).attributes]


def is_admitted(text, sizes, name="random", attributes=None):
    """True if the kernel's facts hold at these sizes, and every extent is at least 1."""
    kernel = parse_kernel(text, name)
    run = Run(kernel, sizes, {}, attributes or {})
    facts = [fact for node in kernel.facts if not isinstance(node, ast.Call) for fact in facts_of(node)]
    return all(run.holds(fact, run.known) for fact in facts) and all(e > 0 for s in run.shapes.values() for e in s)
