"""Sizes to go through, and the pictures that commands draw of what they find."""

from __future__ import annotations

import json

import pytest

from tilegen.cli import run
from tilegen.cli.shell.arguments import parse_point, parse_points
from tilegen.errors import DeviceError, UsageError

pytest.importorskip("matplotlib")
SMALL = ["gemm:naive,tiled", "--device", "cpu"]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], [{}]),
        (["M=4"], [{"M": 4}]),
        (["M=1..9x2"], [{"M": n} for n in (1, 2, 4, 8)]),
        (["M=3..9+3"], [{"M": n} for n in (3, 6, 9)]),
        (["M=5,3,5"], [{"M": 5}, {"M": 3}]),
        (["M=N=2..4x2", "K=7"], [{"M": 2, "N": 2, "K": 7}, {"M": 4, "N": 4, "K": 7}]),
        (["M=1,2", "N=3,4"], [{"M": m, "N": n} for m in (1, 2) for n in (3, 4)]),
    ],
)
def test_points(pairs, expected) -> None:
    assert parse_points(pairs, "--size") == expected


WRONG = ["M=1..9x1", "M=0..9x2", "M=9..1x2", "M=1..9+0", "M=1..9", "M=", "=3", "M=N=", "M=x2", "M=M=3"]
NAMELESS = ["1000", "100..400x2", "8,16", "M", ""]


@pytest.mark.parametrize("pair", WRONG + NAMELESS)
@pytest.mark.parametrize("parse", [parse_point, parse_points])
def test_what_is_no_range_is_refused(pair, parse) -> None:
    with pytest.raises(UsageError):
        parse([pair], "--size")


def test_a_command_that_goes_through_none_takes_one_point() -> None:
    assert parse_point(["M=N=4", "K=8..8x2"], "--size") == {"M": 4, "N": 4, "K": 8}
    for several in ("M=8..16x2", "M=8,16"):
        with pytest.raises(UsageError, match="--size takes NAME=INTEGER, not 'M=8"):
            parse_point([several], "--size")


WITH_SIZES = ("show", "emit", "prove", "check", "compare", "tune", "ladder", "explain", "report", "export", "asm")


@pytest.mark.parametrize("command", [*WITH_SIZES, "profile"])
def test_no_command_ignores_a_size_without_a_name(command, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([command, "transpose", "--schedule", "padded", "--size", "1000"]) == 2
    assert capsys.readouterr().err == "error: --size takes NAME=INTEGER, not '1000'\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.pocl
@pytest.mark.plugin("report")
def test_a_sweep_has_a_table_for_each_size_and_a_picture(tmp_path, capsys) -> None:
    written, picture = tmp_path / "f.json", tmp_path / "f.svg"
    words = ["compare", *SMALL, "--size", "M=N=K=16..32x2", "--json", str(written), "--plot", str(picture)]
    assert run(words) == 0
    found = json.loads(written.read_text())
    sizes = [{"M": n, "K": n, "N": n} for n in (16, 32)]
    assert found["points"] == sizes
    assert [(row["name"], row["sizes"]) for row in found["rows"]] == [(n, s) for s in sizes for n in ("naive", "tiled")]
    assert "M = K = N" in picture.read_text()
    captured = capsys.readouterr()
    assert captured.out.count("gemm  M=") == 2
    assert "over the sizes" in captured.err
    again = tmp_path / "again.svg"
    assert run(["plot", str(written), "-o", str(again)]) == 0
    assert again.read_text() == picture.read_text()


@pytest.mark.pocl
def test_a_size_that_fails_does_not_cost_those_before_it(tmp_path, capsys, monkeypatch) -> None:
    from tilegen.lab.measure import tried

    def power_sizes(kernel, given, limits):
        if given["M"] > 16:
            raise DeviceError("there is not so much memory")
        return original(kernel, given, limits)

    original = tried.power_sizes
    monkeypatch.setattr(tried, "power_sizes", power_sizes)
    written = tmp_path / "f.json"
    assert run(["compare", *SMALL, "--size", "M=N=K=16..32x2", "--json", str(written)]) == 5
    assert [row["sizes"]["M"] for row in json.loads(written.read_text())["rows"]] == [16, 16]
    assert "there is not so much memory" in capsys.readouterr().err


@pytest.mark.plugin("report")
def test_a_roofline_is_drawn(tmp_path) -> None:
    picture = tmp_path / "roofline.svg"
    assert run(["explain", "gemm", "--schedule", "tiled", "--no-compile", "--plot", str(picture)]) == 0
    assert "TFLOP/s" in picture.read_text()


@pytest.mark.pocl
@pytest.mark.plugin("report")
def test_a_ladder_is_drawn_and_drawn_again_from_its_record(tmp_path) -> None:
    kernel = tmp_path / "scale.tg"
    kernel.write_text(
        "kernel scale(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] * 2\n\n"
        "schedule s for scale():\n    tile(i, 32) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n"
    )
    written, picture, again = (tmp_path / name for name in ("l.json", "l.svg", "again.svg"))
    words = ["ladder", str(kernel), "--schedule", "s", "--device", "cpu", "--size", "N=256"]
    assert run([*words, "--json", str(written), "--plot", str(picture)]) == 0
    assert "bind(t, thread.x)" in picture.read_text()
    assert run(["plot", str(written), "-o", str(again)]) == 0
    assert again.read_text() == picture.read_text()


@pytest.mark.plugin("report")
def test_where_nothing_has_a_time_there_is_nothing_to_draw(tmp_path, capsys) -> None:
    assert run(["explain", "transpose", "--schedule", "padded", "--no-compile", "--plot", str(tmp_path / "a.svg")]) == 2
    assert "there is nothing to draw" in capsys.readouterr().err
