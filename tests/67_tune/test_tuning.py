"""A run without its children: what is pruned before the compiler, how the budget is spent, what ends it."""

from concurrent.futures import Future
from dataclasses import replace
from random import Random

import pytest

from tilegen import api
from tilegen.lab.predict.machine import H200
from tilegen.tune.child import answer
from tilegen.tune.prepare import prepare
from tilegen.tune.search import search
from tilegen.tune.space import Candidate, Space
from tilegen.tune.task import Outcome, Task
from tilegen.tune.tuning import Tuning

TEXT = "schedule s for gemm(T=4 in {1, 2, 3, 4, 5, 6, 7, 8}):\n    tile(i, T) -> bi, ti\n"
SIZES = {"M": 1024, "N": 1024, "K": 1024}


def task_of(file: str, schedule: str, **changes: object) -> Task:
    found = api.load(file)
    text = found.self_contained(schedule, "gemm")
    return replace(Task("gemm", {schedule: text}, {}, SIZES, "cpu", machine=H200), **changes)


def test_what_the_roofline_excludes_goes_no_further() -> None:
    task, candidate = task_of("gemm", "tiled"), Candidate("tiled", (("TS", 32),))
    seconds: dict[str, float] = {}
    found = prepare(task, candidate, None, seconds)
    assert found.state == "measured"
    assert found.predicted == pytest.approx(0.2149, rel=0.01)
    assert "compile" not in seconds  # there is no GPU to compile for
    assert prepare(task, candidate, 0.2, {}).state == "measured"  # within what ceilings are known to
    found = prepare(task, candidate, 0.1, {})
    assert found.state == "roofline"
    assert "at least 0.2149 ms by the roofline, beside 0.1 ms" in found.message
    assert prepare(replace(task, machine=None), candidate, 0.1, {}).state == "measured"


@pytest.mark.nvrtc
def test_what_the_gpu_has_no_instruction_for_is_refused_and_costs_no_process() -> None:
    text = api.load("hgemm").self_contained("bulk", "hgemm")
    found = api.load(text).find_schedule("bulk")
    candidate = Candidate("bulk", tuple((p.name, p.default) for p in found.parameters))
    said = answer("prepare", Task("hgemm", {"bulk": text}, {}, SIZES, "cuda", "sm_80"), candidate, None)
    assert said.state == "refused"
    assert "sm_80" in said.message


@pytest.mark.nvrtc
def test_machine_code_is_made_for_the_device(monkeypatch) -> None:
    from tilegen.backends.compiler import nvrtc

    made, compile_text = [], nvrtc.compile_text
    monkeypatch.setattr(nvrtc, "compile_text", lambda text, arch: made.append(arch) or compile_text(text, arch))
    seconds: dict[str, float] = {}
    found = prepare(task_of("gemm", "tiled", arch="sm_90"), Candidate("tiled", (("TS", 8),)), None, seconds)
    assert set(made) == {"sm_90"}
    assert len(made) >= 2  # for whole tiles, where it is timed, and for others, where it is checked
    assert seconds["compile"] > 0
    assert found.built["launches"] == 1
    assert found.built["shared"] == 2 * 8 * 8 * 4
    assert 16 <= found.built["registers"] <= 64
    assert found.built["spills"] == 0


class Made:
    """An evaluator of which T says how many milliseconds a candidate takes, and how long that is found out."""

    def __init__(self, seconds: float = 0.0, width: int = 2) -> None:
        self.width, self.seconds, self.now = width, seconds, 0.0
        self.best: list[float | None] = []
        self.abandoned = 0

    def submit(self, candidate: Candidate, best: float | None) -> Future:
        self.best.append(best)
        future: Future = Future()
        if self.seconds < 100:
            self.now += self.seconds
            (_, value), *_ = candidate.parameters
            future.set_result(Outcome(candidate, "measured", samples=(float(value),)))
        else:
            future.set_running_or_notify_cancel()
        return future

    def time_together(self, candidates):
        return {c: (float(c.parameters[0][1]),) * 3 for c in candidates}

    def abandon(self) -> None:
        self.abandoned += 1

    def close(self) -> None:
        pass


def tuning(evaluator: Made, budget: float, keep=lambda outcome: None) -> Tuning:
    space = Space(api.load(TEXT).schedules, {})
    return Tuning(search("random", space, 1), evaluator, space.defaults(), budget, keep)


def test_a_small_space_is_searched_whole() -> None:
    kept: list[Outcome] = []
    found = tuning(evaluator := Made(), 60.0, kept.append)
    found.run()
    assert found.exhausted
    assert len(kept) == len(found.outcomes) == 8
    assert found.best
    assert dict(found.best[0].parameters) == {"T": 1}
    assert evaluator.best[0] is None
    assert evaluator.best[-1] == min(each.samples[0] for each in kept[:7])
    assert {dict(c.parameters)["T"] for c in found.together} == {1, 2, 3, 4}  # the fastest, and the written one


def test_the_budget_is_kept(monkeypatch) -> None:
    found = tuning(evaluator := Made(seconds=0.3, width=1), 1.0)
    monkeypatch.setattr("tilegen.tune.tuning.monotonic", lambda: evaluator.now)
    found.run()
    assert 0.6 <= evaluator.now <= 1.0
    assert len(found.outcomes) == round(evaluator.now / 0.3)
    assert not found.exhausted


def test_what_hangs_at_the_end_is_given_up() -> None:
    found = tuning(evaluator := Made(seconds=1000), 0.5)
    found.run()
    assert evaluator.abandoned == 1
    assert found.best is None


def test_a_run_in_which_everything_is_lost_ends() -> None:
    class Broken(Made):
        def submit(self, candidate: Candidate, best: float | None) -> Future:
            future: Future = Future()
            future.set_result(Outcome(candidate, "killed", "no library"))
            return future

    space = Space(api.load(TEXT.replace("8}", "8, " + ", ".join(map(str, range(9, 60))) + "}")).schedules, {})
    found = Tuning(search("random", space, 1), Broken(), space.defaults(), 60.0, lambda outcome: None)
    found.run()
    assert 20 <= len(found.outcomes) < 25
    assert found.note == "ended: the last 20 candidates were all lost: no library"


def test_an_end_from_outside_keeps_what_is_there() -> None:
    def stop_at_third(outcome: Outcome) -> None:
        if len(found.outcomes) == 3:
            raise KeyboardInterrupt

    found = tuning(Made(), 60.0, stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        found.run()
    assert len(found.outcomes) == 3
    assert found.best


def test_what_earlier_runs_know_is_not_tried_again() -> None:
    found = tuning(evaluator := Made(), 60.0)
    known = [Outcome(c, "measured", samples=(0.5,)) for c in Space(api.load(TEXT).schedules, {}).shuffled(Random(2))]
    found.take(known[:6])
    found.run()
    assert len(evaluator.best) == 2
    assert len(found.new) == 2
    assert evaluator.best[0] == 0.5
