"""One program, called from several threads at once, which take turns as often as they can."""

import sys
from collections import Counter
from struct import pack
from threading import Thread
from time import sleep

import numpy as np
import pytest

import tilegen
from tests.support.driver import ENTRY, Driver
from tilegen.backends.calls.engine import Run
from tilegen.backends.calls.kernel_launch import KernelLaunch
from tilegen.backends.devices import opencl
from tilegen.backends.devices.devices import engine
from tilegen.lab.records.records import Device, RunRecord, line_of
from tilegen.poly import system

THREADS, CALLS = 4, 50
ADD = "kernel add(a: f32, X: f32[N]) -> Y: f32[N]:\n    Y[i] = X[i] + a\n"
# Two launches, of which the second takes what the first has left in memory.
COUNT = """\
kernel count(X: i32[N]) -> X: i32[N]:
    var t: i32[N]
    t[i] = X[i] + 1
    X[i] = t[i]
"""
DEVICES = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=pytest.mark.pocl), pytest.param("cuda", marks=pytest.mark.gpu)]
)


@pytest.fixture(autouse=True)
def turns(monkeypatch):
    """Another thread's turn comes soon, and in any case between the arguments of a launch and the launch."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    if not opencl.unavailable_reason():
        import pyopencl as cl

        set_args = cl.Kernel.set_args
        monkeypatch.setattr(cl.Kernel, "set_args", lambda *given: (set_args(*given), sleep(1e-4)))
    yield
    sys.setswitchinterval(usual)


def at_once(work):
    """Runs work(0), work(1), ... in threads; raises what one of them has raised."""
    raised = []

    def body(number):
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [Thread(target=body, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def added():
    return tilegen.load(ADD).kernel().schedule().step("blocks", "i", 32, into=("b", "t"))


def tuned(device, folder):
    """A program that runs the schedules of two records."""
    schedule = "schedule s for add(T=8 in {8, 16}):\n    blocks(i, T) -> b, t\n"
    (folder / "mine.tg").write_text(f"{ADD}\n{schedule}")
    kernel = tilegen.load(str(folder / "mine.tg")).kernel()
    runs_on = Device(engine(device).name, engine(device).on_gpu)
    text = kernel.file.self_contained("s")
    lines = [
        line_of(
            RunRecord(f"s T={T}", "add", "measured", {"N": n}, text=text, schedule="s", parameters={"T": T},
                      device=runs_on, samples=(1.0,))
        )
        for T, n in ((8, 100), (16, 103))
    ]  # fmt: skip
    (folder / "run.jsonl").write_text("\n".join(lines) + "\n")
    return kernel.compile(folder / "run.jsonl", device)


def check_calls(device, calls_of):
    """`calls_of(X)` is given the input of a thread, and gives what is called with numbers."""
    xp = engine(device).xp

    def work(number):
        call = calls_of(xp.full(100 + number, number, "float32"))
        for n in range(CALLS):
            assert bool((call(float(n)) == number + n).all())

    at_once(work)


@DEVICES
def test_calls_have_arguments_of_their_own(device) -> None:
    add = added().compile(device)
    check_calls(device, lambda X: lambda a: add(a, X))


@DEVICES
def test_prepared_calls_have_arguments_of_their_own(device) -> None:
    add = added().compile(device)

    def prepare(X):
        each = [add.prepare(float(n), X) for n in range(CALLS)]
        return lambda a: each[int(a)]()

    check_calls(device, prepare)


@DEVICES
def test_calls_of_a_tuned_program_have_arguments_of_their_own(device, tmp_path) -> None:
    add = tuned(device, tmp_path)
    check_calls(device, lambda X: lambda a: add(a, X))


def test_launches_on_a_gpu_have_arguments_of_their_own(monkeypatch) -> None:
    driver = Driver(monkeypatch, (8, 4))
    record = driver.cuLaunchKernelEx
    monkeypatch.setattr(driver, "cuLaunchKernelEx", lambda *given: (sleep(1e-4), record(*given))[1])
    run = Run("mine", (1, 1, 1), (32, 1, 1), 0, (0,), ((0, "i32"),), (), False)
    launch = KernelLaunch(ENTRY, run, 0, "a card", lambda: None)
    at_once(lambda number: [launch((), (number,), (number,), number) for _ in range(CALLS)])
    told = Counter((each["stream"], *each["arguments"]) for each in driver.launches)
    assert told == {(n, pack("=Q", n), pack("=i", n)): CALLS for n in range(THREADS)}


@DEVICES
@pytest.mark.parametrize("in_graph", [False, True], ids=["prepared", "graph"])
def test_one_call_that_all_threads_share_is_done_as_a_whole_each_time(device, in_graph) -> None:
    there = engine(device)
    X = there.xp.zeros(100, "int32")
    run = tilegen.load(COUNT).kernel().schedule().bind("t.i", "block.x").bind("X.i", "block.x").compile(device)
    call = run.prepare(X)
    call()
    replay = there.capture([call]) if in_graph else call
    at_once(lambda _: [replay() for _ in range(CALLS)])
    there.synchronize()
    assert bool((X == 1 + THREADS * CALLS).all())


@pytest.mark.pocl
def test_of_several_first_calls_one_compiles(monkeypatch) -> None:
    add, made = added().compile("cpu"), []
    build = add.engine.build
    monkeypatch.setattr(add.engine, "build", lambda *what: made.append(what) or build(*what))
    at_once(lambda number: add(1.0, np.zeros(100, "f4")))
    assert len(made) == 1


def test_what_isl_is_asked_is_counted_for_each_thread_alone(monkeypatch) -> None:
    """Where the budget is just enough for one question, none is undecided because another thread asks meanwhile."""
    rows = tuple((False, ((name, 1),), -1) for name in "abcde")
    rows += ((True, (("a", 7), ("b", 3), ("c", -11), ("d", -5)), -1), (True, (("a", 3), ("e", 5), ("d", -13)), -17))

    def ask() -> bool:
        return system._is_solvable.__wrapped__(rows)

    def is_enough(operations: int) -> bool:
        system.context.set_max_operations(operations)
        try:
            return ask()
        except system.Undecided:
            return False

    try:
        assert is_enough(next(n for n in range(1, 100_000) if is_enough(n)))
        at_once(lambda _: [ask() for _ in range(300)])
    finally:
        system.context.set_max_operations(system.BUDGET)

    def count(number: int) -> None:
        first = system.question_count()
        assert [system.solvable(rows) for _ in range(300)] == [True] * 300
        assert system.question_count() == first + 301

    at_once(count)
