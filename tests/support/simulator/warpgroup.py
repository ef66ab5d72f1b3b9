"""Products of warpgroups on symbolic values: what a descriptor's numbers tell of, computed when it is waited for.

A product reads shared memory, and A in registers, at any time from its start to the wait. Until then nobody but another
product touches its accumulators, and nobody writes to A's registers ("race"): what these hold is taken at the wait.
What threads have written to shared memory has to be fenced by those who wrote it ("fence"), and what they have written
to registers of products by a begin. A buffer lies at the first multiple of its alignment that is no multiple of twice
as many bytes: its swizzle, which the hardware takes from addresses, is another one where that is too small.
"""

from __future__ import annotations

from itertools import chain

from tests.support.enumeration.runs import Wrong
from tests.support.simulator.ptx_isa import BYTES, WARP, described_address
from tilegen.ir.nodes import Access

LANES = 4 * WARP


def bases_of(launch, shapes):
    """Where each shared buffer begins, and how many bytes it has."""
    found, end = {}, 0
    for buffer in launch.buffers.values():
        if buffer.space == "shared" and buffer.dtype in BYTES:
            count = 1
            for dim in buffer.order:
                count *= shapes[buffer.name][dim] + (buffer.pad if dim == buffer.order[-1] else 0)
            number = -(-end // buffer.align)
            found[buffer.name] = (number + 1 - number % 2) * buffer.align, count * BYTES[buffer.dtype]
            end = sum(found[buffer.name])
    return found


class WarpgroupLane:
    """The part of a thread that multiplies together with the 127 others of its warpgroup.

    Attributes:
        begun: a begin stands ahead, and no wait.
        products: (what it does, its accumulators, the descriptors or registers of A and B) of those that nobody has
            waited for, in groups: a wait ends one.
        busy: the registers that these write.
        factors: the registers that these read.
        fresh: the registers that were written since the last begin.
    """

    def start_products(self):
        self.begun, self.products, self.busy, self.factors, self.fresh = False, [[]], set(), set(), set()

    def begin(self):
        self.begun = True
        self.fresh.clear()

    def multiply_later(self, does, operands, path):
        """Starts a product; it runs when it is waited for."""
        yield "warp", path
        if not self.begun:
            raise Wrong("race")
        d, a, b = (operands[name] for name in does.names)
        keys = [(d.buffer, self._behind(d, n)) for n in range(len(does.places(0)))]
        buffer = self.home.launch.buffers[d.buffer]
        if (buffer.space, buffer.dtype) != ("register", does.types[0]) or self.fresh & set(keys):
            raise Wrong("race")
        if d.buffer not in self.alive:
            raise Wrong("scope")
        if does.registers is not None and does.registers != isinstance(a, Access):
            raise Wrong("values")
        described = [self._factor(does, given, letter) for letter, given in (("A", a), ("B", b))]
        self._agree((path, described))
        self.products[-1].append((does, keys, described))
        self.busy |= set(keys)
        if isinstance(a, Access):
            self.factors |= set(described[0])
        for letter, each in zip("AB", described, strict=True):
            self._touch(does, letter, each)

    def _factor(self, does, given, letter):
        """Of a matrix in shared memory its descriptor, of A in registers a list of these."""
        if not isinstance(given, Access):
            return self._descriptor(does, given, letter)
        if letter != "A":
            raise Wrong("values")
        count = len(does.places_of_a(0))
        self._registers(given, does.types[1], count)
        keys = [(given.buffer, self._behind(given, n)) for n in range(count)]
        if given.buffer not in self.alive:
            raise Wrong("scope")
        if self.fresh & set(keys):
            raise Wrong("race")
        return keys

    def _agree(self, what):
        """All lanes of the warpgroup come to the same products, one after the other."""
        self.exchanges += 1
        first = self.shared.products.setdefault((self.number // LANES, self.exchanges), (what, set()))
        if first[0] != what:
            raise Wrong("divergence")
        first[1].add(self.number)

    def _descriptor(self, does, given, letter):
        """(address, piece, stride, leading) of what is given for an operand."""
        buffer, form = self.home.launch.buffers[given.buffer], given.form
        if (buffer.space, buffer.dtype) != ("shared", does.types["DAB".index(letter)]):
            raise Wrong("values")
        start = self.home.bases[buffer.name][0] + self._offset(buffer, given.start) * BYTES[buffer.dtype]
        if start % 16 or form.stride % 16 or form.leading % 16:
            raise Wrong("misaligned")
        return start, form.piece, form.stride, form.leading

    def _rows(self, does, letter):
        return does.shape["AB".index(letter)]

    def _touch(self, does, letter, described):
        """Notes that all of an operand is read, by nobody but its warpgroup."""
        if self.number % LANES or isinstance(described, list):
            return  # one lane notes what all of them do
        for row in range(self._rows(does, letter)):
            for key in self._elements(does, letter, described, row):
                self._note("shared", key, False, who=("warpgroup", self.number // LANES))
                if key in self.shared.unfenced:
                    raise Wrong("fence")

    def _elements(self, does, letter, described, row):
        """The elements of shared memory that the hardware takes for A[row, k] or B[k, row], for all k."""
        known, key = self.home.elements, (does, letter, described, row)
        if key not in known:
            known[key] = [self._element(does, letter, described, row, k) for k in range(does.shape[2])]
        return known[key]

    def _element(self, does, letter, described, row, k):
        """The element of shared memory that the hardware takes for A[row, k] or B[k, row]."""
        address = described_address(*described, *does.row_and_byte(letter, row, k))
        for name, (base, count) in self.home.bases.items():
            if base <= address < base + count:
                return name, (address - base) // BYTES[self.home.launch.buffers[name].dtype]
        raise Wrong("bounds")

    def complete(self, node, path):
        """Waits for all products, or those of earlier groups, and has the registers of the buffers that are named."""
        self.begun = False
        left = self.products[-1:] if node.left else []
        ended = [*chain(*self.products[: len(self.products) - len(left)])]
        self.exchanges += 1
        self.terms[self.exchanges, self.number] = [self._factor_values(d[0]) for _, _, d in ended]
        yield "warp", path
        first = self.number - self.number % WARP
        for n, (does, keys, described) in enumerate(ended):
            lanes = [self.terms[self.exchanges, first + lane][n] for lane in range(WARP)]
            self._run_product(does, keys, described, lanes)
        self.products = [*left, []]
        self.busy = {key for key in self.busy if key[0] not in node.buffers}
        self.factors = {key for key in self.factors if key[0] not in node.buffers}

    def _factor_values(self, factor):
        """What the registers of A hold now; nothing of A in shared memory."""
        return [self._register(*key) for key in factor] if isinstance(factor, list) else []

    def _run_product(self, does, keys, described, lanes):
        terms = self.home.terms
        widened = "tf32_rz" if does.cut_off else does.types[0]
        for letter, each in zip("AB", described, strict=True):
            self._touch(does, letter, each)

        def values(letter, row):
            elements = self._elements(does, letter, described["AB".index(letter)], row)
            if any(key not in self.shared for key in elements):
                raise Wrong("uninitialised")
            return [terms.of(widened, self.shared[key]) for key in elements]

        places = does.places(self.number % LANES)
        rows = {i for i, _ in places}
        a = self._rows_of_lanes(does, lanes) if isinstance(described[0], list) else {i: values("A", i) for i in rows}
        b = {j: values("B", j) for j in {j for _, j in places}}
        for key, (i, j) in zip(keys, places, strict=True):
            products = [terms.of("*", x, y) for x, y in zip(a[i], b[j], strict=True)]
            self.registers[key] = terms.bag("sum", self.registers.get(key, terms.of("undefined")), *products)

    def _rows_of_lanes(self, does, lanes):
        """The rows of A that the lanes of this warp hold."""
        first = self.number % LANES - self.number % WARP
        widened = "tf32_rz" if does.cut_off else does.types[0]
        elements = {
            place: self.home.terms.of(widened, value)
            for lane, held in enumerate(lanes)
            for place, value in zip(does.places_of_a(first + lane), held, strict=True)
        }
        return {i: [elements[i, k] for k in range(does.shape[2])] for i, _ in elements}

    def fence(self):
        """What this thread has written to shared memory is there for products, what it has loaded has come."""
        for key in [key for key, who in self.shared.unfenced.items() if who == self.number]:
            del self.shared.unfenced[key]
        for key in [key for key, who in self.shared.loading.items() if self.number in who]:
            self.shared.loading[key].discard(self.number)

    def finish_products(self):
        if any(self.products) or self.busy or self.factors:
            raise Wrong("race")


def check_all_came(shared):
    """Refuses a product that some lanes of its warpgroup have not started."""
    if any(len(lanes) != LANES for _, lanes in shared.products.values()):
        raise Wrong("divergence")
