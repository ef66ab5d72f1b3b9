"""Declared instructions: NVRTC assembles each, and on a GPU each does what its declaration says.

All pairs of one-hot A and B decide a product in exact arithmetic, for it is bilinear in A and B. How it rounds is held
against what it `accumulates`, bit for bit. Of a copy, a matrix of distinct elements decides where each goes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tests.support.cover import first
from tests.support.declared_sums import add_up, factor_type, rounded, scattered, summation_on, worst_factors
from tests.support.devices.instruction_trial import TRIAL_THREADS, trial_kernel
from tests.support.stock import instructions
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import compiled_architecture
from tilegen.backends.compiler.instructions import device_function
from tilegen.backends.devices.cuda import CudaEngine
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import NUMPY, reference
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.affine import Affine
from tilegen.ir.hardware.boxes import Box
from tilegen.ir.hardware.instructions import Fragment, Instruction, SharedMatrix, SharedRows, Summation

STOCK = instructions()
COPIES = {name: instruction for name, instruction in STOCK.items() if instruction.is_copy}
PRODUCTS = {name: instruction for name, instruction in STOCK.items() if name not in COPIES}

# Two 8 x 8, of which half of the lanes give the addresses.
FEW_ROWS = parse(
    Source(
        "own.tg",
        """
instruction few_rows(S: bf16[16, 8]) -> D: bf16[16, 8] by warp since sm_75:
    D[i, j] = S[i, j]
    S[i, j] in shared at lane i, element j
    D[i, j] in lane i % 8 * 4 + j / 2, register j % 2 + i / 8 * 2
    ptx "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {D}, [{S}];"
