"""Bulk copies in CUDA: the functions that stand before the kernels of a text, and the lines that call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tilegen.backends.text.expr import Writer
from tilegen.ir.affine import Affine, Mod, const
from tilegen.ir.nodes import Access
from tilegen.lowering.bulk_nodes import (
    BulkCopies,
    BulkCopy,
    BulkNode,
    BulkWait,
    MeetCluster,
    NextSlot,
    PassTurn,
    Release,
    SkipSlots,
    StartBarriers,
    StartRing,
    TakeTurn,
)
from tilegen.lowering.program import Spmd

_COPY_BOX = """\
// Starts the copy of a box of a tensor to shared memory, zeros for what is beyond; its bytes arrive at the barrier.
__device__ __forceinline__ void copy_box_{rank}d(void* to, const TensorMap& map, unsigned long long* barrier, {typed})
{{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {{{numbers}}}], [%2];"
                 ::"r"(place), "l"(&map), "r"(at), {operands} : "memory");
}}"""


_MULTICAST_BOX = """\
// The same to one place in several blocks of the cluster, a bit for each; the bytes arrive at the barrier in each.
__device__ __forceinline__ void multicast_box_{rank}d(void* to, const TensorMap& map, unsigned long long* barrier,
    int blocks, {typed})
{{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {{{numbers}}}], [%2], %3;"
                 ::"r"(place), "l"(&map), "r"(at), "h"(static_cast<unsigned short>(blocks)), {operands} : "memory");
}}"""


def box_function(text: str, rank: int, operands: int) -> str:
    """A function of boxes of a rank from its `text`, whose coordinates are behind so many operands."""
    names = [f"c{n}" for n in range(rank)]
    return text.format(
        rank=rank,
        typed=", ".join(f"int {name}" for name in names),
        numbers=", ".join(f"%{n + operands}" for n in range(rank)),
        operands=", ".join(f'"r"({name})' for name in names),
    )


BULK_FUNCTIONS = {
    "TensorMap": """\
// What the hardware has to know of a tensor and the boxes that are copied of it: a CUtensorMap. The host makes it by
// cuTensorMapEncodeTiled, with what stands above the kernel, strides in bytes; not interleaved, all element strides 1,
// L2 promotion of 128 bytes, and OOB_FILL_NONE, which fills with zeros.
struct __align__(64) TensorMap {
    unsigned long long words[16];
};""",
    **{f"copy_box_{rank}d(": box_function(_COPY_BOX, rank, 3) for rank in range(1, 6)},
    **{f"multicast_box_{rank}d(": box_function(_MULTICAST_BOX, rank, 4) for rank in range(1, 6)},
    "wait_for_cluster(": """\
// All threads of the blocks of a cluster wait for each other.
__device__ __forceinline__ void wait_for_cluster()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}""",
    "start_barriers(": """\
// Starts barriers, each of which is to be arrived at so often in a phase. The block waits behind the last.
__device__ __forceinline__ void start_barriers(unsigned long long* barriers, int count, int arrivals)
{
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        for (int i = 0; i < count; ++i) {
            const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[i]));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
}""",
    "expect_bytes(": """\
// Arrives at the barrier, whose phase is complete when so many bytes have been copied, too.
__device__ __forceinline__ void expect_bytes(unsigned long long* barrier, int bytes)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}""",
    "release(": """\
// The warp arrives at the barrier, by one lane: all of them have read what the barrier guards.
__device__ __forceinline__ void release(unsigned long long* barrier)
{
    __syncwarp();
    unsigned chosen;
    asm volatile("{\\n"
                 ".reg .pred p;\\n"
                 "elect.sync _|p, 0xffffffff;\\n"
                 "selp.u32 %0, 1, 0, p;\\n"
                 "}"
                 : "=r"(chosen));
    if (chosen) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    }
}""",
    "release_in_cluster(": """\
