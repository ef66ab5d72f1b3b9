"""Random lists under random schedules: what the judge accepts keeps each hit once, in its order where there is one."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from tests.support.cover import first
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import built, stepped
from tilegen.backends.text import emit
from tilegen.errors import TilegenError
from tilegen.interpreter import reference, run
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.proof import prove

CASES = 24


def _kernel(pick):
    """(text, names of the loops that are reduced, those of the left side)."""
    word, rows = pick(["list", "unordered_list", "unordered_list"]), pick([False, True])
    test = pick(["X[{0}, x] > 0", "X[{0}, x] != 1 and x > 0", "X[{0}, x] * 2 - 1 > X[{0}, 0]", "X[{0}, x] > least"])
    around = pick(["", " for x >= 1", f" for {'r' if rows else 'y'} <= x"])
    item, last = pick([("X[{0}, x]", ""), ("({0}, x)", ", 2"), ("(X[{0}, 0], X[{0}, x] + 1, {0})", ", 3")])
    left, index = ("r, n[r]", "r") if rows else ("n[o]", "y")
    shape, reduced = ("H, C" if rows else "C"), ("x" if rows else "y, x")
    return (
        f"kernel random(X: i32[H, W], least: i32) -> at: i32[{shape}{last}], n: i32[{'H' if rows else '1'}]:\n"
        f"    at[{left}] = {word}[{reduced}]({item.format(index)} if {test.format(index)}){around}\n",
        ["x"] if rows else ["y", "x"],
        ["r"] if rows else ["o"],
    )


def _steps(pick, reduced, left):
    """Steps, of which some may be refused."""
    loop = pick(reduced)
    yield f"tile({loop}, {pick([2, 3, 4])}) -> a, v"
    names = [n for each in reduced for n in (["a", "v"] if each == loop else [each])]
    orders = [[*left, *names], [*names[:-1], *left, names[-1]], [*names, *left], names[::-1] + left]
    order = pick(orders)
    yield f"order({', '.join(order)})"
    at = order[order.index("v") - 1] if "v" in order[1:] else ""
    yield f"atomic(n, at={at})" if at and pick([True, False]) else "atomic(n)"
    for name, kind in zip(order, pick([("block.y", "block.x", "thread.x"), ("block.x", "thread.y"), ()]), strict=False):
        yield f"bind({name}, {kind})"
    if pick([True, False]):
        yield "unroll(v)"
    if pick([True, False, False]):
        yield f"cache_register(n, at={pick(order)})"


def _ranked_steps(pick, reduced, left):
    """Steps that store hits at their ranks, of which some may be refused."""
    names = ["rank"] if len(reduced) == 1 else ["rank", "local", "ahead"]
    yield f"rank(n) -> {', '.join(names)}"
    for name in names[1:] or names:
        way, size = pick(["scan", "split", "split along", "as it is"]), pick([2, 3, 4, 32])
        if way == "scan":
            yield f"scan({name}) -> {name}_run"
        if way.startswith("split"):
            yield f"split_scan({name}, {size}) -> {name}_total, {name}_part, {name}_front"
            yield f"scan({name}_front) -> {name}_run"
        if way == "split along":
            yield f"scan({name}_part, along={name}_total)"
    yield f"scan(n, along={names[-1]}_run)"
    yield f"cache_register({names[-1]}_run, at={names[-1]}.{left[0]})"
    yield f"bind(rank.{left[0]}, block.x)"
    yield f"tile({reduced[-1]}, {pick([2, 3, 32])}) -> a, v"
    for loop, kind in zip(pick([[*left, "v"], ["a", "v"], ["v"]]), ("block.x", "thread.x"), strict=False):
        yield f"bind({loop}, {kind})"


def _check_hits(tree, sizes, arrays):
    """The program, run in sequence, keeps what the reference does."""
    equation = tree.kernel.written_kernel.equations[0]
    expected = reference(tree.kernel, sizes, arrays)
    result = run(tree, sizes, arrays)
    assert (result["n"][expected["n"].written] == expected["n"].value[expected["n"].written]).all()
    at, wanted = result["at"], expected["at"]
    if equation.reduce == "list":
        assert (at[wanted.written] == wanted.value[wanted.written]).all()
    else:
        assert wanted.gap(at).max(initial=0) == 0


@pytest.mark.parametrize("number", first(range(CASES), 12))
def test_random_lists(number):
    rng, counts = random.Random(f"lists/{number}"), Counter()
    for _ in range(4):
        text, reduced, left = _kernel(rng.choice)
        tree = built(text)
        sizes = {"H": rng.choice([1, 3, 5]), "W": rng.choice([1, 4, 7]), "C": rng.choice([1, 3, 40])}
        sizes = {size: sizes[size] for size in tree.kernel.sizes}
        arrays = {
            "X": np.array([[rng.randrange(-2, 3) for _ in range(sizes["W"])] for _ in range(sizes["H"])], np.int32)
        }
        arrays["least"] = np.int32(rng.randrange(-3, 3))
        steps = rng.choice([_steps, _ranked_steps])
        for step in steps(rng.choice, reduced, left):
            try:
                (*_, new) = stepped(tree, step)
            except TilegenError:
                continue
            violation = judge(new)
            small = {**sizes, "H": 2, "W": 5, "C": 3}
            small = {size: small[size] for size in tree.kernel.sizes}
            if violation is None:
                tree = new
                counts["taken"] += 1
        _check_hits(tree, sizes, arrays)
        launches = lower(tree)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved", text
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None, text
        assert faults(launches, tree, small) is None, (text, str(tree))
    assert counts["taken"] >= 4
