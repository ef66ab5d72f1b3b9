"""The addresses that the lanes of a warp touch: enumerated from a thread's program, for a block inside the grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Buffer, Condition
from tilegen.lab.counts.gathers import value_of
from tilegen.lab.counts.sites import Site, iterations
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import For

LINE = 128  # bytes of a cache line, and of all banks together
_IDLE = -1
# The most iterations that are enumerated; the others are assumed to be like them.
_SAMPLES = 256
_KEPT = 64 * 1024  # bytes of the L1 cache that the reads of one access may count on

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Pattern:
    """One request of a warp: the byte address of each lane from the start of a line on, -1 for an idle lane.

    `share` is how many requests of a block look like this one.
    """

    lanes: tuple[int, ...]
    share: float


def patterns(launch: Launch, site: Site, sizes: Mapping[str, int], memory: Buffer | None = None) -> list[Pattern]:
    """The requests of the warps of one block at `site`, in all iterations of its loops.

    Args:
        sizes: at which the addresses are computed.
        memory: the buffer with another layout to try, if not that of the launch.
    """
    memory = memory or launch.buffers[site.buffer]
    names = _names_at(launch, site, memory, sizes)
    offset = _element_offsets(site, memory, names, sizes)
    active = _active_threads(site.tests, names) & _inside_mask(site, memory, names, sizes)
    samples, threads = offset.shape
    if not samples:  # a loop around the access has no iterations
        return []
    warps = -(-threads // WARP)
    rows = np.full((samples, warps * WARP), _IDLE, dtype=np.int64)
    rows[:, :threads] = np.where(active, offset * DTYPE_BYTES[memory.dtype], _IDLE)
    weight = iterations(site.loops, sizes) / samples
    return _group_patterns(rows.reshape(-1, WARP), weight)


def count_distinct(launch: Launch, site: Site, sizes: Mapping[str, int]) -> float:
    """How many different elements a block asks for at `site`, as the L2 cache sees it.

    What one iteration of the long loops reads is kept for all threads until the next one; all of what the block
    ever reads is kept, if it fits into the L1 cache.
    """
    memory = launch.buffers[site.buffer]
    names = _names_at(launch, site, memory, sizes)
    offset = _element_offsets(site, memory, names, sizes)
    once = len(np.unique(offset[_active_threads(site.tests, names) & _inside_mask(site, memory, names, sizes)]))
    spoken = site.names()
    looked = {loop.name for loop in site.loops if isinstance(names[loop.name], np.ndarray)}
    long = [loop for loop in site.loops if loop.name not in looked]
    whole = once * iterations((loop for loop in long if loop.name in spoken), sizes)
    if whole * DTYPE_BYTES[memory.dtype] <= _KEPT:
        return float(whole)
    return float(once * iterations(long, sizes))


def mean_active_threads(
    launch: Launch, loops: tuple[For, ...], tests: tuple[Condition, ...], sizes: Mapping[str, int]
) -> float:
    """How many threads of a block pass the tests, on average over the iterations of the loops."""
    active = _active_threads(tests, _name_values(launch, sizes, loops))
    return float(active.sum(axis=1).mean()) if active.size else 0.0


def count_active_threads(
    launch: Launch, loops: tuple[For, ...], tests: tuple[Condition, ...], sizes: Mapping[str, int]
) -> int:
    """How many threads of a block pass the tests in some iteration of the loops."""
    return int(_active_threads(tests, _name_values(launch, sizes, loops)).any(axis=0).sum())


def _active_threads(tests: tuple[Condition, ...], names: Mapping[str, Any]) -> Any:
    active = np.ones(names[""].shape, dtype=bool)
    for test in tests:
        value = np.broadcast_to(np.asarray(test.value.evaluate(names)), active.shape)
        active &= value == 0 if test.equal else value >= 0
    return active


def _group_patterns(rows: Ints, weight: float) -> list[Pattern]:
    """The different requests among rows of lanes, relative to the first line that each touches."""
    rows = rows[(rows != _IDLE).any(axis=1)]
    if not len(rows):
        return []
    first = np.where(rows == _IDLE, np.iinfo(np.int64).max, rows).min(axis=1, keepdims=True)
    moved = np.where(rows == _IDLE, _IDLE, rows - first // LINE * LINE)
    found, counts = np.unique(moved, axis=0, return_counts=True)
    return [
        Pattern(tuple(int(a) for a in row), float(count) * weight) for row, count in zip(found, counts, strict=True)
    ]


def thread_values(launch: Launch) -> dict[str, Ints]:
    """The names that distinguish the threads of a block, each with its value in every thread."""
    x, y, z = launch.block
    flat = np.arange(x * y * z, dtype=np.int64)
    lanes = dict(zip(THREAD_KINDS, (flat % x, flat // x % y, flat // (x * y)), strict=True))
    return {launch.tid: flat} | {name: lanes[kind] for name, kind, _ in launch.coordinates if kind in lanes}


def block_counts(launch: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many blocks there are along each loop over blocks."""
    counts = [factor.evaluate(sizes) for blocks in launch.grid for factor in blocks.factors]
    return {name: counts[place] for name, place in block_places(launch).items()}


