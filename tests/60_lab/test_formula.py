"""Formulas: what they print and what they come to."""

from fractions import Fraction

from tilegen.ir.affine import const, var
from tilegen.lab.counts.formula import Formula, number, of, total


def test_rounded_up_divisions_come_out_even():
    assert str(of(var("M").ceildiv(128))) == "M/128"
    assert str(of((var("W") + 1).ceildiv(32))) == "W/32 + 1"
    assert str(of(var("M") // 4)) == "M/4"
    assert str(of(const(3))) == "3"
    assert str(of(var("H") * 2 - 1)) == "2*H - 1"


def test_equal_parts_are_counted_in_front():
    part = of(var("N")) * of(var("N")) * of(var("N").ceildiv(32))
    assert str(part) == "N^3/32"
    assert str(part + part) == "2*N^3/32"
    assert str(part + of(var("N"))) == "N^3/32 + N"


def test_unequal_parts_are_added():
    eighth, whole = of(var("N")).scale(Fraction(1, 8)), of(var("N"))
    assert str(eighth + whole) == "9*N/8"
    assert str(whole + whole.scale(-1)) == "0"
    assert str(Formula()) == "0"


def test_a_formula_comes_to_a_number():
    found = total([of(var("M").ceildiv(128)) * of(var("K")), number(2)])
    assert found.evaluate({"M": 256, "K": 8}) == 18
