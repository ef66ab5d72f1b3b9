"""A kernel that reads an input through windows, as a tensor with a dimension for each loop.

Y[y, f] = sum[r, c]((X[y*2 + r - 1, c] else 0)*K[f, r, c])
Y[y, f] = sum[r, c](X.windows[y, r, c]*K[f, r, c])    with X.windows[y, r, c] = X[y*2 + r - 1, c] else 0
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.in_place import windows_of
from tilegen.ir.nodes import Equation, Kernel, Load, Range, Tensor
from tilegen.ir.parts.derived import Windowed
from tilegen.ir.parts.windows import Windows
from tilegen.ir.reductions.flattened import elements_of, is_plain, reached_by_data
from tilegen.ir.walk import loads, rewrite


def see_windows(kernel: Kernel, name: str) -> Kernel:
    """The kernel with the windows of an input in place of its only read. StepError where it reads no windows."""
    tensor = next((t for t in kernel.tensors if t.name == name), None)
    if tensor is None or tensor.role != "input" or tensor.windows:
        raise StepError(f"'{name}' is no input of '{kernel.name}'")
    reading = [e for e in kernel.equations if name in (buffer for buffer, _ in elements_of(e))]
    found = {(load.index, load.fallback) for e in reading for load in loads(e.value) if load.buffer == name}
    if len(reading) != 1 or len(found) != 1 or name in reached_by_data(kernel):
        raise StepError(f"'{name}' is not read at one place of one equation", notes=("windows sees one read anew",))
    (equation,), ((index, fallback),) = reading, found
    ranges = _loops_of(equation, index, tensor)
    words = {r.name: var(r.index) for r in ranges}
    digits = tuple(((r.index, r.extent),) for r in ranges)
    windows = Windows(name, tuple(i.substitute(words) for i in index), digits, fallback)
    shape, place = tuple(r.extent for r in ranges), tuple(var(r.name) for r in ranges)
    view = Tensor(windows_of(name), tensor.dtype, shape, "input", tuple(range(len(shape))), tensor.span, windows)

    def seen(value: object) -> object:
        if isinstance(value, Load) and value.buffer == name:
            return replace(value, buffer=view.name, index=place, fallback=None)
        return value

    equations = tuple(replace(e, value=rewrite(e.value, seen)) if e is equation else e for e in kernel.equations)
    tensors = (*kernel.tensors, view)
    return replace(kernel, tensors=tensors, equations=equations, origin=kernel, derived=Windowed(view.name))


def _loops_of(equation: Equation, index: tuple[Affine, ...], tensor: Tensor) -> tuple[Range, ...]:
    """The loops that the windows have dimensions for: those ahead of windows, those that move them, those in them, and
    those behind."""
    ranges = {r.name: r for r in (*equation.loops, *equation.reduced)}
    order = list(ranges)
    wide = [d for d in tensor.order if index[d] != var(str(index[d])) or str(index[d]) not in ranges]
    if not wide:
        raise StepError(f"'{tensor.name}' is read at loops alone, and not through windows")
    places = [tensor.order.index(d) for d in wide]
    behind = tensor.order[max(places) + 1 :]
    moving, inside = list[str](), list[str]()
    for d in tensor.order[min(places) : max(places) + 1]:
        named = sorted((str(atom) for atom, _ in index[d].terms if atom in ranges), key=order.index)
        if not 1 <= len(named) <= 2 or len(named) < len(index[d].terms) or any(f < 1 for _, f in index[d].terms):
            way = "at a multiple of one loop plus a multiple of another one and a number, as x*2 + s - 1"
            raise StepError(f"'{tensor.name}' is read at {index[d]}, which is no window", notes=(way,))
        moving.append(named[0])
        inside += named[1:]
    names = [*(str(index[d]) for d in tensor.order[: min(places)]), *moving, *inside, *(str(index[d]) for d in behind)]
    for name in names:
        if names.count(name) > 1 or not is_plain(ranges[name], ranges[name].extent):
            raise StepError(f"loop '{name}' runs over no dimension of windows of '{tensor.name}'")
    return tuple(ranges[name] for name in names)