// The same at the barriers that lie at this place in several blocks of the cluster, a bit for each.
__device__ __forceinline__ void release_in_cluster(unsigned long long* barrier, int blocks)
{
    __syncwarp();
    const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    if (blocks >> lane & 1) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        asm volatile("{\\n"
                     ".reg .b32 remote;\\n"
                     "mapa.shared::cluster.u32 remote, %0, %1;\\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [remote];\\n"
                     "}"
                     ::"r"(at), "r"(lane) : "memory");
    }
}""",
    "next_slot<": """\
// The next slot of a ring, behind the last one the first in a phase of the other parity.
template <int slots> __device__ __forceinline__ void next_slot(int& slot, int& parity)
{
    slot = slot + 1 < slots ? slot + 1 : 0;
    parity ^= slot == 0;
}""",
    "slot_before<": """\
// The slot ahead of one of a ring.
template <int slots> __device__ __forceinline__ int slot_before(int slot)
{
    return slot > 0 ? slot - 1 : slots - 1;
}""",
    "skip_slots<": """\
// So many slots further in a ring, as one by one.
template <int slots, class Count> __device__ __forceinline__ void skip_slots(int& slot, int& parity, Count count)
{
    parity ^= (slot + count) / slots % 2;
    slot = (slot + count) % slots;
}""",
    "take_turn<": """\
// Waits until it is the group's turn; both groups together have so many threads.
template <int threads> __device__ __forceinline__ void take_turn(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(3 + group), "n"(threads) : "memory");
}""",
    "pass_turn<": """\
// Says that it is the turn of the group, and goes on.
template <int threads> __device__ __forceinline__ void pass_turn(int group)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(3 + group), "n"(threads) : "memory");
}""",
    "wait_barrier(": """\
// Waits until the barrier's phase of this parity is complete.
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, int parity)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    unsigned done = 0;
    while (!done)
        asm volatile("{\\n"
                     ".reg .pred p;\\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n"
                     "selp.u32 %0, 1, 0, p;\\n"
                     "}"
                     : "=r"(done) : "r"(at), "r"(parity) : "memory");
}""",
}


def bulk_lines(
    node: BulkNode,
    writer: Writer,
    lines: Callable[[Iterable[Spmd]], list[str]],
) -> list[str]:
    """The lines of a node; `lines` writes those inside of it."""
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
            names = f"{', '.join(buffers[:-1])} and {buffers[-1]} have" if buffers[1:] else f"{buffers[0]} has"
            done = "arrived" if node.arrival else "been read"
            return [f"wait_barrier({_address(barrier, writer)}, {_parity(phase, writer)});  // {names} {done}"]
        case Release(barrier, _, buffers):
            names = f"{', '.join(buffers[:-1])} and {buffers[-1]} have" if buffers[1:] else f"{buffers[0]} has"
            if node.blocks:
                return [f"release_in_cluster({_released(barrier, writer)}, {node.blocks});  // {names} been read"]
            return [f"release({_released(barrier, writer)});  // {names} been read"]
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
        case BulkCopy(target, name, barrier, coordinates):
            integers = coordinates_of(coordinates, writer)
            given = [first_place(target, writer), writer.names[name], _address(barrier, writer)]
            if node.blocks:
                return [f"multicast_box_{len(integers)}d({', '.join([*given, str(node.blocks), *integers])});"]
            return [f"copy_box_{len(integers)}d({', '.join([*given, *integers])});"]


def coordinates_of(coordinates: Iterable[Affine], writer: Writer) -> list[str]:
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


def first_place(access: Access, writer: Writer) -> str:
    """The address of an element whose place no swizzle changes: of the array that begins there."""
    bare = replace(writer.buffers[access.buffer], swizzle=None)
    buffer = replace(writer, buffers={**writer.buffers, bare.name: bare})
    text = buffer.element(access.buffer, access.index)
    zero = f"[{writer.index(const(0))}]"
    short = text
    while short.endswith(zero):
        short = short.removesuffix(zero)
    return short if short != text else f"&{text}"
