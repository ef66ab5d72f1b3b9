"""Rows, of which integer systems are made, and rows with other names."""

from __future__ import annotations

from collections.abc import Mapping

Terms = tuple[tuple[str, int], ...]
# (is an equality, terms, constant): sum of terms + constant == 0, or >= 0.
Row = tuple[bool, Terms, int]
Rows = tuple[Row, ...]


def rename(rows: tuple[Row, ...], names: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with other names."""
    if not names:
        return rows
    return tuple([(e, tuple([(names.get(n, n), f) for n, f in terms]), c) for e, terms, c in rows])


def identify(rows: tuple[Row, ...], names: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows with names replaced by others, which they may have already: the terms of one name are added up."""
    found: tuple[Row, ...] = ()
    for equal, terms, constant in rows:
        sums: dict[str, int] = {}
        for n, f in terms:
            n = names.get(n, n)
            sums[n] = sums.get(n, 0) + f
        found += ((equal, tuple((n, f) for n, f in sums.items() if f), constant),)
    return found


def exchange_primes(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows with the prime on the first of two instances instead of the second."""
    return tuple(
        [(e, tuple([(n[:-1] if n.endswith("'") else f"{n}'", f) for n, f in terms]), c) for e, terms, c in rows]
    )
