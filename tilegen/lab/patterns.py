"""Finds a pattern in a kernel: the same equations but for names, storage orders, types and how values are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple

import numpy as np

from tilegen.ir.affine import const, var
from tilegen.ir.defined import defines_all
from tilegen.ir.in_place import memory_of
from tilegen.ir.instructions import ROUNDINGS
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Cast, Const, Equation, Expr, Gather, Index, Kernel, Load, Op, Scalar
from tilegen.ir.walk import loads, rewrite, walk
from tilegen.lab.products import loop_names, values_at

_POINTS = 200
_OF_INTEGERS = ("+", "-", "*")  # what is the same of integers and of other numbers


class Found(NamedTuple):
    """A tensor of the kernel; `axes` are its dimensions in the order in which the pattern has them."""

    name: str
    axes: tuple[int, ...]


Bound = Mapping[str, Found]  # by the names that the pattern has


@dataclass(frozen=True)
class _Match:
    """A pattern and a kernel, of which some equations are matched."""

    pattern: Kernel
    kernel: Kernel

    def extend(self, wanted: tuple[Equation, ...], left: tuple[Equation, ...], bound: Bound) -> Iterator[Bound]:
        """`bound` with the tensors of `wanted`, each of which is another one of `left`, in every way there is."""
        if not wanted:
            yield bound
            return
        for number, equation in enumerate(left):
            for more in self._match(wanted[0], equation, bound):
                yield from self.extend(wanted[1:], left[:number] + left[number + 1 :], more)

    def _match(self, wanted: Equation, equation: Equation, bound: Bound) -> Iterator[Bound]:
        mine, theirs = _words(wanted, self.pattern), _words(equation, self.kernel)
        if mine is None or theirs is None or wanted.reduce != equation.reduce or len(mine) != len(theirs):
            return
        if len(wanted.loops) != len(equation.loops) or len(wanted.reduced) != len(equation.reduced):
            return
        for own, summed in ((a, b) for a in permutations(equation.loops) for b in permutations(equation.reduced)):
            same = zip((*wanted.loops, *wanted.reduced), (*own, *summed), strict=True)
            words = {one.name: other.name for one, other in same}
            for names in permutations(theirs):
                more = self._bind(zip(mine, names, strict=True), mine, theirs, words, bound)
                if more is not None and _same_values(wanted, equation, more):
                    yield more

    def _bind(
        self,
        pairs: Iterator[tuple[str, str]],
        mine: Mapping[str, list[str]],
        theirs: Mapping[str, list[str]],
        words: Mapping[str, str],
        bound: Bound,
    ) -> Bound | None:
        """`bound` with the pairs of tensors; None where one is read elsewhere, or is another one in `bound`."""
        found = dict(bound)
        for pattern, name in pairs:
            wanted = [words[word] for word in mine[pattern]]
            if sorted(wanted) != sorted(theirs[name]):
                return None
            if self.pattern.tensor(pattern).role != self.kernel.tensor(name).role:
                return None
            tensor = Found(name, tuple(theirs[name].index(word) for word in wanted))
            if found.setdefault(pattern, tensor) != tensor:
                return None
        return found if len({each.name for each in found.values()}) == len(found) else None


def find_pattern(pattern: Kernel, kernel: Kernel) -> Bound | None:
    """The kernel's tensors by the pattern's names; None where it is another kernel, or that cannot be read off."""
    if len(pattern.equations) != len(kernel.equations) or any(memory_of(t.name) != t.name for t in kernel.tensors):
        return None
    return next(_Match(pattern, kernel).extend(pattern.equations, kernel.equations, {}), None)


def _words(equation: Equation, kernel: Kernel) -> dict[str, list[str]] | None:
    """The loop names that index each tensor of the equation, the target too, each in one way and as a whole."""
    target = kernel.tensor(equation.target)
    ranges = {r.name: r.extent for r in (*equation.loops, *equation.reduced)}
    if equation.conditions or not defines_all(equation, target) or any(r.low != const(0) for r in equation.reduced):
        return None
    if equation.arg is not None and equation.arg != Index(var(equation.reduced[0].name), equation.arg.dtype):
        return None
    found: dict[str, list[str]] = {}
    for name, index in ((target.name, equation.index), *((load.buffer, load.index) for load in loads(equation.value))):
        words = loop_names(index)
        if words is None or found.setdefault(name, words) != words:
            return None
        if tuple(ranges[word] for word in words) != kernel.tensor(name).shape:
            return None
    return found if _is_plain(equation.value) else None


def _is_plain(value: Expr) -> bool:
    """True if the value is one of numbers in memory, which no cast changes but for rounding to 16 bits or more."""
    for node in walk(value):
        match node:
            case Gather() | Index() | Scalar() | Load(fallback=Const()):
                return False
            case Cast(arg, dtype) if (arg.dtype, dtype) != ("i8", "i32"):
                if dtype not in FLOATS or dtype in BYTE_FLOATS:
                    return False
            case Op(name, _, dtype) if dtype not in (*FLOATS, "bool") and name not in _OF_INTEGERS:
                return False
    return True


def _same_values(wanted: Equation, equation: Equation, bound: Bound) -> bool:
    """True if both have the same value at every one of many points, up to rounding."""
    rng = np.random.default_rng(0)
    points = {name: 3 * rng.standard_normal(_POINTS) for name in {load.buffer for load in loads(wanted.value)}}
    theirs = {bound[name].name: values for name, values in points.items()}
    with np.errstate(all="ignore"):
        one, other = values_at(_in_f64(wanted.value), points), values_at(_in_f64(equation.value), theirs)
        return bool((abs(one - other) <= 1e-5 * (1 + abs(one))).all())


def _in_f64(value: Expr) -> Expr:
    """The value without roundings, in f64 where it is one of integers."""

    def change(node: object) -> object:
        match node:
            case Op(name, (arg,)) if name in ROUNDINGS:
                return arg
            case Op(_, _, dtype) if dtype not in (*FLOATS, "bool"):
                return replace(node, dtype="f64")
            case _:
                return node

    return rewrite(value, change)
