"""Families: what may serve a kernel, what the model of time chooses for which sizes, and what runs then."""

import sys
from functools import cache
from random import Random

import numpy as np
import pytest

import tilegen
from tilegen import api
from tilegen.errors import SourceError, UsageError
from tilegen.lab.choice.family import Candidate, Chooser
from tilegen.lab.choice.model import Coefficients, Parts
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


@cache
def stock_family(file: str, kernel: str, machine: str = "h100") -> Chooser:
    """What chooses among the members of a stock family, which are made once."""
    return tilegen.load(file).kernel(kernel).family(machine)


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


@pytest.mark.long
@pytest.mark.pocl
def test_one_order_of_summation_gives_each_row_the_same_bits() -> None:
    kernel = tilegen.load("gemm").kernel()
    program = kernel.compile(device="cpu", deterministic=True)
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((1024, 300), np.float32), rng.standard_normal((300, 1024), np.float32)
    assert program.choose(M=3, N=1024, K=300).name != program.choose(M=1024, N=1024, K=300).name
    assert (program(a[:3], b) == program(a, b)[:3]).all()
    assert names(api.from_text(TEXT).kernel().family(deterministic=True)) == ["rows(T=4)", "rows(T=32)"]
    assert not {"split_k(KP=4096)", "padded"} & set(names(stock_family("hgemm", "hgemm").deterministic()))


@pytest.mark.pocl
@pytest.mark.parametrize("kernel", ["sum_rows", "softmax_rows", "layer_norm_rows"])
def test_rows_have_the_same_bits_in_any_batch(kernel: str) -> None:
    program = tilegen.load("rows").kernel(kernel).compile(device="cpu", deterministic=True)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((300, 517), np.float32)
    others = [rng.standard_normal(517, np.float32) for _ in program.chooser.kernel.parameters[1:]]
    whole = program(x, *others)
    for count in (1, 2, 37):
        assert (program(x[:count], *others) == whole[:count]).all()


def test_each_machine_has_the_members_that_it_can_run() -> None:
    large = {"M": 4000, "N": 4000, "K": 4000}
    assert stock_family("hgemm", "hgemm", "a100").choose(**large).name in ("overlapped", "padded")
    assert stock_family("hgemm", "hgemm").choose(**large).name not in ("overlapped", "padded")
    with pytest.raises(UsageError, match="no member of the family 'fast' is for M=64 N=64 K=64") as caught:
        stock_family("hgemm", "hgemm", "t4").choose(M=64, N=64, K=64)
    assert any("needs sm_80" in note for note in caught.value.notes)


SEVERAL = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

kernel columns(A: f32[N, M]) -> S: f32[M]:
    S[i] = sum[j](A[j, i])

schedule tiles for sums, columns(T=32):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)

schedule boxes for sums extends tiles:
    tile(j, 32) -> jo, ji
    order(b, jo, t, ji)
    cache_register(S, at=b)
    cache_shared(A, at=jo)
    bulk(A.shared)

family fast for sums, columns:
    boxes
    tiles
