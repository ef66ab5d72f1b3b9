"""Arrays just below and beyond 2**31 elements: run on a GPU in both widths of integers, each result compared whole.

What is expected is computed by numpy's or cupy's own indexing, in slices. Without a GPU the same kernels run at small
sizes, in both widths, so that on a card nothing is new but the sizes.
"""

import fcntl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import pytest

from tilegen import load
from tilegen.backends.calls.arrays import GUARD_BYTES, NUMPY_NAME, guarded_array, shape_of
from tilegen.backends.calls.device_program import Program
from tilegen.backends.compiler.nvrtc import compile_text
from tilegen.backends.devices.devices import engine
from tilegen.backends.text import emit
from tilegen.frontend import data_folder
from tilegen.interpreter import run
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lowering import lower
from tilegen.lowering.integers import integers

SLICE = 2**26  # elements that are made or compared at once
SLACK = 8 * 2**30  # bytes: slices in 64 bits, and what other processes take meanwhile


@dataclass(frozen=True)
class Case:
    """A kernel with a schedule, sizes that 32 bits are enough for and such that they are not, and what is expected.

    `expected(xp, arrays, rows)` gives the rows of the output that the slice `rows` names, from inputs of `xp`.
    """

    text: str
    schedule: str
    small: Mapping[str, int]
    near: Mapping[str, int]
    large: Mapping[str, int]
    expected: Callable


def stock(name):
    return Path(str(data_folder("schedules")), f"{name}.tg").read_text()


def blocks_of(kernel, steps=""):
    threads = "    tile(i, 256) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n"
    return kernel + "\nschedule s for k():\n" + steps + threads


def double(xp, arrays, rows):
    return arrays["x"][rows] * 2


def scramble(xp, arrays, rows):
    return arrays["x"][rows] ^ 90


def every_other(xp, arrays, rows):
    x = arrays["x"]
    found = xp.full(rows.stop - rows.start, 7, xp.uint8)
    inside = x[2 * rows.start : 2 * rows.stop : 2]
    found[: len(inside)] = inside
    return found


def transpose(xp, arrays, rows):
    return arrays["X"][:, rows].T


def mirror(xp, arrays, rows):
    x = arrays["x"]
    return x[len(x) - rows.stop : len(x) - rows.start][::-1, ::-1]


def products(xp, arrays, rows):
    return arrays["x"][rows, None] * arrays["z"][None, :]


def total(xp, arrays, rows):
    x = arrays["x"]
    return xp.stack([sum(x[start : start + SLICE].sum(dtype=xp.int64) for start in range(0, len(x), SLICE))])


def row_sums(xp, arrays, rows):
    return arrays["x"][rows].sum(axis=1, dtype=xp.int64)


def looked_up(xp, arrays, rows):
    x, at = arrays["x"], arrays["at"][rows]
    inside = (at >= 0) & (at < len(x))
    return xp.where(inside, x[xp.where(inside, at, 0)], 9).astype(xp.uint8)


