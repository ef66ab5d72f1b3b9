"""What a target can do: its limits, and integers of 32 bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition
from tilegen.ir.ranges import follows
from tilegen.lowering.program import Launch, bytes_of
from tilegen.poly import Facts, Refused, Unproved

THREADS, AXES, SHARED = 1024, (1024, 1024, 64), 227 * 1024
_MOST = 2**31 - 1


def check_limits(launch: Launch) -> int:
    """How many limits there are. Raises Refused where the launch is over one."""
    if prod(launch.block) > THREADS or any(n > most for n, most in zip(launch.block, AXES, strict=True)):
        raise Refused(f"{launch.name} has a block of {launch.block} threads, which is more than a GPU has")
    for buffer in launch.buffers.values():
        if buffer.pad < 0:
            raise Refused(f"the rows of '{buffer.name}' overlap: each is {-buffer.pad} shorter than what is in it")
        if buffer.swizzle and not buffer.swizzle.permutes(buffer.shape[buffer.order[-1]].const):
            length = buffer.shape[buffer.order[-1]].const
            raise Refused(f"two elements of '{buffer.name}' share a place: {buffer.swizzle} in rows of {length}")
    # Each buffer begins at a multiple of 16 bytes.
    shared = sum(-(-bytes_of(b) // 16) * 16 for b in launch.buffers.values() if b.space == "shared")
    if shared > SHARED:
        raise Refused(f"{launch.name} takes {shared} bytes of shared memory, and {SHARED} are the most")
    return 6


def check_integers(
    launch: Launch, computed: Iterable[Affine], facts: Facts, extents: Mapping[str, Affine], largest: int
) -> int:
    """How many index expressions there are outside of accesses. Unproved where one may leave 32 bits.

    Offsets are inside their tensors. What else is computed, the sides of a test and the extent of a loop,
    passes the largest index by a tile at most.

    Args:
        computed: these expressions, in the loops of `extents` alone.
        largest: elements that a tensor can have where the narrow version is launched.
    """
    if launch.wide:
        return 0
    tensors = [b for b in launch.buffers.values() if b.space == "global"]
    # Of numbers from 1 on, the product is at least the sum, less one for each but one of them; and each of them.
    known = tuple(Condition(largest + len(b.shape) - 1 - sum(b.shape, const(0))) for b in tensors)
    ranges = {name: const(largest + 1) for b in tensors for e in b.shape for name in e.names() if e == var(name)}
    ranges |= extents
    sides = {side for value in computed for side in _sides(value) if not side.is_const}
    doubtful = [side for side in sides if not follows(Condition(_MOST - side), (), ranges, ())]
    names = {name for side in doubtful for name in side.names()}
    loops = {name: extent for name, extent in extents.items() if name in names}
    for side in sorted(doubtful, key=str):
        if not facts.implied(Condition(_MOST - side), loops, known):
            raise Unproved(f"{side} in {launch.name} may pass {_MOST} at the largest sizes, and has 32 bits")
    return len(sides)


def _sides(value: Affine) -> tuple[Affine, Affine]:
    """What is added in `value`, and what is taken away: as a test has them on its two sides."""
    more = Affine(tuple([(a, f) for a, f in value.terms if f > 0]), max(0, value.const))
    less = Affine(tuple([(a, -f) for a, f in value.terms if f < 0]), max(0, -value.const))
    return more, less
