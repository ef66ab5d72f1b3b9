"""tilegen from Python: load, schedule by name and by method, source, compile, call."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import tilegen
from tilegen.errors import ArgumentError, IllegalStep, SourceError, StepError, UsageError

TEXT = "kernel twice(A: f32[N]) -> B: f32[N]:\n    B[i] = 2 * A[i]\n"


def test_it_loads_texts_paths_and_stock_names(tmp_path: Path) -> None:
    path = tmp_path / "twice.tg"
    path.write_text(TEXT)
    for given in (TEXT, path, str(path)):
        assert list(tilegen.load(given).kernels) == ["twice"]
    assert "registers" in [s.name for s in tilegen.load("gemm").schedules]
    with pytest.raises(UsageError, match="no file 'gemn'"):
        tilegen.load("gemn")


def test_a_kernel_alone_gets_the_stock_schedules_of_its_name() -> None:
    text = tilegen.load("gemm").source.text.split("\n\n")[1] + "\n"
    assert "schedule" not in text
    assert "tiled" in [s.name for s in tilegen.load(text).schedules]


def test_a_schedule_alone_is_for_the_stock_kernel() -> None:
    file = tilegen.load("schedule mine for gemm(T=8):\n    tile(i, T) -> b, t\n")
    assert file.schedule("mine", T=4).tree.body[0].name == "b"


def test_steps_are_methods_and_leave_what_they_are_called_on() -> None:
    plain = tilegen.load(TEXT).kernel().schedule()
    tiled = plain.tile("i", 128, into=("b", "t"))
    bound = tiled.bind("b", "block.x").bind("t", "thread.x")
    assert [s.step.text for s in bound.stages if s.step] == [
        "tile(i, 128) -> b, t",
        "bind(b, block.x)",
        "bind(t, thread.x)",
    ]
    assert len(plain.stages) == 1
    assert "__global__" in bound.source("cuda")


def test_composite_steps_are_methods_too() -> None:
    by_word = tilegen.load(TEXT).kernel().schedule().blocks("i", 128, into=("b", "t"))
    assert [loop.kind for loop in (by_word.tree.body[0], by_word.tree.body[0].body[0])] == ["block.x", "thread.x"]


def test_wrong_steps_say_what_is_right() -> None:
    plain = tilegen.load(TEXT).kernel().schedule()
    with pytest.raises(AttributeError, match="did you mean 'tile'"):
        plain.tlie("i", 4)
    with pytest.raises(StepError, match="into=3"):
        plain.tile("i", 4, into=3)
    with pytest.raises(StepError):
        plain.tile("q", 4, into=("a", "b"))
    with pytest.raises(SourceError, match="2 names after"):
        plain.tile("i", 4)
    sums = tilegen.load("kernel s(A: f32[N]) -> S: f32[1]:\n    S[i] = sum[j](A[j])\n").kernel().schedule()
    with pytest.raises(IllegalStep):
        sums.tile("j", 4, into=("a", "b")).bind("b", "thread.x")


def test_parameters_attributes_and_sizes() -> None:
    file = tilegen.load("gemm")
    assert file.schedule("tiled", TS=8).tree.buffer("A.shared").shape[0].const == 8
    assert file.schedule("tiled", {"K": 64}).kernel.sizes == ("M", "N")
    with pytest.raises(StepError, match="no parameter 'TX'"):
        file.schedule("tiled", TX=8)
    with pytest.raises(UsageError, match="no schedule 'tild'"):
        file.schedule("tild")


# -- calls


@pytest.fixture
def multiply():
    return tilegen.load("gemm").schedule("tiled", TS=8).compile("cpu")


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return rng.random((11, 9), dtype=np.float32), rng.random((9, 13), dtype=np.float32)


@pytest.mark.pocl
def test_a_call_returns_the_output_or_fills_the_one_that_is_given(multiply, arrays) -> None:
    a, b = arrays
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-5)
    c = np.zeros((11, 13), np.float32)
    assert multiply(B=b, A=a, C=c) is c
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.pocl
def test_arrays_that_do_not_fit_are_refused(multiply, arrays) -> None:
    a, b = arrays
    for positional, named, message in [
        ((a, b[:-1]), {}, r"B has shape \(8, 13\), and B\[K, N\] is \(9, 13\)"),
        ((a.astype(np.float64), b), {}, "A is float64, and the kernel takes f32"),
        ((a.T.copy().T, b), {}, "A is not contiguous row-major"),
        ((a[0], b), {}, "A has 1 dimensions"),
        ((a,), {}, "needs the array B"),
        ((a, b, a), {}, "takes 2 arrays, and 3 are given"),
        ((a, b), {"A": a}, "A is given twice"),
        ((a, b), {"D": a}, "has no 'D'"),
        ((a, b), {"K": 5}, r"A has shape \(11, 9\), and A\[M, K\] is \(11, 5\)"),
        ((a[:9, :].copy(), a[:9, :9].copy()), {"C": None}, "C is a NoneType, not an array"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            multiply(*positional, **named)
    square = np.ones((8, 8), np.float32)
    with pytest.raises(ArgumentError, match="C and A share memory"):
        multiply(square, square.copy(), C=square)


@pytest.mark.pocl
def test_several_outputs_come_as_a_tuple_and_misaligned_arrays_work() -> None:
    text = "kernel both(A: f32[N]) -> B: f32[N], C: f32[N]:\n    B[i] = A[i] + 1\n    C[i] = A[i] - 1\n"
    base = np.arange(21, dtype=np.float32)
    b, c = tilegen.load(text).kernel().schedule().compile("cpu")(base[1:])
    np.testing.assert_array_equal(b, base[1:] + 1)
    np.testing.assert_array_equal(c, base[1:] - 1)
    add = tilegen.load("vector_add").schedule("vector").compile("cpu")
    np.testing.assert_array_equal(add(base[1:], base[:-1]), base[1:] + base[:-1])


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bytes.tg").write_bytes(b"# one\n\xff")
    (tmp_path / "empty.tg").write_text("")
    with pytest.raises(UsageError, match="is a directory"):
        tilegen.load(str(tmp_path))
    with pytest.raises(UsageError, match="the name of a file is empty"):
        tilegen.load("")
    with pytest.raises(UsageError, match="no text in UTF-8: line 2 has the byte 0xff"):
        tilegen.load(str(tmp_path / "bytes.tg"))
    with pytest.raises(UsageError, match="empty.tg has no kernel$"):
        tilegen.load(str(tmp_path / "empty.tg")).kernel()


def test_a_program_is_copied_as_itself_and_stays_in_its_process() -> None:
    schedule = tilegen.load("vector_add").schedule("plain")
    program = schedule.compile("interpreter")
    assert copy.deepcopy([program]) == [copy.copy(program)] == [program]
    assert repr(program).startswith("<Program of vector_add on ")
    with pytest.raises(TypeError, match="pickle the schedule"):
        pickle.dumps(program)
    assert repr(pickle.loads(pickle.dumps(schedule))) == repr(schedule)
    with pytest.raises(UsageError, match="there is no device '3'"):
        schedule.compile(3)


def test_what_an_equation_leaves_out_stays_as_it_was_and_is_0_in_a_fresh_output() -> None:
    text = "kernel lower(A: f32[N, N]) -> C: f32[N, N]:\n    C[i, j] = A[i, j] for j <= i\n"
    program = tilegen.load(text).kernel().schedule().compile("cpu")
    a = np.ones((3, 3), np.float32)
    assert program(a).tolist() == np.tril(a).tolist()
    given = np.full((3, 3), 7, np.float32)
    program(a, C=given)
    assert given.tolist() == (np.tril(a) + 7 * np.triu(a, 1)).tolist()


def test_a_schedule_for_several_kernels_is_applied_to_the_one_that_is_meant():
    file = tilegen.load("gemm_transposed")
    assert file.kernel("gemm_nt").schedule("tiled").kernel.name == "gemm_nt"
    assert file.schedule("tiled").kernel.name == "gemm_nn"  # the first that its head names


def test_a_schedule_that_extends_a_stock_schedule():
    text = "schedule mine extends gemm.across(TM=64):\n    pipeline(ko, 3)\n"
    scheduled = tilegen.load(text).schedule("mine")
    assert scheduled.kernel.name == "gemm"
    assert "schedule mine (TM=64, TN=256, TK=8, WI=4, WJ=2, RES=1)" in scheduled.source("cuda")


def test_steps_follow_those_of_a_schedule_of_the_text():
    scheduled = tilegen.load("gemm").schedule("warps").pipeline("ko", 2)
    assert [stage.step.word for stage in scheduled.stages[-2:]] == ["serpentine", "pipeline"]
