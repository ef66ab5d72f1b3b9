"""Atomic updates: what is emitted, that every net follows it, and that it sees faults in it."""

from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.cover import first
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults, verdict
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import rewrite, walk
from tilegen.lab.counts.sites import program_of
from tilegen.lowering import lower
from tilegen.lowering.launch.program import VectorStore
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof import prove

# The sum in parts, each added to the result by the nest that makes it.
ADDED = """\
    tile(k, 2) -> kp, k
    rfactor(C, kp) -> part
    reassociate(C)
    atomic(C)
    order(kp, i, j, k)
    order(C.kp, C.i, C.j)
    fuse(kp, C.kp) -> kp
    fuse(i, C.i) -> i
    fuse(j, C.j) -> j
"""
# Each block adds its part of the sum over k, which its threads have in registers.
SPLIT = (
    """
kernel split(A: {dtype}[M, K], B: {dtype}[K, N]) -> C: {dtype}[M, N]:
    C[i, j] = {reduce}[k](A[i, k] * B[k, j])

schedule s for split():
"""
    + ADDED
    + """\
    tile(j, 2) -> bj, tj
    order(kp, i, bj, tj)
    bind(kp, block.z)
    bind(i, block.y)
    bind(bj, block.x)
    bind(tj, thread.x)
    cache_register(part, at=bj)
"""
)
# Threads and blocks add every term by itself; no thread waits for another one.
TERMS = """
kernel terms(X: i32[M, K]) -> y: i32[M]:
    y[i] = sum[k](X[i, k])

schedule s for terms():
    reassociate(y)
    atomic(y)
    tile(k, 6) -> c, r
    tile(r, 3) -> r, t
    order(c, i, r, t)
    bind(c, block.x)
    bind(t, thread.x)
"""
# The lanes of a warp combine their terms, and the first of them adds what they come to.
LANES = """
kernel lanes(X: f32[M, K]) -> y: f32[M]:
    y[i] = sum[k](X[i, k])

schedule s for lanes():
    reassociate(y)
    atomic(y)
    tile(k, 4) -> c, l
    order(c, i, l)
    bind(c, block.x)
    bind(l, thread.x)
"""
# Nothing but threads: what starts the sum, what adds to it and what reads it is in one launch.
BLOCK = """
kernel block(X: f32[M, K]) -> z: f32[M]:
    var y: f32[M]
    y[i] = sum[k](X[i, k])
    z[i] = y[i] * 2.0

schedule s for block():
    reassociate(y)
    atomic(y)
    fuse(y.init.i, y.i, z.i) -> i
    tile(k, 3) -> c, t
    bind(i, block.x)
    bind(t, thread.x)
"""

# Neighbours go at once; the sizes decide whether they can.
WIDE = (
    """
kernel wide(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for wide():
"""
    + ADDED
    + """\
    tile(j, {width}) -> tj, v
    order(kp, i, tj, k, v)
    bind(kp, block.x)
    bind(i, block.y)
    cache_register(part, at=tj)
    rename(v, of=C) -> u
    vectorize(u)
"""
)
# The element that is added to lies in a copy of a copy.
COPIED = """
kernel copied(X: i32[M, K]) -> y: i32[M]:
    y[i] = sum[k](X[i, k])

schedule s for copied():
    reassociate(y)
    cache_shared(y, at=k)
    cache_register(y, at=i)
    atomic(y)
"""

TREES = {
    "split": tree_from(SPLIT.format(dtype="f32", reduce="sum")),
    "split, f64": tree_from(SPLIT.format(dtype="f64", reduce="sum")),
    "largest": tree_from(SPLIT.format(dtype="i32", reduce="max")),
    "terms": tree_from(TERMS),
    "lanes": tree_from(LANES),
    "block": tree_from(BLOCK),
    "wide": tree_from(WIDE.format(width=4)),
    "half as wide": tree_from(WIDE.format(width=2)),
    "copied": tree_from(COPIED),
}
CASES = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


def sizes_of(tree, size):
    return {name: size + n for n, name in enumerate(tree.kernel.sizes)}


def _holds(condition, sizes):
    value = condition.value.evaluate(sizes)
    return value == 0 if condition.equal else value >= 0


