"""Families: what may serve a kernel, what the model of time chooses for which sizes, and what runs then."""

import sys

import numpy as np
import pytest

import tilegen
from tilegen import api
from tilegen.errors import SourceError, UsageError
from tilegen.lab.choice.model import Coefficients
from tilegen.lab.predict.machine import stock_machine
from tilegen.lab.records.records import Device, RunRecord, line_of

TEXT = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule rows for sums(T=4):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)

schedule lanes for sums(R=8 in {4, 8}):
    reassociate(S)
    tile(i, R) -> b, w
    share_warp(j, 32) -> c, l, v
    order(b, w, l, c, v)
    reduce_warp(S, w, l) -> part
    bind_warps(b, w, l)

family fast for sums:
    rows(T in {4, 32})
    lanes where N % 64 == 0, N >= 512
"""


def names(chooser) -> list[str]:
    return [each.name for each in chooser.candidates]


@pytest.mark.pocl
def test_sizes_choose_a_member_and_it_runs() -> None:
    program = api.from_text(TEXT).kernel().compile(device="cpu")
    assert names(program.chooser) == ["rows(T=4)", "rows(T=32)", "lanes"]
    for shape, name in (((7, 4096), "lanes"), ((7, 4095), "rows(T=4)"), ((40000, 8), "rows(T=32)")):
        assert program.choose(M=shape[0], N=shape[1]).name == name
        a = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
        assert (program(a) == a.sum(axis=1)).all()
        program.prepare(a, S=(out := np.zeros(shape[0], np.float32)))()
        assert (out == a.sum(axis=1)).all()
    assert len(program._programs) == 3
    assert len(program._chosen) == 6


@pytest.mark.pocl
def test_one_order_of_summation_gives_each_row_the_same_bits() -> None:
    kernel = tilegen.load("gemm").kernel()
    program = kernel.compile(device="cpu", deterministic=True)
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((1024, 300), np.float32), rng.standard_normal((300, 1024), np.float32)
    assert program.choose(M=3, N=1024, K=300).name != program.choose(M=1024, N=1024, K=300).name
    assert (program(a[:3], b) == program(a, b)[:3]).all()
    assert names(api.from_text(TEXT).kernel().family(deterministic=True)) == ["rows(T=4)", "rows(T=32)"]
    assert not {"split_k(KP=4096)", "padded"} & set(
        names(tilegen.load("hgemm").kernel("hgemm").family(deterministic=True))
    )


def test_each_machine_has_the_members_that_it_can_run() -> None:
    kernel = tilegen.load("hgemm").kernel("hgemm")
    assert kernel.family("a100").choose(M=4000, N=4000, K=4000).name in ("overlapped", "padded")
    assert kernel.family("h100").choose(M=4000, N=4000, K=4000).name not in ("overlapped", "padded")
    with pytest.raises(UsageError, match="no member of the family 'fast' is for M=64 N=64 K=64") as caught:
        kernel.family("t4").choose(M=64, N=64, K=64)
    assert any("needs sm_80" in note for note in caught.value.notes)


def test_a_wave_more_takes_as_long_as_a_whole_one() -> None:
    kernel = tilegen.load("gemm").kernel()
    across = next(c for c in kernel.family("h100").candidates if c.name == "across(TM=128, TN=128)")
    times = {M: across.microseconds({"M": M, "N": 128 * 11, "K": 4096}) for M in (128 * 12, 128 * 12 + 1, 128 * 24)}
    assert times[128 * 12 + 1] == pytest.approx(times[128 * 24], rel=1e-3)
    assert times[128 * 24] > 1.5 * times[128 * 12]


def test_a_choice_evaluates_formulas_and_does_nothing_else() -> None:
    """New sizes cost some calls of functions for each member: no tree is walked, and nobody asks isl."""
    chooser = tilegen.load("hgemm").kernel("hgemm").family("h100")
    chooser.choose(M=4000, N=4000, K=4000)
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code) if event == "call" else None)
    try:
        chooser.choose(M=4008, N=4008, K=4008)
    finally:
        sys.setprofile(None)
    assert len(calls) < 40 * len(chooser.candidates)
    assert {code.co_filename.rsplit("/")[-1] for code in calls} <= {
        "family.py", "model.py", "parameter_facts.py", "<string>", "test_family.py",
    }  # fmt: skip


def test_sizes_may_be_called_as_words_of_python() -> None:
    text = TEXT.replace("M", "lambda").replace("N >=", "min >=").replace("N", "min")
    chooser = api.from_text(text).kernel().family("h100")
    assert chooser.choose(**{"lambda": 7, "min": 4096}).name == "lanes"


def test_times_of_tuning_take_part(tmp_path) -> None:
    file = api.from_text(TEXT)
    machine = stock_machine("h100")
    text = file.text
    record = RunRecord(
        name="lanes R=4", kernel="sums", outcome="measured", sizes={"M": 64, "N": 4096}, text=text, schedule="lanes",
        parameters={"R": 4}, constants={}, device=Device(machine.devices[0], True), samples=(0.001,),
    )  # fmt: skip
    (tmp_path / "tune.jsonl").write_text(line_of(record) + "\n")
    chooser = file.kernel().family(machine, tmp_path / "tune.jsonl")
    assert chooser.choose(M=64, N=4096).name == "tuned: lanes R=4"
    assert chooser.candidates[-1].microseconds({"M": 64, "N": 4096}) == pytest.approx(1.0)
    assert chooser.explain(M=64, N=4095).chosen.name != "lanes"


def test_facts_speak_of_parameters_and_leave_out_sums_with_nothing_to_split() -> None:
    text = TEXT.replace(
        "lanes where N % 64 == 0, N >= 512", "lanes(R in {4, 8}) where N > 100 * R\n    rows where N > T"
    )
    chooser = api.from_text(text).kernel().family("h100")
    found = {n: [c.name for c in chooser.candidates if c.serves({"M": 3, "N": n})] for n in (4, 5, 801)}
    both = ["rows(T=4)", "rows(T=32)"]
    assert found == {4: both, 5: [*both, "rows"], 801: [*both, "lanes(R=4)", "lanes(R=8)", "rows"]}
    assert chooser.explain(M=3, N=500).to_json()["members"]["lanes(R=8)"] == "not N > 100 * R"
    for kernel in ("hgemm", "hgemm_f16", "hgemm_nt"):
        members = tilegen.load("hgemm").kernel(kernel).family("h100").candidates
        assert not [c.name for c in members if "KP" in c.parameters and c.serves(dict.fromkeys("MNK", 512))]


def test_coefficients_are_those_of_the_machine() -> None:
    candidate = tilegen.load("gemm").kernel().family("a100").candidates[0]
    assert candidate.coefficients == Coefficients()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("row(T=4)", "kernel 'sums' has no schedule 'row'"),
        ("rows(U=4)", "'rows' has no parameter 'U'"),
        ("rows where K == 4", "kernel 'sums' has no size 'K'"),
    ],
)
def test_what_a_family_may_not_say(line, message) -> None:
    with pytest.raises(SourceError, match=message):
        api.from_text(TEXT + f"    {line}\n")


def test_all_stock_families_are_of_schedules_that_can_be_applied() -> None:
    found = 0
    for name in api.stock_names():
        file = tilegen.load(name)
        for family in file.families:
            found += len(file.kernel(family.kernel).family("h100").candidates)
    assert found >= 20
