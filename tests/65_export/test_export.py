"""`tilegen export`: the folder that it writes, what its launcher refuses, and what comes of it on a GPU."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tilegen
from tests.support.cover import first
from tests.support.exported import Made, build, load_launcher, runtime
from tilegen import __version__
from tilegen.backends.compiler import fatbin
from tilegen.backends.text.arrays import scratch_buffers
from tilegen.cli import run
from tilegen.errors import DeviceError
from tilegen.export import folder
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lab.checks.sizes import sizes_to_check

NAMES = ["vector_add.cu", "vector_add_launch.h", "vector_add.cpp", "vector_add.fatbin", "vector_add.json"]
NAMES += ["vector_add_test.cpp", "CMakeLists.txt"]
VECTOR_ADD = ["export", "vector_add", "--schedule", "vector"]


@pytest.fixture
def machine_code() -> None:
    """Skips a test where no fat binary can be made."""
    try:
        fatbin.require_tool()
    except DeviceError as error:
        pytest.skip(error.message)


# -- the folder


@pytest.mark.nvrtc
@pytest.mark.usefixtures("machine_code")
def test_a_folder_has_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run([*VECTOR_ADD, "--arch", "sm_80,sm_90", "-o", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(NAMES)
    assert "vector_add_launch.h" in capsys.readouterr().out
    told = f"exported by tilegen {__version__}: tilegen export vector_add --schedule vector --arch sm_80,sm_90 -o"
    for name in NAMES[:3] + NAMES[5:]:
        assert told in (out / name).read_text(), name
    data = json.loads((out / "vector_add.json").read_text())
    assert data["files"] == NAMES
    assert [v["name"] for v in data["versions"]] == ["whole", "vector", "scalar", "whole_64", "vector_64", "scalar_64"]
    assert set(data["resources"]) == {"sm_80", "sm_90"}
    assert data["resources"]["sm_90"]["vector_add_vector"]["spills"] == 0
    text = (out / "vector_add.cu").read_text()
    assert all(f"{launch['name']}(" in text for launch in data["launches"])


@pytest.mark.nvrtc
@pytest.mark.usefixtures("machine_code")
def test_an_export_writes_over_its_own_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run([*VECTOR_ADD, "--arch", "sm_80", "-o", str(out)]) == 0
    assert run([*VECTOR_ADD, "--arch", "sm_90", "-o", str(out)]) == 0
    assert "sm_90" in (out / "vector_add.cpp").read_text()
    capsys.readouterr()
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(["export", "transpose", "--schedule", "tiled", "-o", str(out)]) == 2
    assert "CMakeLists.txt is there, and is no file of an earlier export" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"tilegen": "0"}', '{"files": ["CMakeLists.txt"]}'])
def test_what_is_no_list_of_files_allows_nothing(broken: str, tmp_path: Path, cli: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "vector_add.json").write_text(broken)
    assert "vector_add.json is there" in cli([*VECTOR_ADD, "-o", str(tmp_path)], 2).err
    assert (tmp_path / "vector_add.json").read_text() == broken


@pytest.mark.nvrtc
@pytest.mark.usefixtures("machine_code")
def test_a_name_is_that_of_files_and_functions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = tilegen.load("vector_add").schedule("vector").export(out, ["sm_80"], name="add_fast")
    assert "add_fast.cpp" in files
    assert "cudaError_t add_fast_launch(" in (out / "add_fast_launch.h").read_text()
    assert "vector_add_launch" not in (out / "add_fast.cpp").read_text()


def test_mistakes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    (tmp_path / "file").write_text("")
    lines = []
    for arguments in (
        [*VECTOR_ADD, "-o", f"{tmp_path}/file"],
        [*VECTOR_ADD, "-o", f"{tmp_path}/no/such"],
        [*VECTOR_ADD, "--arch", "hopper", "-o", f"{tmp_path}/out"],
        [*VECTOR_ADD, "--arch", ",", "-o", f"{tmp_path}/out"],
        [*VECTOR_ADD, "--name", "int", "-o", f"{tmp_path}/out"],
        [*VECTOR_ADD, "--size", "Q=3", "-o", f"{tmp_path}/out"],
        ["export", "blur", "-o", f"{tmp_path}/out"],
        [
            "export",
            "hgemm",
            "--kernel",
            "hgemm",
            "--schedule",
            "persistent",
            "--arch",
            "sm_80",
            "-o",
            f"{tmp_path}/out",
        ],
        [
            "export",
            "hgemm",
            "--kernel",
            "hgemm",
            "--schedule",
            "persistent",
            "--arch",
            "sm_90",
            "-o",
            f"{tmp_path}/out",
        ],
    ):
        code = run(arguments)
        told = capsys.readouterr().err.replace(str(tmp_path), "DIR")
        lines += [f"$ tilegen {' '.join(arguments)}".replace(str(tmp_path), "DIR"), told.rstrip(), f"exit {code}", ""]
    golden("\n".join(lines), "export_mistakes.txt")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_others_is_told_before_anything_is_proved(
    tmp_path: Path, cli: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder.os, "access", lambda path, mode: False)  # root may write everywhere
    monkeypatch.setattr("tilegen.export.versions", lambda *_: pytest.fail("the folder comes first"))
    assert run([*VECTOR_ADD, "-o", str(tmp_path)]) == 2
    told = cli([*VECTOR_ADD, "-o", str(tmp_path / "new")], 2).err.splitlines()
    assert told == [f"error: cannot write into {tmp_path}: it is not yours to write into"] * 2


@pytest.mark.nvrtc
@pytest.mark.usefixtures("machine_code")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, cli: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "vector_add.cu").mkdir()  # nobody, root neither, writes a file in the place of a directory
    assert "vector_add.cu is there" in cli([*VECTOR_ADD, "--arch", "sm_80", "-o", str(out)], 2).err


# -- the texts


@pytest.mark.parametrize(
    ("file", "schedule", "kernel"),
    [("vector_add", "vector", None), ("gemm", "padded", None), ("hgemm", "persistent", "hgemm")],
)
def test_texts(
    file: str, schedule: str, kernel: str | None, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    made = Made(file, schedule, kernel)
    made.write(tmp_path)
    for ending in ("_launch.h", ".cpp", "_test.cpp"):
        golden((tmp_path / f"{made.name}{ending}").read_text(), f"export/{made.name}_{schedule}{ending}")


SCALED = """\
kernel scaled(alpha: bf16, X: f16[N, K] col_major, at: i64[N], k: i8, Y: f32[N - K]) -> Y: f32[N - K] where N > K:
    Y[i] = f32(alpha) * Y[i] + f32(k) * f32(X[i, 0]) + f32(X[at[i], 0] else 2)

