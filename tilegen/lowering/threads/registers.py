"""Where register buffers are declared: as near to their uses as their contents live."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from tilegen.ir.nodes import Buffer, Node, Stmt
from tilegen.ir.walk import accesses, leaves
from tilegen.lowering.launch.program import Declare, For, If, Spmd, with_lists

_buffer = attrgetter("buffer")


def declare(body: tuple[Spmd, ...], buffer: str, outer: frozenset[str], dims: int) -> tuple[Spmd, ...]:
    """`body` with a declaration of `buffer` before its first use.

    It moves into a test whose inside has all uses, and into a loop of `outer`: the loops that begin a
    new life of the buffer with each iteration. A scalar whose first use is an assignment starts with it.
    """
    using = [place for place, node in enumerate(body) if uses(node, buffer)]
    if not using:
        return body
    opens = all(_opens(body[place], outer) for place in using)
    if opens and (len(using) == 1 or all(isinstance(body[place], For) for place in using)):
        return tuple(with_lists(node, lambda inner: declare(inner, buffer, outer, dims)) for node in body)
    first = using[0]
    node = body[first]
    if dims == 0 and isinstance(node, Stmt) and node.reduce is None and node.target.buffer == buffer:
        return (*body[:first], Declare(buffer, node.value, node), *body[first + 1 :])
    return (*body[:first], Declare(buffer), *body[first:])


def _opens(node: Spmd, outer: frozenset[str]) -> bool:
    return isinstance(node, If) or (isinstance(node, For) and node.name in outer)


def uses(node: Spmd, buffer: str) -> bool:
    return buffer in map(_buffer, accesses(node))


def lives(node: Node, buffers: Iterable[Buffer]) -> dict[str, frozenset[str]]:
    """For each of the buffers the loops that its contents do not outlive, wherever it is used: its scope and those
    around it there. Elsewhere a loop of that name may stand inside of others."""
    scopes = {b.name: b.scope for b in buffers}
    found: dict[str, frozenset[str]] = {}
    for path, stmt in leaves((node,)):
        names = [loop.name for loop in path]
        for buffer in set(map(_buffer, accesses(stmt))) & scopes.keys():
            scope = scopes[buffer]
            around = frozenset(names[: names.index(scope) + 1]) if scope in names else frozenset()
            found[buffer] = found.get(buffer, around) & around
    return found


def unroll_register_loops(body: tuple[Spmd, ...], arrays: frozenset[str]) -> tuple[Spmd, ...]:
    """Constant loops that index a register array are unrolled: registers have no addresses."""
    out: list[Spmd] = []
    for node in body:
        node = with_lists(node, lambda inner: unroll_register_loops(inner, arrays))
        if isinstance(node, For) and node.kind == "serial" and node.extent.is_const and _is_index_in(node, arrays):
            node = replace(node, kind="unrolled")
        out.append(node)
    return tuple(out)


def _is_index_in(loop: For, arrays: frozenset[str]) -> bool:
    indices = (access.index for access in accesses(loop.body) if access.buffer in arrays)
    return any(loop.name in place.names() for index in indices for place in index)
