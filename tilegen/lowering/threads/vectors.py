"""Vector loops: neighbours in memory move at once, the arithmetic on them stays scalar.

Every access under the loop that is contiguous and aligned becomes one vector access; the others are made
lane by lane. What alignment asks of the sizes and of the tensors' addresses is noted beside it, loop by loop: a
scalarized loop makes lane by lane whatever asks for anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.choices import condition_of
from tilegen.ir.hardware.atomics import WIDE
from tilegen.ir.hardware.limits import ACCESS_LIMIT
from tilegen.ir.hardware.memory import row_of
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, ONLY, Access, Buffer, Condition, Load, Stmt
from tilegen.ir.printing.show import show_condition
from tilegen.ir.reductions.ragged import term_of
from tilegen.ir.reductions.scatter import speaks_of
from tilegen.ir.walk import rewrite_accesses, substitute, writes
from tilegen.lowering.guards.guards import IsImplied, Tests
from tilegen.lowering.guards.reads import inside
from tilegen.lowering.launch.grid import Need
from tilegen.lowering.launch.program import (
    For,
    If,
    Spmd,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    with_lists,
)


@dataclass
class Needs:
    """What the vector accesses of a launch need, found on the way.

    Attributes:
        scalarized: the vector loops that may need nothing.
        requires: facts on sizes.
        alignment: bytes that the address of a tensor must be a multiple of.
        loops: what each vector loop needs of these, where it needs anything.
        variables: the vector variables, as buffers of one dimension in the space "vector".
        made: the vector loops that make vectors.
        others: those that make none somewhere, though they may need anything, each with its step and the reason.
    """

    buffers: Mapping[str, Buffer]
    sizes: frozenset[str]
    is_implied: IsImplied
    scalarized: frozenset[str] = frozenset()
    requires: list[Condition] = field(default_factory=list)
    alignment: dict[str, int] = field(default_factory=dict)
    loops: dict[str, Need] = field(default_factory=dict)
    variables: dict[str, Buffer] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    others: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def of_launch(self) -> dict[str, Any]:
        """The fields of a launch that say what its vectors need, and which steps make none anywhere."""
        dropped = dict(pair for loop, pair in self.others.items() if loop not in self.made)
        needed = {"requires": tuple(self.requires), "alignment": self.alignment, "needs": self.loops}
        return {**needed, "dropped": dropped}


def vectorize(body: tuple[Spmd, ...], needs: Needs) -> tuple[Spmd, ...]:
    """`body` with the vector accesses in place of its vector loops; `needs` learns what they take."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case For(kind="vector"):
                out += _vectorize_loop(node, needs)
            case _:
                out.append(with_lists(node, lambda inner: vectorize(inner, needs)))
    return tuple(out)


def _vectorize_loop(loop: For, needs: Needs) -> tuple[Spmd, ...]:
    """The iterations of `loop`, as vectors where that is possible, else one by one."""
    lanes = _Lanes(loop.name, loop.extent.const, needs)
    pairs = [_tests_and_stmt(node) for node in loop.body]
    if not any(stmt is None for _, stmt in pairs):
        done: list[Spmd] = []
        for guard, stmt in pairs:
            assert stmt is not None
            whole = lanes.whole(guard)
            if whole is None:
                break
            ops = lanes.statement(stmt, whole)
            done += (If(whole, ops),) if whole else ops
        else:
            if lanes.found:
                lanes.commit()
                return tuple(done)
    if not lanes.scalarized:
        step = loop.step.rpartition("; ")[2]
        needs.others.setdefault(loop.name, (step, lanes.obstacle or "none of its accesses can be vectors"))
    return (replace(loop, kind="unrolled", body=vectorize(loop.body, needs)),)


def _tests_and_stmt(node: Spmd) -> tuple[Tests, Stmt | None]:
    match node:
        case Stmt():
            return (), node
        case If(test=test, body=(Stmt() as stmt,), orelse=()):
            return test, stmt
        case _:
            return (), None


