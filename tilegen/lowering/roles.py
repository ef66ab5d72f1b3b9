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
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop
from tilegen.ir.role import Role
from tilegen.ir.walk import substitute, walk
from tilegen.lowering.guards import IsImplied
from tilegen.lowering.program import For, If, Let, Spmd, names_in, with_body


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


def parts_of(loops: Iterable[Loop]) -> tuple[Part, ...]:
    """The roles of all of the loops, in their order."""
    return tuple(dict.fromkeys(Part(loop.name, role) for loop in loops for role in loop.roles))


def keeping_roles(is_implied: IsImplied, parts: tuple[Part, ...]) -> IsImplied:
    """`is_implied`, but for the tests that tell roles apart: they stay where others imply them."""
    tests = {test for part in parts for test in (part.begins, part.ends)}
    return lambda condition, given: condition not in tests and is_implied(condition, given)


def choose_roles(body: tuple[Spmd, ...], parts: tuple[Part, ...], taken: frozenset[str]) -> tuple[Spmd, ...]:
    """`body` with one test for roles that follow one another, and the names of the iterations of each.

    Args:
        taken: names that stand for something else in the launch.
    """
    out: list[Spmd] = []
    run: list[tuple[Part, If]] = []

    def close() -> None:
        out.extend(_choice(run, parts, taken))
        run.clear()

    for node in body if parts else ():
        part = _part_of(node, parts)
        if isinstance(node, If) and part is not None:
            if run and (run[-1][0].of != part.of or parts.index(run[-1][0]) > parts.index(part)):
                close()
            run.append((part, node))
            continue
        close()
        match node:
            case If():
                inner = (choose_roles(each, parts, taken) for each in (node.body, node.orelse))
                out.append(with_body(node, *inner))
            case For():
                out.append(with_body(node, choose_roles(node.body, parts, taken)))
            case _:
                out.append(node)
    close()
    return tuple(out) if parts else body


def _part_of(node: Spmd, parts: tuple[Part, ...]) -> Part | None:
    """The role that does what is in `node`, a test that says so."""
    if not isinstance(node, If) or node.orelse:
        return None
    for part in reversed(parts):
        if part.begins in node.test:
            return part
    return next((part for part in parts if part.ends in node.test), None)


def _choice(run: list[tuple[Part, If]], parts: tuple[Part, ...], taken: frozenset[str]) -> tuple[Spmd, ...]:
    """The roles of one loop, each under its test or behind `else`."""
    chain: tuple[Spmd, ...] = ()
    groups = [(part, tuple(node for _, node in nodes)) for part, nodes in groupby(run, key=itemgetter(0))]
    before = [None, *(part for part, _ in groups)]
    for (part, nodes), last in reversed(list(zip(groups, before, strict=False))):
        role = tuple(_without(node, (part.begins, part.ends)) for node in nodes)
        role = _named(part, choose_roles(role, tuple(p for p in parts if p.of != part.of), taken), taken)
        tests = tuple(c for c in (part.begins, part.ends) if c in nodes[0].test)
        if last is not None and part.role.start == last.role.start + last.role.extent:
            tests = tests[1:]  # it is behind `else` of the one before
        chain = (If(tests, role, chain, roles=bool(chain)),) if tests else role
    return chain


def _without(node: If, tests: tuple[Condition, ...]) -> Spmd:
    return If(tuple(c for c in node.test if c not in tests), node.body)


def _named(part: Part, body: tuple[Spmd, ...], taken: frozenset[str]) -> tuple[Spmd, ...]:
    """`body` in the name of the role's own iterations."""
    name, start = part.role.name, part.role.start
    bare = tuple(each for node in body for each in (node.body if isinstance(node, If) and not node.test else (node,)))
    if start == const(0) or name in taken:
        return bare
    named = substitute(bare, {part.of: var(name) + start})
    return (Let(name, part.begins.value), *named) if name in names_in(walk(named)) else bare
