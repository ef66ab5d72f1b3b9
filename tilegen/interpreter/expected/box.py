"""Expressions over a box of index values, as numpy arrays that broadcast: one axis for each loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tilegen.interpreter.dtypes import Array, from_values, to_values, wrap
from tilegen.interpreter.expected.rounding import cast, operation, tiny
from tilegen.interpreter.expected.uncertain import Pair
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import FLOATS, Cast, Condition, Const, Expr, Gather, Index, Load, Op, Range, Scalar
from tilegen.ir.parameter_facts import COMPARISONS

# The most points that a part of a box has: arrays of 8 MB.
POINTS = 2**20

Box = tuple[range, ...]


@dataclass
class Memory:
    """The tensor `name`: its values, how far each may be from the exact one, and which ones exist."""

    name: str
    dtype: str
    value: Array
    error: Array
    written: Array


class Rough(Op):
    """An operation that the device may take from its hardware's approximation."""


class Undefined(Exception):
    """A read of an element that has no value or does not exist. Attributes: tensor, element."""

    def __init__(self, tensor: str, element: tuple[int, ...], why: str) -> None:
        super().__init__(tensor)
        self.tensor = tensor
        self.element = element
        self.why = why


@dataclass(frozen=True)
class Part:
    """A box of loops: `names[a]` runs over `box[a]`, on axis `a`."""

    names: tuple[str, ...]
    box: Box
    sizes: Mapping[str, int]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(r) for r in self.box)

    def times(self, inner: Part) -> Part:
        """The loops of this one, and in them those of another."""
        return Part((*self.names, *inner.names), (*self.box, *inner.box), self.sizes)

    def cut(self, points: int) -> Iterator[Part]:
        """Parts of this one, of at most `points` points."""
        for part in parts(dict(zip(self.names, map(len, self.box), strict=True)), self.sizes, points):
            yield replace(part, box=tuple(r[p.start : p.stop] for r, p in zip(self.box, part.box, strict=True)))

    def axis(self, position: int) -> Array:
        """The values of one loop, along its own axis."""
        values = np.arange(self.box[position].start, self.box[position].stop, dtype=np.int64)
        return values.reshape([-1 if n == position else 1 for n in range(len(self.box))])

    def index(self, value: Affine) -> Any:
        """An index expression on the box: an array, or an int where no loop occurs in it."""
        used = value.names()
        names: dict[str, Any] = dict(self.sizes)
        names |= {name: self.axis(n) for n, name in enumerate(self.names) if name in used}
        return value.evaluate(names)

    def mask(self, conditions: tuple[Condition, ...]) -> Array | None:
        """Where all conditions hold; None where there are none."""
        result: Any = None
        for condition in conditions:
            value = self.index(condition.value)
            holds = np.asarray(value == 0 if condition.equal else value >= 0)
            result = holds if result is None else result & holds
        return None if result is None else self.lift(result)

    def lift(self, value: Any) -> Array:
        """`value` with one axis for each loop."""
        array = np.asarray(value)
        return array if array.ndim == len(self.box) else array.reshape((1,) * len(self.box))


def extents_of(ranges: Iterable[Range], sizes: Mapping[str, int]) -> dict[str, int]:
    """How long each loop is, by its name."""
    return {r.name: max(0, r.extent.evaluate(sizes)) for r in ranges}


def parts(extents: Mapping[str, int], sizes: Mapping[str, int], points: int) -> Iterator[Part]:
    """The box of all loops cut into parts of at most `points` points, the last axes whole where possible."""
    steps: dict[str, int] = {}
    for name, extent in reversed([*extents.items()]):
        steps[name] = max(1, min(extent, points))
        points //= steps[name]
    return cut_box(extents, steps, sizes)


def cut_box(extents: Mapping[str, int], steps: Mapping[str, int], sizes: Mapping[str, int]) -> Iterator[Part]:
    """The box of all loops cut into parts, `steps[name]` long along a loop."""
    pieces = [
        [range(start, min(start + steps[name], extent)) for start in range(0, extent, steps[name])]
        for name, extent in extents.items()
    ]
    return (Part(tuple(extents), box, sizes) for box in product(*pieces))


def evaluate_whole(value: Expr, part: Part, memory: Mapping[str, Memory], mask: Array | None) -> Pair:
    """`evaluate`, with an element for each point of the part."""
    number, error = evaluate(value, part, memory, mask)
    return np.broadcast_to(number, part.shape), np.broadcast_to(error, part.shape)


