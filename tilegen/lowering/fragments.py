"""Fragments are dealt out to lanes before all else, and instructions run whole at the borders of a tensor."""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import LimitError
from tilegen.ir.affine import var
from tilegen.ir.choices import negations
from tilegen.ir.fragments import deal_fragments
from tilegen.ir.nodes import Condition, Loop, Node, Stmt, Tree
from tilegen.ir.show import show_condition
from tilegen.ir.walk import accesses, leaves, rewrite_nodes
from tilegen.lowering.register_guards import spare
from tilegen.poly import Facts


def deal(tree: Tree) -> tuple[Tree, frozenset[tuple[str, str]]]:
    """The tree of lanes, and (statement, buffer) of the starts of fragments that do no harm without their guard.

    Raises LimitError where an instruction would have to leave out some of its points: what it computes there would be
    used.
    """
    if not any(b.fragment for b in tree.buffers):
        return tree, frozenset()
    found = [spare(node, tree.buffers, tree.kernel) for node in tree.body]
    for less in found:
        for path, stmt in leaves((less.node,)):
            nest = next((loop for loop in path if loop.performed), None)
            if nest and nest.performed and (needed := _needed_tests(path, stmt, less.node, tree)):
                raise LimitError(
                    f"'{nest.performed.instruction.name}' runs as a whole, and what it computes where "
                    f"{show_condition(needed[0])} does not hold would be used",
                    nest.span,
                )
    return deal_fragments(tree), frozenset().union(*(less.starts for less in found))


def _needed_tests(path: tuple[Loop, ...], stmt: Stmt, launch: Node, tree: Tree) -> tuple[Condition, ...]:
    """The conditions in the nest of an instruction without which it would write what somebody uses."""
    nest = path[next(n for n, loop in enumerate(path) if loop.performed) :]
    tests, buffer = tests_within(nest, stmt), tree.buffer(stmt.target.buffer)
    if buffer.space != "shared":
        return tests  # `spare` has left what a register needs
    facts = Facts(tree.kernel)
    return tuple(c for c in tests if _is_used_beside(c, path, stmt, buffer.scope, launch, facts))


def _is_used_beside(
    condition: Condition, path: tuple[Loop, ...], stmt: Stmt, scope: str | None, launch: Node, facts: Facts
) -> bool:
    """True if an element of shared memory that `stmt` writes where the condition fails may be used in the same life."""
    names = [loop.name for loop in path]
    alike = names[: names.index(scope) + 1] if scope in names else []
    mine = {loop.name: loop.extent for loop in path}
    for around, user in leaves((launch,)):
        primed = {loop.name: var(f"{loop.name}'") for loop in around if loop.name not in alike}
        extents = mine | {f"{loop.name}'": loop.extent.substitute(primed) for loop in around if loop.name in primed}
        tests = [Condition(c.value.substitute(primed), c.equal) for c in user.guard]
        for index in {access.index for access in accesses(user) if access.buffer == stmt.target.buffer}:
            places = zip(stmt.target.index, index, strict=True)
            met = [*tests, *(Condition(a - b.substitute(primed), equal=True) for a, b in places)]
            if any(facts.is_possible([*met, contrary], extents) for contrary in negations(condition)):
                return True
    return False


def tests_within(nest: tuple[Loop, ...], stmt: Stmt) -> tuple[Condition, ...]:
    """The conditions of a statement that differ between the iterations of the nest around it."""
    inside = {loop.name for loop in nest}
    return tuple(c for c in stmt.guard if c.value.names() & inside)


def without_instructions(tree: Tree) -> Tree:
    """`tree` with serial loops in place of what instructions and the lanes of a warp do together."""

    def change(node: object) -> object:
        if isinstance(node, Loop) and node.kind == "matrix":
            return replace(node, kind="serial", performed=None)
        return node

    buffers = tuple(replace(b, fragment=None, fragment_dims=()) for b in tree.buffers)
    return replace(tree, buffers=buffers, body=rewrite_nodes(tree.body, change))
