"""A kernel that steps have derived from the one as written is that kernel, up to the order of terms of a reduction.

Each step back along `origin` is one theorem: a reduction is the combination of its parts (`parts`), a tensor computed
where it is read has the values that it had (`computed`), a range rounded up adds zeros alone (`rounded`).
"""

from __future__ import annotations

from tilegen.ir.derived import ComputedAt, RoundedUp, Split
from tilegen.ir.nodes import Kernel
from tilegen.judge.derived.computed import check_computed
from tilegen.judge.derived.parts import check_split
from tilegen.judge.derived.rounded import check_rounded
from tilegen.poly.verdict import Refused


def check_derived(kernel: Kernel) -> None:
    """Refused where `kernel`, or one that it was derived from, does not compute what the one before does."""
    while kernel.origin is not None:
        match kernel.derived:
            case Split():
                check_split(kernel, kernel.origin, kernel.derived)
            case ComputedAt():
                check_computed(kernel, kernel.origin, kernel.derived)
            case RoundedUp():
                check_rounded(kernel, kernel.origin, kernel.derived)
            case _:
                raise Refused(f"kernel '{kernel.name}' is derived from another, and it is not known how")
        kernel = kernel.origin
    if kernel.derived is not None:
        raise Refused(f"kernel '{kernel.name}' is derived from none, and it is said how")