def evaluate(value: Expr, part: Part, memory: Mapping[str, Memory], mask: Array | None) -> Pair:
    """`value` and its error on the part. Raises Undefined for a bad read at a point inside the mask."""
    match value:
        case Const(number, dtype):
            constant = np.asarray(_constant(number, dtype))
            return part.lift(constant), part.lift(_flush_error(constant, dtype))
        case Index(index, dtype):
            return part.lift(wrap(np.asarray(part.index(index)), dtype)), part.lift(0.0)
        case Load():
            return _load(value, part, memory[value.buffer], mask)
        case Gather():
            return _gather(value, part, memory, mask)
        case Scalar(name):
            return part.lift(memory[name].value), part.lift(memory[name].error)
        case Cast(arg, dtype):
            return cast(evaluate(arg, part, memory, mask), arg.dtype, dtype)
        case Op(name, args, dtype):
            pairs = [evaluate(a, part, memory, mask) for a in args]
            if name in COMPARISONS:  # indices are compared as they are
                both = zip(args, pairs, strict=True)
                pairs = [(part.lift(part.index(a.index)), p[1]) if isinstance(a, Index) else p for a, p in both]
            return operation(name, pairs, dtype, rough=isinstance(value, Rough))
        case _:
            raise TypeError(value)


def _constant(number: float | int, dtype: str) -> float | int:
    """A constant as the device has it, rounded to its type."""
    if dtype not in FLOATS:
        return number
    stored = np.asarray(number, np.float64)
    return float(to_values(from_values(stored, dtype), dtype))


def _load(load: Load, part: Part, memory: Memory, mask: Array | None) -> Pair:
    index = [part.lift(part.index(i)) for i in load.index]
    inside: Any = True
    for i, extent in zip(index, memory.value.shape, strict=True):
        if i.size and (i.min() < 0 or i.max() >= extent):
            inside = inside & (i >= 0) & (i < extent)
    if inside is not True:
        if load.fallback is None:
            _demand(inside, mask, part, index, load.buffer, "which is outside the tensor")
        index = [np.clip(i, 0, extent - 1) for i, extent in zip(index, memory.value.shape, strict=True)]
    place = tuple(index)
    if not memory.written.all():
        allowed = memory.written[place] | ~np.asarray(inside)
        _demand(allowed, mask, part, index, load.buffer, "which has no value")
    value = memory.value[place]
    error = memory.error[place] if memory.error.any() else part.lift(0.0)
    if inside is not True and load.fallback is not None:
        value = np.where(inside, value, _constant(load.fallback.value, load.dtype))
        error = np.where(inside, error, 0.0)
    return value, error


def _gather(gather: Gather, part: Part, memory: Mapping[str, Memory], mask: Array | None) -> Pair:
    """The element, or the fallback outside; where an index is not sure, nothing is known of what is read."""
    home, shape = memory[gather.buffer], memory[gather.buffer].value.shape
    places = [evaluate(i, part, memory, mask) for i in gather.index]
    index = [np.asarray(value).astype(np.int64) for value, _ in places]
    inside = np.ones((), bool)
    for i, extent in zip(index, shape, strict=True):
        inside = inside & (i >= 0) & (i < extent)
    kept = tuple(np.clip(i, 0, extent - 1) for i, extent in zip(index, shape, strict=True))
    value, error = home.value[kept], home.error[kept]
    if gather.fallback is None:
        _demand(inside, mask, part, index, gather.buffer, "which is outside the tensor")
    else:
        other, its_error = evaluate(gather.fallback, part, memory, mask)
        value, error = np.where(inside, value, other), np.where(inside, error, its_error)
    for _, doubt in places:
        error = np.where(np.asarray(doubt) > 0, np.inf, error)
    return value, error


def _demand(allowed: Any, mask: Array | None, part: Part, index: list[Array], tensor: str, why: str) -> None:
    wrong = ~np.asarray(allowed) if mask is None else mask & ~np.asarray(allowed)
    if not wrong.any():
        return
    shape = np.broadcast_shapes(wrong.shape, *(i.shape for i in index))
    point = np.unravel_index(int(np.broadcast_to(wrong, shape).argmax()), shape)
    raise Undefined(tensor, tuple(int(np.broadcast_to(i, shape)[point]) for i in index), why)


def empty_memory(name: str, dtype: str, shape: tuple[int, ...]) -> Memory:
    """A tensor without values."""
    kind = np.float64 if dtype in FLOATS else np.int64
    return Memory(name, dtype, np.zeros(shape, kind), np.zeros(shape), np.zeros(shape, bool))


def memory_of_input(name: str, dtype: str, array: Array) -> Memory:
    """An input, which is exact, but that a device may take a subnormal number as 0."""
    value = to_values(array, dtype)
    return Memory(name, dtype, value, _flush_error(value, dtype), np.ones(value.shape, bool))


def _flush_error(value: Array, dtype: str) -> Array:
    """How far it is from a subnormal number to the 0 that a device may take for it."""
    flushed = dtype in ("f32", "bf16") and np.abs(value) < tiny(dtype)
    return np.where(flushed, np.abs(value), 0.0)
