"""Integer reasoning with isl, behind one door: legality, dependences for barriers, facts for guards, proofs."""

from __future__ import annotations

from tilegen.poly.ahead import holds, leading, nest_of, staged
from tilegen.poly.barriers import Dependence, dependences
from tilegen.poly.derived import check_derived
from tilegen.poly.equations import check_equations, has_sizes
from tilegen.poly.facts import Facts
from tilegen.poly.judge import judge
from tilegen.poly.prove import Extra, Obligation, obligations, obliged
from tilegen.poly.sync import Claim, Made, Slot, Stop
from tilegen.poly.verdict import Refused, Unproved, Violation

__all__ = [
    "Claim",
    "Dependence",
    "Extra",
    "Facts",
    "Made",
    "Obligation",
    "Refused",
    "Slot",
    "Stop",
    "Unproved",
    "Violation",
    "check_derived",
    "check_equations",
    "dependences",
    "has_sizes",
    "holds",
    "judge",
    "leading",
    "nest_of",
    "obligations",
    "obliged",
    "staged",
]
