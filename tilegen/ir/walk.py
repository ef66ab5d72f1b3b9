"""Generic traversal: nothing here names a kind of node, so a new kind needs no edit (beyond `Loop` bodies)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import Field, fields, is_dataclass, replace
from functools import cache
from itertools import chain
from operator import is_
from re import findall
from typing import Any, TypeVar

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import ONLY, Access, Condition, Gather, Load, Loop, Node, Stmt, Tree

T = TypeVar("T")

# Fields that describe where a value came from, or are declared elsewhere; no traversal looks into them.
_PROVENANCE = ("span", "step", "kernel", "origin", "instruction", "fragment", "windows")


# Words in the annotations of fields that hold no dataclass value.
_SCALAR = {"str", "int", "float", "bool", "None", "tuple"}


class _Fields(dict[type, tuple[str, ...] | None]):
    """Type -> its fields that a traversal looks into, none of the types that it stops short of; None for what is no
    dataclass. Fields with no other words in their annotation than `passed` are passed by."""

    def __init__(self, short_of: tuple[type, ...], passed: Set[str] = _SCALAR) -> None:
        super().__init__({Condition: ("value",)} | dict.fromkeys((Affine, *short_of), ()))
        self.passed = passed

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        names = None
        if is_dataclass(kind):
            names = tuple(f.name for f in fields(kind) if f.name not in _PROVENANCE and not self._passes(f))
        self[kind] = names
        return names

    def _passes(self, field: Field[Any]) -> bool:
        return isinstance(field.type, str) and set(findall(r"\w+", field.type)) <= self.passed


_inside = cache(_Fields)
_everything = _inside(())
# For those who look for accesses: there are none in indices and tests.
_around_accesses = _Fields((Access, Load), _SCALAR | {"Affine", "Condition"})


_AFFINE = frozenset((Affine,))


def walk(value: Any) -> Iterator[Any]:
    """`value` and every dataclass value inside it, parents first, in program order. It may be in lists."""
    found: list[Any] = []
    _collect(value, found)
    return iter(found)


def _collect(value: Any, found: list[Any]) -> None:
    """Adds to `found` what `walk` goes through."""
    kind = type(value)
    if kind is tuple or kind is list:
        if _AFFINE.issuperset(map(type, value)):
            found += value
            return
        for item in value:
            _collect(item, found)
        return
    names = _everything[kind]
    if not names:
        found += () if names is None else (value,)
        return
    found.append(value)
    for name in names:
        if held := getattr(value, name):  # neither None nor an empty tuple
            if type(held) is Affine:
                found.append(held)
            else:
                _collect(held, found)


def rewrite(value: T, change: Callable[[Any], Any], short_of: tuple[type, ...] = ()) -> T:
    """`value` with `change` applied to every dataclass value in it, children first.

    `change` gets a node whose children are done and returns it or its replacement; inside a tuple, a
    replacement that is itself a tuple is spliced in, so a statement can become several or none.
    Unchanged parts are the same objects as before. What is inside of values of the kinds `short_of` is left as it is.
    """
    new: T = _rewrite_value(value, change, _inside(short_of))
    return new


def _rewrite_value(value: Any, change: Callable[[Any], Any], inside: _Fields) -> Any:
    kind = type(value)
    if kind is tuple:
        items = [change(item) if type(item) is Affine else _rewrite_value(item, change, inside) for item in value]
        return value if all(map(is_, items, value)) else _splice(value, items)
    names = inside[kind]
    if names is None:
        return value
    new = {}
    for name in names:
        if old := getattr(value, name):  # neither None nor an empty tuple
            item = change(old) if type(old) is Affine else _rewrite_value(old, change, inside)
            if item is not old:
                new[name] = item
    return change(_with(value, new) if new else value)


def rewrite_accesses(value: T, change: Callable[[Any], Any]) -> T:
    """`value` with `change` applied to every access in it, an `Access` or a `Load`, and to nothing else."""
    new: T = _rewrite_value(value, lambda v: change(v) if type(v) in (Load, Access) else v, _around_accesses)
    return new


class _Indices(dict[Affine, Affine]):
    """Index expression -> what it becomes: the same few stand all over a tree."""

    def __init__(self, change: Callable[[Affine], Affine]) -> None:
        self.change = change

    def __missing__(self, index: Affine) -> Affine:
        self[index] = new = self.change(index)
        return new


def rewrite_indices(value: T, change: Callable[[Affine], Affine]) -> T:
    """`value` with `change`, which is asked once about each, applied to every index expression in it.

    Unchanged parts are the same objects as before.
    """
    becomes = _Indices(change)

    def change_index(part: Any) -> Any:
        if type(part) is not Affine:
            return part
        return part if (new := becomes[part]) == part else new

    return rewrite(value, change_index)


def rewrite_nodes(body: tuple[Node, ...], change: Callable[[Any], Any]) -> tuple[Node, ...]:
    """`body` with `change` applied to every loop and statement in it, as `rewrite` does, and to nothing else."""
    items = [change(_with_inner(node, change)) for node in body]
    return body if all(map(is_, items, body)) else _splice(body, items)


def _with_inner(node: Node, change: Callable[[Any], Any]) -> Node:
    if not isinstance(node, Loop):
        return node
    body = rewrite_nodes(node.body, change)
    new: Node = node if body is node.body else _with(node, {"body": body})
    return new


def change_first_list(
    body: tuple[Node, ...], change: Callable[[tuple[Node, ...]], tuple[Node, ...] | None]
) -> tuple[Node, ...] | None:
    """`body` with one list in it changed, itself or one inside: the first that `change` does not give None for."""
    if (changed := change(body)) is not None:
        return changed
    for place, node in enumerate(body):
        if isinstance(node, Loop) and (inner := change_first_list(node.body, change)) is not None:
            return (*body[:place], replace(node, body=inner), *body[place + 1 :])
    return None


def in_loops(loops: Sequence[Loop], node: Node) -> Node:
    """`node` in these loops, the last one innermost, in place of what they have inside."""
    for loop in reversed(loops):
        node = replace(loop, body=(node,))
    return node


def add_guard(body: tuple[Node, ...], condition: Condition) -> tuple[Node, ...]:
    """`body` with `condition` in front of the guard of every statement."""
    return rewrite_nodes(body, lambda v: replace(v, guard=(condition, *v.guard)) if isinstance(v, Stmt) else v)


def _splice(old: tuple[Any, ...], new: list[Any]) -> tuple[Any, ...]:
    """The items of `new`, and the items of those that are tuples where `old` has no tuple."""
    if tuple not in map(type, new):
        return tuple(new)
    whole = (
        item if type(item) is tuple and type(was) is not tuple else (item,) for was, item in zip(old, new, strict=True)
    )
    return tuple(chain.from_iterable(whole))


def _with(value: Any, new: dict[str, Any]) -> Any:
    """`value` with new fields."""
    return value._replace(**new) if isinstance(value, Condition) else replace(value, **new)


def substitute(value: T, values: Mapping[str, Affine]) -> T:
    """Every index expression in `value` with the given names replaced."""
    if not values:
        return value
    return rewrite_indices(value, lambda v: v.substitute(values))


# isinstance, asked without a call in Python: `filter` asks them of everything there is.
_is_loop, _is_stmt, _is_load = (kind.__instancecheck__ for kind in (Loop, Stmt, Load))


def loops(value: Any) -> Iterator[Loop]:
    """Every loop, outermost first, in program order."""
    return filter(_is_loop, nodes(value))


def stmts(value: Any) -> Iterator[Stmt]:
    """Every statement, in program order."""
    return filter(_is_stmt, nodes(value))


def nodes(value: Any) -> Iterator[Any]:
    """Every loop and statement in program order, and what else is around them; no extents of loops."""
    found: list[Any] = []
    _collect_nodes(value, found)
    return iter(found)


def _collect_nodes(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if issubclass(kind, Stmt):
        found.append(value)
    elif kind is Loop:
        found.append(value)
        for node in value.body:
            _collect_nodes(node, found)
    elif kind is tuple or kind is list:
        for item in value:
            _collect_nodes(item, found)
    else:
        for name in _everything[kind] or ():
            _collect_nodes(getattr(value, name), found)


def accesses(value: Any) -> tuple[Any, ...]:
    """Every access to a buffer, written or read, in program order."""
    found: list[Any] = []
    _collect_accesses(value, found)
    return tuple(found)


def _collect_accesses(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if kind is Load or kind is Access:
        found.append(value)
    elif kind is tuple or kind is list:
        for item in value:
            _collect_accesses(item, found)
    else:
        for name in _around_accesses[kind] or ():
            if held := getattr(value, name):  # neither None nor an empty tuple
                _collect_accesses(held, found)


def loads(value: Any) -> Iterator[Load]:
    """Every load, in program order."""
    return filter(_is_load, accesses(value))


def gathers(value: Any) -> Iterator[Gather]:
    """Every gather, in program order."""
    return (v for v in walk(value) if type(v) is Gather)


def leaves(body: Iterable[Node]) -> Iterator[tuple[tuple[Loop, ...], Stmt]]:
    """(enclosing loops, statement) for every statement, in program order."""
    return (found for node in body for found, _ in leaves_at(node))


def leaves_at(node: Node) -> Iterator[tuple[tuple[tuple[Loop, ...], Stmt], tuple[int, ...]]]:
    """The same for a node, each with its place: the position in each body on the way to it."""
    found: list[tuple[tuple[tuple[Loop, ...], Stmt], tuple[int, ...]]] = []
    _collect_leaves(node, (), (), found)
    return iter(found)


def _collect_leaves(node: Node, path: tuple[Loop, ...], place: tuple[int, ...], found: list[Any]) -> None:
    if not isinstance(node, Loop):
        found.append(((path, node), place))
        return
    path = (*path, node)
    for position, child in enumerate(node.body):
        _collect_leaves(child, path, (*place, position), found)


def constant_extents(value: Any) -> dict[str, int]:
    """The loops in `value` with a constant extent."""
    return {loop.name: loop.extent.const for loop in loops(value) if loop.extent.is_const}


def loop_names(tree: Tree) -> list[str]:
    """The names of the tree's loops, each once, in program order."""
    return list(dict.fromkeys(loop.name for loop in loops(tree.body)))


