"""Kernels run under Oclgrind in a process of their own, with its checks of races and uninitialised values on.

`run_all(jobs)` gives an Outcome for each Job; a job can change the text before it is compiled.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.stored import as_called, rising
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import INTEGERS

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Job:
    """A tree at some sizes. With `edit`, (pattern, replacement, number), one match in its text is replaced.

    What is optimised runs four times as fast. Arrays that are not `aligned` begin four bytes after a multiple of 16.
    """

    label: str
    tree: object
    sizes: tuple
    edit: tuple | None = None
    optimised: bool = False
    aligned: bool = True


@dataclass(frozen=True)
class Outcome:
    """What came of a job: why its text was refused, what Oclgrind reported, whether a result was wrong."""

    label: str
    refused: str = ""
    report: str = ""
    wrong: bool = False


def run_all(jobs, device="oclgrind"):
    """The outcomes of the jobs, in order."""
    with tempfile.TemporaryDirectory() as folder:
        work, done, log = (Path(folder) / name for name in ("jobs", "done", "log"))
        work.write_bytes(pickle.dumps(list(jobs)))
        checks = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_LOG": str(log)}
        checks["OCLGRIND_MAX_ERRORS"] = "1000000000"
        checks["OCLGRIND_LOCAL_MEM_SIZE"] = str(227 * 1024)
        command = [sys.executable, "-m", __spec__.name, device, str(work), str(done), str(log)]
        subprocess.run(command, env={**os.environ, **checks}, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return pickle.loads(done.read_bytes())


def edit_text(text, edit):
    """`text` with match `number` of the pattern replaced; the same text where there is no such match."""
    pattern, new, number = edit
    helpers, own = split_helpers(text)
    matches = list(re.finditer(pattern, own, re.MULTILINE))
    if number >= len(matches):
        return text
    match = matches[number]
    return helpers + own[: match.start()] + match.expand(new) + own[match.end() :]


def split_helpers(text):
    """(what stands before the first kernel, its functions and its instructions; these and the kernels)."""
    first = re.search(
        r'^(?:extern "C" __global__|__kernel|static (?:inline|__device__ __forceinline__) void) ', text, re.M
    )
    return text[: first.start()], text[first.start() :]


def inputs(kernel, sizes, aligned=True):
    """Arrays for the inputs in their storage order: small integers, or numbers between a half and two."""
    rng = np.random.default_rng(5)
    arrays = {}
    for t in kernel.tensors:
        if t.role == "input":
            shape = [t.shape[d].evaluate(sizes) for d in t.order]
            drawn = rng.integers(-3, 4, shape) if t.dtype in INTEGERS else rng.uniform(0.5, 2, shape)
            stored = from_values(drawn, t.dtype)
            arrays[memory_of(t.name)] = (stored if aligned else misalign(stored)).transpose(np.argsort(t.order))
    arrays = rising(kernel, sizes, arrays)
    numbers = {s.name: np.array(2 if s.dtype in INTEGERS else 1.5) for s in kernel.scalars}
    return arrays | {s.name: from_values(numbers[s.name], s.dtype)[()] for s in kernel.scalars}


def misalign(array):
    """The array at an address that vectors do not take."""
    memory = np.empty(array.nbytes + 32, np.uint8)
    start = -memory.ctypes.data % 16 + array.itemsize
    moved = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def prepare(text, optimised):
    """(the option, the text): optimised if wanted, and if nothing is divided but by powers of two.

    Two things would be told of Oclgrind itself. Division by other numbers, and of what may be negative, gets an
    instruction when it is optimised (freeze) that its check of uninitialised values does not know; so ids are given
    bounds. And it takes the store of a vector that is made lane by lane apart into stores of nothing and of each lane.
    """
    divisors = [int(number) for number in re.findall(r" [/%] (\d+)\b(?!\.)", text)]
    if not optimised or any(n & (n - 1) for n in divisors):
        return "-cl-opt-disable", text
    text = re.sub(r"\*\(__(\w+) ([a-z]+)(\d+)\*\)(&.+) =\s+(\w+);", r"vstore\3(\5, 0, (__\1 \2*)\4);", text)
    text = re.sub(r"get_group_id\(\d\)", r"(\g<0> & 65535)", text)
    return "-O1", re.sub(r"get_local_id\(\d\)", r"(\g<0> & 1023)", text)


def _outcome(job, device, log):
    from tilegen.backends.devices.devices import engine, program
    from tilegen.errors import DeviceError, TilegenError
    from tilegen.interpreter import reference

    class Editing(type(engine(device))):
        def build(self, text, launches):
            text = edit_text(text, job.edit) if job.edit else text
            option, text = prepare(text, job.optimised)
            try:
                made = self._cl.Program(self._context, text).build(options=["-cl-std=CL1.2", option])
            except self._cl.Error as error:
                raise DeviceError(f"refused: {error}") from None
            return {launch.name: self._cl.Kernel(made, launch.name) for launch in launches}

    changed = object.__new__(Editing)
    changed.__dict__.update(engine(device).__dict__)
    compiled = program(job.tree, changed, unproved=True)
    before = log.stat().st_size if log.exists() else 0
    kernel, wrong = job.tree.kernel, False
    for sizes in job.sizes:
        arrays = inputs(kernel, sizes, job.aligned)
        expected = reference(kernel, sizes, arrays)  # before what is updated is
        try:
            results = compiled(**as_called(kernel, arrays), **sizes)
        except TilegenError as error:
            return Outcome(job.label, refused=str(error))
        outputs = [t.name for t in kernel.tensors if t.role == "output"]
        results = dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))
        for name, want in expected.items():
            if name in results:
                near = np.abs(to_values(results[name], kernel.tensor(name).dtype) - want.value) <= want.bound
                wrong = wrong or bool((want.written & ~near).any())
    report = log.read_text()[before:] if log.exists() else ""
    return Outcome(job.label, report=report, wrong=wrong)


def main():
    _, device, work, done, log = sys.argv
    # Unpickled jobs are those of this module, not of the script that is called __main__.
    jobs = pickle.loads(Path(work).read_bytes())
    Path(done).write_bytes(pickle.dumps([_share_outcome(_outcome(job, device, Path(log))) for job in jobs]))


def _share_outcome(outcome):
    from tests.support.devices.on_simulator import Outcome as Shared

    return Shared(outcome.label, outcome.refused, outcome.report, outcome.wrong)


if __name__ == "__main__":
    main()
