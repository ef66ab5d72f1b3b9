"""Advice: for each waste that is counted, steps that mend it, tried, with the times predicted without and with them."""

from __future__ import annotations

import re

import pytest

import tilegen
from tests.support.cover import each_stock_schedule_long_or_nightly
from tests.support.stock import schedule_stock
from tilegen.cli import run
from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
from tilegen.lab.predict.advice import advise
from tilegen.lab.predict.machine import H200

MAP = "kernel more(A: f32[M, N]) -> C: f32[M, N]:\n    C[i, j] = A[i, j] + 1\n"
TURNED = """
schedule s for more():
    tile(i, 32) -> bi, ti
    tile(j, 8) -> bj, tj
    order(bi, bj, ti, tj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.x)
    bind(tj, thread.y)
"""
SUM = """
kernel sums(A: f32[M, K]) -> y: f32[M]:
    y[i] = sum[k](A[i, k])

schedule s for sums():
    tile(i, 64) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
TILE = """
kernel twice(A: f32[N]) -> C: f32[N]:
    var W: f32[N]
    W[i] = A[i] * 2
    C[i] = W[i] + 1

schedule s for twice():
    tile(C.i, 256) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    compute_at(W, at=b)
    cache_shared(W, at=b)
"""
PAIRS = """
kernel pairs(x: f32[N]) -> y: f32[N]:
    y[i] = sum[j](max(x[i] - x[j], 0))

schedule s for pairs():
    reassociate(y)
    tile(i, 8) -> b, w
    tile(j, 32) -> jo, jl
    order(b, w, jl, jo)
    reduce_warp(y, w, jl) -> part
    bind_warps(b, w, jl)
"""
# a text, or a stock file -> the schedule, what is wasted, the remedy
WASTES = {
    "unbound": (MAP, None, "more runs on one thread", "bind(i, block.y), tile(j, 128) -> j_b, j_t, bind(j_b, block.x)"),
    "one thread": (TILE, "s", "one thread of 256 fills 'W.shared'", "bind(W.i, thread.x)"),
    "lanes": (MAP + TURNED, "s", "lanes jump in A[bi*32 + ti, bj*8 + tj]: 12 %", "swap thread.x and thread.y in bind"),
    "sum": (SUM, "s", "'y' is read and written for each term", "cache_register(y, at=t)"),
    "reuse": ("gemm", "naive", "a block reads A and B several times", "cache_shared(A, at=ko), cache_shared(B, at=ko)"),
    "loads": ("gemm", "tiled", "2 loads for 1 multiply-adds in 'ki'", "coarsen(ti, 4) -> ti, ti_w, coarsen(tj, 4)"),
    "tests": (PAIRS, "s", "each iteration of 'jo' tests a border", "tile(jo, 8) -> jo, jo_u, unroll(jo_u)"),
    "banks": ("transpose", "tiled", "bank conflicts in X.shared, 32 wavefronts for each", "pad(X.shared, 1)"),
}


@pytest.mark.parametrize("case", WASTES)
def test_a_waste_has_a_remedy_that_is_predicted_to_help(case: str) -> None:
    text, schedule, waste, remedy = WASTES[case]
    scheduled = tilegen.load(text).kernel().schedule(schedule)
    found = advise(scheduled.core, power_sizes(scheduled.kernel, {}, GPU_LIMITS), H200)
    (told,) = [each for each in found if each.waste.startswith(waste)]
    assert remedy in told.remedy
    assert told.after < told.before
    assert [each.after for each in found] == sorted(each.after for each in found)


def test_the_first_line_of_explain_is_its_advice(cli: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "--no-compile", "--last"]
    first, *others = cli([*words, "gemm:tiled", "--size", "M=128", "N=128", "K=512"]).out.splitlines()
    assert first.startswith("advice: few blocks: 16 on 132 multiprocessors: TS=16 (")
    copied = "further advice: A is copied one element at a time: cache_shared(A, ..., vector=4) ("
    assert any(line.startswith(copied) for line in others)
    assert cli([*words, "vector_add:plain"]).out.startswith("advice: no waste was found that a step mends\n")


def test_python_advises_too() -> None:
    (first, *_) = tilegen.load(TILE).schedule("s").explain(compiled=False).advice
    assert "x 4.13" in str(first)


@pytest.mark.long
@pytest.mark.nvrtc
def test_smaller_tiles_spill_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    values = ["--any-value", "--set", "TK=4", "WM=16", "WN=16", "--size", "M=1024", "N=1024", "K=1024"]
    assert run(["explain", "gemm:registers", "--last", *values]) == 0
    told = r"advice: a thread spills \d+ bytes, which no prediction counts: W[MN]=8 \("
    assert re.search(told, capsys.readouterr().out)


@each_stock_schedule_long_or_nightly
def test_what_is_tried_on_stock_schedules_is_refused_or_legal(name: str, schedule: str) -> None:
    derivation = schedule_stock(name, schedule)
    found = advise(derivation, power_sizes(derivation.kernel, {}, GPU_LIMITS), H200)
    assert all(each.after < each.before for each in found)
