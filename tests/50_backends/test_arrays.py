"""Sizes from shapes, storage orders, and the guarded borders around outputs."""

import numpy as np
import pytest

from tilegen.backends.calls.arrays import GUARD_BYTES, empty, find_pitch, guarded_array, infer_sizes, span_of
from tilegen.errors import ArgumentError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Kernel, Tensor

M, N, K = var("M"), var("N"), var("K")


def tensor(name: str, shape: tuple, role: str = "input", order: tuple = (0, 1)) -> Tensor:
    return Tensor(name, "f32", shape, role, order)


GEMM = Kernel(
    "gemm",
    ("M", "K", "N"),
    (tensor("A", (M, K)), tensor("B", (K, N)), tensor("C", (M, N), "output")),
    (),
    assumptions=(Condition(K % 8, equal=True),),
)


def test_sizes_come_from_shapes() -> None:
    assert infer_sizes(GEMM, {"A": (3, 8), "B": (8, 5)}) == {"M": 3, "K": 8, "N": 5}


def test_a_size_can_be_part_of_an_extent() -> None:
    kernel = Kernel("conv", ("N",), (tensor("X", (N * 2 + 1, const(3))),), ())
    assert infer_sizes(kernel, {"X": (9, 3)}) == {"N": 4}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"A": (3, 8), "B": (7, 5)}, r"B has shape \(7, 5\), and B\[K, N\] is \(8, 5\)"),
        ({"A": (3, 8, 1), "B": (8, 5)}, "A has 3 dimensions"),
        ({"A": (3, 9), "B": (9, 5)}, "K = 9"),
        ({"A": (3, 0), "B": (0, 5)}, "size K is 0, and sizes are at least 1"),
        ({"A": (0, 9), "B": (9, 5)}, "K = 9"),
        ({"A": (0, 8), "B": (16, 5)}, r"B has shape \(16, 5\)"),
        ({"A": (3, 8)}, "no array tells the size N"),
    ],
)
def test_what_does_not_fit_is_said(shapes: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        infer_sizes(GEMM, shapes)


def test_a_given_size_must_be_known() -> None:
    with pytest.raises(ArgumentError, match="no size 'Q'"):
        infer_sizes(GEMM, {"A": (3, 8), "B": (8, 5)}, {"Q": 3})


def test_layout_is_the_storage_order() -> None:
    column_major = tensor("A", (M, K), order=(1, 0))
    array = empty(np, column_major, (3, 8))
    assert array.shape == (3, 8)
    assert array.flags.f_contiguous
    find_pitch(column_major, array)
    with pytest.raises(ArgumentError, match="A is not contiguous row-major"):
        find_pitch(tensor("A", (M, K)), array)
    with pytest.raises(ArgumentError, match="in the kernel's storage order"):
        find_pitch(column_major, np.ascontiguousarray(array))


def pitch(array: object, order: tuple = (0, 1)) -> int | None:
    return find_pitch(tensor("A", (M, K, N)[: len(order)], order=order), array)


def test_rows_may_be_apart_at_one_pitch() -> None:
    rows = np.zeros((6, 8), np.float32)
    assert [pitch(each) for each in (rows[::2], rows[:, :3], rows[:, 5:], rows[:, :1])] == [16, 8, 8, 8]
    assert [pitch(each) for each in (rows, rows[:1], rows[:1, :3], rows[:, :0], np.zeros((6, 1)))] == [None] * 5
    assert [pitch(each.T, (1, 0)) for each in (rows, rows[::2], rows[:, :3])] == [None, 16, 8]
    blocks = np.zeros((4, 6, 8), np.float32)
    three = (0, 1, 2)
    assert [pitch(each, three) for each in (blocks[..., :5], blocks[:, :1], blocks[2:, :, 3:])] == [8, 48, 8]


def test_other_gaps_are_refused() -> None:
    rows, blocks = np.zeros((6, 8), np.float32), np.zeros((4, 6, 8), np.float32)
    wrong = [rows[:, ::2], rows[::-1], rows.T, np.broadcast_to(rows[0], (6, 8))]
    uneven = np.lib.stride_tricks.as_strided(rows, (3, 4), (18, 4))
    overlapping = np.lib.stride_tricks.as_strided(rows, (3, 4), (8, 4))
    for each in (*wrong, uneven, overlapping):
        with pytest.raises(ArgumentError, match="A is not contiguous row-major"):
            pitch(each)
    for each in (blocks[:, :3], blocks[::2, :, :5], blocks.transpose(1, 0, 2), blocks[..., ::2]):
        with pytest.raises(ArgumentError, match="A is not contiguous row-major"):
            pitch(each, (0, 1, 2))
    with pytest.raises(ArgumentError, match="contiguous"):
        find_pitch(tensor("x", (M,), order=(0,)), rows[0, ::2])


def test_a_pitch_is_one_in_elements() -> None:
    halves = np.zeros((6, 33), np.uint8)[:, :32].view(np.float16)
    with pytest.raises(ArgumentError, match="contiguous"):
        pitch(halves)


def test_a_span_has_what_lies_between_rows() -> None:
    rows = np.zeros((6, 8), np.float32)
    views = (rows, rows[:, :3], rows[:, :3].T, rows[:1, :3], rows[:0])
    assert [span_of(each) for each in views] == [192, 172, 172, 12, 0]


def test_what_is_said_of_strides_that_are_not_taken(golden) -> None:
    rows = np.zeros((6, 8), np.float32)
    refused = [((M, K), rows[:, ::2]), ((M, K), rows.T), ((M, K, N), np.zeros((4, 6, 8), np.float32)[:, :3])]
    said = []
    for shape, array in (*refused, ((M,), rows[:, 0])):
        with pytest.raises(ArgumentError) as caught:
            find_pitch(tensor("A", shape, order=tuple(range(len(shape)))), array)
        said.append(f"{caught.value}\n")
    golden("\n".join(said), "strides_refused.txt")


def ways(array: object, order: tuple = (0, 1), role: str = "input", given: object = None) -> tuple[str, ...]:
    """What is told beside the strides of an array that does not fit."""
    with pytest.raises(ArgumentError) as caught:
        find_pitch(tensor("A", (M, K), role, order), array, given)
    return caught.value.notes[1:]


def test_the_way_out_is_a_copy_or_another_kernel() -> None:
    rows = np.zeros((6, 8), np.float32)
    as_columns = "a kernel that declares A: f32[M, K] col_major takes it without a copy"
    assert ways(rows[:, ::2]) == ("numpy.ascontiguousarray(A) copies it",)
    assert ways(rows.T) == ("numpy.ascontiguousarray(A) copies it", as_columns)
    assert ways(rows[:, :3].T) == ("numpy.ascontiguousarray(A) copies it", as_columns)
    assert ways(rows, (1, 0)) == (
        "numpy.asfortranarray(A) copies it",
        "a kernel that declares A: f32[M, K] row_major takes it without a copy",
    )
    assert ways(rows[:, ::2], role="output") == ("without A=... the call makes an array that fits",)
    of_torch = type("Tensor", (), {"__module__": "torch"})()
    assert ways(rows.T, given=of_torch) == ("A.contiguous() copies it", as_columns)
    assert ways(rows[:, ::2].T, (1, 0), given=of_torch) == ("A.t().contiguous().t() copies it",)
    find_pitch(tensor("A", (M, K)), rows[:, :0])


def test_more_dimensions_than_a_kernel_has() -> None:
    with pytest.raises(ArgumentError) as caught:
        infer_sizes(GEMM, {"A": (2, 3, 8), "B": (8, 5)})
    assert caught.value.render().splitlines() == [
        "error: A has 3 dimensions, A[M, K] has 2",
        "  note: A.reshape(-1, 8) joins the first dimensions, where they all are rows to the kernel",
        "  note: a kernel that declares them takes batches: A[Z, M, K]",
    ]
    with pytest.raises(ArgumentError) as caught:
        infer_sizes(GEMM, {"A": (8,), "B": (8, 5)})
    assert caught.value.render() == "error: A has 1 dimensions, A[M, K] has 2"


def test_a_size_may_be_0_where_no_output_has_elements() -> None:
    assert infer_sizes(GEMM, {"A": (0, 8), "B": (8, 5)}) == {"M": 0, "K": 8, "N": 5}
    assert infer_sizes(GEMM, {"A": (3, 0), "B": (0, 0)}) == {"M": 3, "K": 0, "N": 0}


def test_a_border_sees_a_write() -> None:
    zone = guarded_array(np, tensor("C", (M, N)), (3, 5))
    assert zone.array.shape == (3, 5)
    zone.array[:] = 1
    assert zone.touched_border() is None
    zone.memory[GUARD_BYTES - 1] = 0
    assert zone.touched_border() == "before"
    zone = guarded_array(np, tensor("C", (M, N)), (3, 5))
    zone.memory[-GUARD_BYTES] = 0
    assert zone.touched_border() == "after"
