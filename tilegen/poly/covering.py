"""Coverings: is one integer system contained in the union of others?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import islpy as isl

from tilegen.ir.affine import factors_of
from tilegen.poly.rows import Rows
from tilegen.poly.system import (
    Point,
    Row,
    Undecided,
    context,
    matrix,
    one_at_a_time,
    question_count,
    with_products,
)


def find_uncovered(wanted: Iterable[Row], pieces: Iterable[Iterable[Row]], names: list[str]) -> Point | None:
    """The least point over `names` that `wanted` holds and no piece does, or None if the pieces cover it.

    Names beyond those given are existential, in `wanted` and in each piece of its own. Sizes fit, as in `example`.
    """
    whole, asked = tuple(wanted), list[Rows]()

    def each() -> Iterator[Rows]:
        for piece in pieces:  # many, of which the first ones may do
            asked.append(tuple(piece))
            yield asked[-1]

    point = _find_uncovered(whole, each(), names)
    return point and with_products(point, names, lambda more: _find_uncovered(whole + more, asked, names))


def _find_uncovered(wanted: Rows, pieces: Iterable[Rows], names: list[str]) -> Point | None:
    texts = _texts_of_rest(wanted, pieces, names)
    if texts is None:
        return None
    try:
        with one_at_a_time:
            point = _least_point(_difference(texts, len(names)))
        return {name: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, name in enumerate(names)}
    except isl.Error as error:
        raise Undecided(str(error)) from None


def is_covered(wanted: Iterable[Row], pieces: Iterable[Iterable[Row]], names: list[str]) -> bool:
    """True if the pieces cover `wanted`, as for `find_uncovered`."""
    return _texts_of_rest(wanted, pieces, names) is None


def _texts_of_rest(wanted: Iterable[Row], pieces: Iterable[Iterable[Row]], names: list[str]) -> tuple[str, ...] | None:
    """The texts of `wanted` and of all pieces, whose difference is not empty; None as soon as nothing is left."""
    question_count()
    texts: tuple[str, ...] = (_matrix_text(wanted, names),)
    try:
        if _is_difference_empty(texts, len(names)):
            return None
        for piece in pieces:
            texts += (_matrix_text(piece, names),)
            if _is_difference_empty(texts, len(names)):
                return None
        return texts
    except isl.Error as error:
        raise Undecided(str(error)) from None


def _matrix_text(rows: Iterable[Row], names: list[str]) -> str:
    text, columns = matrix(list(dict.fromkeys(rows)), names)
    sizes = [name for name in [*columns][len(names) :] if len(factors_of(name.rstrip("*"))) > 1 and name[0] != "("]
    assert not sizes, f"{sizes} would be other sizes in each piece"
    return text


@lru_cache(maxsize=20_000)
def _is_difference_empty(texts: tuple[str, ...], width: int) -> bool:
    with one_at_a_time:
        return bool(_difference(texts, width).is_empty())


@lru_cache(maxsize=2_000)
def _difference(texts: tuple[str, ...], width: int) -> isl.Set:
    """The first set without the others, each projected to its first `width` columns."""
    rest = _difference(texts[:-1], width) if len(texts) > 1 else None
    context.reset_operations()
    last = _project_text(texts[-1], width)
    return last if rest is None else rest.subtract(last)


def _least_point(points: isl.Set) -> Any:
    """The least point of a set that is not empty; any point where the least one takes too long."""
    context.reset_operations()
    try:
        return points.lexmin().sample_point()
    except isl.Error:
        context.reset_operations()
        return points.sample_point()


def _project_text(text: str, width: int) -> isl.Set:
    whole = isl.BasicSet.read_from_str(context, text)
    extra = whole.dim(isl.dim_type.set) - width
    return whole.to_set().project_out(isl.dim_type.set, width, extra)
