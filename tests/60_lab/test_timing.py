"""Timing: every program takes turns, errors stay with their program, and what is timed is checked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen.backends.calls.host import HostArrays
from tilegen.backends.devices.devices import engine, program
from tilegen.cli.looks import printing
from tilegen.errors import WrongResult
from tilegen.ir.comparison.tolerance import PLAIN
from tilegen.lab.checks.agreement import Agreement
from tilegen.lab.measure import timing
from tilegen.lab.measure.beside import Library
from tilegen.lab.measure.compare import Comparison, ComparisonRun, Row
from tilegen.lab.measure.timing import Runs, check_agreement, random_arrays, time_programs

SIZES = {"M": 24, "N": 40, "K": 32}


class NumpyOnGpu(HostArrays):
    """An engine that claims a GPU, so that what is only done there can be tried with numpy."""

    on_gpu = True


def product() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((24, 32), dtype=np.float32), rng.standard_normal((32, 40), dtype=np.float32)
    return tilegen.load("gemm").kernel().ir, {"A": a, "B": b, "C": np.zeros((24, 40), np.float32)}


def test_what_is_replayed_is_checked() -> None:
    """A graph that does nothing leaves what was there before, which is overwritten."""
    kernel, arrays = product()
    arrays["C"][...] = arrays["A"] @ arrays["B"]
    agreement, engine = Agreement(kernel, np, SIZES, [arrays]), NumpyOnGpu()

    def multiply() -> None:
        np.matmul(arrays["A"], arrays["B"], out=arrays["C"])

    check_agreement(agreement, Runs(engine, [multiply]), PLAIN)
    with pytest.raises(WrongResult, match="times as far off as rounding can explain"):
        check_agreement(agreement, Runs(engine, [lambda: None]), PLAIN)


def test_without_a_gpu_there_is_no_rival() -> None:
    library = Library(product()[0], HostArrays(), SIZES)
    assert (library.lines, library.missing) == ((), None)


class Recorder(HostArrays):
    """An engine that claims a GPU and writes down what it times, by the numbers that its calls append."""

    on_gpu = True

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.timed: list[tuple[list[int], list[int]]] = []

    def time(self, calls: Sequence[Callable[[], None]], behind: Sequence[Callable[[], None]] = ()) -> float:
        self.ran = []
        for call in behind:
            call()
        before, self.ran = self.ran, []
        for call in calls:
            call()
        self.timed += [(before, self.ran)]
        return 1.0 * len(self.ran)


def test_runs_rotate_over_the_sets_and_stand_behind_untimed_ones() -> None:
    """A call takes 1 ms here, a sample 5: five calls a graph, and three graphs for eleven sets."""
    engine = Recorder()
    runs = Runs(engine, [partial(lambda number: engine.ran.append(number), n) for n in range(11)])
    engine.timed = []
    assert runs.sample(1) == 1.0
    assert runs.sample(2) == 1.0
    assert engine.timed == [([0, 1, 2, 3, 4], [5, 6, 7, 8, 9]), ([5, 6, 7, 8, 9], [10, 0, 1, 2, 3])]


def test_a_steady_sample_is_long_and_behind_as_much() -> None:
    """100 ms of calls of 1 ms are 20 graphs of five, which go on through the sets without a gap."""
    engine = Recorder()
    runs = Runs(engine, [partial(lambda number: engine.ran.append(number), n) for n in range(15)])
    engine.timed = []
    assert runs.sample(1, steady=0.1) == 1.0
    ((behind, timed),) = engine.timed
    assert (len(behind), len(timed)) == (100, 100)
    assert timed[:5] == [5, 6, 7, 8, 9]
    together = behind + timed
    assert all((one + 1) % 15 == two for one, two in zip(together, together[1:], strict=False))


class Clock:
    """Time that passes when a program is asked for a sample: as much as it asks for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, noise: float) -> None:
        self.now, self.order = 0.0, []
        self._noise, self._numbers = noise, np.random.default_rng(0)
        monkeypatch.setattr(timing, "perf_counter", lambda: self.now)

    def runs(self, name: str) -> Any:
        def sample(turn: int, steady: float) -> float:
            self.order += [name]
            self.now += 2 * steady if steady else 0.01
            return 1.0 + self._noise * float(self._numbers.random())

        return SimpleNamespace(sample=sample)


