"""How large the part of a convolution is that a block, and a thread of it, computes: the cheapest of many is chosen.

The cost counts what a multiprocessor issues for one result: multiply-adds, loads from shared memory, copies to it, and
stores by the sectors of memory that a warp touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from statistics import fmean

from tilegen.lab.counts.banks import wavefronts

LANES = 32
RESULTS = 64  # that a thread keeps in registers
WRITTEN_OUT = 25  # taps of a filter that are written out one after the other
SHARED = 96 * 1024  # bytes that a block may have, so that two share a multiprocessor
COPY, BANK, STORE = 8.0, 4.0, 5.0  # issue slots of a copy, a wavefront of shared memory, a sector


@dataclass(frozen=True)
class Side:
    """An axis of places: its extent, elements of the image between neighbours, and from the first tap to the last."""

    extent: int
    step: int
    reach: int

    def box(self, places: int) -> int:
        return (places - 1) * self.step + self.reach + 1


@dataclass(frozen=True)
class Problem:
    """What decides about a tile: the fastest axis of places and the next one, and `taps` of a filter and a channel.

    The image is read in boxes over these axes, `planes` of them for all taps. Along the fastest axis every `phases`-th
    result has the same terms, and `along` is of those alone.
    """

    filters: int
    along: Side
    down: Side
    planes: int
    taps: int
    channels: int
    phases: int = 1


@dataclass(frozen=True)
class Tile:
    """Filters, rows, and places of a thread, and threads along each.

    `across` if the lanes of a warp go over filters before they go over rows; `beside` are the phases that lanes have
    side by side, so that their results leave together.
    """

    filters: int
    rows: int
    places: int
    groups: int
    down: int
    along: int
    across: bool
    beside: int = 1

    @property
    def threads(self) -> int:
        return self.groups * self.down * self.along * self.beside


def tile_for(problem: Problem) -> tuple[Tile, int]:
    """The cheapest tile, and channels that a block has in shared memory at once."""
    tile = min(_tiles(problem), key=lambda tile: _cost(problem, tile))
    most = max(1, SHARED // (16 * _elements(problem, tile)))
    channels = 1
    while 2 * channels <= min(most, problem.channels) and channels * problem.taps < 24:
        channels *= 2
    return tile, channels


def _tiles(problem: Problem) -> Iterator[Tile]:
    few = (1, 2, 4, 8)
    exact = {problem.along.extent} if 8 <= problem.along.extent < LANES else set()
    groups, lanes = (1, 2, 3, 4, 6, 8, 12), (*exact, 8, 16, 24, 32, 40, 48, 64, 128)
    for each in product((4, 8, 16), few, few, groups, few, lanes, (False, True), {1, problem.phases}):
        tile = Tile(*each)
        filters, rows, places, _, down, *_ = each
        if filters * rows * places > RESULTS or not 128 <= tile.threads <= 256 or tile.threads % LANES:
            continue
        if problem.down.extent == 1 and rows * down > 1 or 8 * _elements(problem, tile) > SHARED:
            continue
        yield tile


def _elements(problem: Problem, tile: Tile) -> int:
    """Of the image and of the filters, for a channel."""
    rows = problem.down.box(tile.rows * tile.down)
    image = problem.planes * rows * problem.along.box(tile.places * tile.along)
    return image + problem.taps * tile.filters * tile.groups


Lane = tuple[int, int, int, int]  # the group of filters, the row, the place and the phase that it has


def _warps(tile: Tile) -> list[list[Lane]]:
    """The lanes of the first warp, which the others are like, or of all where warps begin at different places."""
    along = tile.along * tile.beside
    alike = along % LANES == 0 or LANES % along == 0
    return [
        [_lane(tile, first + n) for n in range(LANES)] for first in range(0, LANES if alike else tile.threads, LANES)
    ]


def _lane(tile: Tile, thread: int) -> Lane:
    rest, x = divmod(thread, tile.along * tile.beside)
    z, y = divmod(rest, tile.groups if tile.across else tile.down)
    place, phase = divmod(x, tile.beside)
    return (y, z, place, phase) if tile.across else (z, y, place, phase)


def _wavefronts(problem: Problem, tile: Tile, lanes: list[Lane]) -> int:
    """Of a warp's load of the image from shared memory, whether vectors are copied there or elements."""
    box = problem.along.box(tile.places * tile.along)

    def needed(row: int) -> int:
        places = [y * tile.rows * problem.down.step * row + x * problem.along.step for _, y, x, _ in lanes]
        return wavefronts([4 * place for place in places], 4)[0]

    return max(needed(box), needed(-(-box // 4) * 4))


def _wavefronts_of_weights(tile: Tile, lanes: list[Lane]) -> int:
    """The same for a vector of weights, of which each phase has its own."""
    row = tile.filters * tile.groups + 4
    return wavefronts([4 * (tile.filters * group + phase * row) for group, _, _, phase in lanes], 16)[0]


def _share(extent: int, size: int) -> float:
    return -(-extent // size) * size / extent


def _cost(problem: Problem, tile: Tile) -> float:
    results = tile.filters * tile.rows * tile.places
    work = problem.taps * results
    again = 1.0
    if tile.rows > 1 and problem.down.step == 1 and problem.taps // problem.planes <= WRITTEN_OUT:
        taps_down = problem.down.reach + 1
        again = (tile.rows + taps_down - 1) / (tile.rows * taps_down)
    neighbours = gcd(problem.along.step, 4)  # that a compiler loads at once
    vectors, image = problem.taps * tile.filters / 4, problem.taps * tile.rows * tile.places * again / neighbours
    copies = _elements(problem, tile) - problem.taps * tile.filters * tile.groups * 3 / 4
    issued = work + vectors + image + COPY * copies / tile.threads
    warps = _warps(tile)
    busy = BANK * fmean(
        vectors * _wavefronts_of_weights(tile, lanes) + neighbours * image * _wavefronts(problem, tile, lanes)
        for lanes in warps
    )
    apart = problem.phases // tile.beside  # one of this number of neighbours is stored at once
    lines = [Counter(lane[:2] for lane in lanes) for lanes in warps]
    sectors = fmean(sum(-(-count * min(apart, 8) // 8) for count in each.values()) for each in lines)
    stored = STORE * sectors * results / problem.channels
    shares = (
        _share(problem.filters, tile.filters * tile.groups),
        _share(problem.down.extent, tile.rows * tile.down),
        _share(problem.along.extent, tile.places * tile.along),
    )
    return prod(shares) * (max(issued, busy) + (issued + busy) / 4 + stored) / results
