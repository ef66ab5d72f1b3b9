"""Random schedules of random kernels: whatever the judge accepts computes the kernel, exactly."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.support.cover import first
from tests.support.generators.case import one_case
from tests.support.generators.prefixes import scan_recipe
from tests.support.generators.run import chunk_of
from tests.support.generators.steps import WORDS
from tests.support.written import built, stepped
from tilegen.backends.devices.opencl import unavailable_reason
from tilegen.primitives import registry

CHUNKS, CASES = 10, 100  # of the fixed cases that every test run does
TEST_SEED = 20261121


@pytest.mark.parametrize("chunk", first(range(CHUNKS), long=2))
def test_fixed_cases(chunk):
    counts, failures, careful, _ = chunk_of((TEST_SEED, range(chunk * CASES, (chunk + 1) * CASES), 0.0, "any"))
    assert not failures, failures[0]
    assert len(careful) + counts["unproved"] <= CASES // 20, careful


@pytest.mark.parametrize("cases", first([range(4), range(4, 8), range(8, 16)]), ids=str)
def test_fixed_products(cases):
    """By tensor cores; PoCL runs what the instructions mean."""
    share = 0.3 if unavailable_reason() is None else 0.0
    counts, failures, careful, _ = chunk_of((TEST_SEED, cases, share, "tensors"))
    assert not failures, failures[0]
    assert len(careful) <= 1, careful
    assert counts["with instructions"] >= len(cases) // 4


@pytest.mark.long
def test_fixed_reductions_of_products():
    counts, failures, careful, _ = chunk_of((TEST_SEED, range(20, 25), 0.0, "reductions"))
    assert not failures, failures[0]
    assert not careful, careful
    assert counts["reduced in lanes"] >= 3


def test_fixed_recurrences():
    """Along one loop or two, up or down; those that are made of themselves are refused."""
    counts, failures, careful, _ = chunk_of((TEST_SEED, range(30), 0.0, "recurrences"))
    assert not failures, failures[0]
    assert not careful, careful
    assert counts["accepted"] > 50
    assert counts["kernels refused: circular"] >= 2


def test_a_recipe_goes_on_where_a_step_in_between_joins_launches():
    sums = built("kernel sums(x: i32[N]) -> y: i32[N]:\n    y[i] = sum[k <= i](x[k])\n")
    two = built("kernel two(x: i32[N]) -> y: i32[N]:\n    var t: i32[N]\n    t[i] = x[i]\n    y[i] = t[i]\n")
    (joined,) = stepped(two, "fuse(t.i, y.i) -> i")
    recipe = scan_recipe(lambda options: options[0], sums, [2])
    step = next(recipe)
    while "-> c1" not in step:
        step = recipe.send(two)
    with pytest.raises(StopIteration):
        recipe.send(joined)


def test_every_step_is_drawn():
    of_its_own = {"scatter", "rank"}  # test_random_scatters.py and test_random_lists.py draw them
    of_its_own |= {"split_best", "anchor"}  # for forms of kernels: test_best_of_tiles.py, test_random_ragged.py
    of_its_own |= {"flatten", "windows"}  # the first steps: test_random_flat.py
    assert registry().keys() <= {*WORDS, *of_its_own}


@pytest.mark.pocl
@pytest.mark.parametrize("chunk", first(range(4)))
def test_some_cases_on_the_cpu(chunk):
    counts, failures, *_ = chunk_of((TEST_SEED + 1, range(chunk * 20, (chunk + 1) * 20), 1.0, "any"))
    assert not failures, failures[0]
    assert counts["on a device"] > 14


@pytest.mark.long
@seed(TEST_SEED)
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_drawn_cases(data):
    """Fewer cases, which hypothesis makes small where one fails."""
    one_case(lambda options: data.draw(st.sampled_from(options)))