"""


def test_a_member_that_no_block_has_the_memory_for_is_never_chosen() -> None:
    large = SEVERAL.replace("tile(j, 32)", "tile(j, 64)").replace("    boxes\n", "    boxes(T=1024)\n")
    family = api.from_text(large).kernel("sums").family("h100")
    assert family.choose(M=4096, N=4096).name == "tiles"
    assert "boxes(T=1024)  a block needs 262144 bytes of shared memory" in str(family.explain(M=4096, N=4096))


def test_a_member_is_of_the_kernels_of_its_schedule_and_of_sizes_that_its_bulk_copies_are_for() -> None:
    file = api.from_text(SEVERAL)
    of_sums, of_columns = (file.kernel(name).family("h100") for name in ("sums", "columns"))
    assert [(each.name, [fact.text for fact in each.facts]) for each in of_sums.candidates] == [
        ("boxes", ["N % 4 == 0"]), ("tiles", []),
    ]  # fmt: skip
    assert names(of_columns) == ["tiles"]
    stock = api.from_text("family fast for hgemm, hgemm_nt:\n    padded\n    transposed_padded\n")
    assert [names(stock.kernel(name).family("h100")) for name in ("hgemm", "hgemm_nt")] == [
        ["padded"],
        ["transposed_padded"],
    ]
    assert of_sums.explain(M=64, N=66).to_json()["members"]["boxes"] == "not N % 4 == 0"
    # Alone it is for all sizes: where rows are not aligned, threads copy.
    alone = api.from_text(
        SEVERAL.replace("    boxes\n    tiles\n", "    boxes\n").replace("sums, columns:\n    b", "sums:\n    b")
    )
    assert not alone.kernel("sums").family("h100").candidates[0].facts


def test_a_wave_more_takes_as_long_as_a_whole_one() -> None:
    member = next(c for c in stock_family("gemm", "gemm").candidates if c.name == "whole_rows(TM=128, TN=128)")
    times = {M: member.microseconds({"M": M, "N": 128 * 11, "K": 4096}) for M in (128 * 12, 128 * 12 + 1, 128 * 24)}
    # Of its loads few blocks have more of the L2 each.
    assert times[128 * 12 + 1] == pytest.approx(times[128 * 24], rel=0.03)
    assert times[128 * 24] > 1.5 * times[128 * 12]


def test_a_choice_evaluates_formulas_and_does_nothing_else() -> None:
    """New sizes cost one function for the times of all, and some for each fact: no tree is walked, nobody asks isl."""
    chooser = stock_family("hgemm", "hgemm")
    chooser.choose(M=4000, N=4000, K=4000)
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code) if event == "call" else None)
    try:
        chooser.choose(M=4008, N=4008, K=4008)
    finally:
        sys.setprofile(None)
    assert len(calls) < 5 * len(chooser.candidates)
    assert {code.co_filename.rsplit("/")[-1] for code in calls} <= {
        "family.py", "parameter_facts.py", "<string>", "test_family.py",
    }  # fmt: skip


@pytest.mark.parametrize(("file", "kernel"), [("hgemm", "hgemm"), ("gemm", "gemm"), ("rows", "softmax_rows")])
def test_the_times_of_all_at_once_are_those_of_each(file: str, kernel: str) -> None:
    chooser = stock_family(file, kernel)
    draw = Random(3)
    for _ in range(20):
        sizes = {name: draw.randint(1, 20000) for name in chooser.kernel.sizes}
        each_by_itself = [each.microseconds(sizes) for each in chooser.candidates]
        assert chooser.times(**sizes) == pytest.approx(each_by_itself, rel=1e-9)
        least = min(each.microseconds(sizes) for each in chooser.candidates if each.serves(sizes))
        assert chooser.choose(**sizes).microseconds(sizes) == pytest.approx(least, rel=1e-9)


def test_loads_are_sectors_of_the_l2_which_a_cluster_shares_and_few_blocks_have_sooner() -> None:
    models = {each.name: each.model for each in stock_family("hgemm", "hgemm_e4m3").candidates}

    def parts(name: str, **sizes: int) -> Parts:
        return models[name].parts({"M": 8448, "N": 8192, "K": 4096, **sizes})[0]

    alone = parts("persistent(TN=64, STAGES=8)").load  # 128 rows and 64 columns, of which one of two blocks has 32
    assert parts("clusters(TN=64, STAGES=8)").load == pytest.approx(160 / 192 * alone)
    assert parts("persistent(TN=64, STAGES=8)", K=4096 + 16).load == pytest.approx(1.25 * 33 / 32 * alone)
    # One block, and as many as multiprocessors: the way into one of these is as long, the L2 has less to give.
    one, all_ = parts("turned", M=160, N=192), parts("turned", M=160 * 132, N=192)
    assert one.load == all_.load == all_.shared == pytest.approx(132 * one.shared)


def test_copies_in_bulk_bring_zeros_from_beyond_a_tensor() -> None:
    models = {each.name: each.model for each in stock_family("hgemm", "hgemm").candidates}

    def share(name: str, **sizes: int) -> float:
        found = models[name].parts({"M": 1280, "N": 1280, "K": 4096, **sizes})[0]
        return found.beyond / found.shared

    assert share("persistent(TN=64, STAGES=8)") == 0
    # Of a tile of A 128 rows are loaded and 16 are there; it is two thirds of what a block loads.
    assert share("persistent(TN=64, STAGES=8)", M=16) == pytest.approx(7 / 8 * 2 / 3)
    assert share("persistent(TN=64, STAGES=8)", M=16, K=4064) == pytest.approx(1 - (2 / 8 + 1) / 3 * 63.5 / 64)
    assert share("split_early(PARTS=2)", N=1280 - 64) == pytest.approx(1 / 20 / 2)
    assert share("overlapped", M=16) == 0  # whose threads copy


def test_what_blocks_walk_along_again_comes_from_memory_beyond_the_l2() -> None:
    model = next(each.model for each in stock_family("rows", "softmax_rows").candidates if "blocks(" in each.name)
    h100 = stock_machine("h100")

    def walks(**sizes: int) -> float:
        return model.parts(sizes)[0].memory * h100.copy * 1e6 / (4 * sizes["M"] * sizes["N"])

    assert h100.second_level_size == 50
    assert walks(M=4096, N=4096) == pytest.approx(2)  # read once, written once
    assert walks(M=100, N=2**17) == pytest.approx(2)  # too few blocks to fill it
    assert 3 < walks(M=4096, N=2**17) < 4


def test_tiles_that_take_turns_are_one_block() -> None:
    models = {each.name: each.model for each in stock_family("hgemm", "hgemm_e4m3").candidates}
    found = models["ping_pong_early"].parts({"M": 128 * 132, "N": 256, "K": 4096})[0]
    assert (found.waves, found.rounds) == (1, 2 * 32 / 5)


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


def test_parts_of_sums_take_a_small_share_of_the_memory() -> None:
    chooser = stock_family("hgemm", "hgemm")
    split = next(each for each in chooser.candidates if each.name == "padded_parts(TM=64, STAGES=8, PARTS=4)")
    large = {"M": 16384, "N": 16384, "K": 16384}
    assert split.serves({"M": 512, "N": 512, "K": 16384})
    assert not split.serves(large)
    assert "not part of at most 2.5 GiB" in [reason for each, reason in chooser.explain(**large).predicted]


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
        members = stock_family("hgemm", kernel).candidates
        assert not [c.name for c in members if "KP" in c.parameters and c.serves(dict.fromkeys("MNK", 512))]


def test_members_that_constants_do_not_admit_are_left_out() -> None:
    """Filters of 11 x 11 do not lie in the shared memory of a block."""
    sizes = {"B": 32, "C": 64, "H": 56, "W": 56, "F": 64}
    assert stock_family("conv2d", "conv2d").choose(**sizes).name == "patches"
    chooser = tilegen.load("conv2d").kernel(R=11, pad=5).family("h100")
    assert chooser.choose(**sizes).name == "strided"
    assert "shared memory" in chooser.explain(**sizes).to_json()["members"]["patches"]


@pytest.mark.pocl
def test_sizes_of_no_member_run_what_is_suggested() -> None:
    kernel = api.from_text(TEXT.split("family")[0] + "family f for sums:\n    rows where N == 8\n").kernel()
    program = kernel.compile(device="cpu")
    a = np.arange(21, dtype=np.float32).reshape(3, 7)
    with pytest.warns(UserWarning, match="come in another order"):
        assert (program(a) == a.sum(axis=1)).all()
    with pytest.raises(UsageError, match="no member"):
        kernel.compile(device="cpu", deterministic=True)(a)


def test_facts_may_speak_of_constants_that_have_a_default() -> None:
    text = TEXT.replace("A: f32[M, N])", "A: f32[M, N], Z: int = 3)").replace("(A[i, j])", "(A[i, j] + f32(Z))")
    text = text.replace("lanes where", "lanes where Z == 3,")
    found = [api.from_text(text).kernel(**given).family("h100") for given in ({}, {"Z": 3}, {"Z": 4})]
    assert [each.choose(M=7, N=4096).name for each in found] == ["lanes", "lanes", "rows(T=4)"]


def test_what_rounds_nothing_has_one_order() -> None:
    """Largest values and integers are the same in all orders; so is what is not summed at all."""
    assert len(tilegen.load("row_argmax").kernel().family("h100", deterministic=True).candidates) == 2
    assert len(tilegen.load("transpose").kernel().family("h100", deterministic=True).candidates) == 3
    assert names(api.from_text(TEXT.replace("f32", "i32")).kernel().family("h100", deterministic=True)) == [
        "rows(T=4)", "rows(T=32)", "lanes",
    ]  # fmt: skip


def test_coefficients_are_those_of_the_machine() -> None:
    candidate = stock_family("gemm", "gemm", "a100").candidates[0]
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


FAMILIES = [(file, family.kernel) for file in api.stock_names() for family in tilegen.load(file).families]
each_family = pytest.mark.parametrize(("file", "kernel"), FAMILIES, ids=lambda name: name)


def check_member(cli, file, kernel, member: Candidate) -> None:
    words = ["check", file, "--kernel", kernel, "--schedule", member.schedule, "--device", "cpu", "--any-value"]
    values = [word for name, value in member.parameters.items() for word in ("--set", f"{name}={value}")]
    assert "proved" in cli([*words, *values]).out


@pytest.mark.long
@pytest.mark.pocl
@each_family
def test_a_member_that_is_drawn_is_proved_and_right(file, kernel, cli) -> None:
    check_member(cli, file, kernel, Random(f"{file} {kernel}").choice(stock_family(file, kernel).candidates))


@pytest.mark.nightly
@pytest.mark.pocl
@each_family
def test_members_with_values_of_their_own_are_proved_and_right(file, kernel, cli) -> None:
    """Of each schedule the first member, the last one, and one drawn from all."""
    of_schedule: dict[str, list[Candidate]] = {}
    for member in stock_family(file, kernel).candidates:
        of_schedule.setdefault(member.schedule, []).append(member)
    chance = Random(file)
    for some in of_schedule.values():
        for member in {each.name: each for each in (some[0], chance.choice(some), some[-1])}.values():
            if member.parameters:
                check_member(cli, file, kernel, member)


def test_all_stock_families_are_of_schedules_that_can_be_applied() -> None:
    found = 0
    for name in api.stock_names():
        found += sum(len(stock_family(name, family.kernel).candidates) for family in tilegen.load(name).families)
    assert found >= 20
