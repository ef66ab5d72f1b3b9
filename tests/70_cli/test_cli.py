"""The command line: what it prints, where, and how it ends."""

import json
from pathlib import Path

import pytest

from tilegen.cli import run
from tilegen.cli.shell.arguments import parse_list, parse_numbers, repeat_options
from tilegen.errors import UsageError

BAD = """\
kernel twice(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]

schedule wrong for twice():
    tile(i, 32) -> b, t
    bind(b, block.x)
    bind(q, thread.x)
"""
ILLEGAL = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule racy for sums():
    tile(j, 32) -> b, t
    bind(t, thread.x)
"""


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "mine.tg"
        path.write_text(text)
        return str(path)

    return write


# -- words


def test_sizes_stand_behind_one_option() -> None:
    words = ["compare", "gemm", "--size", "M=1", "N=2", "--json", "f"]
    assert repeat_options(words) == ["compare", "gemm", "--size", "M=1", "--size", "N=2", "--json", "f"]
    assert repeat_options(["check", "--set", "TM=1", "gemm"]) == ["check", "--set", "TM=1", "gemm"]
    assert repeat_options(["check", "gemm", "--size"]) == ["check", "gemm", "--size"]


def test_numbers_and_lists() -> None:
    assert parse_numbers(["M=4", "N=-5"], "--size") == {"M": 4, "N": -5}
    assert parse_list("a, b,c,") == ["a", "b", "c"]
    assert parse_list(None) == []
    for wrong in (["M"], ["M=x"], ["M=1", "M=2"], ["=3"]):
        with pytest.raises(UsageError):
            parse_numbers(wrong, "--size")


# -- endings


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "gem"], 2, "did you mean 'gemm'?"),
        (["show", "gemm", "--schedule", "tild"], 2, "did you mean 'tiled'?"),
        (["show", "gemm", "--kernel", "gem"], 2, "did you mean 'gemm'?"),
        (["show", "gemm", "--schedule", "tiled", "--set", "TX=3"], 2, "did you mean 'TS'?"),
        (["show", "gemm", "--size", "Q=3"], 2, "no size or attribute 'Q'"),
        (["compare", "gemm", "--size", "Q=3"], 2, "no size 'Q'"),
        (["check", "gemm", "--size", "M=0"], 2, "size M is 0"),
        (["check", "gemm", "--device", "nvidia"], 2, "there is no device 'nvidia'\n  note: did you mean 'cuda'?"),
        (["emit", "gemm"], 2, "say --schedule"),
        (["emit", "gemm", "--schedule", "tiled", "--target", "metal"], 2, "metal"),
        (["shwo", "gemm"], 2, "No such command"),
        (["show"], 2, "Missing argument"),
        (["emit", "gemm", "--schedule", "tiled", "-o", "/no/such/folder/f.cu"], 2, "cannot write"),
    ],
)
def test_mistakes_end_with_a_sentence_and_a_code(arguments, code, says, cli) -> None:
    captured = cli(arguments, code)
    assert says in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_a_mistake_in_a_schedule_shows_its_line(file, cli) -> None:
    error = cli(["show", file(BAD), "--schedule", "wrong"], 1).err
    assert "mine.tg:7:" in error
    assert "    bind(q, thread.x)\n" in error
    assert "^" in error


def test_an_illegal_schedule_ends_with_3_and_a_witness(file, cli) -> None:
    error = cli(["show", file(ILLEGAL), "--schedule", "racy"], 3).err
    assert "mine.tg:6:" in error
    assert "witness:" in error


def test_a_text_that_does_not_parse_ends_with_1(file, cli) -> None:
    assert "mine.tg:" in cli(["show", file("kernel k(\n")], 1).err


# -- show and emit


def test_show_prints_the_kernel_or_a_schedule_s_tree(cli) -> None:
    assert "for k < K" in cli(["show", "gemm"]).out
    assert "shared A.shared: f32[16, 16]" in cli(["show", "gemm", "--schedule", "tiled", "--set", "TS=16"]).out


def test_show_takes_the_only_schedule(cli, tmp_path) -> None:
    (tmp_path / "one.tg").write_text(
        "kernel k(A: f32[N]) -> C: f32[N]:\n    C[i] = A[i]\nschedule s for k:\n    blocks(i, 8) -> b, t\n"
    )
    assert "for b < (N + 7)/8  block.x" in cli(["show", str(tmp_path / "one.tg")]).out


def test_show_flat_is_the_schedule_with_the_steps_that_it_inherits(capsys) -> None:
    assert run(["show", "transpose", "--schedule", "padded", "--flat"]) == 0
    assert (
        capsys.readouterr().out
        == """\
