"""A schedule under Nsight Compute: the counters of each step beside what was predicted of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tilegen.errors import DeviceError, UsageError
from tilegen.lab.predict.explain import MOST_KEPT
from tilegen.lab.predict.explanation import Explanation, StepReport
from tilegen.profile.child import Task
from tilegen.profile.counters import METRICS, Counted, Figure, figures_of, read_counters

# Where NVIDIA's packages put it, the newest last.
_PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
REPORT = ".ncu-rep"  # Nsight Compute adds it to a name without it
_PRINTED = ["--csv", "--page", "raw", "--print-units", "base"]
# A step is not counted if one run of it is expected to take longer, in milliseconds: each counter runs it again.
LIMIT = 100.0


@dataclass(frozen=True)
class ProfiledStep:
    """The program after a step, with the figures of each of its launches, or why there are none."""

    step: str
    place: str
    launches: tuple[tuple[Figure, ...], ...] = ()
    error: str | None = None


def find_profiler() -> str:
    """The path of `ncu`. Raises DeviceError where there is none."""
    found = shutil.which("ncu") or next((path for place in _PLACES for path in sorted(glob(place), reverse=True)), None)
    if found is None:
        raise DeviceError(
            "there is no ncu, the command of Nsight Compute",
            notes=("it comes with the CUDA toolkit, or from developer.nvidia.com; looked for on PATH, too",),
        )
    return found


def steps_to_profile(found: Explanation, limit: float = LIMIT) -> list[int]:
    """The steps whose program can be launched, is not that of the step before, and is fast enough."""
    return [number for number, step in enumerate(found.steps) if not (step.same or _reason(step, limit))]


def _reason(step: StepReport, limit: float) -> str | None:
    """Why the program after a step is not counted."""
    kept = max((launch.kept for launch in step.launches), default=0)
    if step.error:
        return f"cannot be launched: {step.error}"
    if kept > MOST_KEPT:
        return f"not compiled: a thread keeps {kept} bytes in registers"
    if step.milliseconds > limit:
        return f"not counted: {step.milliseconds / 1e3:.3g} s or more"
    return None


Answer = Mapping[str, object]  # of the child on a step: how many "launches" there were, or an "error"
Run = Callable[[Sequence[str]], str]  # runs a command; what it prints


def profile(
    found: Explanation,
    task: Callable[[Sequence[int], str], Task],
    *,
    limit: float = LIMIT,
    keep: str | None = None,
    run: Run | None = None,
) -> list[ProfiledStep]:
    """Launches the program after each step under Nsight Compute.

    Args:
        found: what was predicted of each step.
        task: makes, of places of steps and the file for its answer, what a process of its own is to do.
        limit: milliseconds that a launch may be expected to take.
        keep: the file for the report of Nsight Compute, with the lines of the schedule.
        run: runs Nsight Compute.

    Raises:
        DeviceError: there is no GPU, or no Nsight Compute, or it is not allowed to count.
    """
    chosen = steps_to_profile(found, limit)
    with TemporaryDirectory() as folder:
        file, answer = Path(folder, "task.json"), Path(folder, "answer.json")
        own = task(chosen, str(answer))
        file.write_text(replace(own, sources=folder if keep else None).to_json(), encoding="utf-8")
        output = (run or _run)(command_of(file, keep))
        if keep and Path(keep).is_file():
            output += (run or _run)(reading_command(keep))
        counted = read_counters(output)
        answers = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else []
    return list(_steps(found, dict(zip(chosen, answers, strict=False)), counted, limit))


def check_report(path: str | None) -> None:
    """Raises UsageError where Nsight Compute would write its report into no file, or into another one."""
    if path is None:
        return
    if not path.endswith(REPORT):
        raise UsageError(f"the report of Nsight Compute ends in {REPORT}", notes=(f"--keep {path}{REPORT}",))
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already", notes=("it is kept as it is: name another file, or remove it",))


def command_of(task: Path, keep: str | None = None) -> list[str]:
    """The command line of Nsight Compute for a task, which prints the counters, or keeps them in a report.

    The clocks are left as they are: those of a busy GPU are predicted for, and a machine may forbid to lock them.
    """
    options = ["--clock-control", "none", "--profile-from-start", "off", "--metrics", ",".join(METRICS)]
    # A report has what its source page shows too: the texts, and what it counts and samples for each line.
    options += ["--section", "SourceCounters", "--import-source", "yes", "--export", keep] if keep else _PRINTED
    return [find_profiler(), *options, sys.executable, "-m", "tilegen.profile.child", str(task)]


def reading_command(report: str) -> list[str]:
    """The command line of Nsight Compute that prints the counters of a report."""
    return [find_profiler(), "--import", report, *_PRINTED, "--metrics", ",".join(METRICS)]


def _run(command: Sequence[str]) -> str:
    # The child finds the tilegen that this is, installed or not.
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    return done.stdout + done.stderr


def _steps(
    found: Explanation, answers: Mapping[int, Answer], counted: Iterable[Counted], limit: float
) -> Iterator[ProfiledStep]:
    """Each step with as many of the launches counted as it had, in their order."""
    rest = iter(counted)
    for number, step in enumerate(found.steps):
        answer = answers.get(number, {})
        if launched := answer.get("launches"):
            own = list(islice(rest, int(str(launched))))
            alike = [each.kernel for each in own] == [launch.name for launch in step.launches]
            pairs = zip(step.launches, own, strict=True) if alike else ()
            figures = tuple(figures_of(launch, each, found.machine) for launch, each in pairs)
            yield ProfiledStep(
                step.name, step.place, figures, None if alike else "the profiler has seen other launches"
            )
        else:
            reason = answer.get("error") or ("the same program" if step.same else _reason(step, limit))
            yield ProfiledStep(step.name, step.place, error=str(reason or "the profiler ended before it"))


__all__ = ["ProfiledStep", "check_report", "find_profiler", "profile", "steps_to_profile"]
