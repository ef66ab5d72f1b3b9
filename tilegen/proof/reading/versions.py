"""A thread's program with every test pushed down to its statements; versions of one code become one again.

A version for full tiles is the other version without the tests that its own test makes certain. Where this
is so the two are one program; where it is not, both stay, each under its test.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

from tilegen.ir.affine import Affine, const
from tilegen.ir.facts.choices import ALWAYS, Cases, both, cases_of, negations, tests_behind_else
from tilegen.ir.nodes import Buffer, Cast, Condition, Const, Equation, Expr, Gather, Index, Load, Op, Stmt
from tilegen.ir.walk import loads, rewrite, walk
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.guards.known import implication_checker
from tilegen.lowering.guards.reads import inside
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Combine,
    Declare,
    For,
    If,
    Spmd,
    nodes,
)
from tilegen.lowering.launch.timelines import Arrive, Barrier
from tilegen.poly import Refused, Unproved

Tests = tuple[Condition, ...]
Own = frozenset[tuple[str, Const]]
MEANT = ("matrix", "scatter", "ragged")  # kinds of loops that are more than a way to write them


def merge_versions(body: tuple[Spmd, ...], launch: Launch, extents: Mapping[str, Affine]) -> tuple[Spmd, ...]:
    """`body` as loops, declarations, barriers and statements that carry their tests as guards.

    Args:
        extents: every loop with its extent, blocks and threads among them.

    Raises:
        Refused: a barrier is under a test.
    """
    is_implied = implication_checker(launch.kernel, extents, launch.requires)
    choices = {e.target: list(_choices(e)) for e in launch.kernel.equations}
    chosen = {e.target: _chosen_tensors(e, choices[e.target]) for e in launch.kernel.equations}
    own = {name: frozenset((load.buffer, other) for load, other in found) for name, found in choices.items()}
    return _Merge(is_implied, launch.buffers, own, chosen, launch.kernel.sizes).body(body, (), ())


def _choices(equation: Equation) -> Iterator[tuple[Load, Const]]:
    """Where the equation chooses between what it reads and a constant."""
    for value in walk(equation):
        match value:
            case Op("select", (_, Load() as load, Const() as other)):
                yield load, other
            case _:
                pass


def _chosen_tensors(equation: Equation, choices: list[tuple[Load, Const]]) -> frozenset[str]:
    """The tensors that the equation reads with a fallback in choices between that and a constant, and nowhere else."""
    every = [load.buffer for load in loads(equation) if load.fallback is not None]
    names = [load.buffer for load, _ in choices if load.fallback is not None]
    return frozenset(name for name in names if names.count(name) == every.count(name))


def _check_scattered(loop: For, sizes: Collection[str]) -> None:
    """Where data pick iterations, they are read before all that is tested in the loop: no test may be for that."""
    if loop.kind not in ("scatter", "ragged"):
        return
    inner = {loop.name, *(v.name for v in nodes(loop.body) if isinstance(v, For))}
    for node in nodes(loop.body):
        tests = [c for c in node.test if inner.isdisjoint(c.value.names())] if isinstance(node, If) else []
        if any(not loop.ends or loop.ends.may_need(c, sizes) for c in tests):
            raise Refused(f"which iterations of '{loop.name}' run is read before a test that does not depend on it")


def _joint_nodes(body: tuple[Spmd, ...]) -> list[Spmd]:
    """What all threads have to run together."""
    return [v for v in nodes(body) if isinstance(v, Barrier | Combine | Arrive)]


@dataclass(frozen=True)
class _Known:
    """What holds where a read stands: tests, and one of the cases of the choices around it."""

    is_implied: IsImplied
    given: Tests
    own: Own  # the choices that the kernel itself makes in the statement
    cases: Cases = ALWAYS
    # Where no choice is around: tensors whose reads with a fallback are all in one that the kernel makes.
    chosen: frozenset[str] = frozenset()

    def with_cases(self, cases: Cases) -> _Known:
        return replace(self, cases=both(self.cases, cases), chosen=frozenset())

    def with_tests(self, tests: Tests) -> _Known:
        return replace(self, given=self.given + tests)

    def is_certain(self, condition: Condition) -> bool:
        return all(self.is_implied(condition, self.given + case) for case in self.cases)


@dataclass(frozen=True)
class _Merge:
    is_implied: IsImplied
    buffers: Mapping[str, Buffer]
    # By statement, tensors and the constants that the kernel chooses between: those that it reads and these.
    own: Mapping[str, Own]
    chosen: Mapping[str, frozenset[str]]
    sizes: Collection[str]

    def body(self, body: tuple[Spmd, ...], given: Tests, under: Tests) -> tuple[Spmd, ...]:
        """`body` where the tests `given` hold; those that it is `under` become guards of its statements."""
        out: list[Spmd] = []
        for node in body:
            match node:
                case For():
                    _check_scattered(node, self.sizes)
                    kind = node.kind if node.kind in MEANT else "serial"
                    out.append(replace(node, kind=kind, step="", body=self.body(node.body, given, under)))
                case If():
                    out += self._test(node, given, under)
                case Stmt():
                    out.append(_add_guard(self._with_fallbacks(node, given), under))
                case Combine():
                    known = _Known(self.is_implied, given + node.test, frozenset().union(*self.own.values()))
                    arg = node.arg and self._read_with_fallback(node.arg, known)
                    out.append(replace(node, value=self._read_with_fallback(node.value, known), arg=arg))
                case Declare() | Barrier():
                    out.append(node)
                case Arrive(line) if line.counts_groups:
                    out.append(node)
                case _:
                    raise Unproved(f"a {type(node).__name__} is not followed")
        return tuple(out)

    def _test(self, node: If, given: Tests, under: Tests) -> tuple[Spmd, ...]:
        together = _joint_nodes(node.body + node.orelse)
        tests = " and ".join(map(str, node.test)) if together else ""
        for barrier in (v for v in together if isinstance(v, Barrier)):
            raise Refused("a barrier stands under a test", f"'{barrier.reason}' if {tests}")
        if any(isinstance(v, Combine) for v in together):
            raise Refused("lanes exchange values under a test, which others of their warp may fail", tests)
        if together:
            raise Unproved("asynchronous copies are grouped under a test")
        known = given + node.test
        if not node.orelse:
            return self.body(node.body, known, under + node.test)
        otherwise = given + tests_behind_else(node.test)
        then, orelse = self.body(node.body, known, ()), self.body(node.orelse, otherwise, ())
        if self._drop_certain_tests(orelse, known) == self._drop_certain_tests(then, known):
            return _add_guards(under, orelse)
        pieces = _add_guards(node.test, then)
        for place, condition in enumerate(node.test):
            for contrary in negations(condition):
                pieces += _add_guards((*node.test[:place], contrary), orelse)
        return _add_guards(under, pieces)

    def _drop_certain_tests(self, body: tuple[Spmd, ...], given: Tests) -> tuple[Spmd, ...]:
        """`body` without the tests that are certain, the others in one order."""
        needed: dict[Tests, Tests] = {}

        def change(value: Any) -> Any:
            if not isinstance(value, Stmt):
                return value
            if value.guard not in needed:
                needed[value.guard] = self._without_implied(value.guard, given)
            bare = rewrite(value.value, lambda v: self._drop_needless_fallback(v, given))
            return replace(value, guard=needed[value.guard], value=bare)

        return rewrite(body, change, (Stmt,))

    def _without_implied(self, tests: Tests, given: Tests) -> Tests:
        kept = [c for c in dict.fromkeys(tests) if c not in given]
        for condition in sorted(kept, key=lambda c: -len(c.value.terms)):
            others = tuple(c for c in kept if c != condition)
            if self.is_implied(condition, given + others):
                kept.remove(condition)
        return tuple(sorted(kept, key=str))

    # -- reads with a fallback

    def _with_fallbacks(self, stmt: Stmt, given: Tests) -> Stmt:
        own, chosen = self.own.get(stmt.name, frozenset()), self.chosen.get(stmt.name, frozenset())
        known = _Known(self.is_implied, given + stmt.guard, own, chosen=chosen)
        value = self._read_with_fallback(stmt.value, known)
        return stmt if value is stmt.value else replace(stmt, value=value)

    def _read_with_fallback(self, value: Expr, known: _Known) -> Expr:
        """`value` with the fallbacks of its reads; in the arms of a choice, what makes them is known."""
        args: tuple[Expr, ...]
        match value:
            case Op("select", (test, then, other)):
                if (found := self._fallback(value, known)) is not None:
                    return found
                true, false = cases_of(test)
                arms = (
                    self._read_with_fallback(then, known.with_cases(true)),
                    self._read_with_fallback(other, known.with_cases(false)),
                )
                args = (self._read_with_fallback(test, known), *arms)
                return value if all(map(is_, args, value.args)) else replace(value, args=args)
            case Op("and" | "or" as word, (one, two)):
                second = self._read_with_fallback(two, known.with_cases(cases_of(one)[word == "or"]))
                args = (self._read_with_fallback(one, known), second)
                return value if all(map(is_, args, value.args)) else replace(value, args=args)
            case Op(args=old):
                args = tuple(self._read_with_fallback(a, known) for a in old)
                return value if all(map(is_, args, old)) else replace(value, args=args)
            case Cast(old_arg):
                arg = self._read_with_fallback(old_arg, known)
                return value if arg is old_arg else replace(value, arg=arg)
            case Gather(index=index, fallback=other):
                args = tuple(self._read_with_fallback(i, known) for i in index)
                otherwise = other and self._read_with_fallback(other, known)
                same = all(map(is_, args, index)) and otherwise is other
                return value if same else replace(value, index=args, fallback=otherwise)
            case Load(fallback=None) if known.cases != ALWAYS:
                return self._guarded_read(value, known)
            case _:
                return value

    def _guarded_read(self, load: Load, known: _Known) -> Load:
        """A read that the choice around it alone keeps in its tensor has a fallback, 0, which is never taken."""
        if load.buffer not in self.buffers or not self.buffers[load.buffer].order:
            return load
        wanted = inside(self.buffers[load.buffer], load.index)
        everywhere = replace(known, cases=ALWAYS)
        if all(map(everywhere.is_certain, wanted)) or not all(map(known.is_certain, wanted)):
            return load
        return replace(load, fallback=Const(0, load.dtype))

    def _fallback(self, value: Op, known: _Known) -> Expr | None:
        """`test ? X[i] : c` as the read of X with that fallback, where the test is that the index is inside.

        Where it is certain to be, or is never asked, a choice that the kernel may have written stays one, and so does
        one around what the kernel reads nowhere else with a fallback.
        """
        match value:
            case Op("select", (test, Load(fallback=None) as load, Const() as fallback)):
                tests = _conditions(test)
                wanted = inside(self.buffers[load.buffer], load.index)
                tensor = self._tensor_of(load.buffer)
                if tests is None or tensor in known.chosen:
                    return None
                if (tensor, fallback) in known.own and all(map(known.is_certain, wanted)):
                    return None
                exact = all(map(known.with_tests(tests).is_certain, wanted))
                if exact and all(map(known.with_tests(wanted).is_certain, tests)):
                    return replace(load, fallback=fallback)
        return None

    def _tensor_of(self, buffer: str) -> str:
        """The tensor that a buffer is a copy of, or a copy of such a copy; itself where it is none."""
        while buffer in self.buffers and (source := self.buffers[buffer].copy_of):
            buffer = source
        return buffer

    def _drop_needless_fallback(self, value: Any, given: Tests) -> Any:
        """A read whose index is certain to be inside needs no fallback."""
        if not isinstance(value, Load) or value.fallback is None:
            return value
        certain = all(self.is_implied(c, given) for c in inside(self.buffers[value.buffer], value.index))
        return replace(value, fallback=None) if certain else value


def _add_guards(tests: Tests, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    if not tests:
        return body

    return rewrite(body, lambda v: _add_guard(v, tests) if isinstance(v, Stmt) else v, (Stmt,))


def _add_guard(stmt: Stmt, tests: Tests) -> Stmt:
    return replace(stmt, guard=tuple(dict.fromkeys(tests + stmt.guard))) if tests else stmt


def _conditions(test: Expr) -> Tests | None:
    """A conjunction of comparisons of index expressions; None if the test is more than that."""
    match test:
        case Op("and", (left, right)):
            one, two = _conditions(left), _conditions(right)
            return None if one is None or two is None else one + two
        case Op(word, (Index(left), Index(right))) if word in ("<", "<=", ">", ">="):
            strict = const(1 if word in ("<", ">") else 0)
            return (Condition(right - left - strict if word in ("<", "<=") else left - right - strict),)
        case Const(True, "bool"):
            return ()
        case _:
            return None
