"""The values of indices that are not affine: computed as written, with drawn numbers for what is read from memory.

What a gather loads depends on data that nobody knows before a run. An integer that an index reads is taken to be drawn
at random, evenly over the dimension that it is an index of, and the same wherever the same element is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np

from tilegen.ir.nodes import Cast, Const, Expr, Gather, Index, Load, Op, Scalar
from tilegen.ir.walk import walk
from tilegen.lowering.launch.launch import Launch

Names = Mapping[str, Any]

_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "neg": np.negative, "abs": np.abs,
    "min": np.minimum, "max": np.maximum, "//": np.floor_divide, "%": np.remainder,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "select": np.where,
}  # fmt: skip


def names_in(place: Expr) -> Iterator[str]:
    """The loops, threads and sizes that an index depends on, whatever is read for it."""
    for node in walk(place):
        match node:
            case Index(index):
                yield from index.names()
            case Load(index=index):
                yield from (name for i in index for name in i.names())
            case _:
                pass


def value_of(place: Expr, names: Names, extent: int, launch: Launch) -> Any:
    """The index as an array of int64, in the shapes of the values of `names`.

    Args:
        extent: of the dimension that this is an index of.
        launch: whose program reads it: registers hold other numbers in each thread.
    """

    def value(part: Expr) -> Any:
        return value_of(part, names, extent, launch)

    match place:
        case Const(number):
            return np.int64(number)
        case Index(index):
            return np.asarray(index.evaluate(names), dtype=np.int64)
        case Scalar():
            return np.int64(1)  # unknown before a call; 1 keeps neighbours together
        case Cast(arg):
            return value(arg)
        case Load(buffer, index):
            memory = launch.buffers.get(buffer)
            own = [] if memory and memory.space in ("global", "shared") else [names[launch.tid]]
            return _draw(buffer, [*(i.evaluate(names) for i in index), *own], extent)
        case Gather(buffer, index):
            return _draw(buffer, [value(i) for i in index], extent)
        case Op(name, args) if name in _OPERATIONS:
            with np.errstate(divide="ignore", over="ignore"):
                return _OPERATIONS[name](*map(value, args))
        case Op(name, args):
            return _draw(name, [value(arg) for arg in args], extent)
        case _:
            raise TypeError(place)


def _draw(source: str, key: list[Any], extent: int) -> Any:
    """A number from 0 to extent - 1 for each value of the key, mixed as splitmix64 does."""
    mixed = np.full((1, 1), crc32(source.encode()), dtype=np.uint64)
    for part in key:
        mixed = mixed ^ np.atleast_2d(np.asarray(part, dtype=np.int64)).astype(np.uint64)
        mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed % np.uint64(extent)).astype(np.int64)
