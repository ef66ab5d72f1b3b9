"""The page of `tilegen report`, read as a text: what it tells, how large it is, and what is said of mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilegen
from tests.support.stock import schedule_stock
from tilegen.cli import run
from tilegen.errors import UsageError
from tilegen.installation import install_extra
from tilegen.report import report, study_of
from tilegen.report.code import code_of
from tilegen.report.study import bank_maps

SIZES = {"M": 512, "N": 512, "K": 512}


def study(schedule: str, **options):
    return study_of(schedule_stock("gemm", schedule), SIZES, **options)


@pytest.fixture(scope="module")
def tiled():
    return study("tiled", compiled=False)


def test_a_page_is_one_file_that_asks_for_nothing(tiled) -> None:
    page = report([tiled])
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"|http-equiv', "", page)


def test_several_schedules_stand_in_one_page_with_names_of_their_own(tiled) -> None:
    page = report([tiled, study("coarsened", compiled=False)], made_by="tilegen report gemm")
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert "tilegen report gemm" in page
    assert all(f"Schedule {name}" in page for name in ("tiled", "coarsened"))
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in names


def test_what_a_user_writes_is_shown_and_not_run() -> None:
    text = "kernel k(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] * 2  # </script><script>alert(1)</script>\n"
    page = report([study_of(tilegen.load(text).kernel().schedule().core, {"N": 64}, compiled=False)])
    assert "<script>alert" not in page
    assert "&lt;/script&gt;" in page


def test_each_step_leads_to_the_text_and_is_led_to() -> None:
    code = code_of(schedule_stock("gemm", "tiled"), "sm_90", compiled=False)
    by_text = {line.text.strip(): line for line in code.cuda}
    source = {line.number: line.text.strip() for line in code.source}

    def steps(text: str) -> list[str]:
        return [source[number] for number in by_text[text].sources]

    assert steps("const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)") == [
        "bind(bi, block.y)",
        "tile(i, TS) -> bi, ti",
    ]
    assert steps("A_shared[ti][tj] = A[(bi * TS + ti) * K + ko * TS + tj];") == ["cache_shared(A, at=ko)"]
    assert steps("__syncthreads();  // before the next ko overwrites A.shared and B.shared") == [
        "cache_shared(B, at=ko)",
        "cache_shared(A, at=ko)",
    ]
    assert steps("C_reg += A_shared[ti][ki] * B_shared[ki][tj];") == ["C[i, j] = sum[k](A[i, k] * B[k, j])"]
    assert steps("if (bi * TS + ti < M && ko * TS + tj < K)") == []
    assert "\n".join(line.text for line in code.cuda) + "\n" == tilegen.load("gemm").schedule("tiled").source()


def test_what_has_no_step_of_its_own_comes_from_the_loop_around_it() -> None:
    code = code_of(schedule_stock("gemm", "pipelined"), "sm_90", compiled=False)
    source = {line.number: line.text.strip() for line in code.source}
    calls = [line for line in code.cuda if line.text.strip() == "load_shared(ko, 2);"]
    assert calls
    assert {source[line.sources[0]] for line in calls} == {"pipeline(ko, STAGES)"}


@pytest.mark.nvrtc
def test_machine_code_is_that_of_the_text_and_names_its_lines() -> None:
    from tilegen.backends.compiler import sass

    code = code_of(schedule_stock("gemm", "tiled"), "sm_90")
    text = tilegen.load("gemm").schedule("tiled").source()
    plain = [each.text for listing in sass.sass(text).values() for each in listing.instructions]
    shown = [line for part in code.sass for line in part.text.splitlines() if line.startswith("  ")]
    assert [line.strip() for line in shown] == plain
    assert all(1 <= number <= len(code.cuda) for part in code.sass for number in part.sources)
    products = [part for part in code.sass if "FFMA" in part.text]
    assert {code.cuda[part.sources[0] - 1].text.strip() for part in products} == {
        "C_reg += A_shared[ti][ki] * B_shared[ki][tj];"
    }


def test_a_map_shows_who_waits_for_a_bank() -> None:
    text = """
kernel turn(A: f32[M, N]) -> B: f32[N, M]:
    B[j, i] = A[i, j]

schedule s for turn():
    tile(i, 32) -> bi, ti
    tile(j, 32) -> bj, tj
    order(bi, bj, ti, tj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(tj, thread.y)
    bind(ti, thread.x)
    cache_shared(A, at=bj)
"""
    found = tilegen.load(text).schedule("s")
    maps = list(bank_maps(study_of(found.core, {"M": 64, "N": 64}, compiled=False).explanation))
    worst = next(each for each in maps if "32-way" in each.title)
    assert len(worst.rows) == 32
    assert [row[0] for row in worst.rows] == list(range(32))
    assert "pad(A.shared, 1)" in worst.caption


def test_the_roofline_is_that_of_the_machine(tmp_path: Path) -> None:
    output = tmp_path / "out.html"
    words = ["report", "gemm", "--schedule", "tiled", "--no-compile", "--machine", "t4", "-o", str(output)]
    assert run(words) == 0
    assert "roofline of one T4" in output.read_text()
    assert "global memory, 0." in output.read_text()


def test_a_page_that_browsers_choke_on_is_refused(tiled, monkeypatch) -> None:
    monkeypatch.setattr("tilegen.report.LIMIT", 10_000)
    with pytest.raises(UsageError, match=r"the page would take \d.\d MB, and 0.01 MB is the limit"):
        report([tiled])


def test_without_a_compiler_the_page_says_so(monkeypatch) -> None:
    monkeypatch.setattr("tilegen.backends.compiler.nvrtc.unavailable_reason", lambda: "there is no compiler")
    page = report([study("tiled")])
    assert "there is no compiler" in page
    assert 'aria-label="Machine code"' not in page


def test_without_its_libraries_the_command_says_how_to_get_them(monkeypatch, cli) -> None:
    monkeypatch.setattr("tilegen.report.libraries.find_spec", lambda name: None)
    assert cli(["report", "gemm", "--schedule", "tiled"], 2).err == (
        f"error: this needs jinja2, matplotlib, plotly\n  note: {install_extra('report')}\n"
    )


def test_the_command_writes_where_it_is_told(tmp_path: Path, capsys) -> None:
    output = tmp_path / "out.html"
    assert run(["report", "vector_add", "--schedule", "vector", "--no-compile", "-o", str(output)]) == 0
    assert "Schedule vector" in output.read_text()
    assert output.as_uri() in capsys.readouterr().out
    assert run(["report", "vector_add", "--no-compile", "-o", str(tmp_path / "none" / "out.html")]) == 2
