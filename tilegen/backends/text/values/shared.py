"""Subexpressions that a value has several times are computed once, under a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set

from tilegen.ir.nodes import Cast, Expr, Op
from tilegen.ir.walk import rewrite

_LETTERS = "uvwpqxyz"


def named_parts(value: Expr, taken: Set[str]) -> tuple[list[tuple[str, Expr]], Expr]:
    """([(name, part)], the value in these names): the parts are the largest operations that recur.

    What is computed in one branch of a choice only is left there: its reads may be out of bounds
    in the other. A name stands in the value as `Op(name, ())`.
    """
    every = list(_computed_parts(value))
    if len(every) < 2:
        return [], value
    counts = Counter(every)
    parts: list[tuple[str, Expr]] = []
    letters = (letter for letter in _LETTERS if letter not in taken)
    for part in sorted((p for p, count in counts.items() if count > 1), key=_count_operations, reverse=True):
        if Counter(_computed_parts(value))[part] < 2:
            continue
        name = next(letters, None)
        if name is None:
            break
        use = Op(name, (), part.dtype)
        value = _replace_part(value, part, use)
        parts.append((name, part))
    return parts, value


def _replace_part(value: Expr, part: Expr, use: Expr) -> Expr:
    return rewrite(value, lambda v: use if v == part else v)


def _computed_parts(value: Expr) -> Iterator[Expr]:
    """The operations in `value` that are computed in any case."""
    match value:
        case Op("select", (test, _, _)):
            yield from _computed_parts(test)
        case Op("and" | "or", (first, _)):
            yield from _computed_parts(first)
        case Op(_, args):
            if args:
                yield value
            for arg in args:
                yield from _computed_parts(arg)
        case Cast(arg):
            yield from _computed_parts(arg)
        case _:
            pass


def _count_operations(value: Expr) -> int:
    return 1 + sum(1 for _ in _computed_parts(value))
