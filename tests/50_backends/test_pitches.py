"""Arrays whose rows are apart: calls take them, by versions of the text in which that distance is a size."""

from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.cover import first
from tests.support.driver import Card, Driver, cupy_array
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.stock import schedule_stock
from tilegen.backends.calls.device_program import Program
from tilegen.backends.compiler import nvrtc
from tilegen.backends.text import emit
from tilegen.errors import ArgumentError
from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition
from tilegen.lowering import lower
from tilegen.lowering.integers.pitches import with_pitches
from tilegen.proof import prove

VERSIONS = ({}, {"vector": False}, {"whole": True}, {"wide": True})


def load(text):
    """The kernel of `text`, a thread for each row."""
    return tilegen.load(
        text + "\nschedule rows for k():\n    tile(i, 32) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n"
    )


def gapped(shape, before, behind, dtype=np.float32):
    """(an array with so many elements beside each of its rows, all of the memory)."""
    *outer, row = shape
    memory = np.random.default_rng(0).integers(-8, 9, (*outer, before + row + behind)).astype(dtype)
    return memory[..., before : before + row], memory


def gaps_of(memory, array, before):
    return np.delete(memory, range(before, before + array.shape[-1]), -1)


# -- calls


@pytest.mark.pocl
@pytest.mark.parametrize(("schedule", "parameters"), [("tiled", {"TS": 8}), ("across", {})])
@pytest.mark.parametrize("n", first([47, 48]))
def test_a_product_of_slices(schedule, parameters, n):
    multiply = tilegen.load("gemm").schedule(schedule, **parameters).compile("cpu")
    (a, _), (b, _), (c, memory) = gapped((40, 64), 4, 12), gapped((64, n), 0, 5), gapped((40, n), 8, 8)
    before = gaps_of(memory, c, 8).copy()
    assert multiply(a, b, C=c) is c
    np.testing.assert_array_equal(c, a @ b)
    np.testing.assert_array_equal(gaps_of(memory, c, 8), before)
    np.testing.assert_array_equal(multiply(a, b.copy()), a @ b)
    np.testing.assert_array_equal(multiply(a.copy(), b.copy()), a @ b)


