"""What a kernel computes, as a schedule sees it: which loops of its equations run over the same thing.

Two loops, of two equations, are one *axis* where they index the same dimension of a tensor: `m.j` and `Y.j` of a
softmax are the columns of X. An equation *keeps* an axis where it has a result for each of its iterations, and
reduces it where it sums over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import DTYPE_BYTES, Equation, Kernel, Range, Stmt, Tensor, Tree
from tilegen.ir.reductions.ragged import sides_of
from tilegen.ir.walk import loads, stmts, substitute


@dataclass(frozen=True)
class Access:
    """A tensor with the index at which an equation reads or writes it."""

    equation: int
    tensor: str
    index: tuple[Affine, ...]
    written: bool

    def uses(self, loop: str) -> bool:
        return any(loop in index.names() for index in self.index)


@dataclass(frozen=True)
class Axis:
    """Loops of different equations that run over the same thing, one of each at most; `word` is its index there."""

    word: str
    loops: Mapping[int, str]
    extent: int
    fixed: bool

    @property
    def names(self) -> list[str]:
        return list(self.loops.values())


@dataclass(frozen=True)
class Nests:
    """Equations of a kernel that follow one another, at given sizes."""

    kernel: Kernel
    sizes: Mapping[str, int]
    equations: tuple[Equation, ...]

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """What is written and what is read, each place once."""
        return tuple(dict.fromkeys(self._accesses()))

    def _accesses(self) -> Iterator[Access]:
        for n, equation in enumerate(self.equations):
            yield Access(n, equation.target, equation.index, True)
            for load in loads((equation.value, equation.arg)):
                yield Access(n, load.buffer, load.index, False)

    def tensor(self, name: str) -> Tensor:
        return self.kernel.tensor(name)

    def ranges(self, n: int) -> tuple[Range, ...]:
        return (*self.equations[n].loops, *self.equations[n].reduced)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """In the order of the text."""
        ranges = {(n, r.name): r for n in range(len(self.equations)) for r in self.ranges(n)}
        group = {key: {key} for key in ranges}
        made = {equation.target for equation in self.equations}
        places: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for access in self.accesses:
            for d, index in enumerate(access.index):
                if (key := (access.equation, str(index))) in ranges:
                    places.setdefault((access.tensor, d), []).append(key)
        for (_, _), keys in sorted(places.items(), key=lambda item: item[0][0] not in made):
            for one in keys:
                for other in keys:
                    both = group[one] | group[other]
                    same = ranges[one].extent == ranges[other].extent and ranges[one].low == ranges[other].low
                    if same and len({n for n, _ in both}) == len(both):
                        group.update(dict.fromkeys(both, both))
        ones = {key for key, r in ranges.items() if str(r.extent) == "1" and len(group[key]) == 1}
        if len({n for n, _ in ones}) == len(ones):
            group.update(dict.fromkeys(ones, ones))
        found: list[Axis] = []
        for key, r in ranges.items():
            if not any(key[1] in axis.names for axis in found):
                loops = {n: name for n, name in sorted(group[key])}
                found.append(Axis(r.index, loops, r.extent.evaluate(self.sizes), r.extent.is_const))
        return tuple(found)

    @cached_property
    def parts(self) -> int:
        """Into how many rows of different length data divide what is reduced; 1 where they tell no ends."""
        sides = (side for equation in self.equations for side in sides_of(equation.value))
        tensors = {self.tensor(load.buffer) for side in sides for load in loads(side.value)}
        return max([1, *(prod(extent.evaluate(self.sizes) for extent in each.shape) - 1 for each in tensors)])

    def axis_of(self, loop: str) -> Axis:
        return next(axis for axis in self.axes if loop in axis.names)

    def keeps(self, n: int, axis: Axis) -> bool:
        return axis.loops.get(n) in [r.name for r in self.equations[n].loops]

    @cached_property
    def rows(self) -> tuple[Axis, ...]:
        """The axes that all equations keep: what can run on different blocks in one launch."""
        return tuple(axis for axis in self.axes if all(self.keeps(n, axis) for n in range(len(self.equations))))

    @cached_property
    def columns(self) -> tuple[Axis, ...]:
        """All other axes."""
        return tuple(axis for axis in self.axes if axis not in self.rows)

    @cached_property
    def reductions(self) -> tuple[int, ...]:
        return tuple(n for n, equation in enumerate(self.equations) if equation.reduce)

    def elements(self, name: str) -> int:
        return prod(extent.evaluate(self.sizes) for extent in self.tensor(name).shape)

    def bytes_of(self, name: str) -> int:
        return DTYPE_BYTES[self.tensor(name).dtype] * self.elements(name)

    def fastest(self, access: Access) -> str | None:
        """The loop that runs along the fastest dimension of what is accessed, with a factor of 1; None if none does."""
        if not access.index:
            return None
        tensor = self.tensor(access.tensor)
        longer = [d for d in tensor.order if str(tensor.shape[d]) != "1"]
        index = access.index[longer[-1] if longer else tensor.order[-1]]
        unit = [name for name, weight in index.terms if weight == 1 and isinstance(name, str)]
        loops = [name for name in unit if name in [r.name for r in self.ranges(access.equation)]]
        return loops[0] if loops else None

    def accesses_along(self, axis: Axis) -> list[Access]:
        """The accesses to memory outside of the chip that run along an axis."""
        return [access for access in self.main if self.fastest(access) in axis.names]

    @cached_property
    def main(self) -> tuple[Access, ...]:
        """The accesses of tensors outside of the chip, the largest first."""
        inside = self.inside
        found = [access for access in self.accesses if access.tensor not in inside]
        return tuple(sorted(found, key=lambda access: -self.bytes_of(access.tensor)))

    @cached_property
    def inside(self) -> frozenset[str]:
        """Intermediate tensors that only these equations use."""
        targets = {e.target for e in self.equations}
        own = targets | {e.best for e in self.equations if e.best}
        others = [e for e in self.kernel.equations if e.target not in targets]
        used = {load.buffer for e in others for load in loads((e.value, e.arg))}
        return frozenset(n for n in own if self.tensor(n).role == "intermediate" and n not in used)


def nests_of(tree: Tree, sizes: Mapping[str, int], first: int, last: int) -> Nests:
    """The equations of a tree's kernel from `first` on, without that at `last`; no step has changed their loops.

    What rfactor has made of a reduction is two equations here, with the loops of the tree.
    """
    found = {stmt.name: stmt for stmt in stmts(tree.body)}
    equations = tree.kernel.equations[first:last]
    return Nests(tree.kernel, sizes, tuple(_with_loops_of(e, found.get(e.target)) for e in equations))


def _with_loops_of(equation: Equation, stmt: Stmt | None) -> Equation:
    """The equation with the names that its loops have in the tree."""
    ranges = (*equation.loops, *equation.reduced)
    names = {r.name: index for r, index in zip(ranges, (stmt and stmt.instance) or (), strict=False)}
    loops, reduced = (
        tuple(replace(r, name=str(names.get(r.name, r.name))) for r in group)
        for group in (equation.loops, equation.reduced)
    )
    inner = replace(equation, loops=(), reduced=())
    return replace(substitute(inner, names), loops=loops, reduced=reduced)


def storage_order(nests: Nests, axes: Sequence[Axis]) -> list[Axis]:
    """The axes from the slowest to the fastest, as the largest tensor that has most of them stores them."""

    def rank(axis: Axis) -> tuple[int, int]:
        for number, access in enumerate(sorted_by_axes):
            for loop in axis.names:
                found = [k for k, d in enumerate(nests.tensor(access.tensor).order) if loop in access.index[d].names()]
                if found:
                    return -number, found[-1]
        return -len(sorted_by_axes), 0

    def having(access: Access) -> int:
        return sum(any(access.uses(loop) for loop in axis.names) for axis in axes)

    sorted_by_axes = sorted(nests.main, key=lambda access: (-having(access), -nests.bytes_of(access.tensor)))
    return sorted(axes, key=rank)
