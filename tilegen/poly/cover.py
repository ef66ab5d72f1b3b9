"""The other question that is asked: do some integer systems, together, cover another one?

Most answers are that one piece does so by itself. It is asked for each group of rows that shares no name with the
others: what is said of `i` and M has nothing to do with what is said of `j` and N. Groups in which no piece says more
than what is to be covered are not asked about, and the small questions that are left come again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import islpy as isl

from tilegen.poly.plain import Plain
from tilegen.poly.quotients import put_away
from tilegen.poly.rows import Rows
from tilegen.poly.system import Point, Row, Undecided, asked, context, matrix, solvable


def uncovered(wanted: Iterable[Row], pieces: Iterable[Rows | Iterable[Row]], names: list[str]) -> Point | None:
    """The least point over `names` that `wanted` holds and no piece does, or None if the pieces cover it.

    Names beyond those given are existential, in `wanted` and in each piece of its own.
    """
    open_ = _until_covered(wanted, pieces, names)
    if open_ is None:
        return None
    try:
        point = _least(_left(tuple(_text(rows, names) for rows in open_), len(names)))
        return {name: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, name in enumerate(names)}
    except isl.Error as error:
        raise Undecided(str(error)) from None


def covered(wanted: Iterable[Row], pieces: Iterable[Rows | Iterable[Row]], names: list[str]) -> bool:
    """True if the pieces cover `wanted`, as for `uncovered`."""
    return _until_covered(wanted, pieces, names) is None


def _until_covered(
    wanted: Iterable[Row], pieces: Iterable[Rows | Iterable[Row]], names: list[str]
) -> list[Iterable[Row]] | None:
    """None as soon as nothing is left of `wanted` without the pieces; else it and all that had to be looked at."""
    asked()
    wanted = wanted if isinstance(wanted, Rows) else Rows(tuple(wanted))
    # What each piece says beyond `wanted`.
    open_: list[list[Row]] = []
    try:
        for piece in pieces:
            left = _left_open(wanted, piece, names)
            if left is None:
                continue
            if not left:
                return None
            open_.append(left)
        if open_ and _cover(wanted, open_, names):
            return None
    except isl.Error as error:
        raise Undecided(str(error)) from None
    # What is never the case is covered by anything, and by nothing.
    return [wanted, *([*wanted, *left] for left in open_)] if solvable(wanted) else None


def _left_open(wanted: Rows, piece: Rows | Iterable[Row], names: list[str]) -> list[Row] | None:
    """What is left to ask of a piece: rows beyond those of `wanted`. None if the piece is never the case."""
    beyond = piece.beyond(wanted) if isinstance(piece, Rows) else None
    more = [row for row in (piece if beyond is None else beyond) if row not in wanted.each]
    told = {*wanted.by_name, *names}
    # What is plain of rows that nothing else is asked about would cost more than isl does.
    if more and isinstance(piece, Rows) and beyond is not None:
        if piece.plain.impossible:
            return None
        more = wanted.plain.open(told, more, piece.plain)
    if more:
        more = put_away(more, told, wanted.plain)
    if any(not terms and (constant if equal else constant < 0) for equal, terms, constant in more):
        return None
    return [row for row in dict.fromkeys(more) if row[1]]


def _cover(wanted: Rows, pieces: Sequence[Sequence[Row]], names: list[str]) -> bool:
    """True if the pieces cover `wanted`, which each of them says more of; also False where that is never the case
    and no group of its rows says so."""
    if _by_cases(wanted.plain, pieces, {*wanted.by_name, *names}):
        return True
    together: dict[Row, None] = {}
    for group in _groups(wanted, pieces):
        said = {frozenset(row for row in piece if row in group) for piece in pieces}
        # Where the pieces say different things, another one may hold in each group: these are asked about together.
        if len(said) > 1:
            together |= group
        elif not _covered_in(wanted, group, pieces[:1], names):
            return False
    return not together or _covered_in(wanted, together, pieces, names)


def _by_cases(given: Plain, pieces: Sequence[Sequence[Row]], known: AbstractSet[str]) -> bool:
    """True if the pieces plainly cover what is given: where a piece of one row does not hold, the other ones do."""
    if given.impossible:
        return True
    left = [[row for row in piece if not given.certain((row,))] for piece in pieces]
    if not all(left):
        return True
    for n, piece in enumerate(left):
        equal, terms, constant = piece[0]
        if len(piece) == 1 and not equal and known >= dict(terms).keys():
            contrary = (False, tuple((name, -factor) for name, factor in terms), -constant - 1)
            return _by_cases(given.plus((contrary,)), left[:n] + left[n + 1 :], known)
    return False


def _groups(wanted: Rows, pieces: Sequence[Sequence[Row]]) -> Iterator[dict[Row, None]]:
    """The rows of the pieces, and those of `wanted` that share names with them, in groups that share none."""
    by_name: dict[str, list[Row]] = {}
    rest = dict.fromkeys(row for piece in pieces for row in piece)
    for row in rest:
        for name, _ in row[1]:
            by_name.setdefault(name, []).append(row)
    while rest:
        group: dict[Row, None] = {}
        seen: set[str] = set()
        waiting = [next(iter(rest))]
        while waiting:
            row = waiting.pop()
            if row in group:
                continue
            group[row] = None
            rest.pop(row, None)
            for name, _ in row[1]:
                if name not in seen:
                    seen.add(name)
                    waiting += by_name.get(name, ())
                    waiting += wanted.by_name.get(name, ())
        yield group


def _covered_in(wanted: Rows, group: dict[Row, None], pieces: Sequence[Sequence[Row]], names: list[str]) -> bool:
    """True if what the group has of `wanted` is covered by what it has of the pieces."""
    used = {name for _, terms, _ in group for name, _ in terms}
    mine = [name for name in names if name in used]
    own = [row for row in group if row in wanted.each]
    said = ([*own, *(row for row in piece if row in group)] for piece in pieces)
    return _nothing_left(tuple(_text(rows, mine) for rows in (own, *said)), len(mine))


def _text(rows: Iterable[Row], names: list[str]) -> str:
    return matrix(list(dict.fromkeys(rows)), names)[0]


@lru_cache(maxsize=20_000)
def _nothing_left(texts: tuple[str, ...], width: int) -> bool:
    return bool(_left(texts, width).is_empty())


@lru_cache(maxsize=2_000)
def _left(texts: tuple[str, ...], width: int) -> isl.Set:
    """The first set without the others, each projected to its first `width` columns."""
    rest = _left(texts[:-1], width) if len(texts) > 1 else None
    context.reset_operations()
    last = _projected(texts[-1], width)
    return last if rest is None else rest.subtract(last)


def _least(points: isl.Set) -> Any:
    """The least point of a set that is not empty; any point where the least one takes too long."""
    context.reset_operations()
    try:
        return points.lexmin().sample_point()
    except isl.Error:
        context.reset_operations()
        return points.sample_point()


def _projected(text: str, width: int) -> isl.Set:
    whole = isl.BasicSet.read_from_str(context, text)
    extra = whole.dim(isl.dim_type.set) - width
    return whole.to_set().project_out(isl.dim_type.set, width, extra)
