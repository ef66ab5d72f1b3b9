"""Integer reasoning with isl, behind one door: legality, dependences for barriers, facts for guards."""

from __future__ import annotations

from tilegen.poly.barriers import Dependence, dependences
from tilegen.poly.facts import Facts
from tilegen.poly.judge import judge
from tilegen.poly.verdict import Violation

__all__ = ["Dependence", "Facts", "Violation", "dependences", "judge"]
