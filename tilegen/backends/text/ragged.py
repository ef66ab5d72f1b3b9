"""The ends of loops that data give, in C: `for (int j = start[i], j_end = start[i + 1]; j < j_end; ++j)`."""

from __future__ import annotations

from dataclasses import replace

from tilegen.backends.text.names import end_name
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Load
from tilegen.ir.reductions.ragged import Bound, Bounds, Found
from tilegen.lowering.launch.program import For

_SUM, _ATOM = 5, 8
_DATA = "data"


def ends(loop: For, w: Writer) -> tuple[str, str, str]:
    """The first iteration of a ragged loop, what has to hold of the others, and how it goes on to the next.

    The end is computed once, beside the first iteration: what it reads may not change, but a compiler does not know.
    """
    name, first, behind = w.names[loop.name], begin(loop, w), w.index(loop.extent, _SUM)
    step = f"++{name}"
    if loop.ends is None:
        return first, f"{name} < {behind}", step
    if loop.ends.skips and isinstance(loop.ends.first, Found):
        element = loop.ends.first.element
        step = f"{name} = {_above(element, w.value(element), loop, w)}"
    match loop.ends.end:
        case Bound() as bound:
            behind = w.names[end_name(loop.name)]
            first += f", {behind} = {_iteration(bound, loop.extent, w)}"
        case Found(element, place):
            behind += f" && {w.value(element, _ATOM)} <= {w.index(place, _SUM)}"
    return first, f"{name} < {behind}", step


def begin(loop: For, w: Writer) -> str:
    """The first iteration of a loop that runs."""
    match loop.ends.first if loop.ends else None:
        case Bound() as bound:
            return _iteration(bound, loop.extent, w)
        case Found(element, place):
            return _above(element, w.index(place), loop, w)
    return "0"


def last_iteration(bounds: Bounds, extent: Affine, w: Writer) -> str:
    """How many iterations a loop has that begins with its first one."""
    return _iteration(bounds.end, extent, w) if isinstance(bounds.end, Bound) else w.index(extent)


def _above(element: Load, place: str, loop: For, w: Writer) -> str:
    """The first iteration of the loop in which the element is above the place."""
    (index,) = element.index
    row = w.element(element.buffer, (index - var(loop.name),))
    word = "first_above" if w.dialect is CUDA else f"first_{w.dialect.types[element.dtype]}_above"
    return f"{word}(&{row}, {w.index(loop.extent)}, {place})"


def _iteration(bound: Bound, extent: Affine, w: Writer) -> str:
    text = w.value(bound.value, _ATOM)
    if not bound.sure:
        count = w.index(extent)
        return f"iteration_at({text}, {w.index(bound.more)}, {bound.by}, {count})"
    place = var(_DATA) + bound.more
    long = f"({w.dialect.types['i64']})" if w.wide and bound.value.dtype != "i64" and bound.more != const(0) else ""
    text = replace(w, names={**w.names, _DATA: long + text}).index(place, 6 if bound.by > 1 else 0)
    return f"{text} / {bound.by}" if bound.by > 1 else text
