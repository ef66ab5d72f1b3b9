"""Shared memory: which lanes of a warp meet in a bank, and the least change of the layout that parts them.

Shared memory has 32 banks of 4 bytes. A group of lanes is served in as many turns as the busiest bank has
different words to give. The group is a warp for 4 bytes a lane, half a warp for 8 and a quarter for 16. Two
neighbouring groups of a load are one, where every lane wants the same as the lane beside it (lane ^ 1), or
every lane the same as the second one from it (lane ^ 2). These rules gave the turns that the counters of an
H200 show for each of 242 patterns of lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from tilegen.ir.nodes import DTYPE_BYTES, Buffer
from tilegen.lab.lanes import Layout, Pattern, patterns
from tilegen.lab.sites import Site, widened
from tilegen.lowering.program import Launch

BANKS = 32
WORD = 4
LARGEST_PAD = 32


@dataclass(frozen=True)
class Conflict:
    """How a shared access fares.

    Attributes:
        turns: of all requests of a block, in which shared memory is busy with them.
        least: turns that would do without any conflict.
        worst: turns over least turns of the worst request.
        lanes: that request, the byte address of each lane, -1 for an idle one.
    """

    turns: float
    least: float
    worst: float
    lanes: tuple[int, ...]

    @property
    def degree(self) -> float:
        """Turns for each turn that is needed: 1 without conflicts, 32 at worst."""
        return self.turns / self.least if self.least else 1.0


@dataclass(frozen=True)
class Remedy:
    """A layout of a buffer with fewer turns.

    `kind` is "pad" (`amount` elements more in each row than there are) or "swizzle": element `c` of row `r`
    lies at place `c ^ (r / rows % amount * group)`, and there is no pad. `degree` is what is left of all accesses
    of the buffer, `bytes` what the layout takes more.
    """

    kind: str
    amount: int
    degree: float
    bytes: int
    rows: int = 1
    group: int = 1

    def __str__(self) -> str:
        if self.kind == "pad":
            return f"pad by {self.amount} more"
        row = f"row/{self.rows}" if self.rows > 1 else "row"
        high = f"{row} % {self.amount}"
        return f"swizzle: column ^ {f'({high})*{self.group}' if self.group > 1 else f'({high})'}"


def turns(lanes: Sequence[int], width: int, store: bool = False) -> tuple[int, int]:
    """(turns, turns without conflicts) of one request of `width` bytes a lane."""
    return _turns(tuple(lanes), width, store)


@cache
def _turns(lanes: tuple[int, ...], width: int, store: bool) -> tuple[int, int]:
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
    """The lanes that are served together."""
    size = len(lanes) * WORD // max(width, WORD)
    groups = [lanes[start : start + size] for start in range(0, len(lanes), size)]
    if len(groups) == 1 or store:
        return groups
    result: list[tuple[int, ...]] = []
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        both = first + second
        result += [both] if _paired(both, 1) or _paired(both, 2) else [first, second]
    return result


def _paired(lanes: tuple[int, ...], by: int) -> bool:
    """True if each lane that is awake wants what the lane `by` beside it wants, if that is awake."""
    return all(a == lanes[n ^ by] or a < 0 or lanes[n ^ by] < 0 for n, a in enumerate(lanes))


def conflict(found: Sequence[Pattern], width: int, store: bool = False) -> Conflict:
    """The conflicts of all requests of one access of `width` bytes a lane."""
    measured = [(*turns(p.lanes, width, store), p) for p in found]
    if not measured:
        return Conflict(0.0, 0.0, 1.0, ())
    needed, least, worst = max(measured, key=lambda m: m[0] / m[1])
    return Conflict(
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


# -- remedies, found by trying


def remedies(launch: Launch, sites: Sequence[Site], sizes: Mapping[str, int]) -> list[Remedy]:
    """The smallest pad, and a swizzle, that leave the accesses `sites` of one shared buffer with fewest turns.

    Nothing where no change helps. A pad keeps every vector access aligned; a swizzle moves whole vectors.
    """
    memory = launch.buffers[sites[0].buffer]
    trial = _Trial(launch, sites, sizes)
    now = trial.cost(Layout(memory))
    if now[0] <= now[1] or not memory.order:
        return []
    found = (_best_pad(trial, memory, now[0]), _best_swizzle(trial, memory, now[0]))
    return [remedy for remedy in found if remedy]


@dataclass(frozen=True)
class _Trial:
    """The accesses of a buffer, to be tried with one layout after the other."""

    launch: Launch
    sites: Sequence[Site]
    sizes: Mapping[str, int]

    def cost(self, layout: Layout) -> tuple[float, float]:
        """(turns, turns without conflicts) of all accesses."""
        needed = least = 0.0
        for site in self.sites:
            whole = layout.swizzle is None or layout.swizzle[2] % 4 == 0
            wide = widened(site, layout.buffer) if whole else site
            met = conflict(patterns(self.launch, wide, self.sizes, layout), wide.bytes, wide.store)
            needed, least = needed + met.turns, least + met.least
        return needed, least

    @property
    def width(self) -> int:
        """Elements of the widest access that the program itself makes."""
        return max(site.width for site in self.sites)


def _best_pad(trial: _Trial, memory: Buffer, now: float) -> Remedy | None:
    if len(memory.order) < 2:
        return None
    rows = prod(memory.shape[dim].const for dim in memory.order[:-1])
    best: Remedy | None = None
    for pad in range(trial.width, LARGEST_PAD + 1, trial.width):
        needed, least = trial.cost(Layout(replace(memory, pad=memory.pad + pad)))
        if needed < now:
            now = needed
            best = Remedy("pad", pad, needed / least, rows * pad * DTYPE_BYTES[memory.dtype])
        if needed == least:
            break
    return best


def _best_swizzle(trial: _Trial, memory: Buffer, now: float) -> Remedy | None:
    """The swizzle with the fewest turns: rows change the places of groups of elements, a power of two of each."""
    if len(memory.order) < 2:
        return None
    row = memory.shape[memory.order[-1]].const
    if row & (row - 1):
        return None
    less = -memory.pad * prod(memory.shape[dim].const for dim in memory.order[:-1]) * DTYPE_BYTES[memory.dtype]
    memory = replace(memory, pad=0)
    best: Remedy | None = None
    group = trial.width
    while group <= row // 2:
        amount = min(row // group, BANKS)
        while amount > 1:
            for rows in (1, 2, 4, 8):
                needed, least = trial.cost(Layout(memory, (rows, amount, group)))
                if needed < now:
                    now, best = needed, Remedy("swizzle", amount, needed / least, less, rows, group)
                if needed == least:
                    return best
            amount //= 2
        group *= 2
    return best
