"""What a kernel reads through windows of an input is what it read.

Theorem: let a tensor V be defined as V[i1, .., ik] = X[index] (or a number outside of X) for 0 <= i < E, and be read at
loops over these ranges alone. Then each of these reads is that of X at `index`, in the loops in the places of i1, ..,
ik. So the kernel with the definition written out again is the one before.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import var
from tilegen.ir.in_place import windows_of
from tilegen.ir.nodes import Equation, Expr, Kernel, Load, Tensor
from tilegen.ir.parts.derived import Windowed
from tilegen.ir.parts.windows import Windows
from tilegen.ir.reductions.flattened import is_plain
from tilegen.ir.walk import rewrite
from tilegen.poly.verdict import Refused


def check_windowed(kernel: Kernel, origin: Kernel, made: Windowed) -> None:
    """Refused where `kernel`, with the windows written out again, is not `origin`."""
    view = kernel.tensor(made.view)
    windows = view.windows
    if windows is None:
        raise Refused(f"'{view.name}' has no windows")
    tensor, extents = origin.tensor(windows.tensor), windows.extents
    if windows.digits != tuple((digit,) for digit in extents.items()):
        raise Refused(f"the windows of '{tensor.name}' have other dimensions than their definition")
    shown = Tensor(windows_of(tensor.name), tensor.dtype, tuple(extents.values()), "input", tuple(range(len(extents))))
    if view != replace(shown, windows=windows) or tensor.role != "input" or tensor.windows:
        raise Refused(f"'{view.name}' is said to show what '{tensor.name}' has not")
    tensors = tuple(t for t in kernel.tensors if t is not view)
    equations = tuple(replace(e, value=_written_out(e, view, windows)) for e in kernel.equations)
    if replace(kernel, tensors=tensors, equations=equations, origin=origin.origin, derived=origin.derived) != origin:
        raise Refused(f"kernel '{kernel.name}' reads other elements than those that its windows show")


def _written_out(equation: Equation, view: Tensor, windows: Windows) -> Expr:
    """The value of the equation, without reads of the windows."""
    ranges = {r.name: r for r in (*equation.loops, *equation.reduced)}

    def read(value: object) -> object:
        if not isinstance(value, Load) or value.buffer != view.name:
            return value
        whole = len(value.index) == len(view.shape) and all(
            index == var(name) and name in ranges and is_plain(ranges[name], extent)
            for index, name, extent in zip(value.index, map(str, value.index), view.shape, strict=True)
        )
        if value.fallback or not whole:
            raise Refused(f"'{view.name}' is read at other places than windows are at")
        places = dict(zip(windows.extents, value.index, strict=True))
        index = tuple(i.substitute(places) for i in windows.index)
        return replace(value, buffer=windows.tensor, index=index, fallback=windows.fallback)

    return rewrite(equation.value, read)
