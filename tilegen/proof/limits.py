"""What a target can do: its limits, and integers of 32 or 64 bits."""

from __future__ import annotations

from math import prod

from tilegen.ir.affine import var
from tilegen.ir.hardware.limits import AXIS_LIMIT, SHARED_LIMIT, THREAD_LIMIT
from tilegen.ir.hardware.memory import bytes_of, row_of
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Condition
from tilegen.lowering.integers.integers import claims, fit_somewhere, holds
from tilegen.lowering.integers.pitches import pitch_of
from tilegen.lowering.launch.grid import limits_of_grid
from tilegen.lowering.launch.launch import Launch
from tilegen.poly import Facts, Refused, Unproved

REGISTERS = 512 * 1024  # of local memory, where registers lie that a GPU has not


def check_limits(launch: Launch) -> int:
    """How many limits there are. Raises Refused where the launch is over one."""
    if prod(launch.block) > THREAD_LIMIT or any(n > most for n, most in zip(launch.block, AXIS_LIMIT, strict=True)):
        raise Refused(f"{launch.name} has a block of {launch.block} threads, which is more than a GPU has")
    if any(
        n.is_const and n.evaluate({}) > most
        for n, most in zip(launch.grid, limits_of_grid(launch.dealt > 0), strict=True)
    ):
        raise Refused(f"{launch.name} has a grid of {' x '.join(map(str, launch.grid))} blocks: more than a GPU takes")
    for buffer in launch.buffers.values():
        if buffer.pad < 0:
            raise Refused(f"the rows of '{buffer.name}' overlap: each is {-buffer.pad} shorter than what is in it")
        if buffer.swizzle and not buffer.swizzle.permutes(buffer.shape[buffer.order[-1]].const):
            length = buffer.shape[buffer.order[-1]].const
            raise Refused(f"two elements of '{buffer.name}' share a place: {buffer.swizzle} in rows of {length}")
    shared = 0
    for buffer in launch.buffers.values():
        if buffer.space == "shared":
            shared = -(-shared // buffer.align) * buffer.align + bytes_of(buffer)
    if shared > SHARED_LIMIT:
        raise Refused(f"{launch.name} takes {shared} bytes of shared memory, and {SHARED_LIMIT} are the most")
    private = launch.private_bytes
    if private > REGISTERS:
        raise Refused(f"{launch.name} takes {private} bytes of registers a thread, and {REGISTERS} are the most")
    return 10


def check_pitches(launch: Launch, facts: Facts) -> int:
    """How many tensors have rows that are apart. Raises Refused where a row is not as far from the next as calls say.

    The kernel has a size for each such distance; no other tensor has one, and no row is longer than that.
    """
    tensors = {memory_of(tensor.name) for tensor in launch.kernel.tensors if tensor.role != "intermediate"}
    found = 0
    for buffer in {b.name: b for b in (*launch.memory, *launch.buffers.values())}.values():
        name = memory_of(buffer.name)
        given = pitch_of(name) if name in tensors and pitch_of(name) in launch.kernel.sizes else ""
        if (given == "" or buffer.windows) and buffer.pitch is None:
            continue
        if given == "" or buffer.pitch != var(given):
            apart = f"{row_of(buffer)} elements apart"
            raise Refused(f"the rows of '{buffer.name}' are taken to be {apart}, and a call has them otherwise")
        row = buffer.shape[buffer.order[-1]]
        if not facts.is_implied(Condition(buffer.pitch - row), {}):
            raise Refused(f"the rows of '{buffer.name}' overlap: they are {given} elements apart, and have {row}")
        found += 1
    return found


def check_integers(launches: tuple[Launch, ...], facts: Facts) -> int:
    """How many bounds there are on what the text of `launches` computes. Unproved where one may be passed.

    For all sizes at which each tensor has fewer than `elements` elements, and at which the `fitting` of each launch
    holds, no integer of the text leaves its type, not by a partial sum either: those of offsets, tests, extents of
    loops and values of indices. There are such sizes.
    """
    if not fit_somewhere(launches):
        bits = 64 if launches[0].wide else 32
        raise Unproved(f"at all sizes that the kernel admits, integers of {bits} bits are too short")
    asked = 0
    for launch in launches:
        found, beyond = claims(launch)
        if tuple(beyond.items()) != launch.beyond:
            raise Unproved(f"offsets in {launch.name} go further than it says")
        for claim in sorted(found, key=str):
            if not holds(launch, claim, facts):
                raise Unproved(f"an integer in {launch.name} may leave its type: nothing says that {claim}")
            asked += 1
    return asked
