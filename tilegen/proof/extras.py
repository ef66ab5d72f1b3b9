"""Statements that the text runs without their guard: what they start, update or copy nobody reads then.

    const bool full = ..;                   for ti  thread.y
    C_reg[wi] = 0.0f;                         for wi
    if (bi * 8 + wi < M) {                      C.reg[ti, wi] = 0   if bi*8 + wi < M
        C[..] = C_reg[wi];

The tests are back where the kernel has no such instance, or where only these tell which of several runs it is; those of
a copy to shared memory where the tensor has no such element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.choices import negations
from tilegen.ir.nodes import Buffer, Condition, Kernel, Loop, Node, Stmt
from tilegen.ir.walk import accesses, gathers, leaves, loads, reads, rewrite_nodes, substitute, writes
from tilegen.ir.written import tree_of
from tilegen.judge.copies.storage import tensor_of
from tilegen.lowering.guards import IsImplied
from tilegen.poly import Facts

Tests = tuple[Condition, ...]


@dataclass
class Extras:
    """What is known of one launch.

    Attributes:
        firsts: by the identity of an update with what lanes have combined, that a thread is the first of them.
    """

    kernel: Kernel
    buffers: Mapping[str, Buffer]
    loops: Mapping[str, Affine]
    is_implied: IsImplied
    firsts: Mapping[int, Tests]
    found: list[tuple[int, Tests]] = field(default_factory=list)

    def restore_tests(self, launch: Node) -> Node:
        """The launch with the tests; `found` is told which of its statements lacks which."""
        users = [(path, stmt, {access.buffer for access in accesses(stmt)}) for path, stmt in leaves((launch,))]
        bound = [(stmt, used) for path, stmt, used in users if not self._may_be_spared(path, stmt)]
        domains, facts = _domains(self.kernel), Facts(self.kernel)
        whole: dict[int, Stmt] = {}
        for number, (path, stmt, _) in enumerate(users):
            if not self._may_be_spared(path, stmt):
                continue
            missing: Tests = ()
            for test in self._inside(stmt) if stmt.is_copy else domains(stmt):
                missing += () if self.is_implied(test, stmt.guard + missing) else (test,)
            for test in () if stmt.is_copy else self._tests_of_users(stmt, {loop.name for loop in path}, bound):
                if not self.is_implied(test, stmt.guard + missing) and _decides(test, path, stmt, missing, facts):
                    missing += (test,)
            if missing:
                self.found.append((number, missing))
                whole[id(stmt)] = replace(stmt, guard=stmt.guard + missing)
        (node,) = rewrite_nodes((launch,), lambda value: whole.get(id(value), value))
        return node

    def _may_be_spared(self, path: tuple[Loop, ...], stmt: Stmt) -> bool:
        """True for what the text may run without its tests: from registers to registers, or copied to shared memory;
        and by an instruction from shared memory to registers."""
        space = self.buffers[stmt.target.buffer].space
        sources = ("register", "shared") if any(loop.kind == "matrix" for loop in path) else ("register",)
        if stmt.best or any(gathers(stmt)) or any(self.buffers[x.buffer].space not in sources for x in loads(stmt)):
            return False
        if not stmt.is_copy:
            return space == "register"
        return space == "shared" and not all(self.is_implied(test, stmt.guard) for test in self._inside(stmt))

    def _inside(self, stmt: Stmt) -> Tests:
        """That the element which a copy hands over is one of its tensor."""
        shape = self.kernel.tensor(tensor_of(self.buffers, stmt.target.buffer)).shape
        places = zip(stmt.element or (), shape, strict=False)
        return tuple(c for i, extent in places for c in (Condition(i), Condition(extent - 1 - i)))

    def _tests_of_users(self, stmt: Stmt, around: set[str], bound: list[tuple[Stmt, set[str]]]) -> Tests:
        """What all others who use its register test, and it could; others that may be spared it do not count."""
        name, known = stmt.target.buffer, around | set(self.kernel.sizes)
        guards = [(s, s.guard + self._first_lane(s, name)) for s, used in bound if name in used]
        here = [_at_one_place(name, stmt, s, self.loops)(tests) for s, tests in guards]
        found = dict.fromkeys(c for tests in here for c in tests if c.value.names() <= known)

        def tells(test: Condition) -> bool:
            there = ((_at_one_place(name, s, stmt, self.loops)((test,))[0], tests) for s, tests in guards)
            return all(c in tests or self.is_implied(c, tests) for c, tests in there)

        return tuple(c for c in found if all(c in tests for tests in here) or tells(c))

    def _first_lane(self, stmt: Stmt, buffer: str) -> Tests:
        """That a thread is the first of its lanes, where `stmt` is what this one does to `buffer` for all of them."""
        return self.firsts.get(id(stmt), ()) if buffer in [a.buffer for a in (stmt.target, stmt.best) if a] else ()


def _decides(test: Condition, path: tuple[Loop, ...], stmt: Stmt, given: Tests, facts: Facts) -> bool:
    """True if the test holds in one run of an instance, and not in another: it tells which of the two there is.

    What holds or not of the instance itself is the kernel's to say.
    """
    loops = {loop.name: loop.extent for loop in path}
    other = {name: f"{name}'" for name in loops}
    values = {name: var(new) for name, new in other.items()}
    guard = stmt.guard + given
    same = [Condition(i - substitute(i, values), equal=True) for i in stmt.instance or ()]
    both = (*guard, *substitute(guard, values), *same, test)
    extents = loops | {new: loops[name] for name, new in other.items()}
    return any(facts.is_possible((*both, wrong), extents) for wrong in negations(substitute(test, values)))


def _at_one_place(buffer: str, stmt: Stmt, other: Stmt, loops: Mapping[str, Affine]) -> Callable[[Tests], Tests]:
    """Tests of `other` in the loops of `stmt`, where it names the place of `buffer` that both use by its own loops.

    Of a vector these are two, `place//2` and `place%2`.
    """
    mine, theirs = (dict((*reads(s), *writes(s)))[buffer] for s in (stmt, other))
    values: dict[str, Affine] = {}
    for place, name in zip(mine, theirs, strict=True):
        match name:
            case Affine(((str(loop), 1),), 0):
                values[loop] = place
            case Affine(((str(high), many), (str(low), 1)) | ((str(low), 1), (str(high), many)), 0):
                if loops.get(low) == const(many):
                    values |= {high: place // many, low: place % many}
            case _:
                pass
    return lambda tests: substitute(tests, values)


def _domains(kernel: Kernel) -> Callable[[Stmt], Tests]:
    origins = {stmt.name: (path, stmt) for path, stmt in leaves(tree_of(kernel).body)}

    def domain(stmt: Stmt) -> Tests:
        """The conditions that `stmt` runs an instance which the kernel has."""
        if stmt.name not in origins:
            return ()
        path, origin = origins[stmt.name]
        values = dict(zip([loop.name for loop in path], stmt.instance or (), strict=True))
        ranges = [(v, loop.extent) for v, loop in zip(values.values(), path, strict=True)]
        found = [c for v, extent in ranges for c in (Condition(v), Condition(extent - 1 - v))]
        return (*found, *(Condition(c.value.substitute(values), c.equal) for c in origin.guard))

    return domain
