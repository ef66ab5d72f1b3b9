"""Repeated calls: what is remembered of them, for which arrays it holds, and that wrong arrays are refused as ever."""

import gc
import runpy
import weakref
from pathlib import Path
from struct import unpack

import numpy as np
import pytest

import tilegen
from tests.support.driver import Card, Driver, cupy_array
from tilegen.backends.calls.device_program import Program
from tilegen.backends.devices import cuda
from tilegen.backends.devices.devices import InterpreterEngine, engine, program
from tilegen.errors import ArgumentError, TilegenError


def ready(text="vector_add", schedule="vector", device="cpu", **parameters):
    """A program that counts what it plans, in `planned`."""
    made = tilegen.load(text).schedule(schedule, **parameters).compile(device)
    plan, made.planned = made._plan, 0

    def count(*arguments):
        made.planned += 1
        return plan(*arguments)

    made._plan = count
    return made


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def misaligned(array):
    memory = np.empty(array.size + 8, array.dtype)
    first = next(n for n in range(8) if memory[n:].ctypes.data % 16 == 4)
    memory[first : first + array.size] = array.ravel()
    return memory[first : first + array.size].reshape(array.shape)


@pytest.mark.pocl
def test_what_a_call_looks_like_is_decided_once():
    add = ready()
    for seed in range(5):
        a, b = numbers(100, seed=seed), numbers(100, seed=seed + 50)
        np.testing.assert_array_equal(add(a, b), a + b)
    assert add.planned == 1
    for other in (numbers(101), misaligned(numbers(100))):
        for _ in range(2):
            np.testing.assert_array_equal(add(other, other), other + other)
    assert add.planned == 3
    c = np.empty(100, np.float32)
    for _ in range(2):
        assert add(a, b, C=c) is c
        assert add(B=b, A=a, C=c) is c
    np.testing.assert_array_equal(c, a + b)
    assert add.planned == 5


@pytest.mark.pocl
def test_wrong_arrays_after_right_ones_get_the_error_of_a_first_call():
    add = ready()
    a, b, c = numbers(100), numbers(100), np.empty(100, np.float32)
    frozen = np.empty(100, np.float32)
    frozen.flags.writeable = False
    wrong = [
        ((a, b.astype(np.float64)), {}, "B is float64, and the kernel takes f32"),
        ((a, b[:99]), {}, r"B has shape \(99,\)"),
        ((a, numbers(200)[::2]), {}, "B is not contiguous"),
        ((a, b.reshape(10, 10)), {}, "B has 2 dimensions"),
        ((a, [1.0]), {}, "B is a list, not an array"),
        ((a, np.ma.array(b)), {}, "B is a masked array"),
        ((a,), {}, "needs the array B"),
        ((a, b, c), {}, "takes 2 arrays, and 3 are given"),
        ((a, b), {"B": b}, "B is given twice"),
        ((a, b), {"D": b}, "has no 'D'"),
        ((a, b), {"C": b}, "C and B share memory"),
        ((a, b), {"C": frozen}, "C is read-only"),
        ((a, b), {"C": a[:50]}, "C has shape"),
    ]
    for _ in range(2):
        np.testing.assert_array_equal(add(a, b), a + b)
        np.testing.assert_array_equal(add(a, b, C=c), a + b)
        for arrays, named, message in wrong:
            with pytest.raises(ArgumentError, match=message):
                add(*arrays, **named)


@pytest.mark.pocl
def test_parts_of_one_array_may_lie_side_by_side():
    add, memory = ready(), np.zeros(304, np.float32)
    a, b, c = memory[:100], memory[100:200], memory[200:300]
    a[:], b[:] = numbers(100), numbers(100, seed=1)
    add(a, b, C=c)
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(ArgumentError, match="C and B share memory"):
        add(a, b, C=memory[199:299])


@pytest.mark.pocl
def test_nothing_keeps_the_arrays_of_a_call():
    add = ready()
    a, b = numbers(100), numbers(100)
    seen = [weakref.ref(array) for array in (a, b, add(a, b))]
    del a, b
    gc.collect()
    assert [each() for each in seen] == [None] * 3


@pytest.mark.pocl
def test_not_every_kind_of_call_is_remembered():
    add = ready(text=COPY, schedule="rows")
    for size in range(1, 400):
        a = numbers(1, size)
        np.testing.assert_array_equal(add(a), a)
    (form,) = add._forms.values()
    assert len(form.plans) < 300
    assert add.planned == 399


