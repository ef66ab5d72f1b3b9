"""Names that are quotients of others are put away: what is said of them is said of what they divide.

    k - 8*ko - ki == 0,  0 <= ki <= 7,  ko >= 0,  8*ko < K    for some ko and ki
    0 <= k - 8*ko <= 7,                 ko >= 0,  8*ko < K    for some ko, since ki is k - 8*ko
    k >= 0                                                    where k < K, since ko is k/8

These are the digits of an index, which tiles and copies are full of. Each name that goes leaves rows that hold at the
same points; names of which this cannot be said stay, for isl.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tilegen.poly.plain import Plain, Row, Sums

# A row, with its terms as sums.
_Open = tuple[bool, Sums, int]


class _Quotient(NamedTuple):
    """by*name <= whole + start < by*name + by, which is what `rows` say."""

    name: str
    whole: Sums
    start: int
    by: int
    rows: tuple[_Open, ...]


def put_away(rows: Iterable[Row], known: AbstractSet[str], given: Plain) -> list[Row]:
    """Rows that hold at the same points as `rows` do for some integers, wherever these points are `given`.

    Args:
        known: the names of points. The other ones may be any integers.
        given: what is plain of points.
    """
    left: list[_Open] = [(equal, dict(terms), constant) for equal, terms, constant in rows]
    names = dict.fromkeys(n for _, sums, _ in left for n in sums)
    # A digit can go when those below it have gone, which mostly come last.
    waiting = [name for name in reversed(names) if name not in known]
    more = bool(waiting)
    while more:
        more = False
        for name in waiting.copy():
            less = _without(name, left, known, given)
            if less is not None:
                waiting.remove(name)
                left, more = less, True
    return [(equal, tuple(sums.items()), constant) for equal, sums, constant in left]


def _without(name: str, rows: list[_Open], known: AbstractSet[str], given: Plain) -> list[_Open] | None:
    """The rows without this name; None if that cannot be said."""
    quotient = _quotient(name, [row for row in rows if name in row[1]])
    if quotient is None:
        return None
    left: list[_Open] = []
    for row in rows:
        if name not in row[1]:
            left.append(row)
        elif row not in quotient.rows:
            said = _said_of_whole(row, quotient)
            if said is None:
                return None
            (equal, sums, constant), exact = said
            if known >= sums.keys() and given.certain(((equal, tuple(sums.items()), constant),)):
                continue
            if not exact:
                return None
            left.append((equal, sums, constant))
    return left


def _quotient(name: str, rows: list[_Open]) -> _Quotient | None:
    """Rows that say that the name is a quotient: an equality, or two inequalities that leave one value for it."""
    for row in rows:
        equal, sums, constant = row
        factor = sums[name]
        if equal and factor in (1, -1):
            return _Quotient(
                name, {n: -factor * f for n, f in sums.items() if n != name}, -factor * constant, 1, (row,)
            )
        if equal or factor > 0:
            continue
        upper = (False, {n: -f for n, f in sums.items()}, -factor - 1 - constant)
        if upper in rows:
            return _Quotient(name, {n: f for n, f in sums.items() if n != name}, constant, -factor, (row, upper))
    return None


def _said_of_whole(row: _Open, quotient: _Quotient) -> tuple[_Open, bool] | None:
    """What makes the row hold, said of what is divided, and whether it holds nowhere else. None for any other row."""
    equal, sums, constant = row
    factor, by, start = sums[quotient.name], quotient.by, quotient.start
    if factor % by == 0 and not (equal and by > 1):
        # by*name is no more than the whole, and by - 1 less at most.
        exact, scale, times = by == 1, 1, factor // by
        constant += times * start - max(times, 0) * (by - 1)
    elif factor in (1, -1) and not equal:
        # name >= a where the whole is by*a at least, name <= b where it is by*b + by - 1 at most.
        exact, scale, times = True, by, factor
        constant = by * constant + factor * start + (by - 1 if factor < 0 else 0)
    else:
        return None
    said = {n: scale * f for n, f in sums.items() if n != quotient.name}
    for n, f in quotient.whole.items():
        said[n] = said.get(n, 0) + times * f
    return (equal, {n: f for n, f in said.items() if f}, constant), exact
