"""Machine code: kinds of instructions, the loop that the work is in, and S7's shares of useful instructions."""

import pytest

from tests.support.stock import schedule_stock
from tilegen.backends.compiler import sass, toolkit
from tilegen.backends.text import emit
from tilegen.errors import DeviceError
from tilegen.lowering import lower

SASS = """
.text.add:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_1) ;
.L_x_0:
        /*0020*/                   LDS.128 R4, [R2] ;
        /*0030*/                   FFMA R8, R4, R5, R8 ;
        /*0040*/                   FFMA.FTZ R9, R6, R7, R9 ;
        /*0050*/                   IADD3 R2, R2, 0x10, RZ ;
        /*0060*/               @P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0070*/                   HFMA2.MMA R3, -RZ, RZ, 0, 0 ;
        /*0080*/                   STG.E desc[UR4][R10.64], R8 ;
        /*0090*/                   EXIT ;
.L_x_2:
        /*00a0*/                   BRA `(.L_x_2) ;
"""
PTX = """
.visible .entry add(
	.param .u64 add_param_0
)
{
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [add_param_0];
$L__BB0_1:
	ld.shared.f32 %f1, [%r1];
	ld.global.nc.f32 %f3, [%rd1];
	fma.rn.f32 %f2, %f1, %f1, %f2;
	@%p1 bra $L__BB0_1;
	st.global.f32 [%rd1], %f2;
	ret;
}
"""


def test_sass_is_read_and_its_loop_found():
    listing = sass.parse_sass(SASS)["add"]
    assert len(listing.instructions) == 10  # the jump to itself after the end is none of them
    hot = sass.hot(listing)
    assert (hot.what, hot.first, hot.count) == ("loop", 2, 5)
    assert hot.mix == {"multiply-add": 2, "shared load": 1, "control": 1, "integer": 1}
    kinds = [i.kind for i in listing.instructions]
    assert kinds[7:10] == ["move", "global store", "control"]


def test_instructions_know_their_lines_and_the_calls_that_were_put_in_line():
    told = """
.text.add:
	//## File "/somewhere/kernel.cu", line 4 inlined at "/somewhere/kernel.cu", line 9
	//## File "/somewhere/kernel.cu", line 9
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDS R4, [R2] ;
	//## File "/cuda/include/cuda_bf16.hpp", line 1200 inlined at "/somewhere/kernel.cu", line 12
	//## File "/somewhere/kernel.cu", line 12
        /*0020*/                   FFMA R8, R4, R5, R8 ;
	//## File "/somewhere/kernel.cu", line 13
        /*0030*/                   EXIT ;
"""
    lines = [each.lines for each in sass.parse_sass(told)["add"].instructions]
    assert lines == [(4, 9), (4, 9), (12,), (13,)]


def test_ptx_is_read_and_its_loop_found():
    hot = sass.hot(sass.parse_ptx(PTX)["add"])
    assert hot.mix == {"multiply-add": 1, "shared load": 1, "global load": 1, "control": 1}
    assert hot.useful == 1


def test_a_kernel_without_loops_is_shown_whole():
    listing = sass.parse_sass(SASS.replace("BRA `(.L_x_0)", "NOP"))["add"]
    assert sass.hot(listing).what == "kernel"


def test_a_missing_disassembler_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(toolkit, "nvdisasm", lambda: None)
    with pytest.raises(DeviceError) as found:
        sass.sass_of(None)
    assert "gives NVRTC, its headers and tools" in found.value.render()


@pytest.mark.nvrtc
@pytest.mark.parametrize(("schedule", "loads", "useful"), [("tiled", 64, 32), ("coarsened", 288, 256)])
def test_s7_useful_instructions_of_the_inner_loop(schedule, loads, useful):
    text = emit(lower(schedule_stock("gemm", schedule).tree), "cuda")
    hot = sass.hot(sass.ptx(text)["gemm"])
    # 1 of 3 before the step, 8 of 17 after it; a jump ends the loop.
    assert hot.mix["shared load"] == loads
    assert hot.useful == useful
    share = {"tiled": 1 / 3, "coarsened": 8 / 17}[schedule]
    assert hot.useful / (hot.count - hot.mix.get("control", 0)) == share


@pytest.mark.nvrtc
@pytest.mark.skipif(toolkit.nvdisasm() is None, reason="no nvdisasm")
def test_machine_code_of_a_stock_kernel():
    text = emit(lower(schedule_stock("gemm", "registers", parameters=(("TK", 8),)).tree), "cuda")
    hot = sass.hot(sass.sass(text)["gemm"])
    assert hot.mix["multiply-add"] == 64 * 8
    assert "spill" not in hot.mix


@pytest.mark.nvrtc
def test_shuffles_are_counted():
    text = emit(lower(schedule_stock("row_sum", "warps").tree), "cuda")
    assert sum(i.kind == "shuffle" for i in sass.ptx(text)["row_sum"].instructions) == 5
