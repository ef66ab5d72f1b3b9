"""Swizzled rows are permutations, counted out; what is none is told from them."""

from itertools import product

import pytest

from tilegen.ir.affine import const
from tilegen.ir.facts.row_digits import count_rows, row_number
from tilegen.ir.nodes import Buffer
from tilegen.ir.parts.swizzle import BULK_SPANS, Swizzle, hardware_swizzle

POWERS = (1, 2, 4, 8)


@pytest.mark.parametrize("unit", POWERS)
@pytest.mark.parametrize("count", POWERS)
@pytest.mark.parametrize("rows", POWERS)
def test_every_row_is_permuted_in_whole_units(unit, count, rows):
    swizzle = Swizzle(unit, count, rows)
    length = 3 * swizzle.span
    assert swizzle.permutes(length)
    for row in range(2 * rows * count):
        places = [swizzle.column(row, column) for column in range(length)]
        assert sorted(places) == list(range(length))
        assert all(places[c] == places[c - c % unit] + c % unit for c in range(length))
        assert places[0] // unit == row // rows % count


@pytest.mark.parametrize("length", range(1, 40))
def test_rows_that_are_not_permuted_are_told(length):
    swizzle = Swizzle(2, 4)
    places = {swizzle.column(row, column) for row in range(4) for column in range(length)}
    assert swizzle.permutes(length) == (max(places) < length)


@pytest.mark.parametrize("wrong", [Swizzle(3, 2), Swizzle(1, 6), Swizzle(1, 2, 3), Swizzle(0, 2), Swizzle(1, -2)])
def test_numbers_that_are_no_powers_of_two_are_told(wrong):
    assert not wrong.permutes(48)


def test_a_unit_keeps_vectors_of_its_width_and_less():
    assert [Swizzle(4, 2).keeps(width) for width in POWERS] == [True, True, True, False]


@pytest.mark.parametrize("span", BULK_SPANS)
def test_rows_are_counted_over_all_dimensions_as_the_hardware_does(span):
    shape, order = (3, span // 2, 4, 2), (3, 0, 2, 1)
    swizzle = hardware_swizzle(span, 2)
    buffer = Buffer("Xs", "f16", tuple(map(const, shape)), "shared", order, swizzle=swizzle)
    assert count_rows(buffer) == 24
    for element in product(*map(range, shape)):
        row = row_number(buffer, tuple(map(const, element))).const
        assert row == (element[3] * 3 + element[0]) * 4 + element[2]
        address = row * span + element[1] * 2
        # Bits 4 to 6 of an address are combined with bits 7 to 9, as many of them as a row has units.
        moved = address ^ (address >> 7) % (span // 16) << 4
        assert moved == row * span + swizzle.column(row, element[1]) * 2
