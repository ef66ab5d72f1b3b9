"""Swizzled rows are permutations, counted out; what is none is told from them."""

import pytest

from tilegen.ir.swizzle import Swizzle

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
