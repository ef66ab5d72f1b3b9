"""Reductions in parts compute what the kernel says, to the index of the first of equals."""

import numpy as np
import pytest

from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.interpreter import reference, run
from tilegen.ir.walk import stmts
from tilegen.lowering import lower
from tilegen.proof import prove

STEPS = {
    "contiguous": "tile({k}, 5) -> kp, ki\n    rfactor({t}, kp) -> part",
    "strided": "tile({k}, 4) -> ko, kp\n    rfactor({t}, kp) -> part",
    "in threads": """tile({k}, 4) -> ko, kp
    rfactor({t}, kp, layout=[i, kp]) -> part
    fuse({i}, {t}.i) -> i
    order(i, kp, ko)
    bind(i, block.x)
    bind(kp, thread.x)
    cache_shared(part, at=i)""",
    "two loops": """tile({k}, 8) -> ko, kr
    tile(kr, 2) -> km, kp
    rfactor({t}, [ko, kp]) -> part
    order(km, kp)""",
    "at": """tile({i}, 3) -> b, r
    tile({k}, 4) -> ko, kp
    rfactor({t}, kp, at=b) -> part
    order(b, r, kp, ko)
    bind(b, block.x)""",
    "twice": """tile({k}, 4) -> ko, kp
    tile(ko, 3) -> kb, kc
    rfactor({t}, kp) -> part
    rfactor(part, kb) -> piece
    tile({t}.i, 8) -> b, t
    bind(b, block.x)
    bind(t, thread.x)""",
}


def schedule_line(reduce, steps):
    arg = reduce.startswith("arg")
    text = f"kernel line(X: f32[N, K]) -> y: {'i32' if arg else 'f32'}[N]:\n"
    text += f"    y[i] = {reduce}[k](X[i, k]) for k <= i + 9\n"
    text += f"\nschedule s for line():\n    {steps.format(k='k', i='i', t='y')}\n"
    if arg and "cache_shared" in steps:
        text += "    cache_shared(part.best, at=i)\n"
    return tree_from(text)


@pytest.mark.parametrize("how", sorted(STEPS))
@pytest.mark.parametrize("reduce", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_parts_compute_the_reduction(reduce, how):
    tree = schedule_line(reduce, STEPS[how])
    for n, k in ((1, 1), (3, 17), (4, 40)):
        x = np.random.default_rng(k).integers(-2, 3, (n, k)).astype(np.float32)
        sizes, arrays = {"N": n, "K": k}, {"X": x}
        expected = reference(tree.kernel, sizes, arrays)["y"]
        assert np.array_equal(run(tree, sizes, arrays)["y"], expected.value)
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_the_first_of_equals_wins_whatever_part_it_is_in():
    """In strided parts, part 0 meets index 4 and part 1 index 1: the parts come in the wrong order."""
    tree = schedule_line("argmax", STEPS["strided"])
    x = np.zeros((1, 9), np.float32)
    x[0, [1, 4]] = 1
    assert run(tree, {"N": 1, "K": 9}, {"X": x})["y"] == [1]


def test_nothing_is_better_than_the_start():
    """Where no value is better than what a reduction starts with, the index is the start's, as without parts."""
    tree = schedule_line("argmax", STEPS["strided"])
    x = np.full((1, 9), -np.inf, np.float32)
    assert run(tree, {"N": 1, "K": 9}, {"X": x})["y"] == [0]


def test_the_text_lets_the_lower_index_of_equals_win():
    tree = schedule_line("argmax", STEPS["strided"])
    for language in ("cuda", "opencl"):
        assert "|| (candidate == y_best[i] && index < y[i])" in emit(lower(tree), language)


def test_what_combines_parts_may_come_in_any_order():
    steps = STEPS["strided"] + "\n    tile(y.kp, 2) -> a, b\n    reassociate(y)\n    order(b, a)"
    tree = schedule_line("argmin", steps)
    x = np.random.default_rng(0).integers(-1, 2, (5, 23)).astype(np.float32)
    assert np.array_equal(
        run(tree, {"N": 5, "K": 23}, {"X": x})["y"], reference(tree.kernel, {"N": 5, "K": 23}, {"X": x})["y"].value
    )


def test_what_uses_the_result_follows_where_parts_are_combined():
    """The loop over rows `r` is divided: all parts, then what combines them, then what uses that."""
    text = """kernel centre(X: f32[M, N]) -> Y: f32[M, N]:
    var m: f32[M]
    m[i] = sum[j](X[i, j])
    Y[i, j] = X[i, j] - m[i]

schedule s for centre():
    reassociate(m)
    fuse(m.i, Y.i) -> i
    rename(m.j, Y.j) -> j
    tile(i, 3) -> b, r
    share_block(j, 2) -> c, w, l, v
    order(b, r, w, l, c, v)
    reduce_block(m, b, w, l) -> warps, lanes
    bind_warps(b, w, l)
"""
    tree = tree_from(text)
    (block,) = tree.body
    assert [{s.name for s in stmts(row)} & {"lanes", "warps", "m", "Y"} for row in block.body if row.name == "r"] == [
        {"lanes"},
        {"warps"},
        {"m"},
        {"Y"},
    ]
    assert emit(lower(tree), "cuda").count("__syncthreads();") == 1
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"
