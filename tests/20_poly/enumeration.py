"""A second opinion on legality, by running a tree on small sizes and looking at everything that happens.

It shares nothing with the judge: values are symbolic terms, memory is a dictionary, and every pair of
accesses to one element is looked at. `verdict` gives None or a word for the first thing that is wrong.
"""

from __future__ import annotations

from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Cast, Const, Index, Load, Loop, Op, tree_of
from tilegen.ir.walk import loops

PARALLEL = (*BLOCK_KINDS, *THREAD_KINDS, "vector", "cooperative")


class Wrong(Exception):
    pass


def verdict(tree, sizes):
    """None if the tree computes its kernel at these sizes and no two parallel iterations collide."""
    reordered = set(tree.reassociated)
    try:
        run = _Run(tree, sizes, reordered)
        expected = _Run(tree_of(tree.kernel), sizes, reordered)
    except Wrong as wrong:
        return str(wrong)
    if sorted(run.instances) != sorted(expected.instances):
        return "coverage"
    for tensor in tree.kernel.tensors:
        if (
            tensor.role != "input"
            and tensor.name in run.buffers
            and run.contents(tensor.name) != expected.contents(tensor.name)
        ):
            return "values"
    return run.collision()


class _Run:
    def __init__(self, tree, sizes, reordered):
        self.sizes, self.reordered = sizes, reordered
        self.buffers = {b.name: b for b in tree.buffers}
        self.memory = {}
        self.instances = []
        self.log = {}
        self.scoped = {}
        for loop in loops(tree.body):
            self.scoped.setdefault(loop.name, {b.name for b in tree.buffers if b.scope == loop.name})
        self.terms = {}
        self._body(tree.body, dict(sizes), ())

    def contents(self, name):
        return {e: v for (b, e), v in self.memory.items() if b == name}

    def _body(self, body, env, path):
        for position, node in enumerate(body):
            if not isinstance(node, Loop):
                if all(self._holds(c, env) for c in node.guard):
                    self._stmt(node, env, (*path, (position, None, None, None)))
                continue
            for value in range(node.extent.evaluate(env)):
                for buffer in self.scoped[node.name]:
                    self.memory = {k: v for k, v in self.memory.items() if k[0] != buffer}
                step = (position, node.name, node.kind, value)
                self._body(node.body, {**env, node.name: value}, (*path, step))

    def _holds(self, condition, env):
        value = condition.value.evaluate(env)
        return value == 0 if condition.equal else value >= 0

    def _stmt(self, stmt, env, path):
        value = self._value(stmt.value, env, path)
        if stmt.instance is not None:
            self.instances += [(stmt.name, tuple(i.evaluate(env) for i in stmt.instance))]
        if stmt.best:
            best, arg = self._read(stmt.best, env, path), self._read(stmt.target, env, path)
            self._write(stmt.best, ("best", stmt.reduce, best, value), env, path)
            self._write(stmt.target, ("arg", stmt.reduce, best, value, arg, stmt.arg.evaluate(env)), env, path)
        elif stmt.reduce:
            old = self._read(stmt.target, env, path)
            self._write(stmt.target, self._combined(stmt, old, value), env, path)
        else:
            self._write(stmt.target, value, env, path)

    def _combined(self, stmt, old, value):
        if stmt.name not in self.reordered:
            return self._term((stmt.reduce, old, value))
        known = self.terms.get(old, old)
        parts = known[1] if isinstance(known, tuple) and known[0] == "bag" else (old,)
        return self._term(("bag", tuple(sorted((*parts, value), key=repr))))

    def _term(self, term):
        return term

    def _value(self, expr, env, path):
        match expr:
            case Const(value, _):
                return value
            case Index(index):
                return ("index", index.evaluate(env))
            case Load():
                return self._read(expr, env, path)
            case Op(name, args):
                return (name, *(self._value(a, env, path) for a in args))
            case Cast(arg, dtype):
                return (dtype, self._value(arg, env, path))
            case _:
                raise TypeError(expr)

    def _place(self, access, env):
        buffer = self.buffers[access.buffer]
        place = tuple(i.evaluate(env) for i in access.index)
        inside = all(0 <= p < s.evaluate(env) for p, s in zip(place, buffer.shape, strict=True))
        return buffer, place, inside

    def _read(self, access, env, path):
        buffer, place, inside = self._place(access, env)
        if not inside:
            if getattr(access, "fallback", None) is None:
                raise Wrong("bounds")
            return access.fallback.value
        self._note(buffer, place, False, path)
        if buffer.role == "input":
            return self.memory.get((buffer.name, place), (buffer.name, place))
        if (buffer.name, place) not in self.memory:
            raise Wrong("uninitialised")
        return self.memory[(buffer.name, place)]

    def _write(self, access, value, env, path):
        buffer, place, inside = self._place(access, env)
        if not inside:
            raise Wrong("bounds")
        self._note(buffer, place, True, path)
        self.memory[(buffer.name, place)] = value

    def _note(self, buffer, place, writes, path):
        # The loops up to the scope tell one life of the buffer from the next.
        life = ()
        if buffer.scope is not None:
            names = [step[1] for step in path]
            if buffer.scope not in names:
                raise Wrong("scope")
            life = path[: names.index(buffer.scope) + 1]
        self.log.setdefault((buffer.name, path[0][0], life, place), {})[(path, writes)] = None

    def collision(self):
        """The kind of the first two accesses that may meet, or None."""
        for (name, *_), touches in self.log.items():
            if not any(writes for _, writes in touches):
                continue
            seen = list(touches)
            for n, (one, first) in enumerate(seen):
                for two, second in seen[n + 1 :]:
                    if (first or second) and self._meet(self.buffers[name].space, one, two):
                        return "race"
        return None

    def _meet(self, space, one, two):
        kinds = BLOCK_KINDS if space == "global" else THREAD_KINDS if space == "register" else ()
        if any(_coordinate(one, kind) != _coordinate(two, kind) for kind in kinds):
            return True
        for a, b in zip(one, two, strict=False):
            if a[:3] != b[:3]:
                return False
            if a != b:
                return a[2] in PARALLEL
        return False


def _coordinate(path, kind):
    return next((step[3] for step in path if step[2] == kind), 0)