def find_loop(tree: Tree, name: str) -> Loop | None:
    """The first loop called `name`; the others of that name have its extent and kind."""
    return next((loop for loop in loops(tree.body) if loop.name == name), None)


def loop_around(tree: Tree, name: str, buffer: str) -> str | None:
    """The innermost loop that holds all loops called `name` in which the buffer is used."""
    around: tuple[Loop, ...] | None = None
    for path, stmt in leaves(tree.body):
        depth = next((d for d, loop in enumerate(path) if loop.name == name), None)
        if depth is not None and any(used == buffer for used, _ in (*reads(stmt), *writes(stmt))):
            shared = path[:depth] if around is None else around
            around = tuple(one for one, two in zip(shared, path[:depth], strict=False) if one is two)
    return around[-1].name if around else None


def reads(stmt: Stmt) -> Iterator[tuple[str, tuple[Affine, ...]]]:
    """(buffer, index) of every element that `stmt` reads, its own target too if it reduces."""
    for load in loads(stmt):
        yield load.buffer, load.index
    if stmt.reduce not in (None, ONLY):
        for access in (stmt.best, stmt.target) if stmt.best else (stmt.target,):
            yield access.buffer, access.index


def writes(stmt: Stmt) -> Iterator[tuple[str, tuple[Affine, ...]]]:
    """(buffer, index) of every element that `stmt` writes."""
    yield stmt.target.buffer, stmt.target.index
    for access in (stmt.best, stmt.hits and stmt.hits.access):
        if access:
            yield access.buffer, access.index
