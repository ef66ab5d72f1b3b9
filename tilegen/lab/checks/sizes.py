"""Sizes for checks and for timings, where the user gives none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import prod

from tilegen.backends.calls.arrays import emptiness
from tilegen.backends.calls.engine import Engine
from tilegen.backends.devices.devices import InterpreterEngine
from tilegen.errors import UsageError, did_you_mean, integers
from tilegen.ir.nodes import DTYPE_BYTES, Condition, Kernel, Tree
from tilegen.ir.printing.show import show_fact
from tilegen.ir.reductions.ragged import sides_of
from tilegen.ir.reductions.scatter import pick_of
from tilegen.ir.walk import walk
from tilegen.lab.checks.reach import Search, missed, parts_of, ways_of
from tilegen.lowering.launch.program import names_in

# What a trial may cost: points of all loops together, and bytes of all tensors together.
CHECK_LIMITS = (2**25, 2**26)
INTERPRETER_LIMITS = (2**16, 2**20)
CPU_LIMITS = (2**21, 2**26)
GPU_LIMITS = (2**36, 2**32)
_LARGEST = 2**28


def limits_of_check(engine: Engine) -> tuple[int, int]:
    """The points and bytes that a check on the engine may have."""
    return INTERPRETER_LIMITS if isinstance(engine, InterpreterEngine) else CHECK_LIMITS


def sizes_to_check(
    trees: Iterable[Tree], given: Mapping[str, int], limits: tuple[int, int] = CHECK_LIMITS
) -> list[dict[str, int]]:
    """Sets of sizes for a check of trees of one kernel.

    Together they reach each part of the schedules that sizes within the limits reach: several whole tiles, parts of a
    tile with vectors, several tiles with a part of one, those odd and different; the last set is all ones. A tree that
    is for fewer sizes than others has sets of its own.

    Raises:
        UsageError: no sizes were found that satisfy the kernel's `where`.
    """
    alike: dict[tuple[Condition, ...], list[Tree]] = {}
    for tree in trees:
        alike.setdefault(tree.kernel.assumptions, []).append(tree)
    found = [sizes for some in alike.values() for sizes in _sizes_of_alike(some, given, limits)]
    return [sizes for i, sizes in enumerate(found) if sizes not in found[:i]]


def _sizes_of_alike(trees: list[Tree], given: Mapping[str, int], limits: tuple[int, int]) -> list[dict[str, int]]:
    """Those for trees that are for the same sizes."""
    kernel, parts = trees[0].kernel, parts_of(trees)

    def cost(sizes: Mapping[str, int]) -> int | None:
        count = points(kernel, sizes)
        return count if count <= limits[0] and total_bytes(kernel, sizes) <= limits[1] else None

    def settle(sizes: Mapping[str, int]) -> dict[str, int]:
        with suppress(UsageError):
            return _satisfy(kernel, _with_long_rows(kernel, dict(sizes)) | dict(given), given)
        return {}

    found = list(Search(kernel, parts, given, settle, cost).sets(ways_of(trees)))
    for part, way, least in missed(kernel, parts, found, given):
        sizes = settle(least)  # no tensor is empty
        if sizes and not any(part.reached(way, each) for each in found) and cost(sizes) is not None:
            found.append(sizes)
    return [*found, _satisfy(kernel, {n: 1 for n in kernel.sizes} | dict(given), given)]


def _with_long_rows(kernel: Kernel, sizes: dict[str, int]) -> dict[str, int]:
    """`sizes` where rows whose ends data give have several elements in the mean."""
    for name, end in kernel.rising:
        rows = kernel.tensor(name).shape[0].evaluate(sizes)
        sizes |= {str(end): max(sizes[str(end)], 3 * rows) for _ in range(str(end) in sizes)}
    return sizes


def known_sizes(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` as integers. Raises UsageError for one that the kernel does not have."""
    for name in sizes:
        if name not in kernel.sizes:
            notes = did_you_mean(name, kernel.sizes, "its sizes are")
            raise UsageError(f"kernel '{kernel.name}' has no size '{name}'", notes=notes)
    return integers(sizes)


def power_sizes(kernel: Kernel, given: Mapping[str, int], limits: tuple[int, int]) -> dict[str, int]:
    """The largest power of two for every size that is not given, such that the limits hold.

    Raises:
        UsageError: no sizes were found that satisfy the kernel's `where`.
    """
    level = _LARGEST
    while level > 1:
        sizes = _satisfy(kernel, {n: level for n in kernel.sizes} | dict(given), given)
        if points(kernel, sizes) <= limits[0] and total_bytes(kernel, sizes) <= limits[1]:
            return sizes
        level //= 2
    return _satisfy(kernel, {n: 1 for n in kernel.sizes} | dict(given), given)


def points(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Points of all equations' ranges together; a restriction (`k <= i`) is not counted, and of a range that data pick
    from one. Rows whose ends data give have all elements together once."""
    rows = {e.target: {n for s in sides_of(e.value) for n in names_in(walk(s.value))} for e in kernel.equations}
    return sum(
        prod(
            r.extent.evaluate(sizes)
            for r in (*e.loops, *e.reduced)
            if pick_of(e.value, r.name) is None and r.name not in rows[e.target]
        )
        for e in kernel.equations
    )


def total_bytes(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Bytes of all tensors, intermediate ones too."""
    return sum(DTYPE_BYTES[t.dtype] * prod(e.evaluate(sizes) for e in t.shape) for t in kernel.tensors)


def _satisfy(kernel: Kernel, wanted: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """`wanted`, sizes that are not given changed until every `where` holds and no tensor is empty."""
    sizes = dict(wanted)
    positive = tuple(Condition(extent - 1) for t in kernel.tensors for extent in t.shape)
    for _ in range(64):
        broken = [c for c in (*kernel.assumptions, *positive) if not c.holds(sizes)]
        if not broken:
            return sizes
        if not _repair(broken[0], sizes, given):
            break
    for tensor in kernel.tensors:
        if empty := emptiness(tensor, given):
            raise UsageError(empty)
    condition = next((c for c in broken if c.value.names() <= given.keys()), broken[0])
    names = sorted(condition.value.names())
    found = ", ".join(f"{name} = {given[name]}" for name in names if name in given)
    if missing := " and ".join(name for name in names if name not in given):
        found = f"no {missing} was found{' for ' * bool(found)}{found}"
    raise UsageError(f"kernel '{kernel.name}' is for {show_fact(condition)} only, and {found}")


def _repair(condition: Condition, sizes: dict[str, int], given: Mapping[str, int]) -> bool:
    """Raises one size until `condition` holds, or lowers it to a power of two."""
    for name in sorted(condition.value.names() - set(given)):
        start = sizes[name]
        higher = [start + step for step in (*range(1, 129), *(2**n for n in range(8, 24)))]
        for value in (*higher, *(2**n for n in reversed(range((start - 1).bit_length())))):
            if condition.holds(sizes | {name: value}):
                sizes[name] = value
                return True
    return False
