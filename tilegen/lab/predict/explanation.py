"""An explanation: what is known of each step of a schedule, and its figures as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilegen.backends.compiler import nvrtc, sass
from tilegen.ir.printing.shown import ShownAsTable, Table, counted, size_words
from tilegen.lab.counts import formula
from tilegen.lab.counts.banks import Remedy
from tilegen.lab.counts.roles import RoleLoop
from tilegen.lab.counts.traffic import SECTOR, ArithmeticCount, Inner, Traffic
from tilegen.lab.predict.machine import Machine
from tilegen.lab.predict.occupancy import Occupancy
from tilegen.lab.predict.roofline import Prediction

_FIGURES = ("GB", "coal.", "loads:FMA", "conflict", "shared B", "regs", "spills", "occup.", "ms", "limit")
_HEADS = ("step", "grid x block", "global loads", *_FIGURES)


@dataclass(frozen=True)
class LaunchReport:
    """One launch at the given sizes.

    Attributes:
        blocks: of the grid, `threads` of a block.
        remedies: for each shared buffer with bank conflicts, what would mend them.
        occupancy: on the machine that the launch is explained for; `elsewhere` on other architectures, if a
            thread takes as many registers there.
        resources: registers and spills as the compiler reports them; None where it was not asked.
        hot: the machine code of the innermost loop; None without a disassembler.
        roles: the loops of threads and blocks that do different work.
        kept: bytes that a thread keeps in arrays of registers.
        fragments: registers of 32 bits that a lane has of each fragment.
        tensor_elsewhere: ms that the tensor cores of other GPUs need for what instructions of warps compute.
    """

    name: str
    blocks: int
    threads: int
    shared_bytes: int
    traffic: tuple[Traffic, ...]
    work: ArithmeticCount
    inner: Inner | None
    remedies: Mapping[str, tuple[Remedy, ...]]
    prediction: Prediction
    occupancy: Occupancy
    elsewhere: Mapping[str, Occupancy]
    resources: nvrtc.Resources | None = None
    hot: sass.Hot | None = None
    roles: tuple[RoleLoop, ...] = ()
    kept: int = 0
    fragments: Mapping[str, int] = field(default_factory=dict)
    tensor_elsewhere: Mapping[str, float] = field(default_factory=dict)

    def loads(self, space: str) -> formula.Formula:
        """Elements that the threads load from "global" or "shared" memory, as a formula in the sizes."""
        return formula.total(t.elements for t in self.traffic if t.space == space and not t.store)

    @property
    def global_bytes(self) -> float:
        """Bytes of all transactions with global memory."""
        return SECTOR * sum(t.sectors for t in self.traffic)

    @property
    def coalesced_share(self) -> float:
        """The least transactions as a share of those made."""
        made = sum(t.sectors for t in self.traffic)
        return sum(t.least_sectors for t in self.traffic) / made if made else 1.0

    @property
    def conflicts(self) -> float:
        """The wavefronts of the worst shared access for each one that it needs; 1 without conflicts."""
        return max((t.conflict.degree for t in self.traffic if t.conflict), default=1.0)


@dataclass(frozen=True, repr=False)
class StepReport:
    """A step of the schedule, and the program up to it, which is the `same` one where the step changes nothing that
    is counted. `error` says why that program cannot be launched, and `exit_code` is that of the error."""

    step: str | None
    place: str
    launches: tuple[LaunchReport, ...] = ()
    same: bool = False
    error: str | None = None
    exit_code: int = 0

    @property
    def name(self) -> str:
        return self.step or "as written"

    @property
    def milliseconds(self) -> float:
        return sum(launch.prediction.milliseconds for launch in self.launches)

    def __repr__(self) -> str:
        found = self.error or f"{counted(self.launches, 'launch')}, {self.milliseconds:.3g} ms predicted"
        return f"<{self.name}: {found}>"


@dataclass(frozen=True)
class Advice:
    """A waste and the steps that mend it: the program's predicted milliseconds without and with them."""

    waste: str
    remedy: str
    before: float
    after: float

    def __str__(self) -> str:
        gain = f"{self.before:.3g} -> {self.after:.3g} ms predicted, x {self.before / self.after:.2f}"
        return f"{self.waste}: {self.remedy} ({gain})"


@dataclass(frozen=True, repr=False)
class Explanation(ShownAsTable):
    """All steps of a schedule at given sizes.

    Attributes:
        machine: the GPU that times are predicted for.
        operations: of the kernel as written; a multiply-add is two.
        compulsory: bytes that any program for it moves: inputs read once, outputs written once.
        steps: with the launches after each, whose times are milliseconds, and traffic bytes.
        notes: what could not be known.
        advice: wastes of the whole schedule, and steps that mend them, the largest gain first.
    """

    kernel: str
    schedule: str
    sizes: Mapping[str, int]
    machine: Machine
    operations: int
    compulsory: int
    steps: tuple[StepReport, ...]
    notes: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()

    def table(self) -> Table:
        """A row for each launch after each step."""
        return _table_of(self)


def _table_of(found: Explanation) -> Table:
    """A row for each launch after each step; the `notes` of the explanation stand below."""
    pairs = zip(found.steps, (None, *found.steps), strict=False)
    rows = [(*cells, *[""] * (len(_HEADS) - len(cells))) for step, before in pairs for cells in _rows(step, before)]
    title = f"{found.kernel}, schedule {found.schedule}  {size_words(found.sizes)}  for {found.machine.name}"
    return Table(title, _HEADS, rows, found.notes)


def _rows(step: StepReport, before: StepReport | None) -> Iterator[tuple[str, ...]]:
    """One row for each launch of a step; a step that changes nothing that is counted says so."""
    if step.error:
        same = before is not None and before.error == step.error
        yield step.name, "", "cannot be launched, as before" if same else f"cannot be launched: {step.error}"
    elif step.same:
        yield step.name, "", "the same program"
    else:
        for number, launch in enumerate(step.launches):
            lead = step.name if not number else ""
            yield lead if len(step.launches) == 1 else f"{lead} [{launch.name}]".strip(), *_cells(launch)


def _cells(launch: LaunchReport) -> tuple[str, ...]:
    taken = launch.resources
    return (
        f"{launch.blocks} x {launch.threads}",
        str(launch.loads("global")),
        f"{launch.global_bytes / 1e9:.3g}",
        f"{100 * launch.coalesced_share:.0f}%",
        _ratio(launch),
        f"{launch.conflicts:.3g}",
        str(launch.shared_bytes),
        str(taken.registers) if taken else "",
        str(taken.spills) if taken else "",
        f"{100 * launch.occupancy.share:.0f}%" if launch.threads > 1 else "",
        f"{launch.prediction.milliseconds:.3g}",
        launch.prediction.limit,
    )


def _ratio(launch: LaunchReport) -> str:
    """Loads of one inner iteration against multiply-adds, or against instructions of a warp where such compute."""
    found = launch.inner
    if found is None:
        return ""
    loads = found.shared + found.global_
    return f"{loads:.3g}:{found.by_warps or found.fused or found.plain:.3g}"
