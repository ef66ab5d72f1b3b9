"""Loops whose ends depend on blocks, threads or loops around: how often they run in the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tilegen.ir.affine import const
from tilegen.ir.nodes import Load
from tilegen.ir.reductions.ragged import Bound, Bounds, Found
from tilegen.lab.counts.addresses import block_counts, thread_values
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import For, Spmd, with_lists
from tilegen.lowering.threads.dealing import loops_between_ends

_SAMPLES = 64  # values of each name that is in an extent


def with_mean_trips(launch: Launch, sizes: Mapping[str, int]) -> Launch:
    """The launch with the mean number of iterations of each such loop, that of blocks and threads, rounded."""
    launch = _with_mean_tiles(launch, sizes)
    counts = block_counts(launch, sizes) | {n: int(v.max()) + 1 for n, v in thread_values(launch).items()}
    return replace(launch, body=_with_means(launch.body, counts, sizes, launch))


def _with_mean_tiles(launch: Launch, sizes: Mapping[str, int]) -> Launch:
    """The launch with as many tiles as there are, where data give the rows of each matrix of them."""
    if not (loops := loops_between_ends(launch)):
        return launch
    factors = (const(-(-loop.extent.evaluate(sizes) // _parts(loop, launch, sizes))) for loop in loops)
    return replace(launch, grid=(Product(tuple(factors)), *launch.grid[1:]))


def _with_means(
    body: tuple[Spmd, ...], counts: Mapping[str, int], sizes: Mapping[str, int], launch: Launch
) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        inside = counts
        if isinstance(node, For):
            mean = _mean(node, counts, sizes)
            parts = _parts(node, launch, sizes)
            mean = -(-mean // parts)
            node = node if node.extent.names() <= sizes.keys() and parts == 1 else replace(node, extent=const(mean))
            inside = {**counts, node.name: max(1, mean)}
        out.append(with_lists(node, partial(_with_means, counts=inside, sizes=sizes, launch=launch)))
    return tuple(out)


def _parts(loop: For, launch: Launch, sizes: Mapping[str, int]) -> int:
    """Into how many parts data divide the iterations of a loop: those between two elements, from end to end; or those
    whose rows have a tile, of as many tiles as there are."""
    match loop.ends:
        case Bounds(pick_one=True):
            return loop.extent.evaluate(sizes)
        case Bounds(None | Bound(Load()), Bound(Load(first))):
            return max(1, prod(extent.evaluate(sizes) for extent in launch.buffers[first].shape) - 1)
        case Bounds(Found(element, low), Found(_, high)) if (high - low).is_const:
            total = dict(launch.kernel.rising)[element.buffer].evaluate(sizes)
            return max(1, min(loop.extent.evaluate(sizes), total // ((high - low).const + 1)))
    return 1


def _mean(loop: For, counts: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    names = sorted(loop.extent.names() - sizes.keys())
    values = (np.linspace(0, counts[name] - 1, min(counts[name], _SAMPLES)).round().astype(np.int64) for name in names)
    points: dict[str, Any] = dict(zip(names, np.meshgrid(*values, indexing="ij"), strict=True))
    return round(float(np.maximum(0, np.asarray(loop.extent.evaluate(points | dict(sizes)))).mean()))
