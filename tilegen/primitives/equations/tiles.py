"""The equations of a running reduction in tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Equation, Load, Op, Range
from tilegen.ir.reductions.initial import COMBINES
from tilegen.ir.reductions.linear import after_step
from tilegen.ir.walk import substitute
from tilegen.primitives.equations.prefix import Prefix
from tilegen.primitives.rewriting.names import Names


@dataclass(frozen=True)
class Tiles:
    """The equations of a prefix in tiles. `taken` are the names that are."""

    prefix: Prefix
    size: int
    taken: set[str]

    def frame(self, name: str) -> tuple[Range, ...]:
        """The outer loops of the tensor `name`, and that over tiles."""
        fresh, i = Names(self.taken, name), self.prefix.i
        outer = tuple(replace(r, name=fresh.of(r.index)) for r in self.prefix.outer)
        count = self.prefix.extent.ceildiv(self.size)
        return *outer, Range(fresh.of(f"{i.index}o"), count, f"{i.index}o")

    def inside(self, name: str) -> Range:
        """The loop inside of a tile."""
        word = f"{self.prefix.i.index}i"
        return Range(Names(self.taken, name).of(word), const(self.size), word)

    def reduced(
        self, name: str, frame: tuple[Range, ...], inside: Range | None = None, *, factors: bool = False
    ) -> tuple[Equation, tuple[Affine, ...]]:
        """What reduces the terms of a tile, or those that the prefix `inside` of it has; and which terms these are.

        It is the product of the `factors` of a linear reduction, if asked for.
        """
        whole, fresh, k = self.prefix.equation, Names(self.taken, name), self.prefix.k
        whole = replace(whole, value=whole.arg or whole.value, arg=None, reduce="prod") if factors else whole
        loops = (*frame, inside) if inside else frame
        ki = Range(fresh.of(f"{k.index}i"), const(self.size), f"{k.index}i")
        rest = tuple(replace(r, name=fresh.of(r.index)) for r in self.prefix.inner)
        here = self._outer(frame) | {old.name: var(r.name) for old, r in zip(self.prefix.inner, rest, strict=True)}
        place = self._place(var(frame[-1].name), var(ki.name))
        least = 0 if self.prefix.inclusive else 1
        reaches = (Condition(var(inside.name) - var(ki.name) - least),) if inside else ()
        made = replace(
            whole,
            target=name,
            index=tuple(var(r.name) for r in loops),
            loops=loops,
            value=substitute(whole.value, here | {k.name: place}),
            arg=substitute(whole.arg, here | {k.name: place}),
            reduced=(ki, *rest),
            conditions=(
                *reaches,
                *substitute((*self.prefix.rows, *self.prefix.terms), here | {k.name: place}),
                *self._tail(k, place),
            ),
        )
        return made, substitute(self.prefix.term_at(place), here)

    def ahead(self, name: str, total: Equation, factor: str | None) -> Equation:
        """What the tiles before have come to; with `factor` of each, of a linear reduction."""
        frame = self.frame(name)
        word = f"{self.prefix.k.index}o"
        ko = Range(Names(self.taken, name).of(word), frame[-1].extent, word)
        index = tuple(var(r.name) for r in (*frame[:-1], ko))
        return replace(
            total,
            target=name,
            index=tuple(var(r.name) for r in frame),
            loops=frame,
            value=Load(total.target, index, total.value.dtype),
            arg=Load(factor, index, total.value.dtype) if factor else None,
            reduced=(ko,),
            conditions=(
                Condition(var(frame[-1].name) - var(ko.name) - 1),
                *substitute(self.prefix.rows, self._outer(frame)),
            ),
        )

    def combined(self, ahead: str, local: str, factors: str | None) -> tuple[Equation, tuple[Affine, ...]]:
        """The prefix of the tiles before combined with that inside of the tile, and the point that it is."""
        whole, frame = self.prefix.equation, self.frame(self.prefix.equation.target)
        loops = (*frame, self.inside(whole.target))
        here, index = self._outer(frame), tuple(var(r.name) for r in loops)
        place = self._place(index[-2], index[-1])
        dtype, values = whole.value.dtype, here | {self.prefix.i.name: place}
        first, inside = Load(ahead, index[:-1], dtype), Load(local, index, dtype)
        both = after_step(Load(factors, index, dtype), first, inside) if factors else None
        new = replace(
            whole,
            index=substitute(whole.index, values),
            loops=loops,
            value=both or Op(COMBINES[whole.reduce or ""], (first, inside), dtype),
            reduce=None,
            arg=None,
            reduced=(),
            conditions=(*substitute(self.prefix.points, values), *self._tail(self.prefix.i, place)),
        )
        return new, substitute(self.prefix.point_at(place), here)

    def _place(self, tile: Affine, inside: Affine) -> Affine:
        """The place in the range; tiles, and what is inside of them, are counted from where the prefixes begin."""
        if self.prefix.forward:
            return tile * self.size + inside
        return (self.prefix.extent.ceildiv(self.size) - tile) * self.size - 1 - inside

    def _outer(self, frame: tuple[Range, ...]) -> dict[str, Affine]:
        """The outer loops of the prefix in those of a frame."""
        return {old.name: var(r.name) for old, r in zip(self.prefix.outer, frame, strict=False)}

    def _tail(self, r: Range, place: Affine) -> tuple[Condition, ...]:
        """That a place in tiles is in the range, where not all are."""
        whole = r.extent.is_const and r.extent.const % self.size == 0 and r.extent == self.prefix.extent
        return () if whole else (Condition(r.extent - 1 - place),)
