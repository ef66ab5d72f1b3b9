"""How much of what the blocks of a launch ask for lies inside of the tensor: no more is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.ir.affine import Affine
from tilegen.lab.counts.addresses import Ints, block_counts, thread_values
from tilegen.lab.counts.sites import Site
from tilegen.lowering.launch.launch import Launch

_POINTS = 2**16  # of a dimension that are looked at; of more, some at equal distances


@dataclass(frozen=True)
class _Axis:
    """Names that change together, each with its values along the axis; None where these are 0, 1, 2 and so on."""

    length: int
    values: Mapping[str, Ints | None]


def share_inside(launch: Launch, site: Site, sizes: Mapping[str, int]) -> float:
    """The share of the elements at `site` that lie inside of their tensor, over all blocks, threads and iterations.

    It is that of each dimension, multiplied: blocks and loops that decide one are taken not to decide another.
    Places that are not affine are taken to be inside.
    """
    axes = _axes(launch, site, sizes)
    computed = {dim for dim, _, _ in site.computed}
    shape = launch.buffers[site.buffer].shape
    return prod(
        _share_of_dimension(place, extent.evaluate(sizes), axes, sizes)
        for dim, (place, extent) in enumerate(zip(site.index, shape, strict=True))
        if dim not in computed
    )


def _axes(launch: Launch, site: Site, sizes: Mapping[str, int]) -> list[_Axis]:
    """One of threads, and one for each block and loop."""
    threads = thread_values(launch)
    lengths = block_counts(launch, sizes) | {loop.name: loop.extent.evaluate(sizes) for loop in site.loops}
    others = (_Axis(max(0, length), {name: None}) for name, length in lengths.items())
    return [_Axis(len(threads[launch.tid]), threads), *others]


def _share_of_dimension(place: Affine, extent: int, axes: list[_Axis], sizes: Mapping[str, int]) -> float:
    """The share of all values of `place` that are at least 0 and less than `extent`."""
    chosen = [axis for axis in axes if not place.names().isdisjoint(axis.values)]
    names: dict[str, Any] = dict(sizes)
    for number, (axis, count) in enumerate(zip(chosen, _thin([axis.length for axis in chosen]), strict=True)):
        looked_at = (np.arange(count, dtype=np.int64) * 2 + 1) * axis.length // (2 * max(1, count))
        shape = [-1 if each == number else 1 for each in range(len(chosen))]
        for name, values in axis.values.items():
            names[name] = (looked_at if values is None else values[looked_at]).reshape(shape)
    found = np.asarray(place.evaluate(names))
    return float(((found >= 0) & (found < extent)).mean()) if found.size else 1.0


def _thin(lengths: list[int]) -> list[int]:
    """How many of each are looked at, so that they make few enough points: fewer of the longest."""
    kept = list(lengths)
    while prod(kept) > _POINTS:
        kept[kept.index(max(kept))] //= 2
    return kept
