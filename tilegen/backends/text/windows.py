"""Where tiles of windows begin: digits of their place, named in front of the loop that copies what is in the windows.

for q < Q                                      const int y = p / W; const int x = p % W;
  copy_windows_3d(.., p % W - 1, p / W, ..)    for q < Q
                                                 copy_windows_3d(.., x - 1, y, ..)

A compiler leaves the divisions in a loop that waits, since nothing tells it that another iteration comes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.affine import Affine, var
from tilegen.ir.parts.windows import Digit
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.walk import rewrite
from tilegen.lowering.launch.program import For, nodes
from tilegen.lowering.launch.timelines import Box

Place = tuple[tuple[Digit, ...], Affine]

_OWN = "windows."  # before a name that the text alone has


def name_first_windows(loop: For, writer: Writer) -> tuple[dict[str, str], For, Writer]:
    """(the names to declare in front of `loop`, each with its value; the loop and a writer that have these names)."""
    if not loop.ring or writer.dialect is not CUDA:
        return {}, loop, writer
    inside = {node.name for node in nodes((loop,)) if isinstance(node, For)}
    taken = {*writer.names.values(), *writer.counts.values(), *writer.parameters.values}
    taken |= {name for _, name in writer.pointers.names.values()}
    declared: dict[str, str] = {}
    known: dict[Place, tuple[Affine, ...]] = {}

    def names_of(place: Place) -> tuple[Affine, ...]:
        if place not in known:
            texts = writer.digits(*place)
            named = {fresh(word, taken): text for word, text in texts.items()}
            declared.update(named)
            known[place] = tuple(var(f"{_OWN}{name}") for name in named)
        return known[place]

    def change(value: Any) -> Any:
        if not isinstance(value, Box) or not value.windows:
            return value
        windows, coordinates = value.windows, list(value.coordinates[::-1])
        for n in reversed(range(len(coordinates))):
            group, place = windows.digits[n], coordinates[n]
            if len(group) > 1 and inside.isdisjoint(place.names()):
                windows = windows.parted(n, (1,) * len(group))
                coordinates[n : n + 1] = names_of((group, place))
        return replace(value, windows=windows, coordinates=tuple(coordinates[::-1]))

    loop = rewrite(loop, change)
    return declared, loop, replace(writer, names={**writer.names, **{f"{_OWN}{name}": name for name in declared}})
