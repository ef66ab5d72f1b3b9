"""A kernel that steps have derived from the one as written is that kernel, up to the order of terms of a reduction.

Each step back along `origin` is one theorem: a reduction is the combination of its parts (`parts`), a tensor computed
where it is read has the values that it had (`computed`), a range rounded up adds zeros alone (`rounded`), fewer sizes
change nothing (`limited`), a prefix made of other results has its terms (`regrouped`), a list stores each hit at its
rank (`ranked`), the best of a row are in its best tiles (`best_of_tiles`), dimensions side by side are one
(`flattened`), windows of an input show its elements (`windowed`). Each value is defined before it is read
(`recurrences`).
"""

from __future__ import annotations

from tilegen.ir.nodes import Kernel
from tilegen.ir.parts.derived import (
    Anchored,
    BestOfTiles,
    ComputedAt,
    Flattened,
    Limited,
    Ranked,
    Regrouped,
    RoundedUp,
    Split,
    Windowed,
)
from tilegen.judge.derived.anchored import check_anchored
from tilegen.judge.derived.best_of_tiles import check_best_of_tiles
from tilegen.judge.derived.computed import check_computed
from tilegen.judge.derived.flattened import check_flattened
from tilegen.judge.derived.limited import check_limited
from tilegen.judge.derived.parts import check_split
from tilegen.judge.derived.ranked import check_ranked
from tilegen.judge.derived.regrouped import check_regrouped
from tilegen.judge.derived.rounded import check_rounded
from tilegen.judge.derived.windowed import check_windowed
from tilegen.judge.kernel.recurrences import check_defined_before
from tilegen.poly.verdict import Refused


def check_derived(kernel: Kernel) -> None:
    """Refused where `kernel`, or one that it was derived from, does not compute what the one before does."""
    while kernel.origin is not None:
        _check_running(kernel.origin, kernel.derived)
        match kernel.derived:
            case Split():
                check_split(kernel, kernel.origin, kernel.derived)
            case ComputedAt():
                check_computed(kernel, kernel.origin, kernel.derived)
            case RoundedUp():
                check_rounded(kernel, kernel.origin, kernel.derived)
            case Limited():
                check_limited(kernel, kernel.origin, kernel.derived)
            case Regrouped():
                check_regrouped(kernel, kernel.origin, kernel.derived)
            case Ranked():
                check_ranked(kernel, kernel.origin, kernel.derived)
            case Anchored():
                check_anchored(kernel, kernel.origin, kernel.derived)
            case BestOfTiles():
                check_best_of_tiles(kernel, kernel.origin, kernel.derived)
            case Flattened():
                check_flattened(kernel, kernel.origin, kernel.derived)
            case Windowed():
                check_windowed(kernel, kernel.origin, kernel.derived)
            case _:
                raise Refused(f"kernel '{kernel.name}' is derived from another, and it is not known how")
        check_defined_before(kernel)
        kernel = kernel.origin
    if kernel.derived is not None:
        raise Refused(f"kernel '{kernel.name}' is derived from none, and it is said how")


def _check_running(origin: Kernel, made: object) -> None:
    """Refused where a reduction that is read while it runs gets other terms, or what reads it another place."""
    changed = (
        made.target if isinstance(made, Split | ComputedAt | RoundedUp | Regrouped | Anchored | BestOfTiles) else None
    )
    for equation in origin.equations:
        if equation.running is not None and changed in (equation.target, equation.running):
            raise Refused(
                f"'{equation.target}' reads '{equation.running}' while that runs, so that '{changed}' stays as it is",
                way=f"put this step before the scan of '{equation.target}'",
            )
