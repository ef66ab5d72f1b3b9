"""Bulk copies and the barriers that they complete, on symbolic values: addresses and parities as the hardware has them.

A copy is on its way from its start on: whoever touches what it writes has waited for its phase, by himself. Bytes
arrive at once, which is when a thread that comes late finds a phase too many: what waits then waits for ever ("hang").
"""

from __future__ import annotations

from itertools import product

from tests.support.enumeration.machine import shown_by
from tests.support.enumeration.runs import Wrong
from tilegen.ir.affine import const
from tilegen.ir.nodes import DTYPE_BYTES, Access, Const
from tilegen.lowering.launch.program import For, If, Start
from tilegen.lowering.launch.timelines import Await, Box, StartBarriers


class BulkMemory(dict):
    """The shared memory of a block, and its barriers.

    Attributes:
        ended: for each barrier how many phases have ended; it has an entry from its start on.
        arrived: for each barrier how many have arrived in this phase.
        needed: for each barrier how many arrivals end a phase.
        expected: for each barrier how many bytes are still to come; fewer than none where they have come first.
        released: for each barrier what warps have told of there (`Told`).
        brought: for each element that a bulk copy has written, the barrier and the number of the phase.
        cluster: the memories of the blocks that run at once with this one, by their rank; its own is `rank`.
        threads, epoch: of the block; it has `left` when they have all ended.
    """

    def __init__(self):
        super().__init__()
        self.ended, self.brought = {}, {}
        self.arrived, self.needed, self.expected, self.released = {}, {}, {}, {}
        self.cluster, self.rank, self.left = [self], 0, False
        self.threads, self.epoch = (), {}

    def end_phase(self, barrier):
        """The phase ends when all have arrived, and all bytes."""
        if self.arrived[barrier] == self.needed[barrier] and self.expected[barrier] == 0:
            self.arrived[barrier] = 0
            self.ended[barrier] += 1