@dataclass
class _Lanes:
    """The work on one vector loop: nothing of it counts before `commit`.

    Attributes:
        obstacle: the first thing that kept an access from being a vector.
    """

    lane: str
    width: int
    needs: Needs
    found: bool = False
    obstacle: str = ""
    requires: list[Condition] = field(default_factory=list)
    alignment: dict[str, int] = field(default_factory=dict)
    variables: dict[str, Buffer] = field(default_factory=dict)
    loaded: dict[tuple[Tests, str, tuple[Affine, ...]], str] = field(default_factory=dict)

    def commit(self) -> None:
        self.needs.made.add(self.lane)
        self.needs.requires += [c for c in self.requires if c not in self.needs.requires]
        for name, by in self.alignment.items():
            self.needs.alignment[name] = max(by, self.needs.alignment.get(name, 1))
        self.needs.variables |= self.variables
        if self.requires or self.alignment:
            need = Need(tuple(self.requires), tuple(self.alignment.items()))
            self.needs.loops[self.lane] = self.needs.loops.get(self.lane, Need()).and_(need)

    @property
    def scalarized(self) -> bool:
        return self.lane in self.needs.scalarized

    def _obstruct(self, why: str) -> None:
        self.obstacle = self.obstacle or why

    # -- guards: all lanes inside, or all outside

    def whole(self, guard: Tests) -> Tests | None:
        """`guard` for all lanes at once, or None where lanes can differ."""
        tests, kept = Tests(), list(guard)
        for test in guard:  # nothing is required for a test that holds where the others do
            if self.lane in test.value.names() and self.needs.is_implied(test, tuple(c for c in kept if c != test)):
                kept.remove(test)
                continue
            found = self._whole(test)
            if found is None:
                self._obstruct(f"the test {show_condition(test)} can hold for a part of its elements")
                return None
            tests += (found,)
        return tests

    def _whole(self, test: Condition) -> Condition | None:
        factor = test.value.coefficient(self.lane)
        if not test.value.linear_in(self.lane) or abs(factor) > 1 or (factor and test.equal):
            return None
        if factor == 0:
            return test
        # r - v >= 0 for all v < W or for none: r + 1 is a multiple of W. v + r >= 0: r is one.
        rest = test.value - var(self.lane) * factor
        if not self._is_multiple(rest + 1 if factor < 0 else rest):
            return None
        return Condition(rest - (self.width - 1) if factor < 0 else rest)

    def _is_multiple(self, value: Affine) -> bool:
        """True if `value` is a multiple of the width, given what is required of the sizes."""
        rest = Affine(tuple((a, f) for a, f in value.terms if f % self.width), value.const) % self.width
        if rest.is_const:
            return rest.const == 0
        if not rest.names() <= self.needs.sizes:
            return False
        condition = Condition(rest, equal=True)
        if condition not in self.requires and not self.needs.is_implied(condition, ()):
            if self.scalarized:
                return False
            self.requires.append(condition)
        return True

    # -- statements

    def statement(self, stmt: Stmt, guard: Tests) -> tuple[Spmd, ...]:
        ops: list[Spmd] = []
        memory = self.needs.buffers[stmt.target.buffer]
        dtype, wide = memory.dtype, memory.space == "global" and (stmt.reduce, memory.dtype, self.width) in WIDE
        update = stmt.reduce if stmt.atomic and wide else None
        alone = term_of(stmt.value) if stmt.reduce == ONLY and self._fits(stmt.target) else None
        where = alone[0] if alone and not speaks_of(alone[0], frozenset((self.lane,))) else None
        if alone and where:
            stmt = replace(stmt, value=alone[1], reduce=None)
        stored = stmt.reduce == update and self._fits(stmt.target)
        value = stmt.value
        if stored and not update and isinstance(value, Load) and value.dtype == dtype:
            source, inside_ = Access(value.buffer, self._first_index(value.index)), self._inside(value, guard)
            if inside_ is not None and (guard, *_key(source)) not in self.loaded:
                self._forget(stmt)
                test = condition_of(inside_) if inside_ else None
                start = self._start(stmt.target)
                if not (where and test):
                    origin = replace(stmt, reduce=ONLY) if where else stmt
                    return (VectorCopy(dtype, self.width, start, source, False, test, where, origin, self.lane),)

        if not where and (copy := self._of_registers(stmt, guard, stored and not update)):
            return (copy,)

        def load(value: Load) -> Load:
            if not self._reads(value):
                return value
            source = Access(value.buffer, self._first_index(value.index))
            key = (guard, *_key(source))
            if key not in self.loaded:
                self.loaded[key] = self._variable(value.buffer)
                ops.append(VectorLoad(self.loaded[key], value.dtype, self.width, source))
            return Load(self.loaded[key], (var(self.lane),), value.dtype)

        bare = replace(stmt, value=rewrite_accesses(stmt.value, load))
        target = self._start(stmt.target) if stored else None
        if target is not None:
            name = self._variable(stmt.target.buffer)
            ops.append(VectorDeclare(name, dtype, self.width))
            bare = replace(bare, target=Access(name, (var(self.lane),)), reduce=None, atomic=False)
        ops += [substitute(bare, {self.lane: const(lane)}) for lane in range(self.width)]
        if target is not None:
            ops.append(VectorStore(name, dtype, self.width, target, update or "", where))
        self._forget(stmt)
        return tuple(ops)

    def _of_registers(self, stmt: Stmt, guard: Tests, stored: bool) -> VectorCopy | None:
        """A copy between memory and as many neighbours in registers; `stored` if its target is a vector."""
        value, target = stmt.value, self.needs.buffers[stmt.target.buffer]
        if not isinstance(value, Load) or value.dtype != target.dtype or stmt.reduce:
            return None
        memory = self.needs.buffers.get(value.buffer)
        if memory is None:
            return None
        from_registers = stored and self._neighbours(memory, value.index)
        to_registers = self._neighbours(target, stmt.target.index) and not memory.streamed
        if not (from_registers or to_registers and self._reads(value)):
            return None
        source = Access(value.buffer, self._first_index(value.index))
        if (guard, *_key(source)) in self.loaded:
            return None
        self._forget(stmt)
        self.found = True
        return VectorCopy(target.dtype, self.width, self._start(stmt.target), source, origin=stmt, lane=self.lane)

    def _neighbours(self, buffer: Buffer, index: tuple[Affine, ...]) -> bool:
        """True if the lanes of an access are neighbours in an array of registers."""
        if buffer.space != "register" or not index or buffer.order != tuple(range(len(index))):
            return False
        along = index[-1].linear_in(self.lane) and index[-1].coefficient(self.lane) == 1
        return along and not any(self.lane in i.names() for i in index[:-1])

    def _forget(self, stmt: Stmt) -> None:
        """What the statement writes has to be loaded anew."""
        changed = {buffer for buffer, _ in writes(stmt)}
        self.loaded = {key: name for key, name in self.loaded.items() if key[1] not in changed}

    def _variable(self, buffer: str) -> str:
        memory = self.needs.buffers[buffer]
        name, number = f"{buffer}.vec", 1
        while name in self.variables or name in self.needs.variables:
            number += 1
            name = f"{buffer}.vec{number}"
        self.variables[name] = Buffer(name, memory.dtype, (const(self.width),), "vector", (0,))
        return name

    # -- which accesses can be vectors

    def _inside(self, load: Load, guard: Tests) -> Tests | None:
        """When all lanes of a read are inside of the buffer, and at its other times none; None if it is no vector."""
        if load.fallback is None:
            return () if self._reads(load) else None
        if load.fallback.value != 0 or not self._fits(Access(load.buffer, load.index)):
            return None
        tests = self.whole(inside(self.needs.buffers[load.buffer], load.index))
        known = guard + tuple(self.requires)
        return None if tests is None else tuple(c for c in tests if not self.needs.is_implied(c, known))

    def _reads(self, load: Load) -> bool:
        if load.fallback is not None:
            self._obstruct(
                f"its reads of '{load.buffer}' have an else, and only a copy to memory with else 0 can be a vector"
            )
        return load.fallback is None and self._fits(Access(load.buffer, load.index))

    def _fits(self, access: Access) -> bool:
        """True if the lanes of `access` are neighbours, and the first one is aligned."""
        buffer = self.needs.buffers.get(access.buffer)
        if buffer is None or buffer.space not in ("global", "shared") or not buffer.order:
            return False
        if buffer.windows or (self.scalarized and buffer.space == "global"):
            return False  # its address may be any, or there is none
        size = self.width * DTYPE_BYTES[buffer.dtype]
        *outer, fastest = (access.index[d] for d in buffer.order)
        along = fastest.linear_in(self.lane) and fastest.coefficient(self.lane) == 1
        if size > ACCESS_LIMIT or not along or any(self.lane in i.names() for i in outer):
            return False
        if buffer.swizzle and not buffer.swizzle.keeps(self.width):
            return False
        before = list(self.requires)
        row = row_of(buffer)
        rows = any(i != const(0) for i in outer)
        if not self._is_multiple(fastest - var(self.lane)) or (rows and not self._is_multiple(row)):
            self.requires = before
            self._obstruct(f"it does not begin at multiples of {self.width} in '{access.buffer}'")
            return False
        self.found = True
        if buffer.space == "global":
            name = memory_of(access.buffer)
            self.alignment[name] = max(size, self.alignment.get(name, 1))
        return True

    def _first_index(self, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
        return tuple(i.substitute({self.lane: const(0)}) for i in index)

    def _start(self, access: Access) -> Access:
        return Access(access.buffer, self._first_index(access.index))


def _key(access: Access) -> tuple[str, tuple[Affine, ...]]:
    return access.buffer, access.index
