"""How much of what the blocks of a launch ask for lies inside of the tensor: no more is moved."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.lab.sites import Site
from tilegen.lowering.program import Launch

_POINTS = 2**16  # of a dimension that are looked at; of more, as many as this at equal distances

Ints = np.ndarray[Any, np.dtype[np.int64]]


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


def _axes(launch: Launch, site: Site, sizes: Mapping[str, int]) -> list[dict[str, Ints]]:
    """The names that change together, each with its values: one axis of threads, and one for each block and loop."""
    x, y, z = launch.block
    flat = np.arange(x * y * z, dtype=np.int64)
    lanes = dict(zip(THREAD_KINDS, (flat % x, flat // x % y, flat // (x * y)), strict=True))
    factors = {kind: list(each.factors) for kind, each in zip(BLOCK_KINDS, launch.grid, strict=True)}
    threads, others = {launch.tid: flat}, []
    for name, kind, _ in launch.coordinates:
        if kind in lanes:
            threads[name] = lanes[kind]
        else:
            others.append((name, factors[kind].pop(0)))
    others += [(loop.name, loop.extent) for loop in site.loops]
    return [threads, *({name: np.arange(max(0, extent.evaluate(sizes)))} for name, extent in others)]


def _share_of_dimension(place: Affine, extent: int, axes: list[dict[str, Ints]], sizes: Mapping[str, int]) -> float:
    """The share of all values of `place` that are at least 0 and less than `extent`."""
    spoken = place.names()
    chosen = [axis for axis in axes if not spoken.isdisjoint(axis)]
    lengths = [len(next(iter(axis.values()))) for axis in chosen]
    names: dict[str, Any] = dict(sizes)
    for number, (axis, length) in enumerate(zip(chosen, lengths, strict=True)):
        beside = prod(lengths) // max(1, length)
        kept = np.linspace(0, length - 1, min(length, max(2, _POINTS // max(1, beside)))).astype(np.int64)
        shape = [-1 if each == number else 1 for each in range(len(chosen))]
        names |= {name: values[kept].reshape(shape) for name, values in axis.items()}
    found = np.asarray(place.evaluate(names))
    return float(((found >= 0) & (found < extent)).mean()) if found.size else 1.0
