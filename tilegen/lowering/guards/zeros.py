"""Registers that start with zeros say so where they are declared, in whatever order a schedule has them start.

float C_reg[2][4];                            float C_reg[2][4] = {};
for v < 2: C_reg[0][2*v] = 0; ...

float Pf[8];                                  float Pf[8] = {};
for h < 2, m < 2, l < 2: Pf[4*m + 2*h + l] = 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import SHORT_FLOATS, Access, Buffer, Const, Stmt
from tilegen.lowering.launch.program import Declare, For, Spmd, with_lists

Element = dict[
    str, tuple[int, int, int]
]  # loop -> (dimension, factor, constant): the place is the sum of factor*loop, + constant


def declare_zeros(body: tuple[Spmd, ...], buffers: Mapping[str, Buffer]) -> tuple[Spmd, ...]:
    """`body` with zeros at the declarations of arrays that the next node fills with them."""
    out: list[Spmd] = []
    for node in body:
        before = out[-1] if out else None
        if isinstance(before, Declare) and before.start is None and (nest := _zero_loops(node, buffers[before.buffer])):
            out[-1] = replace(before, start=_nest_value(nest), origin=nest)
        else:
            out.append(with_lists(node, lambda inner: declare_zeros(inner, buffers)))
    return tuple(out)


def _nest_value(nest: Spmd) -> Const:
    while isinstance(nest, For):
        (nest,) = nest.body
    assert isinstance(nest, Stmt)
    assert isinstance(nest.value, Const)
    return nest.value


def _zero_loops(node: Spmd, buffer: Buffer) -> For | None:
    """`node`, which gives each element of `buffer` the value 0 once, as loops over its dimensions, or else None."""
    found = _find_starts(node, {}, buffer) if buffer.shape and buffer.dtype not in SHORT_FLOATS else None
    if not found:
        return None
    shape = [extent.const for extent in buffer.shape]
    names = [f"{buffer.name}.{d}" for d in range(len(shape))]
    boxes = [box for loops, _, element in found if (box := _box(loops, element, len(shape)))]
    if len(boxes) < len(found):
        return None
    instances = {_in_places(stmt, element, loops, names) for loops, stmt, element in found}
    whole = sum(_box_size(box) for box in boxes) == _box_size([range(extent) for extent in shape])
    apart = all(_are_disjoint(one, two) for n, one in enumerate(boxes) for two in boxes[:n])
    inside = all(min(r) >= 0 and max(r) < extent for box in boxes for r, extent in zip(box, shape, strict=True))
    if len(instances) != 1 or None in instances or not (whole and apart and inside):
        return None
    nest: Spmd = replace(
        found[0][1], target=Access(buffer.name, tuple(map(var, names))), instance=instances.pop(), step="", span=None
    )
    for name, extent in reversed(list(zip(names, buffer.shape, strict=True))):
        nest = For(name, extent, (nest,))
    assert isinstance(nest, For)
    return nest


def _find_starts(
    node: Spmd, loops: Mapping[str, int], buffer: Buffer
) -> list[tuple[Mapping[str, int], Stmt, Element]] | None:
    """The statements in `node` with their loops and elements; None if one is no start of a whole row."""
    match node:
        case For(name, extent, body) if extent.is_const and extent.const > 0 and body:
            found = [_find_starts(child, {**loops, name: extent.const}, buffer) for child in body]
            return None if None in found else [each for some in found for each in some or ()]
        case Stmt(_, target, Const(value)) if str(value) in ("0", "0.0") and target.buffer == buffer.name:
            element = None if node.reduce or node.guard else _find_element(node)
            return [(loops, node, element)] if element is not None and element.keys() == loops.keys() else None
        case _:
            return None


def _find_element(stmt: Stmt) -> Element | None:
    """Which loops number which dimension; None where one numbers several."""
    found: Element = {}
    for d, place in enumerate(stmt.target.index):
        for name, factor in place.terms:
            if not isinstance(name, str) or name in found:
                return None
            found[name] = (d, factor, place.const)
    return found


def _in_places(stmt: Stmt, element: Element, loops: Mapping[str, int], names: list[str]) -> tuple[Affine, ...] | None:
    """The instance of a start in the places that it fills."""
    found: list[Affine] = []
    alone = Counter(d for d, _, _ in element.values())
    for value in stmt.instance or ():
        for loop, (d, factor, constant) in element.items():
            if alone[d] > 1:
                value = value.substitute({loop: (var(names[d]) - constant) // factor % loops[loop]})
                continue
            times, rest = divmod(value.coefficient(loop), factor)
            if rest or not value.linear_in(loop):
                return None
            value = value - var(loop) * (times * factor) + (var(names[d]) - constant) * times
        found.append(value)
    return tuple(found)


def _box(loops: Mapping[str, int], element: Element, rank: int) -> list[range] | None:
    """The places that a start fills, along each dimension; None where its loops are no digits of a place."""
    ranges: dict[int, range] = {}
    for loop, (d, factor, constant) in sorted(element.items(), key=lambda each: each[1]):
        inner = ranges.get(d, range(constant, constant + factor, factor))
        if factor != len(inner) * inner.step:
            return None
        ranges[d] = range(constant, constant + factor * loops[loop], inner.step)
    return [ranges[d] for d in range(rank)] if len(ranges) == rank else None


def _box_size(box: list[range]) -> int:
    count = 1
    for places in box:
        count *= len(places)
    return count


def _are_disjoint(one: list[range], two: list[range]) -> bool:
    return any(set(a).isdisjoint(b) for a, b in zip(one, two, strict=True))
