"""What a schedule's `where` says of its parameters: comparisons of integers that are computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tilegen.errors import Span
from tilegen.ir.affine import Affine, Div, Mod, factors_of

ARITHMETIC = ("+", "-", "*", "//", "%")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Operation:
    """An operator of ARITHMETIC or COMPARISONS, "and", "or" or "not", on its operands."""

    operator: str
    args: tuple[Formula, ...]


Formula = str | int | Operation  # a parameter, a number


@dataclass(frozen=True)
class Fact:
    """`TM * TN <= 32768`, with the text as written."""

    text: str
    formula: Operation
    span: Span | None = field(default=None, compare=False, repr=False)

    def holds(self, values: Mapping[str, int | str]) -> bool:
        """True if it is so for these values of the parameters; a division by zero is never so."""
        try:
            return bool(self._test(*(int(values[name]) for name in self._order)))
        except ZeroDivisionError:
            return False

    def fixed(self, values: Mapping[str, int | str]) -> Fact:
        """The fact with these parameters as numbers."""
        return replace(self, formula=_fixed(self.formula, values))

    @cached_property
    def _order(self) -> tuple[str, ...]:
        return tuple(sorted(self.names()))

    @cached_property
    def _test(self) -> Callable[..., int]:
        names = ", ".join(f"n_{name}" for name in self._order)
        found: Callable[..., int] = eval(f"lambda {names}: {python_of(self.formula)}")  # noqa: S307, printed by us
        return found

    def names(self) -> set[str]:
        """The parameters that it speaks of."""
        return set(_names(self.formula))


def formula_of(value: Affine) -> Formula:
    """An index expression as a formula of the sizes."""
    found: Formula = value.const
    factor: Formula
    for atom, times in value.terms:
        match atom:
            case str():
                parts = factors_of(atom)
                factor, *others = map(formula_of, parts) if len(parts) > 1 else (atom,)
                for other in others:
                    factor = Operation("*", (factor, other))
            case Div(arg, by):
                factor = Operation("//", (formula_of(arg), by))
            case Mod(arg, by):
                factor = Operation("%", (formula_of(arg), by))
            case _:
                raise TypeError(atom)
        found = Operation("+", (found, Operation("*", (times, factor))))
    return found


def python_of(formula: Formula) -> str:
    """The formula as Python writes it, the parameter N as n_N."""
    match formula:
        case str():
            return f"n_{formula}"
        case int():
            return str(formula)
        case Operation("not", (one,)):
            return f"(not {python_of(one)})"
        case Operation(operator, (left, right)):
            return f"({python_of(left)} {operator} {python_of(right)})"
        case _:
            raise TypeError(formula)


def _fixed(formula: Formula, values: Mapping[str, int | str]) -> Any:
    match formula:
        case str():
            return int(values[formula]) if formula in values else formula
        case Operation(operator, args):
            return Operation(operator, tuple(_fixed(each, values) for each in args))
        case _:
            return formula


def _names(formula: Formula) -> Iterator[str]:
    match formula:
        case str():
            yield formula
        case Operation(_, args):
            for each in args:
                yield from _names(each)
