"""Pieces cover what isl says that they cover, asked at once and without taking anything apart."""

import random

import islpy as isl
import pytest

from tilegen.poly.covering import find_uncovered, is_covered
from tilegen.poly.system import matrix

NAMES = ["M", "N", "i", "j", "lane", "k"]


def bounds(name, low, high):
    return (False, ((name, 1),), -low), (False, ((name, -1),), high)


def random_wanted(rng):
    """Iterations: some loops below a size, others below a number; sometimes under a test of two of them."""
    rows = [(False, ((size, 1),), -1) for size in ("M", "N")]
    for name, size in (("i", "M"), ("j", "N")):
        rows += [(False, ((name, 1),), 0), (False, ((size, 1), (name, -rng.choice((1, 1, 4)))), -1)]
    rows += [*bounds("lane", 0, 7), *bounds("k", 0, rng.randrange(1, 5))]
    if rng.random() < 0.3:
        rows.append((False, (("i", 1), ("lane", rng.choice((1, -1)))), rng.randrange(4)))
    if rng.random() < 0.1:
        rows.append((False, (("k", 1),), -rng.randrange(1, 7)))
    return tuple(rows)


def random_piece(rng):
    """Another instance, of which each loop is the same, a digit, a turn earlier or one of its own; or under a test."""
    rows = []
    if rng.random() < 0.8:
        rows += [(False, (("i~", 1),), 0), (False, (("M", 1), ("i~", -1)), -1)]
        rows += [(True, (("i", 1), ("i~", -1)), -rng.choice((0, 0, 0, 1)))]
    if rng.random() < 0.8:
        rows += [*bounds("hi~", 0, rng.choice((1, 3))), *bounds("lo~", 0, rng.choice((1, 3, 3)))]
        rows += [(True, (("lane", 1), ("hi~", -4), ("lo~", -1)), 0)]
    for _ in range(rng.randrange(3)):
        name, cut = rng.choice((("k", 2), ("lane", 4), ("j", 3), ("k", 1))), rng.randrange(2)
        rows += [(False, ((name[0], 1),), -name[1])] if cut else [(False, ((name[0], -1),), name[1] - 1)]
    if rng.random() < 0.2:
        rows += [(True, (("k", 1), ("half~", -2)), rng.choice((0, -1)))]
    if rng.random() < 0.2:
        rows += [(True, (), 0), (rng.random() < 0.9, (), 0), (False, (), rng.choice((0, 1, 1, -1)))]
    return tuple(rows)


def project(rows):
    whole = isl.BasicSet.read_from_str(isl.DEFAULT_CONTEXT, matrix(list(rows), NAMES)[0]).to_set()
    return whole.project_out(isl.dim_type.set, len(NAMES), whole.dim(isl.dim_type.set) - len(NAMES))


@pytest.mark.parametrize("seed", range(30))
def test_pieces_cover_what_they_cover_as_a_whole(seed):
    rng = random.Random(seed)
    found = {True: 0, False: 0}
    for _ in range(40):
        wanted = random_wanted(rng)
        pieces = [wanted + random_piece(rng) for _ in range(rng.randrange(4))]
        pieces = [tuple(piece) if rng.random() < 0.3 else piece for piece in pieces]
        left = project(wanted)
        for piece in pieces:
            left = left.subtract(project(piece))
        assert is_covered(wanted, pieces, NAMES) == left.is_empty(), (wanted, pieces)
        point = find_uncovered(wanted, pieces, NAMES)
        assert (point is None) == left.is_empty()
        if point is not None:
            there = project([*wanted, *((True, ((name, 1),), -point[name]) for name in NAMES)])
            assert not there.is_empty()
            assert there.is_subset(left)
        found[point is None] += 1
    assert min(found.values()) > 2


def test_pieces_cover_case_by_case():
    """A copy made before the loop, and one in the iteration before: every iteration finds one of them."""
    wanted = (*bounds("k", 0, 6), (False, (("i", 1),), 0), (False, (("M", 1), ("i", -8)), -9))
    first = wanted + ((True, (("i", 1),), 0), (False, (("M", 1), ("k", -1)), -2))
    assert is_covered(wanted, [first, wanted + ((False, (("i", 1),), -1),)], NAMES)
    assert not is_covered(wanted, [first, wanted + ((False, (("i", 1),), -2),)], NAMES)
    assert find_uncovered(wanted, [first, wanted + ((False, (("i", 1),), -2),)], NAMES)["i"] == 1
