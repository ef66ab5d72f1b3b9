"""Bulk stores on symbolic values, each as late as can be: it reads when its thread waits for that, and not before.

What a store reads has been fenced by whoever wrote it ("fence"). From its start on nobody writes what it reads, until
its thread has waited and a barrier has told the others; and nobody else touches what it writes ("race"). A thread that
leaves before its stores have read leaves them without memory ("race").
"""

from __future__ import annotations

from itertools import product

from tests.support.enumeration.runs import Wrong
from tests.support.simulator.bulk import swizzled
from tilegen.ir.affine import const
from tilegen.ir.nodes import DTYPE_BYTES, Access
from tilegen.lowering.launch.program import Start
from tilegen.lowering.launch.timelines import Await, Box


class StoreMemory:
    """What stores of a block are about: `reading` the elements of shared memory, `stored` those of tensors."""

    def __init__(self):
        self.reading, self.stored = set(), set()


class StoreThread:
    """The part of a thread that stores in bulk; `started` are the stores that it has not waited for."""

    def store(self, node):
        match node:
            case Start():
                self.started += [pair for copy in self._copies(node.body) for pair in self._start_store(copy)]
            case Box():
                raise Wrong("race")  # nobody can wait for what is in no group
            case Await():
                for source, target in self.started:
                    self._note("shared", source, False)
                    if source not in self.shared:
                        raise Wrong("uninitialised")
                    self.home.memory[target] = self.shared[source]
                    self.shared.stores.reading.discard(source)
                self.started = []

    def _start_store(self, copy):
        """(shared element, element of the tensor) of what a box has inside of the tensor."""
        each = next(m for m in self.home.launch.maps if m.name == copy.map)
        tensor, size = self.home.launch.buffers[each.buffer], DTYPE_BYTES[each.dtype]
        first = [c.evaluate(self.env) for c in copy.coordinates]
        place = self._linear(copy.place) * size
        if place % 128 or each.box[0] * size % 16:
            raise Wrong("misaligned")
        for number, offsets in enumerate(product(*map(range, reversed(each.box)))):
            index = [c + o for c, o in zip(first, reversed(offsets), strict=True)]
            if not all(0 <= i < n for i, n in zip(index, each.extents(self.home.sizes), strict=True)):
                continue
            at = dict(zip(reversed(tensor.order), index, strict=True))
            access = Access(tensor.name, tuple(const(at[d]) for d in range(len(at))))
            target = self._key("global", access, self._place(access))
            source = (copy.place.buffer, swizzled(place + number * size, each.swizzle) // size)
            self._note("shared", source, False)
            self._note("global", target, True)
            if source in self.shared.unfenced:
                raise Wrong("fence")
            self.shared.stores.reading.add(source)
            self.shared.stores.stored.add(target)
            yield source, target

    def check_stored(self, space, key, writes):
        """Refuses a touch of what stores are about: anybody's, at any time."""
        stores = self.shared.stores
        if (key in stores.stored and space == "global") or (key in stores.reading and space == "shared" and writes):
            raise Wrong("race")

    def finish_stores(self):
        if self.started:
            raise Wrong("race")
