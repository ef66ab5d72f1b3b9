"""Index arithmetic against plain integers, on random expressions."""

import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.ir.affine import Affine, const, product_of, var
from tilegen.ir.facts.ranges import follows, interval_of, least_value, simplify
from tilegen.ir.nodes import Condition

NAMES = ("i", "j", "k")
EXTENTS = {"i": 3, "j": 4, "k": 16}


def expressions():
    leaves = st.one_of(st.sampled_from(NAMES).map(var), st.integers(-20, 20).map(const))
    by = st.integers(1, 12)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda t: t[0] + t[1]),
            st.tuples(inner, inner).map(lambda t: t[0] - t[1]),
            st.tuples(inner, st.integers(-8, 8)).map(lambda t: t[0] * t[1]),
            st.tuples(inner, by).map(lambda t: t[0] // t[1]),
            st.tuples(inner, by).map(lambda t: t[0] % t[1]),
        ),
        max_leaves=8,
    )


POINTS = st.fixed_dictionaries({n: st.integers(0, EXTENTS[n] - 1) for n in NAMES})


@given(expressions(), expressions(), st.integers(1, 12), POINTS)
def test_operators_mean_what_python_means(a, b, by, point):
    x, y = a.evaluate(point), b.evaluate(point)
    assert (a + b).evaluate(point) == x + y
    assert (a - b).evaluate(point) == x - y
    assert (a // by).evaluate(point) == x // by
    assert (a % by).evaluate(point) == x % by
    assert a.ceildiv(by).evaluate(point) == -(-x // by)


@given(expressions(), expressions(), POINTS)
def test_substitution_commutes_with_evaluation(a, b, point):
    assert a.substitute({"i": b}).evaluate(point) == a.evaluate({**point, "i": b.evaluate(point)})


@given(expressions(), POINTS)
def test_simplify_keeps_the_value_within_the_extents(a, point):
    assert simplify(a, EXTENTS).evaluate(point) == a.evaluate(point)


@given(expressions(), POINTS)
def test_bounds_enclose_every_value(a, point):
    low, high = interval_of(a, EXTENTS)
    assert low <= a.evaluate(point) <= high


# Loops of constant extents, and of extents in a size.
LOOPS = {"i": const(3), "j": (var("n") + 3) // 4, "k": var("n") - 1}


@st.composite
def admitted_values(draw):
    n = draw(st.integers(2, 20))
    return {"n": n} | {name: draw(st.integers(0, extent.evaluate({"n": n}) - 1)) for name, extent in LOOPS.items()}


@given(expressions(), expressions(), st.integers(-3, 3), admitted_values())
def test_least_is_below_every_value(a, b, factor, point):
    value = a + b.substitute({"i": var("n")}) * factor
    low = least_value(value, LOOPS, ("n",))
    assert low is None or low <= value.evaluate(point)


@given(expressions(), st.integers(0, 9), expressions(), admitted_values())
def test_what_follows_holds_where_what_is_given_does(a, more, b, point):
    b = b.substitute({"k": var("n")})
    known = Condition(b + var("i") * 2)
    for value in (a, b + more, b - var("i") + more):
        if follows(Condition(value), (known,), LOOPS, ("n",)) and known.holds(point):
            assert value.evaluate(point) >= 0


def test_the_last_iteration_of_tiles_is_inside():
    i, j, n = var("i"), var("j"), var("n")
    assert least_value(n - j * 4, LOOPS, ("n",)) == 1
    assert least_value(n - j * 4, LOOPS, ()) is None
    assert follows(Condition(n - j * 4 - i - 1), (Condition(n - j * 4 - 3),), LOOPS, ("n",))
    assert not follows(Condition(n - j * 4 - i - 1), (Condition(n - j * 4 - 2),), LOOPS, ("n",))
    assert not follows(Condition(n - j * 4 - 1, equal=True), (), LOOPS, ("n",))


def test_equal_expressions_are_equal_values():
    i, j = var("i"), var("j")
    assert (i * 4 + j) + i == j + i * 5
    assert (i * 128 + j) // 64 == i * 2 + j // 64
    assert (i * 128 + j) % 64 == j % 64
    assert i % 64 % 128 == i % 64


def test_simplify_takes_a_tile_apart():
    thread = var("k") + var("j") * 16
    assert simplify(thread // 16, EXTENTS) == var("j")
    assert simplify(thread % 16, EXTENTS) == var("k")


def test_of_two_remainders_the_finer_one_is_enough():
    assert str(var("x") % 16 % 8) == "x%8"
    assert str(var("x") % 12 % 8) == "(x%12)%8"
    assert str((var("x") // 4) % 8 % 4) == "(x/4)%4"


def test_text_puts_large_factors_first():
    assert str(var("t") + var("b") * 128 - 1) == "b*128 + t - 1"
    assert str((var("t") + 3) // 4 + var("u") % 8) == "(t + 3)/4 + u%8"
    assert str(Affine()) == "0"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_sum_from_another_process_is_found_where_an_equal_one_is_kept(seed):
    """Names have other hashes in a process with another seed: none that a sum has worked out comes along."""
    there = "import sys, pickle; from tilegen.ir.affine import var; one = (var('i') * 4 + var('j')) // 8; hash(one)"
    send = f"{there}; one.names(); sys.stdout.buffer.write(pickle.dumps(one))"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    made = subprocess.run([sys.executable, "-c", send], env=environment, capture_output=True, check=True).stdout
    assert pickle.loads(made) in {(var("i") * 4 + var("j")) // 8}


def test_a_product_of_sizes_is_as_good_as_a_size():
    tiles = product_of([var("M"), const(2), var("N")]).ceildiv(16)
    assert str(tiles) == "(M*N + 7)/8"
    assert tiles.names() == {"M", "N"}
    assert tiles.symbols() == {"M*N"}
    assert tiles.evaluate({"M": 5, "N": 7}) == tiles.evaluate({"M*N": 35}) == 5
    assert eval(tiles.in_python("n_{}".format), {"n_M": 5, "n_N": 7}) == 5
    assert tiles.substitute({"M": const(3)}) == (var("N") * 6).ceildiv(16)
    assert tiles.substitute({"M": const(3), "N": const(4)}) == const(2)
    assert tiles.substitute({"N": var("n")}).names() == {"M", "n"}
    assert not product_of([var("M"), var("N")]).linear_in("M")
    assert product_of([var("M"), var("N")]).linear_in("M*N")
