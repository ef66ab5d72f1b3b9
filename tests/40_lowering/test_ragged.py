"""Loops whose ends data give: what is printed, what runs, what is refused, and which faults are seen."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.mutants import ragged_faults
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.errors import ArgumentError
from tilegen.interpreter import reference
from tilegen.ir.affine import var
from tilegen.ir.nodes import Const, Op
from tilegen.ir.walk import rewrite
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If, Perform
from tilegen.proof import prove

SUMS = """
kernel sums(x: f32[N], start: i32[M + 1]) -> y: f32[M] where rising(start, N):
    y[i] = sum[j in start[i]..start[i + 1]](x[j])

schedule s for sums():
"""
THREADS = SUMS + "    blocks(i, 4) -> b, t\n    cache_register(y, at=t)\n"
LANES = """\
    reassociate(y)
    tile(i, 2) -> b, w
    tile(j, 4) -> c, l
    order(b, w, l, c)
    reduce_warp(y, w, l) -> part
    bind_warps(b, w, l)
"""
VECTORS = """\
    reassociate(y)
    tile(i, 2) -> b, w
    share_warp(j, 4) -> c, l, v
    order(b, w, l, c, v)
    reduce_warp(y, w, l) -> part
    bind_warps(b, w, l)
    cache_register(x, at=c, vector=4)
"""
TEXTS = {"threads": THREADS, "lanes": SUMS + LANES, "vectors": SUMS + VECTORS}
PLAIN = {name: text.replace(" where rising(start, N)", "") for name, text in TEXTS.items()}
VERSIONS = ({}, {"vector": False}, {"wide": True}, {"whole": True})


def ragged(launches):
    return [node for launch in launches for node in launch.nodes if isinstance(node, For) and node.kind == "ragged"]


@pytest.mark.parametrize("text", [*TEXTS.values(), *(t.replace("i32", "i64") for t in PLAIN.values())])
def test_it_is_proved_and_read_back(text):
    tree = tree_from(text)
    for version in VERSIONS:
        launches = lower(tree, **version)
        assert ragged(launches)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None


BLOCKS = """
kernel blocks(W: bf16[N, 16, 16], start: i32[M + 1], X: bf16[N, 16, 8]) -> Y: f32[M, 16, 8] where rising(start, N):
    var T: f32[N, 16, 8]
    T[e, r, f] = sum[c](f32(W[e, r, c]) * f32(X[e, c, f]))
    Y[i, r, f] = sum[e in start[i]..start[i + 1]](T[e, r, f])

schedule s for blocks():
    tile(i, 2) -> bi, wi
    order(bi, wi, Y.e, Y.r, Y.f)
    bind(bi, block.x)
    compute_at(T, at=Y.e)
    order(T.c, T.r, T.f)
    cache_register(Y, at=wi)
    cache_register(T, at=Y.e)
    cache_register(W, at=Y.e)
    cache_register(X, at=Y.e)
    tensorize(T.r, T.f, T.c, by=mma_m16n8k16_bf16)
"""


def test_a_warp_multiplies_between_ends_that_are_the_same_for_its_lanes():
    tree = tree_from(BLOCKS)
    launches = lower(tree)
    assert [node.name for node in ragged(launches)] == ["Y.e"]
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    assert faults(launches, tree, {"N": 5, "M": 3}) is None
    (launch,) = launches

    def change(node):
        if not isinstance(node, For) or not node.ends:
            return node
        end = replace(node.ends.end, value=replace(node.ends.end.value, index=(var("lane"),)))
        return replace(node, ends=replace(node.ends, end=end))

    proof = prove(tree.kernel, (replace(launch, body=rewrite(launch.body, change)),), tree.reassociated)
    assert "its lanes come to it one without the other" in proof.violation.violation.sentence


def test_warps_multiply_between_ends_of_their_own_where_they_do_not_wait_for_others():
    tree = tree_from(BLOCKS.replace("bind(bi, block.x)", "bind(bi, block.x)\n    bind(wi, thread.y)"))
    launches = lower(tree)
    assert [node.name for node in ragged(launches)] == ["Y.e"]
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    assert faults(launches, tree, {"N": 5, "M": 3}) is None


PICKED = """
kernel blocks(W: bf16[N, 16, 16], column: i32[N], start: i32[M + 1], X: bf16[20, 16, 8]) -> Y: f32[M, 16, 8]
where rising(start, N):
    Y[i, r, f] = sum[e in start[i]..start[i + 1], k in column[e] % 20..column[e] % 20 + 1, c](
        f32(W[e, r, c]) * f32(X[k, c, f]))

