"""Nodes that are equal up to their index expressions, and what they have in common (anti-unification).

    copy(&S[0][k], &A[k])                         S[(ko + ahead)%2][k], A[8*ko + k + 8*ahead]
    copy(&S[(ko + 1)%2][k], &A[8*ko + k + 8])     at ko, ahead := 0, 0 and at ko, ahead := ko, 1

The terms that all expressions at one place share stay. The rests, divided by their greatest common divisor, are the
values of a parameter; rests that an expression of another parameter gives need none of their own.

The constant that is added to a loop that counts at run time is a parameter by itself, so that a compiler folds it into
each address. For ko + 1 as one value it may keep another variable in the loop, and registers for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import gcd
from typing import Any

from tilegen.ir.affine import Affine, Mod, const, names_of_atom, var
from tilegen.ir.facts.ranges import never_negative, simplify
from tilegen.ir.nodes import Condition, Loop, Stmt
from tilegen.lowering.launch.program import For, Perform, Spmd, VectorCopy

_SKIPPED = ("span", "step", "origin", "lane")  # where a value came from
_UNPRINTED = ("instance", "element")  # what a statement is in the kernel
Values = tuple[Affine, ...]
Naming = Callable[[Values, str], str]


@dataclass(frozen=True)
class Expressions:
    """The index expressions of a node in their order: those that are printed, and those of what statements are in the
    kernel, their instances and elements."""

    printed: Values
    instances: Values


def expressions(node: Spmd) -> Expressions:
    """The index expressions of `node`, extents apart."""
    printed: list[Affine] = []
    instances: list[Affine] = []

    def note(value: Affine, of_instance: bool) -> Affine:
        (instances if of_instance else printed).append(value)
        return value

    _rebuild(node, note)
    return Expressions(tuple(printed), tuple(instances))


def shape(node: Spmd) -> Spmd:
    """`node` with 0 in place of each index expression and without its notes: equal for nodes that differ in these."""
    nothing = const(0)
    bare: Spmd = _without_notes(_rebuild(node, lambda _, __: nothing))
    return bare


def with_expressions(node: Spmd, new: Expressions) -> Spmd:
    """`node` with other index expressions, in the order of `expressions`."""
    printed, instances = iter(new.printed), iter(new.instances)
    made: Spmd = _rebuild(node, lambda _, of_instance: next(instances if of_instance else printed))
    return made


def _rebuild(value: Any, change: Callable[[Affine, bool], Affine], of_instance: bool = False) -> Any:
    kind = type(value)
    if kind is Affine:
        return change(value, of_instance)
    if kind is tuple:
        return tuple(_rebuild(item, change, of_instance) for item in value)
    if kind is Condition:
        return value._replace(value=change(value.value, of_instance))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    new: dict[str, Any] = {}
    for each in fields(value):
        old = getattr(value, each.name)
        if old and each.name not in _SKIPPED and not (kind is For and each.name == "extent"):
            new[each.name] = _rebuild(old, change, of_instance or kind is Stmt and each.name in _UNPRINTED)
    if isinstance(value, VectorCopy | Perform) and value.origin is not None:
        new["origin"] = _rebuild_instances(value.origin, change)
    return replace(value, **new)


def _rebuild_instances(origin: Stmt | Loop, change: Callable[[Affine, bool], Affine]) -> Stmt | Loop:
    """What is done, a statement or a perfect nest, with other expressions for what it is in the kernel."""
    if isinstance(origin, Loop):
        (inner,) = origin.body
        return replace(origin, body=(_rebuild_instances(inner, change),))
    return replace(origin, **{name: _rebuild(getattr(origin, name), change, True) for name in _UNPRINTED})


def _without_notes(node: Any) -> Any:
    if type(node) is tuple:
        return tuple(map(_without_notes, node))
    if isinstance(node, For):
        return replace(node, step="", body=_without_notes(node.body))
    return (
        replace(node, body=_without_notes(node.body), orelse=_without_notes(node.orelse))
        if hasattr(node, "orelse")
        else node
    )


# -- parameters


@dataclass
class Parameters:
    """The parameters of what several nodes have in common: each with its value in each of them, and its name.

    Attributes:
        seen: the names that mean the same everywhere, so that terms of these need no parameter.
        extents: of loops, where they are constants.
        counted: the loops that count at run time.
        sums: of a parameter and what is added to it, with the values.
    """

    seen: frozenset[str]
    extents: Mapping[str, int] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    values: dict[str, Values] = field(default_factory=dict)
    sums: dict[Affine, Values] = field(default_factory=dict)

    def general(self, rows: Sequence[Values], name: Naming) -> Values:
        """One expression for each place, of which those in `rows`, one row for each node, are values.

        Args:
            name: chooses a name for a parameter that has these values, the given one where they have none.
        """
        parted = [self._part(column) for column in zip(*rows, strict=True)]
        # Remainders last: where they are those of a parameter, they need none.
        rests = sorted({rest for _, rest, _ in parted if rest}, key=lambda r: (bool(_moduli(r)), _weight(r)))
        found: dict[Values, Affine] = {}
        for rest in rests:
            known = self._find_in_parameters(rest)
            found[rest] = self._add(rest, name) if known is None else known
        return tuple(common + found[rest] * factor if rest else common for common, rest, factor in parted)

    def _add(self, rest: Values, name: Naming) -> Affine:
        """A new parameter for `rest`, or the sum of one for what is counted and one for the constants."""
        offsets = tuple(const(r.const) for r in rest)
        if len(set(offsets)) == 1 or not any(atom in self.counted for r in rest for atom, _ in r.terms):
            return self._parameter(rest, name(rest, "slot"))
        counted = tuple(r - o for r, o in zip(rest, offsets, strict=True))
        first = self._find_in_parameters(counted) or self._parameter(counted, name(counted, "slot"))
        total = first + (self._find_in_parameters(offsets) or self._parameter(offsets, name(offsets, "ahead")))
        self.sums[total] = rest
        return total

    def _parameter(self, values: Values, name: str) -> Affine:
        self.values[name] = values
        return var(name)

    def _part(self, column: Values) -> tuple[Affine, Values, int]:
        """(what all have in common, the rests in lowest terms, by what they are to be multiplied)."""
        first = column[0]
        if all(v == first for v in column) and first.names() <= self.seen:
            return first, (), 0
        shared = set(first.terms).intersection(*(v.terms for v in column))
        shared = {term for term in shared if names_of_atom(term[0]) <= self.seen}
        alike = len({v.const for v in column}) == 1
        common = Affine(tuple(t for t in first.terms if t in shared), first.const if alike else 0)
        rests = [v - common for v in column]
        leading = next(f for r in rests for f in (*(f for _, f in r.terms), r.const) if f)
        sign = -1 if leading < 0 else 1
        rests = [r * sign for r in rests]
        # Of 8*i + 9 and 1, the one stays: they are 8*p + 1 for i + 1 and 0.
        by, least = gcd(*(f for r in rests for _, f in r.terms)), min(r.const for r in rests)
        if by > 1 and all((r.const - least) % by == 0 for r in rests):
            common, rests = common + least * sign, [r - least for r in rests]
        factor = gcd(by, *(r.const for r in rests))
        return common, tuple(r.split(factor)[0] for r in rests), factor * sign

    def _find_in_parameters(self, rest: Values) -> Affine | None:
        """`rest` as an expression of a parameter or sum that there is: a*p + b or p % m."""
        for known, values in [*((var(name), v) for name, v in self.values.items()), *self.sums.items()]:
            if (line := _line(rest, values)) is not None:
                times, plus = line
                return known * times + plus
            # To a text what it has a name for is not negative: in C, -1 % 2 is -1.
            for by in sorted(_moduli(rest)) if all(map(never_negative, values)) else ():
                if all(r == simplify(v % by, self.extents) for r, v in zip(rest, values, strict=True)):
                    return known % by
        return None


def _moduli(values: Iterable[Affine]) -> set[int]:
    return {atom.by for v in values for atom, _ in v.terms if isinstance(atom, Mod)}


def _weight(values: Values) -> tuple[int, str]:
    return sum(len(v.terms) for v in values), str(values)


def _line(rest: Values, values: Values) -> tuple[int, int] | None:
    """(a, b) with rest == a * values + b everywhere."""
    first, start = rest[0], values[0]
    differing = next((n for n, v in enumerate(values) if v != start), None)
    if differing is None:
        return None
    up, by = rest[differing] - first, values[differing] - start
    parts = _factors_of_atoms(by)
    atom = next(iter(parts))
    times, left = divmod(_factors_of_atoms(up).get(atom, 0), parts[atom])
    if left or not times:
        return None
    plus = first - start * times
    if plus.terms or any(r != v * times + plus.const for r, v in zip(rest, values, strict=True)):
        return None
    return times, plus.const


def _factors_of_atoms(value: Affine) -> dict[object, int]:
    parts: dict[object, int] = dict(value.terms)
    return parts | {"": value.const} if value.const else parts


def loop_names(rows: Iterable[Affine]) -> Iterator[str]:
    """The names that stand in these values with the factor 1, the most frequent first."""
    counts = Counter(a for v in rows for a, c in v.terms if isinstance(a, str) and c == 1)
    return (name for name, _ in counts.most_common())