class BulkThread:
    """The part of a thread that copies in bulk; `seen` is the last phase of each barrier that it has waited for."""

    def bulk(self, node):
        """Runs the node, in which nobody waits for other threads of the block."""
        match node:
            case StartBarriers(names):
                for name, arrivals in names:
                    for slot in range(self.home.shapes[name][0]):
                        self.shared.ended.setdefault((name, slot), 0)
                        self.shared.arrived.setdefault((name, slot), 0)
                        self.shared.expected.setdefault((name, slot), 0)
                        self.shared.needed[name, slot] = arrivals
            case Start(count=expected, body=body):
                barrier = self._barrier(node.at)
                if not self.home.ring and self.last_seen(self.shared, barrier) < self.shared.ended[barrier] - 1:
                    raise Wrong("hang")  # it arrives twice in one phase
                self.shared.expected[barrier] += expected
                self.arrive(self.shared, barrier)
                arrived = [self._copy_box(copy, barrier) for copy in self._copies(body)]
                if len(self.shared.cluster) == 1 and sum(arrived) != expected:
                    raise Wrong("hang")
            case Box():
                raise Wrong("hang")  # its bytes are expected in no phase
            case Await(number=number):
                barrier = self._barrier(node.at)
                last = self.shared.ended[barrier] - 1
                if last % 2 != number.evaluate(self.env) % 2:
                    raise Wrong("hang")
                self.seen[self.shared.rank, barrier] = last

    def arrive(self, shared, barrier):
        """At a barrier of a block."""
        shared.arrived[barrier] += 1
        shared.end_phase(barrier)

    def last_seen(self, shared, barrier):
        """The last phase of a barrier of a block whose end this thread knows of."""
        return self.seen.get((shared.rank, barrier), -1)

    def reached(self, blocks, barrier):
        """The memories of some blocks of the cluster, a bit for each, that have such a barrier; 0 is this one's own."""
        found = [each for each in self.shared.cluster if blocks >> each.rank & 1] if blocks else [self.shared]
        if blocks >> len(self.shared.cluster):
            raise Wrong("bounds")
        if any(each.left for each in found):
            raise Wrong("race")  # its memory may be another block's already
        if any(barrier not in each.ended for each in found):
            raise Wrong("uninitialised")
        return found

    def _barrier(self, access):
        place = self._place(access)
        if (access.buffer, *place) not in self.shared.ended:
            raise Wrong("uninitialised")
        return (access.buffer, *place)

    def _copies(self, body):
        for node in body:
            if isinstance(node, For):
                for value in range(node.extent.evaluate(self.env)):
                    self.env[node.name] = value
                    yield from self._copies(node.body)
                self.env.pop(node.name, None)
            elif isinstance(node, If):
                yield from self._copies(node.body if self._holds(node.test) else node.orelse)
            else:
                yield node

    def _copy_box(self, copy: Box, wanted):
        """The bytes of a box, whose elements are on their way, and arrive where they are wanted."""
        each = next(m for m in self.home.launch.maps if m.name == copy.map)
        barrier, size = self._barrier(copy.at), DTYPE_BYTES[each.dtype]
        if barrier != wanted:
            raise Wrong("hang")
        blocks = self.reached(copy.blocks, barrier)
        name = each.windows.tensor if each.windows else each.buffer
        tensor = next(b for b in self.home.launch.memory if b.name == name)
        first = [c.evaluate(self.env) for c in copy.coordinates]
        place = self._linear(copy.place) * size
        if place % 128 or each.box[0] * size % 16:
            raise Wrong("misaligned")
        number = 0
        for index in self._im2col(each, first) if each.windows else _tiled(each, first):
            inside = all(0 <= i < n for i, n in zip(index, each.extents(self.home.sizes), strict=True))
            at = dict(zip(reversed(tensor.order), index, strict=True))
            source = Access(tensor.name, tuple(const(at[d]) for d in range(len(at))))
            value = self._read(source) if inside else self._value(Const(0, each.dtype))
            key = copy.place.buffer, swizzled(place + number * size, each.swizzle) // size
            for shared in blocks:
                self._bring(shared, key, value, barrier)
            number += 1
        for shared in blocks:
            shared.expected[barrier] -= number * size
            shared.end_phase(barrier)
        return number * size

    def _im2col(self, each, first):
        """The elements of a box of windows, as the hardware walks: channels, then along rows of where windows begin."""
        windows, sizes, extents = each.windows, self.home.sizes, each.extents(self.home.sizes)
        _, place = shown_by(windows, first[::-1], sizes)
        inner = {digits[0][0]: at for digits, at in zip(windows.digits[1:], first[-2::-1], strict=True)}
        offsets = [inner.get(m.inner, 0) * m.inner_step for m in windows.moved[::-1]]
        channel, *begins, image = place[::-1]
        begins = [b - o for b, o in zip(begins, offsets, strict=True)]
        upper = [n - 1 + end.evaluate(sizes) for n, end in zip(extents[1:-1], each.upper, strict=True)]
        for _ in range(each.pixels):
            yield from ((channel + c, *map(sum, zip(begins, offsets, strict=True)), image) for c in range(each.box[0]))
            for d, step in enumerate(each.steps[1:-1]):
                begins[d] += step
                if begins[d] <= upper[d]:
                    break
                begins[d] = each.lower[d]
            else:
                image += 1

    def _linear(self, access):
        """The place of an element in its buffer, no swizzle applied."""
        buffer, offset = self.home.launch.buffers[access.buffer], 0
        for d, place in zip(buffer.order, (self._place(access)[d] for d in buffer.order), strict=True):
            row = self.home.shapes[buffer.name][d] + (buffer.pad if d == buffer.order[-1] else 0)
            offset = offset * row + place
        return offset

    def _bring(self, shared, key, value, barrier):
        """Writes an element that nobody has touched since the last barrier of the block but who starts the copy, or
        who has told him of that, and for which all who have loaded it have a fence."""
        touches = {(shared.rank, key, touch) for touch in shared.epoch.get(key, ()) if touch[0] != self.thread}
        if touches - self.known:
            raise Wrong("race")
        self._check_seen(shared, key)
        if shared.loading.get(key):
            raise Wrong("fence")
        shared[key] = value
        shared.brought[key] = barrier, shared.ended[barrier]

    def check_arrived(self, key, writes):
        """Refuses a touch of what a copy has brought that this thread has not waited for; or a write by a thread."""
        if writes and key in self.shared.brought:
            raise Wrong("race")
        self._check_seen(self.shared, key)

    def _check_seen(self, shared, key):
        if key in shared.brought:
            barrier, phase = shared.brought[key]
            if self.last_seen(shared, barrier) < phase:
                raise Wrong("race")

    def finish(self):
        """The thread that starts copies does not leave before they have arrived."""
        if self.home.ring:
            return  # the consumers wait for what the producer has started
        if not any(self.thread) and any(self.last_seen(self.shared, b) < n - 1 for b, n in self.shared.ended.items()):
            raise Wrong("race")


def _tiled(each, first):
    """The elements of a box, the fastest dimension first."""
    for offsets in product(*map(range, reversed(each.box))):
        yield [c + o * step for c, o, step in zip(first, reversed(offsets), each.steps, strict=True)]


def swizzled(address, span):
    """Where the hardware puts a byte: bits 4 to 6 of its address are combined with bits 7 to 9, as far as rows go."""
    units = {0: 0, 32: 1, 64: 3, 128: 7}[span]
    return address ^ (address >> 7 & units) << 4
