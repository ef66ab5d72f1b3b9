"""What is said of mistakes in a command line, whole: a golden text for each, tests/errors/cli/*.txt."""

import shlex
from pathlib import Path

import pytest

from tilegen.cli import run
from tilegen.lab.records.records import RunRecord, line_of

ERRORS = Path(__file__).parents[1] / "errors" / "cli"
OWN = """\
kernel own(A: f32[N], by: int = 2) -> B: f32[N]:
    B[i] = by * A[i]

schedule s for own(T=8 in {8, 16}):
    blocks(i, T) -> b, t
"""
TWO = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule first for sums():
    tile(j, 32) -> b, t
    bind(t, thread.x)

schedule again extends first:
    tile(i, 8) -> bi, ti

schedule second for sums():
    split(i, 32) -> b, t
"""
BEYOND = """\
kernel beyond(x: f16[N]) -> y: f16[N]:
    y[i] = (x[i] + 60000) * (x[i] + 60000) - x[i]
"""
EIGHTHS = """\
kernel eighths(x: f32[M, N]) -> y: f32[M, N] where N % 8 == 0, M <= 100:
    y[i, j] = x[i, j] + 1
"""
VECTORS = """\
kernel copy(X: f16[N]) -> Y: f16[N]:
    Y[i] = X[i]

schedule unknown for copy(V=16 / A.bytes):
    blocks(i, V) -> b, t

schedule uneven for copy(V=15 / X.bytes):
    blocks(i, V) -> b, t

schedule circle for copy(V=2 * T, T=V / 2) where T < V:
    blocks(i, V) -> b, t
"""
# name of the text -> the command
# No size is a multiple of 8 and one less than such a multiple.
PAIRS = """
kernel pairs(X: f32[N + 1]) -> Y: f32[N]:
    var t: f32[N + 1]
    t[i] = 2 * X[i]
    Y[i] = t[i] + t[i + 1]

schedule s for pairs():
    blocks(t.i, 8) -> a, b
    blocks(Y.i, 8) -> c, d
"""
COMMANDS = {
    "new_there": "new own.tg --from gemm:tiled",
    "new_no_name": "new '' --from gemm:tiled",
    "export_no_name": "export own.tg:s -o ''",
    "emit_no_name": "emit own.tg:s -o ''",
    "new_several": "new other.tg --from gemm:naive,tiled",
    "new_no_schedule": "new other.tg --from gemm:tild",
    "new_no_folder": "new none/other.tg --from gemm:tiled",
    "new_refused": "new other.tg --from two.tg:first",
    "kernels_without_a_name": "check gemm_transposed",
    "stock_no_schedule": "show gemm:tild",
    "schedule_twice": "show gemm:tiled --schedule tiled",
    "no_candidate": "show own.tg:s --set T=12",
    "several_values": "show own.tg:s --set T=8,16",
    "setting_twice": "show own.tg:s --set T=8 T=16",
    "size_not_admitted": "check eighths.tg --size N=12",
    "compare_kernels": "compare own.tg:s gemm:tiled",
    "compare_errors": "compare own.tg:s --errors",
    "compare_attribute": "compare own.tg:s --set by=2,3",
    "compare_no_file": "compare own.tg:s gem:tiled",
    "compare_no_schedule": "compare own.tg:s gemm:tild",
    "two_schedules": "prove two.tg",
    "two_schedules_alone": "compare two.tg:first,second",
    "check_nothing_compared": "check beyond.tg --device interpreter --json check.json",
    "tune_nothing_to_choose": "tune gemm:tiled --device cpu",
    "tune_no_budget": "tune own.tg --budget 0",
    "tune_bad_budget": "tune own.tg --budget soon",
    "tune_no_values": "tune own.tg --set T=12 --any-value --device cpu",
    "tune_no_search": "tune own.tg --search luck --device cpu",
    "tune_no_folder": "tune own.tg --resume none/run.jsonl --device cpu",
    "tune_no_record": "tune own.tg --resume two.tg --device cpu",
    "tune_no_machine": "tune own.tg --device cpu --machine h20",
    "tune_no_size": "tune own.tg --device cpu --size M=64",
    "parameter_computed": "show vectors.tg",
    "unknown_setting": "show own.tg:s --set TT=8",
    "machine_unknown": "explain own.tg:s --machine h20",
    "machine_no_file": "compare own.tg:s --machine mine.toml",
    "machine_steady": "compare own.tg:s --machine t4 --steady 0.35",
    "sweep_nowhere": "compare own.tg:s --size N=8..2x2",
    "sweep_too_long": "compare own.tg:s --size N=1..1000+1",
    "sweep_twice": "compare own.tg:s --size N=8,16 N=32",
    "sweep_no_number": "compare own.tg:s --size N=8,x",
    "sweep_of_another": "explain own.tg:s --size N=8..64x2",
    "plot_no_svg": "explain own.tg:s --plot roofline.png",
    "plot_no_folder": "compare own.tg:s --plot none/a.svg",
    "plot_no_file": "plot none.json",
    "plot_no_measurements": "plot own.tg",
    "report_json": "report own.tg:s --json -",
    "report_no_folder": "report own.tg:s -o none/a.html",
    "report_no_measurements": "report own.tg:s --measured own.tg",
    "report_of_record": "report c.jsonl",
    "emit_never_whole": "emit pairs.tg --whole",
    "emit_over_source": "emit own.tg:s -o own.tg",
    "json_over_source": "list own.tg --json own.tg",
    "page_over_source": "report own.tg:s -o own.tg",
    "json_over_records": "emit own.tg:s --json c.jsonl",
    "results_over_records": "records c.jsonl --t4 c.jsonl",
    "new_over_source": "new own.tg --from own.tg:s --force",
    "two_outputs": "emit own.tg:s --json both -o both",
    "tune_two_outputs": "tune own.tg --resume both --json both",
    "tune_over_records": "tune own.tg --device cpu --resume c.jsonl",
    "steady_nan": "compare own.tg:s --steady nan",
    "name_with_signs": "records '[/b]$_.json'",
}


def _of_plugin(name: str) -> object:
    """The case, with a mark where its command is, or uses, a part of tilegen that can be deleted."""
    words = COMMANDS[name].split()
    plugin = "tune" if words[0] == "tune" else "report" if {"report", "plot", "--plot"} & set(words) else ""
    return pytest.param(name, marks=[pytest.mark.plugin(plugin)] if plugin else [])


@pytest.mark.parametrize("name", [_of_plugin(each) for each in COMMANDS])
def test_a_mistake_is_told_as_reviewed(name, tmp_path, monkeypatch, capsys, golden_error) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.tg").write_text(OWN)
    (tmp_path / "two.tg").write_text(TWO)
    (tmp_path / "beyond.tg").write_text(BEYOND)
    (tmp_path / "eighths.tg").write_text(EIGHTHS)
    (tmp_path / "pairs.tg").write_text(PAIRS)
    (tmp_path / "vectors.tg").write_text(VECTORS)
    (tmp_path / "c.jsonl").write_text(f"{line_of(RunRecord('s', 'own', 'unmeasured', {'N': 8}))}\n")
    words = COMMANDS[name]
    code = run(shlex.split(words))
    captured = capsys.readouterr()
    assert (captured.out, (tmp_path / "own.tg").read_text()) == ("", OWN)
    text = f"$ tilegen {words}\n{captured.err}exit code {code}\n"
    golden_error(text, f"cli/{name}.txt")


def test_every_golden_text_is_of_a_command() -> None:
    assert {path.stem for path in ERRORS.iterdir()} == set(COMMANDS)
