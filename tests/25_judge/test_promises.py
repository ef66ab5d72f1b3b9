"""Promises of data: places that are different do not meet, whatever else they are."""

import re

import numpy as np
import pytest

import tilegen
from tests.support.reader.readback import difference
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import prove

PUT = """
kernel put(x: f32[N], p: {dtype}[N]) -> y: f32[M] where different(p):
    y[q] = sum[i](x[i] if {place} == q else 0)

schedule s for put():
"""
PLAIN = """\
    order(i, q)
    scatter(q)
    blocks(i, 4) -> b, t
"""
VECTORS = """\
    order(i, q)
    scatter(q)
    tile(i, 32) -> b, r
    tile(r, 16) -> c, t
    tile(t, 4) -> t, v
    order(b, t, c, v)
    cache_register(p, at=c, vector=4)
    unroll(v)
    bind(b, block.x)
    bind(t, thread.x)
"""
TILES = """\
    order(i, q)
    tile(q, 8) -> qo, q
    scatter(q)
    blocks(i, 4) -> b, t
"""
ROWS = """
kernel rows(x: f32[N, K], p: i64[N], r: i32[N, K]) -> y: f32[M, K], z: f32[M]
where N % 2 == 0, different(p), different(r):
    y[q, k] = sum[i](x[i, k] if p[i] == q + 1 else 0)
    z[s] = sum[n, m](x[n, m] if r[n, m] == s else 0)

schedule s for rows():
    order(i, q, k)
    scatter(q)
    tile(k, 4) -> c, l
    bind(i, block.x)
    bind(l, thread.x)
    order(n, m, s)
    scatter(s)
    bind(n, block.x)
    tile(m, 2) -> m, t
    bind(t, thread.x)
"""
TEXTS = {
    "plain": PUT.format(dtype="i32", place="p[i]") + PLAIN,
    "vectors": PUT.format(dtype="i32", place="p[i]") + VECTORS,
    "tiles": PUT.format(dtype="i64", place="p[i]") + TILES,
    "cast": PUT.format(dtype="u8", place="i32(p[i])") + PLAIN,
    "rows": ROWS,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_different_places_do_not_meet(text):
    tree = tree_from(text)
    for version in ({}, {"vector": False}, {"wide": True}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            printed = emit(launches, language)
            assert difference(printed, launches, language) is None
            assert "atomic" not in printed
            assert "barrier" not in printed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" where different(p)", ""),
        ("p[i] == q", "p[i] / 2 == q"),
        ("p[i] == q", "p[i // 2] == q"),
        ("p[i] == q", "p[0] == q"),
        ("p[i] == q", "u[i] == q"),
        ("scatter(q)", "unroll(q)"),
    ],
)
def test_others_may_meet(old, new):
    text = TEXTS["plain"].replace("p: i32[N]", "p: i32[N], u: i32[N]").replace("y: f32[M]", "y: f32[8]")
    tree_from(text)
    assert old in text
    with pytest.raises(tilegen.TilegenError, match=r"cannot run at once|p\[i\] / 2|no data pick"):
        tree_from(text.replace(old, new))


@pytest.mark.pocl
@pytest.mark.parametrize("name", ["plain", "vectors", "tiles"])
@pytest.mark.parametrize("count", [1, 7, 64])
def test_it_runs(name, count):
    rng = np.random.default_rng(count)
    p = (rng.permutation(count + 4) - 2)[:count].astype(np.int64 if name == "tiles" else np.int32)
    x, wanted = rng.standard_normal(count).astype(np.float32), np.zeros(count, np.float32)
    kept = (p >= 0) & (p < count)
    wanted[p[kept]] = x[kept]
    assert np.array_equal(tilegen.load(TEXTS[name]).schedule("s").compile("cpu")(x, p, M=count), wanted)


def test_a_check_refuses_equal_elements():
    from tilegen.errors import ArgumentError
    from tilegen.interpreter import reference

    kernel, p = tree_from(TEXTS["plain"]).kernel, np.array([0, 3, 3], np.int32)
    with pytest.raises(ArgumentError, match="'p' has equal elements, and 'put' is for different ones only"):
        reference(kernel, {"N": 3, "M": 4}, {"x": np.zeros(3, np.float32), "p": p})


def test_the_head_says_what_it_needs():
    assert re.search(r"// needs .*different elements of p", emit(lower(tree_from(TEXTS["plain"]))))


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ("equal(p)", "'equal' is no promise"),
        ("different(x)", "'x' has no integers"),
        ("different(y)", "takes the name of an input"),
        ("different(p, p)", "takes the name of an input"),
    ],
)
def test_promises_are_of_inputs(fact, message):
    with pytest.raises(tilegen.TilegenError, match=re.escape(message)):
        tree_from(TEXTS["plain"].replace("different(p)", fact))
