"""Bank conflicts of shared memory, and the smallest pad or swizzle that removes them.

Shared memory has 32 banks of 4 bytes, each of which gives one word a cycle: a wavefront, as NVIDIA calls it. A group of
lanes takes as many wavefronts as the busiest bank has different words to give. The group is a warp for 4 bytes a lane,
half a warp for 8 and a quarter for 16. Two neighbouring groups of a load are one, where every lane wants the same as
the lane beside it (lane ^ 1), or every lane the same as the second one from it (lane ^ 2). Stores have no such pairs,
and neither have the rows of 16 bytes that an instruction of a warp moves, eight of them in one wavefront. These rules
gave the wavefronts that the counters of an H200 show for each of 242 patterns of lanes of loads and stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import gcd

from tilegen.ir.facts.row_digits import count_rows
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import DTYPE_BYTES, Buffer
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.lab.counts.addresses import Pattern, patterns
from tilegen.lab.counts.sites import Site
from tilegen.lab.counts.widen import widen
from tilegen.lowering.launch.launch import Launch

BANKS = 32
WORD = 4
LARGEST_PAD = 32
POWERS = tuple(2**n for n in range(8))


@dataclass(frozen=True)
class BankConflict:
    """The bank conflicts of one access of shared memory.

    Attributes:
        wavefronts: of all requests of a block: the cycles that shared memory spends on them.
        least: wavefronts without any conflict.
        worst: wavefronts over least wavefronts of the worst request.
        lanes: that request, the byte address of each lane, -1 for an idle one.
    """

    wavefronts: float
    least: float
    worst: float
    lanes: tuple[int, ...]

    @property
    def degree(self) -> float:
        """Wavefronts for each one that is needed: 1 without conflicts, 32 at worst."""
        return self.wavefronts / self.least if self.least else 1.0


@dataclass(frozen=True)
class Remedy:
    """A layout of a buffer with fewer conflicts: the `step` that makes it, `instead` of its pad or swizzle, if any.

    `degree` is what is left of all accesses of the buffer, `bytes` what the layout takes more.
    """

    step: str
    degree: float
    bytes: int
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.step} instead of {self.instead}" if self.instead else self.step


def wavefronts(lanes: Sequence[int], width: int, store: bool = False) -> tuple[int, int]:
    """(wavefronts, those without conflicts) of a request of `width` bytes a lane; `store` also for rows of a warp."""
    return _wavefronts(tuple(lanes), width, store)


@cache
def _wavefronts(lanes: tuple[int, ...], width: int, store: bool) -> tuple[int, int]:
    needed = least = 0
    for group in _groups(lanes, width, store):
        words: dict[int, set[int]] = {}
        for address in group:
            if address >= 0:
                for word in range(address // WORD, (address + width - 1) // WORD + 1):
                    words.setdefault(word % BANKS, set()).add(word)
        needed += max((len(found) for found in words.values()), default=0)
        least += 1 if words else 0
    return needed, least


def _groups(lanes: tuple[int, ...], width: int, store: bool) -> list[tuple[int, ...]]:
    """The groups of lanes that are served together."""
    size = len(lanes) * WORD // max(width, WORD)
    groups = [lanes[start : start + size] for start in range(0, len(lanes), size)]
    if len(groups) == 1 or store:
        return groups
    result: list[tuple[int, ...]] = []
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        both = first + second
        result += [both] if _are_paired(both, 1) or _are_paired(both, 2) else [first, second]
    return result


def _are_paired(lanes: tuple[int, ...], by: int) -> bool:
    """True if each active lane has the address of lane ^ `by`, where that is active."""
    return all(a == lanes[n ^ by] or a < 0 or lanes[n ^ by] < 0 for n, a in enumerate(lanes))


def conflict(found: Sequence[Pattern], width: int, store: bool = False) -> BankConflict:
    """The conflicts of all requests of one access of `width` bytes a lane."""
    measured = [(*wavefronts(p.lanes, width, store), p) for p in found]
    if not measured:
        return BankConflict(0.0, 0.0, 1.0, ())
    needed, least, worst = max(measured, key=lambda m: m[0] / m[1])
    return BankConflict(
        sum(t * p.share for t, _, p in measured),
        sum(t * p.share for _, t, p in measured),
        needed / least,
        worst.lanes,
    )


def lane_map(lanes: Sequence[int]) -> list[tuple[int, list[int]]]:
    """(bank, lanes) for each bank that the first words of the lanes lie in, a lane for each word it gives."""
    banks: dict[int, list[int]] = {}
    for lane, address in enumerate(lanes):
        if address >= 0:
            banks.setdefault(address // WORD % BANKS, []).append(lane)
    return sorted(banks.items())


# -- remedies, found by a search


def remedies(launch: Launch, sites: Sequence[Site], sizes: Mapping[str, int]) -> list[Remedy]:
    """The smallest pad, and a swizzle, that leave the accesses `sites` of one shared buffer with fewest wavefronts.

    Nothing where no change helps. A pad keeps every vector access aligned; a swizzle moves whole vectors.
    """
    memory = launch.buffers[sites[0].buffer]
    trial = _LayoutTrial(launch, sites, sizes)
    now = trial.cost(memory)
    if now[0] <= now[1] or len(memory.order) < 2:
        return []
    bare, widths = replace(memory, pad=0, swizzle=None), range(trial.width, LARGEST_PAD + 1, trial.width)
    pads = ((replace(bare, pad=n), f"pad({memory.name}, {n})") for n in widths)
    swizzles = ((replace(bare, swizzle=each), step) for each, step in _swizzles(memory, trial.width))
    found = (
        _best(trial, memory, pads, "its swizzle" if memory.swizzle else ""),
        _best(trial, memory, swizzles, "its pad" if memory.pad else ""),
    )
    return [remedy for remedy in found if remedy]


@dataclass(frozen=True)
class _LayoutTrial:
    """The accesses of a buffer, which are counted with one layout after the other."""

    launch: Launch
    sites: Sequence[Site]
    sizes: Mapping[str, int]

    def cost(self, memory: Buffer) -> tuple[float, float]:
        """(wavefronts, wavefronts without conflicts) of all accesses."""
        needed = least = 0.0
        for site in self.sites:
            wide = widen(site, memory)
            met = conflict(patterns(self.launch, wide, self.sizes, memory), wide.bytes, wide.store or bool(wide.by))
            needed, least = needed + met.wavefronts, least + met.least
        return needed, least

    @property
    def width(self) -> int:
        """Elements of the widest access that the program itself makes."""
        return max(site.width for site in self.sites)


def _best(trial: _LayoutTrial, memory: Buffer, tried: Iterable[tuple[Buffer, str]], instead: str) -> Remedy | None:
    """The layout with the fewest wavefronts, of those with their steps that are tried; the first one of equals."""
    best, (now, _) = None, trial.cost(memory)
    for layout, step in tried:
        needed, least = trial.cost(layout)
        if needed < now:
            now = needed
            best = Remedy(step, needed / least, bytes_of(layout) - bytes_of(memory), instead)
        if needed == least:
            break
    return best


def _swizzles(memory: Buffer, width: int) -> Iterator[tuple[Swizzle, str]]:
    """Every swizzle of `memory` that keeps `width` elements together, with its step; none moves more than all banks.

    Small units come first, then those with many of them.
    """
    row = memory.shape[memory.order[-1]].const
    banks = BANKS * WORD // DTYPE_BYTES[memory.dtype]
    if count_rows(memory) == 1:
        return
    for unit in (n for n in POWERS if n % width == 0):
        most = gcd(row, banks) // unit
        for rows, count in product(POWERS[:4], reversed(POWERS)):
            if 2 <= count <= most:
                more = f", {count}" * (count < most or rows > 1) + f", {rows}" * (rows > 1)
                yield Swizzle(unit, count, rows), f"swizzle({memory.name}, {unit}{more})"
