"""Rows without the names of digits hold where isl says that some digits satisfy the rows with them."""

import random

import islpy as isl
import pytest

from tilegen.ir.affine import var
from tilegen.poly.plain import Plain
from tilegen.poly.quotients import put_away
from tilegen.poly.system import form, matrix

NAMES = ["M", "i", "j"]
GIVEN = tuple(row for name in NAMES[1:] for row in form(var(name)).nonnegative()) + (
    *form(var("M") - 1).nonnegative(),
    *form(var("M") - var("i") - 1).nonnegative(),
)


def random_digits(rng):
    """i, or twice that and j, as digits of a tile of its own: mostly full ones, in some order; ranges and tests."""
    value, rows = var("i") + rng.choice((var("j") * 0, var("i") + var("j"))) + rng.randrange(-1, 2), []
    rest, scale = value * 1, 1
    digits = rng.sample(("lo", "mid", "hi"), rng.randrange(1, 4))
    for n, digit in enumerate(digits):
        extent = rng.choice((2, 3, 4, 8))
        rest = rest - var(digit) * scale
        if rng.random() < 0.9:
            rows += form(var(digit)).nonnegative()
        if n < len(digits) - 1 or rng.random() < 0.2:
            rows += form(rng.choice((extent, extent, extent, extent + 1)) - 1 - var(digit)).nonnegative()
        top, scale = scale, scale * extent
    rows += form(rest).zero() if rng.random() < 0.7 else (*form(rest).nonnegative(), *form(-rest + 1).nonnegative())
    for _ in range(rng.randrange(3)):
        tested = var(rng.choice(digits)) * rng.choice((1, top, top, 2)) * rng.choice((1, 1, -1))
        rows += form(var("M") - tested - rng.randrange(3)).nonnegative()
    rng.shuffle(rows)
    return tuple(rows)


@pytest.mark.parametrize("seed", range(20))
def test_rows_without_digits_hold_where_some_digits_satisfy_them(seed):
    rng = random.Random(seed)
    fewer = nothing = 0
    for _ in range(60):
        rows = random_digits(rng)
        left = put_away(rows, set(NAMES), Plain(GIVEN))
        fewer += len(names_of(left) - set(NAMES)) < len(names_of(rows) - set(NAMES))
        nothing += not left
        assert points((*GIVEN, *left)).is_equal(points((*GIVEN, *rows))), (rows, left)
    assert fewer > 20
    assert nothing > 0


def names_of(rows):
    return {name for _, terms, _ in rows for name, _ in terms}


def points(rows):
    whole = isl.BasicSet.read_from_str(isl.DEFAULT_CONTEXT, matrix(list(rows), NAMES)[0]).to_set()
    return whole.project_out(isl.dim_type.set, len(NAMES), whole.dim(isl.dim_type.set) - len(NAMES))


def test_the_digits_of_an_index_say_nothing():
    rows = form(var("i") - var("hi") * 8 - var("lo")).zero() + form(var("M") - var("hi") * 8 - 1).nonnegative()
    rows += tuple(row for name in ("hi", "lo") for row in form(var(name)).nonnegative())
    assert not put_away((*rows, *form(7 - var("lo")).nonnegative()), set(NAMES), Plain(GIVEN))
    assert put_away((*rows, *form(6 - var("lo")).nonnegative()), set(NAMES), Plain(GIVEN))
