"""The stock instructions: their layouts beside the PTX ISA's own words, and their meaning by the interpreter."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest

from tests.support.declared_sums import summation_on
from tests.support.simulator.ptx_isa import LAYOUTS, TYPES, Mma, MoveMatrices, Place, Wgmma, read
from tests.support.stock import instructions
from tilegen.errors import Source
from tilegen.frontend import parse
from tilegen.frontend.stock import stock_instructions
from tilegen.interpreter.dtypes import from_values
from tilegen.interpreter.expected.reference import reference
from tilegen.ir.hardware.instructions import Fragment, Instruction, SharedRows, Summation
from tilegen.ir.nodes import DTYPE_BYTES

PTX_ISA: dict[str, dict[str, Place]] = {
    "mma_m16n8k16_bf16": LAYOUTS["m16n8k16", "bf16"],
    "mma_m16n8k16_f16": LAYOUTS["m16n8k16", "f16"],
    "mma_m16n8k16_f16_f16": LAYOUTS["m16n8k16", "f16"],
    "mma_m16n8k8_tf32": LAYOUTS["m16n8k8", "tf32"],
    "mma_m16n8k8_tf32_rz": LAYOUTS["m16n8k8", "tf32"],
    "mma_m16n8k32_i8": LAYOUTS["m16n8k32", "s8"],
    "mma_m8n8k4_f64": LAYOUTS["m8n8k4", "f64"],
}

# The operand of `mma` that each copy is for.
COPIES = {
    name: (mma, operand)
    for mma, operand, names in [
        ("mma_m16n8k16_bf16", "A", ["ldmatrix_a_bf16", "ldmatrix_a_trans_bf16"]),
        ("mma_m16n8k16_bf16", "B", ["ldmatrix_b_bf16", "ldmatrix_b_trans_bf16"]),
        ("mma_m16n8k16_bf16", "C", ["stmatrix_c_bf16", "stmatrix_c_trans_bf16"]),
        ("mma_m16n8k16_f16", "A", ["ldmatrix_a_f16", "ldmatrix_a_trans_f16"]),
        ("mma_m16n8k16_f16", "B", ["ldmatrix_b_f16", "ldmatrix_b_trans_f16"]),
        ("mma_m16n8k16_f16_f16", "C", ["stmatrix_c_f16", "stmatrix_c_trans_f16"]),
        ("mma_m16n8k32_i8", "A", ["ldmatrix_a_i8"]),
        ("mma_m16n8k32_i8", "B", ["ldmatrix_b_i8"]),
        ("mma_m16n8k8_tf32", "A", ["ldmatrix_a_tf32"]),
        ("mma_m16n8k8_tf32", "B", ["ldmatrix_b_tf32"]),
    ]
    for name in names
}

STORES = [f"stmatrix_c_warpgroup_{word}" for word in ("bf16", "f16", "trans_bf16", "trans_f16")]
WGMMA = [name for name in instructions() if name.startswith("wgmma")]


def test_each_stock_instruction_stands_beside_the_ptx_isa() -> None:
    assert {*PTX_ISA, *COPIES, *WGMMA, *STORES} == set(instructions())


@pytest.mark.parametrize("name", sorted(PTX_ISA))
def test_layouts_are_those_of_the_ptx_isa(name: str) -> None:
    does = read(stock_instructions()[name].ptx)
    assert isinstance(does, Mma)
    assert does.layout is PTX_ISA[name]
    for fragment in stock_instructions()[name].fragments:
        place = PTX_ISA[name][fragment.operand.name]
        for held, element in fragment.elements().items():
            assert element == place(held[0] // 4, held[0] % 4, held[1]), (fragment.operand.name, held)


@pytest.mark.parametrize("name", WGMMA)
def test_results_of_wgmma_are_those_of_the_ptx_isa(name: str) -> None:
    result = stock_instructions()[name].layout("C")
    for place, element in result.elements().items():
        (warp, lane), register = divmod(place[0], 32), place[1]
        row = warp * 16 + lane // 4 + 8 * (register // 2 % 2)
        assert element == (row, register // 4 * 8 + lane % 4 * 2 + register % 2)


@pytest.mark.parametrize("name", STORES)
def test_a_warpgroup_stores_as_four_warps_do(name: str) -> None:
    """Each warp runs stmatrix on 16 rows, of which it holds what a warp holds."""
    four, one = stock_instructions()[name], stock_instructions()[name.replace("_warpgroup", "")]
    assert four.ptx == one.ptx
    for operand in "SD":
        for place, (row, column) in four.layout(operand).elements().items():
            warp, lane = divmod(place[0], 32)
            assert row // 16 == warp
            assert one.layout(operand).place((row % 16, column)) == (lane, place[1])


@pytest.mark.parametrize("name", WGMMA)
def test_wgmma_says_what_it_computes(name: str) -> None:
    """The shape, the types and the order of A and B stand in the text, and are those of the declaration."""
    instruction = stock_instructions()[name]
    shape, result, *factors = re.search(
        r"wgmma.mma_async.sync.aligned.(\w+)\.(\w+)\.(\w+)\.(\w+) ", instruction.ptx
    ).groups()
    a, b, c = (layout.operand for layout in instruction.operands)
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    assert shape == f"m{m}n{n}k{k}"
    assert [TYPES[word] for word in (result, *factors)] == [c.dtype, a.dtype, b.dtype]
    does = read(instruction.ptx)
    assert isinstance(does, Wgmma)
    in_registers = isinstance(instruction.layout("A"), Fragment)
    assert does.registers in (None, in_registers)
    assert in_registers == ("registers" in name)
    described = [instruction.layout(x).along for x in "AB"[in_registers:]]
    assert described == ["i" if does.transposed[0] else "k", "j" if does.transposed[1] else "k"][in_registers:]


@pytest.mark.parametrize("name", [name for name in WGMMA if "registers" in name])
def test_factors_of_wgmma_are_those_of_the_ptx_isa(name: str) -> None:
    """Each warp holds 16 rows, as mma.sync of as many k does."""
    does, factor = read(stock_instructions()[name].ptx), stock_instructions()[name].layout("A")
    assert isinstance(does, Wgmma)
    elements = factor.elements()
    for lane in range(128):
        assert [elements[lane, n] for n in range(factor.elements_of_a_lane)] == does.places_of_a(lane)


def row_element(place: tuple[int, int], size: int, does: MoveMatrices) -> tuple[int, int]:
    """Where an element of `size` bytes of a lane is taken from, or put to, as the PTX ISA says."""
    lane, byte = does.source(place[0], place[1] * size)
    return lane, byte // size


def shared_and_fragment(instruction: Instruction) -> tuple[SharedRows, Fragment]:
    (fragment,) = instruction.fragments
    (rows,) = (operand for operand in instruction.operands if isinstance(operand, SharedRows))
    return rows, fragment


@pytest.mark.parametrize("name", sorted(COPIES))
def test_rows_are_those_of_the_ptx_isa(name: str) -> None:
    instruction = stock_instructions()[name]
    rows, fragment = shared_and_fragment(instruction)
    size, does = DTYPE_BYTES[fragment.operand.dtype], read(instruction.ptx)
    assert isinstance(does, MoveMatrices)
    assert (does.matrices * 8, does.rows, does.registers) == (rows.rows, rows.operand.name, fragment.operand.name)
    for point in fragment.points():
        assert rows.place(point) == row_element(fragment.place(point), size, does), point


@pytest.mark.parametrize("name", sorted(COPIES))
def test_copies_fill_the_fragments_of_mma(name: str) -> None:
    """One, or two side by side of which the second one has the registers after the first one's."""
    mma, operand = COPIES[name]
    wanted = stock_instructions()[mma].layout(operand)
    _, fragment = shared_and_fragment(stock_instructions()[name])
    rows, columns = wanted.shape
    assert fragment.shape == (rows, columns if operand == "A" else 2 * columns)
    for i, j in fragment.points():
        lane, register = wanted.place((i, j % columns))
        count = prod(wanted.shape) // 32
        assert fragment.place((i, j)) == (lane, register + j // columns * count), (i, j)


@pytest.mark.parametrize("name", sorted(COPIES))
def test_the_meaning_is_a_copy(name: str) -> None:
    instruction = stock_instructions()[name]
    assert instruction.is_copy
    source = instruction.meaning.tensor("S")
    numbers = np.arange(prod(e.const for e in source.shape)).reshape([e.const for e in source.shape])
    array = numbers.astype({"bf16": np.uint16, "f16": np.float16, "f32": np.float32, "i8": np.int8}[source.dtype])
    value = reference(instruction.meaning, {}, {"S": array})["D"].value
    copied = _bits(np.asarray(value, np.float32)) if source.dtype == "bf16" else value
    assert np.array_equal(copied, array)


def test_few_rows_need_few_lanes() -> None:
    """Two 8 x 8 of 16 bits: 16 addresses."""
    own = """
instruction two(S: bf16[16, 8]) -> D: bf16[16, 8] by warp since sm_75:
    D[i, j] = S[i, j]
    S[i, j] in shared at lane i, element j
    D[i, j] in lane i % 8 * 4 + j / 2, register j % 2 + i / 8 * 2
    ptx "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {D}, [{S}];"
"""
    (instruction,) = parse(Source("own.tg", own)).instructions.values()
    rows = instruction.layout("S")
    assert isinstance(rows, SharedRows)
    assert (rows.rows, rows.elements_of_a_row, rows.place((9, 3))) == (16, 8, (9, 3))
    with pytest.raises(KeyError):
        instruction.layout("Q")


@pytest.mark.parametrize("name", sorted(PTX_ISA))
def test_the_meaning_is_the_product(name: str) -> None:
    meaning = stock_instructions()[name].meaning
    random = np.random.default_rng(1)
    inputs = [t for t in meaning.tensors if t.role == "input"]
    numbers = {t.name: random.integers(-2, 3, [e.const for e in t.shape]) for t in inputs}
    arrays = {t.name: from_values(numbers[t.name], t.dtype) for t in inputs}
    result = reference(meaning, {}, arrays)["C"]
    assert np.array_equal(result.value, numbers["A"].astype(np.float64) @ numbers["B"].astype(np.float64))


def _bits(numbers: np.ndarray) -> np.ndarray:
    """The bits of small integers as bf16."""
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def test_a_slot_is_a_lane_and_an_element_of_its_registers() -> None:
    assert stock_instructions()["mma_m16n8k16_bf16"].layout("A").place((8, 9)) == (0, 7)


def test_a_file_declares_its_own() -> None:
    own = stock_instructions()["mma_m8n8k4_f64"].text.replace("mma_m8n8k4_f64", "mine")
    module = parse(Source("own.tg", f"# Mine.\n{own}\n"))
    assert module.instructions["mine"].doc == "Mine."
    assert module.instructions["mine"].text == own


@pytest.mark.parametrize(
    ("head", "runs", "runs_not"),
    [("since sm_80", ("sm_80", "sm_90", "sm_90a"), ("sm_75",)), ("for sm_90a", ("sm_90a",), ("sm_90", "sm_100"))],
)
def test_architectures(head: str, runs: tuple[str, ...], runs_not: tuple[str, ...]) -> None:
    own = stock_instructions()["mma_m8n8k4_f64"].text.replace("since sm_80", head)
    (instruction,) = parse(Source("own.tg", own)).instructions.values()
    assert all(map(instruction.runs_on, runs))
    assert not any(map(instruction.runs_on, runs_not))


def test_how_a_sum_is_added_up_depends_on_the_architecture() -> None:
    declared = stock_instructions()["mma_m16n8k16_bf16"]
    ampere, hopper = Summation(8, 24, True, "sm_80"), Summation(16, 25, True, "sm_90")
    wanted = {"sm_75": None, "sm_80": ampere, "sm_89": ampere, "sm_90": hopper, "sm_90a": hopper, "sm_120": hopper}
    assert {arch: summation_on(declared, arch) for arch in wanted} == wanted


def test_a_sum_may_keep_fewer_bits_than_its_type_has() -> None:
    declared = stock_instructions()["wgmma_m64n256k32_e4m3"]
    assert declared.summations == (Summation(32, 13, True, "sm_90a", kept=13),)


def test_integers_and_copies_have_no_error() -> None:
    stock = stock_instructions()
    assert stock["mma_m8n8k4_f64"].summations == (Summation(1, None, False, "sm_80"),)
    assert not stock["mma_m16n8k32_i8"].summations
    assert not stock["ldmatrix_a_bf16"].summations
