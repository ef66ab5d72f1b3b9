"""What a schedule's `where` says of its parameters: comparisons of integers that are computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, ne, sub

from tilegen.errors import Span

ARITHMETIC = {"+": add, "-": sub, "*": mul, "//": floordiv, "%": mod}
COMPARISONS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


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
            return bool(_evaluate(self.formula, values))
        except ZeroDivisionError:
            return False

    def names(self) -> set[str]:
        """The parameters that it speaks of."""
        return set(_names(self.formula))


def _evaluate(formula: Formula, values: Mapping[str, int | str]) -> int:
    match formula:
        case str():
            return int(values[formula])
        case int():
            return formula
        case Operation("and", (left, right)):
            return _evaluate(left, values) and _evaluate(right, values)
        case Operation("or", (left, right)):
            return _evaluate(left, values) or _evaluate(right, values)
        case Operation("not", (one,)):
            return not _evaluate(one, values)
        case Operation(operator, (left, right)):
            found: int = {**ARITHMETIC, **COMPARISONS}[operator](_evaluate(left, values), _evaluate(right, values))
            return found
        case _:
            raise TypeError(formula)


def _names(formula: Formula) -> Iterator[str]:
    match formula:
        case str():
            yield formula
        case Operation(_, args):
            for each in args:
                yield from _names(each)
