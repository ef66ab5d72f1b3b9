"""Which iteration runs an instance: the inverse of indices like `bi*128 + wi*64 + vi`, digit by digit.

An instance has each loop's value as a digit: the quotient of what the larger factors leave. Where these values
are an iteration of the leaf, it runs the instance; so "none is missing" comes down to systems without
projection or difference, which isl decides quickly for any number of loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilegen.ir.affine import Affine, Atom, Div, Mod, const, var
from tilegen.ir.nodes import Condition
from tilegen.poly.project import Leaf
from tilegen.poly.rows import Rows
from tilegen.poly.system import Row, Undecided, negated, rows_of, solvable

# Ways to miss an instance that are followed up from leaf to leaf.
_MOST = 16

# What an atom is of its loop: loop / low % (high / low), with no end where `high` is 0.
_Part = tuple[int, int]


def all_run(wanted: tuple[Row, ...], names: list[str], leaves: list[Leaf]) -> bool:
    """True if every instance in `wanted`, rows over `names`, is certain to be run by one of the leaves."""
    marks: dict[object, str] = {}
    certain: dict[Condition, bool] = {}
    all_wanted = Rows(wanted)
    missing = [all_wanted]
    try:
        for leaf in leaves:
            # Leaves of one form share their digits.
            mark = marks.setdefault((leaf.stmt.instance, leaf.names, leaf.extents), f"#{len(marks)}")
            inverse = _inverse(leaf, names, mark)
            if inverse is None:
                continue
            rows, conditions = inverse
            said = (all_wanted + rows).kept()
            for c in conditions:
                if c not in certain:
                    certain[c] = not any(solvable(said + contrary) for contrary in negated(c))
            open_ = [c for c in conditions if not certain[c]]
            missing = [piece for m in missing for piece in _missed(m + rows, open_)]
            if not missing or len(missing) > _MOST:
                break
    except Undecided:
        return False
    return not missing


def _missed(rows: Rows, conditions: list[Condition]) -> Iterator[Rows]:
    """The parts of `rows` where a condition does not hold, no point in two of them."""
    rows = rows.kept()
    for condition in conditions:
        missed = [rows + contrary for contrary in negated(condition) if solvable(rows + contrary)]
        yield from missed
        if missed:
            rows += rows_of(condition)


@dataclass
class _Digits:
    """The parts of loops that a leaf's point is made of, each with a name for its value."""

    leaf: Leaf
    mark: str
    names: dict[tuple[str, _Part], str] = field(default_factory=dict)
    rows: list[Condition] = field(default_factory=list)
    exact: list[Condition] = field(default_factory=list)
    made: list[Condition] = field(default_factory=list)

    def values(self) -> dict[str, Affine] | None:
        """Each loop as the sum of its parts; None where these leave something out."""
        found: dict[str, Affine] = {}
        for loop in self.leaf.names:
            parts = sorted((part, name) for (owner, part), name in self.names.items() if owner == loop)
            value, end = const(0), 1
            for (low, high), name in parts:
                if low != end:
                    return None
                value, end = value + var(name) * low, high
                self.made.append(Condition(var(name)))
                if high:
                    self.made.append(Condition(const(high // low - 1) - var(name)))
            found[loop] = value
        return found


def _inverse(leaf: Leaf, names: list[str], mark: str) -> tuple[tuple[Row, ...], list[Condition]] | None:
    """(rows that give each digit its value for the instance `names`, when that is an iteration of the leaf)."""
    digits = _Digits(leaf, mark)
    assert leaf.stmt.instance is not None
    for name, place in zip(names, leaf.stmt.instance, strict=True):
        if not _divided(digits, var(name), place):
            return None
    values = digits.values()
    if values is None:
        return None
    conditions = digits.exact + digits.made
    for loop, extent in zip(leaf.names, leaf.extents, strict=True):
        conditions += [Condition(values[loop]), Condition(extent - 1 - values[loop])]
    conditions += [Condition(c.value.substitute(values), c.equal) for c in leaf.stmt.guard]
    return tuple(r for c in digits.rows for r in rows_of(c)), conditions


def _divided(digits: _Digits, value: Affine, place: Affine) -> bool:
    """Gives the parts in `place` the values with which it is `value`. False where that cannot be said."""
    extents = dict(zip(digits.leaf.names, digits.leaf.extents, strict=True))
    parts: list[tuple[int, str, Affine | None]] = []
    rest = value - place.const
    for atom, factor in place.terms:
        found = _part(atom)
        if found is None or found[0] not in extents or found in digits.names:
            return False
        loop, (low, high) = found
        name = digits.names[found] = (
            f"{loop}{digits.mark}" if found[1] == (1, 0) else f"{loop}/{low}%{high}{digits.mark}"
        )
        last = None
        if factor < 0:
            # Counted from the other end, the factor is positive.
            most = const(high // low - 1) if high else (extents[loop] - 1) // low
            if not most.is_const:
                return False
            last, rest = most, rest - most * factor
        parts.append((abs(factor), name, last))
    for number, (factor, name, last) in enumerate(sorted(parts, key=lambda p: -p[0])):
        left = var(f"{name}~{number}")
        digit = var(name) if last is None else last - var(name)
        digits.rows += [Condition(rest - digit * factor - left, equal=True), Condition(left)]
        digits.rows += [Condition(const(factor - 1) - left)]
        rest = left
    digits.exact.append(Condition(rest, equal=True))
    return True


def _part(atom: Atom) -> tuple[str, _Part] | None:
    """(the loop, which part of it) for a name and for quotients and remainders of one."""
    match atom:
        case str():
            return atom, (1, 0)
        case Div(arg, by) | Mod(arg, by):
            if arg.const or len(arg.terms) != 1 or arg.terms[0][1] != 1:
                return None
            inner = _part(arg.terms[0][0])
            if inner is None:
                return None
            loop, (low, high) = inner
            if isinstance(atom, Mod):
                end = low * by
                return None if high and high % end and end < high else (loop, (low, min(high, end) if high else end))
            return None if high and (high % (low * by) or high == low * by) else (loop, (low * by, high))
        case _:
            raise TypeError(atom)
