"""Reads at computed indices in C: `t[i] >= 0 && t[i] < V ? E[t[i] * D + d] : 0.0f`."""

from __future__ import annotations

from tilegen.backends.text.values.dialect import ExprWriter
from tilegen.ir.facts.gathers import fits_32_bits
from tilegen.ir.hardware.memory import stored_extents
from tilegen.ir.nodes import Cast, Const, Expr, Gather, Index, Op

_SUM, _FACTOR, _ATOM = 5, 6, 8


def tests_of(w: ExprWriter, gather: Gather) -> str:
    """That the tested dimensions are not left."""
    shape = w.buffers[gather.buffer].shape
    tests: list[str] = []
    for d in gather.tested:
        text = _index_text(w, gather.index[d], _SUM)
        tests += [f"{text} >= 0", f"{text} < {w.index(shape[d])}"]
    return " && ".join(tests)


def offset_of(w: ExprWriter, gather: Gather) -> str:
    """The distance from the first element, nested as that of affine places is."""
    memory = w.buffers[gather.buffer]
    first, *others = memory.order
    text = _index_text(w, gather.index[first], _FACTOR if others else 0)
    for number, (d, extent) in enumerate(zip(others, stored_extents(memory)[1:], strict=True)):
        inner = f"({text})" if number else text
        text = f"{inner} * {w.index(extent, _FACTOR + 1)} + {_index_text(w, gather.index[d], _FACTOR)}"
    return text


def _index_text(w: ExprWriter, place: Expr, level: int) -> str:
    """An index, in the integers of the loops where these will do."""
    return _short(w, place, level) if not w.wide and fits_32_bits(place) else w.value(place, level)


def _short(w: ExprWriter, place: Expr, level: int) -> str:
    match place:
        case Const(value):
            return str(value)
        case Index(index):
            return w.index(index, level)
        case Cast(arg):
            return w.value(arg, level)
        case Op("%", (one, two)):
            return f"{_int(w)}floor_mod({_short(w, one, 0)}, {_short(w, two, 0)})"
        case Op(word, args):
            return f"{word}({', '.join(_minmax_operand(w, arg) for arg in args)})"
        case _:
            raise TypeError(place)


def _minmax_operand(w: ExprWriter, place: Expr) -> str:
    """An argument of min or max, whose types OpenCL wants to be one."""
    short = isinstance(place, Cast) and place.arg.dtype != "i32"
    return f"{_int(w)}{_short(w, place, _ATOM)}" if short else _short(w, place, 0)


def _int(w: ExprWriter) -> str:
    return "(int)" if w.dialect.name == "opencl" else ""
