"""Layouts of operands as permutations of bits: what a lane's number tells of the loops over a fragment's elements.

Each bit of an element's indices is a bit of its lane's number or of its register's. So each bit of a loop that runs
over elements is either given by the lane, or stays a loop of every lane. An index that runs to no power of two, as the
192 columns of a result do, has one digit more above its bits, of an odd number of values, which is of the register: it
counts as one more bit, the last one, that stays with every lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.boxes import Box
from tilegen.ir.hardware.instructions import Fragment, SharedRows
from tilegen.ir.nodes import Buffer, Tensor


class NotDealt(Exception):
    """Why lanes cannot have the elements that a nest uses as it says, and the way out."""

    def __init__(self, sentence: str, way: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.way = sentence, way


class Bit(NamedTuple):
    """One bit of a place: of the lane's number, or of the register's."""

    of_lane: bool
    place: int


@cache
def bits_of(fragment: Fragment) -> tuple[tuple[Bit, ...], ...] | None:
    """For each index of the fragment, lowest first, what its bits are bits of; None if the layout permutes no bits."""
    found: list[tuple[Bit, ...]] = []
    for dim, extent in enumerate(fragment.shape):
        bits = []
        whole, odd = _bits_and_odd_part(extent)
        for place in range(whole + (odd > 1)):
            point = tuple(2**place if d == dim else 0 for d in range(len(fragment.shape)))
            lane, register = fragment.place(point)
            number = lane or register
            if (lane and (register or place == whole)) or number & (number - 1):
                return None
            bits.append(Bit(lane > 0, number.bit_length() - 1))
        found.append(tuple(bits))
    box = Box({str(dim): extent for dim, extent in enumerate(fragment.shape)})
    lanes, registers = map(box.each, fragment.place(list(box.values.values())))
    for value, bits_ in zip(box.values.values(), found, strict=True):
        for place, bit in enumerate(bits_):
            digit = value >> place
            number = (digit if place == len(bits_) - 1 else digit & 1) << bit.place
            lanes, registers = (lanes - number, registers) if bit.of_lane else (lanes, registers - number)
    return None if lanes.any() or registers.any() else tuple(found)


def _bits_and_odd_part(extent: int) -> tuple[int, int]:
    """(n, odd) with extent = odd * 2**n."""
    lowest = extent & -extent
    return lowest.bit_length() - 1, extent // lowest


def point_of_lane(layout: SharedRows, lane: str) -> dict[str, Affine]:
    """The element, by the indices of the layout, that begins the row whose address lane number `lane` gives."""
    starts = {lane: point for (lane, place), point in layout.elements().items() if place == 0}
    number, found = var(lane), dict[str, Affine]()
    for dim, name in enumerate(layout.indices):
        steps = [starts[2**place][dim] for place in range(layout.rows.bit_length() - 1)]
        total = const(0)
        for low, high in _doublings(steps):
            digit = number // 2**low
            if 2**high < layout.lanes:
                digit = digit % 2 ** (high - low)
            total += digit * steps[low]
        found[name] = total
    assert all(
        tuple(found[name].evaluate({lane: n}) for name in layout.indices) == point for n, point in starts.items()
    ), f"the rows of {layout.operand.name} are not in the order of bits"
    return found


def _doublings(steps: list[int]) -> Iterable[tuple[int, int]]:
    """From which place to which the steps are not 0, each twice the one before."""
    low = 0
    while low < len(steps):
        high = low + 1
        while high < len(steps) and steps[high] == 2 * steps[high - 1]:
            high += 1
        if steps[low]:
            yield low, high
        low = high


# For each bit of a loop, lowest first, the bit of the lane's number that it is; None where each lane has all values.
LaneBits = tuple[int | None, ...]


def lane_bits(buffer: Buffer, index: tuple[Affine, ...], extents: Mapping[str, int]) -> Mapping[str, LaneBits]:
    """What the lane's number tells of the loops that run over the elements of a fragment in an access.

    Raises NotDealt where the loops are no digits of the element's indices.
    """
    assert buffer.fragment
    layout = bits_of(buffer.fragment)
    if layout is None:
        raise NotDealt(f"the layout of '{buffer.name}' permutes no bits of the indices")
    found: dict[str, LaneBits] = {}
    side = dict(zip(buffer.fragment_dims, buffer.fragment.shape, strict=True))
    for bits, dim in zip(layout, buffer.fragment_dims, strict=True):
        used: set[int] = set()
        for name, weight in index[dim].terms:
            extent = extents.get(name, 0) if isinstance(name, str) else 0
            digits = weight > 0 and extent > 0 and weight & (weight - 1) == 0
            if not digits or not isinstance(name, str) or name in found:
                raise _no_digits(buffer, index[dim])
            low, (count, odd) = weight.bit_length() - 1, _bits_and_odd_part(extent)
            run = range(low, low + count + (odd > 1))
            if used.intersection(run) or run.stop > len(bits) or (odd > 1 and extent * weight != side[dim]):
                raise _no_digits(buffer, index[dim])
            used.update(run)
            found[name] = tuple(bits[p].place if bits[p].of_lane else None for p in run)
        if index[dim].const or used != set(range(len(bits))):
            raise _no_digits(buffer, index[dim])
    return found


def fragment_of_lanes(operand: Tensor, layouts: Sequence[LaneBits], lanes: int) -> Fragment:
    """The layout of an operand the bits of whose indices are these bits of the lane's number, or the register's.

    Those of the register are in the order of the indices, the last index lowest.
    """
    indices = tuple(f"{operand.name}.{dim}" for dim in range(len(layouts)))
    lane, register, weight = const(0), const(0), 1
    for name, bits, extent in reversed([*zip(indices, layouts, operand.shape, strict=True)]):
        for low, high in runs_of_bits(bits):
            digit = var(name) // 2**low
            if high < len(bits):
                digit = digit % 2 ** (high - low)
            place = bits[low]
            if place is None:
                register, weight = register + digit * weight, weight * count_of(bits, low, high, extent.const)
            else:
                lane += digit * 2**place
    return Fragment(operand, indices, lane, register, lanes=lanes)


def count_of(bits: LaneBits, low: int, high: int, extent: int) -> int:
    """How many values a run of the bits of a loop has."""
    return extent >> low if high == len(bits) else 1 << (high - low)


def _no_digits(buffer: Buffer, index: Affine) -> NotDealt:
    shape = " x ".join(str(buffer.shape[d]) for d in buffer.fragment_dims)
    return NotDealt(
        f"'{index}' is not all elements along one side of a fragment of '{buffer.name}', each once",
        f"loops over a fragment of {shape} run over whole sides of it, in digits of powers of two",
    )


def value_by_lane(bits: LaneBits, lane: Affine, lanes: int, rest: Mapping[int, Affine]) -> Affine:
    """The number of these bits: those of the lane's number, and for the others runs of bits by their lowest place."""
    total = const(0)
    for low, high in runs_of_bits(bits):
        place = bits[low]
        if place is None:
            total += rest[low] * 2**low
            continue
        digit = lane // 2**place
        if 2 ** (place + high - low) < lanes:
            digit = digit % 2 ** (high - low)
        total += digit * 2**low
    return total


def runs_of_bits(bits: LaneBits) -> Iterable[tuple[int, int]]:
    """From which bit to which neighbours are neighbours in the lane's number, or are all left to the lanes."""
    keyed = ((p, b) for p, b in enumerate(bits))
    for _, group in groupby(keyed, key=lambda pair: None if pair[1] is None else pair[1] - pair[0]):
        places = [place for place, _ in group]
        yield places[0], places[-1] + 1
