"""Indices in C, and what compares them: extents, and the tests of conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from tilegen.backends.text.values.dialect import OPENCL, Dialect
from tilegen.backends.text.values.parameter_names import ParameterNames
from tilegen.ir.affine import Affine, Atom, Div, Mod, const, factors_of, var
from tilegen.ir.facts.ranges import never_negative
from tilegen.ir.nodes import Condition
from tilegen.ir.parts.windows import Digit, Windows

ATOM = 8
"""The precedence of a name, a number, an element and a call."""


@dataclass(frozen=True)
class IndexWriter:
    """Writes the indices of one launch."""

    dialect: Dialect
    names: Mapping[str, str]
    parameters: ParameterNames = field(default_factory=ParameterNames, kw_only=True)
    counts: Mapping[Atom, str] = field(default_factory=dict, kw_only=True)  # iterations of a loop, by name
    # What has been written: the same few sums and tests stand in many lines.
    _texts: dict[object, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def index(self, value: Affine, parent: int = 0) -> str:
        """`value` with parentheses where `parent`, the precedence around it, asks for them."""
        text = self._texts.get((value, parent))
        if text is None:
            text = self._texts[value, parent] = self._index(value, parent)
        return text

    def through(self, windows: Windows, index: Sequence[Affine]) -> tuple[Self, tuple[Affine, ...]]:
        """The place of the tensor that windows show at `index`, and a writer that knows the digits in it."""
        names, values = dict(self.names), dict[str, Affine]()
        for group, place in zip(windows.digits, index, strict=True):
            if len(group) == 1:
                values[group[0][0]] = place
                continue
            for word, text in self.digits(group, place).items():
                names[f"{windows.tensor}.{word}"] = f"({text})"
                values[word] = var(f"{windows.tensor}.{word}")
        return replace(self, names=names), tuple(i.substitute(values) for i in windows.index)

    def digits(self, group: Sequence[Digit], place: Affine) -> dict[str, str]:
        """Each digit of a place, by its word."""
        (first, _), *others = group
        rest, found = self.index(place, 6), dict[str, str]()
        for word, extent in reversed(others):
            by = self.index(extent, 7)
            found[word], rest = f"{rest} % {by}", f"{rest} / {by}"
        return {first: rest, **{word: found[word] for word, _ in others}}

    def _index(self, value: Affine, parent: int) -> str:
        terms = sorted(value.sorted_terms(), key=lambda t: t[1] < 0) if len(value.terms) > 1 else value.terms
        if not terms:
            return self._integer(value.const)
        text = ""
        if terms[0][1] < 0 and value.const > 0:
            text, value = self._integer(value.const), Affine(value.terms)
        for atom, factor in terms:
            part = self._atom(atom, abs(factor))
            text = f"{text} {'-' if factor < 0 else '+'} {part}" if text else ("-" if factor < 0 else "") + part
        if value.const:
            text += f" {'-' if value.const < 0 else '+'} {self._integer(abs(value.const))}"
        count = len(terms) + bool(value.const)
        level = 5 if count > 1 or terms[0][1] < 0 else self._level(*terms[0])
        return f"({text})" if level < parent else text

    def _integer(self, value: int) -> str:
        return f"{value}{self.dialect.long}" if abs(value) >= 2**31 else str(value)

    def _level(self, atom: Atom, factor: int) -> int:
        if factor != 1:
            return 6
        if isinstance(atom, str):
            return 6 if len(factors_of(atom)) > 1 else ATOM
        return ATOM if atom in self.counts or not never_negative(atom.arg) else 6

    def _atom(self, atom: Atom, factor: int) -> str:
        match atom:
            case str():
                parts = factors_of(atom)
                text = " * ".join(self.index(f, 7) for f in parts) if len(parts) > 1 else self.names[atom]
            case Div() if atom in self.counts:
                text = self.counts[atom]
            case Div(arg, by) if never_negative(arg):
                tile = self.parameters.tilings.get(atom, "")
                rounded = f"({self.index(arg - (by - 1), 5)} + {tile} - 1)" if tile and arg.const == by - 1 else ""
                text = f"{rounded or self.index(arg, 6)} / {tile or by}"
            case Mod(arg, by) if never_negative(arg):
                text = f"{self.index(arg, 7)} % {self.parameters.stage_of(atom)}"
            case Div(arg, by):
                text = f"floor_div({self.index(arg)}, {by})"
            case Mod(arg, by):
                text = f"floor_mod({self.index(arg)}, {by})"
            case _:
                raise TypeError(atom)
        if factor == 1:
            return text
        times = self.parameters.strides.get((atom, factor), factor)
        return f"({text}) * {times}" if self._level(atom, 1) == 6 else f"{text} * {times}"

    def condition(self, condition: Condition) -> str:
        """The terms of each sign on their own side: `i * 4 + 3 < N`."""
        # An index at the lowest level is an equal tuple.
        text = self._texts.get(("test", condition))
        if text is None:
            text = self._texts["test", condition] = self._condition(condition)
        return text

    def _condition(self, condition: Condition) -> str:
        low, high = condition.value.sides()
        constant = condition.value.const
        if condition.equal:
            if low.is_const:
                return f"{self.index(high)} == {self.index(const(-constant))}"
            return f"{self.index(low)} == {self.index(high + constant)}"
        if low.is_const:
            return f"{self.index(high)} >= {self.index(const(-constant))}"
        if high.is_const:
            return f"{self.index(low)} < {self.index(high + (constant + 1))}"
        if constant < -1 and (rest := self.parameters.rest_of_tile(low, -constant - 1)):
            return f"{self.index(low)} + {rest} < {self.index(high)}"
        if constant >= 0:
            more = constant + 1 if constant else 0
            return f"{self.index(low)} {'<' if more else '<='} {self.index(high + more)}"
        return f"{self.index(low + (-constant - 1))} < {self.index(high)}"

    def test(self, conditions: tuple[Condition, ...]) -> str:
        # PoCL 3 miscompiles loops in a branch on `a && b`, which is two branches; `a & b` is one.
        both = " & " if self.dialect is OPENCL else " && "
        return both.join(self.condition(c) for c in conditions)

    def extent(self, loop: str, value: Affine) -> str:
        """The extent of a loop, as what its variable is compared with."""
        return self.parameters.extent(loop, value) or self.index(value, 5)
