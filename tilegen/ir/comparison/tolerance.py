"""What a tree lets its results be off by beyond the roundings of its kernel.

Four things change the bound of a check: functions that the hardware may approximate, sums that an instruction adds up
in its own way, recurrences whose steps are taken together, and what the kernel says that it approximates. A tree has
its tolerance from its steps and its kernel alone, so that a check can be made ready without a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tilegen.ir.affine import Affine
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.nodes import Equation, Kernel, Loop, Stmt, Tree
from tilegen.ir.parts.derived import Split
from tilegen.ir.walk import leaves


@dataclass(frozen=True)
class PerformedSum:
    """A nest in which an instruction adds up terms of the sum `target` of the kernel as written.

    It runs for each element as often as the product of the extents `runs`, which are affine in the sizes. `alone` is
    False where other additions follow, or stand beside it: those of parts, or of another nest.
    """

    target: str
    instruction: Instruction
    runs: tuple[Affine, ...]
    alone: bool

    @property
    def terms(self) -> int:
        """How many terms one run adds."""
        return prod(each.extent.const for each in self.instruction.equation.reduced)


@dataclass(frozen=True)
class Tolerance:
    """The operations that may be approximated, the sums that instructions add up with errors of their own, and the
    linear recurrences that are regrouped.

    `claimed` is the kernel as written if it says what it approximates: nothing else counts then.
    """

    approximate: tuple[str, ...] = ()
    sums: tuple[PerformedSum, ...] = ()
    regrouped: tuple[str, ...] = ()
    claimed: Kernel | None = None


PLAIN = Tolerance()
"""That of a tree whose operations all round as their types do, in any order."""


def tolerance_of(tree: Tree) -> Tolerance:
    """What the steps of `tree`, and its kernel, allow its results."""
    written = tree.kernel.written_kernel
    if written.meant:
        return Tolerance(claimed=written)
    return Tolerance(tree.approximate, tuple(dict.fromkeys(_performed_sums(tree))), _regrouped(tree.kernel))


def _regrouped(kernel: Kernel) -> tuple[str, ...]:
    """The recurrences of the kernel as written of which steps have made reductions, in the order of its equations."""
    made = {e.target for e in kernel.equations if not e.carried}
    return tuple(e.target for e in kernel.written_kernel.equations if e.carried and e.target in made)


def _performed_sums(tree: Tree) -> Iterator[PerformedSum]:
    equations = {equation.target: equation for equation in tree.kernel.equations}
    updates = [(path, stmt) for path, stmt in leaves(tree.body) if stmt.reduce and stmt.instance is not None]
    for path, stmt in updates:
        at = next((n for n, loop in enumerate(path) if loop.performed), None)
        performed = path[at].performed if at is not None else None
        if performed is None or not performed.instruction.summations:
            continue
        target = _written_target(tree.kernel, stmt.name)
        alone = target == stmt.name and sum(other.name == stmt.name for _, other in updates) == 1
        runs = _runs(path[:at], stmt, equations[stmt.name])
        yield PerformedSum(target, performed.instruction, runs, alone)


def _runs(around: tuple[Loop, ...], stmt: Stmt, equation: Equation) -> tuple[Affine, ...]:
    """The extents of the loops around a nest that number its runs for one element: the digits of what is reduced.

    Each term is added once, so the iterations of the other loops that belong to one element and to one value of these
    are at most one.
    """
    assert stmt.instance is not None
    reduced = {name for index in stmt.instance[len(equation.loops) :] for name in index.names()}
    return tuple(loop.extent for loop in around if loop.name in reduced)


def _written_target(kernel: Kernel, name: str) -> str:
    """The sum of the kernel as written that the sum `name` is, or is a part of."""
    while kernel.origin is not None:
        if isinstance(kernel.derived, Split) and kernel.derived.parts == name:
            name = kernel.derived.target
        kernel = kernel.origin
    return name