COPY = """
kernel copy(A: f32[M, N]) -> C: f32[M, N]:
    C[i, j] = A[i, j]
schedule rows for copy():
    bind(i, block.x)
"""
SCALED = """
kernel scaled(x: f32, n: i8, A: f32[N]) -> B: f32[M]:
    B[i] = x * A[0] + f32(n)
schedule one for scaled():
    bind(i, block.x)
"""


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.pocl), "interpreter"])
def test_numbers_are_those_of_the_call_and_sizes_are_part_of_it(device):
    scaled, a = ready(SCALED, "one", device), numbers(3) + 1
    for n, x in enumerate((0.5, -0.0, 3, np.float64(2), 2**-140)):
        got = scaled(x, n, a, M=2)
        np.testing.assert_array_equal(got, np.full(2, np.float32(x) * a[0] + np.float32(n), np.float32))
    assert scaled.planned == 1
    assert scaled(1, 1, a, M=5).shape == scaled(M=5, A=a, n=1, x=1).shape == (5,)
    assert scaled.planned == 3
    for wrong, message in (
        ({"x": 1e39}, "x is 1e[+]39, which is too large for f32"),
        ({"x": a[0:1]}, "x is a ndarray, and the kernel takes a number"),
        ({"x": True}, "x is a bool"),
        ({"n": 128}, "n is 128, and i8 goes from -128 to 127"),
        ({"n": 1.0}, "n is 1.0, and the kernel takes an integer"),
        ({"M": 5.0}, "an integer is wanted"),
        ({"M": True}, "an integer is wanted"),
    ):
        with pytest.raises(TilegenError, match=message):
            scaled(**{"x": 1, "n": 1, "A": a, "M": 5} | wrong)


@pytest.mark.pocl
def test_several_launches_have_memory_of_their_own_between_them():
    product = ready("gemm_split", "split_k")
    assert len(product.launches()) > 1
    a, b = numbers(40, 300), numbers(300, 50)
    first = [product(a, b), product(b.T.copy(), a.T.copy())]
    np.testing.assert_array_equal(first[0], a @ b)
    np.testing.assert_array_equal(product(a, b), a @ b)
    np.testing.assert_array_equal(first[1], (a @ b).T)
    assert product.planned == 2


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.pocl), "interpreter"])
def test_an_empty_result_needs_no_launch(device):
    product = ready("gemm_split", "split_k", device, KP=32, TM=32, TN=64, TK=8, WI=2, WJ=2)
    for shape in ((0, 8, 5), (3, 8, 0), (0, 0, 0)):
        for _ in range(2):
            m, k, n = shape
            a, b, c = numbers(m, k), numbers(k, n), np.zeros((m, n), np.float32)
            got = product(a, b)
            assert (got.shape, got.dtype) == ((m, n), np.float32)
            assert product(a, b, C=c) is product.prepare(a, b, C=c)() is c
    with pytest.raises(ArgumentError) as caught:
        product(numbers(3, 0), numbers(0, 5))
    assert caught.value.render().splitlines() == [
        "error: size K is 0, and sizes are at least 1",
        "  note: a size may be 0 only where all outputs are empty",
    ]
    np.testing.assert_array_equal(product(numbers(3, 8), numbers(8, 5)), numbers(3, 8) @ numbers(8, 5))


