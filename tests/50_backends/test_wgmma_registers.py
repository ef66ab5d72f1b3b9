"""In PTX and SASS nothing touches the registers of products between the fence, the products and the wait for them."""

from __future__ import annotations

import re

import pytest

from tests.support.cover import cover
from tests.support.devices.wgmma_registers import faults, ptx_code, sass_code
from tests.support.stock import cases, compile_stock, lower_stock
from tilegen.backends.compiler import sass
from tilegen.backends.text import emit
from tilegen.lowering.launch.timelines import Fence

SHORT = ("conv_pieces", "promoted")

PTX = """
.visible .entry product(
    .param .u64 product_param_0
)
{
    mov.f32 %f1, 0f00000000;
    mov.u32 %r1, 7;
$L__BB0_1:
    wgmma.fence.sync.aligned;
    { .reg .pred add; setp.eq.u32 add, 1, 1; wgmma.mma_async.sync.aligned.m64n8k8 {%f1, %f2}, {%r1}, %rd1, add, 1, 1; }
    wgmma.mma_async.sync.aligned.m64n8k8 {%f1, %f2}, {%r1}, %rd2, add, 1, 1;
    wgmma.commit_group.sync.aligned;
    add.s32 %r2, %r1, 1;
    wgmma.wait_group.sync.aligned 0;
    @%p1 bra $L__BB0_1;
    st.global.f32 [%rd3], %f1;
    ret;
}
"""
SASS = """
.text.product:
        /*0000*/    CS2R R24, SRZ ;
.L_x_0:
        /*0010*/    WARPGROUP.ARRIVE ;
        /*0020*/    HGMMA.64x8x8.F32.TF32 R24, R4, gdesc[UR8], R24 ;
        /*0030*/    HGMMA.64x8x8.F32.TF32 R24, R4, gdesc[UR12], R24, gsb0 ;
        /*0040*/    IADD3 R8, R4, 0x1, RZ ;
        /*0050*/    WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0060*/    @P0 BRA `(.L_x_0) ;
        /*0070*/    STG.E desc[UR4][R2.64], R25 ;
        /*0080*/    EXIT ;
"""
# What is put in place of what, and what is said of it.
FAULTS = {
    "no fence": (("wgmma.fence.sync.aligned", "WARPGROUP.ARRIVE"), ("bar.sync 0", "NOP"), "no fence"),
    "no wait": (("wgmma.wait_group.sync.aligned 0", "WARPGROUP.DEPBAR.LE gsb0, 0x0"), ("bar.sync 0", "NOP"), "runs"),
    "a later group": (("aligned 0;", "gsb0, 0x0"), ("aligned 1;", "gsb0, 0x1"), "runs"),
    "no group": (("wgmma.commit_group.sync.aligned", ", gsb0 "), ("bar.sync 0", " "), "runs"),
    "a factor is written": (("add.s32 %r2, %r1", "IADD3 R8, R4"), ("add.s32 %r1, %r2", "IADD3 R6, R8"), "runs"),
    "a result is read": (("add.s32 %r2, %r1", "IADD3 R8, R4"), ("add.s32 %r2, %f2", "IADD3 R8, R27"), "runs"),
    "another shape": (("n8k8 {%f1, %f2}, {%r1}, %rd2", "64x8x8.F32.TF32 R24, R4, gdesc[UR12]"),
                      ("n8k4 {%f1, %f2}, {%r1}, %rd2", "64x8x4.F32.TF32 R24, R4, gdesc[UR12]"), "another product"),
}  # fmt: skip


def found_in(text: str) -> list[str]:
    (listing,) = (sass.parse_ptx(text) or sass.parse_sass(text)).values()
    return faults(listing, ptx_code if listing.language == "ptx" else sass_code)


def test_what_keeps_to_the_rules_passes() -> None:
    assert found_in(PTX) == found_in(SASS) == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("text", [PTX, SASS], ids=["ptx", "sass"])
def test_what_is_against_the_rules_is_found(text: str, fault: str) -> None:
    olds, news, says = FAULTS[fault]
    (changed,) = {text.replace(old, new) for old, new in zip(olds, news, strict=True) if old in text}
    assert says in found_in(changed)[0]


def faults_of(text: str) -> list[str]:
    """Those in the PTX of a text, and in its SASS."""
    compiled, ptx = compile_stock(text, "sm_90a")
    found = [*((ptx_code, each) for each in sass.parse_ptx(ptx).values())]
    found += [(sass_code, each) for each in sass.sass_of(compiled).values()]
    return [wrong for read, listing in found for wrong in faults(listing, read)]


@pytest.mark.nvrtc
def test_a_text_that_holds_nothing_is_found() -> None:
    text = emit(lower_stock(*SHORT, whole=True))
    assert any("no fence" in each for each in faults_of(re.sub(r"hold<\d+>\(&\w+\[0\]\);\s+begin", "begin", text)))


OPTIONS = {"vectors": {}, "none": {"vector": False}, "whole": {"whole": True}}


def listed(case: tuple[str, str], version: str) -> pytest.ParameterSet:
    covered = version == "vectors" and case in cover() | cover("pairs")
    marks = () if case == SHORT else pytest.mark.long if covered else pytest.mark.nightly
    return pytest.param(case, OPTIONS[version], id=".".join((*case, version)), marks=marks)


@pytest.mark.nvrtc
@pytest.mark.parametrize(("case", "options"), [listed(case, version) for case in cases() for version in OPTIONS])
def test_stock_schedules(case: tuple[str, str], options: dict[str, bool]) -> None:
    if any(isinstance(node, Fence) for launch in lower_stock(*case) for node in launch.nodes):
        assert faults_of(emit(lower_stock(*case, **options))) == []
