"""A list puts each hit where its rank says, and counts as many as there are.

In sequence a list puts a hit where its count stands, which is the number of hits before it. Theorem: that is one less
than the number of hits up to it in the order of the loops: those in earlier iterations of the outer loop, and those in
the same one, in iterations of the inner loop up to its own. So these are sums, and what stores needs no count. From
hit to hit the rank grows by one: no two hits of one list have the same, which is promised of stores at a rank from here
on; and since the rank is no term of what a list stores, whatever defines it later has the same values.
"""

from __future__ import annotations

from tilegen.ir.derived import Ranked
from tilegen.ir.lists import LISTS
from tilegen.ir.nodes import Kernel
from tilegen.ir.ranked import MOST_LOOPS, ranked
from tilegen.judge.derived.parts import equation_of
from tilegen.poly.verdict import Refused


def check_ranked(kernel: Kernel, origin: Kernel, made: Ranked) -> None:
    """Refused where `kernel` has more than a list of `origin` with ranks, which count the hits up to each."""
    whole = equation_of(origin, made.target)
    depth = len(whole.reduced)
    if whole.reduce not in LISTS or depth > MOST_LOOPS or len(made.names) != 2 * depth - 1:
        raise Refused(f"'{made.target}' counts no hits of a list whose ranks are known")
    if kernel != ranked(origin, made):
        raise Refused(f"kernel '{kernel.name}' has more than the hits of '{made.target}' at their ranks")
