"""Bulk copies and stores, register budgets and dependent launches: the lines that call the functions of bulk.cuh."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tilegen.backends.text.dialect import CUDA
from tilegen.backends.text.expr import Writer
from tilegen.ir.affine import Affine, Atom, Div, Mod, const, var
from tilegen.ir.nodes import Access
from tilegen.ir.walk import rewrite_indices
from tilegen.lowering.bulk_nodes import (
    BulkCopies,
    BulkCopy,
    BulkNode,
    BulkStore,
    BulkStores,
    BulkWait,
    MeetCluster,
    NextSlot,
    PassTurn,
    Release,
    RingPlace,
    SkipSlots,
    StartBarriers,
    StartRing,
    StoreNode,
    StoresRead,
    TakeTurn,
    TurnNode,
)
from tilegen.lowering.launch_nodes import AwaitLaunches, LaunchNode, LetNextBegin
from tilegen.lowering.program import Spmd
from tilegen.lowering.register_budgets import RegisterBudget

HOW_TO_LAUNCH = "launch with cuLaunchKernelEx and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 1"


def bulk_lines(
    node: BulkNode | StoreNode | LaunchNode | RegisterBudget,
    writer: Writer,
    lines: Callable[[Iterable[Spmd]], list[str]],
) -> list[str]:
    """The lines of a node; `lines` writes those inside of it.

    Launches have none in a language in which they run one after the other.
    """
    match node:
        case StartBarriers(barriers):
            counts = [(writer.names[name], writer.buffers[name].shape[0], each) for name, each in barriers]
            calls = [f"start_barriers({name}, {count}, {arrivals});" for name, count, arrivals in counts]
            if node.cluster:
                return [*calls, "wait_for_cluster();  // the barriers of all blocks have been started"]
            return [*calls, "__syncthreads();  // the barriers have been started"]
        case MeetCluster():
            return ["wait_for_cluster();  // no block leaves before all have been copied to and released"]
        case BulkCopies(barrier, _, bytes_, body):
            return [f"expect_bytes({_address(barrier, writer)}, {bytes_});", *lines(body)]
        case BulkWait(barrier, phase, buffers):
            done = "arrived" if node.arrival else "been read"
            return [f"wait_barrier({_address(barrier, writer)}, {_parity(phase, writer)});  // {_have(buffers)} {done}"]
        case Release(barrier, _, buffers):
            place = _released(barrier, writer)
            call = f"release_in_cluster({place}, {node.blocks})" if node.blocks else f"release({place})"
            return [f"{call};  // {_have(buffers)} been read"]
        case BulkCopy(target, name, barrier, coordinates):
            integers = _coordinates(coordinates, writer)
            given = [_first_place(target, writer), writer.names[name], _address(barrier, writer)]
            if node.blocks:
                return [f"multicast_box_{len(integers)}d({', '.join([*given, str(node.blocks), *integers])});"]
            return [f"copy_box_{len(integers)}d({', '.join([*given, *integers])});"]
        case BulkStores(body):
            return [*lines(body), "end_stores();"]
        case StoresRead(buffers):
            return [f"wait_stores_read();  // {_have(buffers)} been read"]
        case BulkStore(source, name, coordinates):
            given = [writer.names[name], _first_place(source, writer), *_coordinates(coordinates, writer)]
            return [f"store_box_{len(coordinates)}d({', '.join(given)});"]
        case LetNextBegin():
            return ["let_next_launch_begin();"] if writer.dialect is CUDA else []
        case AwaitLaunches():
            return ["wait_for_earlier_launches();"] if writer.dialect is CUDA else []
        case RegisterBudget(count, more):
            return [f"{'take' if more else 'give'}_registers<{count}>();"]
        case _:
            return _ring_lines(node, writer)


def _ring_lines(node: StartRing | NextSlot | TurnNode, writer: Writer) -> list[str]:
    """How a thread counts its place in a ring on, and takes turns with the other group."""
    match node:
        case StartRing(place):
            return [f"int {writer.names[name]} = 0;" for name in (place.slot, place.phase)]
        case NextSlot(place):
            return [f"next_slot<{place.slots}>({writer.names[place.slot]}, {writer.names[place.phase]});"]
        case SkipSlots(place, count):
            at = f"{writer.names[place.slot]}, {writer.names[place.phase]}"
            return [f"skip_slots<{place.slots}>({at}, {writer.index(count)});  // those of the other group"]
        case TakeTurn(group, threads):
            return [f"take_turn<{threads}>({writer.index(group)});  // the operands of the tile before have arrived"]
        case PassTurn(group, threads):
            return [f"pass_turn<{threads}>({writer.index(group)});  // the operands of this tile have arrived"]


def _have(buffers: tuple[str, ...]) -> str:
    return f"{', '.join(buffers[:-1])} and {buffers[-1]} have" if buffers[1:] else f"{buffers[0]} has"


def in_slots(body: tuple[Spmd, ...], places: Iterable[RingPlace]) -> tuple[Spmd, ...]:
    """`body` with the slot and the phase of a number in a ring in two integers, as which a thread counts it on."""
    integers: dict[Atom, Affine] = {}
    for place in places:
        number, slots, slot = var(place.number), place.slots, var(place.slot)
        integers[Mod(number, slots)] = slot
        integers[Mod(number + (slots - 1), slots)] = Affine(((Mod(slot + (slots - 1), slots), 1),))
        integers[Div(number, slots)] = var(place.phase)
    return rewrite_indices(body, lambda value: value.with_atoms(integers))


def _coordinates(coordinates: Iterable[Affine], writer: Writer) -> list[str]:
    """The coordinates of a box as the integers of 32 bits that the hardware takes."""
    integers = [writer.index(c) for c in coordinates]
    return [f"static_cast<int>({c})" for c in integers] if writer.wide else integers


def _address(barrier: Access, writer: Writer) -> str:
    return f"&{writer.element(barrier.buffer, barrier.index)}"


def _released(barrier: Access, writer: Writer) -> str:
    """The address of the barrier of a slot, or of the one ahead of a slot."""
    match barrier.index:
        case (Affine(terms=((Mod(arg, by), 1),), const=0),) if arg.const == by - 1:
            return f"&{writer.names[barrier.buffer]}[slot_before<{by}>({writer.index(arg - arg.const)})]"
        case _:
            return _address(barrier, writer)


def _parity(phase: Affine, writer: Writer) -> str:
    """The parity of a phase. Of one that a ring counts the text has no more than that."""
    changed, rest = phase.const % 2, phase - phase.const
    if rest.names() & {*writer.parities}:
        return writer.index(rest) + (" ^ 1" if changed else "")
    return writer.index((rest + changed) % 2)


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
