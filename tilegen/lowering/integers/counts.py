"""Lists count their hits in integers that all of their points fit in, so that no place is taken twice."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.errors import LimitError
from tilegen.ir.nodes import Kernel


def check_counts(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """Raises LimitError where a list may have more hits at these sizes than its count can tell."""
    kernel = kernel.written_kernel
    for equation in kernel.equations:
        points = prod(max(0, r.extent.evaluate(sizes)) for r in equation.reduced)
        if equation.hits and kernel.tensor(equation.target).dtype == "i32" and points >= 2**31:
            message = f"a list of {points} points may have more hits than '{equation.target}' can count in i32"
            notes = (f"declare {equation.target}: i64[...], which is counted without atomic updates",)
            raise LimitError(message, equation.span, notes=notes)
