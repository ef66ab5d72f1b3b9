"""Asynchronous work: the lines that start it, arrive and wait, in the words of its timelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tilegen.backends.text.perform import hold_lines
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.affine import Affine, Atom, Div, Mod, const, var
from tilegen.ir.nodes import Access, Condition
from tilegen.ir.parts.windows import Windows
from tilegen.ir.walk import rewrite_indices
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    If,
    Spmd,
    Start,
    TimelineNode,
    nodes,
    rings,
    with_body,
    with_lists,
)
from tilegen.lowering.launch.timelines import (
    BLOCK,
    COPIES,
    EMPTIED,
    IN_RING,
    REGISTERS,
    TURNS,
    Arrive,
    Await,
    Barrier,
    Box,
    Fence,
    LookBack,
    RingPlace,
    StartBarriers,
    Timeline,
    is_await,
    is_event,
)

# What a role says of where it is in a ring, which is an integer of its own.
_BEGIN = Timeline("ring", "threads", "", arrive="Ring<{slots}> {ring} = {{{barriers}}}")
_ADVANCE = replace(_BEGIN, arrive="{ring}.advance()")
_SKIP = replace(_BEGIN, arrive="{ring}.skip({number})", arrived="the slots of the other group")


def how_to_launch(launch: Launch) -> str:
    """What a launch asks of the driver, as a comment has it."""
    return f"launch with cuLaunchKernelEx and {', '.join(f'CU_LAUNCH_ATTRIBUTE_{each} = 1' for each, _ in launch.asks)}"


def timeline_lines(node: TimelineNode, writer: Writer, lines: Callable[[Iterable[Spmd]], list[str]]) -> list[str]:
    """The lines of a node; `lines` writes those of what it starts. Some words are of CUDA alone."""
    match node:
        case StartBarriers(barriers):
            counts = [(writer.names[name], writer.buffers[name].shape[0], each) for name, each in barriers]
            calls = [f"start_barriers({name}, {count}, {arrivals});" for name, count, arrivals in counts]
            whose = "" if node.line == BLOCK else " of all blocks"
            return [*calls, f"{node.line.wait};  // the barriers{whose} have been started"]
        case _ if node.line.only_cuda and writer.dialect is not CUDA:
            return []
    line, said = node.line, _Said(node, writer)
    if said.in_ring:
        phase = var(said.in_ring.removesuffix("slot") + "phase")
        assert not isinstance(node, Await) or node.number == phase - (line == EMPTIED)
        line = IN_RING.get(line, line)
    match node:
        case Start():
            return [*said.call(line.opens), *lines(node.body), *said.call(line.arrive)]
        case Arrive():
            return said.call(line.arrive_at_blocks if node.blocks else line.arrive, line.arrived)
        case Await():
            held = node.buffers if line.in_registers else ()
            return [*said.call(line.wait, line.waited), *hold_lines(held, writer)]
        case Barrier() if writer.dialect is CUDA:
            copied = [f"{COPIES.wait.format(left=node.wait)};"] if node.wait is not None else []
            return [*copied, *(said.call(line.fence) if node.fence else []), *said.call(line.wait, line.waited)]
        case Barrier():
            fences = "CLK_LOCAL_MEM_FENCE" + (" | CLK_GLOBAL_MEM_FENCE" if node.of_global else "")
            return said.call(f"barrier({fences})", line.waited)
        case Fence():
            return hold_lines(node.buffers, writer) or said.call(line.fence)
        case Box():
            words = line.box_of_blocks if node.blocks else line.box
            return said.call(words.replace("_box_", "_windows_") if node.windows else words)
        case LookBack():
            return said.call(line.wait)


def number_line(loop: For, writer: Writer, integer: str) -> str:
    """The declaration of the iteration that a block is, by the number that it draws."""
    node = next(node for node in nodes(loop.body) if isinstance(node, LookBack))
    return f"const {integer} {writer.names[loop.name]} = {node.line.opens.format_map(_Said(node, writer))};"


@dataclass(frozen=True)
class _Said:
    """The words of a row, with what a node says."""

    node: Any
    writer: Writer

    def call(self, words: str, why: str = "") -> list[str]:
        """A call as a statement, with a comment; none where the row has no words."""
        return [f"{words.format_map(self)};" + (f"  // {why.format_map(self)}" if why else "")] if words else []

    def __getitem__(self, word: str) -> object:
        node, writer = self.node, self.writer
        match word:
            case "at" if isinstance(node.at, Access):
                if self["previous"]:
                    return f"&{writer.names[node.at.buffer]}[{self['ring']}.before({writer.names[self.in_ring]})]"
                return f"&{writer.element(node.at.buffer, node.at.index)}"
            case "parity":
                return writer.index(node.number % 2)
            case "ring":
                return writer.names[self.in_ring].removesuffix(".slot")
            case "previous":
                return "_previous" if self.in_ring and node.at.index != (var(self.in_ring),) else ""
            case "earlier_":
                return "earlier_" if node.left else ""
            case "have":
                return _have(node.buffers)
            case "place":
                return _first_place(node.place, writer)
            case "map" | "states" | "block":
                return writer.names[getattr(node, word)]
            case "register":
                return writer.element(node.buffer, ())
            case "kind":
                return writer.storage(node.buffer)
            case "value":
                return writer.value(node.value, -1)
            case "factor":
                return f", {writer.value(node.factor, -1)}" if node.factor else ""
            case "slots":  # by the parameter of the ring's loop that says so
                stages = writer.parameters.stages.get(self.in_ring.partition(".")[0])
                return stages.name if stages and stages.value == node.count else node.count
            case "barriers":
                return ", ".join(writer.names[name] for name in node.buffers)
            case "rank":
                return len(node.windows.index if node.windows else node.coordinates)
            case "coordinates" if node.windows:
                return ", ".join(_of_windows(node.windows, node.coordinates, writer))
            case "coordinates":
                return ", ".join(_coordinates(node.coordinates, writer))
            case _:
                said = getattr(node, word)
                return writer.index(said) if isinstance(said, Affine) else said

    @property
    def in_ring(self) -> str:
        """The slot of the ring where the thread is, if it speaks of a barrier there or in the slot before."""
        at = getattr(self.node, "at", None)
        names = at.index[0].names() if isinstance(at, Access) else ()
        return next((name for name in names if name.endswith(".slot")), "")


def _have(buffers: tuple[str, ...]) -> str:
    return f"{', '.join(buffers[:-1])} and {buffers[-1]} have" if buffers[1:] else f"{buffers[0]} has"


def in_slots(launch: Launch) -> Launch:
    """`launch` with the slot and the phase of a number in a ring in two integers, which each role counts on."""
    integers: dict[Atom, Affine] = {}
    for ring, _ in rings(launch.body):
        number, slots, slot = var(ring.number), ring.slots, var(ring.slot)
        integers[Mod(number, slots)] = slot
        integers[Mod(number + (slots - 1), slots)] = Affine(((Mod(slot + (slots - 1), slots), 1),))
        integers[Div(number, slots)] = var(ring.phase)
    if not integers:
        return launch
    return replace(launch, body=rewrite_indices(_counted(launch.body), lambda value: value.with_atoms(integers)))


def _counted(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with what counts the numbers in rings, in each role for itself: its nodes say them, and the text counts.

    Where groups take turns, one leaves out the run of the group before it, and after each of its own that of the other.
    """
    out: list[Spmd] = []
    skip: tuple[Spmd, ...] = ()
    for node in body:
        if skip and isinstance(node, If) and is_await(node.body[0], TURNS):
            out, skip = [*out, *skip], ()
        if isinstance(node, For) and node.ring:
            skip = (_counter(_SKIP, node.ring, node.extent),) if node.ring.group else ()
            out.append(with_body(node, (*node.body, _counter(_ADVANCE, node.ring))))
        elif isinstance(node, If) and rings(node.body) and rings(node.orelse):
            *others, producing = node.orelse
            assert isinstance(producing, If)
            out.append(with_body(node, _begun(node.body), (*others, with_body(producing, _begun(producing.body)))))
        else:
            out.append(with_lists(node, _counted))
    return (*out, *skip)


