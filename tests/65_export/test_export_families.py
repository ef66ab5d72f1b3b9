"""Exported families: the launcher chooses the member that Python chooses, and calls that."""

from __future__ import annotations

import ctypes
import json
import random
from pathlib import Path

import pytest

import tilegen
from tests.support.cover import first
from tests.support.exported import build
from tilegen import api
from tilegen.backends.compiler import fatbin
from tilegen.cli import run
from tilegen.errors import DeviceError, UsageError
from tilegen.export.c_names import family_interface, interface
from tilegen.export.family import family_launcher
from tilegen.export.header import header
from tilegen.lab.choice.family import Chooser

# Facts with all operators, a size that is a word of Python's, and a division by 0.
ODD = """\
kernel sums(A: f32[lambda, N]) -> S: f32[lambda]:
    S[i] = sum[j](A[i, j])

schedule rows for sums(T=4):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)

schedule lanes for sums(R=8):
    reassociate(S)
    tile(i, R) -> b, w
    share_warp(j, 32) -> c, l, v
    order(b, w, l, c, v)
    reduce_warp(S, w, l) -> part
    bind_warps(b, w, l)

family fast for sums:
    rows(T=4) where not N % 3 == 0 or lambda // 2 < 100, (N - 5) // 7 * 2 != -2 or N >= 3
    rows(T=32) where 100 // (N - 40) < 3 and lambda > 2
    lanes where N % 64 == 0, N + 1 >= 512 - 0 * lambda
"""
FAMILIES = [("gemm", "gemm"), ("rows", "softmax_rows"), (ODD, "sums"), ("hgemm", "hgemm")]


def load_family(chooser: Chooser, folder: Path) -> ctypes.CDLL:
    """The launcher of a family, its members replaced by functions that return a number each."""
    members = {f"{chooser.kernel.name}_{n}": c for n, c in enumerate(chooser.candidates) if not c.refused}
    found = family_interface(next(iter(members.values())).tree)
    (folder / found.header).write_text(header(found, "//"))
    (folder / "family.cpp").write_text(family_launcher(found, members, chooser, "//"))
    stubs = []
    for number, (name, member) in enumerate(members.items()):
        own = interface(member.tree, name)
        (folder / own.header).write_text(header(own, "//"))
        types = ", ".join([*own.parameters(), "void*", "size_t", "cudaStream_t"])
        sizes = ", ".join("int64_t" for _ in own.sizes)
        stubs += [
            f'#include "{own.header}"',
            f"cudaError_t {name}_launch({types}) {{ return cudaError_t({number} ? {100 + number} : 0); }}",
            f"size_t {name}_workspace_bytes({sizes}) {{ return {number + 1}; }}",
            f'const char* {name}_error_text() {{ return "it is {number}"; }}',
            f"cudaError_t {name}_load() {{ return cudaError_t({number} == 1); }}",
        ]
    (folder / "members.cpp").write_text("\n".join(stubs) + "\n")
    options = ("-shared", "-fPIC", "-Wno-unused-parameter", "-I.")
    library = ctypes.CDLL(str(build(folder, "family.cpp", "members.cpp", to="family.so", options=options)))
    getattr(library, f"{found.name}_workspace_bytes").restype = ctypes.c_size_t
    for word in ("error_text", "version_name"):
        getattr(library, f"{found.name}_{word}").restype = ctypes.c_char_p
    return library


@pytest.mark.parametrize(("file", "kernel"), first(FAMILIES, 3), ids=[kernel for _, kernel in FAMILIES])
def test_the_launcher_chooses_the_member_that_python_chooses(file: str, kernel: str, tmp_path: Path) -> None:
    chooser = (api.from_text(file) if "\n" in file else tilegen.load(file)).kernel(kernel).family("h100")
    library, dice, seen = load_family(chooser, tmp_path), random.Random(3), set()
    known = {name: getattr(library, f"{kernel}_{name}") for name in ("version", "version_name", "workspace_bytes")}
    names = chooser.kernel.sizes
    arrays = [None] * (len(chooser.kernel.parameters) + 1)
    drawn = [{name: int(2 ** dice.uniform(0, 17)) // unit * unit or 1 for name in names} for unit in (1, 16, 64) * 60]
    for sizes in drawn * 2:
        given = [ctypes.c_int64(sizes[name]) for name in names]
        number = known["version"](*arrays, *given)
        try:
            wanted = chooser.choose(**sizes).name
        except UsageError:
            wanted = "none"
        assert known["version_name"](number).decode() == wanted, sizes
        assert known["workspace_bytes"](*given) == number + 1
        seen.add(wanted)
    assert len(seen) > 2


def test_calls_go_to_the_member(tmp_path: Path) -> None:
    chooser = api.from_text(ODD).kernel().family("h100")
    library = load_family(chooser, tmp_path)

    def call(rows: int, columns: int, *version: int) -> tuple[int, str]:
        sizes, more = map(ctypes.c_int64, (rows, columns)), (None, ctypes.c_size_t(0), None)
        launch = library.sums_launch_as if version else library.sums_launch
        error = launch(*version, None, None, *sizes, *more)
        return error, library.sums_error_text().decode() if error else ""

    assert [chooser.choose(**{"lambda": 7, "N": n}).name for n in (8, 4096)] == ["rows(T=4)", "lanes"]
    assert call(7, 8) == (0, "")
    assert call(7, 4096) == (102, "it is 2")
    assert call(7, 8, 1) == (101, "it is 1")
    assert call(7, 8, 9) == (1, "sums has no version 9; there are 3")
    assert call(7, 8, -1)[1] == "sums has no version 3; there are 3"
    assert call(300, 42) == (1, "no member of sums is for these sizes")
    assert library.sums_version(None, None, ctypes.c_int64(300), ctypes.c_int64(40)) == 0
    assert call(7, 0) == (1, "size N is 0, and sizes are at least 1")
    assert call(0, 8) == (0, "")
    assert (library.sums_load(), library.sums_error_text().decode()) == (1, "it is 1")


@pytest.mark.long
@pytest.mark.nvrtc
def test_a_folder_has_all_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        fatbin.require_tool()
    except DeviceError as error:
        pytest.skip(error.message)
    (tmp_path / "own.tg").write_text(ODD)
    out = tmp_path / "out"
    words = ["export", str(tmp_path / "own.tg"), "--arch", "sm_80", "--name", "total", "-o", str(out)]
    assert run(words) == 0
    data = json.loads((out / "total.json").read_text())
    assert sorted(path.name for path in out.iterdir()) == sorted(data["files"])
    members = ["total_rows_T_4", "total_rows_T_32", "total_lanes"]
    assert [each["file"] for each in data["members"]] == members
    assert "--schedule fast --arch sm_80" in (out / "total.cpp").read_text()
    assert all(f"add_code({name} -gencode arch=compute_80,code=sm_80)" in (out / "CMakeLists.txt").read_text()
               for name in members)  # fmt: skip
    sources = ["total.cpp", "total_test.cpp", *(f"{name}.cpp" for name in members)]
    assert build(out, *sources, to="program").exists()
    capsys.readouterr()
    assert run([*words[:1], "hgemm:fast", "--kernel", "hgemm", "--arch", "sm_75", "-o", str(out)]) == 2
    assert "no member of the family 'fast' is for sm_75" in capsys.readouterr().err
    assert run([*words[:1], "gemm", "--arch", "hopper", "-o", str(out)]) == 2
    assert "there is no architecture 'hopper'" in capsys.readouterr().err
