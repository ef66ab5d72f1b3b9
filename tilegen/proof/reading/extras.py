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

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.choices import negations
from tilegen.ir.nodes import Buffer, Condition, Kernel, Loop, Node, Stmt
from tilegen.ir.walk import accesses, gathers, leaves, loads, reads, rewrite_nodes, substitute, writes
from tilegen.ir.written import tree_of
from tilegen.judge.copies.storage import tensor_of
from tilegen.lowering.guards.guards import IsImplied
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
        """The launch with the tests; `found` is called with which of its statements lacks which."""
        found = [*leaves((launch,))]
        spared = [self._may_be_spared(path, stmt) for path, stmt in found]
        domains, facts = _domains(self.kernel), Facts(self.kernel)
        missing = [
            self._not_implied(self._exists(stmt) if stmt.is_copy else domains(stmt), stmt.guard) if may else ()
            for may, (_, stmt) in zip(spared, found, strict=True)
        ]
        # A copy has all of its tests back by now.
        bound = [
            (replace(stmt, guard=stmt.guard + tests) if tests else stmt, {access.buffer for access in accesses(stmt)})
            for may, tests, (_, stmt) in zip(spared, missing, found, strict=True)
            if not may or stmt.is_copy
        ]
        whole: dict[int, Stmt] = {}
        restored: list[tuple[Stmt, set[str]]] = []
        for number, (path, stmt) in reversed([*enumerate(found)]):  # those who read a register before who writes it
            tests = missing[number]
            if spared[number] and not stmt.is_copy:
                used = bound if any(stmt.target.buffer in names for _, names in bound) else restored
                for test in self._tests_of_users(stmt, {loop.name for loop in path}, used):
                    if not self.is_implied(test, stmt.guard + tests) and _decides(test, path, stmt, tests, facts):
                        tests += (test,)
            if tests:
                self.found.append((number, tests))
                whole[id(stmt)] = replace(stmt, guard=stmt.guard + tests)
                restored.append((whole[id(stmt)], {access.buffer for access in accesses(stmt)}))
        (node,) = rewrite_nodes((launch,), lambda value: whole.get(id(value), value))
        return node

    def _may_be_spared(self, path: tuple[Loop, ...], stmt: Stmt) -> bool:
        """True for what the text may run without its tests: from registers to registers, or copied to shared memory;
        and by an instruction or an update of fragments from shared memory, by the latter from inputs, too."""
        space = self.buffers[stmt.target.buffer].space
        update = bool(stmt.reduce and self.buffers[stmt.target.buffer].fragment)
        sources = ("register", "shared") if update or any(loop.kind == "matrix" for loop in path) else ("register",)
        read = [self.buffers[x.buffer] for x in loads(stmt)]
        if stmt.best or stmt.hits or any(gathers(stmt)):
            return False
        if any(b.space not in sources and not (update and b.role == "input") for b in read):
            return False
        if not stmt.is_copy:
            return space == "register"
        return space == "shared" and bool(self._not_implied(self._exists(stmt), stmt.guard))

    def _not_implied(self, tests: Tests, guard: Tests) -> Tests:
        """Those of the tests that neither the guard nor those before them imply."""
        found: Tests = ()
        for test in tests:
            found += () if self.is_implied(test, guard + found) else (test,)
        return found

    def _exists(self, stmt: Stmt) -> Tests:
        """That the element which a copy hands over is one of its tensor, and one that is computed."""
        tensor = self.kernel.tensor(tensor_of(self.buffers, stmt.target.buffer))
        places = list(zip(stmt.element or (), tensor.shape, strict=False))
        inside = tuple(c for i, extent in places for c in (Condition(i), Condition(extent - 1 - i)))
        computed = [e for e in self.kernel.equations if tensor.name in (e.target, e.best)]
        if len(computed) != 1:
            return inside
        (equation,) = computed
        at = {str(name): i for name, (i, _) in zip(equation.index, places, strict=False)}
        known = at.keys() | self.kernel.sizes
        tests = (c for c in equation.conditions if c.value.names() <= known)
        return (*inside, *substitute(tuple(tests), at))

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

    Of several loops they are the digits of it: of a vector `place//2` and `place%2`.
    """
    here, there = (dict((*reads(s), *writes(s)))[buffer] for s in (stmt, other))
    values: dict[str, Affine] = {}
    for place, digits in zip(here, there, strict=True):
        values |= _digits_of(place, digits, loops)
    return lambda tests: substitute(tests, values)


def _digits_of(place: Affine, number: Affine, loops: Mapping[str, Affine]) -> dict[str, Affine]:
    """The values of the loops that are the digits of a number, where it is `place`; of other numbers none."""
    found: dict[str, Affine] = {}
    below = 1
    digits = sorted(number.terms, key=lambda term: term[1])
    for at, (loop, factor) in enumerate(digits):
        if not isinstance(loop, str) or factor != below or number.const:
            return {}
        extent, last = loops.get(loop), at == len(digits) - 1
        if not last and (extent is None or not extent.is_const):
            return {}
        found[loop] = place // below if last or extent is None else place // below % extent.const
        below *= 1 if last or extent is None else extent.const
    return found


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
