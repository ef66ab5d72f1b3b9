"""A loop of an equation, and the index word of the text that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.ir.affine import Affine, const


@dataclass(frozen=True)
class Range:
    """A loop of an equation: `name` runs over 0 <= name < extent.

    `index` is the word in the text, whose value is the loop's plus `low`, in sizes and other loops of the equation. It
    goes `down` where the loop counts from its end.
    """

    name: str
    extent: Affine
    index: str
    low: Affine = const(0)
    down: bool = False

    def value(self, known: Mapping[str, int]) -> int:
        """What the word is where the loop and all others are `known`."""
        place = known.get(self.name, 0)
        return self.low.evaluate(known) + (self.extent.evaluate(known) - 1 - place if self.down else place)
