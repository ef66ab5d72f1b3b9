"""What tuning found fastest, taken up from its records: by kernel, device and sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tilegen.errors import ArgumentError, TilegenError, UsageError
from tilegen.frontend.files import read_text
from tilegen.ir.comparison.alike import find_difference
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.nodes import Kernel, Tree
from tilegen.ir.steps import Define, Family, Member, Schedule, Setting
from tilegen.lab.choice.family import Candidate, Chooser, fitted, parameters_of, refusal
from tilegen.lab.choice.model import Coefficients, Model
from tilegen.lab.predict.machine import Machine, find_machine
from tilegen.lab.records.records import RunRecord
from tilegen.schedule import apply

if TYPE_CHECKING:
    from tilegen.backends.calls.device_program import Program

# A record whose samples were taken in turns with others of the fastest says so in its notes.
TOGETHER = "together"


def read_tuned(path: str | Path) -> list[RunRecord]:
    """The records of a file that have times of a schedule. Raises UsageError where there is none."""
    from tilegen.lab.records.records import read_records

    found = [
        r
        for r in read_records(read_text(path), str(path))
        if r.outcome == "measured" and r.text and r.schedule and r.device
    ]
    if not found:
        raise UsageError(f"{path} has no time of a schedule")
    return found


def find_fastest(records: Sequence[RunRecord], device: str, sizes: Mapping[str, int]) -> RunRecord | None:
    """The fastest record at these sizes on the device of this name; None where there is none.

    Times that were taken in turns are compared with each other alone, and count before all others.
    """
    there = [r for r in records if r.device and r.device.name == device and dict(r.sizes) == dict(sizes)]
    in_turns = [r for r in there if r.notes.get(TOGETHER)]
    return min(in_turns or there, key=lambda r: r.milliseconds or 0.0, default=None)


def find_nearest(records: Sequence[RunRecord], device: str, sizes: Mapping[str, int]) -> RunRecord | None:
    """The fastest record at the sizes that are nearest by their ratios, 0 as 1; None without one on the device."""
    there = [r for r in records if r.device and r.device.name == device and r.sizes.keys() == sizes.keys()]
    if not there:
        return None
    nearest = min(there, key=lambda r: sum(abs(log(max(1, r.sizes[name]) / max(1, sizes[name]))) for name in sizes))
    return find_fastest(there, device, nearest.sizes)


class _Scheduled(Protocol):
    @property
    def tree(self) -> Tree: ...

    def compile(self, device: str = ..., *, unproved: bool = ...) -> Program: ...


class _File(Protocol):
    families: tuple[Family, ...]
    defines: Mapping[str, Define]

    def instructions(self) -> Mapping[str, Instruction]: ...

    def find_schedule(self, name: str, kernel: str | None = None) -> Schedule: ...


class TunedKernel:
    """What a kernel of a file makes of its family, and of the records of tuning."""

    ir: Kernel
    values: dict[str, float]
    file: Any

    def schedule(self, name: str | None = None, /, **parameters: Setting) -> Any:
        """A schedule of the file, applied to this kernel; without a name, the kernel as written."""
        raise NotImplementedError

    def family(
        self, machine: Machine | str | None = None, tuned: str | Path | None = None, *, deterministic: bool = False
    ) -> Chooser | None:
        """What chooses among the schedules of this kernel's family by sizes; None where the file has no family for it.

            tilegen.load("hgemm").kernel("hgemm").family("h100").explain(M=64, N=4096, K=4096)

        Args:
            machine: whose times are predicted: a word for it ("h100"), or what `find_machine` gives for one.
            tuned: a record of `tilegen tune`, whose fastest schedules take part, with their times.
            deterministic: True leaves out members whose sums have another order than the others'.

        Raises:
            UsageError: no such machine, no times of this kernel in the file, or no members of one order for all sizes.
        """
        found = next((each for each in self.file.families if each.kernel == self.ir.name), None)
        if found is None:
            return None
        there = machine if isinstance(machine, Machine) else find_machine(machine)
        values = {**self.file.kernels[self.ir.name].constants, **self.values}
        constants = {name: int(value) for name, value in values.items() if value is not None and value == int(value)}
        candidates = [c for member in found.members for c in self._candidates(found, member, there, constants)]
        candidates += self._recorded(tuned, there) if tuned else []
        own = self.file.source.name
        known = bool(found.span and own == found.span.source.name and own.startswith("<stock ") and not self.values)
        made = Chooser(found.name, self.ir, candidates, there, constants, known)
        return made.deterministic() if deterministic else made

    def _candidates(
        self, family: Family, member: Member, machine: Machine, constants: Mapping[str, int]
    ) -> Iterator[Candidate]:
        file: _File = self.file
        schedule = file.find_schedule(member.schedule, self.ir.name)
        known, sizes = fitted(family, machine), {*self.ir.sizes, *constants}
        for name, given in parameters_of(member, schedule):
            # Whether these trees are the kernel the judge is asked of the one that is chosen.
            tree = apply(self.ir, schedule, given, file.defines, file.instructions, accepted=True).tree
            model = Model(tree, machine)
            made = partial(self.schedule, member.schedule, **given)
            words = (name, model.formula, f"{member.schedule} *", "*")
            by = next((known[word] for word in words if word in known), Coefficients())
            values = {p.name: p.default for p in schedule.parameters} | given
            facts = tuple(fact.fixed({n: v for n, v in values.items() if n not in sizes}) for fact in member.facts)
            whole = (name, member.schedule, given, facts, tree, model, by, made)
            yield Candidate(*whole, refused=refusal(tree, machine.arch))

    def _recorded(self, tuned: str | Path, machine: Machine) -> Iterator[Candidate]:
        """The fastest schedule at each of the sizes recorded on the machine's devices."""
        records = [r for r in self.records_of(tuned) if r.device and r.device.name in machine.devices]
        for sizes in {tuple(sorted(record.sizes.items())): record.sizes for record in records}.values():
            for name in dict.fromkeys(record.device.name for record in records if record.device):
                if (found := find_fastest(records, name, sizes)) and found.milliseconds:
                    tree = self.of_record(found).tree
                    model, by = Model(tree, machine), Coefficients()
                    scale = 1e3 * found.milliseconds / model.microseconds(sizes, by)
                    whole = (f"tuned: {found.name}", found.schedule or "", found.parameters, (), tree, model, by)
                    yield Candidate(*whole, partial(self.of_record, found), scale, "", dict(sizes))

    def suggest(self, machine: str | None = None, /, **sizes: int) -> Any:
        """A file with this kernel and a first schedule."""
        raise NotImplementedError

    def of_record(self, record: RunRecord) -> _Scheduled:
        """The schedule of a record, applied to the record's own text."""
        raise NotImplementedError

    def _compile_suggestion(self, device: str, unproved: bool) -> Program:
        """What `suggest` writes as a program, with a warning where it changes the order of terms."""
        (found,) = (file := self.suggest()).schedules
        program: Program = (
            file.kernel(self.ir.name, **self.values).schedule(found.name).compile(device, unproved=unproved)
        )
        own = [e.target for e in self.ir.equations if e.reduce and e.target in program.tree.reassociated]
        if own:
            said = (
                f"the terms of {', '.join(own)} come in another order: compile(unscheduled=True) keeps that of the text"
            )
            warnings.warn(said, stacklevel=3)
        return program

    def records_of(self, path: str | Path) -> list[RunRecord]:
        """The records of a file that have times of schedules of this kernel.

        Raises:
            UsageError: the file has none.
        """
        same: dict[tuple[Any, ...], bool] = {}
        found = []
        for record in read_tuned(path):
            key = (record.text, record.kernel, *sorted(record.constants.items()))
            if key not in same:
                same[key] = self._is_of(record)
            if same[key]:
                found.append(record)
        if not found:
            raise UsageError(f"{path} has no times of the kernel '{self.ir.name}' with these constants")
        return found

    def _is_of(self, record: RunRecord) -> bool:
        try:
            other = self.of_record(record).tree.kernel.written_kernel
        except TilegenError:  # a text that this tilegen does not take any more
            return False
        return find_difference(self.ir.written_kernel, other) is None

    def compile(
        self,
        tuned: str | Path | None = None,
        device: str = "auto",
        *,
        unproved: bool = False,
        deterministic: bool = False,
        unscheduled: bool = False,
    ) -> SeveralPrograms | Program:
        """A program that runs, for the sizes of each call, the schedule that `family` chooses.

        Without a family it runs the schedule that was fastest on this device at these sizes, or at the nearest ones, by
        their ratios; and without a file, as where no member serves (unless `deterministic`), what `suggest` writes: no
        approximations, no other types; a warning names the sums and products whose terms come in another order.

            multiply = tilegen.load("gemm").kernel().compile("tune-gemm.jsonl")
            c = multiply(a, b)

        Args:
            tuned: a record of `tilegen tune`.
            device: "cuda", "cpu", or "auto" for the first of the two that is there.
            unproved: True lets calls run what the proof leaves open; otherwise they raise ProofError.
            deterministic: True keeps one order of summation: no bit of a row depends on how many rows there are.
            unscheduled: True runs the kernel as it is written, on one thread, in the order of the text.

        Raises:
            UsageError: the file has no times of this kernel on this device, no members for all sizes add up in one
                order, or `tuned` is given with `unscheduled`. DeviceError: the device is not there.
        """
        from tilegen.backends.devices.devices import engine

        if unscheduled:
            if tuned is not None:
                raise UsageError("records of tuning are of schedules: give either these or unscheduled=True")
            written: Program = self.schedule().compile(device, unproved=unproved)
            return written
        if chooser := self.family(None, tuned, deterministic=deterministic):
            engine(device)
            suggest = None if deterministic else self._compile_suggestion
            return FamilyProgram(self.ir, chooser, device, unproved, suggest)
        if tuned and deterministic:
            raise UsageError("deterministic=True with times of tuning is for kernels with a family")
        if tuned is None:
            return self._compile_suggestion(device, unproved)
        name, records = engine(device).name, self.records_of(tuned)
        there = [r for r in records if r.device and r.device.name == name]
        if not there:
            others = ", ".join(sorted({r.device.name for r in records if r.device}))
            raise UsageError(f"{tuned} has no times on {name}", notes=(f"it has some on {others}",))
        return TunedProgram(self, there, device, unproved)


