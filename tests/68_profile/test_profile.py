"""Counters beside predictions: the answer of Nsight Compute is read, set beside each step, and marked.

The output here has the form that Nsight Compute documents for `--csv --page raw`; a real one needs a GPU.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

import tilegen
from tests.support.stock import schedule_stock
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices import cuda
from tilegen.errors import DeviceError
from tilegen.lab.predict.explain import explain, stages_by_line
from tilegen.lab.predict.explanation import Explanation
from tilegen.lowering import lower
from tilegen.profile import command_of, find_profiler, profile, steps_to_profile
from tilegen.profile.child import Task, derivation_of, trees_of
from tilegen.profile.counters import COUNTERS, METRICS, read_counters
from tilegen.profile.lines import compile_with_lines, write_with_places

SIZES = {"M": 512, "N": 512, "K": 512}
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")
HEAD += ("Device", "CC")
UNITS = {
    "gpu__time_duration.sum": "nsecond",
    "dram__bytes.sum": "byte",
    "launch__registers_per_thread": "register/thread",
}


def output_of(launches: list[dict[str, float]], units: dict[str, str] = UNITS, kernel: str = "gemm") -> str:
    """What Nsight Compute prints of launches with these metrics."""
    text = io.StringIO()
    write = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    write([*HEAD, *METRICS])
    write([*[""] * len(HEAD), *(units.get(name, "") for name in METRICS)])
    for number, metrics in enumerate(launches):
        told = [f"{metrics[name]:,.2f}" if name in metrics else "n/a" for name in METRICS]
        write([number, 1234, "python3.12", "127.0.0.1", kernel, 1, 7, "(32, 32, 1)", "(16, 16, 1)", 0, "9.0", *told])
    talk = (
        '==PROF== Connected to process 1234 (/usr/bin/python3.12)\n==PROF== Profiling "gemm": 0%....100% - 9 passes\n'
    )
    return f"{talk}{text.getvalue()}==PROF== Disconnected from process 1234\n"


@pytest.fixture(scope="module")
def found() -> Explanation:
    return explain(schedule_stock("gemm", "tiled"), SIZES, compiled=False)


def as_expected(found: Explanation, step: int) -> dict[str, float]:
    """The metrics of a step that is just as predicted."""
    (launch,) = found.steps[step].launches
    told = {}
    for counter in COUNTERS:
        if (value := counter.expected(launch, found.machine)) is not None:
            told |= {name: value * counter.by / len(counter.metrics) for name in counter.metrics}
    return told


def profiled(found: Explanation, launches: list[dict[str, float]], answers=None, limit: float = 1e9, **others):
    """The steps, with a profiler that tells these metrics; the child answers one launch for each step."""

    def make(steps, answer: str) -> Task:
        told = answers if answers is not None else [{"launches": 1} for _ in steps]
        Path(answer).write_text(json.dumps(told))
        return Task("", "gemm", "tiled", {}, {}, SIZES, tuple(steps), answer)

    return profile(found, make, limit=limit, run=lambda command: output_of(launches, **others))


@pytest.fixture(autouse=True)
def ncu(tmp_path, monkeypatch) -> None:
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


# -- what Nsight Compute says


def test_values_are_read_in_base_units_with_their_commas() -> None:
    units = {"gpu__time_duration.sum": "us", "dram__bytes.sum": "Mbyte"}
    launches = [{"gpu__time_duration.sum": 1234.5, "dram__bytes.sum": 8.25, "launch__registers_per_thread": 32.0}]
    (told,) = read_counters(output_of(launches, units))
    assert told.kernel == "gemm"
    assert told.metrics == {
        "gpu__time_duration.sum": pytest.approx(1234500),
        "dram__bytes.sum": 8.25e6,
        "launch__registers_per_thread": 32,
    }


def test_launches_keep_their_order_and_what_the_program_prints_is_left_out() -> None:
    text = output_of([{"dram__bytes.sum": float(n)} for n in range(12)], kernel="gemm(const float *, float *)")
    told = read_counters(f"hello\n{text}goodbye\n")
    assert [each.metrics["dram__bytes.sum"] for each in told] == list(range(12))
    assert {each.kernel for each in told} == {"gemm"}


def test_a_profiler_that_may_not_count_says_how_to_allow_it() -> None:
    said = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters.\n"
    with pytest.raises(DeviceError, match="ERR_NVGPUCTRPERM") as caught:
        read_counters(said)
    assert "NVreg_RestrictProfilingToAdminUsers" in caught.value.notes[0]


def test_a_machine_without_a_driver_is_told_in_its_own_words() -> None:
    # What Nsight Compute 2022.3 says on a machine without a GPU.
    said = """\
