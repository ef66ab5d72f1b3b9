"""tilegen from Python: load a text, schedule a kernel, look at it, compile it, call it with arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilegen import schedule as scheduling
from tilegen.api.scheduled import ACCEPTED, Origin, Scheduled, build_checked
from tilegen.backends.system.record import Record, record_of
from tilegen.errors import Source, SourceError, UsageError, did_you_mean, numbers
from tilegen.frontend import KernelDecl, Module, excerpt, parse
from tilegen.frontend.files import read_file, shorten
from tilegen.frontend.instructions.build import chained
from tilegen.frontend.parsing.scan import MOST_CHARACTERS
from tilegen.frontend.stock import (
    standard_steps,
    stock,
    stock_instructions,
    stock_names,
    with_stock,
)
from tilegen.ir import nodes
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.steps import Define, Family, Schedule, Setting
from tilegen.lab.choice.tuned import TunedKernel
from tilegen.lab.predict.machine import Machine

if TYPE_CHECKING:
    from tilegen.lab.records.records import RunRecord


def load(path_or_text: str | Path, *, cache: bool = True) -> File:
    """The kernels and schedules of a text, a file, or a stock file by its name ("gemm").

    A stock file's name never means another file: that one is called by its path, "gemm.tg" or "./gemm". A kernel
    without schedules in its file gets the stock schedules for its name, if it has the loops and tensors of the stock
    kernel; a schedule whose kernel is not in its file is for the stock kernel of that name.

    Args:
        cache: False judges, lowers and proves in this process whatever is called, though an earlier one has done so.

    Raises:
        UsageError: no such file.
        SourceError: a text that is not well formed, or a schedule for a kernel that is nowhere.
    """
    name = str(path_or_text)
    if "\n" in name:
        return from_text(name, cache=cache)
    if name in stock_names() and not (isinstance(path_or_text, Path) and path_or_text.is_file()):
        return File(stock(name), _remark_on_namesake(name), cache=cache)
    text = read_file(name, MOST_CHARACTERS * 4)
    if text is not None:
        return from_text(text, name, cache=cache)
    notes = did_you_mean(name, stock_names(), "the stock files are")
    raise UsageError(f"there is no file '{shorten(name)}', and no stock file of that name", notes=notes)


def from_text(text: str, name: str = "<text>", *, cache: bool = True) -> File:
    """`load` of a text that messages call `name`."""
    return File(*with_stock(parse(Source(name, text))), cache=cache)


def _remark_on_namesake(name: str) -> str:
    """What tells the stock file `name` from a file of that name in the current folder; empty where there is none."""
    for path, other in ((f"{name}.tg", f"{name}.tg"), (name, f"./{name}")):
        if Path(path).is_file():
            return f"{name} is the stock file; for the file {path} of this folder say {other}"
    return ""


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
        """The schedule `name` applied to its kernel; where it is for several, say kernel("..").schedule(name).

        Args:
            fix: attributes of the kernel, and sizes to fix as constants.
            parameters: values for the schedule's parameters.

        Raises:
            UsageError: no such schedule, or one for several kernels.
            SourceError, StepError, IllegalStep: as the steps say.
        """
        named = self.find_schedule(name)
        return self.kernel(named.kernel, **(fix or {})).schedule(name, **parameters)

    def find_schedule(self, name: str, kernel: str | None = None) -> Schedule:
        """The schedule `name` with its steps, for `kernel` where that is given.

        Raises UsageError where there is none, and where it is for several kernels, none of which is given.
        """
        found = [s for s in self.schedules if s.name == name]
        for schedule in found:
            if schedule.kernel == kernel or (kernel is None and len(found) == 1):
                return schedule
        if found and kernel is not None:
            kernels = " and ".join(f"'{k}'" for k in found[0].kernels)
            raise UsageError(f"schedule '{name}' is for kernel {kernels}, not for '{kernel}'")
        if found:
            kernels = ", ".join(found[0].kernels)
            raise UsageError(f"schedule '{name}' is for several kernels: say which", notes=(kernels,))
        known = [s.name for s in self.schedules]
        notes = did_you_mean(name, known, "its schedules are")
        raise UsageError(f"{self.source.name} has no schedule '{name}'", notes=(*notes, *filter(None, [self.remark])))


class Kernel(TunedKernel):
    """A kernel of a file with its attributes decided.

    Attributes:
        file: where it stands.
        ir: the kernel itself: tensors with types and shapes (in elements, as expressions of the sizes), equations.
        values: the attributes and sizes that it was given, all integers but attributes of `float`.
    """

    file: File

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
        """
        from tilegen.suggest import suggest_for

        text = f"{self.file.kernel_alone(self.ir.name)}\n{suggest_for(self.ir, sizes, machine)}"
        return from_text(self._origin.with_values(text), f"<suggestion for {self.ir.name}>", cache=self.file.cache)

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
        from tilegen.export import export_family

        chooser = self.family(machine, deterministic=deterministic)
        if chooser is None:
            raise UsageError(f"kernel '{self.ir.name}' has no family: export one of its schedules")
        return export_family(chooser, Path(folder), archs, name=name, unproved=unproved)

    def of_record(self, record: RunRecord) -> Scheduled:
        """The schedule of a record of tuning with its parameters, on the kernel of the record's own text."""
        file = from_text(record.text or "", f"<record of {record.name}>", cache=self.file.cache)
        return file.kernel(record.kernel, **record.constants).schedule(record.schedule, **record.parameters)

    def _find_record(self, schedule: str | None, parameters: Mapping[str, Setting]) -> Record:
        if not self.file.cache:
            return Record()
        values, given = sorted(self.values.items()), sorted(scheduling.settings(parameters).items())
        return record_of(self.file.source.text, *self.file._module.texts, self.ir.name, values, schedule, given)


__all__ = ["File", "Kernel", "Scheduled", "load", "stock_names"]