class SeveralPrograms:
    """A kernel on one device, which runs another schedule for other sizes; call it with arrays, as a Program."""

    def __init__(self, kernel: Kernel, device: str, unproved: bool) -> None:
        self._kernel, self._device, self._unproved = kernel, device, unproved
        self._programs: dict[Hashable, Program] = {}  # by what is chosen
        self._chosen: dict[Hashable, Program] = {}  # by the shapes of a call

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Runs the kernel as `Program` does, by the schedule for the sizes of these arrays."""
        return self._program(arrays, named)(*arrays, **named)

    def prepare(self, /, *arrays: Any, **named: Any) -> Any:
        """What `Program.prepare` gives, of the schedule for the sizes of these arrays."""
        return self._program(arrays, named).prepare(*arrays, **named)

    def _program(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Program:
        key = (*map(_shape, arrays), *((name, _shape(value, size=True)) for name, value in named.items()))
        if key not in self._chosen:
            sizes = self._sizes(arrays, named)
            if sizes is None:
                return self._any()  # which says what is wrong with the call
            self._chosen[key] = self._for(sizes)
        return self._chosen[key]

    def _sizes(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, int] | None:
        from tilegen.backends.calls.arrays import infer_sizes

        kernel = self._kernel
        tensors = {tensor.name for tensor in kernel.tensors}
        given = dict(zip(kernel.parameters, arrays, strict=False)) | dict(named)
        shapes = {n: tuple(a.shape) for n, a in given.items() if n in tensors and hasattr(a, "shape")}
        try:
            return infer_sizes(kernel, shapes, {n: int(v) for n, v in named.items() if n in kernel.sizes})
        except (ArgumentError, TypeError, ValueError):
            return None

    def _for(self, sizes: Mapping[str, int]) -> Program:
        """The program of what is chosen for these sizes."""
        raise NotImplementedError

    def _any(self) -> Program:
        raise NotImplementedError


def _shape(value: Any, *, size: bool = False) -> Hashable:
    """What a choice may depend on of an argument: the shape of an array, and the value of a size."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if shape is not None else value if size and isinstance(value, int) else None


