"""A kernel at fewer sizes is the same kernel, as long as there are such sizes."""

from __future__ import annotations

from tilegen.ir.nodes import Kernel
from tilegen.ir.parts.derived import Limited
from tilegen.ir.printing.show import show_fact
from tilegen.ir.reductions.limited import limit_of, limit_sizes
from tilegen.judge.kernel.equations import has_sizes
from tilegen.poly.verdict import Refused


def check_limited(kernel: Kernel, origin: Kernel, made: Limited) -> None:
    """Refused where `kernel` is more than `origin` with one more fact on its sizes, or is for none."""
    if kernel != limit_sizes(origin, made):
        raise Refused(f"kernel '{kernel.name}' has more than the extent {made.extent} limited")
    if not has_sizes(kernel):
        raise Refused(f"kernel '{kernel.name}' has no sizes with {show_fact(limit_of(made))}")