N = 2**31
VECTORS = "    tile(i, 8) -> i, v\n    vectorize(v)\n"
CASES = {
    "each element of u8": Case(
        blocks_of("kernel k(x: u8[N]) -> y: u8[N]:\n    y[i] = x[i] ^ 90\n"),
        "s", {"N": 1003}, {"N": N - 2**20 - 257}, {"N": N + 1003}, scramble,
    ),
    "vectors of f16": Case(
        blocks_of("kernel k(x: f16[N]) -> y: f16[N]:\n    y[i] = x[i] + x[i]\n", VECTORS),
        "s", {"N": 4096}, {"N": N - 2**20 - 4096}, {"N": N + 4096}, double,
    ),
    "vectors of f32 at a size that they do not divide": Case(
        blocks_of("kernel k(x: f32[N]) -> y: f32[N]:\n    y[i] = x[i] + x[i]\n", VECTORS.replace("8", "4")),
        "s", {"N": 1003}, {"N": N - 2**20 - 2049}, {"N": N + 1003}, double,
    ),
    "an index that passes the array": Case(
        blocks_of("kernel k(x: u8[N]) -> y: u8[N]:\n    y[i] = x[2*i] else 7\n"),
        "s", {"N": 1003}, {"N": N // 2 - 255}, {"N": N // 2 + 512}, every_other,
    ),
    "transposed through shared memory": Case(
        stock("transpose").replace("f32[", "i8["),
        "vectors", {"M": 131, "N": 70}, {"M": 40_000, "N": 53_000}, {"M": 46_340, "N": 46_372}, transpose,
    ),
    "mirrored in both dimensions": Case(
        "kernel k(x: u8[M, N]) -> y: u8[M, N]:\n    y[i, j] = x[M - 1 - i, N - 1 - j]\n"
        "\nschedule s for k():\n    tile(j, 256) -> c, t\n    order(c, i, t)\n    tile(i, 64) -> b, i\n"
        "    order(b, c, i, t)\n"
        "    bind(b, block.x)\n    bind(c, block.y)\n    bind(t, thread.x)\n",
        "s", {"M": 61, "N": 75}, {"M": 700_000, "N": 3_000}, {"M": 3_000, "N": 800_000}, mirror,
    ),
    "products of two vectors": Case(
        "kernel k(x: f16[M], z: f16[N]) -> y: f16[M, N]:\n    y[i, j] = x[i] * z[j]\n"
        "\nschedule s for k():\n    tile(i, 64) -> bi, ti\n    tile(j, 256) -> bj, tj\n    order(bi, bj, ti, tj)\n"
        "    bind(bi, block.y)\n    bind(bj, block.x)\n    bind(tj, thread.x)\n    cache_shared(x, at=bj)\n",
        "s", {"M": 70, "N": 300}, {"M": 46_300, "N": 46_300}, {"M": 46_400, "N": 46_400}, products,
    ),
    "the sum of all": Case(
        stock("total").replace("x: f32", "x: u8").replace("y: f32", "y: i64").replace("(x[j])", "(i64(x[j]))"),
        "two_launches", {"N": 70_001}, {"N": N - 2**20 - 65536}, {"N": N + 1003}, total,
    ),
    "the sum of each long row": Case(
        "kernel k(x: u8[M, N]) -> y: i64[M]:\n    y[i] = sum[j](i64(x[i, j]))\n"
        "\nschedule s for k():\n    reassociate(y)\n    tile(j, 256) -> c, t\n    order(i, t, c)\n"
        "    rfactor(y, t) -> part\n"
        "    tile(i, 1) -> b, i\n    bind(b, block.x)\n    bind(t, thread.x)\n",
        "s", {"M": 5, "N": 1003}, {"M": 2_040, "N": 2**20}, {"M": 2_052, "N": 2**20 + 5}, row_sums,
    ),
    "at places from a table": Case(
        blocks_of("kernel k(x: u8[N], at: i64[M]) -> y: u8[M]:\n    y[i] = x[at[i]] else 9\n"),
        "s", {"N": 1003, "M": 400}, {"N": N - 2**20 - 257, "M": 4001}, {"N": N + 1003, "M": 4001}, looked_up,
    ),
}  # fmt: skip
EACH = pytest.mark.parametrize("name", CASES)


def tree_of(case):
    return load(case.text).schedule(case.schedule).tree


def numbers(xp, tensor, shape):
    """An input that differs from place to place near and far: a hash of each element's number, small in floats."""
    count = prod(shape)
    array = xp.empty(count, NUMPY_NAME[tensor.dtype])
    for start in range(0, count, SLICE):
        place = xp.arange(start, min(start + SLICE, count), dtype=xp.int64)
        mixed = (place ^ (place >> 13)) * 40_503 >> 7
        array[start : start + SLICE] = mixed & (31 if array.dtype.kind == "f" else 127)
    return array.reshape(shape)


def inputs_of(xp, kernel, sizes):
    found = {t.name: numbers(xp, t, shape_of(t, sizes)) for t in kernel.tensors if t.role == "input"}
    if "at" in found:  # places in a table: around each end of it, and 2**31 and 2**32 away from these
        ends = [end + away for end in (0, sizes["N"]) for away in (0, N, -N, 2 * N)]
        places = [end + step for end in ends for step in range(-3, 3)]
        count = sizes["M"]
        found["at"] = (found["at"] * 131 + xp.arange(count) * (sizes["N"] // count)) % sizes["N"]
        found["at"][: len(places)] = xp.asarray(places)
    return found


def launched_widths(device, call):
    """`wide` of each launch that `call` makes on the device."""
    widths, launcher = set(), device.launcher

    def record(entry, run):
        widths.add(run.wide)
        return launcher(entry, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "launcher", record)
        call()
    return widths


def runs_right(case, device, sizes):
    """Launches the kernel into a guarded output and compares all of it; returns `wide` of its launches."""
    xp, tree = device.xp, tree_of(case)
    (output,) = [t for t in tree.kernel.tensors if t.role == "output"]
    arrays = inputs_of(xp, tree.kernel, sizes)
    zone = guarded_array(xp, output, shape_of(output, sizes))
    program = Program(tree, device)
    widths = launched_widths(device, lambda: program(**arrays, **{output.name: zone.array}))
    device.synchronize()
    assert zone.touched_border() is None
    compare(case, xp, arrays, zone.array)
    return widths


def compare(case, xp, arrays, got):
    step = max(1, SLICE // prod(got.shape[1:]))
    for start in range(0, len(got), step):
        rows = slice(start, min(start + step, len(got)))
        wrong = got[rows] != case.expected(xp, arrays, rows)
        if bool(wrong.any()):
            first = tuple(int(each[0]) for each in xp.nonzero(wrong))
            raise AssertionError(f"{int(wrong.sum())} are wrong from row {start} on, the first at {first} of these")


@pytest.fixture
def card(tmp_path_factory):
    """The GPU, for one of these tests at a time, whichever process runs it; its memory is given back."""
    device = engine("cuda")
    with (tmp_path_factory.getbasetemp().parent / "large_arrays.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield device
        device.xp.get_default_memory_pool().free_all_blocks()


@pytest.mark.gpu
@EACH
@pytest.mark.parametrize("which", ["near", "large"])
def test_on_a_gpu(name, which, card):
    case = CASES[name]
    sizes = getattr(case, which)
    tensors = load(case.text).schedule(case.schedule).kernel.tensors
    needed = SLACK + sum(prod(shape_of(t, sizes)) * DTYPE_BYTES[t.dtype] + 2 * GUARD_BYTES for t in tensors)
    if needed > (free := card.free_bytes()):
        pytest.skip(f"needs {needed / 1e9:.0f} GB of the card's memory, and {free / 1e9:.0f} GB are free")
    assert runs_right(case, card, sizes) == {which == "large"}


@EACH
def test_the_sizes_are_on_both_sides(name):
    case = CASES[name]
    program = Program(tree_of(case), engine("cpu"))
    for sizes, wide in ((case.small, False), (case.near, False), (case.large, True)):
        assert {launch.wide for launch in program.launches_at(sizes)} == {wide}
    tensors = [t for t in program.kernel.tensors if t.role != "intermediate"]
    for sizes, few in ((case.near, True), (case.large, False)):
        passed = [prod(shape_of(t, sizes)) * (2 if "2*i" in case.text else 1) < N for t in tensors]
        assert all(passed) is few


@pytest.mark.pocl
@EACH
@pytest.mark.parametrize("wide", [False, True])
def test_small_on_the_cpu(name, wide, monkeypatch):
    """The wide version runs as on a card where fewer elements are held for too many."""
    case = CASES[name]
    if wide:
        monkeypatch.setattr(integers, "elements", lambda wide: 2**48 if wide else 64)
    assert runs_right(case, engine("cpu"), case.small) == {wide}


@EACH
def test_small_in_the_interpreter(name):
    case = CASES[name]
    tree = tree_of(case)
    arrays = inputs_of(np, tree.kernel, case.small)
    for got in run(tree, case.small, arrays).values():
        compare(case, np, arrays, got)


@pytest.mark.nvrtc
@EACH
def test_both_widths_compile(name):
    for wide in (False, True):
        for whole in (False, True):
            compile_text(emit(lower(tree_of(CASES[name]), wide=wide, whole=whole), "cuda"), "sm_90")