==ERROR== The application returned an error code (1).
==WARNING== No kernels were profiled.
==WARNING== Profiling kernels launched by child processes requires the --target-processes all option.
==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).
"""
    with pytest.raises(DeviceError, match="counted nothing: Nsight Compute failed to connect to the CUDA driver"):
        read_counters(said)


def test_a_child_that_ends_is_quoted() -> None:
    with pytest.raises(DeviceError, match="counted nothing: ModuleNotFoundError: No module named 'cupy'"):
        read_counters(
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'cupy'\n==PROF== Done\n"
        )


# -- beside the prediction


def test_what_is_as_predicted_is_not_marked(found) -> None:
    chosen = steps_to_profile(found, 1e9)
    steps = profiled(found, [as_expected(found, step) for step in chosen])
    assert len(steps) == len(found.steps)
    for number in chosen:
        (figures,) = steps[number].launches
        assert {figure.name for figure in figures} == {c.name for c in COUNTERS} - {"registers"}
        assert not any(figure.is_apart for figure in figures)


@pytest.mark.parametrize(("factor", "marked"), [(1.0, False), (1.09, False), (1.11, True), (0.91, False), (0.89, True)])
def test_more_than_a_tenth_is_marked(found, factor: float, marked: bool) -> None:
    chosen = steps_to_profile(found, 1e9)
    told = [as_expected(found, step) for step in chosen]
    told[-1]["dram__bytes.sum"] *= factor
    (figures,) = profiled(found, told)[chosen[-1]].launches
    (figure,) = [each for each in figures if each.name == "bytes of memory"]
    assert figure.difference == pytest.approx(factor - 1, abs=1e-3)
    assert figure.is_apart == marked


def test_a_counter_that_a_gpu_lacks_is_left_open(found) -> None:
    chosen = steps_to_profile(found, 1e9)
    told = [{k: v for k, v in as_expected(found, step).items() if "wavefronts" not in k} for step in chosen]
    (figures,) = profiled(found, told)[chosen[-1]].launches
    (figure,) = [each for each in figures if each.name == "wavefronts of shared memory"]
    assert figure.measured is None
    assert not figure.is_apart


def test_slow_steps_and_faults_are_told_and_cost_no_other_step(found) -> None:
    limit = 1.0
    chosen = steps_to_profile(found, limit)
    assert chosen
    assert chosen != steps_to_profile(found, 1e9)
    answers = [{"error": "too much shared memory"}, *[{"launches": 1}] * (len(chosen) - 2)]  # and the last one is lost
    steps = profiled(found, [as_expected(found, step) for step in chosen[1:-1]], answers, limit)
    assert "not counted" in steps[0].error
    assert steps[chosen[0]].error == "too much shared memory"
    assert not any(figure.is_apart for step in chosen[1:-1] for figure in steps[step].launches[0])
    assert steps[chosen[-1]].error == "the profiler ended before it"


def test_launches_of_other_kernels_are_not_taken_for_the_steps(found) -> None:
    chosen = steps_to_profile(found, 1e9)
    steps = profiled(found, [as_expected(found, step) for step in chosen], kernel="fill")
    assert steps[chosen[0]].error == "the profiler has seen other launches"


# -- the process of its own


@pytest.mark.parametrize(("name", "schedule"), [("gemm", "registers"), ("gemm", "across"), ("softmax", "blocks")])
def test_a_child_has_the_same_programs(name: str, schedule: str) -> None:
    file = tilegen.load(name)
    scheduled = file.schedule(schedule)
    stages = stages_by_line(scheduled.stages)
    text, parameters = file.self_contained(schedule, scheduled.kernel.name), dict(scheduled.core.parameters)
    task = Task(text, scheduled.kernel.name, schedule, parameters, {}, {}, tuple(range(len(stages))), "")
    read = Task(**json.loads(task.to_json()))
    assert trees_of(read, derivation_of(read)) == [stage.tree for stage in stages]


def test_the_command_line_runs_a_child_of_this_tilegen(tmp_path) -> None:
    command = command_of(tmp_path / "task.json")
    assert command[0] == str(tmp_path / "ncu")
    assert command[-3:] == ["-m", "tilegen.profile.child", str(tmp_path / "task.json")]
    assert command[command.index("--clock-control") + 1] == "none"


# -- the report that is kept


def kept(found: Explanation, path: Path, *, works: bool) -> tuple[list[list[str]], list[dict], list]:
    """(the commands, the tasks, the steps) of a run with --keep, by a profiler that prints from a report alone."""
    commands, tasks = [], []
    chosen = steps_to_profile(found, 1e9)

    def make(steps, answer: str) -> Task:
        Path(answer).write_text(json.dumps([{"launches": 1} for _ in steps]))
        return Task("", "gemm", "tiled", {}, {}, SIZES, tuple(steps), answer)

    def ncu(command) -> str:
        commands.append(list(command))
        if "--import" in command:
            return output_of([as_expected(found, step) for step in chosen])
        tasks.append(json.loads(Path(command[-1]).read_text()))
        if works:
            path.write_bytes(b"a report")
            return "==PROF== Report: k.ncu-rep\n"
        return "==ERROR== Failed to open the file for writing.\n"

    return commands, tasks, profile(found, make, limit=1e9, keep=str(path), run=ncu)


def test_a_kept_report_has_the_sources_and_is_read_for_the_counters(found, tmp_path) -> None:
    path = tmp_path / "k.ncu-rep"
    (first, second), (task,), steps = kept(found, path, works=True)
    assert path.read_bytes() == b"a report"
    assert first[first.index("--export") + 1] == second[second.index("--import") + 1] == str(path)
    assert first[first.index("--import-source") + 1] == "yes"
    assert "--csv" in second
    assert task["sources"]
    assert any(step.launches for step in steps)


def test_a_report_that_cannot_be_written_is_told_in_the_profilers_words(found, tmp_path) -> None:
    with pytest.raises(DeviceError, match="counted nothing: Failed to open the file for writing"):
        kept(found, tmp_path / "k.ncu-rep", works=False)


def test_no_report_is_kept_and_no_lines_are_compiled_unless_asked_for(tmp_path) -> None:
    command = command_of(tmp_path / "task.json")
    assert "--export" not in command
    assert "--csv" in command


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("there.ncu-rep", "there.ncu-rep is there already"),
        ("k.txt", "the report of Nsight Compute ends in .ncu-rep"),
        ("nowhere/k.ncu-rep", "cannot write nowhere/k.ncu-rep: there is no directory nowhere"),
    ],
)
def test_a_report_that_could_not_be_kept_is_refused_before_all_else(name, said, tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.ncu-rep").write_bytes(b"before")
    assert said in cli(["profile", "gemm", "--schedule", "tiled", "--keep", name], 2).err
    assert Path("there.ncu-rep").read_bytes() == b"before"


def test_the_machine_code_under_the_profiler_names_the_lines_of_the_schedule(tmp_path) -> None:
    file = tilegen.load("gemm")
    scheduled = file.schedule("tiled")
    text = file.self_contained("tiled", scheduled.kernel.name)
    task = Task(text, "gemm", "tiled", dict(scheduled.core.parameters), {}, SIZES, (0,), "", str(tmp_path))
    derivation = derivation_of(task)
    cuda_file = tmp_path / "step0.cu"
    written = write_with_places(lower(derivation.tree), derivation, cuda_file)
    own = tmp_path / "gemm.tg"
    assert own.read_text() == text
    places = {int(n) for n, name in re.findall(r'#line (\d+) "(.*)"', written) if name == str(own)}
    assert any("tile(k, TS)" in text.splitlines()[number - 1] for number in places)
    if reason := nvrtc.unavailable_reason():
        pytest.skip(reason)
    code = compile_with_lines(written, "sm_80", cuda_file)
    assert b".debug_line" in code
    assert b"gemm.tg" in code


def test_where_there_is_no_profiler_that_is_said(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tilegen.profile._PLACES", ())
    with pytest.raises(DeviceError, match="there is no ncu"):
        find_profiler()


def test_without_a_gpu_the_command_says_what_can_be_done(cli) -> None:
    if cuda.unavailable_reason() is None:
        pytest.skip("there is a GPU")
    assert "tilegen explain counts and predicts without one" in cli(["profile", "gemm", "--schedule", "tiled"], 5).err


@pytest.mark.gpu
def test_the_counters_of_a_product_are_those_that_explain_counts(monkeypatch, cli) -> None:
    monkeypatch.undo()
    try:
        find_profiler()
    except DeviceError as error:
        pytest.skip(error.message)
    words = ["profile", "gemm", "--schedule", "tiled", "--size", "M=1024", "N=1024", "K=1024", "--last", "--json", "-"]
    (step,) = json.loads(cli(words).out)["steps"]
    figures = {each["name"]: each for each in step["launches"][0]}
    for name in ("multiply-adds", "sectors loaded", "sectors stored", "global requests", "registers"):
        assert abs(figures[name]["difference"]) < 0.1, figures[name]
