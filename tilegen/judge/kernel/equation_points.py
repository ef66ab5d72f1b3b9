"""Points of an equation, and how an error tells of them."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Condition, Equation, Kernel, Range, Tensor
from tilegen.poly.system import Form, Point, Row, range_of, rows_of


@dataclass(frozen=True)
class EquationPoints:
    """The points of one equation, in words."""

    kernel: Kernel
    equation: Equation

    @property
    def ranges(self) -> tuple[Range, ...]:
        return (*self.equation.loops, *self.equation.reduced)

    def name_order(self, ranges: tuple[Range, ...]) -> list[str]:
        return [*self.kernel.symbols, *(r.name for r in ranges)]

    def element_text(self, point: Point, ranges: tuple[Range, ...]) -> str:
        """`C(i=3, j=0)`."""
        known = self.complete(point)
        values = ", ".join(f"{r.index}={r.value(known)}" for r in ranges)
        return f"{self.equation.target}({values})"

    def element(self, tensor: Tensor, index: tuple[Affine, ...], point: Point) -> str:
        known = self.complete(point)
        return f"{memory_of(tensor.name)}[{', '.join(str(i.evaluate(known)) for i in index)}]"

    def extent(self, tensor: Tensor, dim: int, point: Point) -> str:
        extent = tensor.shape[dim].evaluate(self.complete(point))
        return f"dimension {dim} has {extent} element{'s' * (extent != 1)}{self.sizes_text(point)}"

    def sizes_text(self, point: Point) -> str:
        known = self.complete(point)
        values = ", ".join(f"{size}={known[size]}" for size in self.kernel.symbols)
        return f" ({values})" if values else ""

    def complete(self, point: Point) -> Point:
        """The point with the names that nothing restricts."""
        loops = {r.name: 0 for r in self.ranges}
        return loops | dict.fromkeys(self.kernel.symbols, 1) | point


def points_of(kernel: Kernel, ranges: tuple[Range, ...], conditions: tuple[Condition, ...]) -> tuple[Row, ...]:
    """Rows for the points of these loops at which the conditions hold, at the sizes that the kernel admits."""
    rows: list[Row] = [(False, ((size, 1),), -1) for size in kernel.symbols]
    rows += [row for c in (*kernel.assumptions, *conditions) for row in rows_of(c)]
    rows += [row for r in ranges for row in range_of(r.name, r.extent)]
    return tuple(rows)


def mark_names(rows: tuple[Row, ...], index: list[Form], loops: list[str]) -> dict[str, str]:
    """New names for the loops of a second point, and for every division that depends on one of them."""
    every = {name for _, terms, _ in (*rows, *(row for f in index for row in f.rows)) for name, _ in terms}
    divisions = {name for name in every if name.startswith("(")}
    return {name: f"{name}'" for name in (*loops, *divisions)}
