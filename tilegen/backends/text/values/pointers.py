"""A pointer to the tile of an array that a block works on, where several lines would spell out where it begins.

C[(bi*128 + i)*N + bj*128 + j]      float* C_tile = &C[bi * 128 * N + bj * 128];
                                    C_tile[i * N + j]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import BLOCK_KINDS, Access
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.walk import accesses
from tilegen.lowering.launch.coordinates import extents_of
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Call,
    For,
    Function,
    If,
    Spmd,
    nodes,
)

Places = tuple[Affine, ...]  # of an element, the slowest dimension first

_ONCE = ("tiles", "unrolled", "vector")  # loops whose body is run once in a tile, or written out
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
    """What is worth a pointer in the text of `launch`, beside the `names` that it has.

    Not what loops read: the pointer has two registers all the while then. On an H100 gemm:warps took 1 % longer so, and
    gemm:transposed 3 %. Nor where a tile may begin beyond the array, whose elements no thread has then.
    """
    blocks = frozenset(name for name, kind, _ in launch.coordinates if kind in BLOCK_KINDS)
    found = Pointers(blocks, blocks | frozenset(launch.kernel.sizes))
    tiles: dict[tuple[str, Places], list[Access]] = {}
    for access in () if launch.ends else accesses(launch.body):
        if (buffer := launch.buffers[access.buffer]).space == "global" and not buffer.windows:
            start = found.start(tuple(access.index[d] for d in buffer.order))
            tiles.setdefault((names[access.buffer], start), []).append(access)
    outside = {*accesses(tuple(_outside_of_loops(launch.body)))}
    taken = {*names.values(), launch.name}
    worth: dict[tuple[str, Places], tuple[str, str]] = {}
    for (array, start), every in tiles.items():
        order = launch.buffers[every[0].buffer].order
        inside = [tuple(a.index[d] - s for d, s in zip(order, start, strict=True)) for a in every]
        is_one = all(place.is_const for places in inside for place in places)
        has_border = any(place.const < 0 for places in inside for place in places)
        shape = tuple(launch.buffers[every[0].buffer].shape[d] for d in order)
        in_tile = not is_one and not has_border and _begins_inside(start, shape, extents_of(launch))
        if in_tile and len(every) >= OFTEN and outside.issuperset(every):
            name = fresh(f"{array}_tile", taken)
            worth[array, start] = every[0].buffer, name
    return Pointers(found.blocks, found.known, worth)


def _begins_inside(start: Places, shape: Places, extents: Mapping[str, Affine]) -> bool:
    """True if there is a tile, and each dimension of the array is cut into as many as there are blocks."""
    for place, size in zip(start, shape, strict=True):
        match place.terms:
            case ():
                pass
            case ((atom, tile),) if isinstance(atom, str) and extents[atom] == size.ceildiv(tile):
                pass
            case _:
                return False
    return any(place.terms for place in start)


def _outside_of_loops(body: tuple[Spmd, ...]) -> Iterator[Spmd]:
    """The nodes that a thread comes to once in a tile, those under tests and in unrolled loops too."""
    loops = [node for node in nodes(body) if isinstance(node, For) and node.kind not in _ONCE]
    called = {node.function for node in nodes(loops) if isinstance(node, Call)}
    for node in body:
        match node:
            case If():
                yield from _outside_of_loops((*node.body, *node.orelse))
            case For(kind=kind) if kind in _ONCE:
                yield from _outside_of_loops(node.body)
            case Function(name) if name not in called:
                yield from _outside_of_loops(node.body)
            case For() | Function():
                pass
            case _:
                yield node
