"""Lists: what a reduction stores where its condition holds, each hit at a place of its own.

    at[count[0]] = list[i](X[i] if X[i] > 0)

The target is `count`, the value the condition, and the hit goes to `at`, where `count` has come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.ir.affine import Affine

if TYPE_CHECKING:
    from tilegen.ir.nodes import Access, Expr, Load

LISTS = ("list", "unordered_list")  # in the order of the loops; in any order


MOST_TOGETHER = 32  # the bits of an integer


def takes_together(extent: Affine) -> bool:
    """True of a loop whose hits fit into the bits of an integer."""
    return extent.is_const and extent.const <= MOST_TOGETHER


@dataclass(frozen=True)
class Hits:
    """What a list stores of each hit: its `items`, at the next free place along the dimension `place` of `access`.

    The index of the access is 0 there, and in the last dimension if there are several items, which lie along it. Hits
    whose place is `capacity` or more are counted, and not stored. With `together`, the text may take the places of all
    hits in the innermost loop around at once. With a `rank`, that is the place, where no count is updated.
    """

    access: Access
    place: int
    items: tuple[Expr, ...]
    capacity: Affine
    together: bool = False
    rank: Load | None = None
