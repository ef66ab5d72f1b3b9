"""The stock instructions: their layouts beside the PTX ISA's own words, and their meaning by the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilegen.errors import Source
from tilegen.frontend import parse
from tilegen.frontend.stock import stock_instructions
from tilegen.interpreter.reference import reference
from tilegen.ir.instructions import Slot

# Row and column of element `e` of a lane, as the PTX ISA writes them: g is groupID, t is threadID_in_group.
Place = Callable[[int, int, int], tuple[int, int]]
SIXTEEN: dict[str, Place] = {
    "A": lambda g, t, e: (g if e in (0, 1, 4, 5) else g + 8, t * 2 + (e & 1) + (8 if e >= 4 else 0)),
    "B": lambda g, t, e: (t * 2 + (e & 1) + (8 if e >= 2 else 0), g),
    "C": lambda g, t, e: (g if e < 2 else g + 8, t * 2 + (e & 1)),
}
PTX_ISA: dict[str, dict[str, Place]] = {
    "mma_m16n8k16_bf16": SIXTEEN,
    "mma_m16n8k16_f16": SIXTEEN,
    "mma_m16n8k16_f16_f16": SIXTEEN,
    "mma_m16n8k8_tf32": {
        "A": lambda g, t, e: (g if e in (0, 2) else g + 8, t if e in (0, 1) else t + 4),
        "B": lambda g, t, e: (t if e == 0 else t + 4, g),
        "C": SIXTEEN["C"],
    },
    "mma_m16n8k32_i8": {
        "A": lambda g, t, e: (g if e < 4 or 8 <= e < 12 else g + 8, t * 4 + (e & 3) + (0 if e < 8 else 16)),
        "B": lambda g, t, e: (t * 4 + (e & 3) + (0 if e < 4 else 16), g),
        "C": SIXTEEN["C"],
    },
    "mma_m8n8k4_f64": {
        "A": lambda g, t, e: (g, t),
        "B": lambda g, t, e: (t, g),
        "C": lambda g, t, e: (g, t * 2 + (e & 1)),
    },
}


def test_each_stock_instruction_stands_beside_the_ptx_isa() -> None:
    assert set(PTX_ISA) == set(stock_instructions())


@pytest.mark.parametrize("name", sorted(PTX_ISA))
def test_layouts_are_those_of_the_ptx_isa(name: str) -> None:
    for fragment in stock_instructions()[name].fragments:
        place = PTX_ISA[name][fragment.operand.name]
        for slot, element in fragment.elements().items():
            assert element == place(slot.lane // 4, slot.lane % 4, slot.register), (fragment.operand.name, slot)


@pytest.mark.parametrize("name", sorted(PTX_ISA))
def test_the_meaning_is_the_product(name: str) -> None:
    meaning = stock_instructions()[name].meaning
    random = np.random.default_rng(1)
    types = {"bf16": np.float32, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8}
    inputs = [t for t in meaning.tensors if t.role == "input"]
    numbers = {t.name: random.integers(-2, 3, [e.const for e in t.shape]).astype(types[t.dtype]) for t in inputs}
    arrays = {t.name: _bits(numbers[t.name]) if t.dtype == "bf16" else numbers[t.name] for t in inputs}
    result = reference(meaning, {}, arrays)["C"]
    assert np.array_equal(result.value, numbers["A"].astype(np.float64) @ numbers["B"].astype(np.float64))


def _bits(numbers: np.ndarray) -> np.ndarray:
    """The bits of small integers as bf16."""
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def test_a_slot_is_a_lane_and_an_element_of_its_registers() -> None:
    assert stock_instructions()["mma_m16n8k16_bf16"].fragment("A").slot((8, 9)) == Slot(0, 7)


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