@pytest.mark.parametrize("tree", first(TREES.values(), 3), ids=TREES)
def test_every_net_follows_it(tree):
    for version in ({}, {"vector": False}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None
        for size in (1, 3, 6, 14):
            sizes = sizes_of(tree, size)
            assert verdict(tree, sizes) is None
            if all(_holds(c, sizes) for launch in launches for c in launch.requires):
                assert faults(launches, tree, sizes) is None


def test_the_text_says_it_in_one_word():
    assert "atomicAdd(&C[i * N + bj * 2 + tj], part_reg);" in emit(lower(TREES["split"]))
    assert "atomicMax(&C[i * N + bj * 2 + tj], part_reg);" in emit(lower(TREES["largest"]))
    assert "atomicAdd(&y[i], y_lanes);" in emit(lower(TREES["lanes"]))
    assert "atomic_add(&y[i], X[i * K + c * 6 + r * 3 + t]);" in emit(lower(TREES["terms"]), "opencl")
    assert "atomic_add_double(&C[i * N + bj * 2 + tj], part_reg);" in emit(lower(TREES["split, f64"]), "opencl")


def test_neighbours_go_at_once():
    (_, launch) = lower(TREES["wide"])
    assert {node.update for node in walk(launch.body) if isinstance(node, VectorStore)} == {"sum"}
    assert "atomic_add_float4(&C[i * N + tj * 4], C_vec);" in emit([launch])
    assert "atomic_add_float2(&C[i * N + tj * 2], C_vec);" in emit(lower(TREES["half as wide"]), "opencl")


def barriers(name):
    return [node.reason for launch in lower(TREES[name]) for node in walk(launch.body) if isinstance(node, Barrier)]


def test_updates_do_not_wait_for_each_other():
    assert barriers("terms") == []
    assert barriers("block") == ["y is complete: written above, read below"] * 2


def test_an_update_goes_to_memory_once():
    sites = [site for launch in lower(TREES["split"]) for site in program_of(launch).sites]
    assert [site.store for site in sites if site.buffer == "C"] == [True, True]


def plain(value):
    if isinstance(value, VectorStore):
        return replace(value, update="")
    return replace(value, atomic=False) if isinstance(value, Stmt) else value


def started_again(value):
    """The blocks start the sum, each in front of its update."""
    if not isinstance(value, Stmt) or not value.atomic:
        return value
    return replace(value, atomic=False, reduce=None), value


def twice(value):
    return (value, value) if isinstance(value, Stmt) and value.atomic else value


def another(value):
    """There is no such vector."""
    return replace(value, update="max") if isinstance(value, VectorStore) else value


FAULTS = [(name, fault) for name in ("split", "largest", "terms", "lanes") for fault in (plain, started_again, twice)]


@pytest.mark.parametrize(("name", "fault"), [*FAULTS, ("wide", plain), ("wide", another)])
def test_faults_are_seen(name, fault):
    tree = TREES[name]
    launches = tuple(replace(launch, body=rewrite(launch.body, fault)) for launch in lower(tree))
    assert prove(tree.kernel, launches, tree.reassociated).violation is not None
    sizes = sizes_of(tree, 8) if name != "wide" else {"M": 3, "K": 8, "N": 8}
    assert faults(launches, tree, sizes) == ("values" if fault is twice else "race")


def test_without_the_launch_that_starts_it_there_is_no_sum():
    tree = TREES["split"]
    launches = lower(tree)[1:]
    assert prove(tree.kernel, launches, tree.reassociated).violation is not None
    assert faults(launches, tree, sizes_of(tree, 3)) == "uninitialised"


@pytest.mark.pocl
@pytest.mark.parametrize(("dtype", "reduce"), [("f32", "sum"), ("f64", "sum"), ("i32", "sum"), ("i32", "min")])
def test_it_runs(dtype, reduce):
    file = tilegen.load(SPLIT.format(dtype=dtype, reduce=reduce))
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]
    a, b = (np.random.default_rng(n).integers(-4, 5, (9, 9)).astype(kind) for n in (1, 2))
    terms = a[:, :, None] * b[None]
    wanted = terms.sum(1) if reduce == "sum" else terms.min(1)
    assert np.array_equal(file.schedule("s").compile("cpu")(a, b), wanted)