def _begun(role: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """A role that counts from its beginning on, when it has its registers."""
    at, (ring, run) = int(is_event(role[0], REGISTERS)), rings(role)[0]
    first = (If((Condition(var(ring.group) - 1),), (_counter(_SKIP, ring, run),)),) if ring.group else ()
    return (*role[:at], _counter(_BEGIN, ring), *first, *_counted(role[at:]))


def _counter(words: Timeline, ring: RingPlace, by: Affine | None = None) -> Arrive:
    slot, arrays = (var(ring.slot),), (ring.filled, ring.emptied)
    return Arrive(words, Access(ring.filled, slot), by or const(0), arrays, ring.slots)


def _coordinates(coordinates: Iterable[Affine], writer: Writer) -> list[str]:
    """The coordinates of a box as the integers of 32 bits that the hardware takes."""
    integers = [writer.index(c) for c in coordinates]
    return [f"static_cast<int>({c})" for c in integers] if writer.wide else integers


def _of_windows(windows: Windows, coordinates: tuple[Affine, ...], writer: Writer) -> list[str]:
    """Where the first of the windows begins, then how far from that the box is in it, the fastest dimension first."""
    index = dict(zip(windows.digits, coordinates[::-1], strict=True))
    inner = {group: index[group] for group in index if group[0][0] in {each.inner for each in windows.moved}}
    places = {group[0][0]: place for group, place in inner.items()}
    offsets = [places.get(each.inner, const(0)) * each.inner_step for each in windows.moved]
    reader, first = writer.through(windows, [const(0) if group in inner else index[group] for group in index])
    return [*_coordinates(first[::-1], reader), *_coordinates(offsets[::-1], writer)]


def _first_place(access: Access, writer: Writer) -> str:
    """The address of an element whose place no swizzle changes: of the array that begins there."""
    bare = replace(writer.buffers[access.buffer], swizzle=None)
    buffer = replace(writer, buffers={**writer.buffers, bare.name: bare})
    text = buffer.element(access.buffer, access.index)
    zero = f"[{writer.index(const(0))}]"
    short = text
    while short.endswith(zero):
        short = short.removesuffix(zero)
    return short if short != text else f"&{text}"
