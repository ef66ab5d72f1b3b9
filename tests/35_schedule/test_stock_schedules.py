"""Every stock schedule, step by step: judged, and each stage computes what the kernel says."""

from functools import partial
from itertools import pairwise, takewhile

import numpy as np
import pytest

from tests.support.cover import cover, each_stock_schedule
from tests.support.stock import LISTS, cases, find, lighter, modules, schedule_stock
from tests.support.stored import drawn
from tilegen.frontend.data import data_folder, stock_source
from tilegen.frontend.stock import stock_names
from tilegen.interpreter import reference, run
from tilegen.interpreter.dtypes import to_values

SHIPPED = data_folder("schedules")
# Small sizes that are no multiples of any tile, and sizes that are.
ODD = {
    "Z": 3,
    "A": 3,
    "M": 37,
    "N": 35,
    "K": 33,
    "B": 2,
    "C": 3,
    "H": 9,
    "W": 10,
    "F": 5,
    "G": 3,
    "D": 19,
    "P": 21,
    "CAP": 11,
}
EVEN = {
    "Z": 2,
    "A": 2,
    "M": 64,
    "N": 64,
    "K": 32,
    "B": 1,
    "C": 2,
    "H": 16,
    "W": 32,
    "F": 4,
    "G": 2,
    "D": 16,
    "P": 64,
    "CAP": 16,
}
# Of sizes, where tiles may start at each row: that takes the square of the rows, and the cube if keys are as many.
PARTS = {("grouped", "balanced"): {"M": 4, "K": 2}}
PARTS |= {("sequences", schedule): {"N": 2, "H": 4} for schedule in ("threads", "tiles")}


def inputs(kernel, sizes, seed=0):
    """Small integers, on which sums of products are exact; for the chain, where its roots and logarithms are real."""
    rng = np.random.default_rng(seed)
    draw = partial(rng.uniform, 0.1, 1.4) if kernel.name == "chain" else partial(rng.integers, 1, 5)
    return drawn(kernel, sizes, draw)


def _sized():
    """The cover at odd sizes; at even ones it is long, and the others nightly: PoCL runs them at both."""
    for case in cases():
        marks = () if case in cover() else pytest.mark.nightly
        yield pytest.param(*case, ODD, id=f"{'.'.join(case)}-odd", marks=marks)
        if case in cover():
            yield pytest.param(*case, EVEN, id=f"{'.'.join(case)}-even", marks=pytest.mark.long)


@pytest.mark.parametrize(("name", "schedule", "sizes"), list(_sized()))
def test_final_tree_computes_the_kernel(name, schedule, sizes):
    if name in LISTS:
        pytest.skip("lists in any order have tests/80_random/test_random_lists.py")
    result = lighter(name, schedule)
    kernel = result.kernel
    parts = PARTS.get((name, schedule), {})
    here = {size: sizes[size] // parts.get(size, 1) for size in kernel.sizes}
    arrays = inputs(kernel, here)
    got = run(result.tree, here, arrays)
    for output, expected in reference(kernel, here, arrays).items():
        off = np.abs(to_values(got[output], kernel.tensor(output).dtype) - expected.value)
        assert np.all(off[expected.written] <= expected.bound[expected.written]), output


@each_stock_schedule
def test_a_schedule_has_at_most_30_lines(name, schedule):
    """What is longer has parts that deserve a name, or that std.tg has one for."""
    span = find(name, schedule).span
    lines = span.source.text.splitlines()[span.line - 1 :]
    assert len(list(takewhile(lambda line: line.strip(), lines))) <= 30


def test_composite_steps_of_one_name_are_one():
    """The nets know all of them by name, and so do readers."""
    steps = [(d.word, d.parameters, [str(s) for s in d.steps]) for m in modules().values() for d in m.defines]
    assert all(one == two for one in steps for two in steps if one[0] == two[0])


def test_every_prefix_is_a_program():
    result = schedule_stock("gemm", "registers")
    sizes = {"M": 19, "N": 17, "K": 9}
    arrays = inputs(result.kernel, sizes)
    expected = arrays["A"] @ arrays["B"]
    for stage in result.stages:
        np.testing.assert_array_equal(run(stage.tree, sizes, arrays)["C"], expected)


@pytest.mark.parametrize("name", sorted(name for name in stock_names() if SHIPPED.joinpath(f"{name}.tg").is_file()))
def test_each_schedule_has_a_line_that_says_what_it_is(name):
    lines = ["", *stock_source("schedules", name).text.splitlines()]
    assert not [line for before, line in pairwise(lines) if line.startswith("schedule ") and before[:1] != "#"]
