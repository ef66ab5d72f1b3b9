"""A kernel with the steps applied to it: more steps, its text, its proof, what it costs, what each step brings; and
programs of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tilegen import schedule as scheduling
from tilegen.backends.system.record import Record
from tilegen.errors import SourceError, TilegenError, UsageError
from tilegen.frontend import KernelDecl, Module, build, excerpt
from tilegen.frontend.stock import standard_steps
from tilegen.ir import nodes
from tilegen.ir.printing.shown import counted
from tilegen.ir.steps import Define, Schedule
from tilegen.judge import check_equations, has_sizes
from tilegen.primitives.calling.composite import expand, names_in
from tilegen.primitives.calling.methods import Steps

if TYPE_CHECKING:
    from tilegen.backends.calls.device_program import Program
    from tilegen.backends.calls.text_versions import TextVersions
    from tilegen.lab.measure.compare import Comparison
    from tilegen.lab.measure.ladder import Ladder
    from tilegen.lab.predict.explanation import Explanation
    from tilegen.proof import Proof

ACCEPTED = "accepted"  # what is kept of steps that the judge accepts


@dataclass(frozen=True)
class Origin:
    """Where a kernel is from: the text, the composite steps that its schedules may use, the values it was given."""

    module: Module
    defines: Mapping[str, Define]
    values: Mapping[str, float]

    def with_values(self, text: str) -> str:
        """A text of the kernel behind a comment on these values."""
        given = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"# with {given}\n{text}" if given else text

    def text_of(self, schedule: Schedule) -> str:
        """A text of a schedule and its kernel that needs no other."""
        return self.with_values(excerpt.self_contained(self.module, schedule, standard_steps()))

    def unfixed(self, core: scheduling.Derivation) -> tuple[Callable[[], nodes.Tree], dict[str, int]]:
        """What makes the tree for all sizes, and those that are fixed."""
        declared = self.module.kernels[core.kernel.name]
        sizes = {size: int(self.values[size]) for size in declared.size_names() if size in self.values}
        others = {word: value for word, value in self.values.items() if word not in sizes}
        return lambda: core.repeat(build_checked(declared, others)).tree, sizes


def build_checked(declared: KernelDecl, values: Mapping[str, float]) -> nodes.Kernel:
    """The kernel with these values. Raises SourceError where it is none, or no sizes are as its `where` says."""
    kernel = build(declared, values)
    if declared.assumptions and not has_sizes(kernel):
        raise SourceError("no sizes are as these facts want them", declared.assumptions[0].span)
    return check_equations(kernel)


class Scheduled(Steps):
    """A kernel and the steps applied to it. Every step of the language is a method that returns the next.

    >>> kernel.schedule().tile("i", 128, into=("bi", "ti")).bind("bi", "block.x").bind("ti", "thread.x")

    A step that cannot be built raises StepError, one after which the program is not the kernel IllegalStep.

    Attributes:
        core: the kernel with the trees that the steps have made of it.
    """

    def __init__(self, core: scheduling.Derivation, origin: Origin, record: Record) -> None:
        self.core, self._origin, self._record = core, origin, record
        self._defines = origin.defines

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.core.parameters.items())
        return f"<Scheduled {self.kernel.name} by {self.core.name}({values}), {counted(self.stages[1:], 'step')}>"

    def _repr_html_(self) -> str:
        return self.tree._repr_html_()

    @property
    def kernel(self) -> nodes.Kernel:
        """The kernel itself, as `Kernel.ir`."""
        return self.core.kernel

    @property
    def tree(self) -> nodes.Tree:
        """The loop tree after the last step; print shows it."""
        return self.core.tree

    @property
    def stages(self) -> tuple[scheduling.Stage, ...]:
        """The kernel as written, then each step with the tree after it."""
        return self.core.stages

    def step(self, word: str, *arguments: object, into: object = (), **keywords: object) -> Scheduled:
        """This with one more step, judged.

        Args:
            word: of a primitive step, or of a composite one, also of the file's own.
            into: the names that stand after `->` in a text.

        Raises:
            StepError: there is no such step, or it cannot be built. IllegalStep: the judge refuses it.
        """
        call = scheduling.call_of(word, arguments, into, keywords)
        record = self._record.then(call.text)
        accepted = record.recall(ACCEPTED) is True
        core = self.core.then(expand(call, self._defines, names_in(self.tree)), accepted=accepted)
        if not accepted:
            record.keep(True, ACCEPTED)
        return Scheduled(core, self._origin, record)

    def to_text(self) -> str:
        """The kernel and its steps in the language, each step primitive and with its numbers.

        `load(text).schedule(name)` gives the same tree, with the attributes and sizes that the kernel was given.
        """
        return self._origin.text_of(self.core.as_schedule)

    def versions(self, language: str = "cuda") -> TextVersions:
        """The versions of the text in "cuda" or "opencl", as programs choose among them; proved when asked for."""
        from tilegen.backends.calls.text_versions import TextVersions

        return TextVersions(self.tree, language, self._record)

    def export(
        self, folder: str | Path, archs: Sequence[str], *, name: str = "", unproved: bool = False
    ) -> tuple[str, ...]:
        """Writes the kernel with a C++ launcher, machine code, CMakeLists.txt and a test into a folder.

        Args:
            archs: what it is compiled for: ["sm_80", "sm_90a"].
            name: what functions and files are called after; the kernel if left out.
            unproved: True takes versions of which it is open whether they are the kernel, too; the texts say so.

        Returns:
            the names of the files.

        Raises:
            DeviceError: an architecture lacks an instruction, there is no compiler, or it refuses the text.
            UsageError: there is no such architecture, or the folder cannot be written, or has files of others.
            ProofError: a version is unproved, and that was not allowed.
        """
        from tilegen.export import export

        return export(self.core, Path(folder), archs, name=name, unproved=unproved)

    def compile(self, device: str = "auto", *, unproved: bool = False) -> Program:
        """A program to call with arrays: cupy or torch on a GPU, numpy on the CPU.

        Its `prepare` takes the arguments of a call and gives one that launches on them again and again.

        Args:
            device: "cuda", "cpu", or "auto" for the first of the two that is there.
            unproved: True lets calls run what the proof leaves open; otherwise they raise ProofError.

        Raises:
            DeviceError: the device is not there.
        """
        from tilegen.backends.devices.devices import engine, program

        return program(self.tree, engine(device), unproved=unproved, record=self._record)

    # -- studies

    def source(
        self,
        language: str = "cuda",
        *,
        vector: bool = True,
        whole: bool = False,
        wide: bool | None = None,
        unproved: bool = False,
        arch: str | None = None,
        lines: str | None = None,
    ) -> str:
        """The kernel's text in "cuda" or "opencl", stand-alone, with its launch dimensions.

        Args:
            vector: False gives the version without vector accesses that need an alignment.
            whole: True gives the version for sizes that the tiles divide, which has no tests for partial ones.
            wide: True gives the version with 64-bit offsets, for tensors of about 2**31 elements and more, False the
                one with 32-bit offsets; None takes that if the kernel admits sizes for it.
            unproved: True gives a text of which it is open whether it is the kernel, too; its head says so.
            arch: the architecture that a text in "cuda" is for ("sm_80"); None for any that has its instructions.
            lines: the file of a text in "cuda", which then has #line directives for the lines of the schedule.

        Raises:
            DeviceError: `arch` lacks an instruction that the text uses.
            UsageError: there is no such language or architecture, or a fixed size is no number of `whole` tiles.
            SourceError: an instruction of one's own cannot be assembled; where there is no assembler, the head says so.
            ProofError: the text would be unproved, and that was not allowed.
        """
        from tilegen.backends.calls.origins import emit_with_places
        from tilegen.backends.calls.text_versions import require_whole_tiles
        from tilegen.backends.compiler.architectures import require_instructions
        from tilegen.backends.compiler.assembled import title_with_remarks
        from tilegen.backends.text import emit
        from tilegen.lowering import lower_for_some_sizes
        from tilegen.proof import demand, prove

        if language not in ("cuda", "opencl"):
            raise UsageError(f"there is no language '{language}'", notes=("cuda and opencl are known",))
        if whole:
            require_whole_tiles(*self._origin.unfixed(self.core))
        tree = self.core.tree
        launches = lower_for_some_sizes(tree, vector=vector, whole=whole, wide=wide, instructions=language == "cuda")
        if arch:
            require_instructions(launches, arch)
        proof = prove(tree.kernel, launches, tree.reassociated)
        demand(proof, tree.kernel.name, unproved=unproved)
        title = title_with_remarks(self.core.title, proof.verdict, launches if language == "cuda" else ())
        if lines and language == "cuda":
            return emit_with_places(launches, self.core, lines, title)
        return emit(launches, language, title)

    def prove(self, *, vector: bool = True, whole: bool = False, wide: bool | None = None) -> Proof:
        """What is proved of the text that `source` gives with the same arguments, question by question.

        Raises:
            LimitError: the program exceeds a limit of the GPU, so that there is no text.
        """
        from tilegen.lowering import lower_for_some_sizes
        from tilegen.proof import prove

        return prove(
            self.core.tree.kernel,
            lower_for_some_sizes(self.core.tree, vector=vector, whole=whole, wide=wide),
            self.core.tree.reassociated,
        )

    def explain(self, *, last: bool = False, compiled: bool = True, hits: float = 0.0, **sizes: int) -> Explanation:
        """Traffic, conflicts, occupancy and the predicted time after each step, without running anything.

        Args:
            last: the whole schedule alone, not each of its steps.
            compiled: False leaves the compiler out: fast, but no registers and no spills.
            hits: the share of the points of a list that are hits, from 0 to 1, for what these store.
            sizes: those of the kernel; what is left out is chosen.

        Raises:
            UsageError: the kernel has no such size, or it is out of range.
        """
        from tilegen.lab.checks.sizes import GPU_LIMITS, known_sizes, power_sizes
        from tilegen.lab.predict.advice import advise
        from tilegen.lab.predict.explain import explain
        from tilegen.lab.predict.machine import machine_here

        counted = power_sizes(self.tree.kernel, known_sizes(self.core.kernel, sizes), GPU_LIMITS)
        machine = machine_here()
        found = explain(self.core, counted, machine=machine, last=last, compiled=compiled, hits=hits)
        return replace(found, advice=advise(self.core, counted, machine))

    def compare(
        self,
        *others: Scheduled,
        device: str = "auto",
        machine: str | None = None,
        unproved: bool = False,
        **sizes: int,
    ) -> Comparison:
        """Checks this schedule and others of the kernel, and times them side by side, beside a library's call.

        Times are in milliseconds. A schedule that is wrong or cannot run has a row that says why.

        Args:
            device: "cuda", "cpu", or "auto" for the first of the two that is there.
            unproved: True runs what the proof leaves open, too.
            sizes: those of the kernel; what is left out is chosen.
            machine: predicts times of "t4", "h200", ... or a file, and takes none; where "auto" finds no GPU, "h200".

        Raises:
            UsageError: another kernel, or a size that it does not have.
            DeviceError: the device is not there, or fails.
        """
        from tilegen.backends.devices.devices import engine
        from tilegen.lab.checks.sizes import known_sizes
        from tilegen.lab.measure.compare import ComparisonRun
        from tilegen.lab.predict.machine import machine_instead

        trees: dict[str, nodes.Tree | TilegenError] = {}
        for each in (self, *others):
            if each.core.kernel != self.core.kernel:
                raise UsageError(
                    f"'{each.core.kernel.name}' and '{self.core.kernel.name}' are two kernels, and one is compared"
                )
            trees[_fresh_label(each.core.name, trees)] = each.core.tree
        given, runs_on = known_sizes(self.core.kernel, sizes), engine(device)
        predicts = machine_instead(machine, device, on_gpu=runs_on.on_gpu)
        return ComparisonRun(trees, runs_on, given, unproved=unproved, machine=predicts).run()

    def ladder(
        self,
        *,
        device: str = "auto",
        machine: str | None = None,
        limit: float | None = None,
        unproved: bool = False,
        **sizes: int,
    ) -> Ladder:
        """Checks and times the program after each step.

        Args:
            device: "cuda", "cpu", or "auto" for the first of the two that is there.
            limit: milliseconds; a program that takes longer is not timed.
            unproved: True runs what the proof leaves open, too.
            sizes: those of the kernel; what is left out is chosen.
            machine: predicts times of "t4", "h200", ... or a file, and takes none; where "auto" finds no GPU, "h200".

        Raises:
            UsageError: the kernel has no such size. DeviceError: the device is not there, or fails.
        """
        from tilegen.backends.devices.devices import engine
        from tilegen.lab.checks.sizes import known_sizes
        from tilegen.lab.measure.ladder import LadderRun
        from tilegen.lab.predict.machine import machine_instead

        given, runs_on = known_sizes(self.core.kernel, sizes), engine(device)
        predicts = machine_instead(machine, device, on_gpu=runs_on.on_gpu)
        return LadderRun(self.core, runs_on, given, limit=limit, machine=predicts, unproved=unproved).run()


def _fresh_label(name: str, taken: Collection[str]) -> str:
    """`name`, or `name 2` and so on where a row is called so."""
    return name if name not in taken else next(f"{name} {n}" for n in count(2) if f"{name} {n}" not in taken)