class FamilyProgram(SeveralPrograms):
    """The programs of a family's members, of which a chooser takes one; `otherwise` makes one for other sizes."""

    def __init__(
        self, kernel: Kernel, chooser: Chooser, device: str, unproved: bool, otherwise: Callable[..., Program] | None
    ) -> None:
        super().__init__(kernel, device, unproved)
        self.chooser, self._otherwise = chooser, otherwise

    def __repr__(self) -> str:
        return f"<FamilyProgram of {self._kernel.name}, of {len(self.chooser.candidates)} members>"

    def choose(self, **sizes: int) -> Candidate:
        """The member that runs at these sizes, all of the kernel's."""
        return self.chooser.choose(**sizes)

    def _for(self, sizes: Mapping[str, int]) -> Program:
        try:
            return self._of_candidate(self.choose(**sizes))
        except UsageError:
            if self._otherwise is None:
                raise
        if "" not in self._programs:
            self._programs[""] = self._otherwise(self._device, self._unproved)
        return self._programs[""]

    def _any(self) -> Program:
        return self._of_candidate(self.chooser.candidates[-1])

    def _of_candidate(self, candidate: Candidate) -> Program:
        if candidate.name not in self._programs:
            self._programs[candidate.name] = candidate.scheduled().compile(self._device, unproved=self._unproved)
        return self._programs[candidate.name]


class TunedProgram(SeveralPrograms):
    """The programs of records of tuning, of which the nearest one is taken."""

    def __init__(self, of: TunedKernel, records: Sequence[RunRecord], device: str, unproved: bool) -> None:
        super().__init__(of.ir, device, unproved)
        self._of, self._records = of, records

    def __repr__(self) -> str:
        return f"<TunedProgram of {self._of.ir.name}, from {len(self._records)} records>"

    def choose(self, **sizes: int) -> RunRecord:
        """The record whose schedule runs at these sizes, all of the kernel's."""
        device = self._records[0].device
        assert device is not None
        found = find_nearest(self._records, device.name, sizes)
        if found is None:
            raise ArgumentError(f"the sizes of '{self._of.ir.name}' are {', '.join(self._of.ir.sizes)}")
        return found

    def _for(self, sizes: Mapping[str, int]) -> Program:
        return self._of_record(self.choose(**sizes))

    def _any(self) -> Program:
        return self._of_record(self._records[0])

    def _of_record(self, record: RunRecord) -> Program:
        key = (record.text, record.schedule, *sorted(record.parameters.items()))
        if key not in self._programs:
            scheduled = self._of.of_record(record)
            self._programs[key] = scheduled.compile(self._device, unproved=self._unproved)
        return self._programs[key]
