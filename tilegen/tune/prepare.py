"""What is decided of a candidate without its device: is it legal, within limits, worth a try; and its machine code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from time import perf_counter

from tilegen import api
from tilegen.backends.calls.arrays import check_sizes
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import compiled_architecture, instructions_of, require_instructions
from tilegen.lab.checks.sizes import sizes_to_check
from tilegen.lab.choice.family import fitted_to_formulas
from tilegen.lab.choice.model import Coefficients, Model
from tilegen.lab.predict.explain import explain_tree
from tilegen.lab.predict.machine import Machine
from tilegen.lowering import Launch
from tilegen.tune.space import Candidate
from tilegen.tune.task import Outcome, Task

# A prediction is held against times with this allowance: ceilings are measured, too.
SLACK = 1.1

Seconds = dict[str, float]


@contextmanager
def clock(seconds: Seconds, part: str) -> Iterator[None]:
    """Adds the time inside the block to that of `part`."""
    start = perf_counter()
    try:
        yield
    finally:
        seconds[part] = seconds.get(part, 0.0) + perf_counter() - start


@lru_cache(maxsize=8)
def _file(text: str) -> api.File:
    return api.from_text(text)


def apply(task: Task, candidate: Candidate) -> api.Scheduled:
    """The candidate's schedule, with its parameters, on the kernel. Raises what `Kernel.schedule` raises."""
    kernel = _file(task.texts[candidate.schedule]).kernel(task.kernel, **task.values)
    return kernel.schedule(candidate.schedule, **dict(candidate.parameters))


def prepare(task: Task, candidate: Candidate, best: float | None, seconds: Seconds) -> Outcome:
    """Judges, predicts, proves and compiles, in this order; what is found out lies in the cache for `measure`.

    Args:
        best: milliseconds; what the roofline says to take longer goes no further.

    Raises:
        TilegenError: it is illegal, over a limit, unproved, or the compiler refuses it.
    """
    with clock(seconds, "judge"):
        scheduled = apply(task, candidate)
        check_sizes(scheduled.tree.kernel, task.sizes)
    predicted = modelled = None
    if task.machine:
        with clock(seconds, "predict"):
            predicted, modelled = predict(scheduled, task, task.machine)
        if best is not None and predicted > SLACK * best:
            message = f"at least {predicted:.4g} ms by the roofline, beside {best:.4g} ms"
            return Outcome(candidate, "roofline", message, predicted=predicted, modelled=modelled)
    versions = scheduled.versions("cuda" if task.arch else "opencl")
    with clock(seconds, "judge"):
        wanted = [task.sizes, *sizes_to_check([scheduled.tree], {})]
        texts = {
            version: versions.text(version, unproved=task.unproved)
            for version in (versions.choose(each, {}) for each in wanted)
        }
    timed = versions.launches(versions.choose(task.sizes, {}))
    built = {"launches": len(timed), "shared": max(launch.shared_bytes for launch in timed)}
    if task.arch and not nvrtc.unavailable_reason():
        with clock(seconds, "compile"):
            for version, text in texts.items():
                found = _compile(text, versions.launches(version), task.arch)
                if versions.launches(version) == timed:
                    built |= found
    return Outcome(candidate, "measured", predicted=predicted, built=built, modelled=modelled)


def _compile(text: str, launches: Sequence[Launch], arch: str) -> dict[str, int]:
    """The most registers and spills of a launch, compiled for a GPU. Raises DeviceError where it cannot be."""
    target = compiled_architecture(instructions_of(launches), arch)
    require_instructions(launches, target)
    found = nvrtc.compile_text(text, target).resources.values()
    return {"registers": max(r.registers for r in found), "spills": max(r.spills for r in found)} if found else {}


def predict(scheduled: api.Scheduled, task: Task, machine: Machine) -> tuple[float, float]:
    """Milliseconds of all launches together: (the least by the roofline, those by the model of time, no fewer).

    The model takes coefficients that were fitted to times of a tree of the same costs, else typical ones.

    Raises LimitError where they cannot be launched.
    """
    tree = scheduled.tree
    least = sum(each.prediction.milliseconds for each in explain_tree(tree, task.sizes, machine, compiled=False))
    model = Model(tree, machine)
    by = fitted_to_formulas(machine).get(model.formula, Coefficients())
    return least, max(least, model.microseconds(task.sizes, by) / 1e3)
