"""How many blocks an SM holds at once, and which of its resources runs out first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.errors import UsageError, did_you_mean
from tilegen.ir.hardware.lanes import WARP


@dataclass(frozen=True)
class Limits:
    """What one SM has. Shared memory in bytes; registers are dealt to warps, shared memory to blocks, in units."""

    threads: int
    blocks: int
    registers: int
    shared: int
    shared_of_block: int
    register_unit: int = 256
    shared_unit: int = 128
    shared_reserved: int = 0


# CUDA C Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability":
# resident threads and blocks an SM, 32-bit registers an SM, shared memory an SM and a block. The guide says too
# that from 8.0 on a block has 1 KB of shared memory that the system keeps. The units of dealing (registers to a
# warp by 256; shared memory by 256 bytes on 7.5, by 128 from 8.0 on) are those of NVIDIA's occupancy calculator.
SM: Mapping[str, Limits] = {
    "sm_75": Limits(1024, 16, 65536, 64 * 1024, 64 * 1024, shared_unit=256),
    "sm_80": Limits(2048, 32, 65536, 164 * 1024, 163 * 1024, shared_reserved=1024),
    "sm_86": Limits(1536, 16, 65536, 100 * 1024, 99 * 1024, shared_reserved=1024),
    "sm_89": Limits(1536, 24, 65536, 100 * 1024, 99 * 1024, shared_reserved=1024),
    "sm_90": Limits(2048, 32, 65536, 228 * 1024, 227 * 1024, shared_reserved=1024),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that an SM holds at once.

    Attributes:
        share: of the warps that an SM can hold.
        limited_by: what does not suffice for one more block: "threads", "blocks", "registers" or "shared memory".
        room: for each of these, the blocks that it suffices for.
    """

    blocks: int
    warps: int
    share: float
    limited_by: tuple[str, ...]
    room: Mapping[str, int]


def limits_of(arch: str) -> Limits:
    """The limits of an architecture ("sm_90"). Raises UsageError for one that is not in the table."""
    found = SM.get(arch.rstrip("a"))
    if found is None:
        raise UsageError(f"nothing is known of the architecture '{arch}'", notes=did_you_mean(arch, SM, "known are"))
    return found


def occupancy(limits: Limits, threads: int, registers: int, shared: int) -> Occupancy:
    """What fits into an SM of blocks with `threads`, `registers` a thread and `shared` bytes."""
    warps = -(-threads // WARP)
    room = {"threads": limits.threads // (warps * WARP), "blocks": limits.blocks}
    if registers:
        of_warp = _round_up(registers * WARP, limits.register_unit)
        # An SM has four partitions with a quarter of the registers each, and a warp lives in one of them.
        room["registers"] = limits.registers // 4 // of_warp * 4 // warps
    if shared:
        room["shared memory"] = limits.shared // _round_up(shared + limits.shared_reserved, limits.shared_unit)
    blocks = min(room.values())
    limited = tuple(name for name, count in room.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / (limits.threads // WARP), limited, room)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