def block_places(launch: Launch) -> dict[str, int]:
    """The place of each loop over blocks among all factors of the grid.

    Loops that share an axis come in the order of its factors; several nests have the last one in common.
    """
    found: dict[str, int] = {}
    before = 0
    for kind, blocks in zip(BLOCK_KINDS, launch.grid, strict=True):
        found |= {name: before + min(n, len(blocks.factors) - 1) for n, name in enumerate(launch.along(kind))}
        before += len(blocks.factors)
    return found


def _name_values(launch: Launch, sizes: Mapping[str, int], loops: tuple[For, ...]) -> dict[str, Any]:
    """The value of every name that may be in an index: a row for each iteration, a column for each thread."""
    threads = thread_values(launch)
    names: dict[str, Any] = dict(sizes) | {name: values[None, :] for name, values in threads.items()}
    names |= {name: count // 2 for name, count in block_counts(launch, sizes).items()}
    # All iterations of short loops are enumerated, inner loops first; of the others one in the middle.
    looked, count = [], 1
    for loop in reversed(loops):
        extent = max(0, loop.extent.evaluate(sizes))
        if loop.extent.is_const and count * extent <= _SAMPLES:
            looked.append((loop.name, extent))
            count *= extent
        else:
            names[loop.name] = extent // 2
    number = np.arange(count, dtype=np.int64)
    for name, extent in looked:
        names[name] = (number % extent)[:, None]
        number = number // extent
    names[""] = np.zeros((count, len(threads[launch.tid])), dtype=np.int64)
    return names


def _names_at(launch: Launch, site: Site, memory: Buffer, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The values of all names in the index of `site`, those of places that are not affine among them."""
    names = _name_values(launch, sizes, site.loops)
    for dim, name, place in site.computed:
        names[name] = value_of(place, names, memory.shape[dim].evaluate(sizes), launch)
    return names


def _inside_mask(site: Site, memory: Buffer, names: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """A mask: the tested places of a gather are inside its tensor."""
    inside: Any = True
    for dim in site.tested:
        place = np.asarray(site.index[dim].evaluate(names))
        inside = inside & (place >= 0) & (place < memory.shape[dim].evaluate(sizes))
    return inside


def _element_offsets(site: Site, memory: Buffer, names: Mapping[str, Any], sizes: Mapping[str, int]) -> Ints:
    """The element's place in the buffer, a row for each iteration, a column for each thread."""
    rows, pitch, column = names[""], 1, names[""]
    for dim in memory.order[:-1]:
        rows = rows * memory.shape[dim].evaluate(sizes) + site.index[dim].evaluate(names)
    for dim in memory.order[-1:]:
        pitch = memory.shape[dim].evaluate(sizes) + memory.pad
        column = column + site.index[dim].evaluate(names)
    if memory.swizzle:
        column = memory.swizzle.column(rows, column)
    result: Ints = rows * pitch + column
    return result
