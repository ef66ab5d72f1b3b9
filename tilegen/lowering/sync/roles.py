"""Roles: work that stands side by side in one loop gets one test, and each role its own iterations by name.

if (t < 128 && b*128 + t < N)                        if (t < 128) {
    c[b*128 + t] = ...                                   if (b*128 + t < N)
if (t >= 128 && b*128 + t - 128 < N)                         c[b*128 + t] = ...
    d[b*128 + t - 128] = ...                         } else {
                                                         const int td = t - 128;
                                                         if (b*128 + td < N)
                                                             d[b*128 + td] = ...
                                                     }
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Condition, Index, Loop, Op
from tilegen.ir.parts.role import Role
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.launch.program import If, Let, Spmd, names_in, with_body, with_lists
from tilegen.lowering.launch.substitution import substitute_integers


@dataclass(frozen=True)
class Part:
    """A role of the loop or coordinate `of`."""

    of: str
    role: Role

    @property
    def begins(self) -> Condition:
        """The test that an iteration is one of the role's or of a later one's."""
        return Condition(self.role.since_start(self.of))

    @property
    def ends(self) -> Condition:
        """The test that it is one of the role's or of an earlier one's."""
        return Condition(self.role.until_end(self.of))


class Roles:
    """All roles in the loops of a launch.

    Args:
        taken: names that stand for something else there.
    """

    def __init__(self, loops: Iterable[Loop], taken: frozenset[str]) -> None:
        self.parts = tuple(dict.fromkeys(Part(loop.name, role) for loop in loops for role in loop.roles))
        self.taken = taken

    def keep_tests(self, is_implied: IsImplied) -> IsImplied:
        """`is_implied`, but for the tests that distinguish roles: they stay where others imply them."""
        tests = {test for part in self.parts for test in (part.begins, part.ends)}
        return lambda condition, given: condition not in tests and is_implied(condition, given)

    def choose(self, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """`body` with one choice of the tests of roles that follow one another."""
        out: list[Spmd] = []
        run: list[tuple[Part, If]] = []

        def close() -> None:
            out.extend(self._chain(run)[0])
            run.clear()

        for node in body if self.parts else ():
            part = self._part_of(node)
            if isinstance(node, If) and part is not None:
                if run and not self._may_follow(run[-1][0], part):
                    close()
                run.append((part, node))
                continue
            close()
            out.append(with_lists(node, self.choose))
        close()
        return tuple(out) if self.parts else body

    def _part_of(self, node: Spmd) -> Part | None:
        """The role that does what is in `node`, a test that says so."""
        if not isinstance(node, If) or node.orelse:
            return None
        begun = [part for part in self.parts if part.begins in node.test]
        return begun[-1] if begun else next((part for part in self.parts if part.ends in node.test), None)

    def _may_follow(self, last: Part, part: Part) -> bool:
        """True if `part` is the same role, or a later one of the same loop."""
        return last.of == part.of and self.parts.index(last) <= self.parts.index(part)

    def _chain(self, run: list[tuple[Part, If]], end: Affine | None = None) -> tuple[tuple[Spmd, ...], str]:
        """The roles of one loop, each after `else` of the one before; and whose they are, if one role's.

        Args:
            end: where the role before them ends, if they stand after its `else`.
        """
        if not run:
            return (), ""
        part, name = run[0][0], run[0][0].role.name
        same = [node for each, node in run if each == part]
        tests = [test for test in (part.begins, part.ends) if all(test in node.test for node in same)]
        later = run[len(same) :]
        if later and part.ends not in tests:
            return (*same, *self._chain(later)[0]), ""
        others, whose = self._chain(later, part.role.start + part.role.extent)
        role = self.choose(tuple(each for node in same for each in _without(node, tests)))
        if part.role.start == end:
            tests = [test for test in tests if test != part.begins]
        if not tests:
            return role, name
        if others and part.begins in tests:  # after `else` there would be iterations before it
            return (If((part.begins,), (If((part.ends,), role, others, roles=(name, whose)),), roles=("",)),), ""
        return (If(tuple(tests), role, others, roles=(name, whose)),), ""

    def name(self, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        """`body` with the iterations of each role under their own name."""
        out: list[Spmd] = []
        for node in body:
            node = with_lists(node, self.name)
            if isinstance(node, If):
                branches = zip((*node.roles, "", ""), (node.body, node.orelse), strict=False)
                node = with_body(node, *(self._name_iterations(role, branch) for role, branch in branches))
            out.append(node)
        return tuple(out) if self.parts else body

    def _name_iterations(self, role: str, body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        part = next((part for part in self.parts if part.role.name == role), None)
        if part is None or part.role.start == const(0) or role in self.taken:
            return body
        named = rewrite(substitute_integers(body, {part.of: var(role) + part.role.start}), _without_common_terms)
        return (Let(role, part.begins.value), *named) if role in names_in(walk(named)) else body


def _without(node: If, tests: list[Condition]) -> tuple[Spmd, ...]:
    kept = tuple(test for test in node.test if test not in tests)
    return (replace(node, test=kept),) if kept else node.body


def _without_common_terms(value: Any) -> Any:
    """A comparison of places without what both sides have in common."""
    match value:
        case Op("<" | "<=" | ">" | ">=", (Index(left, kind), Index(right))):
            if not {a for a, _ in left.terms} & {a for a, _ in right.terms} and not (left.const and right.const):
                return value
            apart = left - right
            lower = apart.sides()[0] + max(0, -apart.const)
            return replace(value, args=(Index(apart + lower, kind), Index(lower, kind)))
        case _:
            return value
