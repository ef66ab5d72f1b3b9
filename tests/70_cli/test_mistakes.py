"""Mistakes of the user's, told as that: one sentence, where it is, the exit code of the README, never a traceback."""

import io
import subprocess
import sys

import numpy as np
import pytest

import tilegen
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices import cuda
from tilegen.cli import run
from tilegen.errors import ArgumentError, SourceError, StepError, TilegenError, UsageError

COMMANDS = (["show"], ["emit"], ["prove"], ["explain", "--no-compile"], ["check"], ["compare"], ["ladder"], ["asm"])
SCALED = """\
kernel scaled(A: f32[N, N], by: int = 2) -> B: f32[N, N]:
    B[i, j] = by * A[i, j]

schedule rows for scaled(TS=16 in {16, 32}):
    tile(i, TS) -> bi, ti
    bind(bi, block.x)
    bind(ti, thread.x)
"""
SHRUNK = """\
kernel shrunk(X: f32[W], F: f32[R], stride: int = 1) -> Y: f32[(W - R)/stride + 1]:
    Y[x] = sum[r](X[x*stride + r] * F[r])
"""
ONE = "kernel one(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n"


def nested_tiles(count: int) -> str:
    loops = ["i", *(f"o{n}" for n in range(count))]
    lines = [f"    tile({old}, 1) -> {new}, t{n}\n" for n, (old, new) in enumerate(zip(loops, loops[1:], strict=False))]
    return f"{ONE}schedule deep for one:\n{''.join(lines)}"


def many(count: int, of: str) -> str:
    if of == "loops":
        ranges = ", ".join(f"i{n} in 0..2" for n in range(count))
        return f"kernel long(A: f32[N]) -> B: f32[1]:\n    B[z] = sum[{ranges}](A[i0])\n"
    dims, indices = (", ".join(f"{letter}{n}" for n in range(count)) for letter in "Ni")
    return f"kernel wide(A: f32[{dims}]) -> B: f32[{dims}]:\n    B[{indices}] = A[{indices}]\n"


