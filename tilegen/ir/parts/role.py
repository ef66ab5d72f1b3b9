"""Roles: parts of a loop that do different work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.ir.affine import Affine, var

if TYPE_CHECKING:
    from tilegen.ir.nodes import Loop, Stmt


@dataclass(frozen=True)
class Role:
    """Some iterations of a loop as a loop of their own: `name` runs over 0 <= name < extent from its `start` on."""

    name: str
    start: Affine
    extent: Affine

    def since_start(self, of: str) -> Affine:
        """At least 0 in the iterations of loop `of` that are the role's, or a later one's."""
        return var(of) - self.start

    def until_end(self, of: str) -> Affine:
        """At least 0 in the iterations of loop `of` that are the role's, or an earlier one's."""
        return self.start + self.extent - 1 - var(of)


def role_number(stmt: Stmt, loop: Loop) -> int:
    """Which role of the loop does a statement inside of it, by the tests in front of it: the last one begun, or 0."""
    tests = [condition.value for condition in stmt.guard if not condition.equal]
    begun = [number for number, role in enumerate(loop.roles) if role.since_start(loop.name) in tests]
    return max(begun, default=0)
