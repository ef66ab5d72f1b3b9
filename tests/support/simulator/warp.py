"""What the 32 lanes of a warp do together, on symbolic values: they exchange terms, and run instructions.

An instruction does what the PTX ISA says of its text (ptx_isa.py).
"""

from __future__ import annotations

from tests.support.enumeration.runs import Wrong
from tests.support.simulator.ptx_isa import BYTES, ROW, WARP, Mma, Wgmma, read
from tests.support.simulator.values import tensor_of


def warp_steps(threads):
    """The steps of the threads of a warp, which all make the same; what lanes do together is done in here."""
    running = [thread.steps() for thread in threads]
    while True:
        stopped = [next(thread, None) for thread in running]
        if any(each != stopped[0] for each in stopped):
            raise Wrong("divergence")
        if stopped[0] is None:
            return
        if stopped[0][0] != "warp":
            yield stopped[0]


class Lane:
    """The part of a thread that acts together with its warp."""

    def combine(self, node, path):
        """Gives its term, and takes those of all lanes."""
        self.exchanges += 1
        self.terms[self.exchanges, self.number] = self._term(node)
        yield "lanes", path
        first = self.number - self.number % node.lanes
        lanes = [self.terms[self.exchanges, first + lane] for lane in range(node.lanes)]
        terms = [term for term in lanes if term is not None]
        self.registers[node.name, ()] = node.reduce, terms
        if node.start:
            own = self.number - first + node.inclusive
            self.registers[node.name, ()] = self._running(node, [t for t in lanes[:own] if t is not None])

    def _running(self, node, terms):
        """What the target comes to after these terms."""
        together = self._value(node.start)
        free = tensor_of(self.home.launch, node.start.buffer.removesuffix("_")) in self.home.reordered
        for value, factor in terms:
            if value == "unknown":
                return self.home.terms.of("undefined")
            if factor is not None:
                together = self.home.terms.of("linear", together, self.home.terms.of("step", factor, value))
                continue
            new = self.home.terms.bag if free else self.home.terms.of
            together = new(node.reduce, together, value)
        return together

    def _term(self, node):
        """What the lane puts in: nothing where a test fails, "unknown" for what has no value yet."""
        if not self._holds(node.test):
            return None
        try:
            return self._value(node.value), node.arg and self._value(node.arg)
        except Wrong as wrong:
            if str(wrong) != "uninitialised":
                raise
            return "unknown", None

    def _lane_terms(self, stmt):
        """The terms of the lanes, one update each: in their order, which sums may change."""
        if (stmt.value.buffer, ()) not in self.registers:
            raise Wrong("uninitialised")
        if isinstance(running := self.registers[stmt.value.buffer, ()], int):
            return [(running, None)]
        reduce, pairs = running
        same = reduce == stmt.reduce or ("unknown", None) in pairs
        return pairs if same else [(self.home.terms.of(reduce, "lanes", *(value for value, _ in pairs)), None)]

    def perform(self, node, path):
        """Gives what the instruction takes, waits for the other lanes, and takes what it gives."""
        does = read(node.instruction.ptx)
        self.exchanges += 1
        operands = {o.operand.name: a for o, a in zip(node.instruction.operands, node.operands, strict=True)}
        if isinstance(does, Wgmma):
            if node.rounded:
                raise Wrong("race")  # what is rounded on its way is kept nowhere
            yield from self.multiply_later(does, operands, path)
            return
        given = self._given(does, operands)
        for name in node.rounded:
            form, letter = node.instruction.layout(name).format, dict(zip(does.names, "DABC", strict=True))[name]
            given[letter] = [self.home.terms.of(form, value) for value in given[letter]]
        self.terms[self.exchanges, self.number] = given
        yield "warp", path
        first = self.number - self.number % WARP
        lanes = [self.terms.get((self.exchanges, first + lane)) for lane in range(WARP)]
        if None in lanes:
            raise Wrong("divergence")
        (self._multiply if isinstance(does, Mma) else self._move)(does, operands, lanes)

    def _given(self, does, operands):
        """The values of the lane's registers for each operand, and the place of the row whose address it gives."""
        if isinstance(does, Mma):
            d, *inputs = zip(does.names, does.types, "DABC", strict=True)
            self._registers(operands[d[0]], d[1], does.count("D"))
            return {
                letter: self._registers(operands[name], dtype, does.count(letter)) for name, dtype, letter in inputs
            }
        rows = self.home.launch.buffers[operands[does.rows].buffer]
        start = self._offset(rows, operands[does.rows])
        if rows.space != "shared" or start * BYTES[rows.dtype] % ROW:
            raise Wrong("misaligned")
        values = self._registers(operands[does.registers], rows.dtype, does.matrices * 4 // BYTES[rows.dtype])
        return {"row": start, "registers": values}

    def _multiply(self, does, operands, lanes):
        terms, (_, _, depth), wide = self.home.terms, does.shape, does.types[0]
        a, b, c = (
            {place: lanes[lane][letter][e] for (lane, e), place in does.places(letter).items()} for letter in "ABC"
        )
        widen = [lambda value, old=old: value if old == wide else terms.of(wide, value) for old in does.types[1:3]]
        if does.cut_off:
            widen = [lambda value: terms.of("tf32_rz", value)] * 2
        for (lane, e), (i, j) in does.places("D").items():
            if lane == self.number % WARP:
                products = [terms.of("*", widen[0](a[i, k]), widen[1](b[k, j])) for k in range(depth)]
                self._put(operands[does.names[0]], e, terms.bag("sum", c[i, j], *products))

    def _move(self, does, operands, lanes):
        rows, registers, mine = operands[does.rows].buffer, operands[does.registers], self.number % WARP
        size = BYTES[self.home.launch.buffers[rows].dtype]
        for element, value in enumerate(lanes[mine]["registers"]):
            giver, byte = does.source(mine, element * size)
            key = rows, lanes[giver]["row"] + byte // size
            self._note("shared", key, does.stores, who=("warp", self.number // WARP))
            if does.stores:
                self.shared[key] = value
            elif key in self.shared:
                self.shared.loading.setdefault(key, set()).add(self.number)
                self._put(registers, element, self.shared[key])
            else:
                raise Wrong("uninitialised")

    # -- registers, of which an instruction takes several that lie side by side

    def _registers(self, first, dtype, count):
        buffer = self.home.launch.buffers[first.buffer]
        if (buffer.space, buffer.dtype) != ("register", dtype):
            raise Wrong("values")
        if self._flat(first) * BYTES[dtype] % 4:
            raise Wrong("misaligned")
        return [self._register(first.buffer, self._behind(first, n)) for n in range(count)]

    def _put(self, first, element, value):
        if first.buffer not in self.alive:
            raise Wrong("scope")
        self.registers[first.buffer, self._behind(first, element)] = value

    def _flat(self, access):
        flat = 0
        for at, extent in zip(self._place(access), self.home.shapes[access.buffer], strict=True):
            flat = flat * extent + at
        return flat

    def _behind(self, first, element):
        """The place of a register so many after the first one, where an array has it in memory."""
        flat, place = self._flat(first) + element, ()
        for extent in reversed(self.home.shapes[first.buffer]):
            flat, at = divmod(flat, extent)
            place = (at, *place)
        if flat:
            raise Wrong("bounds")
        return place
