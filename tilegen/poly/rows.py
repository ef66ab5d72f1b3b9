"""Rows, of which integer systems are made, and rows with other names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Terms = tuple[tuple[str, int], ...]
# (is an equality, terms, constant): sum of terms + constant == 0, or >= 0.
Row = tuple[bool, Terms, int]
Rows = tuple[Row, ...]
# What a row that a loop is later than itself comes to.
FALSE: Row = (False, (), -1)


def add_up(terms: Iterable[tuple[str, int]]) -> Terms:
    """The terms with the factors of each name added up; without names that nothing is left of."""
    sums: dict[str, int] = {}
    for name, factor in terms:
        sums[name] = sums.get(name, 0) + factor
    return tuple([(name, factor) for name, factor in sums.items() if factor])


def rename(rows: tuple[Row, ...], names: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with other names."""
    if not names:
        return rows
    return tuple([(e, tuple([(names.get(n, n), f) for n, f in terms]), c) for e, terms, c in rows])


def identify(rows: tuple[Row, ...], names: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with names replaced by others, which they may have already: the terms of one name are added up."""
    return tuple([(e, add_up((names.get(n, n), f) for n, f in terms), c) for e, terms, c in rows])


def equate(pairs: Iterable[tuple[str, str]]) -> Rows:
    """Rows that say that the two names of each pair have one value; none of a name and itself."""
    return tuple([(True, ((a, 1), (b, -1)), 0) for a, b in pairs if a != b])


def exchange_primes(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows with the prime on the first of two instances instead of the second."""
    return tuple(
        [(e, tuple([(n[:-1] if n.endswith("'") else f"{n}'", f) for n, f in terms]), c) for e, terms, c in rows]
    )
