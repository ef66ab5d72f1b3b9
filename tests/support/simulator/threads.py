"""A lowered program run thread by thread, on symbolic values: the meaning of what is printed, without a device.

Threads of a block take turns from barrier to barrier, those of a warp from instruction to instruction.
`faults(launches, tree, sizes)` gives a word for the first thing that is wrong, or None: "race" (two threads touch an
element between two barriers, one writing; or two blocks do), "divergence" (a barrier that some threads of a block do
not reach), "bounds", "uninitialised", "misaligned", "scope", "values" (an output is not what the kernel says).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from tests.support.enumeration.machine import shown_by
from tests.support.enumeration.runs import Wrong, as_written, lies_in, verdict  # noqa: F401
from tests.support.simulator.bulk import BulkMemory, BulkThread
from tests.support.simulator.grid import BLOCKS, THREADS, TileThread, blocks_of, coordinates
from tests.support.simulator.look_back import BlockThread
from tests.support.simulator.rings import RingThread, clusters_of, has_ring, run_roles
from tests.support.simulator.stores import StoreMemory, StoreThread
from tests.support.simulator.values import Values, tensor_of
from tests.support.simulator.warp import Lane
from tests.support.simulator.warpgroup import WarpgroupLane, bases_of, check_all_came
from tilegen.ir.affine import const
from tilegen.ir.nodes import DTYPE_BYTES, ONLY, Access, Load, Nothing, Stmt
from tilegen.ir.reductions.ragged import term_of
from tilegen.lowering.launch.program import (
    Call,
    Combine,
    Declare,
    Flag,
    For,
    Function,
    If,
    Let,
    Perform,
    Start,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
)
from tilegen.lowering.launch.timelines import (
    Arrive,
    Await,
    Barrier,
    Box,
    Fence,
    LookBack,
    StartBarriers,
)

# What a GPU has instructions for.
ATOMIC = {("sum", "f32"), ("sum", "f64"), ("sum", "i32"), ("max", "i32"), ("min", "i32"), ("unordered_list", "i32")}


def faults(launches, tree, sizes):
    """The first fault of the launches of `tree` at these sizes, or None."""
    memory = {}
    try:
        expected, terms = as_written(tree.kernel, tuple(sizes.items()), frozenset(tree.reassociated))
        for launch in launches:
            _Launch(launch, sizes, memory, terms, set(tree.reassociated)).run()
    except Wrong as wrong:
        return str(wrong)
    for tensor in tree.kernel.tensors:
        given = {key: terms.of("input", *key) for key in memory if key[0] == tensor.name}
        mine = {key[1]: memory[key] for key, old in given.items() if memory[key] != old}
        if tensor.role == "output" and mine != expected.contents(tensor.name):
            return "values"
    return None


class _Launch:
    """One launch; `memory` is global memory, (buffer, place) -> term."""

    def __init__(self, launch, sizes, memory, terms, reordered):
        seen = {b.windows.tensor for b in launch.buffers.values() if b.windows}
        launch = replace(launch, buffers={**launch.buffers, **{b.name: b for b in launch.memory if b.name in seen}})
        self.launch, self.sizes, self.memory = launch, sizes, memory
        self.terms, self.reordered = terms, reordered
        self.inputs = {lies_in(t.name) for t in launch.kernel.tensors if t.role == "input"}
        self.outputs = {t.name for t in launch.kernel.tensors if t.role == "output"}
        memory = [b for b in launch.buffers.values() if b.space not in ("vector", "lanes")]
        self.shapes = {b.name: tuple(e.evaluate(sizes) for e in b.shape) for b in memory}
        self.bases, self.elements = bases_of(launch, self.shapes), {}
        self.seen, self.updated, self.ring = {}, set(), has_ring(launch)
        self.stores_terms = any(getattr(n, "where", None) or getattr(n, "term", None) for n in launch.nodes)

    def run(self):
        for number, blocks in enumerate(clusters_of(self.launch, blocks_of(self.launch, self.sizes))):
            cluster = [self._start(block) for block in blocks]
            for rank, shared in enumerate(cluster):
                shared.cluster, shared.rank = cluster, rank
            run_roles(self.launch, cluster[::-1] if number % 2 else cluster)
            for shared in cluster:
                check_all_came(shared)

    def _start(self, block):
        shared, terms = _Shared(), {}
        sizes = [range(n) for n in reversed(self.launch.block)]
        numbers = list(enumerate(product(*sizes)))[: self.launch.threads]
        shared.threads = [_Thread(self, block, t[::-1], shared, shared.epoch, n, terms) for n, t in numbers]
        return shared


class _Shared(BulkMemory):
    """The shared memory of a block; `flying` are the elements that asynchronous copies are on their way to.

    `unfenced` has who has written each element, up to his fence, `loading` who has loaded it; `products` who has
    started them.
    """

    def __init__(self):
        super().__init__()
        self.flying, self.unfenced, self.loading, self.products, self.turns = {}, {}, {}, {}, {}
        self.stores = StoreMemory()


class _Thread(Values, Lane, BlockThread, WarpgroupLane, BulkThread, RingThread, StoreThread, TileThread):
    def __init__(self, home, block, thread, shared, epoch, number, terms):
        self.home, self.block, self.thread = home, block, thread
        self.number, self.terms, self.exchanges = number, terms, 0
        self.shared, self.epoch = shared, epoch
        self.registers, self.alive, self.functions, self.seen, self.known = {}, set(), {}, {}, set()
        self.started, self.flags, self.turned = [], {}, set()
        self.start_products()
        self.groups = [[]]  # asynchronous copies: those not yet in a group last
        self.env = dict(home.sizes)
        places = dict(zip((*BLOCKS, *THREADS), (*block, *thread), strict=True))
        self.env |= coordinates(home.launch, places, home.sizes)
        self.env[home.launch.tid] = home.launch.flat.evaluate(self.env)
        self.env |= {n.ring.number: 0 for n in home.launch.nodes if isinstance(n, For) and n.ring}

    def steps(self):
        """Runs to the end; yields at each barrier and each exchange, told by the path of list places to it."""
        yield from self._body(self.home.launch.body, ())
        self.finish_products()
        self.finish_stores()
        self.finish()

    def _body(self, body, path):
        for place, node in enumerate(body):
            match node:
                case StartBarriers():
                    self.bulk(node)
                    yield "meet", (*path, place), node.line.arrivals, None
                case Start() | Arrive() | Await() | Fence() | Box():
                    yield from self._timeline(node, (*path, place))
                case Barrier():
                    yield self.stop_at(node, (*path, place))
                case Combine():
                    yield from self.combine(node, (*path, place))
                case LookBack():
                    self.look_back(node)
                case Perform():
                    yield from self.perform(node, (*path, place))
                case For(kind="tiles"):
                    yield from self.tiles(node, (*path, place))
                case For(name, extent, inner):  # of scatters all iterations: what data pick is a term like others
                    for value in self.count_on(node, extent.evaluate(self.env)):
                        self.env[name] = value
                        yield from self._body(inner, (*path, place, value))
                    self.env.pop(name, None)
                case If():
                    made = self.flags[node.flag] if node.flag else ()
                    yes = self._holds([c for c in node.test if c not in made]) and self.env.get(node.flag, True)
                    yield from self._body(node.body if yes else node.orelse, (*path, place, yes))
                case Flag(name) | Let(name):
                    self.env[name] = self._holds(node.test) if isinstance(node, Flag) else node.value.evaluate(self.env)
                    self.flags |= {name: node.test} if isinstance(node, Flag) else {}
                case Function(name):
                    self.functions[name] = node, dict(self.env)
                case Call(name, arguments):
                    function, env = self.functions[name]
                    values = [argument.evaluate(self.env) for argument in arguments]
                    outer, self.env = self.env, env | dict(zip(function.parameters, values, strict=True))
                    yield from self._body(function.body, (*path, place))
                    self.env = outer
                case _:
                    self._plain(node)

    def _timeline(self, node, path):
        match node.line.name, node:
            case "copies", Arrive():
                self.groups.append([])
            case "wgmma", Fence(buffers=held):
                if not held:  # what is held is for the compiler
                    self.begin()
            case "wgmma", Await():
                yield from self.complete(node, path)
            case "block", Fence():
                self.fence()
            case "turns", _:
                yield from self.turn(node, path)
            case "filled" | "emptied", Await() if self.home.ring:
                yield from self.wait_phase(node, path)
            case "filled" | "emptied", Arrive():
                yield from self.release(node, path)
            case "filled" | "emptied", _:
                self.bulk(node)
            case "stores", _:
                self.store(node)
            case "launches" | "registers", _:
                pass  # the launches of a simulation run one after the other, and no thread lacks registers
            case _:
                raise TypeError(f"nobody knows what {node} does")

    def _plain(self, node):
        match node:
            case Declare(buffer, start):
                self.alive.add(buffer)
                self.registers = {k: v for k, v in self.registers.items() if k[0] != buffer}
                if start is not None:
                    for place in product(*map(range, self.home.shapes[buffer])):
                        self._write(Access(buffer, tuple(map(const, place))), self._value(start))
            case VectorLoad(name, _, width, source):
                for lane, element in enumerate(self._lanes(source, width)):
                    self.registers[name, (lane,)] = self._read(element)
            case VectorDeclare(name):
                self.registers = {k: v for k, v in self.registers.items() if k[0] != name}
            case VectorStore(name, _, width, target, where=where) if where:
                for lane, element in enumerate(self._lanes(target, width)):
                    self._write_only(element, self._where(where, self._register(name, (lane,))))
            case VectorCopy(_, width, target, source, where=where) if where:
                values = [self._where(where, self._read(element)) for element in self._lanes(source, width)]
                for element, value in zip(self._lanes(target, width), values, strict=True):
                    self._write_only(element, value)
            case VectorStore(name, _, width, target):
                for lane, element in enumerate(self._lanes(target, width)):
                    value = self._register(name, (lane,))
                    self._update(element, node.update, value) if node.update else self._write(element, value)
            case VectorCopy(_, width, target, source):
                values = [self._value(node.value(element)) for element in self._lanes(source, width)]
                for element, value in zip(self._lanes(target, width), values, strict=True):
                    if node.asynchronous:
                        self._send(element, value)
                    else:
                        self._write(element, value)
            case Stmt():
                self._stmt(node)
            case _:
                raise TypeError(node)

    def _holds(self, test):
        values = [(c.value.evaluate(self.env), c.equal) for c in test]
        return all(value == 0 if equal else value >= 0 for value, equal in values)

    def _lanes(self, access, width):
        """The elements of a vector access; its first place has to be aligned."""
        buffer = self.home.launch.buffers[access.buffer]
        if not buffer.order:
            return [access] * width
        fastest = buffer.order[-1]
        if buffer.space != "register" and self._offset(buffer, access) % width:
            raise Wrong("misaligned")
        if width * DTYPE_BYTES[buffer.dtype] > 16 and buffer.space != "register":
            raise Wrong("misaligned")
        lanes = [
            Access(access.buffer, tuple(i + lane if d == fastest else i for d, i in enumerate(access.index)))
            for lane in range(width)
        ]
        if buffer.swizzle and any(
            self._offset(buffer, a) != self._offset(buffer, lanes[0]) + n for n, a in enumerate(lanes)
        ):
            raise Wrong("misaligned")
        return lanes

    def _offset(self, buffer, access):
        shape = self.home.shapes[buffer.name]
        index = [i.evaluate(self.env) for i in access.index]
        offset, apart = 0, buffer.pitch.evaluate(self.env) if buffer.pitch else 0
        for d in buffer.order:
            fastest = d == buffer.order[-1]
            place = buffer.swizzle.column(offset, index[d]) if fastest and buffer.swizzle else index[d]
            offset = offset * (fastest and apart or shape[d] + buffer.pad * fastest) + place
        return offset

    # -- statements

    def _stmt(self, stmt):
        assert not stmt.guard, "guards have become tests"
        lanes = isinstance(stmt.value, Load) and self.home.launch.buffers[stmt.value.buffer].space == "lanes"
        if stmt.term is not None:  # what the copy holds is of one term, too
            where, held = term_of(stmt.value)
            self._write_only(stmt.target, self._where(where, self._value(held)))
            return
        for value, index in self._lane_terms(stmt) if lanes else [(self._value(stmt.value), None)]:
            if value == "unknown":
                raise Wrong("uninitialised")
            if stmt.hits:
                value = self.home.terms.of("hit", value, *map(self._value, stmt.hits.items))
            self._assign(stmt, value, index)

    def _where(self, test, value):
        """A value where a test of data holds: one that is made of terms that have such tests has them already."""
        terms = self.home.terms
        if value == "unknown" or terms.known[value][0] == "bag":
            return value
        return terms.of("select", self._value(test), value, self._value(Nothing(0, "f32")))

    def _assign(self, stmt, value, index):
        terms = self.home.terms
        if stmt.best:
            best, arg = self._read(stmt.best), self._read(stmt.target)
            index = self._value(stmt.arg) if index is None else index
            new = terms.best(stmt, self.home.reordered, best, value, arg, index)
            for access, term in zip((stmt.best, stmt.target), new, strict=True):
                self._write(access, term)
        elif stmt.atomic:
            self._update(stmt.target, stmt.reduce, value)
        elif stmt.reduce == ONLY:
            self._write_only(stmt.target, value)
        elif stmt.reduce == "linear":
            step = terms.of("step", self._value(stmt.arg) if index is None else index, value)
            self._write(stmt.target, terms.of("linear", self._read(stmt.target), step))
        elif stmt.reduce and (stmt.name in self.home.reordered or stmt.reduce == "unordered_list"):
            self._write(stmt.target, terms.bag(stmt.reduce, self._read(stmt.target), value))
        elif stmt.reduce:
            self._write(stmt.target, terms.of(stmt.reduce, self._read(stmt.target), value))
        else:
            self._write(stmt.target, value, (self._value(stmt.hits.rank),) if stmt.hits else ())

    # -- memory

    def _send(self, access, value):
        """An asynchronous copy of one element: nobody may touch it before it is waited for."""
        key = self._key("shared", access, self._place(access))
        self._note("shared", key, True)
        self.shared.flying[key] = self.thread
        self.groups[-1].append((key, value))

    def _wait(self, pending):
        """The copies of all groups but the last `pending` ones arrive."""
        while pending is not None and len(self.groups) - 1 > pending:
            for key, value in self.groups.pop(0):
                self.shared.flying.pop(key, None)
                self._note("shared", key, True)
                self.shared[key], self.shared.unfenced[key] = value, self.number

    def _place(self, access):
        place = tuple(i.evaluate(self.env) for i in access.index)
        shape = self.home.shapes.get(access.buffer)
        if shape is not None and not all(0 <= p < s for p, s in zip(place, shape, strict=True)):
            raise Wrong("bounds")
        return place

    def _read(self, access):
        place, space = self._place(access), self.home.launch.buffers[access.buffer].space
        if space in ("register", "vector", "lanes"):
            return self._register(access.buffer, place)
        key = self._key(space, access, place)
        if windows := self.home.launch.buffers[access.buffer].windows:
            name, place = key = shown_by(windows, place, self.home.sizes)
            if not all(map(range.__contains__, map(range, self.home.shapes[name]), place)):
                return self.home.terms.of("const", windows.fallback.value)
        self._note(space, key, False)
        memory = self.shared if space == "shared" else self.home.memory
        if key not in memory:
            if key[0] not in self.home.inputs:
                raise Wrong("uninitialised")
            memory[key] = self.home.terms.of("input", *key)
        if space == "shared":
            self.shared.loading.setdefault(key, set()).add(self.number)
        return memory[key]

    def _register(self, name, place):
        # A sum may go on where nobody looks: a register without a value is one that no result can have.
        if (name, place) in self.busy:
            raise Wrong("race")
        return self.registers.get((name, place), self.home.terms.of("undefined"))

    def _write(self, access, value, rank=()):
        """Writes an element, or the one of a list at a rank, which is a term."""
        place, space = self._place(access) + rank, self.home.launch.buffers[access.buffer].space
        if space == "register" and access.buffer not in self.alive:
            raise Wrong("scope")
        if space in ("register", "vector"):
            if (access.buffer, place) in self.busy | self.factors:
                raise Wrong("race")
            self.fresh.add((access.buffer, place))
            self.registers[access.buffer, place] = value
            return
        key = self._key(space, access, place)
        self._note(space, key, True)
        memory = self.shared if space == "shared" else self.home.memory
        memory[key] = value
        if space == "shared":
            self.shared.unfenced[key] = self.number

    def _update(self, target, reduce, value):
        """An atomic update: one access, which other updates of the reduction may come before or behind."""
        buffer = self.home.launch.buffers[target.buffer]
        if buffer.space not in ("global", "shared") or (reduce, buffer.dtype) not in ATOMIC:
            raise Wrong("race")
        key = self._key(buffer.space, target, self._place(target))
        self._note(buffer.space, key, f"atomic {reduce}")
        memory = self.shared if buffer.space == "shared" else self.home.memory
        if key not in memory:
            raise Wrong("uninitialised")
        free = tensor_of(self.home.launch, buffer.name) in self.home.reordered or reduce == "unordered_list"
        if not free and key in self.home.updated:
            raise Wrong("race")
        self.home.updated.add(key)
        combine = self.home.terms.bag if free else self.home.terms.of
        memory[key] = combine(reduce, memory[key], value)

    def _write_only(self, target, value):
        """What one alone of the updates of an element writes: all their terms, whoever has them."""
        buffer = self.home.launch.buffers[target.buffer]
        place, space = self._place(target), buffer.space
        empty = self.home.terms.of("bag", None, ())
        if buffer.role == "copy" and self.home.stores_terms:  # one that is stored where its term is has no other
            self._write(target, self.home.terms.bag(ONLY, empty, value))
            return
        if space == "register":
            self._write(target, self.home.terms.bag(ONLY, self.registers.get((target.buffer, place), empty), value))
            return
        key = self._key(space, target, place)
        self._note(space, key, ONLY)
        memory = self.shared if space == "shared" else self.home.memory
        memory[key] = self.home.terms.together(ONLY, memory.get(key, empty), value)

    def _key(self, space, access, place):
        """Global elements by their place in the tensor; shared ones by their address, where rows can overlap."""
        if space == "shared":
            return access.buffer, self._offset(self.home.launch.buffers[access.buffer], access)
        return lies_in(access.buffer), place

    def _note(self, space, key, writes, who=None):
        """Refuses two threads since the last barrier, or two blocks of the launch, on one element, one writing.

        `writes` is the word for its reduction where the access is atomic: of one reduction these can meet. What a warp
        does together is nobody's but its own.
        """
        self._meet(self.epoch, key, who or self.thread, writes)
        self.check_stored(space, key, writes)
        if space == "shared":
            self.check_arrived(key, writes)
        if space == "shared" and key in self.shared.flying:
            raise Wrong("race")
        if space == "global" and key[0] not in self.home.inputs - self.home.outputs:
            self._meet(self.home.seen, key, self.block, writes)

    def _meet(self, log, key, who, writes):
        touches = log.setdefault(key, set())
        alike = writes if isinstance(writes, str) else None
        if any(other != who and (writes or wrote) and wrote != alike for other, wrote in touches):
            raise Wrong("race")
        touches.add((who, writes))
