"""Machine code of several architectures in one file, by nvFatbin, or by the tool of the CUDA toolkit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tilegen
from tilegen.backends.compiler import fatbin, nvrtc
from tilegen.errors import DeviceError

TEXT = 'extern "C" __global__ void fill(float* x) { x[threadIdx.x] = 1.0f; }\n'
MAGIC = bytes.fromhex("50ed55ba")


@pytest.fixture(scope="module")
def parts() -> list[nvrtc.Compiled]:
    return [nvrtc.compile_text(TEXT, arch) for arch in ("sm_80", "sm_90a")]


@pytest.mark.nvrtc
def test_the_library_joins_all_parts(parts: list[nvrtc.Compiled]) -> None:
    if reason := fatbin.library_missing():
        pytest.skip(reason)
    found = fatbin.fat_binary(parts, "fill.cu")
    assert found.startswith(MAGIC)
    assert all(part.cubin in found for part in parts)


@pytest.mark.nvrtc
def test_the_tool_will_do(parts: list[nvrtc.Compiled], monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("fatbinary"):
        pytest.skip("there is no fatbinary: the CUDA toolkit has it")
    monkeypatch.setattr(fatbin, "library_missing", lambda: "the library nvFatbin is not installed")
    found = fatbin.fat_binary(parts, "fill.cu")
    assert found.startswith(MAGIC)
    assert len(found) > 1000


@pytest.mark.nvrtc
def test_without_either_the_way_out_is_told(
    parts: list[nvrtc.Compiled], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fatbin, "library_missing", lambda: "the library nvFatbin is not installed")
    monkeypatch.setattr(fatbin.shutil, "which", lambda tool: None)
    with pytest.raises(DeviceError, match="no fat binary can be made: the library nvFatbin is not installed") as caught:
        fatbin.fat_binary(parts, "fill.cu")
    with pytest.raises(DeviceError, match="no fat binary"):  # before anything is proved or compiled
        tilegen.load("vector_add").schedule("vector").export(tmp_path / "out", ["sm_80"])
    assert not (tmp_path / "out").exists()
    assert "gives NVRTC, its headers and tools" in caught.value.render()


@pytest.mark.nvrtc
def test_what_is_no_machine_code_is_refused() -> None:
    if reason := fatbin.library_missing():
        pytest.skip(reason)
    broken = nvrtc.Compiled("sm_80", b"no machine code", {})
    with pytest.raises(DeviceError, match="nvFatbin makes no fat binary of sm_80"):
        fatbin.fat_binary([broken], "fill.cu")
