"""What a GPU has to be for a text: said in its head, and refused before a compiler or a device fails."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import tilegen
from tests.support.tensor_core_kernels import PRODUCT, PRODUCT_F64, by_one_warp
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import (
    compiled_architecture,
    instructions_of,
    needed_lines,
    require_instructions,
)
from tilegen.backends.devices.cuda import CudaEngine
from tilegen.backends.text import emit
from tilegen.cli import run
from tilegen.errors import DeviceError, UsageError
from tilegen.frontend.stock import stock_instructions
from tilegen.lab.predict.explain import explain_tree
from tilegen.lowering import lower

SCALAR = """
schedule scalar for product:
    tile(i, 16) -> bi, i
    bind(bi, block.x)
    bind(i, thread.x)
"""
TEXT = PRODUCT + by_one_warp("tensor", "product", "MMA", 16, 8, 16) + SCALAR
STOCK = TEXT.replace("MMA", "mma_m16n8k16_bf16")
# One that a single architecture has, and one that is newer than the stock's.
OWN = """
instruction NAME(A: bf16[16, 16], B: bf16[16, 8]) -> C: f32[16, 8] by warp AGE:
    C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))
    A[i, k] in lane i % 8 * 4 + k % 8 / 2, register k % 2 + i / 8 * 2 + k / 8 * 4
    B[k, j] in lane j * 4 + k % 8 / 2, register k % 2 + k / 8 * 2
    C[i, j] in lane i % 8 * 4 + j / 2, register j % 2 + i / 8 * 2
    accumulates 8 terms at a time with 24 fraction bits, truncated
    ptx "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {C}, {A}, {B}, {C};"
