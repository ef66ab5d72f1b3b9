"""Many runs on the same inputs: the same bits each time, or the first element that has others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.support.stock import cases as stock_cases
from tests.support.stock import find, schedule_stock
from tilegen.backends.devices.devices import InterpretedProgram, InterpreterEngine, engine, program
from tilegen.cli import run
from tilegen.errors import WrongResult
from tilegen.lab.checks import inputs
from tilegen.lab.checks.check import Case
from tilegen.lab.checks.repeat import Repetition, find_unordered_sums, repeat

SIZES = {"M": 5, "N": 7, "K": 6}
ADDED = """\
kernel totals(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule atomic for totals():
    tile(j, 8) -> b, t
    order(i, b, t)
    bind(i, block.y)
    reassociate(S)
    atomic(S)
    bind(b, block.x)
"""


def case(kernel: Any, sizes: Mapping[str, int]) -> Case:
    return Case(sizes, "random", inputs.random(np, kernel, sizes, 0), {})


class Spoiled(InterpretedProgram):
    """A program to whose output something is done, which is told how many runs there have been."""

    spoil: Callable[[Any, int], None]

    def bind(self, sizes: Mapping[str, int], arrays: Mapping[str, Any], rounds: int = 1) -> Callable[[], None]:
        run = super().bind(sizes, arrays, rounds)
        runs = 0

        def run_and_spoil() -> None:
            nonlocal runs
            runs += 1
            run()
            self.spoil(next(a for name, a in arrays.items() if self.kernel.tensor(name).role == "output"), runs)

        return run_and_spoil


def repeated(spoil: Callable[[Any, int], None], text: str = "gemm", schedule: str | None = None) -> Repetition:
    tree = tilegen.load(text).kernel().schedule(schedule).tree
    spoiled = Spoiled(tree, InterpreterEngine())
    spoiled.spoil = spoil
    return repeat(spoiled, case(tree.kernel, {n: SIZES[n] for n in tree.kernel.sizes}), 9)


def change_last_bit(output: Any, runs: int) -> None:
    if runs in (4, 7):
        bits = output.view(np.uint32)
        bits[(2,) * bits.ndim] ^= 1


def test_runs_that_are_alike() -> None:
    numbers: list[int] = []
    tree = tilegen.load("gemm").kernel().schedule().tree
    found = repeat(InterpretedProgram(tree, InterpreterEngine()), case(tree.kernel, SIZES), 9, numbers.append)
    assert found == Repetition(SIZES, 9, 0, None, ())
    assert numbers == list(range(1, 10))


def test_a_bit_that_changes_is_shown_with_its_run() -> None:
    with pytest.raises(WrongResult, match="2 of 9 runs on the same inputs have other bits than the first") as caught:
        repeated(change_last_bit)
    witness = caught.value.witness or ""
    bits = [int(word, 16) for word in witness.split() if word.startswith("0x")]
    assert witness.startswith("C[2, 2] has the bits 0x")
    assert witness.endswith("in run 4")
    assert bits[0] ^ bits[1] == 1
    assert "with M = 5, K = 6, N = 7 and random as inputs" in caught.value.render()


def test_nan_is_like_nan_and_a_zero_not_like_minus_zero() -> None:
    def spoil(output: Any, runs: int) -> None:
        output[0, 0] = np.nan
        output[0, 1] = -0.0 if runs == 3 else 0.0

    with pytest.raises(WrongResult) as caught:
        repeated(spoil)
    assert caught.value.witness == "C[0, 1] has the bits 0x00000000 in run 1 and 0x80000000 in run 3"


def test_an_element_that_one_run_leaves_out_is_found() -> None:
    """The outputs are as before the first run when the next one begins: nothing is left there to be found again."""
    old = []

    def leave_out(output: Any, runs: int) -> None:
        if runs == 1:
            old.append(np.array(output[4, 6]))
        if runs == 5:
            output[4, 6] = np.frombuffer(b"\xa5" * 4, np.float32)[0]

    with pytest.raises(WrongResult, match="1 of 9") as caught:
        repeated(leave_out)
    assert (caught.value.witness or "").endswith("and 0xa5a5a5a5 in run 5")


def test_what_is_updated_in_place_begins_anew_each_time() -> None:
    text = "kernel more(X: f32[N]) -> X: f32[N]:\n    X[i] = X[i] * 1.5 + 1\n"
    assert repeated(lambda output, runs: None, text).different == 0


def test_atomic_sums_of_floats_are_not_held_to_it() -> None:
    found = repeated(change_last_bit, ADDED, "atomic")
    assert (found.runs, found.different, found.sums) == (9, 2, ("S",))
    assert str(found.difference).startswith("S[2] has the bits 0x")


def test_which_sums_come_in_any_order() -> None:
    def sums(text: str, schedule: str) -> tuple[str, ...]:
        return find_unordered_sums(tilegen.load(text).schedule(schedule).tree)

    assert sums(ADDED, "atomic") == ("S",)
    assert sums(ADDED.replace("f32", "i32"), "atomic") == ()
    assert sums(ADDED.replace("f32", "i32").replace("sum[", "max["), "atomic") == ()
    assert sums("gemm", "tiled") == ()


# -- on devices, and the command


@pytest.mark.pocl
@pytest.mark.parametrize(("file", "schedule"), [("gemm", "pipelined"), ("hgemm", "pipelined"), ("softmax", "blocks")])
def test_on_the_cpu(file: str, schedule: str) -> None:
    tree = schedule_stock(file, schedule).tree
    sizes = {n: {"M": 70, "N": 136, "K": 40}[n] for n in tree.kernel.sizes}
    assert repeat(program(tree, engine("cpu")), case(tree.kernel, sizes), 20).different == 0


@pytest.mark.pocl
def test_the_command_says_what_came_of_it(tmp_path, cli) -> None:
    (tmp_path / "totals.tg").write_text(ADDED + "\nschedule plain for totals():\n    bind(i, block.x)\n")
    words = ["check", str(tmp_path / "totals.tg"), "--size", "M=6", "N=21", "--device", "cpu", "--repeat", "1200"]
    assert run([*words, "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())["repeated"]
    assert found["plain"] == [
        {"sizes": {"M": 6, "N": 21}, "runs": 1200, "different": 0, "difference": None, "sums": []}
    ]
    assert found["atomic"][0]["sums"] == ["S"]
    said = cli(words).out
    assert "plain: 1,200 runs on the same inputs, M=6 N=21, gave the same bits\n" in said
    assert "they need not, for atomic updates add floats to S in any order\n" in said


def test_the_command_fails_where_bits_change(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("tilegen.backends.devices.devices.InterpretedProgram", Spoiled)
    monkeypatch.setattr(Spoiled, "spoil", lambda self, output, runs: change_last_bit(output, runs), raising=False)
    words = ["check", "gemm", "--schedule", "naive", "--size", "M=5", "N=7", "K=6", "--device", "interpreter"]
    assert run(words) == 0
    assert run([*words, "--repeat", "5"]) == 4
    assert "naive: error: 1 of 5 runs on the same inputs have other bits than the first" in capsys.readouterr().err


BY_WARPGROUPS = [
    (file, schedule)
    for file, schedule in stock_cases()
    if any("wgmma" in step.text for step in find(file, schedule).steps)
]
# Parts of tiles in each direction, rows that TMA takes, and several tiles for each block that runs on.
LARGE = {"Z": 7, "M": 5001, "N": 1104, "K": 592, "B": 33, "H": 29, "W": 37, "G": 3, "C": 136, "F": 72}


@pytest.mark.gpu
@pytest.mark.parametrize(("file", "schedule"), BY_WARPGROUPS, ids=map(".".join, BY_WARPGROUPS))
def test_a_thousand_runs_by_warpgroups(file: str, schedule: str) -> None:
    tree = schedule_stock(file, schedule).tree
    sizes = {size: LARGE[size] for size in tree.kernel.sizes}
    while not all(assumed.holds(sizes) for assumed in tree.kernel.assumptions):
        sizes["K"] += 16
    assert repeat(program(tree, engine("cuda")), case(tree.kernel.called_kernel, sizes), 1000).different == 0


IN_ORDER = [("compaction_ordered", "look_back"), ("keypoints_ordered", "look_back"), ("histogram", "shared")]


@pytest.mark.gpu
@pytest.mark.parametrize(("file", "schedule"), IN_ORDER, ids=map(".".join, IN_ORDER))
def test_a_thousand_runs_of_what_data_place(file: str, schedule: str) -> None:
    """Blocks that wait for each other, or add to one element: many more than run at once."""
    tree = schedule_stock(file, schedule).tree
    large = {"N": 12_000_004, "H": 20_001, "W": 104, "CAP": 100_000}
    sizes = {size: large[size] for size in tree.kernel.sizes}
    assert repeat(program(tree, engine("cuda")), case(tree.kernel.called_kernel, sizes), 1000).different == 0