IN_THE_TEXT = {
    "a schedule for a kernel that is nowhere": (ONE + "schedule s for nosuch:\n    tile(i, 3) -> a, b\n", "3:16"),
    "facts that no sizes have": (ONE.replace("f32[N]:", "f32[N] where N > 5, N < 3:"), "1:"),
    "a tensor that is always empty": (ONE.replace("f32[N]:", "f32[N - 7] where N < 5:"), "1:"),
    "a read outside": (ONE.replace("A[i]", "A[i + 1]"), "2:"),
    "an element twice": (ONE.replace("B[i]", "B[i/2]"), "2:"),
    "an unknown step": (ONE + "schedule s for one:\n    tlie(i, 3) -> a, b\n", "4:5"),
    "an unknown loop": (ONE + "schedule s for one:\n    tile(q, 3) -> a, b\n", "4:5"),
    "200 dimensions": (many(200, "dimensions"), "1:"),
    "200 loops": (many(200, "loops"), "2:"),
    "200 nested tiles": (nested_tiles(200), ":5"),
    "a tile beyond 64 bits": (ONE + "schedule s for one:\n    tile(i, 99999999999999999999) -> a, b\n", "4:13"),
    "tiles that are beyond them together": (
        f"{ONE}schedule s for one:\n    tile(i, {2**62}) -> a, b\n    tile(a, 4) -> c, d\n",
        "5:5",
    ),
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("what", IN_THE_TEXT)
def test_a_mistake_in_the_text_ends_with_1_and_a_caret(what, command, tmp_path, cli) -> None:
    text, place = IN_THE_TEXT[what]
    (tmp_path / "mine.tg").write_text(text)
    steps = ["--steps"] if command == ["show"] else []
    said = cli([command[0], str(tmp_path / "mine.tg"), *command[1:], *steps], 1).err
    assert f"mine.tg:{place}" in said or ":5: error" in said and place == ":5"
    assert "^" in said


IN_THE_COMMAND = [
    ["--size", "N=12345678901234567890"],
    ["--size", f"N={'9' * 5000}"],
    ["--size", "N=0"],
    ["--size", "Q=3"],
    ["--size", "N=x"],
    ["--size", "N=1.5"],
    ["--set", "TX=3"],
    ["--set", "TS=1.5"],
    ["--schedule", "nosuch"],
    ["--kernel", "nosuch"],
    ["--json", "/no/such/folder/f.json"],
    ["--json", "x" * 5000],
    ["--json", "/"],
    ["--nosuch"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("words", IN_THE_COMMAND, ids=lambda words: " ".join(words)[:24])
def test_a_mistake_in_the_command_ends_with_2(words, command, tmp_path, cli) -> None:
    (tmp_path / "mine.tg").write_text(SCALED)
    captured = cli([command[0], str(tmp_path / "mine.tg"), *command[1:], *words], 2)
    assert captured.out == ""  # nothing has run
    assert len(captured.err) < 1000


@pytest.mark.parametrize("file", ["nosuch.tg", "x" * 5000, "a\0b", ".", "", "/dev/null/x", "/proc/1/mem"])
def test_what_is_no_file_ends_with_2(file, cli) -> None:
    assert len(cli(["show", file], 2).err) < 800
    if file not in ("nosuch.tg", "/proc/1/mem"):
        assert len(cli(["emit", "gemm", "--schedule", "tiled", "-o", file], 2).err) < 800


def test_what_no_gpu_can_launch_is_refused_before_anything_is_computed(cli, monkeypatch) -> None:
    monkeypatch.setattr("tilegen.lab.checks.check.cases", None)
    said = cli("check transpose:tiled --size M=3000000 N=16 --device interpreter", 3).err
    assert "transpose needs 93750 blocks along y" in said


def test_a_schedule_at_another_place_is_shown_its_own(cli) -> None:
    assert "note: a schedule stands behind a colon, gemm:tiled" in cli("check gemm tiled", 2).err
    for words in ("suggest gemm:tiled", "check gemm:tiled:naive"):  # the first one takes no schedule, the other one
        assert "there is no file 'gemm:tiled'" in (said := cli(words, 2).err)
        assert said.endswith("note: did you mean 'gemm'?\n")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_sizes_at_which_a_tensor_is_empty(command, tmp_path, cli) -> None:
    (tmp_path / "mine.tg").write_text(SHRUNK)
    assert "extent" in cli([command[0], str(tmp_path / "mine.tg"), *command[1:], "--size", "W=3", "R=7"], 2).err


def test_a_device_or_a_compiler_that_is_missing_ends_with_5(monkeypatch, cli) -> None:
    monkeypatch.setattr(cuda, "unavailable_reason", lambda: "no GPU was found")
    assert "no GPU was found" in cli(["check", "gemm", "--schedule", "naive", "--device", "cuda"], 5).err
    monkeypatch.setattr(nvrtc, "unavailable_reason", lambda: "there is no compiler")
    assert "there is no compiler" in cli(["asm", "gemm", "--schedule", "naive"], 5).err


def test_text_from_standard_input(monkeypatch, cli) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(ONE))
    assert "B[i] = A[i]" in cli(["show", "-"]).out


@pytest.mark.parametrize("words", ["explain gemm:tiled --no-compile", "show gemm --steps", "prove gemm:naive,tiled"])
def test_a_closed_pipe_is_no_failure(words) -> None:
    command = f"{sys.executable} -m tilegen {words} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout.split()[-1], done.stderr) == ("0", "")


def test_a_value_that_is_no_candidate_is_used_where_that_is_said(tmp_path, cli) -> None:
    (tmp_path / "mine.tg").write_text(SCALED)
    words = ["show", str(tmp_path / "mine.tg"), "--schedule", "rows", "--set", "TS=48"]
    assert "TS=48 is none of the candidates of TS\n" in cli(words, 2).err
    captured = cli([*words, "--any-value"])
    assert captured.err == ""
    assert "< 48" in captured.out


def test_one_name_with_two_values_is_a_mistake(tmp_path, cli) -> None:
    (tmp_path / "mine.tg").write_text(SCALED)
    assert "by is to be 3 and 4" in cli(["show", str(tmp_path / "mine.tg"), "--size", "by=3", "--set", "by=4"], 2).err


FRACTION = """\
kernel shifted(A: f32[N], eps: float = 1e-5, by: int = 2) -> B: f32[N]:
    B[i] = by * A[i] + eps

schedule s for shifted(T=4 in {4, 8}):
    blocks(i, T) -> b, t
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["eps=0.25"], None),
        (["eps=2", "T=8"], None),
        (["eps=x"], "eps is 'x', and a number is wanted"),
        (["by=0.5"], "by is 0.5, and an integer is wanted"),
        (["T=0.5"], "--set takes NAME=INTEGER, not 'T=0.5'"),
        (["eps=0.1,0.2"], "--set takes NAME=INTEGER, not 'eps=0.1,0.2'"),
    ],
)
def test_fractions_are_for_attributes_that_may_be_ones(given, said, tmp_path, capsys) -> None:
    (tmp_path / "mine.tg").write_text(FRACTION)
    code = run(["emit", str(tmp_path / "mine.tg"), "--set", *given])
    captured = capsys.readouterr()
    assert code == (2 if said else 0)
    assert said in captured.err if said else f"+ {float(given[0].partition('=')[2])}f" in captured.out


# -- from Python


@pytest.mark.parametrize("value", ["0.5", None, float("nan"), True, 2**2000])
def test_an_attribute_that_is_no_number_is_refused(value) -> None:
    with pytest.raises(UsageError, match="a number is wanted"):
        tilegen.load(FRACTION).kernel(eps=value)


def test_what_was_given_as_a_fraction_is_given_again() -> None:
    file = tilegen.load(FRACTION)
    scheduled = file.kernel(eps=np.float32(0.5), by=3).schedule("s")
    assert scheduled.to_text().startswith("# with eps = 0.5, by = 3\n")
    assert scheduled.tree == file.schedule("s", {"by": 3, "eps": 0.5}).tree != file.schedule("s", {"by": 3}).tree


@pytest.mark.parametrize("value", ["16", 4.5, True, None, 2**70, np.float32(2)])
def test_a_parameter_that_is_no_integer_is_refused(value) -> None:
    file = tilegen.load(SCALED)
    for wrong in (
        lambda: file.schedule("rows", TS=value),
        lambda: file.kernel(N=value),
        lambda: file.kernel(by=value),
        lambda: file.kernel().schedule("rows", TS=value),
        lambda: file.schedule("rows", {"N": value}),
    ):
        with pytest.raises(UsageError, match="integer"):
            wrong()
    if not isinstance(value, str):
        with pytest.raises((StepError, UsageError)):
            file.kernel().schedule().tile("i", value, into=("a", "b"))


def test_integers_of_numpy() -> None:
    file = tilegen.load(SCALED)
    given = file.schedule("rows", {"N": np.int64(32), "by": np.uint8(3)}, TS=np.int32(8))
    assert given.tree == file.schedule("rows", {"N": 32, "by": 3}, TS=8).tree
    plain = file.kernel().schedule()
    assert plain.tile("i", np.int16(4), into=("a", "b")).tree == plain.tile("i", 4, into=("a", "b")).tree


ODD = """\
kernel odd(A: f32[name, self]) -> self2: f32[name, self]:
    self2[arrays, i] = A[arrays, i]
"""


def test_names_of_python_s_own_are_names() -> None:
    ready = tilegen.load(ODD).kernel(name=3).schedule().bind("arrays", "block.x")
    assert ready.kernel.sizes == ("self",)
    assert tilegen.load(ODD).kernel(**{"self": 3}).ir.sizes == ("name",)


@pytest.fixture(scope="module")
def scaled():
    return tilegen.load(SCALED).schedule("rows").compile("cpu")


def test_read_only_arrays(scaled) -> None:
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    a.flags.writeable = False
    assert (scaled(a) == 2 * a).all()
    assert (scaled(a, N=np.int64(4)) == 2 * a).all()
    with pytest.raises(ArgumentError, match="B is read-only"):
        scaled(np.ones((4, 4), np.float32), B=a)
    for size in ("4", 4.0, True):
        with pytest.raises(TilegenError, match="an integer is wanted"):
            scaled(a, N=size)


def test_a_call_at_sizes_without_elements() -> None:
    shrunk = tilegen.load(SHRUNK).kernel().schedule().bind("x", "block.x").compile("cpu")
    with pytest.raises(ArgumentError, match="has an extent of -3 where R = 7, W = 3"):
        shrunk(np.ones(3, np.float32), np.ones(7, np.float32))


# -- stock schedules


def test_another_kernel_of_a_stock_name_does_not_get_its_schedules(tmp_path, cli) -> None:
    other = "kernel gemm(A: f32[M, K], x: f32[K]) -> y: f32[M]:\n    y[i] = sum[k](A[i, k] * x[k])\n"
    file = tilegen.load(other)
    assert not file.schedules
    assert "other loops or tensors" in file.remark
    (tmp_path / "mine.tg").write_text(other)
    assert "other loops or tensors" in cli(["show", str(tmp_path / "mine.tg")]).err
    assert run(["show", str(tmp_path / "mine.tg"), "--schedule", "tiled"]) == 2


@pytest.mark.parametrize(
    "change", [("N]", "N2]"), ("C: f32[M, N]", "C: f32[M, N] where M % 8 == 0"), ("A[i, k]", "2 * A[i, k]")]
)
def test_a_kernel_with_other_sizes_facts_or_values_gets_the_stock_schedules(change) -> None:
    text = "kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    assert "tiled" in [s.name for s in tilegen.load(text.replace(*change)).schedules]


@pytest.mark.parametrize(
    "change",
    [
        ("f32", "f64"),
        ("[k](A[i, k] * B[k,", "[l](A[i, l] * B[l,"),
        ("sum[", "max["),
        ("M]:", "M] col_major:"),
        ("C", "D"),
    ],
)
def test_a_kernel_with_other_loops_or_tensors_does_not_get_stock_schedules(change) -> None:
    text = "kernel gemm(A: f32[M, M], B: f32[M, M]) -> C: f32[M, M]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    assert tilegen.load(text).schedules
    assert tilegen.load(text.replace(*change)).schedules == ()


def test_every_stock_file_has_the_kernels_of_its_schedules() -> None:
    for name in tilegen.api.stock_names():
        file = tilegen.load(name)
        assert {s.kernel for s in file.schedules} <= set(file.kernels), name


def test_a_schedule_for_a_kernel_that_is_nowhere() -> None:
    with pytest.raises(SourceError, match="there is no kernel 'gemn'") as caught:
        tilegen.load("schedule mine for gemn(T=8):\n    tile(i, T) -> b, t\n")
    assert "did you mean 'gemm'?" in str(caught.value)
