"""A reduction of terms from a row's start on has the same terms where a loop runs over all places of that start.

Theorem: an element of a row that rises from 0 to L is one of 0 to L. So of the iterations of a loop over these, one is
the element, and there a term is at or after the element where it is at or after the loop. In all others the terms
are neutral. So each term is there once, in the order in which they were.
"""

from __future__ import annotations

from tilegen.ir.nodes import ONLY, Kernel, Nothing, Op
from tilegen.ir.parts.derived import Anchored
from tilegen.ir.reductions.anchored import anchored
from tilegen.ir.reductions.initial import COMBINES, init_value
from tilegen.judge.derived.parts import equation_of
from tilegen.poly.verdict import Refused


def check_anchored(kernel: Kernel, origin: Kernel, made: Anchored) -> None:
    """Refused where `kernel` has more than a loop over the starts of a row, or terms that are not neutral elsewhere."""
    whole = equation_of(origin, made.target)
    taken = {*origin.sizes, *(r.name for r in (*whole.loops, *whole.reduced))}
    if made.loop in taken or kernel != anchored(origin, made):
        raise Refused(f"kernel '{kernel.name}' has more than the terms of '{made.target}' from a row's start on")
    assert isinstance(whole.value, Op)
    rest = whole.value.args[2]
    kept = isinstance(rest, Nothing) if whole.reduce == ONLY else whole.reduce in COMBINES and not whole.best
    if not kept or whole.reduce != ONLY and rest != init_value(whole.reduce or "", whole.value.dtype):
        raise Refused(f"'{made.target}' has terms in front of a row's start")