""",
    )
).instructions["few_rows"]


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", first(["sm_90a", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100"]))
@pytest.mark.parametrize("declared", [*STOCK.values(), FEW_ROWS], ids=lambda declared: declared.name)
def test_it_assembles(declared: Instruction, arch: str, request: pytest.FixtureRequest) -> None:
    if not declared.runs_on(arch):
        return
    if declared.unit == "warpgroup":  # it may spill: a table of 96 places beside as many results
        request.getfixturevalue("quick_compiler")
    found = nvrtc.compile_text(trial_kernel(declared), arch).resources["trial"]
    assert found.spills == 0 or declared.unit == "warpgroup"


def test_the_function_reads_as_declared() -> None:
    assert device_function(STOCK["mma_m8n8k4_f64"]) == (
        "// C[i, j] += sum[k](A[i, k] * B[k, j])   by a warp; A: f64[8, 4], B: f64[4, 8], C: f64[8, 8]\n"
        "static __device__ __forceinline__ void mma_m8n8k4_f64"
        "(double* C, const double* A, const double* B)\n"
        "{\n"
        '    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"\n'
        '        : "+d"(C[0]), "+d"(C[1])\n'
        '        : "d"(A[0]), "d"(B[0]));\n'
        "}\n"
    )


def test_a_function_takes_the_address_of_the_lane() -> None:
    assert device_function(STOCK["ldmatrix_a_bf16"]) == (
        "// D[i, k] = S[i, k]   by a warp; S: bf16[16, 16] in shared, D: bf16[16, 16]\n"
        "// S points to the 16 bytes of this lane: S[i, k] in shared at lane i + k / 8 * 16, element k % 8\n"
        "static __device__ __forceinline__ void ldmatrix_a_bf16(void* D, const void* S)\n"
        "{\n"
        "    unsigned* D_registers = static_cast<unsigned*>(D);\n"
        '    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"\n'
        '        : "=r"(D_registers[0]), "=r"(D_registers[1]), "=r"(D_registers[2]), "=r"(D_registers[3])\n'
        '        : "r"((unsigned)__cvta_generic_to_shared(S))\n'
        '        : "memory");\n'
        "}\n"
    )


def test_a_function_that_stores_writes_no_register() -> None:
    text = device_function(STOCK["stmatrix_c_bf16"])
    assert "void stmatrix_c_bf16(void* D, const void* S)\n" in text
    assert text.endswith(
        "        :\n"
        '        : "r"((unsigned)__cvta_generic_to_shared(D)), "r"(S_registers[0]), "r"(S_registers[1]), '
        '"r"(S_registers[2]), "r"(S_registers[3])\n'
        '        : "memory");\n'
        "}\n"
    )


def run(instruction: Instruction, inputs: list[np.ndarray], start: np.ndarray) -> np.ndarray:
    """The outputs for each choice of a matrix from each input, [a, b, i, j] for two, each from the next of `start`."""
    import cupy

    def there(operand, numbers):
        return cupy.asarray(np.ascontiguousarray(from_values(numbers, operand.operand.dtype)))

    output = instruction.operands[-1]
    units = prod(map(len, inputs))
    result = cupy.full((units, *output.shape), 99, NUMPY[output.operand.dtype])
    gpu = CudaEngine()
    arch = compiled_architecture([instruction], gpu.arch)
    trial = gpu.load(trial_kernel(instruction), ["trial"], arch)["trial"]
    counts = [np.int32(len(each)) for each in (*inputs, start)]
    arrays = list(map(there, instruction.operands, (*inputs, start)))
    arguments = [each for pair in zip(arrays, counts, strict=True) for each in pair]
    of_block = TRIAL_THREADS // instruction.lanes
    trial((-(-units // of_block),), (TRIAL_THREADS,), (*arguments, result, np.int32(units)))
    found = cupy.asnumpy(result)
    return to_values(found, output.operand.dtype).reshape(*map(len, inputs), *output.shape).astype(np.float64)


def is_as_declared(instruction: Instruction, a: np.ndarray, b: np.ndarray, start: np.ndarray) -> bool:
    """True if each result is C + A B, exactly."""
    found = run(instruction, [a, b], start)
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
    """All pairs of one-hot A and B; where these are too many, one-hot A with B that tell their elements apart."""
    first, second, output = (f.shape for f in instruction.operands)
    # Of what a sum keeps 13 fraction bits of, these and what is added to them.
    most = 2 ** min([20, *(each.kept - 1 for each in instruction.summations if each.kept)])
    start = np.arange(1.0, np.prod(output) + 1).reshape(1, *output) % most
    if np.prod(first) * np.prod(second) * np.prod(output) < 2**28:
        return one_hot(first), one_hot(second), start
    return one_hot(first), np.random.default_rng(1).integers(-8, 8, (12, *second)).astype(float), start


def copies_as_declared(instruction: Instruction) -> bool:
    """True if each element of D is that of S. Two matrices tell the elements apart, by the digits of their number."""
    source, _ = instruction.operands
    number = np.arange(prod(source.shape)).reshape(source.shape)
    digits = np.stack([number % 128, number // 128])
    found = run(instruction, [np.tile(digits, (3, 1, 1))], np.full((1, *source.shape), -1.0))
    return np.array_equal(found, np.tile(digits, (3, 1, 1)))


def swap_pairs(index: Affine) -> Affine:
    """Each even value exchanged for the next one."""
    return index + 1 - index % 2 * 2


def wrong(instruction: Instruction) -> list[Instruction]:
    """The instruction with two registers, or two lanes, of one operand swapped; of rows each of lanes and elements."""
    found = []
    for at, operand in enumerate(instruction.operands):
        match operand:
            case SharedRows(lane=lane, within=within):
                changed = [replace(operand, lane=swap_pairs(lane)), replace(operand, within=swap_pairs(within))]
            case SharedMatrix(indices=indices, along=along):
                changed = [replace(operand, along=next(index for index in indices if index != along))]
            case Fragment(within=within) if operand.elements_of_a_lane > 1:
                changed = [replace(operand, within=swap_pairs(within))]
            case _:
                changed = [replace(operand, lane=swap_pairs(operand.lane))]
        before, after = instruction.operands[:at], instruction.operands[at + 1 :]
        found += [replace(instruction, operands=(*before, each, *after)) for each in changed]
    return found


def test_a_wrong_layout_is_still_a_bijection() -> None:
    for changed in (each for instruction in (*STOCK.values(), FEW_ROWS) for each in wrong(instruction)):
        for operand in changed.operands:
            match operand:
                case SharedMatrix():
                    continue
                case SharedRows():
                    lanes, count = operand.rows, operand.elements_of_a_row
                case _:
                    lanes, count = operand.lanes, operand.elements_of_a_lane
            box = Box(dict(zip(operand.indices, operand.shape, strict=True)))
            lane, place = map(box.each, operand.place(list(box.values.values())))
            assert place.min() == 0
            assert place.max() == count - 1
            assert np.array_equal(np.sort(lane * count + place), np.arange(lanes * count))


@pytest.mark.gpu
@pytest.mark.parametrize("name", PRODUCTS)
def test_one_hot_pairs(name: str) -> None:
    assert is_as_declared(STOCK[name], *one_hot_case(STOCK[name]))


@pytest.mark.gpu
@pytest.mark.parametrize("name", PRODUCTS)
def test_small_integers(name: str) -> None:
    random = np.random.default_rng(7)
    a, b, start = (random.integers(-3, 4, (20, *f.shape)).astype(float) for f in STOCK[name].operands)
    assert is_as_declared(STOCK[name], a, b, start)


# Elements of a product that are computed in exact arithmetic, too: all of a warp's, and some of a warpgroup's.
_MOST_PLACES = 128


def worst_operands(instruction: Instruction, summation: Summation) -> tuple[np.ndarray, np.ndarray]:
    """A and B of which each row and column has the worst factors, with other signs and powers of two in each."""
    a, b, _ = (operand.shape for operand in instruction.operands)
    left, right = worst_factors(summation, factor_type(instruction), instruction.operands[-1].operand.dtype, a[1])
    rows, columns = (-2.0) ** (np.arange(a[0]) % 3), (-2.0) ** (np.arange(b[1]) % 2)
    return rows[:, None] * left, right[:, None] * columns


def added_up(
    instruction: Instruction, summation: Summation, a: np.ndarray, b: np.ndarray, c: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """C + A B at these places, counted along the rows of C, as declared."""
    factor, result = factor_type(instruction), instruction.operands[-1].operand.dtype
    rows, columns = np.unravel_index(places, c.shape)
    return np.array(
        [add_up(summation, c[i, j], a[i], b[:, j], factor, result) for i, j in zip(rows, columns, strict=True)]
    )


def beyond_format(instruction: Instruction, random: np.random.Generator, factors: np.ndarray) -> np.ndarray:
    """Factors that it cuts off to these: of tf32 numbers, f32 with anything in the last 13 bits."""
    if factor_type(instruction) != "tf32" or instruction.operands[0].format:
        return factors
    bits = factors.astype(np.float32).view(np.uint32)
    assert not (bits & 0x1FFF).any()
    # A subnormal number may be taken as 0, or not: 0 stays what it is.
    more = random.integers(0, 2**13, bits.shape, dtype=np.uint32) * (bits << 1 != 0)
    more[..., 0, 0] = 0x1FFF * (bits[..., 0, 0] << 1 != 0)
    return (bits | more).view(np.float32)


@pytest.mark.parametrize("name", [name for name in PRODUCTS if name.endswith("tf32_rz")])
def test_the_factors_given_are_cut_off_to_those_meant(name: str) -> None:
    """As the interpreter has the function of that name."""
    instruction, random = PRODUCTS[name], np.random.default_rng(3)
    a, b, _ = (scattered(random, (4, *operand.shape), factor_type(instruction)) for operand in instruction.operands)
    kernel = build(
        parse(Source("cut.tg", "kernel cut(X: f32[N]) -> Y: f32[N]:\n    Y[i] = tf32_rz(X[i])\n")).kernels["cut"]
    )
    for meant in (a, b):
        given = beyond_format(instruction, random, meant).ravel()
        assert (given != meant.ravel()).mean() > 0.9
        assert np.array_equal(reference(kernel, {"N": given.size}, {"X": given})["Y"].value, meant.ravel())


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name, each in PRODUCTS.items() if each.summations])
def test_it_adds_up_as_declared(name: str) -> None:
    import cupy

    instruction = PRODUCTS[name]
    summation = summation_on(instruction, f"sm_{cupy.cuda.Device().compute_capability}")
    assert summation
    shapes, factor = [operand.shape for operand in instruction.operands], factor_type(instruction)
    random, result = np.random.default_rng(3), instruction.operands[-1].operand.dtype
    worst = [worst_operands(instruction, each) for each in instruction.summations]
    # A block of its own kind for each: the worst by each declared way, then numbers of many exponents.
    a = np.stack([*(each[0] for each in worst), *scattered(random, (8, *shapes[0]), factor)])
    b = np.stack([*(each[1] for each in worst), *scattered(random, (8, *shapes[1]), factor)])
    if result == "f16":
        a = rounded(a / 64, factor)  # no sum is too large for f16
    start = scattered(random, (len(a) * len(b), *shapes[2]), result)
    start[:: len(b) + 1] = 0.0
    found = run(instruction, [beyond_format(instruction, random, each) for each in (a, b)], start)
    starts = start.reshape(found.shape)
    size = starts[0, 0].size
    for n, m in np.ndindex(len(a), len(b)):
        places = random.choice(size, min(size, _MOST_PLACES), replace=False)
        wanted = added_up(instruction, summation, a[n], b[m], starts[n, m], places)
        assert np.array_equal(found[n, m].ravel()[places], wanted), (n, m)


@pytest.mark.gpu
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_wrong_layout_is_found(name: str) -> None:
    for changed in wrong(STOCK[name]):
        assert not is_as_declared(changed, *one_hot_case(changed))


@pytest.fixture(params=[*COPIES.values(), FEW_ROWS], ids=lambda copy: copy.name)
def copy(request: pytest.FixtureRequest) -> Instruction:
    """Each copy that the GPU has."""
    gpu = CudaEngine()
    if not request.param.runs_on(compiled_architecture([request.param], gpu.arch)):
        pytest.skip(f"{gpu.name} does not have it")
    return request.param


@pytest.mark.gpu
def test_distinct_elements(copy: Instruction) -> None:
    assert copies_as_declared(copy)


@pytest.mark.gpu
def test_wrong_rows_are_found(copy: Instruction) -> None:
    assert not any(map(copies_as_declared, wrong(copy)))
