"""The nest of a reduction, rewritten so that each part has a result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Equation, Loop, Node, Stmt
from tilegen.ir.walk import add_guard, in_loops, stmts, substitute
from tilegen.primitives.equations.terms import Terms


@dataclass(frozen=True)
class Partial:
    """Rewrites the reduction of `terms` to the tensor `name`, with one more dimension for each loop across."""

    terms: Terms
    name: str

    def nodes(
        self, body: tuple[Node, ...], start: tuple[Node, ...] = (), missing: frozenset[str] = frozenset()
    ) -> tuple[Node, ...]:
        """`body` with a result for each part.

        The start of the parts stands where that of the whole was: in front of what `body` does, inside the
        loops across. Those of them that are `missing` around it are entered where they follow, else made.
        """
        out: list[Node] = []
        if not missing:
            out, start = list(start), ()
        for node in body:
            if {s.name for s in stmts((node,))} <= self._starts:
                start, missing = (*start, self._part_node(node)), self._across
            elif isinstance(node, Loop) and node.name in missing:
                out.append(replace(node, body=self.nodes(node.body, start, missing - {node.name})))
                start, missing = (), frozenset()
            else:
                out += self._in_missing_loops(start, missing)
                out.append(
                    replace(node, body=self.nodes(node.body)) if isinstance(node, Loop) else self._part_node(node)
                )
                start, missing = (), frozenset()
        return (*out, *self._in_missing_loops(start, missing))

    def _in_missing_loops(self, start: tuple[Node, ...], missing: frozenset[str]) -> Iterable[Node]:
        for loop in reversed(self.terms.across):
            if start and loop.name in missing:
                start = (replace(loop, body=start),)
        return start

    def _part_node(self, node: Node) -> Node:
        if isinstance(node, Loop):
            return replace(node, body=tuple(self._part_node(inner) for inner in node.body))
        return self._part_stmt(node) if node.name in (self._old, *self._starts) else node

    def _part_stmt(self, stmt: Stmt) -> Stmt:
        """The statement for one part."""
        terms, instance = self.terms, stmt.instance
        assert instance is not None
        across = tuple(var(loop.name) for loop in terms.across)
        count, guard = terms.equation.carried, stmt.guard
        point = (*instance[:count], *across, *instance[count:])
        if stmt.reduce:
            left = (*terms.left[:count], *across, *terms.left[count:])
            point = (*left, *(var(loop.name) for loop in terms.rest))
        else:
            guard += tuple(c for c in terms.guard if c not in guard)
        return replace(
            stmt,
            name=self.name + stmt.name.removeprefix(self._old),
            target=self._access(stmt.target),
            best=self._access(stmt.best) if stmt.best else None,
            instance=point,
            guard=guard,
        )

    def _access(self, access: Access) -> Access:
        place = tuple(var(loop.name) for loop in self.terms.across)
        return Access(self.name + access.buffer.removeprefix(self._old), (*place, *access.index))

    @property
    def _old(self) -> str:
        return self.terms.equation.target

    @property
    def _starts(self) -> set[str]:
        return {f"{self._old}.init", f"{self._old}.best.init"}

    @property
    def _across(self) -> frozenset[str]:
        return frozenset(loop.name for loop in self.terms.across)


def nest_at(nest: Node, total: Equation, terms: Terms, whole: Stmt, inside: tuple[Loop, ...]) -> tuple[Node, ...]:
    """The `nest` of `total` for the elements of one iteration of a loop around what computes the parts.

    Args:
        whole: the statement of the undivided reduction.
        inside: the loops around it in that iteration: those of its terms, and those that run over elements again.
    """
    body: tuple[Node, ...] = (nest,)
    for _ in total.loops:
        (outer,) = body
        assert isinstance(outer, Loop)
        body = outer.body
    body = substitute(body, {r.name: place for r, place in zip(total.loops, terms.left, strict=True)})
    own = {loop.name for loop in (*terms.across, *terms.rest)}
    for condition in whole.guard:
        if condition.value.names().isdisjoint(own):
            body = add_guard(body, condition)
    rows = [loop for loop in inside if loop.name not in own]
    return (in_loops(rows[:-1], replace(rows[-1], body=body)),) if rows else body
