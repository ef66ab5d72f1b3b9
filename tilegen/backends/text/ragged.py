"""The ends of loops that data tell, in C: `for (int j = start[i]; j < start[i + 1]; ++j)`."""

from __future__ import annotations

from dataclasses import replace

from tilegen.backends.text.expr import Writer
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.ragged import Bound
from tilegen.lowering.launch.program import For

_SUM, _ATOM = 5, 8
_DATA = "data"


def ends(loop: For, w: Writer) -> tuple[str, str]:
    """The first iteration of a ragged loop, and the one behind the last."""
    assert loop.ends
    first, end = loop.ends.first, loop.ends.end
    return (
        _iteration(first, loop.extent, w) if first else "0",
        _iteration(end, loop.extent, w) if end else w.index(loop.extent, _SUM),
    )


def _iteration(bound: Bound, extent: Affine, w: Writer) -> str:
    text = w.value(bound.value, _ATOM)
    if not bound.sure:
        count = w.index(extent)
        return f"iteration_at({text}, {w.index(bound.more)}, {bound.by}, {count})"
    place = var(_DATA) + bound.more
    long = f"({w.dialect.types['i64']})" if w.wide and bound.value.dtype != "i64" and bound.more != const(0) else ""
    text = replace(w, names={**w.names, _DATA: long + text}).index(place, 6 if bound.by > 1 else 0)
    return f"{text} / {bound.by}" if bound.by > 1 else text