schedule blocks for scaled:
    tile(i, 64) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


EXPORTED = [
    ("vector_add", "vector", None),
    ("gemm", "padded", None),
    ("softmax", "warps", None),
    ("row_argmax", "blocks", None),
    ("gemm_bias_gelu", "fused", None),
    ("hgemm", "persistent", "hgemm"),
    ("hgemm", "stored", "hgemm_tf32_stored"),
    (SCALED, "blocks", None),
]


@pytest.mark.parametrize(("file", "schedule", "kernel"), first(EXPORTED, 3))
def test_the_test_program_says_that_there_is_no_gpu(
    file: str, schedule: str, kernel: str | None, tmp_path: Path
) -> None:
    made = Made(file, schedule, kernel)
    made.write(tmp_path)
    program = build(tmp_path, f"{made.name}.cpp", f"{made.name}_test.cpp", to="program")
    environment = {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (77, "there is no GPU\n"), done.stderr


@pytest.mark.parametrize(("file", "schedule", "kernel"), EXPORTED)
def test_wrong_calls_are_refused(file: str, schedule: str, kernel: str | None, tmp_path: Path) -> None:
    made = Made(file, schedule, kernel)
    library = load_launcher(made, tmp_path)
    least = sizes_to_check([made.core.tree], {})[-1]
    places = {t.name: (n + 1) << 40 for n, t in enumerate(made.interface.tensors)}
    numbers = {"bf16": ctypes.c_float(1.5), "i8": ctypes.c_int8(3)}
    scalars = {s.name: numbers[s.dtype] for s in made.interface.scalars}
    first, last = made.interface.tensors[0].name, made.interface.tensors[-1].name
    width = DTYPE_BYTES[made.interface.tensors[0].dtype]

    def told(version: int | None = None, workspace: int = 1 << 60, **changed: int) -> str:
        given = {name: ctypes.c_void_p(place) for name, place in (places | changed).items()}
        arguments = [(given | scalars)[name] for name in made.interface.order]
        arguments += [ctypes.c_int64(changed.get(size, least[size])) for size in made.interface.sizes]
        call = getattr(library, f"{made.name}_launch{'' if version is None else '_as'}")
        more = (ctypes.c_void_p(workspace), ctypes.c_size_t(1 << 40), None)
        assert call(*([] if version is None else [ctypes.c_int(version)]), *arguments, *more) != 0
        return str(getattr(library, f"{made.name}_error_text")().decode())

    assert "is NULL" in told(**{first: 0})
    assert f"no multiple of {width} bytes" in told(**{first: (1 << 40) + 1})
    assert "sizes are at least 1" in told(**{made.interface.sizes[0]: -1})
    assert "share memory" in told(**{last: places[first]})
    assert "has no version" in told(version=99)
    if scratch_buffers(made.core.tree):
        assert "the workspace is NULL" in told(workspace=0)


def test_c_takes_the_header_as_the_documents_show_it(tmp_path: Path) -> None:
    Made("gemm", "padded").write(tmp_path)
    shown = (Path(__file__).parents[2] / "examples" / "language.md").read_text().split("<!-- export -->\n```c\n")[1]
    given = "const float* A, const float* B, float* C, int64_t M, int64_t K, int64_t N, void* workspace"
    function = f"void use({given}, cudaStream_t stream)\n{{\n{shown.partition('```')[0]}}}\n"
    (tmp_path / "use.c").write_text(f'#include "gemm_launch.h"\n#include <stdio.h>\n{function}')
    if runtime() is None or not shutil.which("gcc"):
        pytest.skip("no gcc, or no CUDA headers for hosts")
    headers, _ = runtime()
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", f"-I{headers}", "use.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Kernels and tensors whose names are files, functions or macros of the system, and pairs that differ little.
NAMED = ["features", "time", "string", "math", "errno", "Twice", "twice", "cuda_runtime_api", "a", "a_launch", "curand"]
SYSTEM = [
    "assert",
    "complex",
    "ctype",
    "errno",
    "float",
    "limits",
    "math",
    "setjmp",
    "signal",
    "stdio",
    "stdlib",
    "string",
    "termios",
    "time",
    "unistd",
]


def test_names_of_exports_meet_none_of_the_system_and_none_of_each_other(tmp_path: Path) -> None:
    names = []
    for name in NAMED:
        text = (
            f"kernel {name}(I: f32[B0], FF0: f32) -> ECHO: f32[B0]:\n    ECHO[i] = FF0 * I[i]\n"
            f"schedule s for {name}:\n    tile(i, 32) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n"
        )
        made = Made(text, "s")
        made.write(tmp_path)
        names.append(made.name)
    ours = [f'#include "{name}_launch.h"\n' for name in names]
    systems = [f"#include <{name}.h>\n" for name in SYSTEM]
    calls = "".join(f"    p[{n}] = (void*){name}_launch_as;\n" for n, name in enumerate(names))
    use = f"void use(void** p);\nvoid use(void** p)\n{{\n{calls}}}\n"
    (tmp_path / "first.cpp").write_text("".join(ours + systems) + use)
    (tmp_path / "last.cpp").write_text("".join(systems + ours) + use.replace("use", "again"))
    files = ["first.cpp", "last.cpp", *(f"{name}.cpp" for name in names)]
    build(tmp_path, *files, to="all.so", options=("-I.", "-isystem", ".", "-shared", "-fPIC"))
    (tmp_path / "c.c").write_text("".join(systems + ours) + use)
    headers, _ = runtime()
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-c", "-I.", "-isystem", ".", f"-I{headers}", "c.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- what a launcher refuses


def test_sentences_of_a_launcher(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    made = Made("gemm", "padded")
    library = load_launcher(made, tmp_path)
    assert library.gemm_workspace_bytes(*map(ctypes.c_int64, (129, 33, 257))) == 4 * (256 * 64 + 64 * 512)
    assert library.gemm_workspace_bytes(*map(ctypes.c_int64, (0, 33, 257))) == 0
    assert (
        library.gemm_launch(None, None, None, *map(ctypes.c_int64, (0, 33, 257)), None, ctypes.c_size_t(0), None) == 0
    )
    told = []

    def call(sizes: tuple[int, int, int], a: int = 1 << 40, b: int = 2 << 40, c: int = 3 << 40, more: int = 1 << 40):
        arrays = [ctypes.c_void_p(each) for each in (a, b, c)]
        places = ctypes.c_void_p(9 << 40), ctypes.c_size_t(more), None
        error = library.gemm_launch(*arrays, *map(ctypes.c_int64, sizes), *places)
        assert error != 0
        told.append(library.gemm_error_text().decode())

    call((1, -5, 1))
    call((8, 0, 8))
    call((2**50, 1, 1))
    call((1, 1, 1), a=0)
    call((1, 1, 1), b=(2 << 40) + 2)
    call((64, 64, 64), c=(1 << 40) + 64)
    call((64, 64, 64), more=100)
    call((64, 64, 64), a=(9 << 40) + 256)
    call((2**40, 2**40, 1), more=2**63 - 1)
    call((1, 2**24, 1), more=2**63 - 1)
    call((2**27, 1, 1), more=2**63 - 1)
    golden("\n".join(told) + "\n", "export_refusals.txt")


# -- on a GPU


ON_GPU = [
    (["vector_add", "--schedule", "vector"], "sm_80,HERE"),
    (["gemm", "--schedule", "padded"], "HERE"),
    (["gemm", "--schedule", "across"], "HERE"),
    (["softmax", "--schedule", "blocks"], "HERE"),
    (["total", "--schedule", "two_launches"], "HERE"),
    (["row_argmax", "--schedule", "blocks"], "HERE"),
    (["scaled.tg", "--schedule", "blocks"], "HERE"),
    (["hgemm", "--kernel", "hgemm", "--schedule", "persistent"], "sm_90a"),
    (["hgemm", "--kernel", "hgemm", "--schedule", "clusters"], "sm_90a"),
    (["hgemm", "--kernel", "hgemm", "--schedule", "launched_early"], "sm_90a"),
]


def here() -> str:
    """The architecture of the GPU."""
    from tilegen.backends.devices.devices import engine

    return str(engine("cuda").arch)


@pytest.mark.gpu
@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize(
    ("arguments", "archs"), ON_GPU, ids=lambda value: "-".join(value[::2]) if isinstance(value, list) else value
)
def test_an_exported_folder_computes(
    arguments: list[str], archs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built by nvcc, or by g++, with the shipped machine code."""
    if archs == "sm_90a" and here() != "sm_90":
        pytest.skip("wgmma is for sm_90a alone")
    monkeypatch.chdir(tmp_path)
    Path("scaled.tg").write_text(SCALED)
    out = tmp_path / "out"
    assert run(["export", *arguments, "--arch", archs.replace("HERE", here()), "-o", str(out)]) == 0
    name = next(out.glob("*.cu")).stem
    if nvcc := shutil.which("nvcc"):
        command = [nvcc, "-std=c++17", "-O2", f"{name}.cpp", f"{name}_test.cpp", "-o", "program"]
        subprocess.run(command, cwd=out, check=True)
    else:
        build(out, f"{name}.cpp", f"{name}_test.cpp", to="program")
    done = subprocess.run([out / "program"], capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("from_source", ["OFF", "ON"])
def test_cmake_builds_an_exported_folder(from_source: str, tmp_path: Path) -> None:
    if not shutil.which("cmake") or not shutil.which("nvcc"):
        pytest.skip("no cmake, or no CUDA toolkit")
    out, to = tmp_path / "out", tmp_path / "build"
    assert run(["export", "gemm", "--schedule", "padded", "--arch", here(), "-o", str(out)]) == 0
    subprocess.run(["cmake", "-S", out, "-B", to, f"-DGEMM_FROM_SOURCE={from_source}"], check=True)
    subprocess.run(["cmake", "--build", to], check=True)
    subprocess.run(["ctest", "--output-on-failure"], cwd=to, check=True)
    assert subprocess.run([to / "gemm_test"], check=False).returncode == 0
