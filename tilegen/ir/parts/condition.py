"""What holds of sizes, or at the points of loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilegen.ir.affine import Affine


class Condition(NamedTuple):
    """An affine fact: `value >= 0`, or `value == 0`. A tuple, for facts are compared and looked up all the time."""

    value: Affine
    equal: bool = False

    def __str__(self) -> str:
        return f"{self.value} {'==' if self.equal else '>='} 0"

    def holds(self, values: Mapping[str, int]) -> bool:
        """True at these values of its names."""
        value = self.value.evaluate(values)
        return value == 0 if self.equal else value >= 0
