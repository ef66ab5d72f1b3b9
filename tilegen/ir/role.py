"""Roles: parts of a loop that do different work."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.affine import Affine, var


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
