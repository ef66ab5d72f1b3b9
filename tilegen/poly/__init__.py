"""Integer reasoning with isl, behind one door: legality, dependences for barriers, facts for guards."""

from __future__ import annotations

from tilegen.poly.judge import judge
from tilegen.poly.verdict import Violation

__all__ = ["Violation", "judge"]
