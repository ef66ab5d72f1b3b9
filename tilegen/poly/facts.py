"""Questions that lowering asks: does a condition hold whenever its statement runs?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Condition, Kernel
from tilegen.poly.instances import original_of
from tilegen.poly.rows import Rows
from tilegen.poly.system import Undecided, example, negation_rows, range_of, rows_of, solvable


class Facts:
    """What follows from a kernel's sizes and from the ranges of loops."""

    def __init__(self, kernel: Kernel) -> None:
        self._original = original_of(kernel)

    def is_implied(self, condition: Condition, extents: Mapping[str, Affine], given: Iterable[Condition] = ()) -> bool:
        """True if the condition holds for all sizes that the kernel admits and all loop values.

        Args:
            extents: every loop in the condition, and any other, with its extent: 0 <= loop < extent.
            given: conditions that hold as well.

        False means "not proven": what isl cannot decide within its budget counts as not implied.
        """
        given = tuple(given)
        if condition in given:
            return True
        return self._ask(condition, extents, given)

    def is_possible(self, conditions: Iterable[Condition], extents: Mapping[str, Affine]) -> bool:
        """True unless the conditions can never hold together. Arguments as for `is_implied`."""
        conditions = tuple(conditions)
        try:
            return solvable(self._rows(extents, conditions))
        except Undecided:
            return True

    def least_sizes(self, conditions: Iterable[Condition]) -> Mapping[str, int] | None:
        """The least sizes, in the order of the kernel, that satisfy it and `conditions`; None if none is known."""
        kernel, conditions = self._original.kernel, tuple(conditions)
        ones = dict.fromkeys(kernel.sizes, 1)
        if all(c.holds(ones) for c in (*kernel.assumptions, *conditions)):
            return ones
        try:
            return example(self._rows({}, conditions), kernel.symbols) if ones else None
        except Undecided:
            return None

    def _ask(self, condition: Condition, extents: Mapping[str, Affine], given: tuple[Condition, ...]) -> bool:
        rows = self._rows(extents, given)
        try:
            return not any(solvable(rows + case) for case in negation_rows(condition))
        except Undecided:
            return False

    def _rows(self, extents: Mapping[str, Affine], given: tuple[Condition, ...]) -> Rows:
        ranges = (row for name, extent in extents.items() for row in range_of(name, extent))
        return (*self._original.context, *ranges, *(r for c in given for r in rows_of(c)))
