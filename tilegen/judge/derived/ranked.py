"""A list puts each hit where its rank says, and counts as many as there are.

In sequence a list puts a hit where its count stands. Theorem: that is the number of hits before it in the order of the
loops: those in earlier iterations of the outer loop, and those in the same one, in earlier iterations of the inner one.
So these are sums, and what stores needs no count. From hit to hit the rank grows by one: no two hits of one list have
the same, which stores at a rank promise from here on. What defines the rank by later steps gives the same values.

The test for a hit is made twice, where hits are counted and where they are stored. It has to come out alike: nothing in
it rounds, which a compiler may do in one way here and in another there.
"""

from __future__ import annotations

from tilegen.ir.nodes import FLOATS, Kernel, Op
from tilegen.ir.parts.derived import Ranked
from tilegen.ir.parts.lists import LISTS
from tilegen.ir.reductions.ranked import MOST_LOOPS, ranked
from tilegen.ir.walk import walk
from tilegen.judge.derived.parts import equation_of
from tilegen.poly.verdict import Refused

_EXACT = ("neg", "abs", "min", "max", "select", "floor", "ceil", "round")  # of floats


def check_ranked(kernel: Kernel, origin: Kernel, made: Ranked) -> None:
    """Refused where `kernel` has more than a list of `origin` with ranks, which count the hits before each."""
    whole = equation_of(origin, made.target)
    depth = len(whole.reduced)
    if whole.reduce not in LISTS or depth > MOST_LOOPS or len(made.names) != 2 * depth - 1:
        raise Refused(f"'{made.target}' counts no hits of a list whose ranks are known")
    if any(isinstance(part, Op) and part.dtype in FLOATS and part.name not in _EXACT for part in walk(whole.value)):
        raise Refused(
            f"the test for a hit of '{made.target}' rounds, and would be made twice, where hits are counted and stored",
            way="give what it computes to a tensor, 'var s: f32[N]', in an equation above: the test then reads that",
        )
    if kernel != ranked(origin, made):
        raise Refused(f"kernel '{kernel.name}' has more than the hits of '{made.target}' at their ranks")
