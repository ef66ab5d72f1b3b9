"""Names in C for loops, sizes and buffers, clear of one another and of what has a meaning there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.ir.in_place import memory_of
from tilegen.ir.printing.reserved_words import fresh, means
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Combine,
    Flag,
    For,
    Function,
    If,
    Let,
    Spmd,
    Start,
    rings,
)
from tilegen.lowering.launch.timelines import RingPlace

_WORDS = {("l", True): "part", ("e", False): "element"}  # what distribute names; True of a loop


TILES = "all.tiles"  # what `names_of` calls the tiles that are dealt, all together


def names_of(launch: Launch) -> dict[str, str]:
    """The name in C of every loop, size, coordinate and buffer of `launch`; `exchanged(name)` has one, too.

    What a copy names, `A.shared.k`, is called `k` where no other name is in its way; its loop over the parts of a
    thread `part`, the number of an element `element`, a dimension without a name `axis2`.
    """
    loops = list(dict.fromkeys(name for node in launch.nodes for name in _integers(node)))
    coordinates = [name for name, _, _ in launch.coordinates]
    combined = [n for c in launch.nodes if isinstance(c, Combine) for n in (c.name, c.arg_name) if n]
    fixed = [*launch.tensors, *(s.name for s in launch.scalars), *launch.sizes, *coordinates, "tid"]
    fixed += [each.name for each in launch.maps]
    fixed += [TILES] if launch.dealt else []
    fixed += [*launch.buffers, *map(exchange_name, combined)]
    ragged = [node.name for node in launch.nodes if isinstance(node, For) and node.ends]
    fixed += map(end_name, (*ragged, *(launch.tiles if launch.ends else ())))
    plain = [name for name in loops if "." not in name]
    counted = {f.name for f in launch.nodes if isinstance(f, For)}
    functions = [f.name for f in launch.nodes if isinstance(f, Function | Flag)]
    taken = {launch.name, *(node.instruction.name for node in launch.performs)}
    names: dict[str, str] = {}
    for name in dict.fromkeys((*map(memory_of, fixed), *plain, *functions)):
        names[name] = fresh("tiles" if name == TILES else name, taken)
    names |= {name: names[memory_of(name)] for name in launch.buffers}
    around = _around(launch.body)
    for name in loops:
        if name in names:
            continue
        short = name.rpartition(".")[2]
        short = f"axis{short}" if short.isdigit() else _WORDS.get((short, name in counted), short)
        clash = any(names.get(other) == short for other in around[name])
        if short in taken or means(short) or not short.isidentifier() or clash:
            names[name] = fresh(name, taken)
        else:
            names[name] = short
    return names | {p.slot: f"{names[p.ring]}.slot" for p, _ in rings(launch.body)}


def _integers(node: Spmd) -> tuple[str, ...]:
    """The integers, and the places in rings, that a node gives names to."""
    match node:
        case For(name, ring=RingPlace() as place):
            return (place.ring, name)
        case For(name) | Let(name):
            return (name,)
        case Function(parameters=names):
            return names
        case _:
            return ()


def end_name(loop: str) -> str:
    """What the end of a loop is called that data give."""
    return f"{loop}.end"


def exchange_name(name: str) -> str:
    """What `names_of` calls the local memory, in OpenCL, through which lanes exchange what `name` is made of."""
    return f"{name}.of"


def _around(body: tuple[Spmd, ...]) -> Mapping[str, set[str]]:
    """For each name, those whose life overlaps with its own somewhere."""
    near: dict[str, set[str]] = {}
    _see(body, (), near)
    return near


def _see(nodes: Iterable[Spmd], path: tuple[str, ...], near: dict[str, set[str]]) -> None:
    for node in nodes:
        if isinstance(node, If):
            _see(node.body, path, near)
            _see(node.orelse, path, near)
        elif isinstance(node, Start):
            _see(node.body, path, near)
        elif isinstance(node, For | Function | Let):
            inner = path
            for name in _integers(node):
                _note_overlaps(near, name, inner)
                inner = (*inner, name)
            if isinstance(node, Let):
                path = inner
            else:
                _see(node.body, inner, near)


def _note_overlaps(near: dict[str, set[str]], name: str, path: tuple[str, ...]) -> None:
    """Notes that `name` lives inside of what the names in `path` stand for."""
    near.setdefault(name, set()).update(path)
    for outer in path:
        near.setdefault(outer, set()).add(name)
