"""A tree run on small sizes with symbolic values: every instance, every access, and what meets."""

from __future__ import annotations

from tilegen.ir.nodes import (
    BLOCK_KINDS,
    DTYPE_BYTES,
    ONLY,
    THREAD_KINDS,
    Cast,
    Const,
    Gather,
    Index,
    Load,
    Loop,
    Op,
    Scalar,
)
from tilegen.ir.walk import leaves, loads, loops, writes

PARALLEL = (*BLOCK_KINDS, *THREAD_KINDS, "vector", "cooperative", "bulk")
# What a GPU updates in one access.
ATOMIC = (("sum", "f32"), ("sum", "f64"), ("sum", "i32"), ("max", "i32"), ("min", "i32"), ("unordered_list", "i32"))


class Wrong(Exception):
    pass


def shown_by(windows, place, sizes):
    """(the tensor, the element of it) that windows show at a place; it may be outside."""
    words = {}
    for digits, rest in zip(windows.digits, place, strict=True):
        for word, extent in reversed(digits[1:]):
            rest, words[word] = divmod(rest, extent.evaluate(sizes))
        words[digits[0][0]] = rest
    return windows.tensor, tuple(i.evaluate({**sizes, **words}) for i in windows.index)


def lies_in(name):
    """The memory of a buffer: the old values of a tensor that a kernel updates are where the new ones will be."""
    return name[: -len(".old")] if name.endswith(".old") else name


