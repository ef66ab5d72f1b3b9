"""Declared instructions: NVRTC assembles each, and on a GPU each does what its declaration says, in exact arithmetic.

All pairs of one-hot A and B decide it, for what one computes is bilinear in A and B. Rounding is not tested here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilegen.backends import nvrtc
from tilegen.backends.instructions import device_function, trial_kernel
from tilegen.frontend.stock import stock_instructions
from tilegen.ir.instructions import Instruction

STOCK = stock_instructions()
NUMPY = {"bf16": np.float32, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", STOCK)
def test_it_assembles(name: str, arch: str) -> None:
    if STOCK[name].runs_on(arch):
        assert nvrtc.compile_text(trial_kernel(STOCK[name]), arch).resources["trial"].spills == 0


def test_the_function_reads_as_declared() -> None:
    assert device_function(STOCK["mma_m8n8k4_f64"]) == (
        "// C[i, j] += sum[k](A[i, k] * B[k, j])   by a warp; A: f64[8, 4], B: f64[4, 8], C: f64[8, 8]\n"
        "static __device__ __forceinline__ void mma_m8n8k4_f64"
        "(double (&C)[2], const double (&A)[1], const double (&B)[1])\n"
        "{\n"
        '    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"\n'
        '        : "+d"(C[0]), "+d"(C[1])\n'
        '        : "d"(A[0]), "d"(B[0]));\n'
        "}\n"
    )


def run(instruction: Instruction, a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The outputs for each pair of the matrices a and b, [a, b, i, j], each from the next of `start`."""
    import cupy

    def there(fragment, numbers):
        numbers = np.ascontiguousarray(numbers.astype(NUMPY[fragment.operand.dtype]))
        bits = (numbers.view(np.uint32) >> 16).astype(np.uint16) if fragment.operand.dtype == "bf16" else numbers
        return cupy.asarray(bits)

    first, second, output = instruction.fragments
    warps = len(a) * len(b)
    result = cupy.full((warps, *output.shape), 99, NUMPY[output.operand.dtype])
    trial = cupy.RawModule(code=trial_kernel(instruction), options=nvrtc.options()).get_function("trial")
    counts = [np.int32(len(each)) for each in (a, b, start)]
    arrays = [there(first, a), there(second, b), there(output, start)]
    arguments = [each for pair in zip(arrays, counts, strict=True) for each in pair]
    trial(((warps + 3) // 4,), (128,), (*arguments, result, np.int32(warps)))
    return cupy.asnumpy(result).reshape(len(a), len(b), *output.shape).astype(np.float64)


def is_as_declared(instruction: Instruction, a: np.ndarray, b: np.ndarray, start: np.ndarray) -> bool:
    """True if each result is C + A B, exactly."""
    found = run(instruction, a, b, start)
    starts = start[np.arange(len(a) * len(b)) % len(start)].reshape(found.shape)
    step = max(1, 2**22 // max(1, found[0].size))
    parts = range(0, len(a), step)
    return all(
        np.array_equal(found[p : p + step], starts[p : p + step] + a[p : p + step, None] @ b[None]) for p in parts
    )


def one_hot(shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    return np.eye(size).reshape(size, *shape)


def one_hot_case(instruction: Instruction) -> tuple[np.ndarray, ...]:
    first, second, output = (f.shape for f in instruction.fragments)
    return one_hot(first), one_hot(second), np.arange(1.0, np.prod(output) + 1).reshape(1, *output)


def wrong(instruction: Instruction) -> list[Instruction]:
    """The instruction with two registers, or two lanes, of one operand swapped."""
    found = []
    for at, f in enumerate(instruction.operands):
        if f.elements_of_a_lane > 1:
            changed = replace(f, register=f.register + 1 - f.register % 2 * 2)
        else:
            changed = replace(f, lane=f.lane + 1 - f.lane % 2 * 2)
        operands = (*instruction.operands[:at], changed, *instruction.operands[at + 1 :])
        found.append(replace(instruction, operands=operands))
    return found


def test_a_wrong_layout_is_still_a_bijection() -> None:
    for changed in (each for instruction in STOCK.values() for each in wrong(instruction)):
        for fragment in changed.fragments:
            slots = fragment.elements()
            assert len(slots) == len(list(fragment.points()))
            assert {s.register for s in slots} == set(range(fragment.elements_of_a_lane))


@pytest.mark.gpu
@pytest.mark.parametrize("name", STOCK)
def test_one_hot_pairs(name: str) -> None:
    assert is_as_declared(STOCK[name], *one_hot_case(STOCK[name]))


@pytest.mark.gpu
@pytest.mark.parametrize("name", STOCK)
def test_small_integers(name: str) -> None:
    random = np.random.default_rng(7)
    a, b, start = (random.integers(-3, 4, (20, *f.shape)).astype(float) for f in STOCK[name].fragments)
    assert is_as_declared(STOCK[name], a, b, start)


@pytest.mark.gpu
@pytest.mark.parametrize("name", STOCK)
def test_a_wrong_layout_is_found(name: str) -> None:
    for changed in wrong(STOCK[name]):
        assert not is_as_declared(changed, *one_hot_case(changed))
