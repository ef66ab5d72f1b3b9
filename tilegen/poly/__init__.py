"""The door to isl: kernels and trees as integer systems, coverings, facts, and points of a system in words."""

from __future__ import annotations

from tilegen.poly.facts import Facts
from tilegen.poly.verdict import Refused, Unproved, Violation

__all__ = ["Facts", "Refused", "Unproved", "Violation"]