schedule s for blocks():
    tile(i, 2) -> bi, wi
    order(bi, wi, e, k, c, r, f)
    bind(bi, block.x)
    cache_register(Y, at=wi)
    cache_register(W, at=e)
    cache_register(X, at=k)
    tensorize(r, f, c, by=mma_m16n8k16_bf16)
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_product_adds_where_a_test_holds_for_all_of_it(version):
    tree = tree_from(PICKED)
    launches = lower(tree, **version)
    assert {node.name for node in ragged(launches)} == {"e", "k"}
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    text = emit(launches)
    assert difference(text, launches, "cuda") is None
    assert "const int k = floor_mod(column[e], 20);" in text or "wide" in version


@pytest.mark.parametrize("left", [0, 1])
def test_a_product_without_its_test_is_refused(left):
    tree = tree_from(PICKED)

    def change(value):
        if isinstance(value, Perform) and value.where:
            return replace(value, where=value.where.args[left] if value.where.name == "and" else None)
        return value

    launches = lower(tree)
    assert any(isinstance(node, Perform) and node.where for each in launches for node in each.nodes)
    changed = tuple(replace(each, body=rewrite(each.body, change)) for each in launches)
    assert prove(tree.kernel, changed, tree.reassociated).verdict == "refused: values"


def test_a_promise_makes_the_ends_plain():
    text = emit(lower(tree_from(THREADS)))
    assert (
        "for (int j = start[b * 4 + t], j_end = start[b * 4 + t + 1]; j < j_end; ++j)\n            y_reg += x[j];"
        in text
    )
    assert "// needs start rising from 0 to N" in text
    text = emit(lower(tree_from(SUMS + LANES)))
    ends = "c = (start[b * 2 + w] - l + 3) / 4, c_end = (start[b * 2 + w + 1] - l + 3) / 4"
    assert f"for (int {ends}; c < c_end; ++c)" in text
    assert "iteration_at" not in text


def test_without_it_they_are_held_inside():
    text = emit(lower(tree_from(PLAIN["threads"])))
    assert "j_end = iteration_at(start[b * 4 + t + 1], 0, 1, N)" in text
    assert not ragged(lower(tree_from(PLAIN["threads"]), wide=True))  # data of 32 bits beside indices of 64


def by_hand(x, start):
    low, high = np.clip(start[:-1], 0, len(x)), np.clip(start[1:], 0, len(x))
    return np.array([x[a:b].sum() if a < b else 0 for a, b in zip(low, high, strict=True)], x.dtype)


WILD = [[0, 0, 0], [0, 9, 9, 9], [9, 0, 5, 2, 9, 1, 4], [-7, 3, 90, 2], [2**31 - 1, -(2**31), 2**31 - 1, 4], [3, 8]]


@pytest.mark.pocl
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("length", [1, 9, 64])
def test_any_ends_do(name, length):
    x = np.arange(1, length + 1, dtype=np.float32)
    program = tilegen.load(PLAIN[name]).schedule("s").compile("cpu")
    for start in WILD:
        start = np.array(start, np.int32)
        assert np.array_equal(program(x, start), by_hand(x, start))
        found = reference(tree_from(PLAIN[name]).kernel, {"N": length, "M": len(start) - 1}, {"x": x, "start": start})
        assert np.array_equal(found["y"].value, by_hand(x, start))
    start = np.array([0, 0, length // 2, length // 2, length, length], np.int32)
    program = tilegen.load(TEXTS[name]).schedule("s").compile("cpu")
    assert np.array_equal(program(x, start), by_hand(x, start))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ([0, 4, 3, 9], "'start' falls from 4 to 3 at 2, and is to rise"),
        ([0, 4, 4, 10], "'start' goes from 0 to 10, and is to go from 0 to N = 9"),
        ([1, 4, 4, 9], "'start' goes from 1 to 9"),
    ],
)
def test_a_check_refuses_other_ends(start, message):
    arrays = {"x": np.zeros(9, np.float32), "start": np.array(start, np.int32)}
    with pytest.raises(ArgumentError, match=re.escape(message)):
        reference(tree_from(THREADS).kernel, {"N": 9, "M": 3}, arrays)


