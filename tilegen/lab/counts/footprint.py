"""What a launch has to move at least: the elements of its tensors that its equations read or write, each once.

An element that an equation does not speak of is not counted: the others of X[i, 0], one triangle of a matrix, the rows
that no index names. How much that is follows from the equations alone, so that it is the same after each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import exp, prod

from tilegen.ir.affine import Affine, const
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, Condition, Equation, Index
from tilegen.ir.walk import gathers, loads, stmts
from tilegen.lowering.launch.launch import Launch
from tilegen.poly.system import Undecided, rows_of, solvable

Ranges = tuple[tuple[str, int], ...]  # each loop with how often it runs

_SAMPLES = 256  # elements that are asked for, where an equation reads neither all of them nor a box
_STEPS = (2**0.5, 3**0.5, 5**0.5, 7**0.5, 11**0.5)  # irrational: the samples are spread evenly over all dimensions


def moved_at_least(launch: Launch, sizes: Mapping[str, int], hits: float = 0.0) -> int:
    """Bytes, where that share of the points of lists are `hits`.

    Of a tensor that no equation of the launch speaks of, such as parts of a sum, it is all.
    """
    names = {stmt.name for stmt in stmts((launch.distributed,))}
    equations = [equation for equation in launch.kernel.equations if equation.target in names]
    found = 0.0
    for name in launch.tensors:
        buffer = launch.buffers[name]
        bytes_ = DTYPE_BYTES[buffer.dtype] * prod(extent.evaluate(sizes) for extent in buffer.shape)
        shapes = {t.name: t.shape for t in launch.kernel.tensors if memory_of(t.name) == name}
        shares = (share for each in equations for share in _shares(each, shapes, sizes, hits))
        found += bytes_ * max(shares, default=1.0)
    return round(found)


def _shares(
    equation: Equation, shapes: Mapping[str, tuple[Affine, ...]], sizes: Mapping[str, int], hits: float
) -> Iterator[float]:
    """The share of a tensor, known by these names, that each of the equation's accesses touches."""
    values = {name: const(value) for name, value in sizes.items()}
    loops = tuple((r.name, r.extent.evaluate(sizes)) for r in (*equation.loops, *equation.reduced))
    conditions = tuple(Condition(c.value.substitute(values), c.equal) for c in equation.conditions)
    outer = {r.name for r in equation.loops} | set(sizes)
    written = tuple(c for c in conditions if c.value.names() <= outer)
    read = [(load.buffer, load.index, conditions) for load in loads((equation.value, equation.arg))]
    kept = equation.hits
    if kept and kept.access.buffer in shapes:
        elements = prod(extent.evaluate(sizes) for extent in shapes[kept.access.buffer])
        yield min(1.0, hits * len(kept.items) * prod(count for _, count in loops) / elements)
    if not kept or equation.reduce:
        read.append((equation.target, equation.index, written))
    for buffer, index, limits in read:
        if buffer in shapes:
            extents = tuple(extent.evaluate(sizes) for extent in shapes[buffer])
            yield _share(tuple(place.substitute(values) for place in index), extents, loops, limits)
    for gather in gathers((equation.value, equation.arg)):
        if gather.buffer in shapes:
            yield _share_at_random(gather.index, prod(e.evaluate(sizes) for e in shapes[gather.buffer]), loops)


def _share_at_random(index: tuple[object, ...], elements: int, loops: Ranges) -> float:
    """What is touched in the mean where data decide the places."""
    spoken = {n for part in (*loads(index), *index) for n in _names(part)}
    runs = prod(count for name, count in loops if name in spoken)
    return 1 - exp(-runs / elements)


def _names(part: object) -> set[str]:
    if isinstance(part, Index):
        return set(part.index.names())
    return {name for place in getattr(part, "index", ()) if isinstance(place, Affine) for name in place.names()}


@lru_cache(maxsize=1000)
def _share(
    index: tuple[Affine, ...], extents: tuple[int, ...], loops: Ranges, conditions: tuple[Condition, ...]
) -> float:
    """The share of a box of `extents` that the places are in all iterations of the loops that fulfil the conditions."""
    share, left = 1.0, []
    for dim, place in enumerate(index):
        others = [*index[:dim], *index[dim + 1 :], *(c.value for c in conditions)]
        if any(not place.names().isdisjoint(other.names()) for other in others) or not _is_plain(place):
            left.append(dim)
        else:
            share *= _count_plain(place, extents[dim], dict(loops)) / extents[dim]
    return share * (_sampled_share(index, extents, loops, conditions, left) if left else 1.0)


def _is_plain(place: Affine) -> bool:
    return not place.terms or (len(place.terms) == 1 and isinstance(place.terms[0][0], str))


def _count_plain(place: Affine, extent: int, loops: Mapping[str, int]) -> int:
    """How many places from 0 to `extent` - 1 the place is at, which is a number or a multiple of a loop and one."""
    if not place.terms:
        return int(0 <= place.const < extent)
    factor, count = place.terms[0][1], loops[str(place.terms[0][0])]
    first, last = sorted((place.const, place.const + factor * (count - 1)))
    step = abs(factor)
    below = -(-max(0, -first) // step)  # the places that lie below 0
    return max(0, (min(last, extent - 1) - first) // step + 1 - below) if count else 0


def _sampled_share(
    index: tuple[Affine, ...],
    extents: tuple[int, ...],
    loops: Ranges,
    conditions: tuple[Condition, ...],
    dims: list[int],
) -> float:
    """The share of samples, spread evenly over these dimensions, that some iteration touches; rather less than more."""
    ranges = [c for name, count in loops for c in _range(name, count)]
    rows = [row for condition in (*ranges, *conditions) for row in rows_of(condition)]
    found = 0
    for sample in range(_SAMPLES):
        at = (int(extents[d] * ((0.5 + sample * step) % 1)) for d, step in zip(dims, _STEPS * len(dims), strict=False))
        places = [Condition(index[d] - value, equal=True) for d, value in zip(dims, at, strict=True)]
        try:
            found += solvable([*rows, *(row for place in places for row in rows_of(place))])
        except Undecided:
            continue  # not counted: the bound stays one
    return 1.0 if found == _SAMPLES else max(0, found - 2) / _SAMPLES


def _range(name: str, count: int) -> tuple[Condition, Condition]:
    loop = Affine(((name, 1),))
    return Condition(loop), Condition(const(count - 1) - loop)
