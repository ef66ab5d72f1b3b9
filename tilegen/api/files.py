"""A text, and the kernels in it: their schedules, the choice among these, and programs that choose."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen import schedule as scheduling
from tilegen.api.scheduled import ACCEPTED, Origin, Scheduled, build_checked
from tilegen.backends.system.record import Record, record_of
from tilegen.errors import Source, SourceError, TilegenError, UsageError, did_you_mean, numbers
from tilegen.frontend import KernelDecl, Module, excerpt, parse
from tilegen.frontend.instructions.build import chained
from tilegen.frontend.stock import (
    standard_steps,
    stock_instructions,
    with_stock,
)
from tilegen.ir import nodes
from tilegen.ir.comparison.alike import find_difference
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.steps import Define, Family, Member, Schedule, Setting
from tilegen.lab.choice.family import Candidate, Chooser, at_their_best, fitted, limits, parameters_of, refusal
from tilegen.lab.choice.model import Coefficients, Model
from tilegen.lab.choice.tuned import FamilyProgram, SeveralPrograms, TunedProgram, find_fastest, read_tuned
from tilegen.lab.predict.machine import Machine, find_machine

if TYPE_CHECKING:
    from tilegen.backends.calls.device_program import Program
    from tilegen.lab.records.records import RunRecord


def from_text(text: str, name: str = "<text>", *, cache: bool = True) -> File:
    """`load` of a text that messages call `name`."""
    return File(*with_stock(parse(Source(name, text))), cache=cache)


class File:
    """What a text holds: kernels, schedules, composite steps.

    Attributes:
        kernels: those of the text by name, as they are written.
        schedules: those of the text, and of the stock file of its kernel's name where it has none; so the families.
        defines: the composite steps by their word.
        remark: which other file its name may have meant, or why the kernel does not get the stock schedules of its
            name, if there are any that it does not get; else empty.
        cache: whether what earlier processes have found out about its kernels is taken from the disk, and kept there.
    """

    def __init__(self, module: Module, remark: str = "", *, cache: bool = True) -> None:
        self._module = module
        self.remark = remark
        self.cache = cache
        self.kernels: Mapping[str, KernelDecl] = module.kernels
        self.schedules: tuple[Schedule, ...] = module.schedules
        self.families: tuple[Family, ...] = module.families
        self.defines: Mapping[str, Define] = {**standard_steps(), **{d.word: d for d in module.defines}}

    def __repr__(self) -> str:
        schedules = ", ".join(dict.fromkeys(s.name for s in self.schedules)) or "none"
        return f"<File {self.source.name}: kernels {', '.join(self.kernels)}; schedules {schedules}>"

    def instructions(self) -> Mapping[str, Instruction]:
        """The instructions that a schedule may name: those of the text, and the stock."""
        return chained(self._module.instructions, stock_instructions())

    @property
    def source(self) -> Source:
        """The text with the name that messages give it."""
        return self._module.source

    @property
    def title(self) -> str:
        """The comment at the head of the text, on one line; empty where there is none."""
        return excerpt.title(self._module)

    @property
    def text(self) -> str:
        """The text, of a stock file with its kernels first where they have a file of their own."""
        return self.source.text

    def signature(self, kernel: str) -> str:
        """The head of a kernel on one line: gemm(A: f32[M, K], ...) -> C: f32[M, N], with what its `where` says."""
        return excerpt.signature(self.kernels[kernel])

    def text_of(self, schedules: Sequence[str], kernel: str | None = None) -> str:
        """The text of schedules of one kernel, of those that they extend in this file, and of the kernel.

        Raises what `find_schedule` raises.
        """
        found = [self.find_schedule(name, kernel) for name in schedules]
        return excerpt.as_written(self._module, found, standard_steps())

    def self_contained(self, schedule: str | Schedule, kernel: str | None = None) -> str:
        """A text of a schedule, with the steps that it inherits, and its kernel. Raises what `find_schedule` raises."""
        found = schedule if isinstance(schedule, Schedule) else self.find_schedule(schedule, kernel)
        return excerpt.self_contained(self._module, found, standard_steps())

    def kernel_alone(self, kernel: str) -> str:
        """A text of a kernel, without schedules, which needs no other text."""
        return excerpt.kernel_alone(self._module, kernel)

    def kernel(self, name: str | None = None, /, **values: float) -> Kernel:
        """A kernel; `name` may be left out where there is only one.

        Args:
            values: attributes of the kernel, and sizes to fix as constants: integers, but for attributes of `float`.

        Raises:
            UsageError: no such kernel, or several and no name; a value that is no such number, or for nothing in it.
            SourceError: the kernel's text is wrong, an equation reads what is not there or defines an element twice,
                or no sizes are as its `where` says.
        """
        if name is None:
            used = {s.kernel for s in self.schedules} & set(self.kernels)
            names = list(self.kernels) if len(self.kernels) == 1 else sorted(used)
            if len(names) != 1:
                known = ", ".join(self.kernels)
                what = "several kernels: say which" if known else "no kernel"
                raise UsageError(f"{self.source.name} has {what}", notes=(known,) if known else ())
            name = names[0]
        if name not in self.kernels:
            notes = did_you_mean(name, self.kernels, "its kernels are")
            raise UsageError(f"{self.source.name} has no kernel '{name}'", notes=notes)
        decl = self.kernels[name]
        given = numbers(values, decl.fractions)
        needed = {word: value for word, value in given.items() if decl.constants.get(word, 0) is None}
        try:
            return Kernel(self, build_checked(decl, given), given)
        except SourceError as error:
            if given == needed:
                raise
            build_checked(decl, needed)  # a mistake of the text itself is reported as one
            notes = (*error.notes, f"with {', '.join(f'{word} = {value}' for word, value in given.items())}")
            raise UsageError(error.message, error.span, witness=error.witness, notes=notes) from None

    def schedule(self, name: str, fix: Mapping[str, float] | None = None, /, **parameters: Setting) -> Scheduled:
        """The schedule `name` applied to its kernel, of several to the first; another: kernel("..").schedule(name).

        Args:
            fix: attributes of the kernel, and sizes to fix as constants.
            parameters: values for the schedule's parameters.

        Raises:
            UsageError: no such schedule.
            SourceError, StepError, IllegalStep: as the steps say.
        """
        named = self.find_schedule(name)
        return self.kernel(named.kernel, **(fix or {})).schedule(name, **parameters)

    def find_schedule(self, name: str, kernel: str | None = None) -> Schedule:
        """The schedule `name` with its steps, for `kernel` where that is given, else for the first that its head names.

        Raises UsageError where there is none.
        """
        found = [s for s in self.schedules if s.name == name]
        for schedule in found:
            if kernel in (None, schedule.kernel):
                return schedule
        if found:
            kernels = " and ".join(f"'{k}'" for k in found[0].kernels)
            raise UsageError(f"schedule '{name}' is for kernel {kernels}, not for '{kernel}'")
        known = [s.name for s in self.schedules]
        notes = did_you_mean(name, known, "its schedules are")
        raise UsageError(f"{self.source.name} has no schedule '{name}'", notes=(*notes, *filter(None, [self.remark])))


class Kernel:
    """A kernel of a file with its attributes decided.

    Attributes:
        file: where it stands.
        ir: the kernel itself: tensors with types and shapes (in elements, as expressions of the sizes), equations.
        values: the attributes and sizes that it was given, all integers but attributes of `float`.
    """

    def __init__(self, file: File, ir: nodes.Kernel, values: Mapping[str, float]) -> None:
        self.file, self.ir, self.values = file, ir, dict(values)
        self._origin = Origin(file._module, file.defines, self.values)

    def __repr__(self) -> str:
        values = "".join(f", {name}={value}" for name, value in self.values.items())
        return f"<Kernel {self.ir.name} of {self.file.source.name}{values}>"

    def schedule(self, name: str | None = None, /, **parameters: Setting) -> Scheduled:
        """The schedule `name` applied to this kernel; without a name, the kernel as written, to add steps to.

        Args:
            parameters: values for the schedule's parameters.

        Raises:
            UsageError: no such schedule, or a value that is no integer.
            SourceError: an unknown step or parameter. StepError: a step that cannot be built.
            IllegalStep: a step after which the program is not the kernel.
        """
        found, record = self.file, self._find_record(name, parameters)
        if name is None:
            return Scheduled(scheduling.start(self.ir, found.instructions), self._origin, record)
        schedule, values = found.find_schedule(name, self.ir.name), scheduling.settings(parameters)
        accepted = record.recall(ACCEPTED) is True
        core = scheduling.apply(self.ir, schedule, values, found.defines, found.instructions, accepted=accepted)
        if not accepted:
            record.keep(True, ACCEPTED)
        return Scheduled(core, self._origin, record)

    def suggest(self, machine: str | None = None, /, **sizes: int) -> File:
        """This kernel with a first schedule, `suggested`, judged and proved for all sizes.

        `sizes`, and times predicted for `machine` ("h100"; else the GPU here, or an H200), decide between several ways.
        Without `sizes` the file has what others want, too, and a family of them all, if there is such.
        """
        from tilegen.suggest import suggest_for

        text = f"{self.file.kernel_alone(self.ir.name)}\n{suggest_for(self.ir, sizes, machine)}"
        return from_text(self._origin.with_values(text), f"<suggestion for {self.ir.name}>", cache=self.file.cache)

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
        written = [c for member in found.members for c in self._candidates(found, member, there, constants)]
        candidates = at_their_best(written, there)
        candidates += self._recorded(tuned, there) if tuned else []
        own = self.file.source.name
        known = bool(found.span and own == found.span.source.name and own.startswith("<stock ") and not self.values)
        made = Chooser(found.name, self.ir, candidates, there, constants, known)
        return made.deterministic() if deterministic else made

    def _candidates(
        self, family: Family, member: Member, machine: Machine, constants: Mapping[str, int]
    ) -> Iterator[Candidate]:
        file, schedule = self.file, self.file.find_schedule(member.schedule, self.ir.name)
        known, sizes = fitted(family, machine), {*self.ir.sizes, *constants}
        for name, given in parameters_of(member, schedule):
            # Whether these trees are the kernel the judge is asked of the one that is chosen.
            tree = scheduling.apply(self.ir, schedule, given, file.defines, file.instructions, accepted=True).tree
            model = Model(tree, machine)
            made = partial(self.schedule, member.schedule, **given)
            words = (name, model.formula, f"{member.schedule} *", "*")
            by = next((known[word] for word in words if word in known), Coefficients())
            values = schedule.values(given)
            facts = tuple(fact.fixed({n: v for n, v in values.items() if n not in sizes}) for fact in member.facts)
            whole = (name, member.schedule, given, (*facts, *limits(tree)), tree, model, by, made)
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

    def export(
        self,
        folder: str | Path,
        archs: Sequence[str],
        *,
        machine: str | Machine | None = None,
        name: str = "",
        deterministic: bool = False,
        unproved: bool = False,
    ) -> tuple[str, ...]:
        """Writes the members of this kernel's family with a launcher that chooses among them as `family` does.

        Args:
            machine, deterministic: as of `family`.
            archs, name, unproved: as of `Scheduled.export`; members that not all of `archs` can run are left out.

        Returns:
            the names of the files.

        Raises:
            UsageError: the kernel has no family, or no member runs on all of `archs`. Else as there.
        """
        from tilegen.export import export

        chooser = self.family(machine, deterministic=deterministic)
        if chooser is None:
            raise UsageError(f"kernel '{self.ir.name}' has no family: export one of its schedules")
        return export(chooser, Path(folder), archs, name=name, unproved=unproved)

    def _compile_suggestion(self, device: str, unproved: bool, several: bool = False) -> FamilyProgram | Program:
        """What `suggest` writes as a program, with a warning where it changes the order of terms.

        Args:
            several: True takes the family, where sizes decide; else it is the schedule for all of them.
        """
        file = self.suggest()
        kernel = file.kernel(self.ir.name, **self.values)
        program: FamilyProgram | Program
        if several and (chooser := kernel.family()):
            program = FamilyProgram(self.ir, chooser, device, unproved, None)
            trees = [candidate.tree for candidate in chooser.candidates]
        else:
            scheduled = kernel.schedule(file.schedules[0].name)
            program, trees = scheduled.compile(device, unproved=unproved), [scheduled.tree]
        moved = {target for tree in trees for target in tree.reassociated}
        if own := [e.target for e in self.ir.equations if e.reduce and e.target in moved]:
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
        their ratios; and without a file the family that `suggest` writes, or its one schedule (`deterministic`, or no
        member serves): no approximations, no other types; a warning names the sums whose terms change their order.

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
            return self.schedule().compile(device, unproved=unproved)
        if chooser := self.family(None, tuned, deterministic=deterministic):
            engine(device)
            suggest = None if deterministic else self._compile_suggestion
            return FamilyProgram(self.ir, chooser, device, unproved, suggest)
        if tuned and deterministic:
            raise UsageError("deterministic=True with times of tuning is for kernels with a family")
        name = engine(device).name
        if tuned is None:
            return self._compile_suggestion(device, unproved, several=not deterministic)
        records = self.records_of(tuned)
        there = [r for r in records if r.device and r.device.name == name]
        if not there:
            others = ", ".join(sorted({r.device.name for r in records if r.device}))
            raise UsageError(f"{tuned} has no times on {name}", notes=(f"it has some on {others}",))
        return TunedProgram(self.ir, there, device, unproved, self.of_record)

    def of_record(self, record: RunRecord) -> Scheduled:
        """The schedule of a record of tuning with its parameters, on the kernel of the record's own text."""
        file = from_text(record.text or "", f"<record of {record.name}>", cache=self.file.cache)
        return file.kernel(record.kernel, **record.constants).schedule(record.schedule, **record.parameters)

    def _find_record(self, schedule: str | None, parameters: Mapping[str, Setting]) -> Record:
        if not self.file.cache:
            return Record()
        values, given = sorted(self.values.items()), sorted(scheduling.settings(parameters).items())
        return record_of(self.file.source.text, *self.file._module.texts, self.ir.name, values, schedule, given)