@pytest.mark.parametrize(
    ("steady", "noise", "rounds"),
    [
        (0.0, 0.0, 9),  # the median is known to within 1 %
        (0.0, 0.005, 9),
        (0.0, 0.5, 60),  # it is not: the most samples
        (0.2, 0.5, 9),  # the time is over
        (0.2, 0.0, 9),
        (1.5, 0.5, 6),  # it was over before there were enough for a median
    ],
)
def test_each_takes_a_turn_in_each_round_in_random_order(steady, noise, rounds, monkeypatch) -> None:
    """Rounds end when all medians are known, or with the time for all samples."""
    clock, names = Clock(monkeypatch, noise), ["a", "b", "c"]
    samples: dict[str, list[float]] = {}
    runs = {name: clock.runs(name) for name in names}
    timing._time_in_rounds(runs, NumpyOnGpu(), lambda what, done, total: None, samples, steady)
    assert {name: len(each) for name, each in samples.items()} == dict.fromkeys(names, rounds)
    turns = [clock.order[n : n + 3] for n in range(0, len(clock.order), 3)]
    assert all(sorted(turn) == names for turn in turns)
    assert len(set(map(tuple, turns))) > 1


def test_the_output_says_how_steady_times_were_taken(capsys) -> None:
    time = timing.Time(2.0, 1.9, 2.2, 5)
    rows = tuple(Row(name, time=replace(time, median=ms), rate=1.0) for name, ms in (("mine", 2.0), ("cuBLAS", 1.974)))
    found = Comparison("gemm", SIZES, "a GPU", True, "sm_90", "TFLOP/s", "cuBLAS", rows, (), 0.35)
    printing.comparison(printing.console(), found)
    said = capsys.readouterr().out
    assert "98.7" in said
    assert (
        "steady: a sample is 0.35 s of one of them without a pause, after as long untimed; 5 samples of each, in "
        "random order\n"
    ) in said


@pytest.mark.pocl
def test_every_program_has_as_many_samples() -> None:
    file = tilegen.load("gemm")
    cpu = engine("cpu")
    programs = {name: program(file.schedule(name).tree, cpu) for name in ("naive", "tiled")}
    done = time_programs(programs, cpu, SIZES, lambda what, now, total: None)
    assert list(done.times) == ["naive", "tiled"]
    assert len({t.samples for t in done.times.values()}) == 1
    assert all(0 < t.p20 <= t.median <= t.p80 for t in done.times.values())
    assert (done.rival, done.errors) == (None, {})


@pytest.mark.pocl
def test_a_wrong_schedule_gets_a_row_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilegen.lab.measure import tried as module

    right = module.check

    def check(each: Any, tried: Any) -> Any:
        if each.tree.body[0].name == "bi":
            raise WrongResult("C is wrong: 1 of 2 elements are wrong")
        return right(each, tried)

    monkeypatch.setattr(module, "check", check)
    file = tilegen.load("gemm")
    trees = {"plain": file.kernel().schedule().tree, "naive": file.schedule("naive").tree}
    result = ComparisonRun(trees, engine("cpu"), SIZES).run()
    plain, naive = result.rows
    assert plain.error is None
    assert plain.time is not None
    assert naive.exit_code == 4
    assert naive.time is None
    assert "C is wrong" in (naive.error or "")


@pytest.mark.pocl
def test_one_wrong_element_at_the_sizes_that_are_timed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few elements are sampled; the library's result, which numpy computes here, has all of them."""
    monkeypatch.setattr("tilegen.lab.checks.agreement._POINTS", 2**14)
    sizes, on = {"M": 140, "N": 150, "K": 64}, engine("cpu")
    each = program(tilegen.load("gemm").schedule("tiled").tree, on)
    bind, spoiled = each.bind, [0.0]

    def bind_spoiled(sizes: dict[str, int], arrays: dict[str, Any]) -> Callable[[], None]:
        call = bind(sizes, arrays)

        def run() -> None:
            call()
            arrays["C"][77, 99] += spoiled[0]

        return run

    monkeypatch.setattr(each, "bind", bind_spoiled)
    for spoiled[0] in (0.0, 0.01):
        found = time_programs({"it": each}, on, sizes, lambda what, done, total: None)
        assert ("it" in found.times) == (not spoiled[0])
    assert isinstance(found.errors["it"], WrongResult)
    measure = pytest.importorskip("tilegen.tune.measure")
    with pytest.raises(WrongResult):
        measure.Bench(each.kernel.written_kernel, on, sizes).time(each, None)


def test_libraries_are_timed_at_indices_inside_and_at_rows_about_a_mean() -> None:
    kernel, sizes = tilegen.load("sparse").kernel("csr").ir, {"N": 6000, "M": 100, "K": 16, "F": 8}
    arrays = random_arrays(HostArrays(), kernel, sizes, 0)
    assert {*arrays["column"].tolist()} == {*range(16)}
    assert (arrays["start"][0], arrays["start"][-1]) == (0, 6000)
    lengths = np.diff(arrays["start"])
    assert 0 <= lengths.min() < 30 < 90 < lengths.max() <= 150