CHOICES = """
kernel k(x: i32[N], a: i32[M], b: i32[M], n: i32) -> y: i32[M], z: i32[M], top: i32[M], count: i32[1]:
    y[i] = sum[j](x[j] if a[i] < j and j <= b[i] else 0)
    z[i] = max[j in i..b[i]](x[j])
    top[i] = min[j in 0..n](x[j] + i)
    count[o] = sum[i, j in a[i]..b[i]](x[j])

schedule s for k():
    pass
"""


@pytest.mark.pocl
def test_other_ways_to_say_it():
    tree, rng = tree_from(CHOICES), np.random.default_rng(1)
    launches = lower(tree)
    assert len(ragged(launches)) == 4
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    program = tilegen.load(CHOICES).schedule("s").compile("cpu")
    for length in (3, 40):
        x, a, b = (rng.integers(-2, length + 3, n).astype(np.int32) for n in (length, 6, 6))
        results = program(x, a, b, 2)
        parts = [x[max(0, low + 1) : max(0, high + 1)] for low, high in zip(a, b, strict=True)]
        assert results[0].tolist() == [part.sum() for part in parts]
        assert results[1].tolist() == [x[i : max(0, high)].max(initial=-(2**31)) for i, high in enumerate(b)]
        assert results[2].tolist() == [x[:2].min() + i for i in range(6)]
        assert results[3] == sum(x[max(0, low) : max(0, high)].sum() for low, high in zip(a, b, strict=True))


def unneutral(value):
    """What does not run would have added 1."""
    match value:
        case Op("select", (test, one, Const(0, dtype))):
            return Op("select", (test, one, Const(1, dtype)), dtype)
    return value


def early_end(value):
    """The ends are read before the test that there is such a row."""
    match value:
        case If(test, body) if any(isinstance(node, For) for node in body):
            loops = (n for n in body if isinstance(n, For))
            return tuple(replace(loop, body=(If(test, loop.body),)) for loop in loops)
    return value


def unpromised(value):
    """An end is taken as it is, whatever that is."""
    if isinstance(value, For) and value.ends:
        ends = (replace(end, sure=True) for end in (value.ends.first, value.ends.end))
        return replace(value, ends=type(value.ends)(*ends))
    return value


@pytest.mark.parametrize("fault", [unneutral, early_end, unpromised])
def test_the_proof_refuses_faults(fault):
    tree = tree_from(PLAIN["threads"].replace("    cache_register(y, at=t)\n", ""))
    launches = lower(tree)
    faulty = tuple(replace(launch, body=rewrite(launch.body, fault)) for launch in launches)
    assert faulty != launches
    assert prove(tree.kernel, faulty, tree.reassociated).violation is not None


@pytest.mark.parametrize("fault", ragged_faults.FAULTS)
@pytest.mark.parametrize("name", TEXTS)
def test_the_proof_refuses_other_ends(name, fault):
    tree = tree_from(TEXTS[name])
    (launch,) = lower(tree)
    faulty = [*ragged_faults.FAULTS[fault](launch)]
    assert faulty
    for each in faulty:
        assert prove(tree.kernel, (each,), tree.reassociated).violation is not None


@pytest.mark.parametrize(
    ("pattern", "other"),
    [pair for pairs in ragged_faults.TEXT_FAULTS.values() for pair in pairs] + [(r"\+ 3\)", "+ 2)")],
)
def test_faults_in_the_text_are_read(pattern, other):
    launches = lower(tree_from(SUMS + LANES))
    changed = re.sub(pattern, other, text := emit(launches))
    assert changed != text
    assert difference(changed, launches, "cuda") is not None


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ("rising(start)", "rising(...) takes the name of an input and its last element"),
        ("rising(y, N)", "rising(...) takes the name of an input and its last element"),
        ("rising(x, N)", "'x' has no integers"),
        ("risen(start, N)", "'risen' is no promise"),
        ("rising(u, N)", "'u' is no row of at least two elements that could rise"),
    ],
)
def test_promises_are_of_rows(fact, message):
    with pytest.raises(tilegen.TilegenError, match=re.escape(message)):
        tree_from(THREADS.replace("rising(start, N)", fact).replace("x: f32", "u: i32[M], x: f32"))
