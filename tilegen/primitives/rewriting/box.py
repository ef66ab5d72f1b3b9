"""The box of a cache: the smallest part of a buffer that holds all uses inside a loop, and its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from tilegen.errors import StepError
from tilegen.ir.affine import Affine
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import Buffer, Condition
from tilegen.primitives.rewriting.region import BufferUse, Point, Region


@dataclass(frozen=True)
class Box:
    """The smallest box around the uses: `base` is affine in the loops outside, `extent` constant.

    Of a dimension it has every element, or one in `step` where no use is between them.
    """

    base: Point
    extent: tuple[int, ...]
    step: tuple[int, ...]

    def relative(self, index: Point) -> Point:
        """The place of the point `index` in the box."""
        return tuple((i - b) // s for i, b, s in zip(index, self.base, self.step, strict=True))

    def in_vectors(self, dim: int, width: int) -> Box:
        """The box with whole vectors along `dim`; as it is where the loops outside have it begin at no multiple."""
        base = self.base[dim]
        if width < 2 or self.extent[dim] == 1 or any(factor % width for _, factor in base.terms):
            return self
        before = base.const % width
        extent = -(-(self.extent[dim] + before) // width) * width
        bases, extents = list(self.base), list(self.extent)
        bases[dim], extents[dim] = base - before, extent
        return Box(tuple(bases), tuple(extents), self.step)


def box_of(region: Region, *, spaced: bool = False) -> Box:
    """The box of the region. StepError where it has no constant size.

    Args:
        spaced: it leaves out what is between the uses, but for the fastest dimension.
    """
    dense = () if spaced else region.buffer.order
    sides = [_side(region, dim, dense or region.buffer.order[-1:]) for dim in range(len(region.buffer.shape))]
    return Box(tuple(b for b, _, _ in sides), tuple(n for _, n, _ in sides), tuple(step for _, _, step in sides))


def _side(region: Region, dim: int, dense: tuple[int, ...]) -> tuple[Affine, int, int]:
    """(base, extent, step) of the box in a dimension."""
    spans: dict[Affine, tuple[int, int]] = {}
    users: dict[Affine, BufferUse] = {}
    step = 0
    for use in region.uses:
        outer, low, high = _fixed_and_rest(region, use, use.index[dim])
        least, most = spans.get(outer, (low, high))
        spans[outer] = (min(least, low), max(most, high))
        step = gcd(step, low - least, *(factor for _, factor in (use.index[dim] - outer).terms))
        users.setdefault(outer, use)
    if len(spans) > 1:
        one, two = list(spans)[:2]
        raise StepError(
            f"two uses of '{region.buffer.name}' are at no constant distance: {one} and {two}",
            notes=(_way_to_part(region, one - two, users[one], users[two]),),
        )
    (outer, (low, high)) = spans.popitem()
    step = 1 if dim in dense else step or 1
    return outer + low, (high - low) // step + 1, step


def _way_to_part(region: Region, distance: Affine, one: BufferUse, two: BufferUse) -> str:
    """The way out for two uses whose indices differ by `distance`."""
    names = [frozenset(n for i in use.index for n in i.names()) for use in (one, two)]
    inside = [[loop.name for loop in use.path] for use in (one, two)]
    firsts, seconds = ([n for n in inside[k] if n in names[k] - names[1 - k]] for k in (0, 1))
    if firsts and seconds:
        way = f"using=[{firsts[0]}] takes one of them, and using=[{seconds[0]}] the other"
        return f"{way}, in a copy with a name after '->'"
    if distance.names() <= region.sizes:
        sizes = sorted(distance.names())
        what = "the size" if len(sizes) == 1 else "the sizes"
        return f"fix {what} {' and '.join(sizes)}, so that the distance is a number"
    return "an intermediate tensor that holds one of them can have a copy of its own"


def _fixed_and_rest(region: Region, use: BufferUse, value: Affine) -> tuple[Affine, int, int]:
    """(part that the loops outside fix, least and greatest of the rest)."""
    inner = {loop.name: loop for loop in use.path}
    moving = value.part_with(inner) + value.const
    extents: dict[str, int] = {}
    for name in moving.names() & inner.keys():
        loop = inner[name]
        if not loop.extent.is_const:
            raise StepError(
                f"the part of '{region.buffer.name}' used inside '{region.at}' has no constant size: "
                f"loop '{name}' runs to {loop.extent}",
                notes=(f"tile '{name}' and choose a loop outside its inner part, or fix the size",),
            )
        extents[name] = loop.extent.const
    ends = interval_of(moving, extents)
    if ends is None:
        raise StepError(f"an index of '{region.buffer.name}' mixes loops inside and outside '{region.at}': {value}")
    return value - moving, ends[0], ends[1]


def bounds_conditions(
    buffer: Buffer, index: Point, extents: Mapping[str, int], around: Mapping[str, Affine] | None = None
) -> tuple[Condition, ...]:
    """The conditions that `index` lies in `buffer`, without those that interval arithmetic proves.

    `extents` are the constant extents of loops, `around` the symbolic ones: of the tiles of N the last one ends at N.
    """
    conditions: list[Condition] = []
    for place, extent in zip(index, buffer.shape, strict=True):
        if place.const < 0 or any(coefficient < 0 for _, coefficient in place.terms):
            conditions += [Condition(place)]
        room = extent - 1 - place
        ends = interval_of(_least_room(room, around or {}), extents)
        if ends is None or ends[0] < 0:
            conditions += [Condition(room)]
    return tuple(conditions)


def _least_room(room: Affine, around: Mapping[str, Affine]) -> Affine:
    """`room` in the last iteration of the loops that it falls with."""
    names = [name for name in room.names() & around.keys() if room.linear_in(name) and room.coefficient(name) < 0]
    last = {name: around[name] - 1 for name in names}
    return room.substitute(last)
