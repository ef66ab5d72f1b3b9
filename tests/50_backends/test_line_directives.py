"""#line directives: the text is the same without them, and machine code is of the lines of the schedule."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import tilegen
from tests.support.stock import schedule_stock
from tilegen.backends.calls.origins import emit_with_places
from tilegen.backends.compiler import nvrtc, toolkit
from tilegen.backends.text import emit
from tilegen.cli import run
from tilegen.lowering import lower

SOURCE = """\
kernel scale(A: f32[N], by: f32) -> B: f32[N]:
    B[i] = A[i] * by

schedule s for scale(T=64):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
CASES = [("gemm", "tiled"), ("gemm", "across"), ("hgemm", "ping_pong"), ("softmax", "blocks")]


def places(text: str) -> list[tuple[str, int, str]]:
    """(file, line, what stands there) for each line of a text, as a compiler counts."""
    found, file, number = [], "own.cu", 1
    for line in text.splitlines():
        if match := re.fullmatch(r'#line (\d+) "(.*)"', line):
            file, number = match[2], int(match[1])
            continue
        found.append((file, number, line))
        number += 1
    return found


@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_without_its_directives_the_text_is_the_same(name: str, schedule: str) -> None:
    derivation = schedule_stock(name, schedule)
    launches = lower(derivation.tree)
    text = emit_with_places(launches, derivation, "own.cu")
    assert "\n".join(line for *_, line in places(text)) + "\n" == emit(launches)
    lines = text.splitlines()
    for file, number, line in places(text):
        if file == "own.cu" and line.strip() and not line.lstrip().startswith("//"):
            assert lines[number - 1] == line


def test_a_line_is_of_the_step_that_gave_it_its_form(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scale.tg").write_text(SOURCE)
    assert run(["emit", "scale.tg", "--lines", "-o", "own.cu"]) == 0
    schedule = SOURCE.splitlines()
    of = {line.strip(): (file, number) for file, number, line in places(Path("own.cu").read_text())}
    path = str(tmp_path / "scale.tg")

    def step(text: str) -> str:
        file, number = of[text]
        assert file == path
        return schedule[number - 1].strip()

    assert step("const int b = blockIdx.x;   // tile(i, T) -> b, t; bind(b, block.x)") == "bind(b, block.x)"
    assert step("const int t = threadIdx.x;  // bind(t, thread.x)") == "bind(t, thread.x)"
    assert step("B[b * T + t] = A[b * T + t] * by;") == "B[i] = A[i] * by"
    assert of["if (b * T + t < N)"][0] == "own.cu"


def test_a_stock_schedule_is_named_by_its_file() -> None:
    text = tilegen.load("gemm").schedule("tiled").source(lines="gemm.cu")
    (path,) = {Path(file) for file, *_ in places(text)} - {Path("own.cu"), Path("gemm.cu")}
    number = next(number for _, number, line in places(text) if "for (int ko" in line)
    assert path.read_text().splitlines()[number - 1].strip() == "tile(k, TS) -> ko, ki"


@pytest.mark.nvrtc
@pytest.mark.parametrize(("name", "schedule"), CASES[::2])
def test_machine_code_is_the_same_and_of_the_lines_of_the_schedule(name: str, schedule: str, tmp_path: Path) -> None:
    if toolkit.nvdisasm() is None:
        pytest.skip("no nvdisasm to read machine code with")
    derivation = schedule_stock(name, schedule)
    launches = lower(derivation.tree)
    arch = "sm_90a" if name == "hgemm" else "sm_90"
    said = []
    for text in (emit(launches), emit_with_places(launches, derivation, "kernel.cu")):
        file = tmp_path / "kernel.cubin"
        file.write_bytes(nvrtc.compile_text(text, arch, lines=True).cubin)
        command = [str(toolkit.nvdisasm()), "-g", "-c", str(file)]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    code = [[line for line in text.splitlines() if re.search(r"/\*[0-9a-f]{4,}\*/", line)] for text in said]
    assert code[0] == code[1]
    files = set(re.findall(r'//## File "(.*?)", line', said[1]))
    assert {Path(each).name for each in files} >= {f"{name}.tg", "kernel.cu"}


def test_lines_are_for_cuda_alone(capsys) -> None:
    assert run(["emit", "gemm", "--schedule", "tiled", "--target", "opencl", "--lines"]) == 2
    assert capsys.readouterr().err == ("error: --lines is for CUDA\n  note: no profiler reads the lines of OpenCL\n")
