"""One launch of a kernel: what its threads do, with which blocks, arrays and sizes, and what it needs of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from tilegen.ir.affine import Affine
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import Buffer, Condition, Kernel, Node, Scalar
from tilegen.ir.parts.named import Named
from tilegen.ir.reductions.ragged import Bounds
from tilegen.ir.walk import loops, walk
from tilegen.lowering.launch.grid import Cluster, Need, Product
from tilegen.lowering.launch.program import Perform, Spmd, nodes
from tilegen.lowering.launch.tensor_maps import TensorMap
from tilegen.lowering.launch.timelines import LAUNCHES, REGISTERS, is_event


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        name: of the entry point; unique among the launches of a tree.
        tensors: global buffers in the order of the parameters: the tensors of the kernel it uses.
        sizes: the sizes that end the list, in the kernel's order; between the two stand the `scalars`.
        grid: blocks along x, y and z, products of what is affine in sizes.
        block: threads along x, y and z.
        left_out: how many of the last ones are not launched; the others are launched along x alone.
        shared_bytes: of all shared buffers of a block.
        body: what each thread does.
        requires: facts on sizes under which the vector accesses are aligned; checked at launch.
        alignment: bytes that a tensor's address must be a multiple of, where a vector access needs it.
        needs: for each vector loop, which of these are its own; `dropped` has the steps that make none, and why.
        distributed: the launch with its copies dealt out to threads, still an ordinary tree.
        memory: the buffers of that tree.
        coordinates: each block and thread loop with its kind, in the order of their declaration; where several share an
            axis of the grid, that of its factors.
        tid: the name that the body has for the flat number of a thread.
        flat: that number in the coordinates.
        wide: offsets and sizes have 64 bits.
        fitting: what sizes have to be, beside few enough elements, so that no integer leaves its type.
        beyond: tensors of which it computes offsets beyond their ends, each with a shape that has these offsets.
        approximate: the operations that may be taken from the hardware's approximations.
        cluster: the blocks that run at once and share copies.
        asks: which attributes the driver is to give it, as rows of `timelines` have them.
        dealt: if not 0, its coordinates along block.x are tiles, which any number of blocks share out, in groups of so
            many rows (`lowering.dealing`); `grid` counts these.
        ends: of each of these loops, between which ends it runs, where data give some; else empty.
        named: numbers that parameters of the schedule gave.
        maps: of the tensors that bulk copies read or write, in the order of the parameters, after the tensors.
    """

    name: str
    kernel: Kernel
    tensors: tuple[str, ...]
    sizes: tuple[str, ...]
    grid: tuple[Product, Product, Product]
    block: tuple[int, int, int]
    shared_bytes: int
    body: tuple[Spmd, ...]
    distributed: Node
    memory: tuple[Buffer, ...]
    buffers: Mapping[str, Buffer]
    coordinates: tuple[tuple[str, str, str], ...] = ()  # name, kind, step
    tid: str = "tid"
    flat: Affine = Affine()
    requires: tuple[Condition, ...] = ()
    alignment: Mapping[str, int] = field(default_factory=dict)
    needs: Mapping[str, Need] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    wide: bool = False
    fitting: tuple[Condition, ...] = ()
    beyond: tuple[tuple[str, tuple[Affine, ...]], ...] = ()
    approximate: tuple[str, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    left_out: int = 0
    cluster: Cluster | None = None
    asks: tuple[tuple[str, int], ...] = ()
    dealt: int = 0
    ends: tuple[Bounds | None, ...] = ()
    named: tuple[Named, ...] = ()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.block) - self.left_out

    @property
    def dependent(self) -> bool:
        """It may begin while the launch before it on the stream still runs."""
        return {*LAUNCHES.asks} <= {*self.asks}

    @property
    def launched_block(self) -> tuple[int, int, int]:
        """Threads along x, y and z as they are launched."""
        return (self.threads, 1, 1) if self.left_out else self.block

    def along(self, kind: str) -> tuple[str, ...]:
        """The coordinates of that kind, in the order of their declaration."""
        return tuple(name for name, each, _ in self.coordinates if each == kind)

    @property
    def tiles(self) -> tuple[str, ...]:
        """The coordinates of the tiles that blocks are dealt."""
        return self.along("block.x") if self.dealt else ()

    @cached_property
    def inside(self) -> tuple[object, ...]:
        """All values in the body, as `walk` finds them: many want to know what it speaks of."""
        return tuple(walk(self.body))

    @cached_property
    def scalars(self) -> tuple[Scalar, ...]:
        """The scalars that it uses, in the kernel's order; 16-bit floats are handed over as f32."""
        used = set(filter(Scalar.__instancecheck__, self.inside))
        return tuple(scalar for scalar in self.kernel.scalars if scalar in used)

    @cached_property
    def nodes(self) -> tuple[Spmd, ...]:
        """Those of them that are loops, tests and statements."""
        return tuple(nodes(self.body))

    @cached_property
    def performs(self) -> tuple[Perform, ...]:
        """The instructions that lanes run together, where they stand."""
        return tuple(node for node in self.nodes if isinstance(node, Perform))

    @property
    def private_bytes(self) -> int:
        """Of the registers of a thread."""
        return sum(bytes_of(buffer) for buffer in self.buffers.values() if buffer.space == "register")

    @property
    def resident(self) -> int:
        """The least number of blocks that are to fit on a multiprocessor at a time."""
        return max((loop.resident for loop in loops(self.distributed)), default=1)

    @property
    def bounds(self) -> tuple[int, ...]:
        """What bounds its registers: the threads, and the resident blocks where these are counted on."""
        counted = self.resident > 1 or any(is_event(node, REGISTERS) for node in self.nodes)
        return (self.threads, self.resident) if counted else (self.threads,)