@pytest.mark.pocl
@pytest.mark.parametrize(("behind", "scalarized"), [(4, False), (3, True)])
def test_vectors_need_a_pitch_that_keeps_them_aligned(behind, scalarized):
    multiply = tilegen.load("gemm").schedule("across").compile("cpu")
    memory = np.ones(64 * (48 + behind) + 4, np.float32)
    start = -(memory.ctypes.data // 4) % 4
    b = memory[start : start + 64 * (48 + behind)].reshape(64, -1)[:, :48]
    np.testing.assert_array_equal(multiply(np.ones((32, 64), np.float32), b), np.full((32, 48), 64))
    (version,) = [version for version, _ in multiply._entries]
    assert version.pitched == {"B"}
    assert bool(version.scalarized) == scalarized
    assert not version.wide


@pytest.mark.pocl
def test_three_dimensions_and_an_order_of_their_own():
    text = "kernel k(X: f32[Z, I, K]) -> Y: f32[Z, I, K], C: f32[I, K] col_major:\n    Y[z, i, k] = X[z, i, k] + 1\n"
    text += "    C[i, k] = sum[z](X[z, i, k])\n"
    run = tilegen.load(text).kernel().schedule().compile("cpu")
    (x, _), (y, memory) = gapped((3, 5, 7), 1, 2), gapped((3, 5, 7), 2, 4)
    columns, around = gapped((7, 5), 3, 1)
    outside = gaps_of(memory, y, 2).copy(), gaps_of(around, columns, 3).copy()
    run(x, Y=y, C=columns.T)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(columns.T, x.sum(0))
    np.testing.assert_array_equal(gaps_of(memory, y, 2), outside[0])
    np.testing.assert_array_equal(gaps_of(around, columns, 3), outside[1])
    assert np.shares_memory(run(x[:, 2:3], Y=y[:, 2:3])[0], y)
    with pytest.raises(ArgumentError, match="X is not contiguous row-major"):
        run(x[:, :2])


@pytest.mark.pocl
@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_what_is_updated_in_place_keeps_its_gaps(device):
    text = "kernel k(C: f32[I, J], x: f32[J]) -> C: f32[I, J]:\n    C[i, j] = 2 * C[i, j] + x[j]\n"
    update = load(text).schedule("rows").compile(device)
    (c, memory), x = gapped((9, 6), 2, 3), np.arange(6, dtype=np.float32)
    outside, expected = gaps_of(memory, c, 2).copy(), 2 * c + x
    assert update(c, x) is c
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(gaps_of(memory, c, 2), outside)


@pytest.mark.pocl
def test_a_prepared_call_keeps_the_pitch():
    run = load("kernel k(A: f32[I, J]) -> C: f32[I, J]:\n    C[i, j] = A[i, j] + 1\n").schedule("rows").compile("cpu")
    (a, memory), other = gapped((9, 6), 2, 3), np.ones((9, 6), np.float32)
    launch = run.prepare(a)
    memory += 1
    np.testing.assert_array_equal(launch(), a + 1)
    np.testing.assert_array_equal(run(other), other + 1)
    for rows in (memory[:, :6], memory[::2, :6], memory[:, 5:]):
        np.testing.assert_array_equal(run(rows), rows + 1)


@pytest.mark.pocl
def test_rows_side_by_side_share_no_memory():
    add = load("kernel k(A: f32[I, J]) -> C: f32[I, J]:\n    C[i, j] = A[i, j] + 1\n").schedule("rows").compile("cpu")
    memory = np.zeros((6, 16), np.float32)
    add(memory[:, :4], C=memory[:, 4:8])
    add(memory[:, 4:8], C=memory[:, :4])
    add(memory[1:, 4:8], C=memory[:-1, 8:12])
    np.testing.assert_array_equal(memory[0], [2] * 4 + [1] * 4 + [2] * 4 + [0] * 4)
    wide = memory.reshape(3, 32)
    for a, c in (
        (memory[:, :5], memory[:, 4:9]),
        (memory[:, 4:9], memory[:, :5]),
        (memory[:3, :4], wide[:, 4:8]),
        (memory[1:, 12:], memory[:-1, 12:]),
        (memory[:, :4], memory[:, :4]),
    ):
        with pytest.raises(ArgumentError, match="C and A share memory"):
            add(a, C=c)
    first = memory.reshape(-1)[:12].reshape(3, 4)
    with pytest.raises(ArgumentError, match="C and A share memory"):
        add(first, C=memory[:3, 4:8])


@pytest.mark.pocl
def test_a_long_pitch_takes_integers_of_64_bits():
    copy = load("kernel k(A: i8[I, J]) -> C: i8[I, J]:\n    C[i, j] = A[i, j]\n").schedule("rows").compile("cpu")
    pitch = 2**30
    memory = np.empty(pitch + 8, np.int8)  # whose pages are there when they are touched
    a = np.lib.stride_tricks.as_strided(memory, (2, 5), (pitch, 1))
    a[:] = np.arange(10).reshape(2, 5)
    np.testing.assert_array_equal(copy(a), np.arange(10).reshape(2, 5))
    copy(a[:1])
    assert {(version.wide, *version.pitched) for version, _ in copy._entries} == {(True, "A"), (False,)}


def test_a_launch_is_given_the_pitch(monkeypatch):
    driver = Driver(monkeypatch)
    text = "kernel k(A: f32[I, J]) -> C: f32[I, J]:\n    C[i, j] = A[i, j]\n"
    copy = Program(load(text).schedule("rows").tree, Card())
    for strides, numbers in (((32, 4), [4, 8, 12]), ((64, 4), [4, 8, 16, 12]), ((48, 4), [4, 8, 12, 12])):
        out = cupy_array((4, 8), 2**41, strides=(48, 4))
        copy(cupy_array((4, 8), strides=strides), C=out)
        given = [int.from_bytes(each, "little") for each in driver.launches[-1]["arguments"]]
        assert given == [2**40, 2**41, *numbers]
    assert len(copy.engine.builds) == 2


# -- texts


def pitched(name, schedule, *tensors, parameters=()):
    return with_pitches(schedule_stock(name, schedule, (), parameters).tree, tensors)


def verdict(tree, launches):
    return prove(tree.kernel, launches, tree.reassociated).verdict


def test_the_text_is_as_reviewed(golden):
    golden(emit(lower(pitched("gemm", "tiled", "A", "C"))), "gemm_tiled_pitched.cu")


@pytest.mark.parametrize(
    ("name", "schedule", "tensors"),
    [("gemm", "registers", "AC"), ("gemm_split", "atomic", "AB"), ("conv2d", "tiled", "XY"), ("syrk", "tiled", "AC")],
)
def test_versions_are_proved_and_read_back(name, schedule, tensors):
    tree = pitched(name, schedule, *tensors)
    for version in VERSIONS:
        launches = lower(tree, **version)
        assert verdict(tree, launches) == "proved"
        assert difference(emit(launches), launches, "cuda") is None


@pytest.mark.parametrize("language", ["cuda", "opencl"])
def test_a_row_in_place_of_the_pitch_is_told_in_the_text(language):
    launches = lower(pitched("gemm", "tiled", "A", "B"))
    text = emit(launches, language)
    assert difference(text, launches, language) is None
    for old, new in (("* A_pitch", "* K"), ("* B_pitch", "* N"), ("* B_pitch", "* A_pitch")):
        assert old in text
        assert difference(text.replace(old, new, 1), launches, language) is not None


# -- proofs


def without_a_pitch(launch, *names):
    """The launch with the rows of these tensors one after another."""

    def dense(buffer):
        return replace(buffer, pitch=None) if buffer.name in names else buffer

    buffers = {name: dense(buffer) for name, buffer in launch.buffers.items()}
    return replace(launch, buffers=buffers, memory=tuple(map(dense, launch.memory)))


def test_rows_that_are_taken_for_dense_are_refused():
    tree = pitched("gemm", "tiled", "A", "B")
    (launch,) = lower(tree)
    assert verdict(tree, (launch,)) == "proved"
    assert verdict(tree, (without_a_pitch(launch, "A"),)) == "refused: limits"
    swapped = replace(launch.buffers["A"], pitch=var("B.pitch"))
    assert verdict(tree, (replace(launch, buffers={**launch.buffers, "A": swapped}),)) == "refused: limits"
    other = pitched("gemm", "tiled", "A")
    assert verdict(other, (launch,)) == "refused: limits"


def test_rows_that_may_overlap_are_refused():
    tree = pitched("gemm", "tiled", "A")
    unbounded = replace(tree.kernel, assumptions=())
    (launch,) = lower(tree)
    assert prove(unbounded, (replace(launch, kernel=unbounded),)).verdict == "refused: limits"


def test_vectors_are_aligned_by_the_pitch_and_not_by_the_row():
    tree = pitched("gemm", "across", "B")
    (launch,) = lower(tree)
    needed = Condition(var("B.pitch") % 4, equal=True)
    assert needed in launch.requires
    others = tuple(c for c in launch.requires if c != needed)
    row = Condition(var("N") % 4, equal=True)
    assert verdict(tree, (replace(launch, requires=(*others, row)),)) == "refused: vectors"


def test_what_is_proved_runs_and_needs_its_alignment():
    """Run on symbolic values, where each vector has to be at a multiple of its width."""
    tree = pitched("transpose", "vectors", "X", "Y")
    sizes = {"M": 36, "N": 40, "X.pitch": 44, "Y.pitch": 48}
    assert faults(lower(tree), tree, sizes) is None
    assert faults(lower(tree), tree, {**sizes, "X.pitch": 45}) == "misaligned"
    assert faults(lower(tree, vector=False), tree, {**sizes, "X.pitch": 45, "Y.pitch": 37}) is None


def test_a_tensor_map_without_the_pitch_is_refused():
    tree = pitched("hgemm", "ping_pong", "A")
    (launch,) = lower(tree)
    assert verdict(tree, (launch,)) == "proved"
    dense = tuple(replace(each, pitch=None) for each in launch.maps)
    assert verdict(tree, (replace(launch, maps=dense),)) == "refused: text"
    others = tuple(c for c in launch.requires if "A.pitch" not in c.value.names())
    assert verdict(tree, (replace(launch, requires=others),)) == "refused: vectors"


@pytest.mark.nvrtc
def test_a_product_with_pitched_tensor_maps_compiles():
    launches = lower(pitched("hgemm", "ping_pong", "A", "B", "C"))
    text = emit(launches)
    for name, extents in (("A", "(K, M)"), ("B", "(N, K)"), ("C", "(N, M)")):
        assert f"// {name}_map describes {name}: BFLOAT16, dimensions {extents}, strides (2*{name}.pitch)" in text
    assert nvrtc.compile_text(text, "sm_90a").cubin
