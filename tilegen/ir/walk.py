"""Generic traversal: nothing here names a kind of node, so a new kind needs no edit (beyond `Loop` bodies)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from re import findall
from typing import Any, TypeVar

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Load, Loop, Node, Stmt, Tree

T = TypeVar("T")

# Fields that describe where a value came from; no traversal looks into them.
_PROVENANCE = ("span", "step", "kernel", "origin")


# Words in the annotations of fields that hold no dataclass value.
_SCALAR = {"str", "int", "float", "bool", "None", "tuple"}

# Type -> its fields that a traversal looks into, None for what is no dataclass.
_known: dict[type, tuple[str, ...] | None] = {}


def _inside(value: object) -> tuple[str, ...] | None:
    """The fields of `value` that a traversal looks into; None if it is no dataclass value."""
    kind = type(value)
    try:
        return _known[kind]
    except KeyError:
        _known[kind] = None
    if is_dataclass(value):
        names = tuple(f.name for f in fields(value) if f.name not in _PROVENANCE and not _is_scalar(f))
        _known[kind] = () if kind is Affine else names
    return _known[kind]


def _is_scalar(field: Field[Any]) -> bool:
    return isinstance(field.type, str) and set(findall(r"\w+", field.type)) <= _SCALAR


# Type -> all its fields, if it is a dataclass that holds them and does nothing else; else none.
_plain_fields: dict[type, dict[str, None]] = {}

# By the identity of a statement: the statement, and what `walk` finds in it. Steps leave most statements as they are.
_found: dict[int, tuple[Stmt, tuple[Any, ...]]] = {}
_MOST_FOUND = 20_000


def walk(value: Any, short_of: tuple[type, ...] = ()) -> Iterator[Any]:
    """`value` and every dataclass value inside it, parents first, in program order.

    What is inside of values of the kinds `short_of` is left out.
    """
    waiting = [value]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind is tuple:
            waiting += value[::-1]
        elif kind is Stmt and not short_of:
            yield from _inside_stmt(value)
        elif (names := _inside(value)) is not None:
            yield value
            if names and kind not in short_of:
                waiting += [getattr(value, name) for name in reversed(names)]


def _inside_stmt(stmt: Stmt) -> tuple[Any, ...]:
    """The statement and every dataclass value inside it; found once for each statement."""
    known = _found.get(id(stmt))
    if known is not None:
        return known[1]
    if len(_found) > _MOST_FOUND:
        _found.clear()
    names = _inside(stmt)
    assert names is not None
    found = (stmt, *walk(tuple(getattr(stmt, name) for name in names)))
    _found[id(stmt)] = (stmt, found)
    return found


def rewrite(value: T, change: Callable[[Any], Any], short_of: tuple[type, ...] = ()) -> T:
    """`value` with `change` applied to every dataclass value in it, children first.

    `change` gets a node whose children are done and returns it or its replacement; inside a tuple, a
    replacement that is itself a tuple is spliced in, so a statement can become several or none.
    Unchanged parts are the same objects as before. What is inside of values of the kinds `short_of` is left as it is.
    """
    new: T = _rewritten(value, change, short_of)
    return new


def _rewritten(value: Any, change: Callable[[Any], Any], short_of: tuple[type, ...]) -> Any:
    kind = type(value)
    if kind is tuple:
        return _rewritten_items(value, change, short_of)
    names = _known[kind] if kind in _known else _inside(value)
    if names is None:
        return value
    if names and kind not in short_of:
        new_fields = {}
        for name in names:
            old = getattr(value, name)
            if old is None:
                continue
            new = _rewritten(old, change, short_of)
            if new is not old:
                new_fields[name] = new
        if new_fields:
            value = _with(value, new_fields)
    return change(value)


def replace(value: T, /, **new: Any) -> T:
    """What `dataclasses.replace` makes, in a quarter of the time: rewriting trees is little else."""
    made: T = _with(value, new)
    return made


def _with(value: Any, new: dict[str, Any]) -> Any:
    """`value` with new fields. A dataclass that does nothing but hold its fields is made without asking it."""
    kind = type(value)
    names = _plain_fields.get(kind)
    if names is None:
        plain = not hasattr(kind, "__post_init__") and hasattr(value, "__dict__") and all(f.init for f in fields(kind))
        names = _plain_fields[kind] = {f.name: None for f in fields(kind)} if plain else {}
    if not names or not new.keys() <= names.keys():
        return dataclasses.replace(value, **new)  # which refuses what is no field
    made, held = object.__new__(kind), value.__dict__
    if len(held) > len(names):
        held = {name: held[name] for name in names}  # without what the value has worked out of them
    made.__dict__.update(held)
    made.__dict__.update(new)
    return made


def _rewritten_items(items: tuple[Any, ...], change: Callable[[Any], Any], short_of: tuple[type, ...]) -> Any:
    found: list[Any] = []
    same = True
    for item in items:
        new = _rewritten(item, change, short_of)
        if new is item:
            found.append(item)
            continue
        same = False
        if type(new) is tuple and type(item) is not tuple:
            found += new
        else:
            found.append(new)
    return items if same else tuple(found)


def substitute(value: T, values: Mapping[str, Affine]) -> T:
    """Every index expression in `value` with the given names replaced."""
    if not values:
        return value
    return rewrite(value, lambda v: v.substitute(values) if type(v) is Affine else v)


def loops(value: Any) -> Iterator[Loop]:
    """Every loop, outermost first, in program order."""
    return (v for v in nodes(value) if type(v) is Loop)


def stmts(value: Any) -> Iterator[Stmt]:
    """Every statement, in program order."""
    return (v for v in nodes(value) if type(v) is Stmt)


def nodes(value: Any) -> Iterator[Any]:
    """Every loop and statement in program order, and what else is around them; no extents of loops."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind is tuple:
            waiting += value[::-1]
        elif kind is Loop:
            yield value
            waiting += value.body[::-1]
        elif kind is Stmt:
            yield value
        else:
            waiting += [getattr(value, name) for name in reversed(_inside(value) or ())]


