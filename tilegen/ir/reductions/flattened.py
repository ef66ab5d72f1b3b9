"""A kernel in which dimensions that lie side by side in storage are one, and so are the loops along them.

Y[b, t, n] = sum[k](X[b, t, k]*W[n, k])    with X: f32[B, T, K], Y: f32[B, T, N]
Y[m, n] = sum[k](X[m, k]*W[n, k])          with X: f32[B*T, K], Y: f32[B*T, N]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, product_of, var
from tilegen.ir.nodes import Equation, Kernel, Load, Range, Tensor
from tilegen.ir.parts.derived import Flattened
from tilegen.ir.walk import gathers, loads, rewrite, walk

Place = tuple[Affine, ...]


def elements_of(equation: Equation) -> Iterator[tuple[str, Place]]:
    """(tensor, index) of what the equation defines, then of what it reads."""
    yield from ((name, equation.index) for name in (equation.target, equation.best) if name)
    yield from ((load.buffer, load.index) for load in loads((equation.value, equation.arg, equation.first)))


def with_elements(equation: Equation, change: Callable[[str, Place], Place]) -> Equation:
    """The equation with another index for each of them."""

    def changed(value: object) -> object:
        return replace(value, index=change(value.buffer, value.index)) if isinstance(value, Load) else value

    return replace(rewrite(equation, changed), index=change(equation.target, equation.index))


def names_in_values(equation: Equation) -> frozenset[str]:
    """The loops and sizes that the equation speaks of, but for the extents of its loops."""
    bare = replace(equation, loops=(), reduced=())
    return frozenset[str]().union(*(part.names() for part in walk(bare) if isinstance(part, Affine)))


def reached_by_data(kernel: Kernel) -> frozenset[str]:
    """The tensors of which data, or the hits of a list, tell elements."""
    hits = (equation.hits.access.buffer for equation in kernel.equations if equation.hits)
    return frozenset((*(gather.buffer for gather in gathers(kernel.equations)), *hits))


def splice(values: tuple[Affine, ...], first: int, count: int, new: tuple[Affine, ...]) -> tuple[Affine, ...]:
    """`values` with `new` in the place of `count` of them, from the one at `first` on."""
    return (*values[:first], *new, *values[first + count :])


def is_row_major(tensor: Tensor, first: int, count: int) -> bool:
    """True if these dimensions, from `first` on, lie side by side in storage, the last of them fastest."""
    place = tensor.order.index(first)
    return tensor.order[place : place + count] == tuple(range(first, first + count))


def is_plain(loop: Range, extent: Affine) -> bool:
    """True if the index of a loop counts up from 0 to `extent`."""
    return loop.extent == extent and loop.low == Affine() and not loop.down


def flatten(kernel: Kernel, loops: tuple[str, ...], name: str) -> Kernel:
    """The kernel with one loop for `loops` of one of its equations, and for those along the same dimensions of others.

    Raises StepError where they are not the loops along whole dimensions side by side.
    """
    if len({*loops}) < max(len(loops), 2):
        raise StepError("at least two loops become one, each named once")
    found = _Search(kernel, loops)
    ranges = {r.name: r for e in kernel.equations for r in (*e.loops, *e.reduced)}
    extents = tuple(ranges[loop].extent for loop in loops)
    equations, made = [], []
    for equation in kernel.equations:
        old = tuple(ranges[loop] for loop in found.groups.get(equation.target, ()))
        if not old:
            equations.append(equation)
            continue
        flat = Range(f"{equation.target}.{name}" if len(found.groups) > 1 else name, product_of(extents), name)
        if flat.name in ranges:
            raise StepError(f"there is a loop '{flat.name}' already", notes=("choose another name",))
        if not all(map(is_plain, old, extents)) or equation.carried or equation.hits:
            raise StepError(f"{_listed(old)} do not run over whole dimensions, in any order")
        equations.append(_with_one_loop(equation, old, flat, found.first))
        made.append((equation.target, flat.name, old))
    tensors = tuple(_with_one_dimension(t, found.first.get(t.name), extents) for t in kernel.tensors)
    derived = Flattened(extents, tuple(found.first.items()), tuple(made))
    return replace(kernel, tensors=tensors, equations=tuple(equations), origin=kernel, derived=derived)


def _listed(loops: tuple[Range, ...]) -> str:
    return ", ".join(f"'{r.name}'" for r in loops)


class _Search:
    """Which loops of each equation go along the dimensions, and which is the first of these of each tensor."""

    def __init__(self, kernel: Kernel, loops: tuple[str, ...]) -> None:
        self.count = len(loops)
        owners = [e.target for e in kernel.equations if loops[0] in (r.name for r in (*e.loops, *e.reduced))]
        if len(owners) != 1:
            raise StepError(f"'{loops[0]}' is a loop of {len(owners)} equations, which a recurrence shares")
        self.groups: dict[str, tuple[str, ...]] = {owners[0]: loops}
        self.first: dict[str, int] = {}
        known = -1
        while known != (known := len(self.groups) + len(self.first)):
            for equation in kernel.equations:
                for buffer, index in elements_of(equation):
                    self._relate(equation, buffer, index)
        if others := self.first.keys() & reached_by_data(kernel):
            raise StepError(f"data tell which elements of '{min(others)}' are read or written, in all its dimensions")

    def _relate(self, equation: Equation, buffer: str, index: Place) -> None:
        """What an element tells: of its tensor by the loops, or of the loops by the tensor."""
        loops, first = self.groups.get(equation.target, ()), self.first.get(buffer)
        element = f"{buffer}[{', '.join(map(str, index))}]"
        if loops and first is None and not {*loops}.isdisjoint(frozenset().union(*map(Affine.names, index))):
            places = [d for d in range(len(index)) if index[d : d + self.count] == tuple(map(var, loops))]
            if not places:
                way = "a tensor is read and written at all of these loops or none, side by side and in this order"
                raise StepError(f"{element} is not at {', '.join(loops)}", notes=(way,))
            self.first[buffer] = first = places[0]
        if first is None:
            return
        names = tuple(map(str, index[first : first + self.count]))
        if not {*names} <= {r.name for r in (*equation.loops, *equation.reduced)} or loops not in ((), names):
            way = f"wherever '{buffer}' is read or written, these dimensions have one loop each, in the same order"
            raise StepError(f"{element} is not at a loop of its own in each of these dimensions", notes=(way,))
        self.groups[equation.target] = names


def _with_one_dimension(tensor: Tensor, first: int | None, extents: tuple[Affine, ...]) -> Tensor:
    """The tensor with those from `first` on as one."""
    if first is None:
        return tensor
    count = len(extents)
    if tensor.shape[first : first + count] != extents:
        raise StepError(f"the loops run over a part of the dimensions of '{tensor.name}'")
    if not is_row_major(tensor, first, count):
        raise StepError(f"these dimensions of '{tensor.name}' do not lie one after another in storage")
    order = (d - (count - 1) * (d > first) for d in tensor.order if not first < d < first + count)
    windows = tensor.windows and tensor.windows.joined(first, count)
    shape = splice(tensor.shape, first, count, (product_of(extents),))
    return replace(tensor, shape=shape, order=tuple(order), windows=windows)


def _with_one_loop(equation: Equation, old: tuple[Range, ...], flat: Range, first: Mapping[str, int]) -> Equation:
    """The equation with the loop `flat` in the place of `old`."""

    def place(buffer: str, index: Place) -> Place:
        return splice(index, first[buffer], len(old), (var(flat.name),)) if buffer in first else index

    def join(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        places = (n for n in range(len(ranges)) if ranges[n : n + len(old)] == old)
        return next(((*ranges[:n], flat, *ranges[n + len(old) :]) for n in places), ranges)

    new = with_elements(equation, place)
    new = replace(new, loops=join(new.loops), reduced=join(new.reduced))
    left = names_in_values(new) | {r.name for r in (*new.loops, *new.reduced)}
    if not left.isdisjoint(r.name for r in old):
        way = "they come one after another in its equation, and index these dimensions alone"
        raise StepError(f"{_listed(old)} of '{equation.target}' are for more than these dimensions", notes=(way,))
    return new
