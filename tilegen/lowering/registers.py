"""Where register buffers are declared: as near to their uses as their contents live."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.nodes import Access, Load, Stmt
from tilegen.ir.walk import replace, walk
from tilegen.lowering.program import Declare, For, If, Spmd, with_body


def declared(body: tuple[Spmd, ...], buffer: str, outer: frozenset[str], dims: int) -> tuple[Spmd, ...]:
    """`body` with a declaration of `buffer` ahead of its first use.

    It moves into a test whose inside has all uses, and into a loop of `outer`: the loops that begin a
    new life of the buffer with each iteration. A scalar whose first use is an assignment starts with it.
    """
    using = [place for place, node in enumerate(body) if uses(node, buffer)]
    if not using:
        return body
    if all(_opens(body[place], outer) for place in using) and (len(using) == 1 or _only_loops(body, using)):
        return tuple(_inside(node, buffer, outer, dims) if place in using else node for place, node in enumerate(body))
    first = using[0]
    node = body[first]
    if dims == 0 and isinstance(node, Stmt) and node.reduce is None and node.target.buffer == buffer:
        return (*body[:first], Declare(buffer, node.value, node), *body[first + 1 :])
    return (*body[:first], Declare(buffer), *body[first:])


def _only_loops(body: tuple[Spmd, ...], using: list[int]) -> bool:
    return all(isinstance(body[place], For) for place in using)


def _opens(node: Spmd, outer: frozenset[str]) -> bool:
    return isinstance(node, If) or (isinstance(node, For) and node.name in outer)


def _inside(node: Spmd, buffer: str, outer: frozenset[str], dims: int) -> Spmd:
    match node:
        case If(body=then, orelse=orelse):
            return with_body(node, declared(then, buffer, outer, dims), declared(orelse, buffer, outer, dims))
        case For(body=inner):
            return with_body(node, declared(inner, buffer, outer, dims))
        case _:
            raise TypeError(node)


def uses(node: Spmd, buffer: str) -> bool:
    return any(isinstance(v, Access | Load) and v.buffer == buffer for v in walk(node))


def lives(paths: Mapping[str, frozenset[str]], scope: str | None) -> frozenset[str]:
    """The loops that a buffer's contents do not outlive: its scope and the loops around it."""
    return paths.get(scope, frozenset()) | {scope} if scope else frozenset()


def unrolled(body: tuple[Spmd, ...], arrays: frozenset[str]) -> tuple[Spmd, ...]:
    """Constant loops that index a register array are unrolled: registers have no addresses."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case For():
                node = with_body(node, unrolled(node.body, arrays))
                if node.kind == "serial" and node.extent.is_const and _indexes(node, arrays):
                    node = replace(node, kind="unrolled")
            case If():
                node = with_body(node, unrolled(node.body, arrays), unrolled(node.orelse, arrays))
            case _:
                pass
        out.append(node)
    return tuple(out)


def _indexes(loop: For, arrays: frozenset[str]) -> bool:
    return any(
        isinstance(v, Access | Load) and v.buffer in arrays and any(loop.name in i.names() for i in v.index)
        for v in walk(loop.body)
    )
