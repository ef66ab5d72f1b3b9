"""How an explanation looks: the table of steps, then the last program in detail."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tilegen.cli.looks.printing import PLAIN, Terminal, table
from tilegen.lab.counts.formula import Formula
from tilegen.lab.counts.roles import RoleLoop
from tilegen.lab.counts.sites import Site

if TYPE_CHECKING:
    from tilegen.lab.choice.family import Choice
    from tilegen.lab.counts.traffic import Traffic
    from tilegen.lab.predict.explanation import Explanation, LaunchReport

_FOLD: dict[str, Any] = {"overflow": "fold"}


def explanation(out: Terminal, found: Explanation, maps: bool = False) -> None:
    """Everything that is known, for a reader."""
    shown, (first, *others) = found.table(), found.advice or ("no waste was found that a step mends",)
    out.say(f"advice: {first}")
    out.print(shown.title, style="bold")
    out.print(
        f"as written: {_with_prefix(found.operations)} operations on {_with_prefix(found.compulsory)}B, "
        f"{found.operations / found.compulsory:.3g} for each byte"
    )
    longest = max(len(step.step or "") for step in found.steps)
    columns = {"step": _FOLD | {"min_width": min(36, max(10, longest))}, "global loads": _FOLD}
    out.print(table(shown.heads, shown.rows, ("step", "global loads", "loads:FMA", "limit"), columns=columns, **PLAIN))
    last = found.steps[-1]
    for launch in last.launches:
        _print_launch(out, launch, found, maps)
    if last.error:
        out.say(Text(f"\n{found.schedule} cannot be launched: {last.error}", style="red"))
    out.say(*(f"further advice: {each}" for each in others))
    _footer(out, found)


def choice(out: Terminal, found: Choice) -> None:
    """What a family has chosen, and the times that the model of time gives its members."""
    shown = found.table()
    out.print(shown.title, style="bold")
    out.print(table(shown.heads, shown.rows, ("member", "predicted us", ""), columns={"predicted us": _FOLD}, **PLAIN))


def _footer(out: Terminal, found: Explanation) -> None:
    m = found.machine
    out.say(
        f"\nthe prediction is a roofline: no launch is faster than its slowest part. {m.name}: {m.sms} SMs at "
        f"{m.clock} GHz, {m.multiply_adds} TFLOP/s of multiply-adds, {m.copy} TB/s copied, {m.shared} TB/s of shared "
        f"memory, {m.schedulers} instructions of warps a cycle and SM; {m.basis}."
    )
    out.say(*tensor_lines(found))
    out.say(
        "counts are those of a block of whole tiles, times the blocks; the bytes that the L2 delivers are counted in "
        "all blocks. A value that the compiler can keep in a register is loaded once."
    )
    out.say(*found.notes)


# -- one launch in detail


def _print_launch(out: Terminal, launch: LaunchReport, found: Explanation, maps: bool) -> None:
    out.print(f"\n{launch.name}: {launch.blocks} blocks of {launch.threads} threads", style="bold")
    _formulas(out, launch)
    if launch.inner:
        i = launch.inner
        parts = [
            (i.by_warps, f"instructions of its {i.unit}"),
            (i.fused, "multiply-adds"),
            (i.plain, "other operations"),
        ]
        work = " and ".join(f"{n:.3g} {what}" for n, what in parts if n) or "no operations"
        loads = f"{i.shared:.3g} loads from shared and {i.global_:.3g} from global memory"
        out.print(f"an iteration of {i.loop}, each thread: {loads} for {work}")
    out.say(*warp_lines(launch))
    out.print(_access_table(launch))
    _conflicts(out, launch, maps)
    _occupancy(out, launch)
    out.say(rounds_line(launch, found.machine.sms))
    for loop in launch.roles:
        out.say(*role_lines(loop, launch))
    _machine_code(out, launch)
    _prediction(out, launch, found)


def _formulas(out: Terminal, launch: LaunchReport) -> None:
    for space in ("global", "shared"):
        total = launch.loads(space)
        if str(total) == "0":
            continue
        parts: dict[str, Formula] = {}
        for t in launch.traffic:
            if t.space == space and not t.store:
                parts[t.site.buffer] = parts.get(t.site.buffer, Formula()) + t.elements
        shown = ", ".join(f"{name} {part}" for name, part in parts.items())
        out.say(f"elements loaded from {space} memory: {total}  ({shown})")


def warp_lines(launch: LaunchReport) -> list[str]:
    """What the warps run together: how often, what that computes or moves, and the registers for it."""
    lines = []
    for count in launch.work.by_warps:
        of_a_unit, runs = (_with_prefix(n).strip() for n in (count.of_a_unit, count.runs))
        line = f"{count.name}: {of_a_unit} by each {count.unit}, {runs} in all"
        if count.operations:
            whole = _with_prefix(count.runs * count.operations).strip()
            line += f", of {count.operations} operations in {count.format}: {whole} operations"
        rows = [t for t in launch.traffic if t.site.by == count.name]
        for buffer in dict.fromkeys(t.site.buffer for t in rows):
            line += _rows_moved([t for t in rows if t.site.buffer == buffer], count.runs)
        lines.append(line)
    if launch.fragments:
        parts = ", ".join(f"{name} {count}" for name, count in launch.fragments.items())
        lines.append(f"fragments: {sum(launch.fragments.values())} registers of each lane ({parts})")
    return lines


def _rows_moved(rows: list[Traffic], runs: float) -> str:
    """What an instruction moves of one shared buffer, and how many phases of eight rows of 16 bytes that takes."""
    moved, wavefronts = (sum(each) for each in zip(*((t.bytes, t.wavefronts) for t in rows), strict=True))
    least = sum(t.conflict.least / t.conflict.wavefronts * t.wavefronts for t in rows if t.conflict and t.wavefronts)
    if not moved:
        return ""
    direction = "to" if rows[0].store else "of"
    met = (
        "without bank conflicts"
        if wavefronts <= least
        else f"{wavefronts / least:.3g} times as many as without bank conflicts"
    )
    return (
        f"; {moved / runs:.4g} bytes each {direction} {rows[0].site.buffer}, {_with_prefix(moved)}B, "
        f"in {wavefronts / runs:.3g} wavefronts of eight rows, {met}"
    )


def _access_table(launch: LaunchReport) -> Table:
    left, rows = ("access", "", "B"), []
    for t in launch.traffic:
        kind = f"{'store' if t.store else 'load'} {t.space}{', ' + t.site.by if t.site.by else ''}"
        row = [t.index, kind, str(t.compiled.bytes)]
        row += [_with_prefix(t.bytes / t.compiled.bytes * t.compiled.width / max(1, launch.blocks))]
        row += [_with_prefix(t.requests)]
        if t.space == "global":
            each = f"{t.sectors / t.requests:.3g}" if t.requests else ""
            row += [_with_prefix(t.sectors), each, f"{100 * t.coalesced_share:.0f}%", "", ""]
        else:
            met = t.conflict
            row += ["", "", "", f"{met.degree:.3g}" if met else "", f"{met.worst:.3g}" if met else ""]
        rows.append(row)
    heads = (*left, "of a block", "requests", "transactions", "a request", "coal.", "conflict", "worst")
    return table(heads, rows, left, columns=dict.fromkeys(left, _FOLD), **PLAIN)


def _conflicts(out: Terminal, launch: LaunchReport, maps: bool) -> None:
    for t in launch.traffic:
        if t.conflict and t.conflict.lanes and (maps or t.conflict.worst > 1):
            kind = "store to" if t.store else "load of"
            out.say(f"\n{kind} {t.index}: {t.conflict.worst:g}-way bank conflict at worst")
            for line in lane_lines(t):
                out.print(Text(f"  {line}"))
    for buffer, found in launch.remedies.items():
        if not found:
            out.say(f"{buffer}: no pad and no swizzle of rows mends its conflicts")
        for remedy in found:
            left = (
                "no conflict is left"
                if remedy.degree == 1
                else f"{remedy.degree:.3g} wavefronts for each one needed are left"
            )
            cost = f", {abs(remedy.bytes)} bytes {'more' if remedy.bytes > 0 else 'less'}" if remedy.bytes else ""
            out.say(f"{buffer}: {remedy} -> {left}{cost}")


def lane_lines(access: Traffic) -> list[str]:
    """The bank of the first word of each of 32 lanes, eight lanes a line; then the busiest bank."""
    from tilegen.lab.counts.banks import lane_map

    assert access.conflict
    lanes = access.conflict.lanes
    lines = []
    for start in range(0, len(lanes), 8):
        cells = " ".join(f"{a // 4 % 32:3d}" if a >= 0 else "  -" for a in lanes[start : start + 8])
        lines.append(f"lanes {start:2d}..{start + 7:2d}  bank {cells}")
    found = lane_map(lanes)
    bank, met = max(found, key=lambda item: len(item[1]))
    words = len({lanes[lane] // 4 for lane in met})
    if words > 1:
        lines.append(f"bank {bank}: {words} different words, wanted by lanes {', '.join(map(str, met))}")
    return lines


def _occupancy(out: Terminal, launch: LaunchReport) -> None:
    held = launch.occupancy
    room = ", ".join(f"{name} for {count}" for name, count in held.room.items())
    blocks = f"{held.blocks} block{'s' * (held.blocks != 1)}"
    out.say(
        f"an SM holds {blocks}, {held.warps} warps, {100 * held.share:.0f} % of what it can; "
        f"limited by {' and '.join(held.limited_by)} ({room})"
    )
    others = [f"{arch} {h.blocks} ({100 * h.share:.0f} %)" for arch, h in launch.elsewhere.items() if h.blocks]
    if others:
        out.say(f"blocks of an SM elsewhere, with as many registers: {', '.join(others)}")
    if launch.resources:
        taken = launch.resources
        out.print(f"a thread takes {taken.registers} registers and spills {taken.spills} bytes")


def rounds_line(launch: LaunchReport, sms: int) -> str:
    """How often all multiprocessors are filled with blocks, or with tiles that are dealt to as many blocks."""
    at_once = launch.occupancy.blocks * sms
    rounds = max(1, -(-launch.blocks // at_once))
    filled = 100 * launch.blocks / (rounds * at_once)
    return (
        f"{launch.blocks} in {rounds} round{'s' * (rounds != 1)} of {at_once}, which run at once: {filled:.1f} % full"
    )


def role_lines(loop: RoleLoop, launch: LaunchReport) -> list[str]:
    """What roles cost: registers, loads, shared memory, divergence, threads without work."""
    what = "threads" if loop.kind.startswith("thread") else "blocks"
    shares = ", ".join(f"{name} {count} {what} from {first} on" for name, first, count in loop.parts)
    lines = [f"roles of {loop.loop}: {shares}; every thread takes the registers of the one that needs most"]
    if loop.mixed:
        warps = f"{loop.mixed} warps are" if loop.mixed > 1 else "1 warp is"
        lines += [f"{warps} in two roles, and runs one after the other: align=32 gives each role warps of its own"]
    if loop.alike:
        lines += [f"{', '.join(loop.alike)}: loaded by several roles, each for itself"]
    if loop.handed_on:
        lines += [f"{', '.join(loop.handed_on)}: through shared memory, for one role's registers are not another's"]
    lines += [f"{name} is the work of {count} of {launch.threads} threads" for name, count in loop.behind]
    return lines


def _machine_code(out: Terminal, launch: LaunchReport) -> None:
    if launch.hot is None or launch.hot.what == "kernel":
        return
    mix = ", ".join(f"{count} {kind}" for kind, count in launch.hot.mix.items())
    share = f"{launch.hot.useful} of {launch.hot.count} instructions are useful"
    out.say(f"machine code of the innermost loop: {share} ({mix})")


def _prediction(out: Terminal, launch: LaunchReport, found: Explanation) -> None:
    p = launch.prediction
    parts = ", ".join(f"{name} {value:.3g}" for name, value in sorted(p.bounds.items(), key=lambda b: -b[1]))
    out.say(f"at least {p.milliseconds:.3g} ms, for {p.limit} (ms of each part: {parts})")
    if launch.work.operations and launch.global_bytes:
        rate = launch.work.operations / max(p.milliseconds, 1e-9) / 1e9
        intensity = launch.work.operations / launch.global_bytes
        out.print(f"that is {rate:.3g} TFLOP/s; {intensity:.3g} operations for each byte of its transactions")
    if launch.tensor_elsewhere:
        parts = ", ".join(f"{name} {ms:.3g} ms" for name, ms in launch.tensor_elsewhere.items())
        out.say(f"the tensor cores alone, elsewhere at most as fast as: {parts}")


def tensor_lines(found: Explanation) -> list[str]:
    """The ceiling of each format that is computed in, and from which intensity on it is the limit."""
    launches = [launch for step in found.steps for launch in step.launches]
    formats = dict.fromkeys((c.format, c.unit) for launch in launches for c in launch.work.computing)
    lines = []
    for each, unit in formats:
        m, rate = found.machine, found.machine.tensor.rate(each, unit)
        if rate is None:
            lines.append(f"nothing is known of tensor cores of {m.tensor.device} in {each}: they are taken for free")
            continue
        lines.append(
            f"tensor cores in {each}: {m.tensor.peaks[each]:g} TFLOP/s by {m.tensor.device}'s data sheet, {rate:.3g} "
            f"by instructions of one {unit}; the limit from {rate / m.copy:.3g} operations on for each byte copied, "
            f"where multiply-adds are from {m.multiply_adds / m.copy:.3g} on."
        )
    return lines


def _with_prefix(value: float) -> str:
    """A number with three digits and a letter for its size."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g} {letter}"
    return f"{value:.4g} "


# -- for machines


def to_json(value: Any) -> Any:
    """Dataclasses as dictionaries; formulas and accesses as the text that a reader sees."""
    match value:
        case Formula():
            return str(value)
        case Site():
            return {"buffer": value.buffer, "store": value.store, "width": value.width, "bytes": value.bytes}
        case dict():
            return {str(k): to_json(v) for k, v in value.items()}
        case list() | tuple():
            return [to_json(v) for v in value]
        case _ if is_dataclass(value):
            return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
        case _:
            return value
