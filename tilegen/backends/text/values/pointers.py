"""A pointer to the tile of an array that a block works on, where several lines would spell out where it begins.

A[(bi*128 + i)*K + ko*8 + k]        const float* A_tile = &A[bi * 128 * K];
                                    A_tile[i * K + ko*8 + k]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import BLOCK_KINDS
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.walk import accesses
from tilegen.lowering.launch.program import Launch

Places = tuple[Affine, ...]  # of an element, the slowest dimension first

OFTEN = 2  # accesses to one tile that are worth a pointer


@dataclass(frozen=True)
class Pointers:
    """Those of one launch: (array, where its tile begins) -> the buffer that is accessed so, and the pointer's name."""

    blocks: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    names: Mapping[tuple[str, Places], tuple[str, str]] = field(default_factory=dict)

    def start(self, places: Places) -> Places:
        """What the coordinates of the block alone add to the places."""
        return tuple(
            Affine(tuple((a, f) for a, f in place.terms if f > 0 and self._is_of_block(var(a).names())))
            for place in places
        )

    def _is_of_block(self, names: frozenset[str]) -> bool:
        return names <= self.known and not names.isdisjoint(self.blocks)

    def from_tile(self, array: str, places: Places) -> tuple[str, Places]:
        """The pointer that an element is best reached by, and its places from there."""
        start = self.start(places)
        if found := self.names.get((array, start)):
            return found[1], tuple(place - own for place, own in zip(places, start, strict=True))
        return array, places


def pointers_to_tiles(launch: Launch, names: Mapping[str, str]) -> Pointers:
    """What is worth a pointer in the text of `launch`, beside the `names` that it has."""
    blocks = frozenset(name for name, kind, _ in launch.coordinates if kind in BLOCK_KINDS)
    found = Pointers(blocks, blocks | frozenset(launch.kernel.sizes))
    tiles: dict[tuple[str, Places], list[Places]] = {}  # the places in each, from where it begins
    buffers: dict[tuple[str, Places], str] = {}
    for access in accesses(launch.body):
        buffer = launch.buffers[access.buffer]
        if buffer.space == "global":
            places = tuple(access.index[d] for d in buffer.order)
            key = names[access.buffer], found.start(places)
            tiles.setdefault(key, []).append(tuple(p - s for p, s in zip(places, key[1], strict=True)))
            buffers[key] = access.buffer
    taken = {*names.values(), launch.name}
    worth: dict[tuple[str, Places], tuple[str, str]] = {}
    for (array, start), inside in tiles.items():
        is_row = start[1:] and start[-1] == const(0) and all(p == const(0) for places in inside for p in places[:-1])
        is_one = all(place.is_const for places in inside for place in places)
        has_border = any(place.const < 0 for places in inside for place in places) and not is_row
        if len(inside) >= OFTEN and any(place.terms for place in start) and not is_one and not has_border:
            name = fresh(f"{array}_{'row' if is_row else 'tile'}", taken)
            worth[array, start] = buffers[array, start], name
    return Pointers(found.blocks, found.known, worth)
