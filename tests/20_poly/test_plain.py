"""What is answered without isl is what isl answers; what digits determine is what an enumeration finds."""

import random
from itertools import product

import islpy as isl
import pytest

from tilegen.ir.affine import Affine, const, var
from tilegen.poly.determined import determined, increasing
from tilegen.poly.plain import Plain
from tilegen.poly.rows import Rows
from tilegen.poly.system import form, matrix

NAMES = ("i", "j", "k", "i'", "j'", "N")


def random_rows(rng):
    """Ranges, equalities and inequalities, some of them opposite, with divisions: like the judge's own questions."""
    rows = [(False, (("N", 1),), -1)]
    for name in NAMES[:-1]:
        rows += [(False, ((name, 1),), 0), (False, ((name, -1),), rng.randrange(1, 9))] if rng.random() < 0.9 else []
    for _ in range(rng.randrange(1, 5)):
        names = rng.sample(NAMES, rng.randrange(1, 5))
        terms = tuple((name, rng.choice((-16, -8, -4, -1, 1, 1, 2, 4, 8, 16))) for name in names)
        rows.append((rng.random() < 0.5, terms, rng.randrange(-20, 21)))
        if rng.random() < 0.3:
            rows.append((False, tuple((n, -f) for n, f in terms), rng.randrange(-20, 21)))
    for _ in range(rng.randrange(3)):
        divided = var(rng.choice(NAMES)) * rng.choice((1, 2)) + var(rng.choice(NAMES))
        value = form(divided // rng.choice((2, 4)) - var(rng.choice(NAMES)) + rng.randrange(-3, 4))
        rows += value.zero() if rng.random() < 0.5 else value.nonnegative()
    return tuple(rows)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_plainly_impossible_is_empty(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(100):
        rows = random_rows(rng)
        if Plain(rows).impossible:
            found += 1
            assert empty(rows), rows
    assert found > 10


@pytest.mark.parametrize("seed", range(20))
def test_what_is_plainly_zero_is_zero(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(100):
        rows = random_rows(rng)
        one, two = rng.sample(NAMES, 2)
        terms = ((one, 1), (two, -1))
        if Plain(rows).zero(terms, 0):
            found += 1
            assert empty((*rows, (False, terms, -1))), rows
            assert empty((*rows, (False, tuple((n, -f) for n, f in terms), -1))), rows
    assert found > 5


@pytest.mark.parametrize("seed", range(20))
def test_what_is_certain_holds_wherever_the_rest_does(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(100):
        rows = random_rows(rng)
        equal, terms, constant = row = rng.choice((*random_rows(rng), *(weaker(rng, row) for row in rows)))
        if Plain(rows).certain((row,)):
            found += 1
            contrary = tuple((n, -f) for n, f in terms)
            assert empty((*rows, (False, contrary, -constant - 1))), (rows, row)
            assert not equal or empty((*rows, (False, terms, constant - 1))), (rows, row)
    assert found > 20


def weaker(rng, row):
    """What follows from a row, or nearly."""
    equal, terms, constant = row
    return (equal and rng.random() < 0.5, terms, constant + rng.choice((0, 0, 1, -1)))


def test_multiples_of_four_that_are_positive_are_four_at_least():
    rows = form(var("M") % 4).zero() + form(var("M") - var("i") * 4 - var("v") - 1).nonnegative()
    given = Plain((*rows, (False, (("i", 1),), 0), (False, (("v", 1),), 0)))
    four = form(var("M") - var("i") * 4 - 4).nonnegative()
    five = form(var("M") - var("i") * 4 - 5).nonnegative()
    assert given.certain(four)
    assert not given.certain(five)


def test_rows_bound_a_size_in_whatever_units():
    """k < 32*q where k is 8*ko + ki, and ko < 4*q - 1."""
    ends = ((False, (("ki", 1),), 0), (False, (("ki", -1),), 7), (False, (("ko", 1),), 0))
    given = Plain((*ends, (False, (("q", 4), ("ko", -1)), -2)))
    index = (("q", 32), ("ko", -8), ("ki", -1))
    assert given.certain(((False, index, -9),))
    assert not given.certain(((False, index, -10),))


def test_what_a_row_says_of_names_with_ends_is_certain():
    ends = ((False, (("i", 1),), 0), (False, (("i", -1),), 6), (False, (("r", 1),), 0), (False, (("r", -1),), 7))
    given = Plain((*ends, (False, (("r", 1), ("i", -1)), 0)))
    assert given.certain(((False, (("r", 1), ("i", -1)), 1),))
    assert not given.certain(((False, (("r", 1), ("i", -1)), -1),))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_added_later_says_no_less_and_nothing_wrong(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(100):
        rows = random_rows(rng)
        cut = rng.randrange(len(rows))
        if (Rows(rows[:cut]) + rows[cut:]).plain.impossible:
            found += 1
            assert empty(rows), rows
    assert found > 10


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_open_says_the_same_where_the_rest_holds(seed):
    """Rows with names of their own, marked with `~`, which hold for some values of these: what is left says where."""
    rng = random.Random(seed)
    nothing = fewer = 0
    for _ in range(100):
        first = Rows(random_rows(rng)[:-1])
        both = first + (*continued(rng, NAMES[:3]), *rng.choice(((), random_rows(rng)[-1:])))
        left = first.plain.open({*first.by_name, *NAMES}, both.beyond(first), both.plain)
        nothing += not left
        fewer += len(left) < len(both.beyond(first))
        text, width = matrix([*first, *left], list(NAMES))[0], len(NAMES)
        there = projected(matrix(list(both), list(NAMES))[0], width)
        assert projected(text, width).is_equal(there), both.all
    assert nothing > 0
    assert fewer > 30


def continued(rng, names):
    """Another instance: each name's own is the same, a digit apart or an iteration earlier, in a range."""
    rows = ()
    for name in names:
        other = f"{name}~"
        rows += ((False, ((other, 1),), 0), (False, ((other, -1),), rng.randrange(6, 12)))
        shift, factor = rng.choice((0, 0, 0, 1)), rng.choice((1, 1, 4))
        rows += ((True, ((name, factor), (other, -factor)), -shift * factor),)
    return rows


def projected(text, width):
    whole = isl.BasicSet.read_from_str(isl.DEFAULT_CONTEXT, text).to_set()
    return whole.project_out(isl.dim_type.set, width, whole.dim(isl.dim_type.set) - width)


def empty(rows):
    return isl.BasicSet.read_from_str(isl.DEFAULT_CONTEXT, matrix(list(rows))[0]).is_empty()


@pytest.mark.parametrize("seed", range(20))
def test_digits_determine_loops(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(30):
        extents = {name: rng.choice((2, 3, 4)) for name in ("i", "j", "k")}
        fixed = frozenset(rng.sample(("i", "j", "k"), rng.randrange(2)))
        index = tuple(random_index(rng) for _ in range(rng.randrange(1, 3)))
        loops = determined(index, {name: const(extent) for name, extent in extents.items()}, fixed)
        found += bool(loops - fixed)
        met = {}
        for point in product(*(range(extent) for extent in extents.values())):
            values = dict(zip(extents, point, strict=True))
            key = (tuple(i.evaluate(values) for i in index), tuple(values[name] for name in sorted(fixed)))
            said = tuple(values[name] for name in sorted(loops))
            assert met.setdefault(key, said) == said, (index, extents, fixed, loops)
    assert found > 5


@pytest.mark.parametrize("seed", range(8))
def test_of_two_iterations_the_later_one_has_the_larger_value(seed):
    rng, found = random.Random(seed), 0
    for _ in range(60):
        extents = {name: rng.choice((2, 3, 4)) for name in ("i", "j", "k")}
        fixed = frozenset(rng.sample(("j", "k"), rng.randrange(3)))
        index = random_index(rng)
        if not increasing(index, "i", {name: const(extent) for name, extent in extents.items()}, fixed):
            continue
        found += 1
        points = [dict(zip(extents, p, strict=True)) for p in product(*(range(extent) for extent in extents.values()))]
        for one, two in product(points, points):
            if one["i"] < two["i"] and all(one[name] == two[name] for name in fixed):
                assert index.evaluate(one) < index.evaluate(two), (index, extents, fixed, one, two)
    assert found > 5


def random_index(rng):
    value = Affine((), rng.randrange(3))
    for name in ("i", "j", "k"):
        part = var(name) * rng.choice((0, 1, 2, 3, 4, 8, 16, -1, -4))
        divisor = rng.choice((2, 3, 4))
        value = value + rng.choice((part, part, part // divisor, part % divisor * 4))
    return value


def test_a_loop_without_end_is_the_highest_digit():
    extents = {"bi": var("M"), "ti": const(16), "lane": const(32)}
    tile = var("bi") * 16 + var("ti")
    assert determined((tile,), extents, frozenset()) == {"bi", "ti"}
    assert determined((var("bi") + var("ti"),), extents, frozenset()) == frozenset()
    assert determined((var("bi") + var("ti"),), extents, frozenset({"bi"})) == {"bi", "ti"}
    split = (var("lane") // 8 + var("bi") * 4, var("lane") % 8)
    assert determined(split, extents, frozenset()) == {"bi", "lane"}
    assert increasing(tile, "bi", extents, frozenset())
    assert increasing(var("bi") + var("M") * -2, "bi", extents, frozenset({"M"}))
    assert not increasing(var("bi") + var("M") * -2, "bi", extents, frozenset())
    assert not increasing(tile, "ti", extents, frozenset())
    assert increasing(tile, "ti", extents, frozenset({"bi"}))
