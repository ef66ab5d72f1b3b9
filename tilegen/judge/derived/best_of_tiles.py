"""The k best elements of a row are in the k tiles whose own best elements come first.

Elements are ordered by their values, from the largest down, those of one value by their places; NaN is none of them.
Each iteration of a ranking finds the first element after the one that the iteration before has found, so the r-th one
finds the r-th of the order, or nothing. Theorem: if each element is in a tile, and tiles are ordered by the first
element of each, then an element that is among the k first is in one of the k first tiles: otherwise the first elements
of these would all come before it. So a ranking of the tiles, and one of the elements in the best of them, of the same
form, find what one of all elements finds. Elements of -inf count as nothing in both.
"""

from __future__ import annotations

from typing import Any

from tilegen.ir.affine import var
from tilegen.ir.nodes import Cast, Const, Equation, Expr, Kernel, Load
from tilegen.ir.parts.derived import BestOfTiles
from tilegen.ir.reductions.split_best import Ranking, behind, element, ranking_of, with_tiles
from tilegen.ir.walk import rewrite, substitute
from tilegen.judge.derived.parts import equation_of
from tilegen.poly.verdict import Refused


def check_best_of_tiles(kernel: Kernel, origin: Kernel, made: BestOfTiles) -> None:
    """Refused where `kernel` has more than a ranking of `origin` by tiles, or that is no ranking."""
    ranking = ranking_of(equation_of(origin, made.target))
    if ranking is None or origin.tensor(ranking.source.buffer).role != "input" or not _goes_on(origin, ranking):
        raise Refused(f"'{made.target}' does not find the best elements of a row one after another")
    if made.by < 2 or ranking.along.extent.const % made.by:
        raise Refused(
            f"tiles of {made.by} do not divide a row of '{ranking.source.buffer}', of {ranking.along.extent}",
            way="a row has a whole number of tiles",
        )
    if kernel != with_tiles(origin, made):
        raise Refused(f"kernel '{kernel.name}' has more than the ranking of '{made.target}' by tiles")


def _goes_on(kernel: Kernel, ranking: Ranking) -> bool:
    """True if `last` and `place` are what the iteration before has found: the first one begins before all elements."""
    whole = ranking.whole
    rank = whole.loops[0].name
    before = substitute(whole.index, {rank: var(rank) - 1})
    last, place = (_written_out(kernel, each) for each in (ranking.last, ranking.place))
    at = Load(whole.target, whole.index, "i32")
    match last:
        case Load(best, index, fallback=Const(value)) if index == before and value == float("inf"):
            pass
        case _:
            return False
    if place != Load(whole.target, before, "i32", Const(-1, "i32")):
        return False
    found = equation_of(kernel, best)
    best_one = element(ranking, ranking.source.index, Cast(at, "i64"))
    return _is_plain(found) and _written_out(kernel, _at(found, whole.index)) == behind(best_one, at, last, place)


def _written_out(kernel: Kernel, value: Expr) -> Expr:
    """The value with equations that reduce nothing in the place of what reads them, but for earlier iterations."""

    def change(part: Any) -> Any:
        if not isinstance(part, Load) or part.fallback or kernel.tensor(part.buffer).role == "input":
            return part
        source = equation_of(kernel, part.buffer)
        return _written_out(kernel, _at(source, part.index)) if _is_plain(source) else part

    written: Expr = rewrite(value, change)
    return written


def _is_plain(equation: Equation) -> bool:
    """True of an equation that gives each element a value, without reducing anything."""
    names = sorted(r.name for r in equation.loops)
    alone = sorted(map(str, equation.index)) == names
    return alone and equation.reduce is None and not equation.conditions and equation.hits is None


def _at(equation: Equation, index: tuple[Any, ...]) -> Expr:
    """What the equation says of the element `index`."""
    return substitute(equation.value, {str(loop): place for loop, place in zip(equation.index, index, strict=True)})
