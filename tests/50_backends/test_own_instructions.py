"""Instructions that a user declares: their names, their registers, and what the assembler says of their PTX."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilegen
from tests.support.reader.instructions import check_function, warp_functions
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.assembled import assemble
from tilegen.backends.compiler.instructions import device_function
from tilegen.cli import run
from tilegen.errors import SourceError
from tilegen.ir.hardware.instructions import Instruction
from tilegen.lowering import lower

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {C}, {A}, {B}, {C};"


def product(ptx: str = MMA, name: str = "mine", c: str = "C", kernel: str = "product") -> str:
    """A product by an instruction of this name, whose output is called `c`."""
    return f"""\
instruction {name}(A: bf16[16, 16], B: bf16[16, 8]) -> {c}: f32[16, 8] by warp since sm_80:
    {c}[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))
    A[i, k] in lane i % 8 * 4 + k % 8 / 2, register k % 2 + i / 8 * 2 + k / 8 * 4
    B[k, j] in lane j * 4 + k % 8 / 2, register k % 2 + k / 8 * 2
    {c}[i, j] in lane i % 8 * 4 + j / 2, register j % 2 + i / 8 * 2
    accumulates 8 terms at a time with 24 fraction bits, truncated, since sm_80
    ptx "{ptx.replace("{C}", f"{{{c}}}")}"

kernel {kernel}(A: bf16[M, K], B: bf16[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))

schedule tensor for {kernel}:
    round_up(k, 16)
    tile(i, 16) -> bi, i
    tile(j, 8) -> bj, j
    tile(k, 16) -> ko, k
    order(bi, bj, ko, i, j, k)
    bind(bi, block.y)
    bind(bj, block.x)
    cache_register(C, at=bj)
    cache_register(A, at=ko)
    cache_register(B, at=ko)
    tensorize(i, j, k, by={name})
"""


def declared(text: str, name: str = "mine") -> Instruction:
    return tilegen.load(text).instructions()[name]


def halves(*steps: str) -> Instruction:
    """A copy of 8 x 4 numbers, one in each lane, by these steps."""
    return declared(f"""\
instruction mine(S: f32[8, 4]) -> D: f32[8, 4] by warp since sm_80:
    D[i, j] = S[i, j]
    S[i, j] in lane i * 4 + j, register 0
    D[i, j] in lane i * 4 + j, register 0
    ptx "{" ".join(steps)}"
""")


@pytest.mark.parametrize(
    ("steps", "mark"),
    [
        (["mov.b32 {D}, {S};"], "="),
        (["{ .reg .b32 t; mov.b32 t, {S}; mov.b32 {D}, t; }"], "="),
        (["{ bar.warp.sync 0xffffffff; } mov.b32 {D}, {S};"], "="),
        (["mov.b32 {D}, 0;", "mov.b32 {D}, {S};"], "=&"),
        (["{ mov.b32 {D}, {S}; mov.b32 {D}, {S}; }"], "=&"),
        (["{ .reg .pred p; setp.eq.u32 p, 0, 0; @p bra end; mov.b32 {D}, {S}; end: }"], "=&"),
    ],
)
def test_what_is_written_before_all_is_read_has_registers_of_its_own(steps: list[str], mark: str) -> None:
    text = device_function(halves(*steps))
    assert f'"{mark}r"(reinterpret_cast<unsigned&>(D[0]))' in text
    if "bra" not in text:
        check_function(warp_functions(text)["mine"], halves(*steps))


def test_an_accumulator_that_is_written_first_shares_no_register_with_a_factor() -> None:
    text = device_function(declared(product("{ " + MMA.replace("{C};", "{C}; ") * 2 + "}")))
    assert '"+&f"(C[0])' in text
    assert '"+f"(C[0])' in device_function(declared(product()))


def test_no_name_of_a_declaration_meets_another_one_of_the_text() -> None:
    for text in (product(c="A_registers"), product(name="product_", c="mine")):
        scheduled = tilegen.load(text).schedule("tensor")
        found = scheduled.source("cuda")
        (instruction,) = warp_functions(found)
        check_function(warp_functions(found)[instruction], declared(text, instruction))
        assert f"{instruction}(const" not in found.split('extern "C"')[1]
        if nvrtc.unavailable_reason() is None:
            nvrtc.compile_text(found, "sm_80")


@pytest.mark.nvrtc
@pytest.mark.parametrize("command", ["emit", "check", "prove"])
def test_what_the_assembler_refuses_is_told_at_the_text(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.tg"
    path.write_text(product(MMA.replace("bf16.f32", "bf16.f33")))
    assert run([command, str(path)]) == 1
    assert "bad.tg:7:9: error: 'mine' cannot be assembled for sm_80: Unknown modifier '.f33'" in capsys.readouterr().err


@pytest.mark.nvrtc
def test_a_name_that_every_call_declares_again_is_found() -> None:
    launches = lower(tilegen.load(product(".reg .b32 t; " + MMA)).schedule("tensor").tree)
    with pytest.raises(SourceError, match="Duplicate definition of variable 't'"):
        assemble(launches)


def test_without_an_assembler_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nvrtc, "unavailable_reason", lambda: "it is away")
    (tmp_path / "own.tg").write_text(product())
    for command in ("emit", "check", "prove"):
        captured = cli([command, str(tmp_path / "own.tg")])
        assert "the PTX of mine has been before no assembler" in captured.out + captured.err, command
    assert "before no assembler" not in cli(["emit", "hgemm:padded", "--kernel", "hgemm"]).out