def loads(value: Any) -> Iterator[Load]:
    """Every load, in program order."""
    return (v for v in walk(value) if type(v) is Load)


def leaves(body: tuple[Node, ...], path: tuple[Loop, ...] = ()) -> Iterator[tuple[tuple[Loop, ...], Stmt]]:
    """(enclosing loops, statement) for every statement, in program order."""
    for node in body:
        if isinstance(node, Loop):
            yield from leaves(node.body, (*path, node))
        else:
            yield path, node


def loop_names(tree: Tree) -> list[str]:
    """The names of the tree's loops, each once, in program order."""
    return list(dict.fromkeys(loop.name for loop in loops(tree.body)))


def find_loop(tree: Tree, name: str) -> Loop | None:
    """The first loop called `name`; the others of that name have its extent and kind."""
    return next((loop for loop in loops(tree.body) if loop.name == name), None)


def loop_around(tree: Tree, name: str) -> str | None:
    """The name of the loop right around the one called `name`."""
    for loop in loops(tree.body):
        if any(isinstance(child, Loop) and child.name == name for child in loop.body):
            return loop.name
    return None


def reads(stmt: Stmt) -> Iterator[tuple[str, tuple[Affine, ...]]]:
    """(buffer, index) of every element that `stmt` reads, its own target too if it reduces."""
    for load in loads(stmt):
        yield load.buffer, load.index
    if stmt.reduce:
        for access in (stmt.best, stmt.target) if stmt.best else (stmt.target,):
            yield access.buffer, access.index


def writes(stmt: Stmt) -> Iterator[tuple[str, tuple[Affine, ...]]]:
    """(buffer, index) of every element that `stmt` writes."""
    yield stmt.target.buffer, stmt.target.index
    if stmt.best:
        yield stmt.best.buffer, stmt.best.index
