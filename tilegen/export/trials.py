"""What the test program computes: for each version small sizes and addresses, and calls that are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilegen.backends.arrays import has_no_output
from tilegen.export.c_names import Interface
from tilegen.export.versions import Version, choose
from tilegen.ir.nodes import DTYPE_BYTES, Condition
from tilegen.lab.sizes import points, sizes_to_check, total_bytes
from tilegen.poly import Facts

# Points of all loops together, and bytes: a plain loop on a CPU takes a second or so.
_LIMITS = (2**24, 2**26)
_LARGEST_POINTS = 2**29


@dataclass(frozen=True)
class Trial:
    """A call that the test program makes.

    Attributes:
        version: the number of the version that runs.
        chosen: that of the one that a launch chooses: another one for a version of 64-bit offsets.
        sizes: by name.
        moved: the tensors that begin one element behind a multiple of 256 bytes.
    """

    version: int
    chosen: int
    sizes: Mapping[str, int]
    moved: frozenset[str]


def trials(interface: Interface, table: Sequence[Version], given: Mapping[str, int]) -> tuple[Trial, ...]:
    """A trial for each version for which there are small sizes, one for each tensor that is not aligned where that
    matters, and one for the sizes `given`."""
    found: dict[int, Trial] = {}
    for sizes, moved in _candidates(interface, table):
        trial = _trial(interface, table, sizes, moved)
        if trial is None:
            continue
        for number, version in enumerate(table):
            twin = version.wide != table[trial.chosen].wide and version.needs == table[trial.chosen].needs
            if number == trial.chosen or twin:
                found.setdefault(number, replace(trial, version=number))
        if len(found) == len(table):
            break
    extra = [
        (found[number].sizes, {name}) for number in sorted(found)[:1] for name in _aligned_tensors(interface, table)
    ]
    if given:
        extra += [(sizes_to_check([interface.tree], given)[0], set())]
    more = [_trial(interface, table, sizes, frozenset(moved)) for sizes, moved in extra]
    kept = [trial for trial in more if trial is not None and trial not in found.values()]
    return (*(found[number] for number in sorted(found)), *kept)


def _trial(
    interface: Interface, table: Sequence[Version], sizes: Mapping[str, int], moved: frozenset[str]
) -> Trial | None:
    """The call that chooses its version; None where none fits."""
    addresses = {t.name: DTYPE_BYTES[t.dtype] for t in interface.tensors if t.name in moved}
    version = choose(table, sizes, addresses)
    if version is None:
        return None
    number = list(table).index(version)
    return Trial(number, number, sizes, moved)


def _aligned_tensors(interface: Interface, table: Sequence[Version]) -> list[str]:
    """Those of which some version needs that they are aligned."""
    return [t.name for t in interface.tensors if any(f[0] == t.name for v in table for f in _alignments(v))]


def _candidates(interface: Interface, table: Sequence[Version]) -> Iterator[tuple[dict[str, int], frozenset[str]]]:
    """Sizes and tensors that are moved: first none of these, then one or more."""
    sizes = list(_size_candidates(interface, table))
    names = _aligned_tensors(interface, table)
    choices = sorted(product((False, True), repeat=len(names)), key=sum)[: 2**8]
    for choice in choices:
        moved = frozenset(name for name, is_moved in zip(names, choice, strict=True) if is_moved)
        yield from ((each, moved) for each in sizes)


def _alignments(version: Version) -> Iterable[tuple[str, int]]:
    return (f for f in version.needs if not isinstance(f, Condition))


def _size_candidates(interface: Interface, table: Sequence[Version]) -> Iterator[dict[str, int]]:
    """Two tiles, a part of one, ones; and for each version the least sizes that it is for, or a few times these."""
    kernel = interface.tree.kernel.written_kernel
    yield from sizes_to_check([interface.tree], {}, _LIMITS)
    facts = Facts(kernel)
    for version in table:
        conditions = tuple(f for f in version.needs if isinstance(f, Condition))
        least = facts.least_sizes(conditions)
        for times in (5, 3, 1):
            grown = {name: value * times for name, value in (least or {}).items()}
            met = all(c.holds(grown) for c in (*conditions, *kernel.assumptions)) if grown else False
            if met and points(kernel, grown) <= _LARGEST_POINTS and total_bytes(kernel, grown) <= _LIMITS[1] * 4:
                yield grown


def sizes_without_output(interface: Interface) -> Mapping[str, int] | None:
    """Small sizes, one of them 0, at which all outputs are empty; None where there are none such."""
    kernel = interface.tree.kernel.written_kernel
    least = sizes_to_check([interface.tree], {})[-1]
    for name in kernel.sizes:
        sizes = {**least, name: 0}
        if has_no_output(kernel, sizes) and all(c.holds(sizes) for c in kernel.assumptions):
            return sizes
    return None


def refused_sizes(interface: Interface) -> Mapping[str, int] | None:
    """Sizes that a `where` of the kernel excludes; None where it excludes none that are small."""
    kernel = interface.tree.kernel.written_kernel
    most = 8 if len(kernel.sizes) <= 5 else 2
    for values in product(range(1, most + 1), repeat=len(kernel.sizes)):
        sizes = dict(zip(kernel.sizes, values, strict=True))
        if not all(c.holds(sizes) for c in kernel.assumptions):
            return sizes
    return None
