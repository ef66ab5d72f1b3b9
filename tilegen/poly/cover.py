"""The other question that is asked: do some integer systems, together, cover another one?

Most answers are that one piece does so by itself. It is asked for each group of rows that shares no name with the
others: what is said of `i` and M has nothing to do with what is said of `j` and N. Groups in which no piece says more
than what is to be covered are not asked about, and the small questions that are left come again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import islpy as isl

from tilegen.poly.rows import Rows
from tilegen.poly.system import Point, Row, Undecided, asked, context, groups, matrix, solvable


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
    used: list[Iterable[Row]] = []
    try:
        for piece in pieces:
            # What is plain of rows that nothing else is asked about would cost more than isl does.
            more = piece.beyond(wanted) if isinstance(piece, Rows) else None
            if isinstance(piece, Rows) and piece.plain.impossible:
                continue
            if isinstance(piece, Rows) and more is not None:
                left = wanted.plain.open({*wanted.names, *names}, more, piece.plain)
                if not left:
                    return None
                piece = [*wanted, *left]
            used.append(piece)
            if _cover(wanted, used, names):
                return None
    except isl.Error as error:
        raise Undecided(str(error)) from None
    # What is never the case is covered by anything, and by nothing.
    return [wanted, *used] if solvable(wanted) else None


def _cover(wanted: Rows, pieces: Sequence[Iterable[Row]], names: list[str]) -> bool:
    """True if the pieces cover `wanted`; also False where that is never the case and no group of its rows says so."""
    own = dict.fromkeys(wanted)
    rows = dict.fromkeys(row for rows in (own, *pieces) for row in rows if not _says_nothing(row))
    if not all(terms for _, terms, _ in rows):
        return _nothing_left(tuple(_text(each, names) for each in (wanted, *pieces)), len(names))
    together: dict[Row, None] = {}
    for group in map(dict.fromkeys, groups(list(rows))):
        said = {frozenset(row for row in piece if row in group) for piece in pieces}
        if all(each <= own.keys() for each in said):
            continue
        # Where the pieces say different things, another one may hold in each group: these are asked about together.
        if len(said) > 1:
            together |= group
        elif not _covered_in(group, [own, *pieces[:1]], names):
            return False
    return not together or _covered_in(together, [own, *pieces], names)


def _says_nothing(row: Row) -> bool:
    return not row[1] and (not row[2] if row[0] else row[2] >= 0)


def _covered_in(group: dict[Row, None], sets: Sequence[Iterable[Row]], names: list[str]) -> bool:
    """True if the first of the sets is covered by the others, all of them restricted to the rows of a group."""
    used = {name for _, terms, _ in group for name, _ in terms}
    mine = [name for name in names if name in used]
    return _nothing_left(tuple(_text((row for row in rows if row in group), mine) for rows in sets), len(mine))


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
