"""What a scheduled kernel is asked from Python: its text, its proof, what it costs, what each step brings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from tilegen.errors import TilegenError, UsageError, did_you_mean, integers
from tilegen.ir.nodes import Kernel, Tree
from tilegen.schedule import Derivation

if TYPE_CHECKING:
    from tilegen.lab.measure.compare import Comparison
    from tilegen.lab.measure.ladder import Ladder
    from tilegen.lab.predict.explanation import Explanation
    from tilegen.proof import Proof


class Studies:
    """The questions, as methods of what has a derivation."""

    core: Derivation

    def _fixed_sizes(self) -> tuple[Callable[[], Tree], Mapping[str, int]]:
        """What makes the tree for all sizes, and those of its sizes that are fixed."""
        raise NotImplementedError

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
            require_whole_tiles(*self._fixed_sizes())
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
        from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
        from tilegen.lab.predict.advice import advise
        from tilegen.lab.predict.explain import explain
        from tilegen.lab.predict.machine import machine_here

        counted = power_sizes(self.core.kernel, known_sizes(self.core.kernel, sizes), GPU_LIMITS)
        machine = machine_here()
        found = explain(self.core, counted, machine=machine, last=last, compiled=compiled, hits=hits)
        return replace(found, advice=advise(self.core, counted, machine))

    def compare(
        self,
        *others: Studies,
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
        from tilegen.lab.measure.compare import ComparisonRun
        from tilegen.lab.predict.machine import machine_instead

        trees: dict[str, Tree | TilegenError] = {}
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
        from tilegen.lab.measure.ladder import LadderRun
        from tilegen.lab.predict.machine import machine_instead

        given, runs_on = known_sizes(self.core.kernel, sizes), engine(device)
        predicts = machine_instead(machine, device, on_gpu=runs_on.on_gpu)
        return LadderRun(self.core, runs_on, given, limit=limit, machine=predicts, unproved=unproved).run()


def known_sizes(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` as integers. Raises UsageError for one that the kernel does not have."""
    for name in sizes:
        if name not in kernel.sizes:
            notes = did_you_mean(name, kernel.sizes, "its sizes are")
            raise UsageError(f"kernel '{kernel.name}' has no size '{name}'", notes=notes)
    return integers(sizes)


def _fresh_label(name: str, taken: Collection[str]) -> str:
    """`name`, or `name 2` and so on where a row is called so."""
    return name if name not in taken else next(f"{name} {n}" for n in count(2) if f"{name} {n}" not in taken)