class Run:
    def __init__(self, tree, sizes, reordered, terms):
        self.sizes, self.reordered, self.terms, self.body = sizes, reordered, terms, tree.body
        self.buffers = {b.name: b for b in tree.buffers}
        self.shapes = {b.name: tuple(e.evaluate(sizes) for e in b.shape) for b in tree.buffers}
        self.memory = {}
        self.instances, self.made = [], {}
        self.log = {}
        # (register, register that it is computed from, the kinds of the loops around) and the targets of lanes
        self.links, self.combined, self.updated = set(), set(), set()
        self.lane = self.atomic = None
        self.scoped, self.extents, self.fixed = {}, {}, {}
        for loop in loops(tree.body):
            self.extents[loop.name] = loop.extent.evaluate(sizes)
            self.fixed |= {loop.name: loop.extent.const} if loop.extent.is_const else {}
            self.scoped.setdefault(loop.name, {b.name for b in tree.buffers if b.scope == loop.name})
        self.lanes = {}
        self._body(tree.body, dict(sizes), ())

    def contents(self, name):
        """The elements that have a value other than that which they were given with."""
        return {e: v for (b, e), v in self.memory.items() if b == name and v != self.terms.of("input", b, e)}

    def _body(self, body, env, path):
        for position, node in enumerate(body):
            if not isinstance(node, Loop):
                if all(self._holds(c, env) for c in node.guard):
                    self._stmt(node, env, (*path, (position, None, None, None)))
                continue
            for value in range(node.extent.evaluate(env)):
                if gone := self.scoped[node.name]:
                    self.memory = {k: v for k, v in self.memory.items() if k[0] not in gone}
                step = (position, node.name, node.kind, value)
                self._body(node.body, {**env, node.name: value}, (*path, step))

    def _holds(self, condition, env):
        value = condition.value.evaluate(env)
        return value == 0 if condition.equal else value >= 0

    def _lanes(self, stmt, path):
        """The thread.x loop that `stmt` combines over, as the lanes of a warp."""
        names = [step[1] for step in path[:-1]]
        found = next((n for n, step in enumerate(path) if step[2] == "thread.x"), None)
        if stmt.reduce in (None, ONLY) or stmt.hits:
            return None
        if found is None or self.fixed.get(names[found]) not in (2, 4, 8, 16, 32):
            return None  # how many lanes there are does not depend on a size
        if stmt.best and not isinstance(stmt.arg, Load):
            return None
        if stmt.reduce in ("sum", "prod", "linear") and stmt.name not in self.reordered:
            return None
        if stmt.reduce == "linear" and any(names[found + 1 :]):
            return None
        inside = {n for n in names[found + 1 :] if n and self.fixed.get(n) != 1}
        if stmt.name not in self.reordered and inside - {n for i in stmt.target.index for n in i.names()}:
            return None
        for target in (stmt.target, stmt.best) if stmt.best else (stmt.target,):
            own = self.buffers[target.buffer].scope in names[found:]
            if own or any(names[found] in i.names() for i in target.index):
                return None
            if any(x.buffer == target.buffer for x in loads(stmt)):
                return None
        return names[found]

    def _stmt(self, stmt, env, path):
        self.lane = self._lanes(stmt, path)
        if self.buffers[stmt.target.buffer].space == "register":
            kinds = frozenset(step[2] for step in path)
            read = {x.buffer for x in loads(stmt.value) if self.buffers[x.buffer].space == "register"}
            self.links |= {(stmt.target.buffer, other, kinds, path[0][0]) for other in read}
        value = self._value(stmt.value, env, path)
        if stmt.reduce == "linear":
            value = self.terms.of("step", self._value(stmt.arg, env, path), value)
        if stmt.hits:
            value = self.terms.of("hit", value, *(self._value(item, env, path) for item in stmt.hits.items))
        made = value
        if stmt.best:
            best, arg = self._read(stmt.best, env, path), self._read(stmt.target, env, path)
            index = self._value(stmt.arg, env, path)
            new = self.terms.best(stmt, self.reordered, best, value, arg, index)
            for access, term in zip((stmt.best, stmt.target), new, strict=True):
                self._write(access, term, env, path)
            made = value if stmt.name in self.reordered else new
        elif stmt.reduce == ONLY:  # one alone of those that update an element writes it
            buffer, place, _ = self._place(stmt.target, env)
            old = self.memory.get((lies_in(buffer.name), place), self.terms.of("bag", None, ()))
            made, self.atomic = value, stmt.name
            self._write(stmt.target, self.terms.bag(ONLY, old, value), env, path)
            self.atomic = None
        elif stmt.reduce:
            self.atomic = self._atomic(stmt, env)
            old = self._read(stmt.target, env, path)
            new = self._combine(stmt, old, value)
            self._write(stmt.target, new, env, path)
            self.atomic = None
            made = value if stmt.name in self.reordered or stmt.reduce == "unordered_list" else new
        else:
            self._write(stmt.target, value, env, path, self._rank(stmt, env, path))
        if stmt.instance is not None:
            instance = stmt.name, tuple(i.evaluate(env) for i in stmt.instance)
            self.instances += [instance]
            self.made[instance] = made
        if any(step[2] == "vector" for step in path):
            self._note_lanes(stmt, env, path)

    def _atomic(self, stmt, env):
        """The reduction that the statement updates in one access; None where it does not."""
        if not stmt.atomic:
            return None
        buffer, place, _ = self._place(stmt.target, env)
        again = (buffer.name, place) in self.updated
        self.updated.add((buffer.name, place))
        if buffer.space == "register" or (stmt.reduce, buffer.dtype) not in ATOMIC:
            raise Wrong("race")
        if again and stmt.name not in self.reordered and stmt.reduce != "unordered_list":
            raise Wrong("race")
        return stmt.name

    def _combine(self, stmt, old, value):
        if stmt.reduce == "linear" or stmt.name not in self.reordered and stmt.reduce != "unordered_list":
            return self.terms.of(stmt.reduce, old, value)
        return self.terms.bag(stmt.reduce, old, value)

    def _value(self, expr, env, path):
        match expr:
            case Const(value, _):
                return self.terms.of("const", value)
            case Index(index):
                return self.terms.of("index", index.evaluate(env))
            case Scalar(name):
                return self.terms.of("scalar", name)
            case Load():
                return self._read(expr, env, path)
            case Gather(buffer, index, _, other):
                places = [self._value(i, env, path) for i in index]
                return self.terms.of("gather", buffer, *places, other and self._value(other, env, path))
            case Op(name, args):
                return self.terms.of(name, *[self._value(a, env, path) for a in args])
            case Cast(arg, dtype):
                return self.terms.of(dtype, self._value(arg, env, path))
            case _:
                raise TypeError(expr)

    def _place(self, access, env):
        place = tuple([i.evaluate(env) for i in access.index])
        inside = all([0 <= p < s for p, s in zip(place, self.shapes[access.buffer], strict=True)])
        return self.buffers[access.buffer], place, inside

    def _read(self, access, env, path):
        buffer, place, inside = self._place(access, env)
        if not inside:
            if getattr(access, "fallback", None) is None:
                raise Wrong("bounds")
            return self.terms.of("const", access.fallback.value)
        self._note(buffer, place, False, path)
        key = lies_in(buffer.name), place
        if buffer.windows:
            key = shown_by(buffer.windows, place, self.sizes)
            if not all(0 <= p < s for p, s in zip(key[1], self.shapes[key[0]], strict=True)):
                return self.terms.of("const", buffer.windows.fallback.value)
        if key not in self.memory and (buffer.role == "input" or f"{buffer.name}.old" in self.buffers):
            self.memory[key] = self.terms.of("input", *key)
        if key not in self.memory:
            raise Wrong("uninitialised")
        return self.memory[key]

    def _rank(self, stmt, env, path):
        """Where among the hits of a list one goes that is stored at its rank: a term tells it from others."""
        return (self._value(stmt.hits.rank, env, path),) if stmt.hits else ()

    def _write(self, access, value, env, path, rank=()):
        buffer, place, inside = self._place(access, env)
        if not inside:
            raise Wrong("bounds")
        place += rank
        self._note(buffer, place, True, path)
        if self.lane:
            self.combined.add((buffer.name, place, path))
        self.memory[(buffer.name, place)] = value

    def _note(self, buffer, place, writes, path):
        # The loops up to the scope tell one life of the buffer from the next.
        life = ()
        if buffer.scope is not None:
            names = [step[1] for step in path]
            if buffer.scope not in names:
                raise Wrong("scope")
            life = path[: names.index(buffer.scope) + 1]
        self.log.setdefault((lies_in(buffer.name), path[0][0], life, place), {})[(path, writes)] = self.atomic

    def _note_lanes(self, stmt, env, path):
        lane = next(step for step in path if step[2] == "vector")
        loop, value = lane[1], lane[3]
        outer = path[: path.index(lane)]
        accesses = [*((x.buffer, x.index) for x in loads(stmt.value)), *writes(stmt)]
        for n, (name, index) in enumerate(accesses):
            if self.buffers[name].space == "register" or all(loop not in i.names() for i in index):
                continue
            first, second = (tuple(i.evaluate({**env, loop: lane}) for i in index) for lane in (0, max(1, value)))
            self.lanes.setdefault((id(stmt), outer, n), []).append((stmt, name, max(1, value), second, first, loop))

    def vectors(self):
        """ "vector" if the lanes of a vector are not neighbours from an aligned place on, or are too many."""
        faulty, fine = {}, {}
        for (stmt_id, _, n), lanes in self.lanes.items():
            stmt, name, *_, loop = lanes[0]
            bad = any(self._astray(name, value, place, first, loop) for _, name, value, place, first, _ in lanes)
            (faulty if bad else fine).setdefault(stmt_id, {})[n] = stmt
        for found in faulty.values():
            stmt = next(iter(found.values()))
            memory = [b for b, _ in (*((x.buffer, x.index) for x in loads(stmt.value)), *writes(stmt))]
            count = sum(self.buffers[b].space != "register" for b in memory)
            if not stmt.is_copy or len(found) == count:
                return "vector"
        return None

    def _astray(self, name, lane, place, first, loop):
        buffer = self.buffers[name]
        fastest = buffer.order[-1]
        width = self.extents[loop]
        moved = buffer.swizzle is not None and buffer.swizzle.unit % width
        if moved or width * DTYPE_BYTES[buffer.dtype] > 16 or width not in (2, 4, 8, 16) or first[fastest] % width:
            return True
        return any(p - f != (lane if d == fastest else 0) for d, (p, f) in enumerate(zip(place, first, strict=True)))

    def collision(self):
        """The kind of the first two accesses that may meet, or None."""
        copies = self._copies()
        if copies is None:
            return "race"
        for (name, launch, _, place), touches in self.log.items():
            if not any(writes for _, writes in touches):
                continue
            if self._read_while_combined(name, place, [path for path, _ in touches]):
                return "race"
            kinds = BLOCK_KINDS if self.buffers[name].space == "global" else ()
            if self.buffers[name].space == "register":
                kinds = [kind for kind in THREAD_KINDS if (name, kind, launch) not in copies]
            seen = [
                (path, writes, [_coordinate(path, kind) for kind in kinds], atomic)
                for (path, writes), atomic in touches.items()
            ]
            for n, (one, first, here, mine) in enumerate(seen):
                for two, second, there, other in seen[n + 1 :]:
                    if mine is not None and mine == other:
                        continue
                    updates = [(name, place, path) in self.combined for path in (one, two)]
                    beside = self.buffers[name].space == "register" or all(updates)
                    lanes = any(updates) and (updates[0] or not first) and (updates[1] or not second) and beside
                    if (first or second) and (here != there or self._meet(one, two, lanes)):
                        return "race"
        return None

    def _read_while_combined(self, name, place, paths):
        """True if an element is touched in a loop whose lanes combine it, and not right beside that."""
        updates = [path for path in paths if (name, place, path) in self.combined]
        for update in updates[:1]:
            lane = next(n for n, step in enumerate(update) if step[2] == "thread.x")
            loop = [path for path in paths if path[:lane] == update[:lane] and path[lane][:3] == update[lane][:3]]
            places = {path[-1][0] for path in loop}
            apart = places != set(range(min(places), max(places) + 1)) or {len(path) for path in loop} != {lane + 2}
            if apart and any(path not in updates for path in loop):
                return True
        return False

    def _copies(self):
        """(register, kind, launch) where each thread along an axis has the register; None where one changes its own."""
        inside, outside, alone = set(), set(), set(self._changed_by_threads())
        for (name, launch, _, place), touches in self.log.items():
            if self.buffers[name].space != "register":
                continue
            for path, changes in touches:
                for kind in THREAD_KINDS:
                    within = any(step[2] == kind for step in path)
                    (inside if within else outside).add((name, kind, launch))
                    together = kind == "thread.x" and (name, place, path) in self.combined
                    if within and changes and not together:
                        alone.add((name, kind, launch))
        found = (inside & outside) - alone
        while more := {link for link in self._sources(found) if link not in found}:
            found |= more
        return None if found & alone else found

    def _changed_by_threads(self):
        """(register, kind, launch) where threads along an axis change it at some sizes, if not at these."""
        for launch, node in enumerate(self.body):
            for path, stmt in leaves((node,)):
                name, kinds = stmt.target.buffer, {loop.kind for loop in path} & {*THREAD_KINDS}
                steps = (*((None, loop.name, loop.kind, None) for loop in path), (None,) * 4)
                kinds -= {"thread.x"} if self._lanes(stmt, steps) else set()
                yield from ((name, kind, launch) for kind in kinds if self.buffers[name].space == "register")

    def _sources(self, found):
        for name, source, kinds, launch in self.links:
            yield from ((source, k, launch) for k in THREAD_KINDS if (name, k, launch) in found and k not in kinds)

    def _meet(self, one, two, lanes):
        for a, b in zip(one, two, strict=False):
            if a[:3] != b[:3]:
                return False
            if a != b:
                return a[2] in PARALLEL and not (lanes and a[2] == "thread.x")
        return False


def _coordinate(path, kind):
    return tuple(step[3] for step in path if step[2] == kind) or (0,)