def test_arrays_of_another_library_go_through_and_are_remembered_too():
    class Foreign:
        """As much of an array of some library as numpy asks for."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **how):
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    copy, a, c = ready(COPY, "rows", "interpreter"), numbers(3, 4), Foreign(np.zeros((3, 4), np.float32))
    for _ in range(2):
        np.testing.assert_array_equal(copy(Foreign(a)), a)
    assert copy.planned == 1
    assert copy(a, C=c) is c
    np.testing.assert_array_equal(c.array, a)


def test_an_updated_tensor_is_written_into():
    text = "kernel more(C: f32[N]) -> C: f32[N]:\n    C[i] = C[i] + 1\nschedule s for more():\n    bind(i, block.x)\n"
    more, c = ready(text, "s", "interpreter"), numbers(5)
    before = c.copy()
    for count in (1, 2):
        assert more(c) is c
        np.testing.assert_array_equal(c, before + count)


# -- on GPUs that are not there


@pytest.fixture
def copies(monkeypatch):
    """(a copy on cards, the driver that launches it)."""
    driver = Driver(monkeypatch)
    monkeypatch.setattr(Card, "current", 0)
    return Program(tilegen.load(COPY).schedule("rows").tree, Card()), driver


def pointers(launch):
    return [unpack("=Q", argument)[0] for argument in launch["arguments"][:2]]


def test_a_call_launches_on_the_addresses_of_its_arrays(copies):
    copy, driver = copies
    for address in (2**40, 2**41):
        a = cupy_array((4, 8), address)
        copy(a)
        copy(a, C=cupy_array((4, 8), 2**42))
    assert [(sorted(pointers(each)), each["stream"], each["grid"]) for each in driver.launches] == [
        ([2**40, 2**44], 5000, (4, 1, 1)),
        ([2**40, 2**42], 5000, (4, 1, 1)),
        ([2**41, 2**44], 5000, (4, 1, 1)),
        ([2**41, 2**42], 5000, (4, 1, 1)),
    ]
    with pytest.raises(ArgumentError, match="C and A share memory"):
        copy(a, C=cupy_array((4, 8), 2**41 + 124))
    with pytest.raises(ArgumentError, match="A is float64"):
        copy(cupy_array((4, 8), dtype="float64"))
    assert len(driver.launches) == 4


def test_a_call_goes_to_the_device_of_its_arrays(copies):
    copy, driver = copies
    for device in (1, 0, 1):
        copy(cupy_array((4, 8), device=device))
        assert Card.current == 0
    assert [each["function"] for each in driver.launches] == [7001, 7000, 7001]
    assert copy.engine.builds == copy.engine.at(1).builds == ["copy"]
    with pytest.raises(ArgumentError, match="C is on GPU 1, and A on GPU 0"):
        copy(cupy_array((4, 8)), C=cupy_array((4, 8), 2**42, device=1))


# -- the same arrays again


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.pocl), "interpreter"])
def test_a_prepared_call_launches_on_the_arrays_that_it_was_given(device):
    copy, a, c = ready(COPY, "rows", device), numbers(3, 4), np.zeros((3, 4), np.float32)
    run, fresh = copy.prepare(a, C=c), copy.prepare(a)
    assert not c.any()
    for seed in (1, 2):
        a[:] = numbers(3, 4, seed=seed)
        assert run() is run.outputs is c
        np.testing.assert_array_equal(c, a)
        np.testing.assert_array_equal(fresh(), a)
    assert fresh() is fresh.outputs
    for arrays, message in (((a.astype(np.int32),), "A is int32"), ((a, a), "takes 1 arrays, and 2 are given")):
        with pytest.raises(ArgumentError, match=message):
            copy.prepare(*arrays)
    with pytest.raises(ArgumentError, match="C and A share memory"):
        copy.prepare(a, C=a)


def test_a_prepared_call_keeps_its_arrays_and_only_launches(copies):
    copy, driver = copies
    a = cupy_array((4, 8))
    run = copy.prepare(a)
    seen = weakref.ref(a)
    del a
    gc.collect()
    assert run().data.ptr == 2**44
    assert seen() is not None
    run()
    assert [sorted(pointers(each)) for each in driver.launches] == [[2**40, 2**44]] * 2


def test_the_interpreter_takes_scalars_as_they_are_stored():
    text = "kernel fill(x: bf16) -> C: bf16[4]:\n    C[i] = x\nschedule s for fill():\n    bind(i, block.x)\n"
    fill = program(tilegen.load(text).schedule("s").tree, InterpreterEngine())
    assert fill(1.5).astype("f4").tolist() == [1.5] * 4
    assert fill.prepare(-2)().astype("f4").tolist() == [-2] * 4


@pytest.mark.pocl
def test_the_cost_of_calls_is_printed_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["call_cost.py", "64", "1"])
    monkeypatch.setattr(cuda, "unavailable_reason", lambda: "no GPU was found")
    engine.cache_clear()
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "call_cost.py"), run_name="__main__")
    engine.cache_clear()
    first, head, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("no GPU is used here")
    assert "64 elements: microseconds of the host a call, of 1 calls each" in head
    assert [row.split("  ")[0] for row in rows] == ["", "tilegen, numpy", "tilegen, prepared", "numpy.add"]