# One unused element a row, and a column lies in 32 different banks.
schedule padded for transpose(TS=32, ROWS=8):
    tile(i, TS) -> bi, ti
    tile(j, TS) -> bj, tj
    order(bi, bj, tj, ti)
    bind(bi, block.y)
    bind(bj, block.x)
    tile(tj, ROWS) -> wj, tj
    order(tj, ti, wj)
    unroll(wj)
    bind(tj, thread.y)
    bind(ti, thread.x)
    cache_shared(X, at=bj)
    pad(X.shared, 1)
"""
    )


def test_show_steps_is_a_difference(cli) -> None:
    out = cli(["show", "gemm", "--schedule", "naive", "--steps"]).out
    assert "tile(i, 32) -> bi, ti" in out or "tile(i, TS) -> bi, ti" in out
    assert "\n- for i < M\n" in out
    assert "\n+ for bi < (M + 31)/32\n" in out


def test_show_json_has_every_stage(cli) -> None:
    (shown,) = json.loads(cli(["show", "gemm", "--schedule", "naive", "--json", "-"]).out)
    assert shown["schedule"] == "naive"
    assert shown["stages"][0]["step"] is None
    assert len(shown["stages"]) > 7


def test_emit_writes_either_language(tmp_path, capsys, cli) -> None:
    target = tmp_path / "gemm.cu"
    assert run(["emit", "gemm", "--schedule", "tiled", "-o", str(target)]) == 0
    assert "__global__" in target.read_text()
    assert capsys.readouterr().out == ""
    assert "__kernel" in cli(["emit", "gemm", "--schedule", "tiled", "--target", "opencl"]).out


def test_emit_fixes_sizes(cli) -> None:
    assert "int K" not in cli(["emit", "gemm", "--schedule", "tiled", "--size", "K=64", "M=128", "N=96"]).out


def test_emit_has_a_version_for_any_alignment(tmp_path, cli) -> None:
    target = tmp_path / "launches.json"
    words = ["emit", "gemm", "--schedule", "registers", "--json", str(target), "-o", str(tmp_path / "gemm.cu")]
    assert run(words) == 0
    assert "float4" in (tmp_path / "gemm.cu").read_text()
    (launch,) = json.loads(target.read_text())["launches"]
    assert launch["arrays"] == ["A", "B", "C"]
    assert launch["sizes"] == ["M", "K", "N"]
    assert launch["block"] == [16, 16, 1]
    assert launch["requires"]
    assert run([*words, "--scalar"]) == 0
    assert "float4" not in (tmp_path / "gemm.cu").read_text()
    assert json.loads(target.read_text())["launches"][0]["requires"] == []
    assert "long long" in cli(["emit", "gemm", "--schedule", "tiled", "--wide"]).out


def test_emit_tells_all_that_a_launch_needs(cli) -> None:
    words = ["emit", "gemm", "--schedule", "padded", "--set", "TM=64", "--size", "K=40", "--json", "-"]
    found = json.loads(cli(words).out)
    assert found["parameters"]["TM"] == 64
    assert found["tensors"][0] == {"name": "A", "dtype": "f32", "shape": ["M", "40"], "order": [0, 1], "role": "input"}
    sizes = {"M": 65, "N": 3}
    elements = {"A.global": 64 * 128, "B.global": 64 * 256}  # K and M, or N, rounded up to whole tiles
    assert {each["name"]: each["dtype"] for each in found["scratch"]} == dict.fromkeys(elements, "f32")
    for each in found["scratch"]:
        assert eval(each["bytes"].replace("/", "//"), {}, sizes) == 4 * elements[each["name"]]
    last = found["launches"][-1]
    assert [(each["name"], each["type"], each["of"]) for each in last["arguments"]] == [
        ("C", "float* __restrict__", "C"),
        ("A_global", "const float* __restrict__", "A.global"),
        ("B_global", "const float* __restrict__", "B.global"),
        ("M", "int", "M"),
        ("N", "int", "N"),
    ]
    assert [(each["option"], each["requires"]) for each in found["versions"]] == [
        ("", ["N%4 == 0"]),
        ("--whole", ["N%256 == 0", "M%64 == 0"]),
        ("--scalar", []),
    ]


def test_emit_tells_of_dynamic_memory_maps_and_clusters(capsys) -> None:
    assert run(["emit", "hgemm", "--kernel", "hgemm", "--schedule", "clusters", "--json", "-"]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert launch["dynamic_shared_bytes"] == launch["shared_bytes"] > 48 * 1024
    assert launch["cluster"] == [1, 2, 1]
    kinds = [each["is"] for each in launch["arguments"]]
    assert kinds == sorted(kinds, key=["array", "tensor map", "scalar", "size"].index)
    assert {each["describes"] for each in launch["tensor_maps"]} == {"A", "B"}
    assert launch["tensor_maps"][0]["type"] == "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"


@pytest.mark.pocl
def test_a_wrong_result_ends_with_4(monkeypatch, capsys) -> None:
    from tilegen.errors import WrongResult
    from tilegen.lab.checks import check

    def wrong(*_):
        raise WrongResult("C is wrong: 1 of 6 elements are wrong", witness="C[0, 0] is 1 and has to be 2")

    monkeypatch.setattr(check, "check_case", wrong)
    assert run(["check", "gemm", "--schedule", "naive", "--size", "M=2", "N=3", "K=4", "--device", "cpu"]) == 4
    assert "naive: error: C is wrong" in capsys.readouterr().err


# -- check and compare


@pytest.mark.pocl
def test_check_passes_a_right_schedule(capsys) -> None:
    code = run(["check", "gemm", "--schedule", "naive", "--size", "M=37", "N=41", "K=5", "--device", "cpu"])
    assert code == 0
    out = capsys.readouterr().out
    assert "M=37 K=5 N=41" in out
    assert "right, all" in out


@pytest.mark.pocl
def test_check_prints_the_share_without_a_bound(file, capsys) -> None:
    text = "kernel wave(A: f32[N]) -> B: f32[N]:\n    B[i] = sin(9 * A[i] + 9)\n\n"
    fast = "schedule fast for wave():\n    fast_math(sin)\n    blocks(i, 32) -> b, t\n"
    assert run(["check", file(text + fast), "--size", "N=400", "--device", "interpreter"]) == 0
    assert "% of the elements have no bound" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["check"], ["compare"], ["ladder", "--limit", "1"]])
def test_what_compares_nothing_is_no_pass(words, file, cli) -> None:
    text = "kernel wave(A: f32[N]) -> B: f32[N]:\n    B[i] = sin(A[i] * 1e6 + 1e7)\n\n"
    fast = "schedule fast for wave():\n    fast_math(sin)\n    blocks(i, 32) -> b, t\n"
    captured = cli([words[0], file(text + fast), "--size", "N=400", "--device", "interpreter", *words[1:]], 6)
    assert "nothing was compared" in captured.out + captured.err
    assert "right" not in captured.out


def test_sizes_at_which_nothing_is_compared_are_named(file, cli) -> None:
    text = "kernel away(A: f32[M, N]) -> B: f32[M, N]:\n    var s: f32[M]\n    s[i] = sum[j](A[i, j])\n"
    text += "    B[i, j] = 1 / (A[i, j] - s[i] / f32(N))\n"  # of one element, 1 / 0 or nearly so
    out = cli(["check", file(text), "--device", "interpreter"]).out
    assert "not compared: no bound" in out
    assert "right, 2 of 3, on the interpreter; nothing was compared in the others" in out


def test_check_json(tmp_path) -> None:
    target = tmp_path / "check.json"
    sizes = ["--size", "M=5", "N=6", "K=7"]
    assert run(["check", "gemm", "--schedule", "tiled", *sizes, "--device", "cpu", "--json", str(target)]) == 0
    result = json.loads(target.read_text())
    assert [t["data"] for t in result["right"]["tiled"]] == ["integers", "random"]
    assert result["wrong"] == {}


@pytest.mark.pocl
def test_compare_with_sizes_in_the_kernel(tmp_path, capsys) -> None:
    target = tmp_path / "times.json"
    words = ["compare", "gemm", "--schedule", "naive", "--fix", "K=16", "M=32", "--size", "N=32", "--device", "cpu"]
    assert run([*words, "--json", str(target)]) == 0
    assert json.loads(target.read_text())["sizes"] == {"K": 16, "M": 32, "N": 32}
    assert run(["check", "gemm", "--schedule", "naive", "--fix", "K=16", "--device", "cpu"]) == 0
    assert run(["check", "gemm", "--schedule", "naive", "--fix", "K=16", "--size", "K=8", "--device", "cpu"]) == 2
    assert "has no size 'K'" in capsys.readouterr().err


def test_a_parameter_is_not_fixed(capsys):
    assert run(["check", "gemm", "--schedule", "tiled", "--fix", "TS=8"]) == 2
    assert "TS is a parameter of the schedule, not a size\n  note: --set TS=8 sets it" in capsys.readouterr().err


def test_compare_lists_every_schedule_and_says_where_it_ran(tmp_path, cli) -> None:
    target = tmp_path / "times.json"
    words = ["compare", "transpose", "--size", "M=64", "N=96", "--device", "cpu", "--json", str(target)]
    out = cli(words).out
    for text in ("naive", "tiled", "padded", "PoCL ms", "GB/s", "no GPU was found"):
        assert text in out
    result = json.loads(target.read_text())
    *rows, chosen = [row["name"] for row in result["rows"]]
    assert rows == ["naive", "tiled", "padded", "swizzled", "larger", "vectors"]
    assert chosen.startswith("fast: ")
    assert all(row["error"] is None and row["trials"] for row in result["rows"])
    assert result["sizes"] == {"M": 64, "N": 96}
