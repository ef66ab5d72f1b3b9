"""What one launch does by bulk copies: what the stages of the lowering ask of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.limits import SWIZZLED_PLACE
from tilegen.ir.hardware.memory import row_of
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, Access, Buffer, Condition, Load, Stmt
from tilegen.ir.parts.swizzle import BULK_UNIT
from tilegen.judge import BoxCopy
from tilegen.lowering.launch.grid import Cluster, Need
from tilegen.lowering.launch.program import If, Spmd
from tilegen.lowering.launch.tensor_maps import TensorMap
from tilegen.lowering.launch.timelines import box_place, is_await
from tilegen.lowering.sync.conflicts import Gap, Path
from tilegen.lowering.sync.pipeline import Pipe
from tilegen.lowering.threads.vectors import Needs

# What a thread that waits is taken to read an element into.
WAITING = Buffer("waiting", "i64", (), "register", ())


@dataclass
class Bulk:
    """What one launch does by bulk copies.

    Attributes:
        barriers: one array for the nests that complete a phase together, one barrier a stage.
        arrivals: how often each is arrived at in a phase, by their names.
        maps: the tensor maps, each once.
        starts: by the place of the first nest, what one thread does there.
        ahead: by place, what stands there before a barrier.
        waits: by place, what all threads wait for there, under a test.
        filled: the buffers that are filled so.
        again: those of them that are filled more than once, without a producer.
        stored: the buffers that are stored so.
        stores: where each nest of stores stands, the end of what its block does, and what it reads.
        needs: what each nest needs of sizes and addresses, by the name of its outermost loop.
        cluster: the blocks that share copies.
    """

    barriers: dict[str, Buffer] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)
    maps: list[TensorMap] = field(default_factory=list)
    starts: dict[Gap, Spmd] = field(default_factory=dict)
    ahead: dict[Gap, list[Spmd]] = field(default_factory=dict)
    waits: dict[Gap, list[Spmd]] = field(default_factory=dict)
    filled: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    stores: list[tuple[Path, int, Gap, str]] = field(default_factory=list)
    needs: dict[str, Need] = field(default_factory=dict)
    cluster: Cluster | None = None

    def add_barriers(self, word: str, names: tuple[str, ...], stages: int, arrivals: int, taken: frozenset[str]) -> str:
        """The name of a new array of barriers."""
        name = f"{names[0]}.{word}" if word in {*self.barriers, *taken} else word
        self.barriers[name] = Buffer(name, "i64", (const(stages),), "barrier", (0,))
        self.arrivals[name] = arrivals
        return name

    def add_map(self, box: BoxCopy, tensor: Buffer, shown: Buffer | None = None) -> str:
        """The name of the map for copies of such boxes, of what is `shown` by windows; their needs are noted, too."""
        described, units = shown or tensor, BULK_UNIT // DTYPE_BYTES[tensor.dtype]
        rows = row_of(described) % units
        requires = (Condition(rows, equal=True),) if len(tensor.shape) > 1 and rows != const(0) else ()
        self.needs[box.nest] = Need(requires, ((memory_of(tensor.name), BULK_UNIT),))
        shape = tuple(described.shape[d] for d in reversed(described.order))
        spaced = box.steps if max(box.steps) > 1 else ()
        for each in self.maps:
            if (each.buffer, each.box, each.spaced, each.swizzle) == (tensor.name, box.extents, spaced, box.swizzle):
                return each.name
        number = sum(each.buffer == tensor.name for each in self.maps) + 1
        name = f"{tensor.name}.map{number if number > 1 else ''}"
        what = name, tensor.name, tensor.dtype, shape
        self.maps.append(TensorMap(*what, box.extents, box.swizzle, described.pitch, spaced, tensor.windows))
        return name

    def waits_as_reads(self, buffers: Mapping[str, Buffer]) -> list[tuple[Path, Stmt]]:
        """Each place where all threads wait, and a statement that says so: a read of the first of what has arrived."""
        found: list[tuple[Path, Stmt]] = []
        for (path, place), nodes in self.waits.items():
            for node in nodes:
                test, (wait, *_) = (node.test, node.body) if isinstance(node, If) else ((), (node,))
                if is_await(wait):
                    first = buffers[wait.buffers[0]]
                    index = (*wait.barrier.index, *(const(0) for _ in first.shape[1:]))
                    load = Load(first.name, index, first.dtype)
                    found.append(((*path, place), Stmt(WAITING.name, Access(WAITING.name, ()), load, guard=test)))
        return found

    def others(self, pipes: tuple[Pipe, ...]) -> tuple[Pipe, ...]:
        """`pipes` with the buffers that threads fill."""
        return tuple(replace(pipe, buffers=pipe.buffers - self.filled) for pipe in pipes)

    def tensors(self, buffers: tuple[Buffer, ...]) -> dict[str, Buffer]:
        """Those of the buffers that are copied in bulk."""
        return {b.name: b for b in buffers if any(each.buffer == b.name for each in self.maps)}

    def memory(self, buffers: tuple[Buffer, ...]) -> dict[str, Buffer]:
        """`buffers` and the barriers by name; what boxes are copied to or from begins where they can."""
        in_bulk = self.filled | self.stored
        room = (replace(b, align=max(b.align, SWIZZLED_PLACE)) if b.name in in_bulk else b for b in buffers)
        return {b.name: b for b in (*room, *self.barriers.values())}

    def add_needs(self, needs: Needs) -> Needs:
        """`needs`, with what the sizes and addresses of tensors have to be."""
        for nest, need in self.needs.items():
            open_ = tuple(c for c in need.requires if not needs.is_implied(c, ()))
            needs.requires += [c for c in open_ if c not in needs.requires]
            for name, by in need.alignment:
                needs.alignment[name] = max(by, needs.alignment.get(name, 1))
            needs.loops[nest] = Need(open_, need.alignment)
        return needs


def element_of(box: BoxCopy, tensor: Buffer) -> tuple[Affine, ...] | None:
    """What the box hands over, by the places in it: the loops in it are digits of these."""
    if box.stmt.element is None:
        return None
    values: dict[str, Affine] = {}
    for number, dim in enumerate(reversed(tensor.order)):
        place = var(box_place(box.target, number))
        digits = [(a, f // box.steps[number]) for a, f in box.index[dim].terms if a in box.inside]
        for name, weight in digits:
            higher = [f for _, f in digits if f > weight]
            assert isinstance(name, str)
            values[name] = place // weight % (min(higher) // weight) if higher else place // weight
    return tuple(i.substitute(values) for i in box.stmt.element)
