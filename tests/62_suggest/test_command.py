"""The command suggest and the method of the same name."""

import re
import warnings

import numpy
import pytest

import tilegen
from tilegen import api
from tilegen.cli import run

KERNEL = """def half(x) = 0.5 * x
kernel halves(X: f32[M, N], by: int = 2) -> Y: f32[M, N]:
    Y[i, j] = half(X[i, j]) / f32(by)
"""


def test_a_suggestion_is_a_file_of_its_own(tmp_path, capsys, cli):
    (tmp_path / "own.tg").write_text(KERNEL)
    out = tmp_path / "mine.tg"
    assert run(["suggest", f"{tmp_path}/own.tg", "--machine", "h100", "--size", "M=64", "-o", str(out)]) == 0
    assert "kernel halves and schedule suggested" in capsys.readouterr().out
    file = api.load(out)
    assert file.text.startswith("def half(x)")
    assert len(file.schedule("suggested").stages) > 3
    assert "is there already" in cli(["suggest", f"{tmp_path}/own.tg", "-o", str(out)], 2).err


def test_what_people_have_written_is_told(cli):
    told = cli(["suggest", "transpose"])
    assert "schedule suggested for transpose" in told.out
    assert "somebody has written schedules for transpose: naive, tiled" in told.err


def test_sizes_and_attributes(cli):
    file = api.from_text(KERNEL)
    assert "# with by = 4\n" in file.kernel(by=4).suggest("h100", M=8, N=8).text
    assert "for M=8, N=8" in file.kernel().suggest("h100", M=8, N=8).text
    assert "has no size 'Q'" in cli(["suggest", "transpose", "--size", "Q=3"], 2).err


def test_other_commands_ask_for_a_suggestion(tmp_path, cli):
    (tmp_path / "own.tg").write_text(KERNEL)
    own, new = f"{tmp_path}/own.tg", f"{tmp_path}/new.tg"
    cli(["new", new, "--from", own])
    assert api.load(new).schedules[0].name == "suggested"
    shown = cli(["compare", own, "--suggest", "--size", "M=8", "N=8", "--set", "by=3"]).out
    assert "unscheduled" in shown
    assert "suggested" in shown


@pytest.mark.pocl
def test_a_kernel_is_compiled_by_its_suggestion():
    program = api.from_text(KERNEL).kernel(by=4).compile(device="cpu")
    assert program(numpy.full((3, 70), 2, "f4")).tolist() == [[0.25] * 70] * 3
    (launch,) = program.choose(M=3, N=70).tree.body
    assert launch.kind == "block.x"


@pytest.mark.pocl
def test_another_order_of_terms_is_reported():
    kernel = api.from_text("kernel totals(X: f32[M, N]) -> s: f32[M]:\n    s[i] = sum[j](X[i, j])\n").kernel()
    ones = numpy.ones((3, 70), "f4")
    with pytest.warns(UserWarning, match=r"the terms of s come in another order: .*unscheduled=True"):
        assert kernel.compile(device="cpu")(ones).tolist() == [70] * 3
    with warnings.catch_warnings(action="error"):
        assert kernel.compile(device="cpu", unscheduled=True)(ones).tolist() == [70] * 3
    with pytest.raises(tilegen.errors.UsageError, match="either"):
        kernel.compile("times.jsonl", "cpu", unscheduled=True)


@pytest.mark.long
def test_a_budget_chooses_the_values_of_parameters(tmp_path, cli):
    (tmp_path / "own.tg").write_text(KERNEL)
    words = ["suggest", f"{tmp_path}/own.tg", "--size", "M=9", "N=4096", "--machine", "h100", "--budget"]
    text = cli([*words, "10m"]).out  # ends with the last candidate
    assert re.search(r"# Its parameters are the best of \d+ candidates: [\d.e-]+ ms on ", text)
    assert api.from_text(text).kernel("halves").schedule("suggested").tree
    assert "--budget takes a time" in cli([*words, "soon"], 2).err
    (tmp_path / "small.tg").write_text("kernel k(X: f32[4]) -> Y: f32[4]:\n    Y[i] = X[i] + 1\n")
    assert "nothing to try" in cli(["suggest", f"{tmp_path}/small.tg", "--budget", "10s"]).err


def test_a_stock_schedule_by_form_is_told(tmp_path, cli):
    text = "kernel mm(X: f32[T, D], W: f32[D, F]) -> Y: f32[T, F]:\n    Y[t, f] = sum[d](X[t, d] * W[d, f])\n"
    (tmp_path / "mm.tg").write_text(text)
    (tmp_path / "most.tg").write_text(text.replace("sum", "max"))
    sizes = ["--size", "T=512", "D=512", "F=512"]  # without them there is a family, too
    told = cli(["suggest", f"{tmp_path}/mm.tg", "--machine", "h100", *sizes])
    assert "gemm.across serves this kernel, too, with M = T, K = D, N = F; i = t, j = f, k = d; A = X," in told.err
    assert f"tilegen compare {tmp_path}/mm.tg --schedule gemm.across --suggest sets it beside" in told.err
    assert "serves" not in cli(["suggest", f"{tmp_path}/most.tg", "--machine", "h100", *sizes]).err
