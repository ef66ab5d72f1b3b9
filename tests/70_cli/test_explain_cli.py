"""The commands explain, asm and ladder: what they print, and how they end."""

import json

import pytest

from tilegen.cli import run


def test_explain_prints_the_numbers_of_the_lecture(cli):
    sizes = ["--size", "M=1024", "N=1024", "K=1024"]
    text = cli(["explain", "gemm", "--schedule", "coarsened", *sizes, "--no-compile"]).out
    assert "9 loads from shared and 0 from global memory for 8 multiply-adds" in text
    assert "2*K*M*N/32" in text
    assert "coarsen(ti, WPT) -> ti, wi" in text


def test_explain_shows_the_map_and_the_remedy(cli):
    text = cli(["explain", "transpose", "--schedule", "tiled", "--last", "--no-compile"]).out
    assert "32-way bank conflict" in text
    assert "lanes  0.. 7  bank   0   0   0   0   0   0   0   0" in text
    assert "X.shared: pad(X.shared, 1) -> no conflict is left, 128 bytes more" in text
    assert "X.shared: swizzle(X.shared, 1) -> no conflict is left" in text


def test_explain_shows_where_a_swizzle_puts_the_lanes(cli):
    text = cli(["explain", "transpose", "--schedule", "swizzled", "--last", "--no-compile", "--maps"]).out
    assert "load of X.shared[ti, wj*8 + tj]: 1-way bank conflict" in text
    assert "lanes 24..31  bank  24  25  26  27  28  29  30  31" in text


def test_explain_as_json(cli):
    words = ["explain", "conv1d", "--schedule", "shared", "--size", "N=4096", "--last", "--no-compile", "--json", "-"]
    found = json.loads(cli(words).out)
    (launch,) = found["steps"][0]["launches"]
    assert launch["shared_bytes"] == 520
    assert launch["occupancy"]["blocks"] == 16


@pytest.mark.parametrize("command", ["explain", "asm", "ladder"])
def test_a_command_for_one_schedule_refuses_several(command, cli):
    assert f"{command} takes one schedule" in cli([command, "blur"], 2).err


def test_a_family_is_explained_by_the_member_that_it_chooses(cli):
    words = ["explain", "gemm", "--size", "M=16", "N=4096", "K=4096", "--last", "--no-compile", "--machine", "h100"]
    found = json.loads(cli([*words, "--json", "-"]).out)
    assert found["family"]["chosen"].startswith(found["schedule"])
    out = cli(words).out
    assert out.startswith("family fast  M=16 K=4096 N=4096  for one H100")
    assert all(f" {name} " in out for name in found["family"]["members"])
    assert len([line for line in out.splitlines() if " chosen " in line]) == 1


def test_a_family_alone_is_compared_at_each_size(cli):
    words = ["compare", "gemm:fast", "--size", "M=N=64,4096", "K=64", "--machine", "h100", "--json", "-"]
    rows = [row["name"] for row in json.loads(cli(words).out)["rows"]]
    assert len(set(rows)) == len(rows) == 2
    assert all(name.startswith("fast: ") for name in rows)


def test_an_unknown_size_is_a_mistake(cli):
    assert "has no size 'Q'" in cli(["explain", "gemm", "--schedule", "naive", "--size", "Q=4"], 2).err


@pytest.mark.parametrize("words", ["explain --no-compile --last --json -", "prove --json -"])
def test_sizes_are_fixed_as_check_fixes_them(words, capsys):
    command, *options = words.split()
    assert run([command, "gemm", "--schedule", "naive", *options, "--fix", "K=64"]) == 0
    assert command == "prove" or set(json.loads(capsys.readouterr().out)["sizes"]) == {"M", "N"}
    assert run([command, "gemm", "--schedule", "naive", *options, "--fix", "Q=64"]) == 2
    assert "has no size or attribute 'Q'" in capsys.readouterr().err


def test_a_constant_given_as_a_size_is_told_apart(capsys):
    assert run(["explain", "row_sum", "--schedule", "warps", "--size", "N=64"]) == 2
    assert "a constant of the kernel: --set N=64 changes it" in capsys.readouterr().err


@pytest.mark.nvrtc
def test_asm_shows_the_loop_and_its_mix(cli):
    text = cli(["asm", "gemm", "--schedule", "tiled", "--ptx"]).out
    assert "1 of 3 beside jumps" in text
    assert "64 loads for 32 multiply-adds" in text
    assert "fma.rn.ftz.f32" in text


def test_ladder_shows_every_line(cli):
    text = cli(["ladder", "transpose", "--schedule", "padded", "--device", "interpreter"]).out
    for line in ("as written", "tile(i, TS) -> bi, ti", "pad(X.shared, 1)"):
        assert line in text
    assert "say nothing of a GPU" in text


@pytest.mark.parametrize("target", ["softmax:blocks", "layer_norm:blocks", "conv2d:tiled", "hgemm:swizzled"])
def test_outside_a_terminal_nothing_is_cropped(target, cli):
    text = cli(["explain", target, "--no-compile", "--last"]).out
    (heads,) = [line for line in text.splitlines() if line.split()[:1] == ["step"]]
    assert heads.split()[-2:] == ["ms", "limit"]
    assert "\u2026" not in text


def test_a_loop_without_iterations_moves_nothing(tmp_path, capsys) -> None:
    text = "kernel none(A: f32[N, N], x: f32[N]) -> y: f32[N]:\n    y[i] = sum[k in i..i](A[i, k] * x[k])\n\n"
    (tmp_path / "none.tg").write_text(text + "schedule s for none:\n    blocks(i, 32) -> b, t\n")
    assert run(["explain", str(tmp_path / "none.tg"), "--no-compile"]) == 0


def test_explain_of_a_loop_without_iterations_has_rows_without_requests(cli):
    words = ["explain", "gemm", "--schedule", "across", "--size", "M=128", "N=256", "K=8", "--no-compile", "--last"]
    rows = [line.split() for line in cli(words).out.splitlines() if "load global" in line]
    assert any(row[-3:] == ["0", "0", "100%"] for row in rows), rows
    assert any(row[-1] != "0" for row in rows)
