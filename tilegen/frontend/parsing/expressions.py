"""Parse trees of expressions as syntax values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from lark import Token

from tilegen.errors import LARGEST, SourceError, Span
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, rule, token
from tilegen.frontend.syntax import (
    Apply,
    Binary,
    Choice,
    Fallback,
    Hit,
    Name,
    Num,
    Reduction,
    Subscript,
    Syntax,
    Unary,
    Within,
)

_LEAST_DIGITS = str(LARGEST + 1)
_LONGEST_CHAIN = 9  # five operands: 0 <= a < b < c < d


def convert(place: Place, node: Branch | Token | None) -> Syntax:
    """One expression. Raises SourceError for a number that fits no type."""
    tree = branch(node)
    span = place.of(tree)
    parts = tree.children
    match rule(tree):
        case "number":
            return Num(number(token(parts[0]), span), span)
        case "name":
            return name(place, parts[0])
        case "group":
            return convert(place, parts[1])
        case "subscript":
            return Subscript(name(place, parts[0]), convert_all(place, parts[2]), span)
        case "call":
            args = convert_all(place, parts[2]) if parts[2] is not None else ()
            return Apply(name(place, parts[0]), args, span)
        case "reduction":
            return Reduction(name(place, parts[0]), convert_all(place, parts[2]), convert(place, parts[5]), span)
        case "range":
            return Within(name(place, parts[0]), convert(place, parts[2]), convert(place, parts[4]), span)
        case "fallback":
            return Fallback(convert(place, parts[0]), convert(place, parts[2]), span)
        case "choice":
            then, condition, other = (convert(place, p) for p in parts[::2])
            return Choice(then, condition, other, span)
        case "hit":
            *items, condition = (convert(place, p) for p in branches(parts))
            return Hit(tuple(items), condition, span)
        case "unary":
            if parts[0] == "-" and branch(parts[1]).children == [_LEAST_DIGITS]:
                return Num(-LARGEST - 1, span)  # which no positive number of a type is the opposite of
            return Unary(str(parts[0]), convert(place, parts[1]), span)
        case "binary":
            return Binary(str(parts[1]), convert(place, parts[0]), convert(place, parts[2]), span)
        case "chain":
            return _join_comparisons(place, tree, span)
        case _:
            raise TypeError(tree.data)


def convert_all(place: Place, node: Branch | Token | None) -> tuple[Syntax, ...]:
    """Every expression in the list `node`."""
    return tuple(convert(place, child) for child in branches(branch(node).children))


def name(place: Place, node: Branch | Token | None) -> Name:
    word = token(node)
    return Name(str(word), place.of(word))


def number(word: Token, span: Span) -> int | float:
    """The value of a number as written. Raises SourceError where it fits no type."""
    text = str(word)
    value: int | float = int(text) if text.isdigit() else float(text)
    if isinstance(value, int) and value > LARGEST or value == float("inf"):
        raise SourceError("this number is too large for any type", span)
    return value


def _join_comparisons(place: Place, tree: Branch, span: Span) -> Syntax:
    """`a <= b < c` as `a <= b and b < c`."""
    parts = tree.children
    if len(parts) > _LONGEST_CHAIN:
        raise SourceError("too many comparisons in one chain", span, notes=("join them by 'and'",))
    links: list[Syntax] = [
        Binary(str(parts[n + 1]), convert(place, parts[n]), convert(place, parts[n + 2]), span)
        for n in range(0, len(parts) - 2, 2)
    ]
    return conjunction(links)


def conjunction(parts: Sequence[Syntax]) -> Syntax:
    """`a`, `b` as `a and b`, at the place of `a`."""
    return reduce(lambda one, two: Binary("and", one, two, one.span), parts)
