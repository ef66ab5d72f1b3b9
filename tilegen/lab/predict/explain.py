"""What can be counted and predicted of a schedule, step by step, without running it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod

from tilegen.backends.calls.text_versions import TextVersions
from tilegen.backends.compiler import nvrtc, sass, toolkit
from tilegen.backends.compiler.architectures import compiled_architecture, instructions_of, require_instructions
from tilegen.backends.system.record import Record
from tilegen.backends.text import emit
from tilegen.errors import DeviceError, LimitError, TilegenError
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import Kernel, Tree
from tilegen.ir.walk import gathers, loads
from tilegen.lab.counts import metric
from tilegen.lab.counts.banks import Remedy, remedies
from tilegen.lab.counts.footprint import moved_at_least
from tilegen.lab.counts.roles import roles_of
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.tensor_cores import TENSOR_CORES, tensor_seconds
from tilegen.lab.counts.traffic import ArithmeticCount, Traffic, arithmetic, inner, traffic
from tilegen.lab.counts.trips import with_mean_trips
from tilegen.lab.predict.cost import require_memory_of_machine
from tilegen.lab.predict.explanation import Explanation, LaunchReport, StepReport
from tilegen.lab.predict.machine import H200, Machine
from tilegen.lab.predict.occupancy import SM, limits_of, occupancy
from tilegen.lab.predict.roofline import Shape, predict
from tilegen.lowering import Launch
from tilegen.lowering.launch.grid import Product, count_blocks
from tilegen.schedule import Derivation, Stage

Progress = Callable[[str, int, int], None]

# A program whose threads keep more bytes in registers, of which each has 1 KB, is not compiled: the compiler writes out
# all loops over them, which takes minutes and says nothing. So large is what `tensorize` deals out to lanes.
MOST_KEPT = 2048


def explain(
    derivation: Derivation,
    sizes: Mapping[str, int],
    *,
    machine: Machine = H200,
    compiled: bool = True,
    last: bool = False,
    hits: float = 0.0,
    progress: Progress = lambda what, done, total: None,
) -> Explanation:
    """Lowers, compiles, counts and predicts the program after each step of a schedule; nothing runs.

    Args:
        sizes: all sizes of the kernel.
        compiled: False leaves the compiler out: no registers, no spills, and occupancy by threads alone.
        last: explains the whole schedule only, not the steps to it.
        hits: the share of the points of a list that are hits, for what these store: 0 to 1.

    Raises:
        DeviceError: the machine has too little memory for the tensors. What cannot be launched for another reason does
            not raise: its step says so.
    """
    require_memory_of_machine([derivation.tree], sizes, machine)
    stages = stages_by_line(derivation.stages)[-1:] if last else stages_by_line(derivation.stages)
    kernel = derivation.kernel
    return Explanation(
        kernel.name,
        derivation.name,
        sizes,
        machine,
        metric.operations(kernel, sizes),
        metric.moved_bytes(kernel, sizes),
        tuple(_step_reports(stages, sizes, machine, compiled and not nvrtc.unavailable_reason(), hits, progress)),
        (*_notes(compiled), *_notes_on_gathers(kernel), *_notes_on_lists(kernel, hits)),
    )


def _step_reports(
    stages: Sequence[Stage], sizes: Mapping[str, int], machine: Machine, compiled: bool, hits: float, progress: Progress
) -> Iterator[StepReport]:
    """What is known of the program after each stage; one report for each launch, however many stages have it."""
    versions: list[tuple[_SizedLaunch, ...] | TilegenError] = []
    for number, stage in enumerate(stages):
        progress("lower", number, len(stages))
        try:
            versions.append(_lower_at(stage.tree, sizes, machine))
        except TilegenError as error:
            versions.append(error)
    built = _compile_all(versions, progress) if compiled else {}
    known: dict[_Key, LaunchReport] = {}
    before: tuple[_Key, ...] = ()
    for number, (stage, version) in enumerate(zip(stages, versions, strict=True)):
        progress("explain", number, len(stages))
        text, span = (stage.step.text, stage.step.span) if stage.step else (None, None)
        place = f"{span.source.name}:{span.line}" if span else ""
        try:
            if isinstance(version, TilegenError):
                raise version
            for one in (o for o in version if o.key not in known):
                known[one.key] = _report(one.launch, sizes, machine, built.get(one.key, _Built()), hits)
            keys = tuple(one.key for one in version)
            yield StepReport(text, place, tuple(known[key] for key in keys), same=keys == before)
            before = keys
        except TilegenError as error:
            yield StepReport(text, place, error=error.message, exit_code=error.exit_code)
            before = ()


def stages_by_line(stages: Sequence[Stage]) -> list[Stage]:
    """One stage for each line of the schedule: a composite step counts once, with the tree after all of it."""
    kept: list[Stage] = []
    for stage in stages:
        span = stage.step.span if stage.step else None
        if kept and span and kept[-1].step and kept[-1].step.span == span:
            kept.pop()
        kept.append(stage)
    return kept


def explain_tree(
    tree: Tree, sizes: Mapping[str, int], machine: Machine = H200, *, compiled: bool = True
) -> tuple[LaunchReport, ...]:
    """The launches of one tree. Raises LimitError, or DeviceError, where it cannot be launched at these sizes."""
    found, asked = _lower_at(tree, sizes, machine), compiled and not nvrtc.unavailable_reason()
    return tuple(_report(one.launch, sizes, machine, _compile(one) if asked else _Built()) for one in found)


def _notes_on_gathers(kernel: Kernel) -> tuple[str, ...]:
    read = [gather for gather in gathers(kernel.equations) if any(True for place in gather.index for _ in loads(place))]
    names = ", ".join(dict.fromkeys(gather.buffer for gather in read))
    return (f"data decide where {names} is read: counted as if the indices were drawn at random",) if read else ()


def _notes_on_lists(kernel: Kernel, hits: float) -> tuple[str, ...]:
    kept = [equation.hits.access.buffer for equation in kernel.equations if equation.hits]
    if not kept:
        return ()
    share = f"as if {hits:.3g} of the points were hits" if hits else "as none; --hits 0.1 counts a tenth of the points"
    return (f"data decide what is stored in {', '.join(kept)}: counted {share}",)


def _notes(compiled: bool) -> tuple[str, ...]:
    unknown = "registers are not known, and occupancy is that of threads and shared memory"
    if not compiled:
        return (f"the compiler was left out: {unknown}",)
    if reason := nvrtc.unavailable_reason():
        return (f"{reason}: {unknown}", toolkit.way_to_a_compiler())
    if toolkit.nvdisasm() is None:
        return ("no nvdisasm was found: issue slots are those of the text alone", toolkit.way_to_a_compiler())
    return ()


# The text of a launch without comments, its grid and its block: launches that agree in these have one report.
_Key = tuple[str, tuple[Product, ...], tuple[int, ...]]


@dataclass(frozen=True)
class _SizedLaunch:
    """A launch as it runs at the given sizes, its text, and the architecture that this is compiled for."""

    launch: Launch
    text: str
    key: _Key
    arch: str


@dataclass(frozen=True)
class _Built:
    """The resources of each kernel of a text, and its innermost loop in machine code, if there is a disassembler."""

    resources: Mapping[str, nvrtc.Resources] = field(default_factory=dict)
    codes: Mapping[str, sass.Hot] = field(default_factory=dict)


def _lower_at(tree: Tree, sizes: Mapping[str, int], machine: Machine) -> tuple[_SizedLaunch, ...]:
    """The launches of a tree, with vectors where the sizes allow them.

    Raises:
        LimitError: it cannot be launched at these sizes, on this machine or on any.
        DeviceError: the machine lacks an instruction, or has too little memory.
    """
    require_memory_of_machine([tree], sizes, machine)
    versions = TextVersions(tree, "cuda", Record())
    launches = versions.launches(versions.choose(sizes, {}, whole=False))
    target = compiled_architecture(instructions_of(launches), machine.arch)
    require_instructions(launches, target)
    for launch in launches:
        count_blocks(launch.name, launch.grid, sizes)
        if launch.shared_bytes > (most := machine.limits.shared_of_block):
            what = f"a block of '{launch.name}' takes {launch.shared_bytes} bytes of shared memory"
            raise LimitError(f"{what}, and one of {machine.name} has at most {most}")
    found: list[_SizedLaunch] = []
    for launch in launches:
        text = emit((launch,), "cuda")
        bare = "\n".join(line.partition("//")[0].rstrip() for line in text.splitlines())
        found.append(_SizedLaunch(launch, text, (bare, launch.grid, launch.block), target))
    return tuple(found)


def _compile_all(versions: Sequence[tuple[_SizedLaunch, ...] | TilegenError], progress: Progress) -> dict[_Key, _Built]:
    """Compiles each text once, on all cores; not those of a single thread, whose registers say nothing.

    Nor those whose threads keep more than MOST_KEPT bytes.
    """
    every = [one for v in versions if not isinstance(v, TilegenError) for one in v]
    wanted = {one.key: one for one in every if one.launch.threads > 1 and one.launch.private_bytes <= MOST_KEPT}
    found: dict[_Key, _Built] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for key, built in zip(wanted, pool.map(_compile, wanted.values()), strict=True):
            progress("compile", len(found), len(wanted))
            found[key] = built
    return found


def _compile(one: _SizedLaunch) -> _Built:
    try:
        built = nvrtc.compile_text(one.text, one.arch)
        codes = sass.sass_of(built) if toolkit.nvdisasm() else {}
    except DeviceError:
        return _Built()
    return _Built(built.resources, {name: sass.hot(listing) for name, listing in codes.items()})


def _report(
    launch: Launch, sizes: Mapping[str, int], machine: Machine, built: _Built, hits: float = 0.0
) -> LaunchReport:
    resources, hot = built.resources.get(launch.name), built.codes.get(launch.name)
    mean = with_mean_trips(launch, sizes)
    program = program_of(mean)
    moved, work = tuple(traffic(program, sizes, hits)), arithmetic(program, sizes)
    blocks = prod(extent.evaluate(sizes) for extent in mean.grid)
    registers = resources.registers if resources else 0
    held = occupancy(machine.limits, launch.threads, registers, launch.shared_bytes)
    if not held.blocks:
        what = f"an SM of {machine.name} holds no block of '{launch.name}'"
        raise LimitError(f"{what}: it has {launch.threads} threads of {registers or 'some'} registers")
    others = [arch for arch in SM if arch != machine.arch and _can_run(launch, arch)]
    elsewhere = {arch: occupancy(limits_of(arch), launch.threads, registers, launch.shared_bytes) for arch in others}
    per_sm = min(held.blocks, -(-blocks // machine.sms)) * -(-launch.threads // 32)
    shape = Shape(blocks, launch.threads, per_sm)
    return LaunchReport(
        launch.name,
        blocks,
        launch.threads,
        launch.shared_bytes,
        moved,
        work,
        inner(program, sizes),
        _conflict_remedies(launch, moved, sizes),
        predict(machine, shape, moved, work, moved_at_least(launch, sizes, hits), hot),
        held,
        elsewhere,
        resources,
        hot,
        roles_of(launch, sizes),
        launch.private_bytes,
        # After lowering, the shape of a fragment is what one lane has.
        {b.name: bytes_of(b) // 4 for b in launch.buffers.values() if b.fragment},
        _tensor_milliseconds(launch, work, machine.arch),
    )


def _can_run(launch: Launch, arch: str) -> bool:
    """True if GPUs of `arch` have the shared memory and the instructions of the launch."""
    return limits_of(arch).shared_of_block >= launch.shared_bytes and _has_instructions(launch, arch)


def _has_instructions(launch: Launch, arch: str) -> bool:
    used = instructions_of((launch,))
    target = compiled_architecture(used, arch)
    return all(each.runs_on(target) for each in used)


def _tensor_milliseconds(launch: Launch, work: ArithmeticCount, arch: str) -> dict[str, float]:
    """The least time of the tensor cores of each GPU in the table that has all of the formats and the instructions of
    the launch, but for `arch`."""
    return {
        f"{name} ({cores.device})": 1e3 * tensor_seconds(work.computing, cores)
        for name, cores in TENSOR_CORES.items()
        if name != arch
        and work.computing
        and all(cores.rate(c.format, c.unit) for c in work.computing)
        and _has_instructions(launch, name)
    }


def _conflict_remedies(
    launch: Launch, moved: Sequence[Traffic], sizes: Mapping[str, int]
) -> dict[str, tuple[Remedy, ...]]:
    names = dict.fromkeys(t.site.buffer for t in moved if t.conflict and t.conflict.degree > 1)
    return {n: tuple(remedies(launch, [t.site for t in moved if t.site.buffer == n], sizes)) for n in names}
