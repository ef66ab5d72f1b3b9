"""The k best of a row, found in tiles of `by` elements: only the k tiles whose own best ones come first hold any.

    at[i, r] = argmax[j](behind(X[i, j], j, last[i, r], place[i, r]))     the r-th of row i: after the one before

    lead[i, t] = max[e](X[i, t * by + e])                                 the best of each tile
    top[i, r] = max[t](behind(lead[i, t], t, (top[i, r - 1] else inf), (tile[i, r - 1] else -1)))
    tile[i, r] = min[t](t if lead[i, t] is that one else as many as there are)
    near[i, q, e] = (X[i, tile[i, q] * by + e] else -inf)                 the elements of the k best tiles
    value[i, r] = max[q, e](behind(near[i, q, e], tile[i, q] * by + e, last[i, r], place[i, r]))
    at[i, r] = min[q, e](tile[i, q] * by + e if near[i, q, e] is that one else the length of a row)

Here `behind(x, j, last, place)` is `x if x < last or x == last and j > place else -inf`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Cast, Const, Equation, Expr, Gather, Index, Kernel, Load, Op, Range
from tilegen.ir.parts.derived import BestOfTiles
from tilegen.ir.walk import substitute
from tilegen.ir.written import derive

_LEAST, _MOST = float("-inf"), float("inf")


@dataclass(frozen=True)
class Ranking:
    """`whole` finds in each iteration of its outermost loop the best element of `source` after `last` and `place`."""

    whole: Equation
    source: Load
    last: Expr
    place: Expr

    @property
    def along(self) -> Range:
        return self.whole.reduced[0]

    @property
    def dim(self) -> int:
        """The dimension of the source that the row goes along."""
        return self.source.index.index(var(self.along.name))

    def rows(self, name: str) -> tuple[tuple[Range, ...], dict[str, Affine]]:
        """The loops over rows, for the equation of `name`, and what those of `whole` are there."""
        rows = tuple(replace(r, name=f"{name}.{r.index}") for r in self.whole.loops[1:])
        return rows, {old.name: var(new.name) for old, new in zip(self.whole.loops[1:], rows, strict=True)}


def ranking_of(whole: Equation) -> Ranking | None:
    """What the equation ranks; None if it has another form."""
    match whole.value:
        case Op("select", (Op("or", (Op("<", (_, last)), Op("and", (_, Op(">", (_, place)))))), Load() as source, _)):
            pass
        case _:
            return None
    if whole.reduce != "argmax" or len(whole.reduced) != 1 or whole.carried != 1 or whole.conditions:
        return None
    along, rank = whole.reduced[0], whole.loops[0]
    plain = all(r.extent.is_const and r.low == const(0) and not r.down for r in (along, rank))
    names = [i.names() for i in source.index]
    alone = sum(along.name in n for n in names) == 1 and var(along.name) in source.index
    j = Index(var(along.name), "i32")
    masked = whole.value == behind(source, j, last, place) and (whole.arg, whole.first) == (j, Const(0, "i32"))
    if not (plain and alone and masked) or source.fallback or any(rank.name in n for n in names):
        return None
    return Ranking(whole, source, last, place)


def behind(x: Expr, j: Expr, last: Expr, place: Expr) -> Op:
    """`x`, which is at `j`, if it comes after the element that is `last` and at `place`; else -inf."""
    later = Op("and", (Op("==", (x, last), "bool"), Op(">", (j, place), "bool")), "bool")
    test = Op("or", (Op("<", (x, last), "bool"), later), "bool")
    return Op("select", (test, x, Const(_LEAST, x.dtype)), x.dtype)


def element(ranking: Ranking, index: tuple[Affine, ...], j: Expr) -> Gather:
    """The element `j` of a row; -inf where the row has none."""
    places: tuple[Expr, ...] = tuple(j if d == ranking.dim else Index(i, "i64") for d, i in enumerate(index))
    source = ranking.source
    return Gather(source.buffer, places, source.dtype, Const(_LEAST, source.dtype), (ranking.dim,))


def _where(x: Expr, j: Expr, value: Expr, last: Expr, place: Expr, none: int) -> Op:
    """`j` if `x` there is `value`, and after the last one; else `none`."""
    later = Op("or", (Op("<", (value, last), "bool"), Op(">", (j, place), "bool")), "bool")
    return Op("select", (Op("and", (Op("==", (x, value), "bool"), later), "bool"), j, Const(none, "i32")), "i32")


def with_tiles(kernel: Kernel, made: BestOfTiles) -> Kernel:
    """The kernel that ranks the tiles of a row, and then the elements of the best ones."""
    whole = next(e for e in kernel.equations if e.target == made.target)
    ranking = ranking_of(whole)
    assert ranking
    first = next(e for e in kernel.equations if e.loops[: e.carried] == whole.loops[:1])
    tiles, inside = _of_tiles(ranking, made), _of_elements(ranking, made)
    if first is whole:
        return derive(kernel, made, {whole.target: tiles + inside})
    return derive(kernel, made, {first.target: (*tiles, first), whole.target: inside})


def _index(*ranges: Range) -> tuple[Affine, ...]:
    return tuple(var(r.name) for r in ranges)


def _of_tiles(ranking: Ranking, made: BestOfTiles) -> tuple[Equation, ...]:
    """The best of each tile, the tiles of the best ones, and the elements of these."""
    lead, top, tile, near, _ = made.names
    whole, along, dtype = ranking.whole, ranking.along, ranking.source.dtype
    count = along.extent.const // made.by
    rows, here = ranking.rows(lead)
    t = Range(f"{lead}.{along.index}o", const(count), f"{along.index}o")
    e = Range(f"{lead}.{along.index}i", const(made.by), f"{along.index}i")
    term = substitute(ranking.source, here | {along.name: var(t.name) * made.by + var(e.name)})
    leads = Equation(lead, _index(*rows, t), (*rows, t), term, "max", (e,), span=whole.span)
    rank = replace(whole.loops[0], name=f"{tile}.{whole.loops[0].index}")
    ranked = []
    for name in (top, tile):
        rows, _ = ranking.rows(name)
        loop = replace(t, name=f"{name}.{t.index}")
        before = (*_index(*rows), var(rank.name) - 1)
        last = Load(top, before, dtype, Const(_MOST, dtype))
        after = Load(tile, before, "i32", Const(-1, "i32"))
        x, number = Load(lead, _index(*rows, loop), dtype), Index(var(loop.name), "i32")
        best = Load(top, _index(*rows, rank), dtype)
        value = behind(x, number, last, after) if name == top else _where(x, number, best, last, after, count)
        ranked.append(
            Equation(name, _index(*rows, rank), (rank, *rows), value, "max" if name == top else "min", (loop,),
                     carried=1, span=whole.span)
        )  # fmt: skip
    rows, here = ranking.rows(near)
    q, e = replace(rank, name=f"{near}.{rank.index}"), replace(e, name=f"{near}.{e.index}")
    its = Cast(Load(tile, _index(*rows, q), "i32"), "i64")
    found = Op("+", (Op("*", (its, Const(made.by, "i64")), "i64"), Index(var(e.name), "i64")), "i64")
    gather = element(ranking, substitute(ranking.source.index, here), found)
    return (leads, *ranked, Equation(near, _index(*rows, q, e), (*rows, q, e), gather, span=whole.span))


def _of_elements(ranking: Ranking, made: BestOfTiles) -> tuple[Equation, Equation]:
    """The value of each of the best elements, and where it is."""
    *_, tile, near, value = made.names
    whole, dtype = ranking.whole, ranking.source.dtype
    rank, word = whole.loops[0], ranking.along.index
    found = []
    for name in (value, whole.target):
        rows, here = ranking.rows(name)
        q = Range(f"{name}.k{rank.index}", rank.extent, f"k{rank.index}")
        e = Range(f"{name}.{word}i", const(made.by), f"{word}i")
        number = Op("*", (Load(tile, _index(*rows, q), "i32"), Const(made.by, "i32")), "i32")
        j = Op("+", (number, Index(var(e.name), "i32")), "i32")
        x, last, place = Load(near, _index(*rows, q, e), dtype), *substitute((ranking.last, ranking.place), here)
        if name == value:
            terms = behind(x, j, last, place)
            found.append(Equation(name, _index(*rows, rank), (rank, *rows), terms, "max", (q, e), carried=1,
                                  span=whole.span))  # fmt: skip
        else:
            best = Load(value, _index(*rows, rank), dtype)
            terms = _where(x, j, best, last, place, ranking.along.extent.const)
            some = Op(">", (best, Const(_LEAST, dtype)), "bool")
            terms = Op("select", (some, terms, Const(0, "i32")), "i32")
            new = replace(whole, loops=(rank, *rows), index=substitute(whole.index, here), value=terms, reduce="min")
            found.append(replace(new, reduced=(q, e), best=None, arg=None, first=None))
    return found[0], found[1]