"""
REFUSAL = """\
<stock instructions>:LINE: error: the instruction 'mma_m16n8k16_bf16' needs sm_80 or later, and this is for sm_75
  instruction mma_m16n8k16_bf16(A: bf16[16, 16], B: bf16[16, 8]) -> C: f32[16, 8] by warp since sm_80:
              ^^^^^^^^^^^^^^^^^
  note: a schedule without tensorize(..., by=mma_m16n8k16_bf16) can run on sm_75
  note: tilegen check --device cpu runs what it means, element by element"""
# The fence of wgmma is one of the instructions that sm_90a has, and plain sm_90 does not.
FENCED = (
    stock_instructions()["mma_m8n8k4_f64"]
    .text.replace("mma_m8n8k4_f64", "fenced")
    .replace("since sm_80", "for sm_90a")
    .replace('ptx "', 'ptx "wgmma.fence.sync.aligned; ')
)
FENCED += PRODUCT_F64 + by_one_warp("tensor", "product_f64", "fenced", 8, 8, 4)


def launches(text=STOCK, schedule="tensor"):
    return lower(tilegen.load(text).kernel().schedule(schedule).tree)


def own(age):
    return OWN.replace("NAME", "mine").replace("AGE", age) + TEXT.replace("MMA", "mine")


def heads(text):
    return [line for line in emit(launches(text), "cuda", "kernel product").split("\n\n")[0].splitlines()]


def test_a_text_says_what_it_needs():
    assert heads(STOCK) == ["// kernel product", "// needs sm_80 or later: mma_m16n8k16_bf16"]
    assert list(needed_lines(instructions_of(launches(schedule="scalar")))) == []
    opencl = tilegen.load(STOCK).kernel("product").schedule("tensor").source("opencl")
    assert "sm_80" not in opencl


@pytest.mark.parametrize(
    ("age", "line", "runs_on", "not_on"),
    [
        ("since sm_90", "needs sm_90 or later: mine", ["sm_90", "sm_90a", "sm_100"], ["sm_80", "sm_89"]),
        ("for sm_90a", "needs sm_90a, and no other: mine", ["sm_90a"], ["sm_80", "sm_90", "sm_100", "sm_100a"]),
    ],
)
def test_instructions_of_a_user_have_an_age(age, line, runs_on, not_on):
    found = launches(own(age))
    assert heads(own(age))[1] == f"// {line}"
    for arch in runs_on:
        require_instructions(found, arch)
    for arch in not_on:
        with pytest.raises(DeviceError, match=f"'mine' needs .*, and this is for {arch}"):
            require_instructions(found, arch)


def test_an_older_gpu_is_told_before_anything_is_compiled():
    engine = object.__new__(CudaEngine)  # without a GPU: nothing of it is touched
    engine.arch, engine.name = "sm_75", "Tesla T4"
    with pytest.raises(DeviceError, match="needs sm_80 or later, and Tesla T4 is sm_75") as caught:
        engine.build("no text at all", launches())
    assert caught.value.exit_code == 5


@pytest.fixture
def hopper(monkeypatch):
    """The engine of an H100 that is not there, and the files that cupy would load."""
    given = []

    class Module:
        def __init__(self, path):
            self.path = path

        def get_function(self, name):
            given.append(Path(self.path).read_bytes())
            return name

    monkeypatch.setattr(CudaEngine, "__init__", lambda self: None)
    engine = CudaEngine()
    engine.arch, engine.name, engine.xp = "sm_90", "NVIDIA H100", SimpleNamespace(RawModule=Module)
    return engine, given


@pytest.mark.nvrtc
def test_a_gpu_has_the_instructions_of_its_own_architecture(hopper):
    engine, given = hopper
    found = launches(FENCED)
    text = emit(found, "cuda")
    assert engine.build(text, found) == {"product_f64": "product_f64"}
    assert given == [nvrtc.compile_text(text, "sm_90a").cubin]
    with pytest.raises(DeviceError, match="'wgmma.fence' not supported on .target 'sm_90'"):
        nvrtc.compile_text(text, "sm_90")


def test_no_gpu_has_those_of_another_one(hopper):
    engine, given = hopper
    with pytest.raises(DeviceError, match="needs sm_100a, and no other, and NVIDIA H100 is sm_90"):
        engine.build("no text at all", launches(own("for sm_100a")))
    assert given == []


def test_only_what_asks_for_it_is_compiled_for_the_specific_architecture():
    for age, arch in [("since sm_80", "sm_90"), ("since sm_90", "sm_90"), ("for sm_90a", "sm_90a")]:
        assert compiled_architecture(instructions_of(launches(own(age))), "sm_90") == arch
    assert compiled_architecture(instructions_of(launches(own("for sm_90a"))), "sm_100") == "sm_100"
    assert compiled_architecture(instructions_of(launches(own("for sm_90a"))), "sm_90a") == "sm_90a"


@pytest.mark.nvrtc
def test_explain_compiles_for_the_specific_architecture():
    (report,) = explain_tree(tilegen.load(FENCED).kernel().schedule("tensor").tree, {"M": 64, "N": 64, "K": 64})
    assert report.resources


def test_an_architecture_whose_gpus_have_it_is_told_their_own():
    with pytest.raises(DeviceError) as caught:
        require_instructions(launches(own("for sm_90a")), "sm_90")
    assert caught.value.notes[0] == "GPUs of sm_90 have it: name sm_90a"


def test_the_refusal_is_as_reviewed():
    with pytest.raises(DeviceError) as caught:
        tilegen.load(STOCK).kernel("product").schedule("tensor").source(arch="sm_75")
    place = f"{caught.value.span.line}:{caught.value.span.column}"
    assert caught.value.render() == REFUSAL.replace("LINE", place)


@pytest.mark.parametrize("command", ["emit", "asm"])
def test_commands_refuse_an_architecture(command, tmp_path, capsys):
    file = tmp_path / "p.tg"
    file.write_text(STOCK)
    assert run([command, str(file), "--schedule", "tensor", "--arch", "sm_75"]) == 5
    assert "needs sm_80 or later, and this is for sm_75" in capsys.readouterr().err
    assert run([command, str(file), "--schedule", "tensor", "--arch", "hopper"]) == 2
    assert "there is no architecture 'hopper'" in capsys.readouterr().err


def test_emit_for_an_architecture_that_has_it(tmp_path, capsys):
    file = tmp_path / "p.tg"
    file.write_text(STOCK)
    assert run(["emit", str(file), "--schedule", "tensor", "--arch", "sm_89"]) == 0
    assert "// needs sm_80 or later: mma_m16n8k16_bf16\n" in capsys.readouterr().out


def test_only_real_words_are_architectures():
    with pytest.raises(UsageError) as caught:
        require_instructions(launches(), "sm90")
    assert caught.value.notes[0] == "did you mean 'sm_90'?"


@pytest.mark.parametrize("arch", ["sm_9", "sm_5", "sm_999", "sm_90x", "word", ""])
def test_an_architecture_that_nobody_knows_never_reaches_a_compiler(arch):
    with pytest.raises(UsageError) as caught:
        tilegen.load(STOCK).kernel("product").schedule("tensor").source(arch=arch or "sm_")
    assert caught.value.notes[-1].startswith("known are sm_75, sm_80, ")


@pytest.mark.pocl
def test_a_check_without_a_gpu_says_what_it_shows(tmp_path, cli):
    file = tmp_path / "p.tg"
    file.write_text(STOCK)
    words = ["check", str(file), "--device", "cpu", "--size", "M=16", "N=8", "K=16", "--schedule"]
    assert "mma_m16n8k16_bf16: the CPU computed the meaning, element by element." in cli([*words, "tensor"]).out
    assert "element by element" not in cli([*words, "scalar"]).out
